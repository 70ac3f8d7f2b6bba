# SPDX-License-Identifier: Apache-2.0
"""What a stream of events adds up to, without I/O: a collector is fed events and says who wants each."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Callable, Dict, List, Optional, Union

from . import errors
from ._protocol import Event, ExecInfo, ExecResult
from .code import CodeError, CodeResult, Result

OnOutput = Callable[[bytes], Any]
OnResult = Callable[[Result], Any]
Delivery = Callable[[], Any]
KEPT_MAX = 16 << 20  # of each stream: a program that prints without end is not kept whole


class Output:
    """Bytes of stdout and stderr: kept for the result, and for a callback as they come where there is one."""

    def __init__(self, on_stdout: Optional[OnOutput], on_stderr: Optional[OnOutput]) -> None:
        self._sinks = {"stdout": on_stdout, "stderr": on_stderr}
        self._kept = {"stdout": bytearray(), "stderr": bytearray()}
        self._has_more = {"stdout": False, "stderr": False}

    def take(self, event: Event) -> Optional[Delivery]:
        sink, kept = self._sinks[event.type], self._kept[event.type]
        kept += event.data[: KEPT_MAX - len(kept)]
        self._has_more[event.type] |= len(kept) == KEPT_MAX
        return None if sink is None else lambda: sink(event.data)

    def fields(self) -> Dict[str, Any]:
        """Of a result."""
        return {
            "stdout_bytes": bytes(self._kept["stdout"]),
            "stderr_bytes": bytes(self._kept["stderr"]),
            "stdout_truncated": self._has_more["stdout"],
            "stderr_truncated": self._has_more["stderr"],
        }


class ExecCollector:
    """A streamed command's result."""

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
        return ExecResult(self._info, **self._output.fields())


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
        return replace(self._made, **self._output.fields())


Collector = Union[ExecCollector, CodeCollector]
