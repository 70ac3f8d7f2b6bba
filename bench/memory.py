# SPDX-License-Identifier: Apache-2.0
"""Forks with memory, and pauses to disk, of a sandbox whose Python holds 100 MB."""

from __future__ import annotations

import shutil
from typing import Callable, Dict, List

from daemon import Daemon
from link import Link
from measure import Row, interleave, row, timed

SECTION = "memory"
LOAD = "import os\nx = os.urandom(100_000_000)"


def fork(link: Link, source: str, n: int) -> Callable[[], float]:
    def once() -> float:
        made: Dict[str, list] = {}
        took = timed(lambda: made.update(link.call("POST", f"/v1/sandboxes/{source}/fork", {"count": n})))
        for one in made["sandboxes"]:
            link.delete(one["id"])
        return took

    return once


def pause(link: Link, box: str, took: Dict[str, list]) -> Callable[[], float]:
    """Of one that is resumed behind it, which is measured, too."""

    def once() -> float:
        paused = timed(lambda: link.call("POST", f"/v1/sandboxes/{box}/pause", {"to": "disk"}))
        took["resume"].append(timed(lambda: link.call("POST", f"/v1/sandboxes/{box}/resume", {})))
        return paused

    return once


def run(daemon: Daemon, count: int) -> List[Row]:
    if shutil.which("criu", path="/usr/sbin:/usr/bin") is None:
        return []
    link = daemon.unix()
    boxes = [link.create(limits={"memory_mib": 512}) for _ in range(2)]
    for box in boxes:
        link.code(box, LOAD)
    more: Dict[str, list] = {"resume": []}
    took = interleave({
        "one": (fork(link, boxes[0], 1), count),
        "five": (fork(link, boxes[0], 5), count),
        "pause": (pause(link, boxes[1], more), count),
    })
    for box in boxes:
        link.delete(box)
    return [
        row(SECTION, "a fork with 100 MB of memory", took["one"], limit=400),
        row(SECTION, "five of them, in one call", took["five"], limit=1000),
        row(SECTION, "pause to disk, 100 MB, synced", took["pause"]),
        row(SECTION, "resume from there", more["resume"], limit=300),
    ]
