# SPDX-License-Identifier: Apache-2.0
# Made by tools/make-sync from aio/sandbox.py; change that one.
"""The daemon, and the isolated computers that it runs.

Client makes a Sandbox, and a Sandbox that is given no client makes one: so both are here. What else a client can do is in account and
images, and what goes on in a sandbox is in execs, files, contexts and reach.
"""

from __future__ import annotations

import os
import uuid
from typing import TYPE_CHECKING, Any, Iterator, Callable, Dict, List, Mapping, Optional, Sequence, Set, Tuple, Union

from .. import errors
from .._fields import check_fields, check_fork_fields, own_words
from .._protocol import (
    FOREVER,
    NDJSON,
    Command,
    Endpoint,
    ExecResult,
    Forks,
    Json,
    SandboxInfo,
    Snapshot,
    create_body,
    diff_of,
    id_of,
    milliseconds,
    request,
    run_body,
)
from .._streams import CodeCollector, ExecCollector, OnOutput, OnResult
from ..code import CodeResult
from ._caller import RETRY_PAUSES
from ._wire import Source, pause, settle
from .account import Account
from .contexts import Contexts
from .execs import Runs
from .files import Files, SandboxPath
from .images import Images
from .reach import Reach

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .._fields import SandboxFields


class Client(Account, Images):
    """`url` is http://HOST:PORT, https://HOST:PORT or unix:/PATH; without it CLOCHE_URL, then the local socket, then a private
    daemon if a `cloche` program is in PATH. `api_key` defaults to CLOCHE_API_KEY. `timeout` is how many seconds the daemon may
    stay silent in a call that does not wait for work in a sandbox. `traceparent` (W3C) goes with every request."""

    def __init__(
        self,
        url: Optional[str] = None,
        api_key: Optional[str] = None,
        *,
        timeout: float = 60.0,
        host: Optional[str] = None,
        traceparent: Optional[str] = None,
    ) -> None:
        address = url or host or os.environ.get("CLOCHE_URL")
        headers = {}
        key = api_key or os.environ.get("CLOCHE_API_KEY")
        if key:
            headers["Authorization"] = f"Bearer {key}"
        if traceparent:
            headers["traceparent"] = traceparent
        super().__init__(Endpoint.parse(address) if address else None, headers, timeout)

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *exc: Any) -> None:
        self.close()

    def create(self, **fields: Unpack[SandboxFields]) -> "Sandbox":
        """Creates a sandbox. It runs when this returns."""
        return Sandbox.create(client=self, **fields)

    def create_many(self, count: int, **fields: Unpack[SandboxFields]) -> Iterator["Sandbox"]:
        """Creates `count` equal sandboxes, and yields each as soon as it runs. Their tags have `batch` and `batch_index`.

        With `wait` they come in their order, as there is room. If some could not be created, BatchError is raised after all
        others were yielded. If the connection breaks, it reconnects: no sandbox is created or yielded twice.
        """
        own = own_words(fields)
        key = own.pop("idempotency_key", None) or uuid.uuid4().hex
        body = {**create_body(**own), "count": count}
        req = request("POST", ["sandboxes:batch"], body=body, accept=NDJSON, idempotency_key=key, timeout=FOREVER)
        batch, tries = "", 0
        seen: Set[int] = set()
        failed: Dict[int, errors.ClocheError] = {}
        while True:
            try:
                with self.stream(req) as events:
                    for event in events:
                        raw = event.raw
                        batch = raw.get("batch_id", batch)
                        if event.type == "ended" and failed:
                            raise errors.BatchError(batch, failed)
                        if event.type == "ended":
                            return
                        if raw.get("index") in seen or event.type not in ("sandbox", "failed"):
                            continue
                        seen.add(raw["index"])
                        tries = 0
                        if event.type == "failed":
                            failed[raw["index"]] = errors.from_body(0, raw)
                        else:
                            yield Sandbox._of(self, SandboxInfo.from_json(raw["sandbox"]))
                raise errors.ConnectionFailed("the daemon ended the list of a batch early")
            except (errors.ConnectionFailed, errors.Unavailable):
                if tries == len(RETRY_PAUSES):
                    raise
                pause(RETRY_PAUSES[tries])
                tries += 1

    def delete_batch(self, batch_id: str) -> Json:
        """Ends all sandboxes of a batch, and the creates that still wait. Returns {batch_id, deleted}."""
        return self.call(request("DELETE", ["batches", batch_id]))

    def waiting_creates(self) -> List[Json]:
        """Lists the project's creates that wait for room (`wait`), in their order: {position, request_id, batch_id, why, message,
        waited_ms, left_ms}."""
        return self.items(["creates"], "creates")

    def reserve(self, count: int, *, duration: Optional[float] = None, **fields: Unpack[SandboxFields]) -> Json:
        """Announces that `count` creates with these fields will come within `duration` seconds (default 600), so that their
        sandboxes are made ahead.

        Only creates of this project get them. The reply, and later reservation(), says how many are `ready` and what limits the
        number.
        """
        own = own_words(fields)
        key = own.pop("idempotency_key", None) or uuid.uuid4().hex
        body = {**create_body(**own), "count": count, "duration_ms": milliseconds(duration)}
        return self.call(request("POST", ["pool"], body=body, idempotency_key=key, timeout=FOREVER))

    def reservations(self) -> List[Json]:
        """Lists the project's reservations that still hold."""
        return self.items(["pool"], "reservations")

    def reservation(self, reservation_id: str) -> Json:
        """Gets one reservation. NotFound if it has expired or all its creates have come."""
        return self.call(request("GET", ["pool", reservation_id]))

    def release(self, reservation_id: str) -> None:
        """Ends a reservation, and its sandboxes that nobody has taken."""
        self.call(request("DELETE", ["pool", reservation_id]))

    def get(self, id_or_name: str) -> "Sandbox":
        """Gets an existing sandbox by its id or name, also one that another program created."""
        return Sandbox._of(self, SandboxInfo.from_json(self.call(request("GET", ["sandboxes", id_or_name]))))

    def list(
        self, *, tag: Optional[str] = None, state: Optional[str] = None, group: Optional[str] = None, page_size: Optional[int] = None
    ) -> Iterator["Sandbox"]:
        """Lists the sandboxes that match, newest first. Further pages are fetched as needed. `tag` is NAME:VALUE."""
        query = {"tag": tag, "state": state, "group": group, "limit": page_size}
        for one in self.pages(["sandboxes"], "sandboxes", query):
            yield Sandbox._of(self, SandboxInfo.from_json(one))

    def run(
        self,
        command: Optional[Command] = None,
        *,
        code: Optional[str] = None,
        on_stdout: Optional[OnOutput] = None,
        on_stderr: Optional[OnOutput] = None,
        text: bool = True,
        **fields: Any,
    ) -> Any:
        """Creates a sandbox, runs one thing in it and removes it, in one call. A command (a line for the shell, or a program with
        its arguments) returns an ExecResult; `code` returns a CodeResult.

        `fields` are `language`, `timeout` and `wait` (for room) in seconds, and others as the HTTP API has them: files, env, stdin,
        limits, template, packages, … With `results`, these files stay when the sandbox is gone: list(tag=…) finds it by its `tags`.
        """
        if code is not None:
            return self.run_code(code, on_stdout=on_stdout, on_stderr=on_stderr, text=text, **fields)
        body = run_body(command, None, fields)
        if on_stdout or on_stderr:
            req = request("POST", ["run"], body=body, accept=NDJSON, timeout=FOREVER)
            return (self.collect(req, ExecCollector(on_stdout, on_stderr, text))).result()
        return ExecResult.from_json(self.call(request("POST", ["run"], body=body, timeout=FOREVER)))

    def run_code(
        self,
        code: str,
        language: Optional[str] = None,
        *,
        on_stdout: Optional[OnOutput] = None,
        on_stderr: Optional[OnOutput] = None,
        on_result: Optional[OnResult] = None,
        text: bool = True,
        **fields: Any,
    ) -> CodeResult:
        """Creates a sandbox, runs code in it and removes it, in one call."""
        body = run_body(None, code, {"language": language, **fields})
        if on_stdout or on_stderr or on_result:
            req = request("POST", ["run"], body=body, accept=NDJSON, timeout=FOREVER)
            return (self.collect(req, CodeCollector(on_stdout, on_stderr, on_result, text))).result()
        return CodeResult.from_json(self.call(request("POST", ["run"], body=body, timeout=FOREVER)))


class Sandbox(Runs, Reach):
    """One isolated computer, with the fields of SandboxFields. At the end of a `with` it is closed.

    Sandbox() runs when it is constructed. AsyncSandbox() cannot wait for that: create(), open(), `async with` or the first
    call to it do.
    """

    client: Client

    def __init__(
        self,
        *,
        client: Optional[Client] = None,
        host: Optional[str] = None,
        api_key: Optional[str] = None,
        traceparent: Optional[str] = None,
        **fields: Unpack[SandboxFields],
    ) -> None:
        self.client = client or Client(host, api_key, traceparent=traceparent)
        check_fields(fields)
        self._fields: Optional[Dict[str, Any]] = dict(fields)  # None: it was handed over
        self._info: Optional[SandboxInfo] = None
        self._port_urls: Dict[int, str] = {}
        self.files = Files(self)
        self.contexts = Contexts(self)
        self.open()

    @classmethod
    def create(cls, *, client: Optional[Client] = None, **fields: Unpack[SandboxFields]) -> "Sandbox":
        """Creates a sandbox. It runs when this returns."""
        return cls(client=client, **fields).open()

    @classmethod
    def get_or_create(
        cls,
        name: str = "default",
        *,
        client: Optional[Client] = None,
        on_create: Optional[Callable[["Sandbox"], Any]] = None,
        on_resume: Optional[Callable[["Sandbox"], Any]] = None,
        **fields: Any,
    ) -> "Sandbox":
        """Gets the sandbox of that name. Creates it (with the fields of SandboxFields) if it does not exist, and resumes it if it
        is stopped or paused. A new one is persistent, unless the fields say otherwise.

        All callers, in any process, get the same sandbox. `on_create` is called if this call created it, `on_resume` if this call
        resumed it, before this returns.
        """
        check_fields(fields)
        made = {"persistent": True, **fields, "name": name, "get_or_create": True}
        sandbox = cls._of(client or Client(), None)._make(made)
        if sandbox.info.created and on_create is not None:
            settle(on_create(sandbox))
        if sandbox.info.resumed and on_resume is not None:
            settle(on_resume(sandbox))
        return sandbox

    @classmethod
    def get(cls, id_or_name: str, *, client: Optional[Client] = None) -> "Sandbox":
        """Gets an existing sandbox by its id or name, also one that another program created."""
        return (client or Client()).get(id_or_name)

    @classmethod
    def attach(cls, id_or_name: str, *, client: Optional[Client] = None) -> "Sandbox":
        """The same as get()."""
        return cls.get(id_or_name, client=client)

    @classmethod
    def create_many(
        cls, count: int, *, client: Optional[Client] = None, **fields: Unpack[SandboxFields]
    ) -> Iterator["Sandbox"]:
        """Creates many equal sandboxes: see Client.create_many()."""
        return (client or Client()).create_many(count, **fields)

    @classmethod
    def list(cls, *, client: Optional[Client] = None, **filters: Any) -> Iterator["Sandbox"]:
        """Lists the sandboxes that match `tag` (NAME:VALUE) and `state`, newest first. Further pages are fetched as needed."""
        return (client or Client()).list(**filters)

    @classmethod
    def _of(cls, client: Client, info: Optional[SandboxInfo]) -> "Sandbox":
        sandbox = cls.__new__(cls)
        sandbox.client = client
        sandbox._fields, sandbox._info, sandbox._port_urls = {}, None, {}
        sandbox.files, sandbox.contexts = Files(sandbox), Contexts(sandbox)
        if info is not None:
            sandbox._learn(info)
        return sandbox

    def _learn(self, info: SandboxInfo) -> SandboxInfo:
        self._info = info
        for port in info.raw.get("ports") or ():
            url = port["host_url"] or port["url"]
            if url:
                self._port_urls.setdefault(port["port"], url)
        return info

    def open(self) -> "Sandbox":
        """Creates the sandbox, if that has not happened yet."""
        if self._fields is None:
            raise errors.Gone("this handle was given up by merge_into()")
        return self if self._info is not None else self._make(self._fields)

    def _make(self, fields: Mapping[str, Any]) -> "Sandbox":
        own = own_words(fields)
        key = own.pop("idempotency_key", None)
        body = create_body(**own)
        # The source has its own, a build or pull takes its time, and a wait ends by itself.
        timeout = FOREVER if body["source"] or body["packages"] or body["image"] or body["wait_ms"] else None
        req = request("POST", ["sandboxes"], body=body, idempotency_key=key, timeout=timeout)
        self._learn(SandboxInfo.from_json(self.client.call(req)))
        return self

    @property
    def info(self) -> SandboxInfo:
        """The sandbox as the last reply of the daemon described it. refresh() asks again."""
        if self._info is None:
            raise errors.ClocheError("the sandbox is not open yet", hint="sandbox.open()")
        return self._info

    @property
    def id(self) -> str:
        return self.info.id

    @property
    def name(self) -> Optional[str]:
        return self.info.name

    def _change(self, method: str, path: Tuple[str, ...] = (), **parts: Any) -> SandboxInfo:
        return self._learn(SandboxInfo.from_json(self._call(method, path, **parts)))

    def refresh(self) -> SandboxInfo:
        """Asks the daemon for the current state, and updates `info`."""
        return self._change("GET")

    def update(
        self,
        *,
        name: Optional[str] = None,
        tags: Optional[Mapping[str, str]] = None,
        env: Optional[Mapping[str, str]] = None,
        timeout: Optional[float] = None,
        idle_timeout: Optional[float] = None,
        on_timeout: Optional[str] = None,
        on_idle: Optional[str] = None,
        auto_resume: Optional[bool] = None,
        paused_time_counts: Optional[bool] = None,
        limits: Optional[Mapping[str, Any]] = None,
    ) -> SandboxInfo:
        """Changes the fields that are given. `timeout` (the lifetime, in seconds) counts from now."""
        body = {
            "name": name,
            "tags": tags,
            "env": env,
            "timeout_ms": milliseconds(timeout),
            "idle_timeout_ms": milliseconds(idle_timeout),
            "on_timeout": on_timeout,
            "on_idle": on_idle,
            "auto_resume": auto_resume,
            "paused_time_counts": paused_time_counts,
            "limits": limits,
        }
        return self._change("PATCH", body=body)

    def usage(self) -> Json:
        """{usage, now, …}: what it has used since its creation, and what it uses at this moment."""
        return self._call("GET", ["usage"])

    def read_result(self, path: str) -> bytes:
        """Reads one of its `results` after its end: a file's bytes, or a directory as a tar. Raises NotFound, with the reason, if
        the path could not be kept."""
        with self._reply("GET", ["results"], query={"path": path}, timeout=FOREVER) as reply:
            return reply.read()

    def usage_samples(self) -> List[Json]:
        """Its last readings, oldest first: at_us, cpu_ns, memory_bytes, disk_bytes, pids, network_in_bytes, network_out_bytes."""
        samples: List[Json] = (self._call("GET", ["usage", "samples"]))["samples"]
        return samples

    def history(self, range: str = "1h") -> Json:
        """What it used in the last "1h", "24h", "7d" or "30d": see the client's history(). Works also after it has ended."""
        self.open()
        query = {"scope": "sandbox", "id": self.id, "range": range}
        return self.client.call(request("GET", ["history"], query=query))

    def pause(self, *, to: Optional[str] = None, on_connection: Optional[str] = None) -> SandboxInfo:
        """Pauses all processes. resume() lets them go on; so does the next call, if the pause is on disk.

        `to="disk"` saves processes, memory and files; the sandbox then uses no memory and survives a restart of the machine.
        `to="memory"` takes effect at once; calls then resume it only with `auto_resume`. Default: disk where possible, else memory;
        `info.paused_to` says which. An open TCP connection prevents a pause to disk, unless `on_connection="close"` is given: then
        the program finds the connection closed after the resume.
        """
        return self._change("POST", ("pause",), body={"to": to, "on_connection": on_connection}, timeout=FOREVER)

    def resume(self, *, memory: Optional[bool] = None) -> SandboxInfo:
        """Resumes a paused sandbox, or starts a stopped persistent one from its files.

        With `memory=False` a sandbox that is paused on disk is started from its files only: its programs are lost.
        """
        return self._change("POST", ("resume",), body={"memory": memory}, timeout=FOREVER)

    def stop(self) -> SandboxInfo:
        """Ends all processes. A persistent sandbox keeps its files; any other one has ended. It is no error if it is already gone."""
        return self._end("POST", ("stop",))

    def extend(self, seconds: float) -> SandboxInfo:
        """Adds this time to its lifetime."""
        return self._change("POST", ("extend",), body={"ms": milliseconds(seconds)}, timeout=FOREVER)

    def delete(self) -> SandboxInfo:
        """Ends the sandbox and removes its files. Returns when nothing of it is left on the host. It is no error if it is already gone."""
        return self._end("DELETE")

    def _end(self, method: str, path: Tuple[str, ...] = ()) -> SandboxInfo:
        """So that the end of a program, in a `finally`, does not hide what went wrong in it."""
        try:
            return self._change(method, path, timeout=FOREVER)
        except (errors.NotFound, errors.Gone):
            return self.info

    def close(self) -> None:
        """Stops a persistent sandbox, and deletes any other. It is no error if it is already gone or was never created."""
        if self._info is None or self._fields is None:
            return
        (self.stop() if self._info.persistent else self.delete())

    def __enter__(self) -> "Sandbox":
        return self.open()

    def __exit__(self, *exc: Any) -> None:
        self.close()

    def snapshot(
        self,
        name: Optional[str] = None,
        *,
        memory: bool = False,
        on_connection: Optional[str] = None,
        expires_in: Optional[float] = None,
        keep_last: Optional[int] = None,
    ) -> Snapshot:
        """Saves its current state as a snapshot, from which other sandboxes can start.

        `memory=True` saves running programs, too. They may have an open TCP connection, which cannot be saved:
        `on_connection="refuse"` (the default) then takes no snapshot, "close" takes it and the copies find the connection closed.
        `expires_in` (seconds) removes the snapshot later. `keep_last` keeps only so many of this sandbox's snapshots and removes
        older ones; those with a name stay.
        """
        body = {
            "name": name,
            "memory": memory,
            "on_connection": on_connection,
            "expires_in_ms": milliseconds(expires_in),
            "keep_last": keep_last,
        }
        return Snapshot(self._call("POST", ["snapshots"], body=body, timeout=FOREVER))

    def snapshots(self) -> Iterator[Snapshot]:
        """Lists the snapshots of this sandbox, newest first."""
        self.open()
        for one in self.client.snapshots(sandbox=self.id):
            yield one

    def fork(self, count: int = 1, *, memory: bool = True, **fields: Any) -> Forks["Sandbox"]:
        """Creates `count` new sandboxes that go on from the current state of this one; with `memory=False` from its files only.

        `fields` are on_connection (see snapshot()), name, group and alias (with several forks, -1, -2 … is appended to name and
        alias), tags, env, network, timeout, idle_timeout, on_timeout, persistent, results (default: those of this sandbox). If some
        forks fail, ForkError has the forks that were made (`sandboxes`) and the errors of the others (`failed`). The returned list
        has `memory_by`, how the memory was copied ("imprint", "criu", "machine"), and `memory_why`, why it was not an imprint.
        """
        check_fork_fields(fields)
        for field in ("timeout", "idle_timeout"):
            if field in fields:
                fields[field + "_ms"] = milliseconds(fields.pop(field))
        body = {"count": count, "memory": memory, **fields}
        made = self._call("POST", ["fork"], body=body, timeout=FOREVER)
        sandboxes = Forks((type(self)._of(self.client, SandboxInfo.from_json(j)) for j in made["sandboxes"]), made)
        if made["failed"]:
            raise errors.ForkError(sandboxes, made["failed"])
        return sandboxes

    def merge_into(self, winner: "Sandbox") -> None:
        """Replaces this sandbox by the winner's: this object controls the winner's sandbox from now on, and its old sandbox is
        deleted. No files are merged. The object `winner` must not be used afterwards: its calls fail, and closing it does
        nothing."""
        winner.open()
        loser = type(self)._of(self.client, self.info)
        self._port_urls = {}
        self._learn(winner.info)
        winner._fields = None
        loser.delete()

    def diff(
        self,
        other: Union[str, Snapshot, "Sandbox"],
        paths: Optional[Sequence[str]] = None,
        *,
        patch: bool = False,
        limit: Optional[int] = None,
    ) -> Json:
        """Lists how its files differ from those of a snapshot or another sandbox: see Client.diff(). `paths` limits it to these
        paths and what is below them. The reply also has lists of the paths that were `added`, `removed` and `modified`."""
        self.open()
        old = (other.open()).id if isinstance(other, Sandbox) else id_of(other)
        return diff_of(self.client.diff(old, self.id, patch=patch, limit=limit), paths)

    def apply(
        self, fork: Union[str, Snapshot, "Sandbox"], *, on_conflict: Optional[str] = None, base: Optional[str] = None
    ) -> Json:
        """Applies the file changes of a fork (or of a snapshot, by id or name) to this sandbox: {applied, changes, conflict_count,
        conflicts}.

        A path that both have changed since their common snapshot (or `base`) is a conflict. Then nothing is applied and
        ApplyConflict lists the paths, unless `on_conflict` is "skip" (apply the others) or "theirs" (take the fork's files).
        """
        body = {"from": id_of(fork), "on_conflict": on_conflict, "base": base}
        result = self._call("POST", ["apply"], body=body, timeout=FOREVER)
        if not result["applied"]:
            raise errors.ApplyConflict(result["conflicts"], result["conflict_count"])
        return result

    def rollback(self, snapshot: Union[str, Snapshot]) -> SandboxInfo:
        """Goes back to a snapshot (or its id or name): ends all processes, and starts the sandbox again with the snapshot's files."""
        return self._change("POST", ("rollback",), body={"snapshot": id_of(snapshot)}, timeout=FOREVER)

    def tree(self) -> Json:
        """{root_id, nodes}: all sandboxes and snapshots with the same origin as this one, parents before their children."""
        return self._call("GET", ["tree"])

    def path(self, path: str) -> SandboxPath:
        """A path inside the sandbox, with the methods of pathlib."""
        return SandboxPath(self.files, path)

    def upload(self, path: Union[str, bytes], data: Union[Source, str]) -> None:
        """Writes a file, and creates missing directories. The two arguments may also be given the other way round: bytes, then the path."""
        if not isinstance(path, str):
            path, data = str(data), path
        self.files.write(path, data, parents=True)

    def download(self, path: str) -> bytes:
        """The same as files.read()."""
        return self.files.read(path)

    def __repr__(self) -> str:
        return "<Sandbox, not open>" if self._info is None else f"<Sandbox {self.id} {self.info.state}>"
