# SPDX-License-Identifier: Apache-2.0
"""Forks with memory, and pauses to disk, of a sandbox whose Python holds 100 MB."""

from __future__ import annotations

import shutil
import threading
import time
from typing import Callable, Dict, List

from daemon import Daemon
from link import Link
from measure import Row, interleave, row, timed

SECTION = "memory"
TRIES = 30
CALL_EVERY_S = 0.002
LOAD = "import os\nx = os.urandom(100_000_000)"
# With a thread its memory is no imprint, and goes by CRIU.
THREAD = "import threading\nthreading.Thread(target=threading.Event().wait, daemon=True).start()"


def fork(link: Link, source: str, n: int) -> Callable[[], float]:
    def once() -> float:
        made: Dict[str, list] = {}
        took = timed(lambda: made.update(link.call("POST", f"/v1/sandboxes/{source}/fork", {"count": n})))
        for one in made["sandboxes"]:
            link.delete(one["id"])
        return took

    return once


def await_zygote(link: Link) -> None:
    """Of the daemon, which has just begun."""
    for _ in range(TRIES):
        box = link.create()
        link.code(box, "1")
        made = link.call("POST", f"/v1/sandboxes/{box}/fork", {"count": 1})
        for one in [box, *(fork["id"] for fork in made["sandboxes"])]:
            link.delete(one)
        if made["memory_by"] == "imprint":
            return
        time.sleep(1)
    raise RuntimeError(f"no fork is an imprint: {made['memory_why']}")


def answering(link: Link, source: str, n: int, way: str, changed: bool = True) -> Callable[[], float]:
    """Until each of them has answered a call about what it holds. changed: the source has run a call since its last fork."""

    def once() -> float:
        made: Dict[str, list] = {}
        if changed:
            link.code(source, "y = 1")

        def both() -> None:
            made.update(link.call("POST", f"/v1/sandboxes/{source}/fork", {"count": n}))
            for one in made["sandboxes"]:
                link.code(one["id"], "len(x)")

        took = timed(both)
        if made["memory_by"] != way:
            raise RuntimeError(f"a fork went by {made['memory_by']}: {made['memory_why']}")
        for one in made["sandboxes"]:
            link.delete(one["id"])
        return took

    return once


def standing_still(daemon: Daemon, link: Link, source: str) -> Callable[[], float]:
    """The longest that a call of the source waits while five copies are made: calls come one behind the other."""

    def once() -> float:
        made: Dict[str, list] = {}
        took: List[float] = []
        over = threading.Event()

        def call() -> None:
            other = daemon.unix()
            while not over.is_set():
                took.append(timed(lambda: other.code(source, "1")))
                time.sleep(CALL_EVERY_S)  # else no moment is idle, and the fork goes by CRIU
            other.close()

        calls = threading.Thread(target=call)
        calls.start()
        try:
            for _ in range(TRIES):
                took.clear()
                made.update(link.call("POST", f"/v1/sandboxes/{source}/fork", {"count": 5}))
                for one in made["sandboxes"]:
                    link.delete(one["id"])
                if made["memory_by"] == "imprint":
                    break
        finally:
            over.set()
            calls.join()
        return max(took)

    return once


def pause(link: Link, box: str, took: Dict[str, list]) -> Callable[[], float]:
    """Of one that is resumed behind it, until it has answered a call, which is measured, too."""

    def resume() -> None:
        link.call("POST", f"/v1/sandboxes/{box}/resume", {})
        link.code(box, "len(x)")

    def once() -> float:
        paused = timed(lambda: link.call("POST", f"/v1/sandboxes/{box}/pause", {"to": "disk"}))
        took["resume"].append(timed(resume))
        return paused

    return once


def run(daemon: Daemon, count: int) -> List[Row]:
    if shutil.which("criu", path="/usr/sbin:/usr/bin") is None:
        return []
    link = daemon.unix()
    await_zygote(link)
    boxes = [link.create(limits={"memory_mib": 512}) for _ in range(4)]
    for box in boxes:
        link.code(box, LOAD)
    link.code(boxes[2], THREAD)
    more: Dict[str, list] = {"resume": []}
    took = interleave({
        "one": (fork(link, boxes[0], 1), count),
        "five": (fork(link, boxes[0], 5), count),
        "imprint": (answering(link, boxes[0], 5, "imprint"), count),
        "twenty": (answering(link, boxes[0], 20, "imprint"), count),
        "again": (answering(link, boxes[3], 10, "imprint", changed=False), count),
        "still": (standing_still(daemon, link, boxes[0]), count),
        "criu": (answering(link, boxes[2], 5, "criu"), count),
        "pause": (pause(link, boxes[1], more), count),
    })
    for box in boxes:
        link.delete(box)
    return [
        row(SECTION, "a fork with 100 MB of memory", took["one"], limit=400),
        row(SECTION, "five of them, in one call", took["five"], limit=1000),
        row(SECTION, "five of them, until each has answered a call", took["imprint"], limit=100),
        row(SECTION, "the same by CRIU", took["criu"]),
        row(SECTION, "twenty, until each has answered a call", took["twenty"], limit=300),
        row(SECTION, "ten of a source that has not changed, until each has answered", took["again"], limit=30),
        row(SECTION, "longest call of the source while five are made", took["still"], limit=10),
        row(SECTION, "pause to disk, 100 MB, synced", took["pause"]),
        row(SECTION, "resume from there, until it has answered a call", more["resume"], limit=50),
    ]
