# SPDX-License-Identifier: Apache-2.0
"""Requests and replies of the native API, without I/O: what a client sends, and what comes back.

Everything here is plain data, so that a sync and an async client can share it. Units: seconds on
this side, milliseconds and microseconds on the wire.
"""

from __future__ import annotations

import base64
import codecs
import json
import os
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Dict, Iterable, Iterator, List, Mapping, Optional, Sequence, TypeVar, Union
from urllib.parse import quote, urlencode, urlsplit

from . import errors

DEFAULT_SOCKET = "/run/cloche/cloche.sock"
DEFAULT_PORT = 7070
FOREVER = float("inf")
CHUNK = 256 * 1024
NDJSON = "application/x-ndjson"

Command = Union[str, Sequence[str]]
Json = Dict[str, Any]
T = TypeVar("T")


@dataclass(frozen=True)
class Endpoint:
    """Where the daemon listens: http://HOST:PORT, https://HOST:PORT or unix:/PATH."""

    scheme: str
    host: str = ""
    port: int = 0
    path: str = ""

    @classmethod
    def parse(cls, url: str) -> "Endpoint":
        if url.startswith("unix:"):
            path = url[len("unix:") :]
            if path.startswith("//"):
                path = path[2:]
            if not path.startswith("/"):
                raise ValueError(f"not an absolute socket path: '{url}'")
            return cls("unix", path=path)
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"not a URL of http:, https: or unix: '{url}'")
        if parts.path.strip("/") or parts.query or parts.fragment:
            raise ValueError(f"a daemon's URL has no path: '{url}'")
        return cls(parts.scheme, parts.hostname, parts.port or (443 if parts.scheme == "https" else DEFAULT_PORT))

    @classmethod
    def default(cls) -> "Endpoint":
        return cls.parse(os.environ.get("CLOCHE_URL") or f"unix:{DEFAULT_SOCKET}")

    def __str__(self) -> str:
        if self.scheme == "unix":
            return f"unix:{self.path}"
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}:{self.port}"


@dataclass
class Request:
    method: str
    target: str
    headers: Dict[str, str] = field(default_factory=dict)
    body: Union[None, bytes, Iterable[bytes]] = None
    timeout: Optional[float] = None  # of silence, in seconds; None = the client's default

    @property
    def is_repeatable(self) -> bool:
        """Sending it twice does the same as once, and its body (if any) can be sent again."""
        is_safe = self.method in ("GET", "HEAD", "DELETE") or "Idempotency-Key" in self.headers
        return is_safe and (self.body is None or isinstance(self.body, bytes))


def request(
    method: str,
    parts: Sequence[str],
    query: Optional[Mapping[str, Any]] = None,
    body: Optional[Mapping[str, Any]] = None,
    stream: Union[None, bytes, Iterable[bytes]] = None,
    accept: Optional[str] = None,
    timeout: Optional[float] = None,
    idempotency_key: Optional[str] = None,
) -> Request:
    """The request for /v1/PARTS; fields and parameters that are None are left out."""
    target = "/v1/" + "/".join(quote(p, safe=":") for p in parts)
    words = [(k, _query_word(v)) for k, v in (query or {}).items() if v is not None and v is not False]
    if words:
        target += "?" + urlencode(words, safe="/")
    headers = {"Accept": accept} if accept else {}
    if idempotency_key is not None:
        headers["Idempotency-Key"] = idempotency_key
    data: Union[None, bytes, Iterable[bytes]] = stream
    if body is not None:
        data = json.dumps({k: v for k, v in body.items() if v is not None}).encode()
        headers["Content-Type"] = "application/json"
    elif stream is not None:
        headers["Content-Type"] = "application/octet-stream"
    return Request(method, target, headers, data, timeout)


def moment(at: Union[None, str, float, datetime]) -> Optional[str]:
    """A time as the daemon reads it. A datetime without a zone is one of the local clock."""
    if isinstance(at, datetime):
        return at.astimezone().isoformat()
    return f"{at:.6f}" if isinstance(at, (int, float)) else at


def stream_of(source: Any) -> Any:
    """A body of what the user gave: bytes, or something that gives them piece by piece."""
    if isinstance(source, str):
        return source.encode()
    if isinstance(source, (bytes, bytearray, memoryview)):
        return bytes(source)
    if hasattr(source, "read"):
        return iter(lambda: source.read(CHUNK), b"")
    return source


def _query_word(value: Any) -> str:
    return "1" if value is True else str(value)


def error_of(status: int, body: bytes) -> errors.ClocheError:
    try:
        return errors.from_body(status, json.loads(body))
    except ValueError:
        return errors.from_body(status, None)


def milliseconds(seconds: Optional[float]) -> Optional[int]:
    return None if seconds is None else int(seconds * 1000)


def volume_places(volumes: Optional[Mapping[str, Any]]) -> Optional[List[Json]]:
    """{path: name, or {volume, read_only}} as the API has it."""
    if volumes is None:
        return None
    return [{"path": path, **({"volume": one} if isinstance(one, str) else one)} for path, one in volumes.items()]


def create_body(
    name: Optional[str] = None,
    group: Optional[str] = None,
    alias: Optional[str] = None,
    template: Optional[str] = None,
    language: Optional[str] = None,
    tags: Optional[Mapping[str, str]] = None,
    env: Optional[Mapping[str, str]] = None,
    limits: Optional[Mapping[str, Any]] = None,
    timeout: Optional[float] = None,
    idle_timeout: Optional[float] = None,
    on_timeout: Optional[str] = None,
    on_idle: Optional[str] = None,
    persistent: Optional[bool] = None,
    on_node_loss: Optional[str] = None,
    auto_resume: Optional[bool] = None,
    paused_time_counts: Optional[bool] = None,
    get_or_create: Optional[bool] = None,
    engine: Optional[str] = None,
    min_grade: Optional[str] = None,
    network: Union[None, str, Mapping[str, Any]] = None,
    ports: Optional[Sequence[int]] = None,
    source: Optional[Mapping[str, Any]] = None,
    packages: Optional[Sequence[str]] = None,
    image: Optional[str] = None,
    pull: Optional[str] = None,
    volumes: Optional[Mapping[str, Any]] = None,
    snapshot: Optional[str] = None,
    memory: Optional[bool] = None,
    wait: Optional[float] = None,
    results: Optional[Sequence[str]] = None,
) -> Json:
    return {
        "results": None if results is None else list(results),
        "packages": None if packages is None else list(packages),
        "image": image,
        "pull": pull,
        "volumes": volume_places(volumes),
        "snapshot": snapshot,
        "memory": memory,
        "network": network,
        "source": source,
        "ports": None if ports is None else list(ports),
        "idle_timeout_ms": milliseconds(idle_timeout),
        "on_timeout": on_timeout,
        "on_idle": on_idle,
        "persistent": persistent,
        "on_node_loss": on_node_loss,
        "auto_resume": auto_resume,
        "paused_time_counts": paused_time_counts,
        "get_or_create": get_or_create,
        "name": name,
        "group": group,
        "alias": alias,
        "template": template,
        "language": language,
        "tags": tags,
        "env": env,
        "limits": limits,
        "timeout_ms": milliseconds(timeout),
        "engine": engine,
        "min_grade": min_grade,
        "wait_ms": milliseconds(wait),
    }


def run_body(command: Optional[Command], code: Optional[str], fields: Mapping[str, Any]) -> Json:
    """Of one call that makes a sandbox, runs a command or code in it and deletes it."""
    body: Json = {"code": code, **fields}
    body["timeout_ms"] = milliseconds(body.pop("timeout", None))
    body["volumes"] = volume_places(body.get("volumes"))
    body["wait_ms"] = milliseconds(body.pop("wait", None))
    if isinstance(command, str):
        body["command"] = command
    elif command is not None:
        body["argv"] = list(command)
    return body


def code_body(
    code: str,
    language: Optional[str] = None,
    context: Optional[str] = None,
    timeout: Optional[float] = None,
    on_busy: Optional[str] = None,
    cwd: Optional[str] = None,
    env: Optional[Mapping[str, str]] = None,
    kill_on_disconnect: bool = False,
) -> Json:
    return {
        "code": code,
        "language": language,
        "context": context,
        "timeout_ms": milliseconds(timeout),
        "on_busy": on_busy,
        "cwd": cwd,
        "env": env,
        "kill_on_disconnect": kill_on_disconnect or None,
    }


def exec_body(
    command: Command,
    cwd: Optional[str] = None,
    env: Optional[Mapping[str, str]] = None,
    user: Optional[str] = None,
    stdin: Union[None, str, bytes] = None,
    open_stdin: bool = False,
    pty: Union[None, bool, Mapping[str, int]] = None,
    timeout: Optional[float] = None,
    detached: bool = False,
    kill_on_disconnect: bool = False,
) -> Json:
    """A str is a line for the shell, a sequence an argv that no shell sees."""
    body: Json = {
        "cwd": cwd,
        "env": env,
        "user": user,
        "open_stdin": open_stdin or None,
        "timeout_ms": milliseconds(timeout),
        "detached": detached or None,
        "kill_on_disconnect": kill_on_disconnect or None,
    }
    if isinstance(command, str):
        body["shell"] = command
    else:
        body["argv"] = list(command)
    if isinstance(stdin, bytes):
        body["stdin_base64"] = base64.b64encode(stdin).decode()
    else:
        body["stdin"] = stdin
    if pty:
        body["pty"] = {"rows": 24, "cols": 80} if pty is True else dict(pty)
    return body


class Forks(List[T]):
    """The result of fork(): a list of the sandboxes. `memory_by` says how their memory was copied: "imprint", "criu" or "machine";
    None if only files were copied. `memory_why` says why it was not an imprint."""

    def __init__(self, sandboxes: Iterable[T], made: Mapping[str, Any]) -> None:
        super().__init__(sandboxes)
        self.memory_by: Optional[str] = made.get("memory_by")
        self.memory_why: Optional[str] = made.get("memory_why")


@dataclass(frozen=True)
class SandboxInfo:
    id: str
    state: str
    name: Optional[str]
    template: str
    packages: Sequence[str]
    tags: Mapping[str, str]
    limits: Mapping[str, Any]
    isolation: Mapping[str, Any]
    created_us: int
    expires_us: Optional[int]
    ended: Optional[Mapping[str, Any]]
    persistent: bool
    resumes: int
    created: bool  # by the call that this came from
    resumed: bool
    snapshot_id: Optional[str]  # that it was started from
    paused_to: Optional[str]  # "disk" or "memory", while it is paused
    group: Optional[str]  # whose members it reaches
    alias: Optional[str]  # its host name there
    results: Optional[Sequence[Mapping[str, Any]]]  # what is kept of it when it has ended
    on_node_loss: str  # "end" or "restore"
    generation: Optional[Mapping[str, Any]]  # its newest durable files: id, taken_us
    restored: Optional[Mapping[str, Any]]  # the last time that another node had to go on with it: generation, lost_ms, at_us
    raw: Mapping[str, Any]

    @classmethod
    def from_json(cls, j: Mapping[str, Any]) -> "SandboxInfo":
        return cls(
            id=j["id"],
            state=j["state"],
            name=j.get("name"),
            template=j.get("template", ""),
            packages=j.get("packages") or (),
            tags=j.get("tags") or {},
            limits=j.get("limits") or {},
            isolation=j.get("isolation") or {},
            created_us=j.get("created_us", 0),
            expires_us=j.get("expires_us"),
            ended=j.get("ended"),
            persistent=j.get("persistent", False),
            resumes=j.get("resumes", 0),
            created=j.get("created", False),
            resumed=j.get("resumed", False),
            snapshot_id=j.get("snapshot_id"),
            paused_to=j.get("paused_to"),
            group=j.get("group"),
            alias=j.get("alias"),
            results=j.get("results"),
            on_node_loss=j.get("on_node_loss", "end"),
            generation=j.get("generation"),
            restored=j.get("restored"),
            raw=j,
        )


class Snapshot(Dict[str, Any]):
    """Files, and maybe memory, of a sandbox as they were at one moment: all that the daemon tells of it, by name, as in a dict."""

    @property
    def id(self) -> str:
        return str(self["id"])

    @property
    def name(self) -> Optional[str]:
        name: Optional[str] = self["name"]
        return name

    @property
    def sandbox_id(self) -> str:
        """The sandbox that it was taken from."""
        return str(self["sandbox_id"])

    @property
    def bytes(self) -> int:
        """Of all its files; `own_bytes` is what it is charged for."""
        return int(self["bytes"])

    def __repr__(self) -> str:
        return f"<Snapshot {self.id}>"


def id_of(what: Any) -> str:
    """Of a snapshot or a sandbox, or the id or name itself."""
    return what if isinstance(what, str) else str(what.id)


@dataclass(frozen=True)
class ExecInfo:
    """State of a command. After its end it has `exit_code` or `signal`; `cause` says why it ended, if it did not end by itself."""

    id: str
    state: str
    exit_code: Optional[int]
    signal: Optional[int]
    cause: Optional[str]
    error: Optional[Mapping[str, Any]]
    raw: Mapping[str, Any]

    @property
    def ended(self) -> Optional[Mapping[str, Any]]:
        """{cause, detail, message, at_us}, with the figures that explain the end; None while it runs."""
        return self.raw.get("ended")

    @property
    def is_over(self) -> bool:
        return self.state in ("exited", "failed")

    @classmethod
    def from_json(cls, j: Mapping[str, Any]) -> "ExecInfo":
        return cls(
            id=j["id"],
            state=j["state"],
            exit_code=j.get("exit_code"),
            signal=j.get("signal"),
            cause=j.get("cause"),
            error=j.get("error"),
            raw=j,
        )


@dataclass(frozen=True)
class ExecResult:
    exec: ExecInfo
    stdout_bytes: bytes
    stderr_bytes: bytes
    stdout_truncated: bool = False
    stderr_truncated: bool = False

    @property
    def exit_code(self) -> Optional[int]:
        return self.exec.exit_code

    @property
    def signal(self) -> Optional[int]:
        return self.exec.signal

    @property
    def cause(self) -> Optional[str]:
        return self.exec.cause

    def check(self) -> "ExecResult":
        """Returns this result if the command ended with code 0; else raises the error for its cause, such as OutOfMemory."""
        if self.exit_code != 0:
            raise errors.of_exec(self.exec)
        return self

    @property
    def stdout(self) -> str:
        return self.stdout_bytes.decode("utf-8", "replace")

    @property
    def stderr(self) -> str:
        return self.stderr_bytes.decode("utf-8", "replace")

    def to_dict(self) -> Json:
        """Output, exit code and error as plain data, for json.dumps()."""
        told: Json = {"exit_code": self.exit_code, "signal": self.signal, "cause": self.cause, "stdout": self.stdout, "stderr": self.stderr}
        return {**told, "stdout_truncated": self.stdout_truncated, "stderr_truncated": self.stderr_truncated}

    @classmethod
    def from_json(cls, j: Mapping[str, Any]) -> "ExecResult":
        return cls(
            ExecInfo.from_json(j["exec"]),
            text_or_base64(j, "stdout"),
            text_or_base64(j, "stderr"),
            bool(j.get("stdout_truncated")),
            bool(j.get("stderr_truncated")),
        )


def text_or_base64(j: Mapping[str, Any], name: str) -> bytes:
    encoded = j.get(f"{name}_base64")
    if encoded is not None:
        return base64.b64decode(encoded)
    return str(j.get(name) or "").encode()


@dataclass(frozen=True)
class Event:
    """An event of an exec (started, stdout, stderr, gap, exited) or of a code call (result, display, error, done, …)."""

    type: str
    seq: int
    data: bytes
    raw: Mapping[str, Any]

    @property
    def exec(self) -> Optional[ExecInfo]:
        return ExecInfo.from_json(self.raw["exec"]) if "exec" in self.raw else None

    @property
    def lost_bytes(self) -> int:
        return int(self.raw.get("lost_bytes", 0))

    @classmethod
    def from_json(cls, j: Mapping[str, Any]) -> "Event":
        if j.get("type") == "error" and "code" in j.get("error", {}):
            raise errors.from_body(0, j)
        data = base64.b64decode(j["base64"]) if "base64" in j else str(j.get("text", "")).encode()
        return cls(str(j["type"]), int(j.get("place", j.get("seq", 0))), data, j)  # place: in a log of all projects


@dataclass(frozen=True)
class Entry:
    """A file, directory or link, as `lstat` saw it inside."""

    path: str
    name: str
    type: str
    mode: int
    size: int
    uid: int
    gid: int
    user: Optional[str]
    group: Optional[str]
    mtime_us: int
    target: Optional[str]
    raw: Mapping[str, Any]

    @classmethod
    def from_json(cls, j: Mapping[str, Any]) -> "Entry":
        return cls(
            path=j["path"],
            name=j["name"],
            type=j["type"],
            mode=int(j["mode"], 8),
            size=j["size"],
            uid=j["uid"],
            gid=j["gid"],
            user=j["user"],
            group=j["group"],
            mtime_us=j["mtime_us"],
            target=j.get("target"),
            raw=j,
        )


def diff_of(j: Mapping[str, Any], paths: Optional[Sequence[str]]) -> Json:
    """A diff with its paths by kind, of those changes that are at or below one of `paths`."""
    tops = None if paths is None else [p.rstrip("/") for p in paths]
    changes = [c for c in j["changes"] if tops is None or any(c["path"] == t or c["path"].startswith(t + "/") for t in tops)]
    kinds = {"added": "added", "removed": "deleted", "modified": "modified"}
    return {**j, "changes": changes, **{word: [c["path"] for c in changes if c["kind"] == kind] for word, kind in kinds.items()}}


def mode_word(mode: Optional[int]) -> Optional[str]:
    """Modes travel as octal words, as chmod takes them."""
    return None if mode is None else f"{mode:04o}"


class LineDecoder:
    """Cuts a stream of bytes into the JSON objects of its lines."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")()
        self._rest: List[str] = []

    def feed(self, data: bytes) -> Iterator[Json]:
        *lines, rest = self._decoder.decode(data).split("\n")
        for line in lines:
            self._rest.append(line)
            whole = "".join(self._rest)
            self._rest.clear()
            if whole:
                yield json.loads(whole)
        self._rest.append(rest)
