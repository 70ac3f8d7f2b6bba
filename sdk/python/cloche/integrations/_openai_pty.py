# SPDX-License-Identifier: Apache-2.0
"""Commands that an agent of OpenAI's goes on talking to: exec_command starts one, write_stdin types and reads on.

Nothing reads in the background. A command is an exec of the daemon's, which keeps its output and numbers it; an update
reads what lies behind the last number for as long as the model wants to wait, then lets go of the connection.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from typing import Any, Awaitable, Callable, Deque, Dict, Optional

from agents.sandbox.errors import PtySessionNotFoundError
from agents.sandbox.session.pty_output import collect_pty_output
from agents.sandbox.session.pty_types import (
    PTY_PROCESSES_MAX,
    PtyExecUpdate,
    allocate_pty_process_id,
    clamp_pty_yield_time_ms,
    process_id_to_prune_from_meta,
    resolve_pty_write_yield_time_ms,
)

from .. import errors
from ..aio.execs import AsyncExec

DEFAULT_START_WAIT = 10.0
DEFAULT_WRITE_WAIT = 0.25
# To read what is there already, once the time for waiting is over.
LAST_LOOK = 5.0
# Of one update; a program that prints without end is not kept whole.
HELD_BYTES_MAX = 4 << 20


class Running:
    """One command, and how far its output was read."""

    def __init__(self, exec: AsyncExec, has_terminal: bool) -> None:
        self.exec = exec
        self.has_terminal = has_terminal
        self.exit_code: Optional[int] = None
        self.used_at = time.monotonic()
        self._after = 0
        self._chunks: Deque[bytes] = deque()
        self._held = 0
        self._turn = asyncio.Lock()

    async def update(self, id: int, wait_ms: int, max_tokens: Optional[int]) -> PtyExecUpdate:
        """What came since the last one: until the command is over, or for so long."""
        async with self._turn:
            output, tokens, is_closed = await collect_pty_output(
                output_chunks=self._chunks,
                output_lock=asyncio.Lock(),
                output_notify=asyncio.Event(),
                is_done=lambda: self.exit_code is not None,
                yield_time_ms=wait_ms,
                max_output_tokens=max_tokens,
                poll_output=self._poll,
            )
            self.used_at = time.monotonic()
            return PtyExecUpdate(None if is_closed else id, output, self.exit_code if is_closed else None, tokens)

    async def _poll(self, deadline: float) -> None:
        if self.exit_code is not None:
            return
        left = deadline - time.monotonic()
        self._held = sum(map(len, self._chunks))
        try:
            await asyncio.wait_for(self._read(follow=left > 0), left if left > 0 else LAST_LOOK)
        except asyncio.TimeoutError:
            pass

    async def _read(self, follow: bool) -> None:
        async for event in self.exec.output(self._after, follow):
            self._after = max(self._after, event.seq)
            if event.type in ("stdout", "stderr"):
                self._hold(event.data)
            elif event.type == "gap":
                self._hold(b"\n[%d bytes of output were lost]\n" % event.lost_bytes)
            elif event.exec is not None and event.exec.is_over:
                code, signal = event.exec.exit_code, event.exec.signal
                self.exit_code = code if code is not None else 128 + (signal or 0)

    def _hold(self, data: bytes) -> None:
        self._chunks.append(data)
        self._held += len(data)
        while self._held > HELD_BYTES_MAX and len(self._chunks) > 1:
            self._held -= len(self._chunks.popleft())

    async def end(self) -> None:
        try:
            if self.exit_code is None:
                await self.exec.kill()
            await self.exec.delete()
        except errors.ClocheError:
            pass  # with its sandbox, or before


class Terminals:
    """A session's commands that run, by the number that the model has for each."""

    def __init__(self) -> None:
        self._running: Dict[int, Running] = {}

    async def start(self, begin: Callable[[], Awaitable[AsyncExec]], has_terminal: bool, wait: Optional[float], max_tokens: Optional[int]) -> PtyExecUpdate:
        starting = asyncio.ensure_future(begin())
        try:
            running = Running(await asyncio.shield(starting), has_terminal)
        except asyncio.CancelledError:
            starting.add_done_callback(_forget)
            raise
        if len(self._running) >= PTY_PROCESSES_MAX:
            await self._prune()
        id = allocate_pty_process_id(set(self._running))
        self._running[id] = running
        return await self._update(id, running, clamp_pty_yield_time_ms(_ms(wait, DEFAULT_START_WAIT)), max_tokens)

    async def write(self, id: int, chars: str, wait: Optional[float], max_tokens: Optional[int]) -> PtyExecUpdate:
        running = self._running.get(id)
        if running is None:
            raise PtySessionNotFoundError(session_id=id)
        if chars:
            if not running.has_terminal:
                raise RuntimeError("stdin is not available for this process")  # the words that write_stdin knows
            try:
                await running.exec.write_stdin(chars)
            except errors.Gone:
                pass  # it is over: the update says so
        wait_ms = resolve_pty_write_yield_time_ms(yield_time_ms=_ms(wait, DEFAULT_WRITE_WAIT), input_empty=chars == "")
        return await self._update(id, running, wait_ms, max_tokens)

    async def end_all(self) -> None:
        ending, self._running = self._running, {}
        for running in ending.values():
            await running.end()

    async def _update(self, id: int, running: Running, wait_ms: int, max_tokens: Optional[int]) -> PtyExecUpdate:
        made = await running.update(id, wait_ms, max_tokens)
        if made.process_id is None and id in self._running:
            await self._running.pop(id).end()
        return made

    async def _prune(self) -> None:
        """Room for one more: the one that was not looked at for longest goes."""
        id = process_id_to_prune_from_meta([(id, r.used_at, r.exit_code is not None) for id, r in self._running.items()])
        if id is not None:
            await self._running.pop(id).end()


def _ms(seconds: Optional[float], default: float) -> int:
    return int((default if seconds is None else seconds) * 1000)


def _forget(starting: "asyncio.Future[Any]") -> None:
    """Ends what nobody waits for any more."""
    if not starting.cancelled() and starting.exception() is None:
        asyncio.ensure_future(Running(starting.result(), False).end())
