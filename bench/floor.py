# SPDX-License-Identifier: Apache-2.0
"""The least that a figure can be on this machine: the same work by the kernel, Python or CRIU alone, without a daemon. A row that misses its aim has one
of these for a peer, so that it is seen what is ours. Each is a lower bound: what it leaves out is said where it is made."""

from __future__ import annotations

import functools
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Dict, List, Tuple

from peers import PYTHON

CHUNK = 256 << 10


class Jail:
    """bench/floor.c: namespaces, control groups, mounts and a static program of one jail."""

    def __init__(self, build: str) -> None:
        self._program = f"{build}/bench/bench-floor"
        self._dir = tempfile.mkdtemp(prefix="cloche-floor-")
        os.chmod(self._dir, 0o755)

    def many(self, count: int) -> List[Tuple[float, float, float]]:
        """Milliseconds of each until it speaks, until it is removed, and of CPU."""
        r = subprocess.run([self._program, str(count), self._dir], capture_output=True, text=True)
        if r.returncode != 0:
            raise SystemExit(f"bench: {r.stderr.strip()}")
        return [tuple(map(float, line.split())) for line in r.stdout.splitlines()]

    def speaks(self) -> float:
        return self.many(1)[0][0]

    def cpu(self) -> float:
        return self.many(1)[0][2]

    def close(self) -> None:
        os.rmdir(self._dir)


class Warm:
    """bench/warm.py: a fork of a warm Python, without a sandbox."""

    def __init__(self, build: str) -> None:
        script = Path(__file__).with_name("warm.py")
        self._process = subprocess.Popen(
            [PYTHON, "-I", str(script), f"{build}/kernels-beside"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def _ask(self, line: str) -> List[float]:
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        if not answer:
            raise SystemExit("bench: the warm Python has ended")
        return [float(word) for word in answer.split()]

    def life(self) -> float:
        return self._ask("life")[0]

    def cpu(self) -> float:
        return self._ask("life")[1]

    def many(self, count: int) -> None:
        self._ask(f"many {count}")

    def call(self, which: int) -> float:
        return self._ask(f"call {which}")[0]

    def close(self) -> None:
        self._process.stdin.close()
        self._process.wait(60)


HOLDS = """
import os, time
x = os.urandom({mb} * 1_000_000)
while True:
    try:
        os.rename({ask!r}, {answer!r})
    except FileNotFoundError:
        time.sleep(0.001)
"""


class Restore:
    """A Python with so much memory, which CRIU saves once and restores by itself: in the host's namespaces, with nothing checked and no files copied. It
    answers by renaming a file, which it looks for each millisecond."""

    WAIT_S = 30

    def __init__(self, build: str, mb: int) -> None:
        self._eyes = os.path.abspath(f"{build}/src/criu/cloche-eyes.so")  # without it, CRIU of Debian 12 does not know today's kernels
        self._criu = shutil.which("criu", path="/usr/sbin:/usr/bin")
        self._dir = Path(tempfile.mkdtemp(prefix="cloche-floor-"))
        self._ask, self._answer, self._images = (self._dir / name for name in ("ask", "answer", "images"))
        self._images.mkdir()
        code = HOLDS.format(mb=mb, ask=str(self._ask), answer=str(self._answer))
        nothing = subprocess.DEVNULL
        first = subprocess.Popen([PYTHON, "-c", code], stdin=nothing, stdout=nothing, stderr=nothing, start_new_session=True, cwd="/")
        self._pid = first.pid
        self._ask.touch()
        self._await_answer()
        self._run("dump", {"CLOCHE_ROOT": str(first.pid)}, "--leave-running", "-t", str(first.pid))
        first.kill()
        first.wait()

    def _run(self, verb: str, variables: Dict[str, str], *more: str) -> None:
        argv = [self._criu, verb, "-v1", "--manage-cgroups=ignore", "-D", str(self._images), "-o", f"{verb}.log", *more]
        r = subprocess.run(argv, env={**os.environ, **variables, "LD_PRELOAD": self._eyes}, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        if r.returncode != 0:
            raise RuntimeError(f"criu {verb}: {(self._images / (verb + '.log')).read_text()[-400:]}")

    def _await_answer(self) -> None:
        deadline = time.monotonic() + self.WAIT_S
        while not self._answer.exists():
            if time.monotonic() > deadline:
                raise RuntimeError("what CRIU restored does not answer")
            time.sleep(0.0005)
        self._answer.unlink()

    def once(self) -> float:
        """Milliseconds from the start of CRIU to the answer."""
        self._ask.touch()
        start = time.perf_counter()
        self._run("restore", {}, "-d")
        self._await_answer()
        took = (time.perf_counter() - start) * 1000
        os.kill(self._pid, signal.SIGKILL)
        while os.path.exists(f"/proc/{self._pid}"):
            time.sleep(0.001)
        return took

    def close(self) -> None:
        shutil.rmtree(self._dir)


def relayed(data: bytes, into: Path) -> None:
    """An upload without a protocol: a client's socket, one process between, another socket, and a file."""
    near, near_end = socket.socketpair()
    far, far_end = socket.socketpair()

    def pass_on(source: socket.socket, write) -> None:
        room = bytearray(CHUNK)
        while n := source.recv_into(room):
            write(memoryview(room)[:n])

    pids = []
    for work in (lambda: pass_on(near_end, far.sendall), lambda: pass_on(far_end, os.fdopen(os.open(into, os.O_WRONLY | os.O_CREAT), "wb", 0).write)):
        pids.append(os.fork())
        if not pids[-1]:
            near.close()
            if len(pids) == 2:
                far.close()
            work()
            os._exit(0)
    near_end.close()
    far.close()
    far_end.close()
    near.sendall(data)
    near.close()
    for pid in pids:
        os.waitpid(pid, 0)


class Floors:
    """Made where they are first asked for."""

    def __init__(self, build: str) -> None:
        self._build = build

    @functools.cached_property
    def jail(self) -> Jail:
        return Jail(self._build)

    @functools.cached_property
    def warm(self) -> Warm:
        return Warm(self._build)

    def restore(self, mb: int) -> Restore:
        """To be closed by the caller."""
        return Restore(self._build, mb)

    def close(self) -> None:
        for name in ("jail", "warm"):
            if name in self.__dict__:
                self.__dict__[name].close()
