# SPDX-License-Identifier: Apache-2.0
"""What a stream of events adds up to, without I/O: a collector is fed events and says who wants each."""

from __future__ import annotations

from typing import Any, Callable, List, Optional, Union

from . import errors
from ._protocol import Event, ExecInfo, ExecResult
from .code import CodeError, CodeResult, Result

OnOutput = Callable[[bytes], Any]
OnResult = Callable[[Result], Any]
Delivery = Callable[[], Any]


class Output:
    """Bytes of stdout and stderr: for a callback as they come, or kept where there is none."""

    def __init__(self, on_stdout: Optional[OnOutput], on_stderr: Optional[OnOutput]) -> None:
        self._sinks = {"stdout": on_stdout, "stderr": on_stderr}
        self._kept = {"stdout": bytearray(), "stderr": bytearray()}

    def take(self, event: Event) -> Optional[Delivery]:
        sink = self._sinks[event.type]
        if sink is not None:
            return lambda: sink(event.data)
        self._kept[event.type] += event.data
        return None

    def kept(self, name: str) -> bytes:
        return bytes(self._kept[name])


class ExecCollector:
    """A streamed command's result. Output that went to a callback is not kept."""

    def __init__(self, on_stdout: Optional[OnOutput] = None, on_stderr: Optional[OnOutput] = None) -> None:
        self._output = Output(on_stdout, on_stderr)
        self._info: Optional[ExecInfo] = None

    def feed(self, event: Event) -> Optional[Delivery]:
        """The call to make for it, if there is one."""
        if event.type in ("stdout", "stderr"):
            return self._output.take(event)
        self._info = event.exec or self._info
        return None

    def result(self) -> ExecResult:
        if self._info is None:
            raise errors.ConnectionFailed("the stream ended before the exec did")
        return ExecResult(self._info, self._output.kept("stdout"), self._output.kept("stderr"))


class CodeCollector:
    """The same for code."""

    def __init__(
        self,
        on_stdout: Optional[OnOutput] = None,
        on_stderr: Optional[OnOutput] = None,
        on_result: Optional[OnResult] = None,
    ) -> None:
        self._output = Output(on_stdout, on_stderr)
        self._on_result = on_result
        self._results: List[Result] = []
        self._made = CodeResult()
        self._is_done = False

    def feed(self, event: Event) -> Optional[Delivery]:
        if event.type in ("stdout", "stderr"):
            return self._output.take(event)
        if event.type in ("result", "display"):
            return self._show(Result.from_json(event.raw, event.type == "result"))
        if event.type == "error":
            self._made.error = CodeError.from_json(event.raw["error"])
        elif event.type == "failed":
            raise errors.from_body(0, event.raw)
        elif event.type == "done":
            self._made.take_end(event.raw)
            self._is_done = True
        return None

    def _show(self, result: Result) -> Optional[Delivery]:
        self._made.results.append(result)
        sink = self._on_result
        return None if sink is None else lambda: sink(result)

    def result(self) -> CodeResult:
        if not self._is_done:
            raise errors.ConnectionFailed("the stream ended before the code did")
        self._made.stdout_bytes, self._made.stderr_bytes = self._output.kept("stdout"), self._output.kept("stderr")
        return self._made


Collector = Union[ExecCollector, CodeCollector]
