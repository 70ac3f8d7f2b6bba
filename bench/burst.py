# SPDX-License-Identifier: Apache-2.0
"""Many creates at the same instant: all are served, and how long the last one waits."""

from __future__ import annotations

import os
import select
import time
from typing import Callable, Dict, List, Optional, Tuple

import peers
from daemon import Daemon
from link import Link, Reply, request
from measure import Row, interleave, row

SECTION = "burst"


def at_once(links: List[Link], data: bytes) -> Tuple[List[float], List[str]]:
    """Sends the same request over every link; milliseconds until each reply, in the order they came, and the ids."""
    replies: Dict[int, Tuple[Link, Reply]] = {link.sock.fileno(): (link, Reply()) for link in links}
    poll = select.epoll()
    took, ids = [], []
    start = time.perf_counter()
    for link in links:
        link.sock.sendall(data)
    for fd in replies:
        poll.register(fd, select.EPOLLIN)
    while replies:
        for fd, _ in poll.poll():
            link, reply = replies[fd]
            if reply.take(link.sock.recv(65536)):
                took.append((time.perf_counter() - start) * 1000)
                ids.append(reply.body()["id"])
                poll.unregister(fd)
                del replies[fd]
    poll.close()
    return took, ids


def bwrap_at_once(count: int) -> Optional[Callable[[], float]]:
    """Milliseconds until the last of count processes in bubblewrap has ended."""
    if not peers.works("bwrap"):
        return None
    argv = [*peers.full(peers.BWRAP), peers.TRUE]

    def once() -> float:
        start = time.perf_counter()
        for pid in [os.posix_spawn(argv[0], argv, os.environ) for _ in range(count)]:
            os.waitpid(pid, 0)
        return (time.perf_counter() - start) * 1000

    return once


def run(daemon: Daemon, rounds: int) -> List[Row]:
    links = [daemon.unix() for _ in range(100)]
    data = request("POST", "/v1/sandboxes", {})
    firsts: Dict[int, List[float]] = {50: [], 100: []}

    def burst(count: int) -> Callable[[], float]:
        def once() -> float:
            daemon.settle()
            took, ids = at_once(links[:count], data)
            for one in ids:
                links[0].delete(one)
            firsts[count].append(took[0])
            return took[-1]

        return once

    last = interleave(
        {
            "50": (burst(50), rounds),
            "100": (burst(100), rounds),
            "bwrap 50": (bwrap_at_once(50), rounds),
            "bwrap 100": (bwrap_at_once(100), rounds),
        }
    )
    for link in links:
        link.close()
    rows = []  # the first figure of `firsts` is of the warm-up
    for n, limit in ((50, None), (100, 600)):
        rows.append(row(SECTION, f"{n} creates at once, first", firsts[n][1:]))
        rows.append(row(SECTION, f"{n} creates at once, last", last[str(n)], limit=limit, peer=f"{n} × bwrap true", peer_took=last[f"bwrap {n}"]))
    return rows
