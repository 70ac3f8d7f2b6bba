# SPDX-License-Identifier: Apache-2.0
"""What a stream of events adds up to, without I/O: a collector is fed events and says who wants each."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Callable, Dict, List, Optional, Union

from . import errors
from ._protocol import Event, ExecInfo, ExecResult
from .code import CodeError, CodeResult, Result, utf8_decoder

OnOutput = Union[Callable[[str], Any], Callable[[bytes], Any]]
OnResult = Callable[[Result], Any]
Delivery = Callable[[], Any]
KEPT_MAX = 16 << 20  # of each stream: a program that prints without end is not kept whole


class Output:
    """Bytes of stdout and stderr: kept for the result, and for a callback as they come where there is one. As text, a character that is
    cut in two waits for its rest."""

    def __init__(self, on_stdout: Optional[OnOutput], on_stderr: Optional[OnOutput], text: bool) -> None:
        self._sinks: Dict[str, Any] = {"stdout": on_stdout, "stderr": on_stderr}
        self._decoders = {name: utf8_decoder() for name in self._sinks} if text else {}
        self._kept = {"stdout": bytearray(), "stderr": bytearray()}
        self._has_more = {"stdout": False, "stderr": False}

    def take(self, event: Event) -> Optional[Delivery]:
        sink, kept = self._sinks[event.type], self._kept[event.type]
        kept += event.data[: KEPT_MAX - len(kept)]
        self._has_more[event.type] |= len(kept) == KEPT_MAX
        return self._deliver(sink, self._decoders[event.type].decode(event.data) if self._decoders else event.data)

    def _deliver(self, sink: Any, data: Union[str, bytes]) -> Optional[Delivery]:
        return (lambda: sink(data)) if sink is not None and data else None

    def rests(self) -> List[Delivery]:
        """At the end: what is left of characters that were cut."""
        made = [self._deliver(self._sinks[name], decoder.decode(b"", True)) for name, decoder in self._decoders.items()]
        return [one for one in made if one is not None]

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

    def __init__(self, on_stdout: Optional[OnOutput] = None, on_stderr: Optional[OnOutput] = None, text: bool = True) -> None:
        self._output = Output(on_stdout, on_stderr, text)
        self._info: Optional[ExecInfo] = None

    def feed(self, event: Event) -> Optional[Delivery]:
        """The call to make for it, if there is one."""
        if event.type in ("stdout", "stderr"):
            return self._output.take(event)
        self._info = event.exec or self._info
        return None

    def rests(self) -> List[Delivery]:
        """The calls to make at the end."""
        return self._output.rests()

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
        text: bool = True,
    ) -> None:
        self._output = Output(on_stdout, on_stderr, text)
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

    def rests(self) -> List[Delivery]:
        return self._output.rests()

    def _show(self, result: Result) -> Optional[Delivery]:
        self._made.results.append(result)
        sink = self._on_result
        return None if sink is None else lambda: sink(result)

    def result(self) -> CodeResult:
        if not self._is_done:
            raise errors.ConnectionFailed("the stream ended before the code did")
        return replace(self._made, **self._output.fields())


Collector = Union[ExecCollector, CodeCollector]
