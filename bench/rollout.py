# SPDX-License-Identifier: Apache-2.0
"""Rollouts as a trainer makes them: many short lives, of which a few hundred are alive at a time."""

from __future__ import annotations

import os
import select
import shutil
import tempfile
import time
from typing import Callable, Dict, Generator, List, Optional, Tuple

import peers
from cores import Spent, cpus, on_cpus
from daemon import Daemon
from link import Link, Reply, request
from measure import Point, Row, row

SECTION = "rollout"
LIVE = 256
PAPER = 16  # CPUs that this machine need not have
TASK = b"6 7\n"
EXECS = ("ls -l in.txt", "read a b < in.txt; echo $((a * b)) > out.txt", "test -s out.txt")  # look, solve, check

Steps = Generator[bytes, Reply, None]


def rollout() -> Steps:
    """Create, a file in, three execs, a file out and its check, delete. The create waits if there is no room."""
    made = (yield request("POST", "/v1/sandboxes", {"wait_ms": 60000})).body()["id"]
    base = f"/v1/sandboxes/{made}"
    (yield request("PUT", f"{base}/files?path=in.txt", TASK)).body()
    for shell in EXECS:
        ran = (yield request("POST", f"{base}/execs", {"shell": shell})).body()
        if ran["exec"]["exit_code"] != 0:
            raise SystemExit(f"bench: '{shell}' failed in a rollout: {ran}")
    answer = yield request("GET", f"{base}/files?path=out.txt")
    if not answer.data.endswith(b"42\n"):
        raise SystemExit(f"bench: a rollout has a wrong answer: {answer.data[-100:]!r}")
    (yield request("DELETE", base)).body()


def all_of(links: List[Link], count: int) -> float:
    """Seconds that count rollouts take, each on one of the links."""
    poll = select.epoll()
    running: Dict[int, List] = {}
    left, start = count, time.perf_counter()

    def begin(link: Link) -> None:
        one = rollout()
        link.sock.sendall(next(one))
        running[link.sock.fileno()] = [link, one, Reply()]

    for link in links[:count]:
        poll.register(link.sock.fileno(), select.EPOLLIN)
        begin(link)
        left -= 1
    while running:
        for fd, _ in poll.poll():
            link, one, reply = running[fd]
            if not reply.take(link.sock.recv(65536)):
                continue
            try:
                link.sock.sendall(one.send(reply))
                running[fd][2] = Reply()
            except StopIteration:
                del running[fd]
                if left > 0:
                    left -= 1
                    begin(link)
    poll.close()
    return time.perf_counter() - start


def bwrap_rollouts(live: int, count: int) -> Optional[Callable[[], float]]:
    """The same with a directory for each, and bubblewrap for each exec."""
    if not peers.works("bwrap"):
        return None
    quiet = [(os.POSIX_SPAWN_OPEN, 1, "/dev/null", os.O_WRONLY, 0)]

    def steps(top: str, index: int) -> Generator[int, None, None]:
        home = os.path.join(top, str(index))
        os.mkdir(home)
        with open(os.path.join(home, "in.txt"), "wb") as f:
            f.write(TASK)
        for shell in EXECS:
            argv = [*peers.full(peers.BWRAP), "--bind", home, "/home", "--chdir", "/home", "/bin/sh", "-c", shell]
            yield os.posix_spawn(argv[0], argv, os.environ, file_actions=quiet)
        with open(os.path.join(home, "out.txt"), "rb") as f:
            if f.read() != b"42\n":
                raise SystemExit("bench: a rollout in bwrap has a wrong answer")
        shutil.rmtree(home)

    def once() -> float:
        top = tempfile.mkdtemp(prefix="cloche-bench-", dir="/var/tmp")
        running: Dict[int, Generator[int, None, None]] = {}
        begun, start = 0, time.perf_counter()
        while running or begun < count:
            while begun < count and len(running) < live:
                one = steps(top, begun)
                running[next(one)] = one
                begun += 1
            pid, status = os.waitpid(-1, 0)
            one = running.pop(pid)
            if status != 0:
                raise SystemExit("bench: bwrap failed in a rollout")
            following = next(one, None)
            if following is not None:
                running[following] = one
        took = time.perf_counter() - start
        os.rmdir(top)
        return took

    return once


def measured(daemon: Daemon, live: int, count: int) -> Tuple[float, Spent]:
    """Seconds, and the CPU time that went into them."""
    links = [daemon.unix() for _ in range(live)]
    all_of(links, min(count, live))  # warms caches
    daemon.settle()
    spent = Spent(daemon)
    took = all_of(links, count)
    spent.stop()
    for link in links:
        link.close()
    return took, spent


def on_paper(spent: Spent, count: int) -> List[Row]:
    """How many a second a larger machine can give at most: all its CPUs at work, unless the busiest thread, which has one CPU, is behind."""
    each, serial = spent.all_s / count, max(spent.busiest_s / count, 1e-6)
    return [
        row(SECTION, "CPU time of a rollout, without the client's", [each * 1000]),
        row(SECTION, f"of it the daemon's busiest thread, {spent.busiest}", [serial * 1000]),
        row(SECTION, f"rollouts a second at most, {cpus(PAPER)}, on paper", [min(PAPER / each, 1 / serial)], unit="/s", more_is_better=True,
            point=Point("rollouts", "on paper", PAPER)),
    ]


def run(daemon: Daemon, build: str, count: int) -> List[Row]:
    live, most = min(LIVE, count), len(os.sched_getaffinity(0))
    bwrap = bwrap_rollouts(live, count)

    def curve(n: int, took: float, peer: List[float]) -> Row:
        return row(SECTION, f"rollouts a second, {cpus(n)}", [count / took], unit="/s", more_is_better=True, peer="bwrap",
                   peer_took=[count / s for s in peer], point=Point("rollouts", "measured", n))

    took, spent = measured(daemon, live, count)
    peer = [bwrap()] if bwrap else []
    rows = [row(SECTION, f"{count} rollouts, {live} live", [took], unit="s", limit=count / 50, peer=f"bwrap, {live} at a time", peer_took=peer)]
    if most > 1:
        with on_cpus(1):
            alone = Daemon(build, pool=True)
            try:
                took_alone, _ = measured(alone, live, count)
            finally:
                alone.close()
            peer_alone = [bwrap()] if bwrap else []
        rows.append(curve(1, took_alone, peer_alone))
    return [*rows, curve(most, took, peer), *on_paper(spent, count)]
