# SPDX-License-Identifier: Apache-2.0
"""Whole lives of sandboxes, by several clients at the same time, per second."""

from __future__ import annotations

import os
import select
import time
from typing import Callable, Dict, Generator, List, Optional

import peers
from daemon import Daemon
from floor import Floors
from link import Link, Reply, request
from machine import Account
from measure import Row, interleave, row

SECTION = "throughput"
CLIENTS = 8
SLICE_S = 1.0

Steps = Generator[bytes, Reply, None]


def life(code: str) -> Steps:
    """A sandbox from create to delete: requests out, replies in."""
    made = (yield request("POST", "/v1/sandboxes", {})).body()["id"]
    ran = (yield request("POST", f"/v1/sandboxes/{made}/code", {"code": code})).body()
    if ran["status"] != "ok":
        raise SystemExit(f"bench: the code failed: {ran['error']}")
    (yield request("DELETE", f"/v1/sandboxes/{made}")).body()


def one_call() -> Steps:
    (yield request("POST", "/v1/run", {"argv": [peers.TRUE]})).body()


def per_second(links: List[Link], steps: Callable[[], Steps]) -> float:
    """How many are run in a slice of time, one after the other on each link."""
    poll = select.epoll()
    running: Dict[int, List] = {}
    done, start = 0, time.perf_counter()

    def begin(link: Link) -> None:
        one = steps()
        link.sock.sendall(next(one))
        running[link.sock.fileno()] = [link, one, Reply()]

    for link in links:
        poll.register(link.sock.fileno(), select.EPOLLIN)
        begin(link)
    while running:
        for fd, _ in poll.poll():
            link, one, reply = running[fd]
            if not reply.take(link.sock.recv(65536)):
                continue
            try:
                link.sock.sendall(one.send(reply))
                running[fd][2] = Reply()
            except StopIteration:
                done += 1
                del running[fd]
                if time.perf_counter() - start < SLICE_S:
                    begin(link)
    poll.close()
    return done / (time.perf_counter() - start)


def bwrap_per_second(*words: str) -> Optional[Callable[[], float]]:
    if not peers.works("bwrap"):
        return None
    argv = [*peers.full(peers.BWRAP), *words]
    quiet = [(os.POSIX_SPAWN_OPEN, 1, "/dev/null", os.O_WRONLY, 0)]

    def once() -> float:
        start, done, running = time.perf_counter(), 0, 0
        while running or time.perf_counter() - start < SLICE_S:
            while running < CLIENTS and time.perf_counter() - start < SLICE_S:
                os.posix_spawn(argv[0], argv, os.environ, file_actions=quiet)
                running += 1
            os.waitpid(-1, 0)
            running, done = running - 1, done + 1
        return done / (time.perf_counter() - start)

    return once


def cpu_of_life(account: Account, links: List[Link]) -> Optional[Callable[[], float]]:
    """Milliseconds of CPU, the client's among them. What the kernel leaves to its own threads is not in it."""
    if not account.is_there:
        return None

    def once() -> float:
        start, before = time.perf_counter(), account.used_ms()
        rate = per_second(links, lambda: life("print(1)"))
        return (account.used_ms() - before) / (rate * (time.perf_counter() - start))

    return once


def run(daemon: Daemon, account: Account, floors: Floors, rounds: int) -> List[Row]:
    links = [daemon.unix() for _ in range(CLIENTS)]
    took = interleave(
        {
            "life": (lambda: per_second(links, lambda: life("print(1)")), rounds),
            "run": (lambda: per_second(links, one_call), rounds),
            "cpu": (cpu_of_life(account, links), rounds),
            "floor": (lambda: floors.jail.cpu() + floors.warm.cpu(), rounds * 20),
            "bwrap python3": (bwrap_per_second(peers.PYTHON, "-c", "print(1)"), rounds),
            "bwrap true": (bwrap_per_second(peers.TRUE), rounds),
        }
    )
    for link in links:
        link.close()
    rate = {"unit": "/s", "more_is_better": True}
    python = {"peer": f"bwrap python3 -c, {CLIENTS} at a time", "peer_took": took["bwrap python3"]}
    true = {"peer": f"bwrap true, {CLIENTS} at a time", "peer_took": took["bwrap true"]}
    rows = [
        row(SECTION, f"create + print(1) + delete, {CLIENTS} clients", took["life"], limit=300, **rate, **python),
        row(SECTION, f"POST /v1/run true, {CLIENTS} clients", took["run"], times=1, **rate, **true),
    ]
    if took["cpu"]:
        rows.append(row(SECTION, "CPU of a create + print(1) + delete", took["cpu"], limit=4, peer="floor: a jail and a fork of a warm Python", peer_took=took["floor"]))
    return rows
