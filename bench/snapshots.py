# SPDX-License-Identifier: Apache-2.0
"""Saving a sandbox's files, starting from what was saved, and forks, with 10,000 files in it."""

from __future__ import annotations

import os
from typing import Callable, Dict, List

from daemon import Daemon
from floor import Floors
from link import Link
from measure import Row, interleave, row, timed

SECTION = "snapshots"
FILES = 10_000
FORKS = 20


def save(link: Link, source: str) -> Callable[[], float]:
    def once() -> float:
        link.call("POST", f"/v1/sandboxes/{source}/execs", {"shell": "echo $$ > d/1"})
        made: Dict[str, str] = {}
        took = timed(lambda: made.update(link.call("POST", f"/v1/sandboxes/{source}/snapshots", {})))
        link.call("DELETE", f"/v1/snapshots/{made['id']}")
        return took

    return once


def start(link: Link, body: Dict[str, str]) -> Callable[[], float]:
    def once() -> float:
        made: Dict[str, str] = {}
        took = timed(lambda: made.update(link.call("POST", "/v1/sandboxes", body)))
        link.delete(made["id"])
        return took

    return once


def fork(link: Link, source: str) -> Callable[[], float]:
    """Milliseconds for each of FORKS."""

    def once() -> float:
        made: Dict[str, list] = {}
        took = timed(lambda: made.update(link.call("POST", f"/v1/sandboxes/{source}/fork", {"count": FORKS, "memory": False})))
        for one in made["sandboxes"]:
            link.delete(one["id"])
        return took / FORKS

    return once


def run(daemon: Daemon, floors: Floors, count: int) -> List[Row]:
    link = daemon.unix()
    source = link.create()
    link.call("POST", f"/v1/sandboxes/{source}/execs", {"shell": f"mkdir d; for i in $(seq {FILES}); do echo $i > d/$i; done"})
    saved = link.call("POST", f"/v1/sandboxes/{source}/snapshots", {})["id"]
    took = interleave({
        "save": (save(link, source), count),
        "from": (start(link, {"snapshot": saved}), count),
        "template": (start(link, {}), count),
        "fork": (fork(link, source), max(count // 10, 3)),
        "floor": (lambda: floors.jail.cpu() / (os.cpu_count() or 1), count),
    })
    link.call("DELETE", f"/v1/snapshots/{saved}")
    link.delete(source)
    return [
        row(SECTION, f"snapshot of {FILES:,} files, on disk", took["save"], limit=20),
        row(SECTION, "create from it, without a pool", took["from"], peer="from a template, without a pool", peer_took=took["template"]),
        row(SECTION, f"a fork of its files, each of {FORKS}", took["fork"], limit=3, peer="floor: a jail's CPU over all processors", peer_took=took["floor"]),
    ]
