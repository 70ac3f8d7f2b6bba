# SPDX-License-Identifier: Apache-2.0
"""What one tenant's flood costs another: the same calls of project B alone and beside a flood of project A, in turns."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Callable, Dict, Iterator, List, Tuple

import peers
from daemon import Daemon
from link import Link, request
from measure import Row, p99, row, timed

SECTION = "fairness"
CALLS = ("create", "exec true", "1+1")
CALLS_A_CREATE = 4
ROUNDS = 3  # alone and beside, in turns
BLOCK_S = 2  # of each
UNDER_WAY_S = 0.5  # from a flood's first answer until B is measured beside it
UPLOAD_BYTES = 8 << 20
FILL = "mkdir many; cd many; i=0; while [ $i -lt 2000 ]; do echo $i > f$i; i=$((i+1)); done; head -c 32M /dev/zero > big"
# Clients would be on other machines. A's many get what CPU time the rest leaves; B's one, which is measured, waits for no CPU.
NICENESS_A = 19
NICENESS_B = -19
AUTOGROUP = Path("/proc/self/autogroup")  # with autogroups (sched(7)) a niceness only holds within a session, so theirs is one of their own and has it too


@dataclass
class Tenant:
    daemon: Daemon
    key: str

    def link(self) -> Link:
        return Link(("127.0.0.1", self.daemon.port), self.key)

    def delete_all(self) -> None:
        link = self.link()
        while True:
            ids = [one["id"] for one in link.call("GET", "/v1/sandboxes?state=running")["sandboxes"]]
            for one in ids:
                link.delete(one)
            if not ids:
                return


def tenant(daemon: Daemon, name: str) -> Tenant:
    admin = daemon.tcp()
    project = admin.call("POST", "/v1/projects", {"name": name})["id"]
    made = admin.call("POST", "/v1/keys", {"name": name, "scope": "admin", "project": project})
    return Tenant(daemon, made["secret"])


def create_loop(a: Tenant, is_under_way: threading.Event) -> None:
    link = a.link()
    while True:
        link.delete(link.create())
        is_under_way.set()


def output_flood(a: Tenant, is_under_way: threading.Event) -> None:
    link = a.link()
    link.call("POST", f"/v1/sandboxes/{link.create()}/execs", {"argv": ["/usr/bin/yes"], "detached": True})
    is_under_way.set()


def repeat(data: bytes, link: Link, is_under_way: threading.Event) -> None:
    while True:
        link.exchange(data)
        is_under_way.set()


def upload_loop(a: Tenant, is_under_way: threading.Event) -> None:
    link = a.link()
    path = f"/v1/sandboxes/{link.create()}/files?path=big"
    repeat(request("PUT", path, b"x" * UPLOAD_BYTES, a.key), link, is_under_way)


def code_loop(a: Tenant, is_under_way: threading.Event) -> None:
    link = a.link()
    path = f"/v1/sandboxes/{link.create()}/code"
    repeat(request("POST", path, {"code": "1+1"}, a.key), link, is_under_way)


def big_delete_loop(a: Tenant, is_under_way: threading.Event) -> None:
    link = a.link()
    while True:
        sandbox = link.create()
        link.call("POST", f"/v1/sandboxes/{sandbox}/execs", {"shell": FILL})
        link.delete(sandbox)
        is_under_way.set()


FLOODS: Dict[str, Tuple[Callable[[Tenant, threading.Event], None], int]] = {
    "32 create loops": (create_loop, 32),
    "16 output floods": (output_flood, 16),
    "8 upload loops": (upload_loop, 8),
    "16 code loops": (code_loop, 16),
    "4 loops of big deletes": (big_delete_loop, 4),
}


def flood_process(a: Tenant, name: str) -> Tuple[int, int]:
    """The pid of a process that floods until it is killed, and an fd from which a byte comes when it does."""
    loop, count = FLOODS[name]
    read, write = os.pipe()
    pid = os.fork()
    if pid > 0:
        os.close(write)
        return pid, read
    try:
        set_niceness(NICENESS_A)
        is_under_way = threading.Event()
        for _ in range(count):
            threading.Thread(target=loop, args=(a, is_under_way), daemon=True).start()
        is_under_way.wait()
        os.write(write, b"1")
        signal.pause()
    finally:
        os._exit(1)


@contextmanager
def flood(a: Tenant, name: str) -> Iterator[None]:
    pid, read = flood_process(a, name)
    try:
        if not os.read(read, 1):
            raise SystemExit(f"bench: no {name}")
        time.sleep(UNDER_WAY_S)
        yield
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        os.close(read)
        a.delete_all()


def set_niceness(niceness: int) -> None:
    """Of this process, which must not lead a group of processes."""
    os.setsid()
    os.setpriority(os.PRIO_PROCESS, 0, niceness)
    if AUTOGROUP.exists():
        AUTOGROUP.write_text(str(niceness))


def measure(b: Tenant, sandbox: str, took: Dict[str, List[float]]) -> None:
    """Each call in turn, for a while, by a process of its own."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            set_niceness(NICENESS_B)
            measured: Dict[str, List[float]] = {call: [] for call in CALLS}
            call_in_turn(b, sandbox, measured)
            with os.fdopen(write, "w") as results:
                json.dump(measured, results)
        finally:
            os._exit(0)
    os.close(write)
    with os.fdopen(read) as results:
        measured = json.loads(results.read() or "{}")
    os.waitpid(pid, 0)
    if not measured:
        raise SystemExit("bench: the client that measures has failed")
    for call in CALLS:
        took[call] += measured[call]


def call_in_turn(b: Tenant, sandbox: str, took: Dict[str, List[float]]) -> None:
    link = b.link()
    create = request("POST", "/v1/sandboxes", {}, b.key)
    exec_true = request("POST", f"/v1/sandboxes/{sandbox}/execs", {"argv": [peers.TRUE]}, b.key)
    code = request("POST", f"/v1/sandboxes/{sandbox}/code", {"code": "1+1"}, b.key)
    deadline = time.monotonic() + BLOCK_S
    while time.monotonic() < deadline:
        start = time.perf_counter()
        made = link.exchange(create).body()["id"]
        took["create"].append((time.perf_counter() - start) * 1000)
        for _ in range(CALLS_A_CREATE):
            took["exec true"].append(timed(lambda: link.exchange(exec_true)))
            took["1+1"].append(timed(lambda: link.exchange(code)))
        link.delete(made)
    link.close()


def run(daemon: Daemon) -> List[Row]:
    a, b = tenant(daemon, "fairness-a"), tenant(daemon, "fairness-b")
    link = b.link()
    sandbox = link.create()
    link.code(sandbox, "1+1")
    rows = []
    for name in FLOODS:
        alone: Dict[str, List[float]] = {call: [] for call in CALLS}
        beside: Dict[str, List[float]] = {call: [] for call in CALLS}
        for _ in range(ROUNDS):
            daemon.settle()
            measure(b, sandbox, alone)
            with flood(a, name):
                measure(b, sandbox, beside)
        for call in CALLS:
            limit_p99 = round(5 * p99(alone[call]), 1)
            rows.append(row(SECTION, f"{call} beside {name}", beside[call], peer="the same, alone", peer_took=alone[call], times=1 / 3, limit_p99=limit_p99))
    b.link().delete(sandbox)  # the first connection has been idle for too long
    return rows
