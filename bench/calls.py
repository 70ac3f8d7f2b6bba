# SPDX-License-Identifier: Apache-2.0
"""A call in an interpreter that is already there."""

from __future__ import annotations

from typing import List

import peers
from daemon import Daemon
from link import Link, request
from measure import Row, interleave, row, timed

SECTION = "hot call"


def hot(link: Link, sandbox: str, code: str, language: str = "python"):
    link.code(sandbox, code, language)
    data = request("POST", f"/v1/sandboxes/{sandbox}/code", {"code": code, "language": language}, link.key)
    return lambda: timed(lambda: link.exchange(data))


def floor(link: Link):
    data = request("GET", "/v1/health", None, link.key)
    return lambda: timed(lambda: link.exchange(data))


def run(daemon: Daemon, count: int) -> List[Row]:
    unix, tcp = daemon.unix(), daemon.tcp()
    sandbox = unix.create()
    kernel = peers.Jupyter() if peers.Jupyter.is_there() else None
    try:
        took = interleave(
            {
                "unix": (hot(unix, sandbox, "1+1"), count),
                "tcp": (hot(tcp, sandbox, "1+1"), count),
                "print": (hot(unix, sandbox, "print(1)"), count),
                "bash": (hot(unix, sandbox, ":", "bash"), count),
                "floor unix": (floor(unix), count),
                "floor tcp": (floor(tcp), count),
                "jupyter": ((lambda: timed(lambda: kernel.run("1+1"))) if kernel else None, count),
            },
            block=10,
        )
    finally:
        if kernel:
            kernel.close()
        unix.delete(sandbox)
    jupyter = {"peer": "Jupyter kernel, 1+1", "peer_took": took["jupyter"]}
    return [
        row(SECTION, "1+1, unix socket", took["unix"], limit=0.3, times=15, **jupyter),
        row(SECTION, "1+1, TCP keep-alive", took["tcp"], limit=0.3, times=15, **jupyter),
        row(SECTION, "print(1), unix socket", took["print"], **jupyter),
        row(SECTION, ": in bash, unix socket", took["bash"]),
        row(SECTION, "floor: GET /v1/health, unix socket", took["floor unix"]),
        row(SECTION, "floor: GET /v1/health, TCP", took["floor tcp"]),
    ]
