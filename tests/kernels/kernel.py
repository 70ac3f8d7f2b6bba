# SPDX-License-Identifier: Apache-2.0
"""Plays the host's and the agent's part towards one interpreter driver (kernels/PROTOCOL.md).

The driver gets /dev/null as its input, pipes as output and error, and a socket as fd 3. Everything it says is kept in
the order in which an agent would pass it on: what was in the pipes when bytes came on fd 3 goes before those bytes.

    with Kernel(["python3", "kernels/python"]) as kernel:
        assert kernel.run("1 + 1").text == "2"

A call can be driven in steps, to act while it runs:

    kernel.start("print('go', flush=True); loop()")
    kernel.wait_output(b"go")
    kernel.interrupt()
    reply = kernel.finish()
"""

from __future__ import annotations

import fcntl
import json
import os
import selectors
import signal
import socket
import statistics
import struct
import termios
import time
from pathlib import Path

KERNELS = Path(__file__).resolve().parents[2] / "kernels"
DEADLINE_SECONDS = 30.0
PIPE_CHUNK = 1 << 20


class KernelDied(Exception):
    """The driver's process ended before the call's `done`; `reply` holds what came until then."""

    def __init__(self, returncode: int, reply: Reply):
        super().__init__(f"the driver ended with {returncode}; stderr: {reply.stderr[-2000:]!r}")
        self.returncode = returncode
        self.reply = reply


class Reply:
    """What one call brought: `events` in order, as (verb, payload) with the verbs stdout and stderr for output."""

    def __init__(self, call_id: int):
        self.id = call_id
        self.events: list[tuple[str, object]] = []
        self.done: dict | None = None
        self.cpu_us: int | None = None
        self.takes_env: bool | None = None

    def add(self, verb: str, payload) -> None:
        self.events.append((verb, payload))
        if verb == "done":
            self.cpu_us = payload.pop("cpu_us", None)
            self.takes_env = payload.pop("env", None)
            self.done = payload

    def all(self, verb: str) -> list:
        return [payload for name, payload in self.events if name == verb]

    def one(self, verb: str):
        found = self.all(verb)
        assert len(found) <= 1, f"more than one {verb}: {found}"
        return found[0] if found else None

    @property
    def stdout(self) -> bytes:
        return b"".join(self.all("stdout"))

    @property
    def stderr(self) -> bytes:
        return b"".join(self.all("stderr"))

    @property
    def result(self) -> dict | None:
        return self.one("result")

    @property
    def data(self) -> dict | None:
        """The result's MIME bundle, None where there is no result."""
        return self.result["data"] if self.result else None

    @property
    def text(self) -> str | None:
        return self.data["text/plain"] if self.data else None

    @property
    def displays(self) -> list[dict]:
        return self.all("display")

    @property
    def error(self) -> dict | None:
        return self.one("error")

    @property
    def status(self) -> str | None:
        return self.done["status"] if self.done else None

    @property
    def traceback(self) -> str:
        return "\n".join(self.error["traceback"]) if self.error else ""

    def __repr__(self) -> str:
        return f"Reply({self.id}, {self.events!r})"


class Kernel:
    """One driver process. `ready` is its first message; `returncode` its end, negative for a signal, once known."""

    def __init__(self, argv: list[str], env: dict[str, str] | None = None, cwd: str | None = None, wait_ready: bool = True):
        self.sock, theirs = socket.socketpair()
        out, out_w = os.pipe()
        err, err_w = os.pipe()
        null = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        # Fds that the actions put in place must not be overwritten by an earlier action.
        sources = [fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 10) for fd in (null, out_w, err_w, theirs.fileno())]
        for fd in (null, out_w, err_w):
            os.close(fd)
        theirs.close()
        if cwd:
            argv = ["env", "-C", cwd, *argv]
        try:
            self.pid = os.posix_spawnp(
                argv[0],
                argv,
                os.environ if env is None else {**os.environ, **env},
                file_actions=[(os.POSIX_SPAWN_DUP2, source, target) for target, source in enumerate(sources)],
                setsid=True,
                setsigmask=(),
                setsigdef=(signal.SIGINT, signal.SIGPIPE),
            )
        finally:
            for fd in sources:
                os.close(fd)
        self.returncode: int | None = None
        self._pidfd = os.pidfd_open(self.pid)
        self._pipes = {"stdout": out, "stderr": err}
        for fd in (out, err):
            os.set_blocking(fd, False)
        self.sock.setblocking(False)
        self._buffer = b""
        self._selector = selectors.DefaultSelector()
        for name, fd in self._pipes.items():
            self._selector.register(fd, selectors.EVENT_READ, name)
        self._selector.register(self.sock, selectors.EVENT_READ, "sock")
        self._selector.register(self._pidfd, selectors.EVENT_READ, "end")
        self._last_id = 0
        self._reply = Reply(0)
        self._next: Reply | None = None
        self.ready: dict | None = None
        if wait_ready:
            self._until(lambda: self._reply.all("ready"), DEADLINE_SECONDS)
            self.ready = self._reply.one("ready")

    def __enter__(self) -> Kernel:
        return self

    def __exit__(self, *_) -> None:
        self.close()

    # ---- calls

    def run(self, code: str | bytes, timeout: float = DEADLINE_SECONDS) -> Reply:
        """Runs the code and waits for its `done`."""
        self.start(code)
        return self.finish(timeout)

    def env(self, **variables: str) -> None:
        """Variables of the next call."""
        self.send("env", self._last_id + 1, "".join(f"{name}={value}\n" for name, value in variables.items()).encode())

    def renew(self, seed: bytes = bytes(32), timeout: float = DEADLINE_SECONDS) -> Reply:
        self.start(seed, verb="renew")
        return self.finish(timeout)

    def sync(self, timeout: float = DEADLINE_SECONDS) -> Reply:
        """Sent while a call runs: waits for its end, and for the answer behind it."""
        self._last_id += 1
        self._next = Reply(self._last_id)
        self.send("sync", self._last_id, b"")
        self._until(lambda: self._reply.id == self._last_id and self._reply.done, timeout)
        return self._reply

    def sync_idle(self) -> Reply:
        """Sent between calls."""
        self.start(b"", verb="sync")
        return self.finish()

    def start(self, code: str | bytes, verb: str = "run") -> int:
        """Sends a call and returns its id; `finish` waits for its end."""
        self._last_id += 1
        self._reply = Reply(self._last_id)
        self.send(verb, self._last_id, code.encode() if isinstance(code, str) else code)
        return self._last_id

    def finish(self, timeout: float = DEADLINE_SECONDS) -> Reply:
        self._until(lambda: self._reply.done, timeout)
        return self._reply

    def wait_output(self, marker: bytes, stream: str = "stdout", timeout: float = DEADLINE_SECONDS) -> None:
        """Waits until the running call has written the marker."""
        self._until(lambda: marker in b"".join(self._reply.all(stream)), timeout)

    def interrupt(self) -> None:
        os.kill(self.pid, signal.SIGINT)

    def stop(self, timeout: float = DEADLINE_SECONDS, interrupt=None) -> Reply:
        """Interrupts the call until it ends: a signal that comes just before a system call blocks does not wake it."""
        deadline = time.monotonic() + timeout
        while True:
            (interrupt or self.interrupt)()
            try:
                return self.finish(2.0)
            except TimeoutError:
                if time.monotonic() > deadline:
                    raise

    def send(self, verb: str, call_id: int, payload: bytes) -> None:
        self.send_raw(b"%s %d %d\n" % (verb.encode(), call_id, len(payload)) + payload)

    def send_raw(self, data: bytes) -> None:
        self.sock.setblocking(True)
        try:
            self.sock.sendall(data)
        finally:
            self.sock.setblocking(False)

    # ---- the end

    def wait(self, timeout: float = DEADLINE_SECONDS) -> int:
        """Waits for the process's end; output that comes meanwhile is kept in the last reply."""
        if self.returncode is None:
            try:
                self._until(lambda: False, timeout)
            except KernelDied:
                pass
        return self.returncode

    def hang_up(self, timeout: float = DEADLINE_SECONDS) -> int:
        """Ends fd 3 from the host's side, as when it is done with the driver, and waits for the exit code."""
        self.sock.shutdown(socket.SHUT_WR)
        return self.wait(timeout)

    def close(self) -> None:
        if self._pidfd < 0:
            return
        if self.returncode is None:
            try:
                os.killpg(self.pid, signal.SIGKILL)
            except ProcessLookupError:
                os.kill(self.pid, signal.SIGKILL)
            self._reap()
        else:
            try:
                os.killpg(self.pid, signal.SIGKILL)  # children that outlived the driver
            except ProcessLookupError:
                pass
        self._selector.close()
        self.sock.close()
        for fd in (*self._pipes.values(), self._pidfd):
            os.close(fd)
        self._pidfd = -1

    # ---- the agent's part

    def _until(self, reached, timeout: float) -> None:
        deadline = time.monotonic() + timeout
        while not reached():
            if self.returncode is not None:
                raise KernelDied(self.returncode, self._reply)
            left = deadline - time.monotonic()
            ready = {key.data for key, _ in self._selector.select(left)} if left > 0 else set()
            if not ready:
                raise TimeoutError(f"nothing within {timeout} s; so far: {str(self._reply.events)[-2000:]}")
            if "sock" in ready or "end" in ready:
                self._pump()
                if "end" in ready:
                    self._pump()
                    self._reap()
            else:
                for name in ready:
                    self._take_pipe(name)

    def _pump(self) -> None:
        """Reads fd 3, then takes what the pipes hold, then handles what was read: so no message overtakes output."""
        closed = False
        try:
            data = self.sock.recv(1 << 20)
            closed = not data
        except BlockingIOError:
            data = b""
        except ConnectionResetError:
            data, closed = b"", True
        for name in self._pipes:
            self._take_pipe(name)
        self._buffer += data
        if closed and self.sock in self._selector.get_map():
            self._selector.unregister(self.sock)
        while self._take_message():
            pass

    def _take_pipe(self, name: str) -> None:
        """Takes what the pipe holds now, not what a writer goes on to add."""
        fd = self._pipes[name]
        held = struct.unpack("i", fcntl.ioctl(fd, termios.FIONREAD, bytes(4)))[0]
        while True:
            try:
                data = os.read(fd, held or PIPE_CHUNK)
            except BlockingIOError:
                return
            if not data:
                if fd in self._selector.get_map():
                    self._selector.unregister(fd)
                return
            self._reply.add(name, data)
            held -= len(data)
            if held <= 0:
                return

    def _take_message(self) -> bool:
        line, newline, rest = self._buffer.partition(b"\n")
        if not newline:
            return False
        verb, call_id, length = line.split(b" ")
        size = int(length)
        if len(rest) < size:
            return False
        payload = json.loads(rest[:size].decode()) if size else {}
        self._buffer = rest[size:]
        if self._next and self._reply.done and int(call_id) == self._next.id:
            self._reply, self._next = self._next, None
        expected = 0 if verb == b"ready" else self._reply.id
        assert int(call_id) == expected, f"{line!r} came in call {self._reply.id}"
        assert self._reply.done is None, f"{line!r} came after done"
        self._reply.add(verb.decode(), payload)
        return True

    def _reap(self) -> None:
        _, status = os.waitpid(self.pid, 0)
        self.returncode = os.waitstatus_to_exitcode(status)


def microseconds_per_call(kernel: Kernel, code: str, calls: int = 2000) -> float:
    """The median round trip of a call that prints nothing, with as little of this harness in it as can be."""
    payload = code.encode()
    sock = kernel.sock
    sock.setblocking(True)
    times = []
    try:
        for _ in range(calls):
            kernel._last_id += 1
            message = b"run %d %d\n" % (kernel._last_id, len(payload)) + payload
            start = time.perf_counter_ns()
            sock.sendall(message)
            got = sock.recv(65536)
            while b"done " not in got or not got.rstrip().endswith(b"}"):
                got += sock.recv(65536)
            times.append(time.perf_counter_ns() - start)
    finally:
        sock.setblocking(False)
    return statistics.median(times) / 1000
