# SPDX-License-Identifier: Apache-2.0
"""The event loop behind top-level await.

One loop for the life of the process, so that tasks, locks and connections made in one call serve in the next; it turns
only while a call awaits. Calls without await run outside it, so `asyncio.run()` works in them as in a script.

An interrupt ends a call in one of two ways. Where the loop waits, the call's task is cancelled, which lets its `finally`
blocks run. Where Python code runs in a task, a cancellation would wait for the next await that may never come, so
KeyboardInterrupt is raised right there.
"""

from __future__ import annotations

import asyncio
import contextvars
import signal
from collections.abc import Coroutine
from types import CodeType, FrameType

_RUNS_CODE: CodeType = asyncio.Handle._run.__code__


class EventLoop:
    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None

    def run(self, coroutine: Coroutine) -> object:
        """Runs the coroutine to its end. Context variables that it sets stay set."""
        loop = self._ready_loop()
        context = contextvars.copy_context()
        task = loop.create_task(coroutine, context=context)
        interrupt = _Interrupt(loop, task)
        handler = signal.signal(signal.SIGINT, interrupt)
        try:
            return loop.run_until_complete(task)
        except asyncio.CancelledError as cancelled:
            if interrupt.happened:
                raise KeyboardInterrupt().with_traceback(cancelled.__traceback__) from None
            raise
        except KeyboardInterrupt:
            _cancel(loop, task)
            raise
        finally:
            signal.signal(signal.SIGINT, handler)
            for variable, value in context.items():
                variable.set(value)

    def _ready_loop(self) -> asyncio.AbstractEventLoop:
        if self._loop is None or self._loop.is_closed():
            self._loop = asyncio.new_event_loop()
        asyncio.set_event_loop(self._loop)
        return self._loop


class _Interrupt:
    """The handler of SIGINT while the loop turns."""

    def __init__(self, loop: asyncio.AbstractEventLoop, task: asyncio.Task):
        self._loop = loop
        self._task = task
        self.happened = False

    def __call__(self, _number: int, frame: FrameType | None) -> None:
        if self.happened or _is_in_task(frame):
            raise KeyboardInterrupt
        self.happened = True
        self._task.cancel()
        self._loop.call_soon_threadsafe(lambda: None)


def _is_in_task(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code is _RUNS_CODE:
            return True
        frame = frame.f_back
    return False


def _cancel(loop: asyncio.AbstractEventLoop, task: asyncio.Task) -> None:
    """Ends the call's task where the interrupt struck another one."""
    if task.done() or loop.is_closed():
        return
    task.cancel()
    try:
        loop.run_until_complete(task)
    except (asyncio.CancelledError, Exception):
        pass
