# SPDX-License-Identifier: Apache-2.0
"""Code in interpreters that keep their state: what a call gives back, and the contexts it runs in."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Iterable, List, Mapping, Optional

from . import errors
from ._protocol import request, text_or_base64

if TYPE_CHECKING:
    from .client import Client


@dataclass(frozen=True)
class CodeError:
    """What the code failed with; `InterpreterDied` when its process is gone."""

    name: str
    message: str
    traceback: List[str]

    def __str__(self) -> str:
        return "\n".join(self.traceback) or f"{self.name}: {self.message}"

    @classmethod
    def from_json(cls, j: Mapping[str, Any]) -> "CodeError":
        return cls(j["name"], j["message"], list(j["traceback"]))


@dataclass(frozen=True)
class Result:
    """A value in all the forms that it has, by MIME type: the last expression (`is_main`), or one that was shown."""

    data: Mapping[str, Any]
    metadata: Mapping[str, Any]
    is_main: bool
    truncated: bool = False

    @property
    def text(self) -> Optional[str]:
        return self.data.get("text/plain")

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
    exit_code: Optional[int] = None
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
        return self.stderr_bytes.decode("utf-8", "replace")

    @property
    def text(self) -> Optional[str]:
        """The last expression's value as text, if it had one."""
        return next((r.text for r in self.results if r.is_main), None)

    def take_end(self, j: Mapping[str, Any]) -> "CodeResult":
        self.status, self.cause, self.count = j["status"], j["cause"], j["count"]
        self.exit_code, self.signal, self.restarted = j["exit_code"], j["signal"], j["restarted"]
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


def collect_code(events: Iterable[Any], on_stdout: Any, on_stderr: Any, on_result: Any) -> CodeResult:
    """A streamed call's result. Output that went to a callback is not kept."""
    result = CodeResult()
    for event in events:
        j = event.raw
        if event.type == "stdout" and on_stdout:
            on_stdout(event.data)
        elif event.type == "stderr" and on_stderr:
            on_stderr(event.data)
        elif event.type == "stdout":
            result.stdout_bytes += event.data
        elif event.type == "stderr":
            result.stderr_bytes += event.data
        elif event.type in ("result", "display"):
            result.results.append(Result.from_json(j, event.type == "result"))
            if on_result:
                on_result(result.results[-1])
        elif event.type == "error":
            result.error = CodeError.from_json(j["error"])
        elif event.type == "failed":
            raise errors.from_body(0, j)
        elif event.type == "done":
            return result.take_end(j)
    raise errors.ConnectionFailed("the stream ended before the code did")


class Contexts:
    """The named interpreters of a sandbox."""

    def __init__(self, client: "Client", sandbox_id: str) -> None:
        self._client = client
        self._parts = ["sandboxes", sandbox_id, "contexts"]

    def create(
        self,
        name: Optional[str] = None,
        *,
        language: Optional[str] = None,
        cwd: Optional[str] = None,
        env: Optional[Mapping[str, str]] = None,
        user: Optional[str] = None,
    ) -> ContextInfo:
        body = {"name": name, "language": language, "cwd": cwd, "env": env, "user": user}
        return ContextInfo.from_json(self._client.call(request("POST", self._parts, body=body)))

    def list(self) -> List[ContextInfo]:
        return [ContextInfo.from_json(j) for j in self._client.call(request("GET", self._parts))["contexts"]]

    def _one(self, method: str, context: str, *word: str) -> ContextInfo:
        return ContextInfo.from_json(self._client.call(request(method, [*self._parts, context, *word])))

    def get(self, context: str) -> ContextInfo:
        return self._one("GET", context)

    def remove(self, context: str) -> ContextInfo:
        """Ends its interpreter with all that it started."""
        return self._one("DELETE", context)

    def restart(self, context: str) -> ContextInfo:
        """A fresh interpreter; its state is gone."""
        return self._one("POST", context, "restart")

    def interrupt(self, context: str) -> ContextInfo:
        """Ends the running call as an error, and keeps the state."""
        return self._one("POST", context, "interrupt")
