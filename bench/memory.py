# SPDX-License-Identifier: Apache-2.0
"""Forks with memory, and pauses to disk: of a sandbox whose Python holds 100 MB, and of one with a web app that holds 64."""

from __future__ import annotations

import os
import shutil
import threading
import time
from typing import Callable, Dict, List
from urllib.parse import urlsplit

from daemon import Daemon
from floor import Floors
from link import Link, request
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


APP_MB = 64
APP_PORT = 8000
APP = f"""
import os
from http.server import BaseHTTPRequestHandler, HTTPServer
held = os.urandom({APP_MB} << 20)
class Answer(BaseHTTPRequestHandler):
    def do_GET(self):
        body = b"%d" % len(held)
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def log_message(self, *words):
        pass
HTTPServer(("127.0.0.1", {APP_PORT}), Answer).serve_forever()
"""


def ask_app(link: Link, box: str) -> None:
    """Until the app in it has answered through its preview."""
    path = urlsplit(link.call("POST", f"/v1/sandboxes/{box}/ports", {"port": APP_PORT})["url"]).path
    for _ in range(TRIES):
        if link.exchange(request("GET", path, None, link.key)).data.endswith(b"%d" % (APP_MB << 20)):
            return
        time.sleep(0.1)
    raise RuntimeError("the web app does not answer")


def app_clones(link: Link, source: str, n: int) -> Callable[[], float]:
    def once() -> float:
        made: Dict[str, list] = {}

        def both() -> None:
            made.update(link.call("POST", f"/v1/sandboxes/{source}/fork", {"count": n, "memory": True}))
            for one in made["sandboxes"]:
                ask_app(link, one["id"])

        took = timed(both)
        for one in made["sandboxes"]:
            link.delete(one["id"])
        return took

    return once


def run(daemon: Daemon, floors: Floors, count: int) -> List[Row]:
    if shutil.which("criu", path="/usr/sbin:/usr/bin") is None:
        return []
    link = daemon.unix()
    await_zygote(link)
    boxes = [link.create(limits={"memory_mib": 512}) for _ in range(4)]
    for box in boxes:
        link.code(box, LOAD)
    link.code(boxes[2], THREAD)
    app = link.create(limits={"memory_mib": 512})
    link.call("POST", f"/v1/sandboxes/{app}/execs", {"argv": ["python3", "-c", APP], "detached": True})
    ask_app(link, app)
    restores = {"resume": floors.restore(100), "app": floors.restore(APP_MB)}
    cores = os.cpu_count() or 1

    def copies(n: int) -> Callable[[], float]:
        """What the kernel and Python take for so many, on all processors."""
        return lambda: n * (floors.jail.cpu() + floors.warm.cpu()) / cores

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
        "app": (app_clones(link, app, 20), max(count // 3, 2)),
        "floor five": (copies(5), count),
        "floor ten": (copies(10), count),
        "floor resume": (restores["resume"].once, count),
        "floor app": (lambda: 20 * restores["app"].once() / cores, count),
    })
    for box in (*boxes, app):
        link.delete(box)
    for one in restores.values():
        one.close()
    return [
        row(SECTION, "a fork with 100 MB of memory", took["one"], limit=400),
        row(SECTION, "five of them, in one call", took["five"], limit=1000),
        row(SECTION, "five of them, until each has answered a call", took["imprint"], limit=100, peer="floor: five jails and forks of a warm Python", peer_took=took["floor five"]),
        row(SECTION, "the same by CRIU", took["criu"]),
        row(SECTION, "twenty, until each has answered a call", took["twenty"], limit=300),
        row(SECTION, "ten of a source that has not changed, until each has answered", took["again"], limit=30, peer="floor: ten jails and forks of a warm Python", peer_took=took["floor ten"]),
        row(SECTION, "longest call of the source while five are made", took["still"], limit=10),
        row(SECTION, "pause to disk, 100 MB, synced", took["pause"]),
        row(SECTION, "resume from there, until it has answered a call", more["resume"], limit=50, peer="floor: criu restore alone", peer_took=took["floor resume"]),
        row(SECTION, f"twenty of a web app of {APP_MB} MiB, until each has answered", took["app"], limit=300, peer="floor: criu restore alone, on all processors", peer_took=took["floor app"]),
    ]
