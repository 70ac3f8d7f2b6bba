# SPDX-License-Identifier: Apache-2.0
"""A runtime for verifiers (`pip install cloche[verifiers]`): a box that agents' programs run in.

    async with cloche_runtime(ClocheConfig(image="python:3.12-slim", allow=["api.example.com"])) as box:
        trace = await agent.run(task, runtime=box)

The model is called by the program inside, through verifiers' own server on this machine. The box reaches that server by a name that
the network wall forwards, if the daemon's settings allow it: `network.may_open = ["127.0.0.1/32"]`. Nothing else on this machine
can be reached.
"""

from __future__ import annotations

import asyncio
import contextlib
import posixpath
import re
from typing import Any, AsyncIterator, ClassVar, Dict, List, Literal, Optional
from urllib.parse import urlsplit, urlunsplit

from pydantic import Field, model_validator
from verifiers.v1.configs.runtime import NetworkPolicyConfig, parse_network_rule
from verifiers.v1.errors import SandboxError
from verifiers.v1.runtimes.base import BaseRuntimeInfo, ProgramResult, Runtime, RuntimeProcess, register

from .. import errors
from ..aio.execs import AsyncExec
from ..aio.sandbox import AsyncClient, AsyncSandbox
from ..sync.sandbox import Client
from ._rollouts import OutputLimit, close_sandbox, leases, open_sandbox, renewer_of, run_limited

OUTPUT_MAX = 64 << 20
LOOPBACK = ("127.0.0.1", "localhost", "::1")
HOST = re.compile(r"(\*\.)?[a-z0-9]([a-z0-9.-]*[a-z0-9])?")


class ClocheConfig(NetworkPolicyConfig):  # type: ignore[misc]
    """`image`, `cpu`, `memory` and `disk` are what the task needs, in cores and GB. `fields` are other fields of Sandbox.create().
    `allow` and `block` apply from the start of the agent."""

    type: Literal["cloche"] = "cloche"
    image: Optional[str] = None
    workdir: str = "/app"
    cpu: Optional[float] = Field(default=None, gt=0)
    memory: Optional[float] = Field(default=None, gt=0)
    disk: Optional[float] = Field(default=None, gt=0)
    user: str = "root"
    fields: Dict[str, Any] = {}

    @model_validator(mode="after")  # type: ignore[untyped-decorator]
    def _check_rules(self) -> "ClocheConfig":
        for rule in [*self.allow, *self.block]:
            if rule != "*":
                _rule_of(rule, "allow")
        if "network" in self.fields:
            raise ValueError("fields: the network is said by `allow` and `block`")
        return self


class ClocheRuntimeInfo(ClocheConfig, BaseRuntimeInfo):  # type: ignore[misc]
    pass


def _rule_of(rule: str, action: str) -> Dict[str, Any]:
    """As the network wall has it. What it cannot keep exactly is refused."""
    parsed, host, port = parse_network_rule(rule)
    if not HOST.fullmatch(host) or parsed.path.strip("/") or parsed.query or parsed.username or parsed.scheme not in ("", "http", "https"):
        raise ValueError(f"network rule {rule!r}: a name, *.name, or one of them with a port or http:// or https:// before it, and no path")
    domains = [host] if action == "allow" or host.startswith("*.") else [host, f"*.{host}"]  # a bare name that is blocked has all below it
    match: Dict[str, Any] = {"domains": domains}
    if port is not None:
        match["ports"] = [port]
    if parsed.scheme:
        match["protocol"] = "tls" if parsed.scheme == "https" else "http"
    return {"match": match, "action": action}


class ClocheProcess(RuntimeProcess):  # type: ignore[misc]
    def __init__(self, exec_: AsyncExec) -> None:
        self._exec = exec_
        self._queues: Dict[str, "asyncio.Queue[Any]"] = {"stdout": asyncio.Queue(), "stderr": asyncio.Queue()}
        self.stdout = self._pieces("stdout")
        self.stderr = self._pieces("stderr")
        self._reading = asyncio.ensure_future(self._read())

    async def _read(self) -> int:
        end: Any = None
        try:
            async for event in self._exec.output():
                if event.type in self._queues:
                    self._queues[event.type].put_nowait(event.data)
                elif event.type == "gap":
                    raise SandboxError(f"{event.lost_bytes} bytes of the process's output were lost: they came faster than they were read")
            info = await self._exec.wait()
            return info.exit_code if info.exit_code is not None else 128 + (info.signal or 0)
        except errors.ClocheError as e:
            end = SandboxError(str(e))
            raise end from e
        except SandboxError as e:
            end = e
            raise
        finally:
            for queue in self._queues.values():
                queue.put_nowait(end)

    async def _pieces(self, name: str) -> AsyncIterator[bytes]:
        while isinstance(piece := await self._queues[name].get(), bytes):
            yield piece
        if piece is not None:
            raise piece

    async def write(self, data: bytes) -> None:
        try:
            await self._exec.write_stdin(data)
        except errors.ClocheError as e:
            raise SandboxError(str(e)) from e

    async def wait(self) -> int:
        return await asyncio.shield(self._reading)

    async def poll(self) -> Optional[int]:
        return self._reading.result() if self._reading.done() else None

    async def _signal(self, name: str) -> None:
        try:
            await self._exec.signal(name, tree=True)
        except errors.Gone:
            pass
        except errors.ClocheError as e:
            raise SandboxError(str(e)) from e

    async def terminate(self) -> None:
        await self._signal("TERM")

    async def kill(self) -> None:
        await self._signal("KILL")


class ClocheRuntime(Runtime):  # type: ignore[misc]
    is_local = True
    supports_user: ClassVar[bool] = True

    def __init__(self, config: ClocheConfig, name: Optional[str] = None) -> None:
        super().__init__(name)
        self.config = config
        self.info = ClocheRuntimeInfo(**config.model_dump())
        self._client = AsyncClient()
        self._sandbox: Optional[AsyncSandbox] = None
        self._renewer: Optional[Client] = None
        self._forwards: Dict[str, str] = {}
        self._is_lent = False

    @property
    def sandbox(self) -> AsyncSandbox:
        if self._sandbox is None:
            raise SandboxError("the runtime has not been started, or was stopped")
        return self._sandbox

    async def start(self) -> None:
        config = self.config
        sizes = {"vcpus": config.cpu, "memory_mib": config.memory and int(config.memory * 1024), "disk_mib": config.disk and int(config.disk * 1024)}
        limits = {**{name: value for name, value in sizes.items() if value}, **(config.fields.get("limits") or {})}
        tags = {"verifiers": self.name[:64], **(config.fields.get("tags") or {})}
        fields = {"image": config.image, **config.fields, "limits": limits or None, "tags": tags, "network": "allow-all"}
        try:
            self._sandbox = await open_sandbox(self._client, fields)
            self._renewer = renewer_of(self._client)
            self.info.id = self._sandbox.id
            await self._sandbox.files.mkdir(config.workdir, parents=True, user=config.user)
        except errors.ClocheError as e:
            raise SandboxError(f"cloche: {e}") from e

    def _user(self) -> str:
        return self.user or self.config.user

    async def run(self, argv: List[str], env: Dict[str, str]) -> ProgramResult:
        given = self.process_env(env)
        try:
            ran = await run_limited(self.sandbox, argv, limit=OUTPUT_MAX, cwd=self.config.workdir, env=given, user=self._user())
        except OutputLimit as e:
            raise SandboxError(f"a command printed more than {OUTPUT_MAX >> 20} MiB and was killed") from e
        except (errors.FileMissing, errors.FileDenied) as e:
            return ProgramResult(127 if isinstance(e, errors.FileMissing) else 126, "", f"{e.message}\n")
        except errors.ClocheError as e:
            raise SandboxError(str(e)) from e
        if ran.exec.cause in ("deleted", "stopped", "timeout", "idle", "guest_crash", "host_restart", "policy"):
            raise SandboxError(f"the sandbox ended while a command ran: {(ran.exec.ended or {}).get('message')}")
        return ProgramResult(ran.exit_code, ran.stdout.decode("utf-8", "replace"), ran.stderr.decode("utf-8", "replace"))

    async def open_process(self, argv: List[str], env: Dict[str, str]) -> ClocheProcess:
        try:
            started = await self.sandbox.start(argv, cwd=self.config.workdir, env=self.process_env(env), user=self._user(), open_stdin=True)
        except errors.ClocheError as e:
            raise SandboxError(str(e)) from e
        return ClocheProcess(started)

    async def run_background(self, argv: List[str], env: Dict[str, str], log: str) -> None:
        words = ["sh", "-c", 'log=$1; shift; exec "$@" > "$log" 2>&1', "sh", self._path(log), *argv]
        try:
            await self.sandbox.start(words, cwd=self.config.workdir, env=self.process_env(env), user=self._user())
        except errors.ClocheError as e:
            raise SandboxError(str(e)) from e

    def _path(self, path: str) -> str:
        return posixpath.join(self.config.workdir, path)

    async def _read(self, path: str, max_bytes: Optional[int] = None) -> bytes:
        try:
            return await self.sandbox.files.read(self._path(path), length=max_bytes, user=self._user())
        except errors.ClocheError as e:
            raise SandboxError(f"read {path!r}: {e}") from e

    async def write(self, path: str, data: bytes) -> None:
        try:
            await self.sandbox.files.write(self._path(path), data, parents=True, user=self._user())
        except errors.ClocheError as e:
            raise SandboxError(f"write {path!r}: {e}") from e

    def host_url(self, url: str) -> str:
        """A server on this machine's loopback has a name inside: prepare_execution() lets the network wall forward it."""
        parts = urlsplit(url)
        if parts.hostname not in LOOPBACK or parts.scheme != "http":
            return url
        name = f"port-{parts.port or 80}.trainer.internal"
        self._forwards[name] = f"http://127.0.0.1:{parts.port or 80}"
        return urlunsplit(parts._replace(netloc=name))

    async def prepare_execution(self, routes: Optional[List[str]]) -> None:
        try:
            if self._forwards and not self._is_lent:
                await self._check_lent()
            await self.sandbox.set_network(self._policy(routes))
        except errors.ClocheError as e:
            raise SandboxError(f"network policy: {e}") from e

    async def _check_lent(self) -> None:
        """So that a daemon that does not lend this machine's loopback is told here, and not by a model that never answers."""
        port = urlsplit(next(iter(self._forwards.values()))).port
        await self.sandbox.set_network({"rules": [{"match": {"cidrs": ["127.0.0.1/32"], "ports": [port]}, "action": "allow"}]})
        if not (await self.sandbox.explain_network(f"http://127.0.0.1:{port}/"))["allowed"]:
            raise SandboxError('the box cannot reach verifiers\' server on this machine: say network.may_open = ["127.0.0.1/32"] in the daemon\'s settings')
        self._is_lent = True

    def _policy(self, routes: Optional[List[str]]) -> Any:
        """None: all is open, for setup."""
        forwards = [{"match": {"domains": [name]}, "action": {"forward": {"url": url}}} for name, url in self._forwards.items()]
        is_open = routes is None or not self.network_restricted
        if is_open and not forwards:
            return "allow-all"
        wanted = [route for route in routes or [] if urlsplit(route).hostname not in self._forwards]
        rules = forwards + [_rule_of(urlunsplit(urlsplit(route)._replace(path="", query="", fragment="")), "allow") for route in wanted]
        if is_open:
            return {"rules": [*rules, {"match": {}, "action": "allow"}]}
        if self.config.allow == ["*"]:  # by name alone, so that no address goes around what is blocked
            return {"rules": rules + [_rule_of(rule, "deny") for rule in self.config.block], "allow": ["*"]}
        return {"rules": rules + [_rule_of(rule, "allow") for rule in self.config.allow]} if rules or self.config.allow else "deny-all"

    async def expose(self, port: int) -> str:
        try:
            return str((await self.sandbox.expose(port))["url"])
        except errors.ClocheError as e:
            raise SandboxError(f"port {port}: {e}") from e

    async def teardown(self) -> None:
        if self._sandbox is not None:
            await close_sandbox(self._sandbox)
            self._sandbox = None
        self._client.close()

    def cleanup(self) -> None:
        """At the interpreter's end, when no loop runs any more."""
        sandbox, self._sandbox = self._sandbox, None
        if sandbox is not None and self._renewer is not None:
            leases.let_go(sandbox.id)
            with contextlib.suppress(errors.NotFound, errors.Gone):
                self._renewer.get(sandbox.id).delete()


@contextlib.asynccontextmanager
async def cloche_runtime(config: Optional[ClocheConfig] = None, name: Optional[str] = None) -> AsyncIterator[ClocheRuntime]:
    """Creates a box from `config` for `agent.run(task, runtime=box)`, and removes it at the end."""
    runtime = ClocheRuntime(config or ClocheConfig(), name)
    register(runtime)
    try:
        await runtime.start()
        yield runtime
    finally:
        await runtime.stop()
