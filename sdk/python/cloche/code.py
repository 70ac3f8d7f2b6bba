# SPDX-License-Identifier: Apache-2.0
"""Code in interpreters that keep their state, without I/O: what a call gives back, event by event or as a whole."""

from __future__ import annotations

import codecs
from dataclasses import asdict, dataclass, field
from typing import Any, Dict, List, Mapping, Optional

from . import _notebook, errors
from ._protocol import Event, text_or_base64


@dataclass(frozen=True)
class CodeError:
    """The error that ended the code. Its name is `InterpreterDied` if the interpreter's process has ended."""

    name: str
    message: str
    traceback: List[str]
    hint: Optional[str] = None
    """What to do, if the code imports a module that the sandbox lacks."""

    def __str__(self) -> str:
        return "\n".join(self.traceback) or f"{self.name}: {self.message}"

    @classmethod
    def from_json(cls, j: Mapping[str, Any]) -> "CodeError":
        return cls(j["name"], j["message"], list(j["traceback"]), j.get("hint"))


@dataclass(frozen=True)
class Result:
    """A value in all its forms, by MIME type: the value of the last expression (`is_main`), or one that the code displayed."""

    data: Mapping[str, Any]
    metadata: Mapping[str, Any]
    is_main: bool
    truncated: bool = False

    @property
    def text(self) -> Optional[str]:
        return self.data.get("text/plain")

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> Any:
        return _notebook.bundle(self.data), dict(self.metadata)

    def _repr_html_(self) -> str:
        return _notebook.html_of(self.data)

    @classmethod
    def from_json(cls, j: Mapping[str, Any], is_main: bool) -> "Result":
        return cls(j["data"], j["metadata"], is_main, bool(j.get("truncated")))


@dataclass(frozen=True)
class ContextInfo:
    id: str
    name: str
    language: str
    state: str
    count: int
    raw: Mapping[str, Any]

    @classmethod
    def from_json(cls, j: Mapping[str, Any]) -> "ContextInfo":
        return cls(j["id"], j["name"], j["language"], j["state"], j["count"], j)


def exit_code_of(j: Mapping[str, Any]) -> int:
    if j["exit_code"] is not None:
        return int(j["exit_code"])
    if j["signal"] is not None:
        return 128 + int(j["signal"])
    return 0 if j["status"] == "ok" else 1


@dataclass
class CodeResult:
    status: str = ""
    cause: Optional[str] = None
    count: int = 0
    stdout_bytes: bytes = b""
    stderr_bytes: bytes = b""
    stdout_truncated: bool = False
    stderr_truncated: bool = False
    results: List[Result] = field(default_factory=list)
    error: Optional[CodeError] = None
    exit_code: int = 0  # as a shell would say it: 1 for an error that was not caught, 128 and the signal for one
    signal: Optional[int] = None
    restarted: bool = False
    context: Optional[ContextInfo] = None
    wall_us: int = 0
    cpu_us: Optional[int] = None  # by the interpreter's own word; None where it cannot tell

    @property
    def stdout(self) -> str:
        return self.stdout_bytes.decode("utf-8", "replace")

    @property
    def stderr(self) -> str:
        """What the code printed to stderr, followed by the error that it did not catch, as in a terminal. `stderr_bytes` has only
        what was printed."""
        parts = [self.printed_stderr, "" if self.error is None else str(self.error)]
        return "".join(part if part.endswith("\n") or self.error is None else part + "\n" for part in parts if part)

    @property
    def printed_stderr(self) -> str:
        """What the code printed to stderr, without an error that it did not catch."""
        return self.stderr_bytes.decode("utf-8", "replace")

    @property
    def text(self) -> Optional[str]:
        """The last expression's value as text, if it had one."""
        return next((r.text for r in self.results if r.is_main), None)

    def check(self) -> "CodeResult":
        """Returns this result if the code succeeded; else raises CodeFailed."""
        if self.status != "ok":
            raise errors.CodeFailed(str(self.error or f"the code ended by {self.cause or self.status}"), self)
        return self

    def to_dict(self) -> Dict[str, Any]:
        """Output, exit code and error as plain data, for json.dumps()."""
        return {
            "status": self.status,
            "text": self.text,
            "stdout": self.stdout,
            "stderr": self.stderr,
            "results": [{"is_main": r.is_main, "data": dict(r.data)} for r in self.results],
            "error": None if self.error is None else asdict(self.error),
            "exit_code": self.exit_code,
            "signal": self.signal,
            "cause": self.cause,
            "stdout_truncated": self.stdout_truncated,
            "stderr_truncated": self.stderr_truncated,
        }

    def _repr_html_(self) -> str:
        """What a notebook shows: all that was printed and shown, and the error."""
        shown = [_notebook.html_of(r.data) for r in self.results]
        return _notebook.page(self.stdout, self.printed_stderr, shown, None if self.error is None else str(self.error))

    def take_end(self, j: Mapping[str, Any]) -> "CodeResult":
        self.status, self.cause, self.count = j["status"], j["cause"], j["count"]
        self.exit_code, self.signal, self.restarted = exit_code_of(j), j["signal"], j["restarted"]
        self.context = ContextInfo.from_json(j["context"]) if j["context"] else None
        self.wall_us, self.cpu_us = j["wall_us"], j.get("cpu_us")
        return self

    @classmethod
    def from_json(cls, j: Mapping[str, Any]) -> "CodeResult":
        return cls(
            stdout_bytes=text_or_base64(j, "stdout"),
            stderr_bytes=text_or_base64(j, "stderr"),
            stdout_truncated=j["stdout_truncated"],
            stderr_truncated=j["stderr_truncated"],
            results=[Result.from_json(r, r["is_main"]) for r in j["results"]],
            error=CodeError.from_json(j["error"]) if j["error"] else None,
        ).take_end(j)


@dataclass(frozen=True)
class CodeEvent:
    """An event of run_code_stream(): `stdout` and `stderr` with a text, `result` with a Result, `error` with a CodeError, and at
    last `exit` with the exit code."""

    type: str
    data: Any
    seq: int
    ts: int  # when it came, in milliseconds since 1970

    @property
    def code(self) -> Optional[int]:
        """The exit code, of `exit`."""
        return self.data if self.type == "exit" else None


def utf8_decoder() -> codecs.IncrementalDecoder:
    return codecs.getincrementaldecoder("utf-8")("replace")


class CodeEvents:
    """Makes CodeEvents of a stream's events; text that is cut in two waits for its rest."""

    def __init__(self) -> None:
        self._texts = {"stdout": utf8_decoder(), "stderr": utf8_decoder()}

    def feed(self, event: Event, ts: int) -> List[CodeEvent]:
        made: Dict[str, Any] = {}
        if event.type in self._texts:
            made[event.type] = self._texts[event.type].decode(event.data)
        elif event.type in ("result", "display"):
            made["result"] = Result.from_json(event.raw, event.type == "result")
        elif event.type == "error":
            made["error"] = CodeError.from_json(event.raw["error"])
        elif event.type == "failed":
            raise errors.from_body(0, event.raw)
        elif event.type == "done":
            made = {name: text.decode(b"", True) for name, text in self._texts.items()}
            made["exit"] = exit_code_of(event.raw)
        return [CodeEvent(name, data, event.seq, ts) for name, data in made.items() if data != ""]
