# SPDX-License-Identifier: Apache-2.0
"""Rollouts as a trainer makes them: many short lives, of which a few hundred are alive at a time."""

from __future__ import annotations

import os
import select
import shutil
import tempfile
import time
from typing import Callable, Dict, Generator, List, Optional

import peers
from daemon import Daemon
from link import Link, Reply, request
from measure import Row, row

SECTION = "rollout"
LIVE = 256
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


def run(daemon: Daemon, count: int) -> List[Row]:
    live = min(LIVE, count)
    links = [daemon.unix() for _ in range(live)]
    all_of(links, min(count, live))  # warms caches
    took = [all_of(links, count)]
    for link in links:
        link.close()
    bwrap = bwrap_rollouts(live, count)
    peer = [bwrap()] if bwrap else []
    return [
        row(SECTION, f"{count} rollouts, {live} live", took, unit="s", limit=count / 50, peer=f"bwrap, {live} at a time", peer_took=peer),
    ]
