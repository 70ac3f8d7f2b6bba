# SPDX-License-Identifier: Apache-2.0
"""How the figures grow: with live sandboxes, with the memory of one, with the CPUs of the machine, and with sandboxes that are paused to disk.

Each row is a point of a curve. bench/chart.py draws them."""

from __future__ import annotations

import os
import random
import shutil
from typing import Callable, Dict, List, Sequence

import peers
from calls import hot
from cores import cpus, on_cpus
from daemon import Daemon, parts
from density import pss_mib
from link import Link, request
from measure import Point, Row, row, timed
from memory import answering, await_zygote
from throughput import CLIENTS, life, per_second

SECTION = "growth"
LIVE = (1, 10, 100, 1000)
STATE_MB = (1, 8, 64, 256, 512)
PAUSED = (1, 10, 100, 1000, 10_000)
DISK_KEPT = 16 << 30  # that those which are paused leave free
RANDOM_BYTES = "import os\nx = os.urandom({mb} * 1_000_000)"  # which cannot be compressed
ZIPF = 1.1  # how unevenly paused sandboxes are called: the k-th as often as 1 / k ** ZIPF


def up_to(points: Sequence[int], most: int) -> List[int]:
    return [n for n in points if n <= most] or [points[0]]


def first_print(daemon: Daemon, link: Link) -> Callable[[], float]:
    def once() -> float:
        made: List[str] = []

        def begin() -> None:
            made.append(link.create())
            link.code(made[0], "print(1)")

        daemon.settle()
        took = timed(begin)
        link.delete(made[0])
        return took

    return once


def with_live(daemon: Daemon, most: int, count: int) -> List[Row]:
    link, ids, rows = daemon.unix(), [], []
    try:
        for n in up_to(LIVE, most):
            while len(ids) < n:
                ids.append(link.create())
                link.code(ids[-1], "1")
            create, call = first_print(daemon, link), hot(link, ids[0], "1+1")
            exec_true = request("POST", f"/v1/sandboxes/{ids[0]}/execs", {"argv": [peers.TRUE]}, link.key)
            took = {
                "create → print(1)": [create() for _ in range(count)],
                "exec true": [timed(lambda: link.exchange(exec_true)) for _ in range(count)],
                "1+1": [call() for _ in range(count * 5)],
            }
            rows += [row(SECTION, f"{what}, {n} live", times, point=Point("live", what, n)) for what, times in took.items()]
    finally:
        for one in ids:
            link.delete(one)
    return rows


def wake(link: Link, box: str) -> float:
    def until_it_answers() -> None:
        link.call("POST", f"/v1/sandboxes/{box}/resume", {})
        link.code(box, "len(x)")

    return timed(until_it_answers)


def pause(link: Link, box: str) -> float:
    return timed(lambda: link.call("POST", f"/v1/sandboxes/{box}/pause", {"to": "disk"}))


def with_state(daemon: Daemon, most: int, count: int) -> List[Row]:
    link, rows = daemon.unix(), []
    await_zygote(link)
    for mb in up_to(STATE_MB, most):
        box = link.create(limits={"memory_mib": 128 + 2 * mb})
        link.code(box, RANDOM_BYTES.format(mb=mb))
        fork = answering(link, box, 1, "imprint")
        took: Dict[str, List[float]] = {"fork": [fork() for _ in range(count)], "pause": [], "wake": []}
        for _ in range(count):
            took["pause"].append(pause(link, box))
            took["wake"].append(wake(link, box))
        link.delete(box)
        words = {"fork": "a fork, until it has answered", "pause": "pause to disk", "wake": "resume from disk, until it has answered"}
        rows += [row(SECTION, f"{words[what]}, {mb} MB", times, point=Point("state", words[what], mb)) for what, times in took.items()]
    return rows


def daemon_mib(daemon: Daemon) -> float:
    """Of all processes of the daemon itself."""
    return sum(pss_mib(pid) for pid in parts(daemon))


def disk_mib(daemon: Daemon) -> float:
    """Of the daemon's data."""
    return sum(os.lstat(os.path.join(path, name)).st_blocks * 512 for path, _dirs, names in os.walk(daemon.dir / "data") for name in names) / (1 << 20)


def with_paused(daemon: Daemon, most: int, count: int) -> List[Row]:
    link, ids, rows, chance = daemon.unix(), [], [], random.Random(1)
    try:
        for n in up_to(PAUSED, most):
            while len(ids) < n and shutil.disk_usage(daemon.dir).free > DISK_KEPT:
                ids.append(link.create())
                link.code(ids[-1], "x = [1]")
                pause(link, ids[-1])
            if len(ids) < n:
                print(f"bench: {len(ids)} Pythons are paused: more would leave less than {DISK_KEPT >> 30} GiB of the disk free")
                break
            memory, disk = daemon_mib(daemon), disk_mib(daemon)
            took = []
            for one in chance.choices(ids, [1 / k**ZIPF for k in range(1, n + 1)], k=count):
                took.append(wake(link, one))
                pause(link, one)
            rows.append(row(SECTION, f"wake of one of {n} paused Pythons", took, limit=30, limit_p99=300, point=Point("paused", "wake", n)))
            rows.append(row(SECTION, f"memory of the daemon, {n} paused", [memory], unit="MiB"))
            rows.append(row(SECTION, f"disk of the daemon, {n} paused", [disk], unit="MiB"))
    finally:
        for one in ids:
            link.delete(one)
    return rows


def with_cpus(build: str, count: int) -> List[Row]:
    rows = []
    for n in sorted({1, len(os.sched_getaffinity(0))}):
        with on_cpus(n):
            daemon = Daemon(build, pool=True)
            try:
                links = [daemon.unix() for _ in range(CLIENTS)]
                per_second(links, lambda: life("print(1)"))
                rates = [per_second(links, lambda: life("print(1)")) for _ in range(max(count // 3, 2))]
                box = links[0].create()
                call = hot(links[0], box, "1+1")
                calls = [call() for _ in range(count * 10)]
            finally:
                daemon.close()
        rows.append(row(SECTION, f"lives a second, {CLIENTS} clients, {cpus(n)}", rates, unit="/s", more_is_better=True))
        rows.append(row(SECTION, f"1+1, {cpus(n)}", calls))
    return rows


def run(pooled: Daemon, direct: Daemon, build: str, count: int, live: int, state_mb: int, paused: int) -> List[Row]:
    rows = with_live(pooled, live, count)
    if shutil.which("criu", path="/usr/sbin:/usr/bin"):
        rows += with_state(direct, state_mb, max(count // 4, 2))
        rows += with_paused(direct, paused, count)
    return rows + with_cpus(build, count)
