# SPDX-License-Identifier: Apache-2.0
"""The sync client: Client is the daemon, Sandbox one computer of it, Exec one command in that.

    with Sandbox.create() as sandbox:
        print(sandbox.run("echo $((6*7))").stdout)

Safe to share between threads. A call that only reads, or that may be made twice, is sent again
once when the connection broke; no other call ever is.
"""

from __future__ import annotations

import json
import os
import time
from datetime import date
from typing import Any, Callable, Dict, Iterator, List, Mapping, Optional, Sequence, Union

from . import errors
from ._protocol import (
    FOREVER,
    NDJSON,
    Command,
    Endpoint,
    Event,
    ExecInfo,
    ExecResult,
    Json,
    LineDecoder,
    Request,
    SandboxInfo,
    create_body,
    exec_body,
    milliseconds,
    request,
)
from ._transport import CHUNK, Reply, Transport
from .code import CodeResult, Contexts, Result, collect_code
from .files import Files, Source, _stream_of

OnOutput = Callable[[bytes], None]
RETRY_PAUSES = (0.05, 0.2, 0.5, 1.0)


class Client:
    """`url` and `api_key` default to CLOCHE_URL and CLOCHE_API_KEY, then to the local socket."""

    def __init__(self, url: Optional[str] = None, api_key: Optional[str] = None, *, timeout: float = 60.0) -> None:
        endpoint = Endpoint.parse(url) if url else Endpoint.default()
        self._transport = Transport(endpoint, api_key or os.environ.get("CLOCHE_API_KEY"), timeout)

    def open(self, req: Request) -> Reply:
        """Sends a request and returns its reply with the body unread; errors are raised."""
        pauses = RETRY_PAUSES if req.is_repeatable else ()
        for pause in pauses:
            try:
                return self._transport.open(req)
            except (errors.ConnectionFailed, errors.Unavailable):
                time.sleep(pause)
        return self._transport.open(req)

    def call(self, req: Request) -> Json:
        """Sends a request and returns its JSON."""
        with self.open(req) as reply:
            data = reply.read()
        value = json.loads(data) if data else {}
        return value if isinstance(value, dict) else {}

    def close(self) -> None:
        self._transport.close()

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *exc: Any) -> None:
        self.close()

    def health(self) -> Json:
        return self.call(request("GET", ["health"]))

    def create(self, *, idempotency_key: Optional[str] = None, **fields: Any) -> "Sandbox":
        """The fields are those of Sandbox.create().

        Calls with one `idempotency_key` make one sandbox, and are sent again when the connection breaks.
        """
        body = create_body(**fields)
        timeout = FOREVER if body["source"] or body["packages"] else None  # the source has its own, a build takes its time
        req = request("POST", ["sandboxes"], body=body, idempotency_key=idempotency_key, timeout=timeout)
        return Sandbox(self, SandboxInfo.from_json(self.call(req)))

    def get(self, id_or_name: str) -> "Sandbox":
        return Sandbox(self, SandboxInfo.from_json(self.call(request("GET", ["sandboxes", id_or_name]))))

    def list(
        self, *, tag: Optional[str] = None, state: Optional[str] = None, page_size: Optional[int] = None
    ) -> Iterator["Sandbox"]:
        """All that match, newest first; pages are fetched as they are needed. `tag` is NAME:VALUE."""
        cursor: Optional[str] = None
        while True:
            query = {"tag": tag, "state": state, "limit": page_size, "cursor": cursor}
            page = self.call(request("GET", ["sandboxes"], query=query))
            for one in page["sandboxes"]:
                yield Sandbox(self, SandboxInfo.from_json(one))
            cursor = page.get("next_cursor")
            if not cursor:
                return

    def run(
        self,
        command: Optional[Command] = None,
        *,
        code: Optional[str] = None,
        language: Optional[str] = None,
        timeout: Optional[float] = None,
        on_stdout: Optional[OnOutput] = None,
        on_stderr: Optional[OnOutput] = None,
        **fields: Any,
    ) -> Any:
        """One call, a fresh sandbox, gone after: a command (line or argv) gives an ExecResult, code a CodeResult.

        `fields` are passed as they are on the wire: files, env, stdin, limits, template, packages, …
        """
        body: Json = {"code": code, "language": language, "timeout_ms": milliseconds(timeout), **fields}
        if isinstance(command, str):
            body["command"] = command
        elif command is not None:
            body["argv"] = list(command)
        if on_stdout or on_stderr:
            req = request("POST", ["run"], body=body, accept=NDJSON, timeout=FOREVER)
            with _events(self.open(req)) as events:
                if code is not None:
                    return collect_code(events, on_stdout, on_stderr, None)
                return _collect(events, on_stdout, on_stderr)
        reply = self.call(request("POST", ["run"], body=body, timeout=FOREVER))
        return ExecResult.from_json(reply) if code is None else CodeResult.from_json(reply)

    def usage(
        self,
        *,
        group_by: str = "project",
        start: Union[None, str, date] = None,
        end: Union[None, str, date] = None,
        project: Optional[str] = None,
    ) -> List[Json]:
        """Rows of what was used, by "project", "sandbox" or "day" (UTC), from start to end, both included.

        Without days: this month. A key sees its own project; an admin of "default" all of them.
        """
        query = {"group_by": group_by, "from": start, "to": end, "project": project}
        rows: List[Json] = []
        cursor = None
        while True:
            page = self.call(request("GET", ["usage"], query={**query, "cursor": cursor}))
            rows += page["rows"]
            cursor = page["next_cursor"]
            if cursor is None:
                return rows

    def events(
        self,
        after: int = 0,
        *,
        follow: bool = False,
        type: Optional[str] = None,
        sandbox: Optional[str] = None,
        all: bool = False,
    ) -> Iterator[Json]:
        """Entries of the event log behind `after`; with `follow` also those to come, without end.

        A connection that breaks is made again where it was: no entry is lost or comes twice.
        """
        while True:
            query = {"after": after or None, "follow": follow, "type": type, "sandbox_id": sandbox, "all": all}
            req = request("GET", ["events"], query=query, accept=NDJSON, timeout=FOREVER)
            try:
                with _events(self.open(req)) as events:
                    for event in events:
                        after = max(after, event.seq)
                        yield dict(event.raw)
                if not follow:
                    return
            except errors.ConnectionFailed:
                time.sleep(RETRY_PAUSES[0])

    def quota(self, *, project: Optional[str] = None, key: Optional[str] = None) -> Json:
        """{limits, current, …} of the caller's project, another project or a key."""
        if key is not None:
            return self.call(request("GET", ["keys", key, "quota"], query={"project": project}))
        if project is not None:
            return self.call(request("GET", ["projects", project, "quota"]))
        return dict(self.call(request("GET", ["quota"]))["project"])

    def set_quota(self, *, project: Optional[str] = None, key: Optional[str] = None, **limits: Any) -> Json:
        """Sets all limits of a project (for admins of "default") or a key: sandboxes, vcpus, memory_mib,
        disk_mib, creates_per_minute, budget (text). Those left out have their default; "unlimited" is none."""
        if key is not None:
            return self.call(request("PUT", ["keys", key, "quota"], query={"project": project}, body=limits))
        return self.call(request("PUT", ["projects", project or "default", "quota"], body=limits))

    def keys(self, *, project: Optional[str] = None) -> List[Json]:
        return list(self.call(request("GET", ["keys"], query={"project": project}))["keys"])

    def create_key(self, name: str, *, scope: Optional[str] = None, project: Optional[str] = None) -> Json:
        """{key, secret}: the secret is shown this once."""
        return self.call(request("POST", ["keys"], body={"name": name, "scope": scope, "project": project}))

    def revoke_key(self, key_id: str, *, project: Optional[str] = None) -> None:
        self.call(request("DELETE", ["keys", key_id], query={"project": project}))

    def webhooks(self) -> List[Json]:
        return list(self.call(request("GET", ["webhooks"]))["webhooks"])

    def create_webhook(self, url: str, *, types: Optional[str] = None) -> Json:
        """{webhook, secret}: events of the project go to url from now on; the secret is shown this once."""
        return self.call(request("POST", ["webhooks"], body={"url": url, "types": types}))

    def update_webhook(self, webhook_id: str, *, url: Optional[str] = None, types: Optional[str] = None) -> Json:
        """What is None stays; types "" is all of them."""
        return self.call(request("PATCH", ["webhooks", webhook_id], body={"url": url, "types": types}))

    def delete_webhook(self, webhook_id: str) -> None:
        self.call(request("DELETE", ["webhooks", webhook_id]))

    def snapshots(self, sandbox: Optional[str] = None) -> Iterator[Json]:
        """Snapshots of the project, or of one sandbox, the newest first."""
        cursor = None
        while True:
            page = self.call(request("GET", ["snapshots"], query={"sandbox": sandbox, "cursor": cursor}))
            yield from page["snapshots"]
            cursor = page["next_cursor"]
            if cursor is None:
                return

    def snapshot(self, id_or_name: str) -> Json:
        return self.call(request("GET", ["snapshots", id_or_name]))

    def update_snapshot(self, id_or_name: str, *, name: Optional[str] = None, expires_in: Optional[float] = None) -> Json:
        body = {"name": name, "expires_in_ms": milliseconds(expires_in)}
        return self.call(request("PATCH", ["snapshots", id_or_name], body=body))

    def delete_snapshot(self, id_or_name: str) -> None:
        """What was started from it goes on: it has a copy of its own."""
        self.call(request("DELETE", ["snapshots", id_or_name]))

    def snapshot_tree(self, id_or_name: str) -> Json:
        return self.call(request("GET", ["snapshots", id_or_name, "tree"]))

    def templates(self) -> List[Json]:
        """Shared ones and the project's own; the first is `host`, this machine's own programs."""
        return list(self.call(request("GET", ["templates"]))["templates"])

    def template(self, id_or_name: str) -> Json:
        return self.call(request("GET", ["templates", id_or_name]))

    def create_template(
        self,
        name: str,
        sandbox: Union[str, "Sandbox"],
        *,
        env: Optional[Mapping[str, str]] = None,
        user: Optional[str] = None,
        cwd: Optional[str] = None,
        replace: bool = False,
        shared: bool = False,
        small: bool = False,
        tree: bool = False,
    ) -> Json:
        """Makes a template of a sandbox's files as they are now; the sandbox may go on meanwhile.

        With `tree` its directory /template alone becomes the root. `small` takes longer and becomes smaller.
        """
        body = {
            "name": name,
            "from": sandbox if isinstance(sandbox, str) else sandbox.id,
            "env": None if env is None else dict(env),
            "user": user,
            "cwd": cwd,
            "replace": replace or None,
            "shared": shared or None,
            "small": small or None,
            "tree": tree or None,
        }
        return self.call(request("POST", ["templates"], body=body, timeout=FOREVER))

    def import_template(
        self,
        name: str,
        archive: Source,
        *,
        ref: Optional[str] = None,
        shared: bool = False,
        replace: bool = False,
        small: bool = False,
        on_progress: Optional[Callable[[str, int], None]] = None,
    ) -> Json:
        """Makes a template of an archive: an export, an OCI image layout, what `docker save` writes, or a root, as a tar.

        The tar may be compressed with gzip or zstd. `ref` says which image is meant where there are several.
        `on_progress` gets the phase and the bytes so far, once all of the archive was sent.
        """
        query = {"ref": ref, "shared": shared, "replace": replace, "small": small}
        req = request(
            "PUT",
            ["templates", name, "archive"],
            query=query,
            stream=_stream_of(archive),
            accept=NDJSON if on_progress else None,
            timeout=FOREVER,
        )
        if not on_progress:
            return self.call(req)
        with self.open(req) as reply:
            decoder = LineDecoder()
            for event in (e for data in reply.chunks() for e in decoder.feed(data)):
                if event["type"] == "progress":
                    on_progress(event["phase"], event["bytes"])
                elif event["type"] == "error":
                    raise errors.from_body(0, event)
                else:
                    return dict(event["template"])
        raise errors.ConnectionFailed("the stream ended before the import did")

    def export_template(self, id_or_name: str) -> Iterator[bytes]:
        """A template as one archive, in pieces: an OCI image layout, for import_template() or any container engine."""
        req = request("GET", ["templates", id_or_name, "archive"], accept="application/x-tar", timeout=FOREVER)
        return self.open(req).chunks()

    def delete_template(self, id_or_name: str) -> None:
        """Refused while a sandbox runs on it or keeps files over it."""
        self.call(request("DELETE", ["templates", id_or_name]))

    def builds(self) -> List[Json]:
        """Builds of the project, the newest first."""
        return list(self.call(request("GET", ["builds"]))["builds"])

    def get_build(self, build_id: str) -> Json:
        return self.call(request("GET", ["builds", build_id]))

    def start_build(self, recipe: Optional[str] = None, *, name: Optional[str] = None, shared: bool = False, fresh: bool = False) -> Json:
        """Begins to build a template: from a recipe's text, or by the name of one that comes with cloche."""
        body = {"recipe": recipe, "name": name, "shared": shared or None, "fresh": fresh or None}
        return self.call(request("POST", ["builds"], body=body))

    def cancel_build(self, build_id: str) -> Json:
        return self.call(request("DELETE", ["builds", build_id]))

    def build_events(self, build_id: str, after: int = 0, *, follow: bool = True) -> Iterator[Json]:
        """{"type": "log", "seq", "text"}, {"type": "progress", "build"} and, last of all, {"type": "ended", "build"}.

        A connection that breaks is made again where it was: no line is lost or comes twice.
        """
        while True:
            query = {"after": after or None, "follow": follow}
            req = request("GET", ["builds", build_id, "events"], query=query, accept=NDJSON, timeout=FOREVER)
            try:
                with _events(self.open(req)) as events:
                    for event in events:
                        after = max(after, event.seq)
                        yield dict(event.raw)
                        if event.type == "ended":
                            return
                if not follow:
                    return
            except errors.ConnectionFailed:
                pass
            time.sleep(RETRY_PAUSES[0])

    def prepare_packages(
        self,
        packages: Sequence[str],
        *,
        template: Optional[str] = None,
        language: Optional[str] = None,
        on_progress: Optional[Callable[[Json], None]] = None,
        on_log: Optional[Callable[[str], None]] = None,
    ) -> Json:
        """Installs packages ahead of the creates and runs that ask for them; returns the build once it is ready.

        `on_progress` gets the build each time that it has come further. Whatever fails raises its error.
        """
        body = {"packages": list(packages), "template": template, "language": language}
        return self._follow(self.call(request("POST", ["builds"], body=body)), on_log, on_progress)

    def _follow(self, build: Json, on_log: Optional[Callable[[str], None]], on_progress: Optional[Callable[[Json], None]] = None) -> Json:
        if build["state"] != "ready":
            for event in self.build_events(build["id"]):
                if event["type"] == "log" and on_log:
                    on_log(event["text"])
                elif event["type"] == "progress" and on_progress:
                    on_progress(event["build"])
                elif event["type"] == "ended":
                    build = event["build"]
        if build["state"] == "cancelled":
            raise errors.Conflict(f"the build of {build['name']} was cancelled")
        if build["error"]:
            raise errors.from_body(0, build)
        return build

    def build_template(
        self,
        recipe: Optional[str] = None,
        *,
        name: Optional[str] = None,
        shared: bool = False,
        fresh: bool = False,
        on_log: Optional[Callable[[str], None]] = None,
    ) -> Json:
        """The same to its end: the build that is ready. One that failed raises its error."""
        return self._follow(self.start_build(recipe, name=name, shared=shared, fresh=fresh), on_log)

    def projects(self) -> List[Json]:
        return list(self.call(request("GET", ["projects"]))["projects"])

    def create_project(self, name: str) -> Json:
        return self.call(request("POST", ["projects"], body={"name": name}))


class Sandbox:
    """One isolated computer. As a context manager it is deleted at the end."""

    def __init__(self, client: Client, info: SandboxInfo) -> None:
        self.client = client
        self.info = info
        self.files = Files(client, info.id)
        self.contexts = Contexts(client, info.id)
        opened = info.raw.get("ports") or ()
        self._port_urls: Dict[int, str] = {p["port"]: p["host_url"] or p["url"] for p in opened}

    @classmethod
    def create(
        cls,
        *,
        client: Optional[Client] = None,
        name: Optional[str] = None,
        template: Optional[str] = None,
        tags: Optional[Mapping[str, str]] = None,
        env: Optional[Mapping[str, str]] = None,
        limits: Optional[Mapping[str, Any]] = None,
        timeout: Optional[float] = None,
        idle_timeout: Optional[float] = None,
        on_timeout: Optional[str] = None,
        persistent: Optional[bool] = None,
        auto_resume: Optional[bool] = None,
        engine: Optional[str] = None,
        min_grade: Optional[str] = None,
        network: Union[None, str, Mapping[str, Any]] = None,
        ports: Optional[Sequence[int]] = None,
        source: Optional[Mapping[str, Any]] = None,
        packages: Optional[Sequence[str]] = None,
        snapshot: Optional[str] = None,
        memory: Optional[bool] = None,
    ) -> "Sandbox":
        """A `persistent` one keeps its files when it is stopped, and goes on over them when it is next used.

        `network` is what it may reach: "deny-all" (the default), "allow-all", or a policy such as
        {"allow": ["api.example.com", "*.example.com"]}.
        `ports` are opened to the outside: port_url() says where.
        `source` is there when it runs: {"type": "git", "url": …, "revision"?, "depth"?, "path"?, "credentials"?} or
        {"type": "tarball", "url": …}. Its host is open for that alone, and credentials never come inside.
        `packages` are installed in it: "pip:pandas", "npm:zod@3", "apt:jq", or bare names of the template's language. The first
        create with them waits for that (see prepare_packages()), others start as fast as without.
        `snapshot`, an id or name, is what it goes on from, instead of a template; with `memory=False` from its files alone.
        """
        return (client or Client()).create(
            idle_timeout=idle_timeout,
            on_timeout=on_timeout,
            persistent=persistent,
            auto_resume=auto_resume,
            name=name,
            template=template,
            tags=tags,
            env=env,
            limits=limits,
            timeout=timeout,
            engine=engine,
            min_grade=min_grade,
            network=network,
            ports=ports,
            source=source,
            packages=packages,
            snapshot=snapshot,
            memory=memory,
        )

    @classmethod
    def get_or_create(
        cls,
        name: str,
        *,
        client: Optional[Client] = None,
        on_create: Optional[Callable[["Sandbox"], Any]] = None,
        on_resume: Optional[Callable[["Sandbox"], Any]] = None,
        **fields: Any,
    ) -> "Sandbox":
        """The sandbox of that name, made (with the fields of create()) or resumed if need be.

        Any number of callers, in any process, get one sandbox. The callback that fits what this
        call did is called before it returns.
        """
        sandbox = (client or Client()).create(name=name, get_or_create=True, **fields)
        if sandbox.info.created and on_create is not None:
            on_create(sandbox)
        if sandbox.info.resumed and on_resume is not None:
            on_resume(sandbox)
        return sandbox

    @classmethod
    def get(cls, id_or_name: str, *, client: Optional[Client] = None) -> "Sandbox":
        return (client or Client()).get(id_or_name)

    attach = get

    @classmethod
    def list(cls, *, client: Optional[Client] = None, **filters: Any) -> Iterator["Sandbox"]:
        return (client or Client()).list(**filters)

    @property
    def id(self) -> str:
        return self.info.id

    def refresh(self) -> SandboxInfo:
        self.info = SandboxInfo.from_json(self.client.call(request("GET", ["sandboxes", self.id])))
        return self.info

    def network(self) -> Json:
        """{kind, policy, in_force}: what it may reach; secrets are left out."""
        return self.client.call(request("GET", ["sandboxes", self.id, "network"]))

    def set_network(self, policy: Union[str, Mapping[str, Any]]) -> Json:
        """From its return on the policy holds: what it forbids was cut, what it allows can be reached."""
        return self.client.call(request("PUT", ["sandboxes", self.id, "network"], body={"policy": policy}))

    def suggest_network(self, after: int = 0) -> Json:
        """{policy, complete, upto}: the smallest policy that would have sufficed for all that was reached while
        its policy had mode "record", or only for what was reached after the event that `upto` named."""
        return self.client.call(request("GET", ["sandboxes", self.id, "network", "suggestion"], query={"after": after or None}))

    def network_decisions(self) -> Iterator[Json]:
        """What the network wall decided, the oldest first."""
        cursor = None
        while True:
            page = self.client.call(request("GET", ["sandboxes", self.id, "network", "decisions"], query={"cursor": cursor}))
            yield from page["decisions"]
            cursor = page["next_cursor"]
            if cursor is None:
                return

    def explain_network(self, url: str, method: Optional[str] = None) -> Json:
        """{allowed, rule, strength, …}: which rule decides about a URL, and how strongly."""
        body = {"url": url, "method": method}
        return self.client.call(request("POST", ["sandboxes", self.id, "network", "explain"], body=body))

    def update(
        self,
        *,
        name: Optional[str] = None,
        tags: Optional[Mapping[str, str]] = None,
        env: Optional[Mapping[str, str]] = None,
        timeout: Optional[float] = None,
        idle_timeout: Optional[float] = None,
        on_timeout: Optional[str] = None,
        auto_resume: Optional[bool] = None,
        limits: Optional[Mapping[str, Any]] = None,
    ) -> SandboxInfo:
        body = {
            "name": name,
            "tags": tags,
            "env": env,
            "timeout_ms": milliseconds(timeout),
            "idle_timeout_ms": milliseconds(idle_timeout),
            "on_timeout": on_timeout,
            "auto_resume": auto_resume,
            "limits": limits,
        }
        self.info = SandboxInfo.from_json(self.client.call(request("PATCH", ["sandboxes", self.id], body=body)))
        return self.info

    def usage(self) -> Json:
        """{usage, now, …}: what it has used since it was created, and what it holds at this moment."""
        return self.client.call(request("GET", ["sandboxes", self.id, "usage"]))

    def expose(self, port: int, *, expires_in: Optional[float] = None, public: bool = False) -> Json:
        """Opens a port to the outside: {port, url, host_url, token, …}. Opening it again makes a new token.

        The url lets in whoever has it, for expires_in seconds or as long as the sandbox lives; public needs none.
        """
        body: Json = {"port": port, "public": public}
        if expires_in is not None:
            body["expires_in_ms"] = int(expires_in * 1000)
        opened = self.client.call(request("POST", ["sandboxes", self.id, "ports"], body=body))
        self._port_urls[port] = opened["host_url"] or opened["url"]
        return opened

    def port_url(self, port: int) -> str:
        """Where a browser finds the server on that port; opens the port at the first call."""
        if port not in self._port_urls:
            self.expose(port)
        return self._port_urls[port]

    def ports(self) -> List[Json]:
        """Ports that are open, without their tokens."""
        return self.client.call(request("GET", ["sandboxes", self.id, "ports"]))["ports"]

    def close_port(self, port: int) -> None:
        """Lets nobody in any more, and cuts who is."""
        self._port_urls.pop(port, None)
        self.client.call(request("DELETE", ["sandboxes", self.id, "ports", str(port)]))

    def _post(self, verb: str, body: Optional[Json] = None) -> SandboxInfo:
        req = request("POST", ["sandboxes", self.id, verb], body=body, timeout=FOREVER)
        self.info = SandboxInfo.from_json(self.client.call(req))
        return self.info

    def snapshot(
        self,
        name: Optional[str] = None,
        *,
        memory: bool = False,
        on_connection: Optional[str] = None,
        expires_in: Optional[float] = None,
        keep_last: Optional[int] = None,
    ) -> Json:
        """Saves what it is at this moment, to start others from: {id, name, bytes, own_bytes, …}.

        With `memory` its running programs too; a TCP connection that is open is then refused, or found closed in the copies
        (`on_connection`: "refuse", "close"). With `keep_last` so many of this sandbox stay, and the older ones without a name go.
        """
        body = {"name": name, "memory": memory, "on_connection": on_connection, "expires_in_ms": milliseconds(expires_in), "keep_last": keep_last}
        return self.client.call(request("POST", ["sandboxes", self.id, "snapshots"], body=body, timeout=FOREVER))

    def snapshots(self) -> Iterator[Json]:
        """Those that were taken of it, the newest first."""
        return self.client.snapshots(sandbox=self.id)

    def fork(self, count: int = 1, *, memory: bool = True, **fields: Any) -> List["Sandbox"]:
        """New sandboxes that go on from what this one is now; with memory=False from its files alone.

        `fields` are on_connection (see snapshot()), name (a number is put behind it), tags, env, network, timeout, idle_timeout, on_timeout, persistent.
        When some could not be made ForkError has those that were, as `sandboxes`, and why not, as `failed`.
        """
        for field in ("timeout", "idle_timeout"):
            if field in fields:
                fields[field + "_ms"] = milliseconds(fields.pop(field))
        body = {"count": count, "memory": memory, **fields}
        made = self.client.call(request("POST", ["sandboxes", self.id, "fork"], body=body, timeout=FOREVER))
        sandboxes = [Sandbox(self.client, SandboxInfo.from_json(j)) for j in made["sandboxes"]]
        if made["failed"]:
            raise errors.ForkError(sandboxes, made["failed"])
        return sandboxes

    def rollback(self, snapshot: str) -> SandboxInfo:
        """Back to what a snapshot, by id or name, has: its processes end and it starts anew over those files."""
        return self._post("rollback", {"snapshot": snapshot})

    def tree(self) -> Json:
        """{root_id, nodes}: what it comes from, and all that came from that; parents before their children."""
        return self.client.call(request("GET", ["sandboxes", self.id, "tree"]))

    def pause(self) -> SandboxInfo:
        """Stops all processes where they are; resume() lets them go on."""
        return self._post("pause")

    def resume(self) -> SandboxInfo:
        """Lets a paused one go on, or starts a stopped persistent one over its files."""
        return self._post("resume")

    def stop(self) -> SandboxInfo:
        """Ends all processes. The files of a persistent one stay, any other has ended with this."""
        return self._post("stop")

    def extend(self, seconds: float) -> SandboxInfo:
        """Adds to its lifetime."""
        return self._post("extend", {"ms": milliseconds(seconds)})

    def delete(self) -> SandboxInfo:
        """Ends it; returns once nothing of it is left on the host."""
        req = request("DELETE", ["sandboxes", self.id], timeout=FOREVER)
        self.info = SandboxInfo.from_json(self.client.call(req))
        return self.info

    def __enter__(self) -> "Sandbox":
        return self

    def __exit__(self, *exc: Any) -> None:
        try:
            self.delete()
        except (errors.NotFound, errors.Gone):
            pass  # it ended by itself

    def _post_exec(self, body: Json, accept: Optional[str] = None) -> Request:
        return request("POST", ["sandboxes", self.id, "execs"], body=body, accept=accept, timeout=FOREVER)

    def run(
        self,
        command: Command,
        *,
        cwd: Optional[str] = None,
        env: Optional[Mapping[str, str]] = None,
        user: Optional[str] = None,
        stdin: Union[None, str, bytes] = None,
        pty: Union[None, bool, Mapping[str, int]] = None,
        timeout: Optional[float] = None,
        on_stdout: Optional[OnOutput] = None,
        on_stderr: Optional[OnOutput] = None,
        kill_on_disconnect: bool = False,
    ) -> ExecResult:
        """Runs a command to its end. A str is a line for the shell, a sequence an argv.

        With a callback the output comes while the command runs, and is not kept in the result.
        """
        body = exec_body(
            command,
            cwd=cwd,
            env=env,
            user=user,
            stdin=stdin,
            pty=pty,
            timeout=timeout,
            kill_on_disconnect=kill_on_disconnect,
        )
        if on_stdout or on_stderr:
            return _collect(_events(self.client.open(self._post_exec(body, NDJSON))), on_stdout, on_stderr)
        return ExecResult.from_json(self.client.call(self._post_exec(body)))

    def start(
        self,
        command: Command,
        *,
        cwd: Optional[str] = None,
        env: Optional[Mapping[str, str]] = None,
        user: Optional[str] = None,
        stdin: Union[None, str, bytes] = None,
        open_stdin: bool = False,
        pty: Union[None, bool, Mapping[str, int]] = None,
        timeout: Optional[float] = None,
    ) -> "Exec":
        """Starts a command that goes on by itself, whoever watches."""
        body = exec_body(
            command,
            cwd=cwd,
            env=env,
            user=user,
            stdin=stdin,
            open_stdin=open_stdin,
            pty=pty,
            timeout=timeout,
            detached=True,
        )
        return Exec(self, ExecInfo.from_json(self.client.call(self._post_exec(body))["exec"]))

    def stream(self, command: Command, **fields: Any) -> "EventStream":
        """Starts a command and returns its events as they come; the fields are those of run()."""
        return _events(self.client.open(self._post_exec(exec_body(command, **fields), NDJSON)))

    def run_code(
        self,
        code: str,
        language: Optional[str] = None,
        *,
        context: Optional[str] = None,
        timeout: Optional[float] = None,
        on_busy: Optional[str] = None,
        cwd: Optional[str] = None,
        env: Optional[Mapping[str, str]] = None,
        on_stdout: Optional[OnOutput] = None,
        on_stderr: Optional[OnOutput] = None,
        on_result: Optional[Callable[[Result], None]] = None,
        kill_on_disconnect: bool = False,
    ) -> CodeResult:
        """Runs code in an interpreter whose state stays from call to call: Python, unless another is named.

        Code that fails is no exception here: see `error`. `context` is the id or name of one of
        `contexts`; without it the language's default one is used. With a callback, output comes
        while the code runs and is not kept in the result.
        """
        body: Json = {
            "code": code,
            "language": language,
            "context": context,
            "timeout_ms": milliseconds(timeout),
            "on_busy": on_busy,
            "cwd": cwd,
            "env": env,
            "kill_on_disconnect": kill_on_disconnect or None,
        }
        is_streamed = bool(on_stdout or on_stderr or on_result)
        accept = NDJSON if is_streamed else None
        req = request("POST", ["sandboxes", self.id, "code"], body=body, accept=accept, timeout=FOREVER)
        if not is_streamed:
            return CodeResult.from_json(self.client.call(req))
        with _events(self.client.open(req)) as events:
            return collect_code(events, on_stdout, on_stderr, on_result)

    def execs(self) -> List["Exec"]:
        reply = self.client.call(request("GET", ["sandboxes", self.id, "execs"]))
        return [Exec(self, ExecInfo.from_json(e)) for e in reply["execs"]]

    def exec(self, exec_id: str) -> "Exec":
        exec_ = Exec(self, ExecInfo(exec_id, "", None, None, None, None, {}))
        exec_.refresh()
        return exec_

    def __repr__(self) -> str:
        return f"<Sandbox {self.id} {self.info.state}>"


class Exec:
    """A command that runs, or ran, in a sandbox. It outlives the client that started it."""

    def __init__(self, sandbox: Sandbox, info: ExecInfo) -> None:
        self.sandbox = sandbox
        self.info = info
        self._client = sandbox.client
        self._parts = ["sandboxes", sandbox.id, "execs", info.id]

    @property
    def id(self) -> str:
        return self.info.id

    def refresh(self) -> ExecInfo:
        self.info = ExecInfo.from_json(self._client.call(request("GET", self._parts)))
        return self.info

    def output(self, after: int = 0, follow: bool = True) -> Iterator[Event]:
        """Events with a sequence number above `after`; with `follow` until the exec is over.

        A connection that breaks is made again where it was: no event is lost or comes twice.
        """
        while True:
            query = {"after": after or None, "follow": follow}
            req = request("GET", self._parts + ["output"], query=query, accept=NDJSON, timeout=FOREVER)
            try:
                with _events(self._client.open(req)) as events:
                    for event in events:
                        after = max(after, event.seq)
                        yield event
                return
            except errors.ConnectionFailed:
                time.sleep(RETRY_PAUSES[0])

    def wait(self, timeout: Optional[float] = None) -> ExecInfo:
        """Until it is over; with a timeout the exec as it is by then."""
        deadline = None if timeout is None else time.monotonic() + timeout
        while True:
            left = 30.0 if deadline is None else max(0.0, min(30.0, deadline - time.monotonic()))
            query = {"timeout_ms": milliseconds(left)}
            req = request("GET", self._parts + ["wait"], query=query, timeout=left + 60.0)
            self.info = ExecInfo.from_json(self._client.call(req))
            if self.info.is_over or (deadline is not None and time.monotonic() >= deadline):
                return self.info

    def write_stdin(self, data: Source, *, eof: bool = False) -> None:
        """Returns once the sandbox has taken it: a program that does not read makes this wait."""
        query = {"eof": eof}
        req = request("POST", self._parts + ["stdin"], query=query, stream=_stream_of(data), timeout=FOREVER)
        self._client.call(req)

    def close_stdin(self) -> None:
        self.write_stdin(b"", eof=True)

    def signal(self, signal: Union[str, int], *, tree: bool = False) -> None:
        self._client.call(request("POST", self._parts + ["signal"], body={"signal": signal, "tree": tree or None}))

    def kill(self) -> ExecInfo:
        """Ends it with everything that it started, and waits for that."""
        try:
            self.signal("KILL", tree=True)
        except errors.Gone:
            pass
        return self.wait()

    def resize(self, rows: int, cols: int) -> None:
        self._client.call(request("POST", self._parts + ["resize"], body={"rows": rows, "cols": cols}))

    def delete(self) -> None:
        """Kills what still runs and forgets the exec with its output."""
        self._client.call(request("DELETE", self._parts))

    def __repr__(self) -> str:
        return f"<Exec {self.id} {self.info.state}>"


class EventStream:
    """Events of one reply. Closing it early tells the daemon that nobody reads any more."""

    def __init__(self, reply: Reply) -> None:
        self._reply = reply
        self._decoder = LineDecoder()
        self._pending: List[Event] = []

    def __iter__(self) -> "EventStream":
        return self

    def __next__(self) -> Event:
        while not self._pending:
            data = self._reply.read(CHUNK)
            if not data:
                raise StopIteration
            self._pending.extend(Event.from_json(j) for j in self._decoder.feed(data))
            self._pending.reverse()
        return self._pending.pop()

    def close(self) -> None:
        self._reply.close()

    def __enter__(self) -> "EventStream":
        return self

    def __exit__(self, *exc: Any) -> None:
        self.close()


def _events(reply: Reply) -> EventStream:
    return EventStream(reply)


def _collect(events: EventStream, on_stdout: Optional[OnOutput], on_stderr: Optional[OnOutput]) -> ExecResult:
    sinks = {"stdout": on_stdout, "stderr": on_stderr}
    kept = {"stdout": bytearray(), "stderr": bytearray()}
    info: Optional[ExecInfo] = None
    with events:
        for event in events:
            if event.type in kept:
                sink = sinks[event.type]
                if sink is not None:
                    sink(event.data)
                else:
                    kept[event.type] += event.data
            elif event.exec is not None:
                info = event.exec
    if info is None:
        raise errors.ConnectionFailed("the stream ended before the exec did")
    return ExecResult(info, bytes(kept["stdout"]), bytes(kept["stderr"]))
