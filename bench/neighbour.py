# SPDX-License-Identifier: Apache-2.0
"""What one sandbox costs another when it uses up all that it has: the same calls with and without it, in turns."""

from __future__ import annotations

from typing import Dict, List

import peers
from calls import hot
from daemon import Daemon
from link import Link, request
from measure import Row, row, timed

SECTION = "neighbour"
LIMITS = {"memory_mib": 96, "pids": 40, "disk_mib": 64, "vcpus": 0.5}
BLOCK = 10  # calls of each kind before it is the other's turn
# Each goes on until it is killed, whatever it meets.
ABUSES: Dict[str, str] = {
    "fork bomb": "f() { f | f & wait; }; while :; do f; done 2>/dev/null",
    "memory bomb": "while :; do python3 -c 'a = []\nwhile True: a.append(bytearray(1 << 20))'; done 2>/dev/null",
    "disk filler": "while :; do cat /dev/zero > fill; rm fill; done 2>/dev/null",
    "deaf sleeper": "trap '' TERM INT HUP; while :; do sleep 1; done",
    "output flood": "exec yes",
}


def against(link: Link, neighbour: str, command: str, rounds: int) -> Dict[str, List[float]]:
    """Milliseconds of an exec and of a call of code: alone, and beside the command in another sandbox."""
    exec_data = request("POST", f"/v1/sandboxes/{neighbour}/execs", {"argv": [peers.TRUE]})
    code = hot(link, neighbour, "1+1")
    took: Dict[str, List[float]] = {"exec alone": [], "exec beside": [], "code alone": [], "code beside": []}
    abuser = link.create(limits=LIMITS)
    try:
        for _ in range(rounds):
            for when in ("alone", "beside"):
                if when == "beside":
                    running = link.call("POST", f"/v1/sandboxes/{abuser}/execs", {"shell": command, "detached": True})["exec"]["id"]
                took[f"exec {when}"] += [timed(lambda: link.exchange(exec_data)) for _ in range(BLOCK)]
                took[f"code {when}"] += [code() for _ in range(BLOCK)]
            link.call("DELETE", f"/v1/sandboxes/{abuser}/execs/{running}")
    finally:
        link.delete(abuser)
    return took


def run(daemon: Daemon, count: int) -> List[Row]:
    link = daemon.unix()
    neighbour = link.create()
    link.code(neighbour, "1")
    rows = []
    for name, command in ABUSES.items():
        took = against(link, neighbour, command, max(count // BLOCK, 1))
        for what in ("exec true", "1+1"):
            kind = "exec" if what == "exec true" else "code"
            rows.append(row(SECTION, f"{what} beside a {name}" if name[0] not in "aeiou" else f"{what} beside an {name}", took[f"{kind} beside"],
                            peer="the same, alone", peer_took=took[f"{kind} alone"], times=0.5))
    link.delete(neighbour)
    return rows
