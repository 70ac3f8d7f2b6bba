# SPDX-License-Identifier: Apache-2.0
"""From a request for a sandbox to the answer of the first thing in it."""

from __future__ import annotations

from typing import Callable, List, Optional

import peers
from daemon import Daemon
from floor import Floors
from measure import Row, interleave, row, timed

SECTION = "start"


RULES = {"allow": ["example.com"]}


def first_code(daemon: Daemon, network: Optional[dict] = None) -> Callable[[], float]:
    link = daemon.unix()
    fields = {"network": network} if network else {}

    def once() -> float:
        made: List[str] = []

        def begin() -> None:
            made.append(link.create(**fields))
            link.code(made[0], "print(1)")

        daemon.settle()
        took = timed(begin)
        link.delete(made[0])
        return took

    return once


def first_exec(daemon: Daemon) -> Callable[[], float]:
    link = daemon.unix()

    def once() -> float:
        made: List[str] = []

        def begin() -> None:
            made.append(link.create())
            link.call("POST", f"/v1/sandboxes/{made[0]}/execs", {"argv": [peers.TRUE]})

        daemon.settle()
        took = timed(begin)
        link.delete(made[0])
        return took

    return once


def run(pooled: Daemon, direct: Daemon, floors: Floors, count: int) -> List[Row]:
    few = max(count // 10, 3)
    took = interleave(
        {
            "warm": (first_code(pooled), count),
            "rules": (first_code(pooled, RULES), count),
            "empty": (first_code(direct), count),
            "floor": (lambda: floors.jail.speaks() + floors.warm.life(), count),
            "python3": (peers.bare(peers.PYTHON, "-c", "print(1)"), count),
            "bwrap": (peers.bwrap(peers.PYTHON, "-c", "print(1)"), count),
            "runsc": (peers.runsc(peers.PYTHON, "-c", "print(1)"), few),
            "jupyter": (peers.jupyter_start("print(1)"), 3),
        }
    )
    true = interleave(
        {
            "warm": (first_exec(pooled), count),
            "empty": (first_exec(direct), count),
            "floor": (floors.jail.speaks, count),
            "bwrap": (peers.bwrap(peers.TRUE), count),
            "runsc": (peers.runsc(peers.TRUE), few),
        }
    )
    if not pooled.has_pool:
        took["warm"], took["rules"], true["warm"] = [], [], []
    names = {"python3": "python3 -c", "bwrap": "bwrap python3 -c", "runsc": "runsc python3 -c", "jupyter": "Jupyter kernel"}
    rows: List[Row] = []
    for kind, what, limit, limit_p99 in (("warm", "create → print(1), warm pool", 2, 10), ("empty", "create → print(1), pool empty", 5, None)):
        if not took[kind]:
            continue
        aims = {"bwrap": 10, "runsc": 80} if kind == "warm" else {}
        rows.append(row(SECTION, what, took[kind], limit=limit, limit_p99=limit_p99, peer=names["python3"], peer_took=took["python3"]))
        rows += [row(SECTION, what, took[kind], peer=names[p], peer_took=took[p], times=aims.get(p)) for p in ("bwrap", "runsc", "jupyter")]
        if kind == "empty":
            rows.append(row(SECTION, what, took[kind], peer="floor: a jail and a fork of a warm Python", peer_took=took["floor"]))
    if took["rules"]:
        rows.append(row(SECTION, "create with rules → print(1), warm pool", took["rules"], limit=4, peer="without rules", peer_took=took["warm"]))
    for kind, what in (("warm", "create + exec true, warm pool"), ("empty", "create + exec true, pool empty")):
        if true[kind]:
            rows += [row(SECTION, what, true[kind], peer=f"{p} true", peer_took=true[p]) for p in ("bwrap", "runsc")]
        if kind == "empty":
            rows.append(row(SECTION, what, true[kind], peer="floor: a jail", peer_took=true["floor"]))
    return rows
