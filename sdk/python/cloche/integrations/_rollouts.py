# SPDX-License-Identifier: Apache-2.0
"""What the adapters for evaluations and training have in common: sandboxes that do not outlive the program that made them, and commands
whose output is bounded.

A sandbox that open_sandbox() makes has a lifetime of LEASE_S, which a thread of this process renews while the sandbox is in use. A
rollout may take as long as it likes; but when its program is killed, however, its sandboxes end by themselves.
"""

from __future__ import annotations

import asyncio
import errno
import os
import posixpath
import secrets
import shlex
import tarfile
import tempfile
import threading
import weakref
from dataclasses import dataclass
from typing import Any, Dict, Mapping, Optional, Sequence, Tuple

from .. import errors
from .._protocol import Event, ExecInfo, milliseconds, request
from ..aio.execs import AsyncExec
from ..aio.sandbox import AsyncClient, AsyncSandbox
from ..sync.sandbox import Client

LEASE_S = 600.0
WAIT_S = 600.0  # for a place, where the host or the quota is full
PAUSES_S = (0.2, 0.5, 1.0, 2.0, 5.0)
STDIN_IN_BODY = 512 << 10  # more is sent as a stream
ARGV_BYTES, ARGV_WORDS = 120 << 10, 4000  # more goes inside as a file


class Leases:
    """Sandboxes by id, with the client that renews each."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._held: Dict[str, Client] = {}
        self._thread: Optional[threading.Thread] = None
        self._wake = threading.Event()

    def hold(self, sandbox_id: str, client: Client) -> None:
        with self._lock:
            self._held[sandbox_id] = client
            if self._thread is None:
                self._thread = threading.Thread(target=self._renew, name="cloche-leases", daemon=True)
                self._thread.start()

    def let_go(self, sandbox_id: str) -> None:
        with self._lock:
            self._held.pop(sandbox_id, None)

    def _renew(self) -> None:
        while True:
            self._wake.wait(LEASE_S / 4)
            with self._lock:
                held = dict(self._held)
                if not held:
                    self._thread = None
                    return
            for sandbox_id, client in held.items():
                try:
                    client.call(request("PATCH", ["sandboxes", sandbox_id], body={"timeout_ms": milliseconds(LEASE_S)}))
                except (errors.Gone, errors.NotFound):
                    self.let_go(sandbox_id)
                except errors.ClocheError:
                    pass  # three more tries before it ends


leases = Leases()
_clients: "weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, AsyncClient]" = weakref.WeakKeyDictionary()


def client_of_loop() -> AsyncClient:
    """Connections belong to the loop that made them; all sandboxes of one share them."""
    loop = asyncio.get_running_loop()
    if loop not in _clients:
        _clients[loop] = AsyncClient()
    return _clients[loop]


def renewer_of(client: AsyncClient) -> Client:
    """A client of the same daemon with the same key, for the thread."""
    made = Client()
    made._transport.endpoint = client._transport.endpoint
    made._transport._headers = dict(client._transport._headers)
    return made


async def open_sandbox(client: AsyncClient, fields: Mapping[str, Any], *, wait: float = WAIT_S) -> AsyncSandbox:
    """A new one. Where there is no place for it, waits up to `wait` seconds for one. A `timeout` among the fields is its lifetime;
    without it the lifetime is renewed until close_sandbox()."""
    making = asyncio.ensure_future(_open(client, fields, wait))
    try:
        sandbox = await asyncio.shield(making)
    except asyncio.CancelledError:
        making.add_done_callback(_end_late)
        raise
    if fields.get("timeout") is None:
        leases.hold(sandbox.id, renewer_of(client))
    return sandbox


_ending: "set[asyncio.Future[Any]]" = set()


def _end_late(making: "asyncio.Future[AsyncSandbox]") -> None:
    """Nobody waits for it any more. Where the loop ends first, its lifetime ends it."""
    if not making.cancelled() and making.exception() is None:
        ending = asyncio.ensure_future(making.result().delete())
        _ending.add(ending)
        ending.add_done_callback(_ending.discard)


async def _open(client: AsyncClient, fields: Mapping[str, Any], wait: float) -> AsyncSandbox:
    loop, tries = asyncio.get_running_loop(), 0
    deadline = loop.time() + wait
    asked = {"timeout": LEASE_S, **{name: value for name, value in fields.items() if value is not None}}
    while True:
        try:
            return await AsyncSandbox.create(client=client, **asked)
        except (errors.NoCapacity, errors.QuotaError, errors.LimitReached) as e:
            if not e.retryable or loop.time() >= deadline:
                raise
        await asyncio.sleep(min(PAUSES_S[min(tries, len(PAUSES_S) - 1)], max(0.0, deadline - loop.time())))
        tries += 1


async def close_sandbox(sandbox: AsyncSandbox) -> None:
    leases.let_go(sandbox.id)
    await sandbox.delete()


class OutputLimit(Exception):
    """A stream had more than was allowed; the command was killed. `stdout` and `stderr` are what had come until then."""

    def __init__(self, stdout: bytes, stderr: bytes) -> None:
        super().__init__("a command printed more than is allowed")
        self.stdout, self.stderr = stdout, stderr


@dataclass
class Ran:
    exec: ExecInfo
    stdout: bytes
    stderr: bytes

    @property
    def exit_code(self) -> int:
        """As a shell tells it."""
        return self.exec.exit_code if self.exec.exit_code is not None else 128 + (self.exec.signal or 0)


class _Output:
    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.streams: Dict[str, bytearray] = {"stdout": bytearray(), "stderr": bytearray()}

    def take(self, event: Event) -> None:
        if event.type == "gap":
            raise self.too_much()
        if event.type in self.streams:
            kept = self.streams[event.type]
            kept += event.data[: self.limit + 1 - len(kept)]
            if len(kept) > self.limit:
                del kept[self.limit :]
                raise self.too_much()

    def too_much(self) -> OutputLimit:
        return OutputLimit(bytes(self.streams["stdout"]), bytes(self.streams["stderr"]))


async def run_limited(
    sandbox: AsyncSandbox,
    command: Sequence[str],
    *,
    limit: int,
    stdin: Optional[bytes] = None,
    cwd: Optional[str] = None,
    env: Optional[Mapping[str, str]] = None,
    user: Optional[str] = None,
    timeout: Optional[float] = None,
) -> Ran:
    """Runs an argv to its end; each stream may have `limit` bytes. It is killed with all that it started when its time is up, when
    it prints too much (OutputLimit), and when the caller is cancelled."""
    words, script = await _within_bounds(sandbox, command, user)
    streamed = stdin is not None and len(stdin) > STDIN_IN_BODY
    fields: Dict[str, Any] = {"cwd": cwd, "env": env, "user": user, "timeout": timeout, "kill_on_disconnect": True}
    fields.update({"open_stdin": True} if streamed else {"stdin": stdin})
    output, info, feeding = _Output(limit), None, None
    try:
        async with sandbox.stream(words, **fields) as events:
            async for event in events:
                info = event.exec or info
                if event.type == "started" and streamed and info is not None:
                    feeding = asyncio.ensure_future(_feed(AsyncExec(sandbox, info), stdin or b""))
                output.take(event)
    finally:
        if feeding is not None:
            feeding.cancel()
        if script is not None:
            await asyncio.shield(sandbox.files.remove(script, missing_ok=True, user=user))
    if info is None or not info.is_over:
        raise errors.ConnectionFailed("the stream ended before the command did")
    return Ran(info, bytes(output.streams["stdout"]), bytes(output.streams["stderr"]))


async def _within_bounds(sandbox: AsyncSandbox, command: Sequence[str], user: Optional[str]) -> Tuple[Sequence[str], Optional[str]]:
    """The command itself, or where the API does not take so many words, a script that is it."""
    if len(command) <= ARGV_WORDS and sum(len(word.encode()) + 1 for word in command) <= ARGV_BYTES:
        return command, None
    script = f"/tmp/.cloche-{secrets.token_hex(16)}"
    await sandbox.files.write(script, f"exec {shlex.join(command)}\n", mode=0o600, exclusive=True, user=user)
    return ["/bin/sh", script], script


async def _feed(exec_: AsyncExec, data: bytes) -> None:
    try:
        await exec_.write_stdin(data, eof=True)
    except errors.ClocheError:
        pass  # it ended, or closed its input, before it had read all


async def upload_tree(sandbox: AsyncSandbox, source: str, target: str, *, user: Optional[str] = None) -> None:
    """What is in a directory of this machine, with modes and links."""
    with tempfile.TemporaryFile() as file:
        with tarfile.open(fileobj=file, mode="w") as archive:
            archive.add(source, arcname=".")
        file.seek(0)
        await sandbox.files.tar_in(target, file, parents=True, user=user)


async def upload_file(sandbox: AsyncSandbox, source: str, target: str, *, user: Optional[str] = None) -> None:
    """A file with its mode; below a target that is a directory, as cp has it."""
    try:
        if (await sandbox.files.stat(target, follow=True, user=user)).type == "directory":
            target = posixpath.join(target, os.path.basename(source))
    except errors.FileMissing:
        pass
    with open(source, "rb") as file:
        await sandbox.files.write(target, file, parents=True, mode=os.fstat(file.fileno()).st_mode & 0o777, user=user)


def file_error(e: errors.ClocheError, file: str) -> Exception:
    """What a program of Python's own would meet; the file is named in each."""
    kinds: Tuple[Tuple[Any, str, Any, int], ...] = (
        (errors.FileMissing, "", FileNotFoundError, errno.ENOENT),
        (errors.FileDenied, "", PermissionError, errno.EACCES),
        (errors.FileInvalid, "Is a directory", IsADirectoryError, errno.EISDIR),
        (errors.FileInvalid, "Not a directory", NotADirectoryError, errno.ENOTDIR),
        (errors.FileInvalid, "", OSError, errno.EINVAL),
        (errors.DiskFull, "", OSError, errno.ENOSPC),
        (errors.TimedOut, "", TimeoutError, errno.ETIMEDOUT),
        (errors.InvalidField, "", OSError, errno.EINVAL),
    )
    for kind, words, made, number in kinds:
        if isinstance(e, kind) and words in e.message:
            error: Exception = made(number, e.message, file)
            return error
    return e
