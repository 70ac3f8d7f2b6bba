# SPDX-License-Identifier: Apache-2.0
"""A command in a sandbox that is already there, beside the same process started in its namespaces and on the host."""

from __future__ import annotations

from typing import List

import peers
from daemon import Daemon
from link import request
from measure import Row, interleave, row, timed

SECTION = "exec"

# Starts the program from a process in the sandbox; its limits, filter and root are the same.
INSIDE = """
import json, os, time
def once():
    start = time.perf_counter()
    os.waitpid(os.posix_spawn("/usr/bin/true", ["/usr/bin/true"], os.environ), 0)
    return (time.perf_counter() - start) * 1000
"""


def run(daemon: Daemon, count: int) -> List[Row]:
    link = daemon.unix()
    sandbox = link.create()
    data = request("POST", f"/v1/sandboxes/{sandbox}/execs", {"argv": [peers.TRUE]})
    link.code(sandbox, INSIDE)
    took = interleave(
        {
            "exec": (lambda: timed(lambda: link.exchange(data)), count),
            "inside": (lambda: float(link.code(sandbox, "print(json.dumps(once()))")["stdout"]), count),
            "host": (peers.bare(peers.TRUE), count),
            "bwrap": (peers.bwrap(peers.TRUE), count),
        }
    )
    link.delete(sandbox)
    return [
        row(SECTION, "exec true", took["exec"], peer="posix_spawn inside", peer_took=took["inside"], times=0.5),
        row(SECTION, "exec true", took["exec"], peer="posix_spawn on the host", peer_took=took["host"]),
        row(SECTION, "exec true", took["exec"], peer="bwrap true", peer_took=took["bwrap"]),
    ]
