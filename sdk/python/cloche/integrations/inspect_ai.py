# SPDX-License-Identifier: Apache-2.0
"""A sandbox for Inspect (`pip install cloche[inspect]`): `sandbox="cloche"` in a task, or `inspect eval task.py --sandbox cloche`.

    Task(dataset=..., solver=..., scorer=..., sandbox=("cloche", "cloche.yaml"))

The file has the fields of a new sandbox (`image: python:3.12-slim`, `network: …`, `limits: …`), or under `sandboxes` those of several by
name. A `compose.yaml` beside the task does, too: its services are the sample's sandboxes, which reach each other by name. A sample's sandboxes end with the sample; where Inspect was killed, they end by themselves within ten minutes.
"""

from __future__ import annotations

import asyncio
import errno
import os
import posixpath
from typing import Any, Dict, List, Optional, Union

import yaml
from inspect_ai.util import (
    ExecResult,
    OutputLimitExceededError,
    SandboxConnection,
    SandboxEnvironment,
    SandboxEnvironmentLimits,
    SandboxUnavailableError,
    sandboxenv,
)
from pydantic import BaseModel, ConfigDict

from .. import compose, errors
from .._fields import check_fields
from ..aio.sandbox import AsyncSandbox
from ._rollouts import LEASE_S, WAIT_S, OutputLimit, Ran, client_of_loop, close_sandbox, file_error, leases, open_sandbox, renewer_of, run_limited

CONFIG_FILE = "cloche.yaml"
COMPOSE_FILES = ("compose.yaml", "compose.yml", "docker-compose.yaml", "docker-compose.yml")
KEPT_S = 3600.0
TAG = "inspect"
LOST = ("deleted", "stopped", "idle", "guest_crash", "host_restart", "policy")  # the sandbox under a command
UNAVAILABLE = (errors.Gone, errors.NotFound, errors.ConnectionFailed, errors.Unavailable, errors.GuestError)


class ClocheConfig(BaseModel):  # type: ignore[misc]
    """The fields of Sandbox.create(), and `working_dir`, where commands and relative paths begin (default: the user's home). Or
    `sandboxes`: several by name, one of them called `default`. Or `compose`: a Compose file, together with the fields of
    compose.up()."""

    model_config = ConfigDict(extra="allow", frozen=True)

    working_dir: Optional[str] = None
    sandboxes: Optional[Dict[str, Dict[str, Any]]] = None
    compose: Optional[str] = None

    def by_name(self) -> Dict[str, Dict[str, Any]]:
        """The default one first."""
        one = dict(self.model_extra or {})
        if self.working_dir is not None:
            one["working_dir"] = self.working_dir
        if self.sandboxes is None:
            return {"default": one}
        if one:
            raise ValueError(f"beside `sandboxes` there can be no {', '.join(sorted(one))}: say it of each")
        if "default" not in self.sandboxes:
            raise ValueError("one of the `sandboxes` must be called default")
        return {"default": self.sandboxes["default"], **self.sandboxes}

    def check(self) -> "ClocheConfig":
        """Names what no sandbox has, before anything runs."""
        if self.compose is not None:
            if self.sandboxes is not None or self.working_dir is not None:
                raise ValueError("beside `compose` there can be no sandboxes or working_dir: the file says them")
            compose._check(self.model_extra or {})
            default_service(self.compose)
            return self
        for fields in self.by_name().values():
            check_fields({name: value for name, value in fields.items() if name != "working_dir"})
        return self


def _services(file: str) -> Dict[str, Any]:
    with open(file, encoding="utf-8") as text:
        return dict((yaml.safe_load(text) or {}).get("services") or {})


def working_dir_of(file: str, service: str) -> Optional[str]:
    """What the file says of it, if that is a path; one with a variable in it is only known to `cloche compose`."""
    fields = _services(file).get(service)
    said = fields.get("working_dir") if isinstance(fields, dict) else None
    return said if isinstance(said, str) and said.startswith("/") and "$" not in said else None


def default_service(file: str) -> str:
    """The one that a task's commands run in: `x-default: true`, or called `default`, or the only one."""
    services = _services(file)
    said = [name for name, service in services.items() if isinstance(service, dict) and service.get("x-default")]
    named = said or [name for name in services if name == "default"] or list(services)
    if len(named) != 1:
        raise ValueError(f"{file}: one of the services must be called default, or say x-default: true; there are {', '.join(services) or 'none'}")
    return str(named[0])


def read_config(config: Any) -> ClocheConfig:
    if config is None:
        return ClocheConfig()
    if isinstance(config, ClocheConfig):
        return config.check()
    if not isinstance(config, str):
        raise TypeError(f"a sandbox of cloche is configured by a ClocheConfig or by a file of its fields, not by a {type(config).__name__}")
    with open(config, encoding="utf-8") as file:
        fields = yaml.safe_load(file) or {}
    if not isinstance(fields, dict):
        raise ValueError(f"{config} has no fields of a sandbox")
    if "services" in fields or os.path.basename(config) in COMPOSE_FILES:
        fields = {"compose": config}
    elif isinstance(fields.get("compose"), str):
        fields["compose"] = os.path.join(os.path.dirname(config), fields["compose"])
    return ClocheConfig(**fields).check()


def _check_loop() -> None:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        raise RuntimeError("cloche's sandboxes need Inspect's asyncio backend: unset INSPECT_ASYNC_BACKEND, or set it to asyncio") from None


@sandboxenv(name="cloche")
class ClocheSandboxEnvironment(SandboxEnvironment):  # type: ignore[misc]
    """One sandbox as Inspect works with it."""

    _live: Dict[str, "ClocheSandboxEnvironment"] = {}

    def __init__(self, sandbox: AsyncSandbox, working_dir: str, project: Optional[compose.AsyncProject] = None) -> None:
        super().__init__()
        self.sandbox = sandbox
        self._project = project
        self._working_dir = working_dir

    @classmethod
    def config_files(cls) -> List[str]:
        return [CONFIG_FILE, *COMPOSE_FILES]

    @classmethod
    def config_deserialize(cls, config: Dict[str, Any]) -> BaseModel:
        return ClocheConfig(**config).check()

    @classmethod
    async def task_init(cls, task_name: str, config: Any) -> None:
        """So that a mistake in the configuration, or a daemon that is not there, is told once and at once."""
        _check_loop()
        read_config(config)
        await client_of_loop().health()

    @classmethod
    async def sample_init(cls, task_name: str, config: Any, metadata: Dict[str, str]) -> Dict[str, SandboxEnvironment]:
        _check_loop()
        made: Dict[str, SandboxEnvironment] = {}
        read = read_config(config)
        if read.compose is not None:
            return await cls._make_project(read.compose, dict(read.model_extra or {}))
        try:
            for name, fields in read.by_name().items():
                made[name] = await cls._make(task_name, dict(fields))
        except BaseException:
            await asyncio.shield(cls._end(made))
            raise
        return made

    @classmethod
    async def _make(cls, task_name: str, fields: Dict[str, Any]) -> "ClocheSandboxEnvironment":
        working_dir = fields.pop("working_dir", None)
        fields["tags"] = {TAG: task_name[:64], **(fields.get("tags") or {})}
        sandbox = await open_sandbox(client_of_loop(), fields)
        cls._live[sandbox.id] = made = cls(sandbox, working_dir or "/")
        try:
            if working_dir is None:
                made._working_dir = (await sandbox.run(["pwd"])).check().stdout.rstrip("\n")
            else:
                await sandbox.files.mkdir(working_dir, parents=True)
        except BaseException:
            await asyncio.shield(cls._end({"": made}))
            raise
        return made

    @classmethod
    async def _make_project(cls, file: str, fields: Dict[str, Any]) -> Dict[str, SandboxEnvironment]:
        """Its services; the default one first, and under that name. They are renewed as other sandboxes are."""
        default, client = default_service(file), client_of_loop()
        project = await compose.up_async(file, client=client, **{"timeout": LEASE_S, "wait": WAIT_S, **fields})
        made: Dict[str, SandboxEnvironment] = {}
        try:
            for name in sorted(project, key=lambda one: one != default):
                sandbox = project[name]
                if fields.get("timeout") is None:
                    leases.hold(sandbox.id, renewer_of(client))
                cls._live[sandbox.id] = one = cls(sandbox, "/", project)
                made["default" if name == default else name] = one
                one._working_dir = working_dir_of(file, name) or (await sandbox.run(["pwd"])).check().stdout.rstrip("\n")
        except BaseException:
            await asyncio.shield(cls._end(made))
            raise
        return made

    @classmethod
    async def _end(cls, environments: Dict[str, SandboxEnvironment]) -> None:
        ending = [one.as_type(cls) for one in environments.values()]
        for one in ending:
            cls._live.pop(one.sandbox.id, None)
            leases.let_go(one.sandbox.id)
        projects = {one._project.name: one._project for one in ending if one._project is not None}
        alone = [close_sandbox(one.sandbox) for one in ending if one._project is None]
        ended = await asyncio.gather(*alone, *(project.down() for project in projects.values()), return_exceptions=True)
        for told in ended:
            if isinstance(told, BaseException):
                raise told

    @classmethod
    async def sample_cleanup(cls, task_name: str, config: Any, environments: Dict[str, SandboxEnvironment], interrupted: bool) -> None:
        await cls._end(environments)

    @classmethod
    async def task_cleanup(cls, task_name: str, config: Any, cleanup: bool) -> None:
        """Inspect calls it when all tasks are over. With --no-sandbox-cleanup those that are left stay for an hour."""
        if cleanup:
            await cls._end(dict(cls._live))
            return
        for id, one in list(cls._live.items()):
            leases.let_go(id)
            cls._live.pop(id, None)
            await one.sandbox.update(timeout=KEPT_S)
            print(f"the sandbox is kept for an hour: cloche shell {id}")

    @classmethod
    async def cli_cleanup(cls, id: Optional[str]) -> None:
        client = client_of_loop()
        if id is not None:
            await (await client.get(id)).delete()
            return
        async for sandbox in client.list():
            if TAG in sandbox.info.tags and sandbox.info.ended is None:
                await sandbox.delete()

    async def exec(
        self,
        cmd: List[str],
        input: Union[None, str, bytes] = None,
        cwd: Optional[str] = None,
        env: Optional[Dict[str, str]] = None,
        user: Optional[str] = None,
        timeout: Optional[int] = None,
        timeout_retry: bool = True,
        concurrency: bool = True,
    ) -> ExecResult[str]:
        """A command whose time is up has been killed and is not run again, whatever `timeout_retry` says: here that is the command's
        own doing, never a hang of what runs it."""
        stdin = input.encode() if isinstance(input, str) else input
        place = posixpath.join(self._working_dir, cwd or ".")
        limit = SandboxEnvironmentLimits.MAX_EXEC_OUTPUT_SIZE
        try:
            ran = await run_limited(self.sandbox, cmd, limit=limit, stdin=stdin, cwd=place, env=env, user=user, timeout=timeout)
        except OutputLimit as e:
            truncated = (e.stdout or e.stderr).decode("utf-8", "replace")
            raise OutputLimitExceededError(limit_str=SandboxEnvironmentLimits.MAX_EXEC_OUTPUT_SIZE_STR, truncated_output=truncated) from e
        except errors.FileDenied as e:
            raise PermissionError(errno.EACCES, e.message) from e
        except errors.FileMissing as e:  # the program, the directory or the user
            code = 127 if e.message.startswith("argv") else 126
            return ExecResult(success=False, returncode=code, stdout="", stderr=f"{e.message}\n")
        except UNAVAILABLE as e:
            raise SandboxUnavailableError(str(e)) from e
        return _result_of(ran, timeout)

    def _path(self, file: str) -> str:
        return posixpath.join(self._working_dir, file)

    async def write_file(self, file: str, contents: Union[str, bytes]) -> None:
        try:
            await self.sandbox.files.write(self._path(file), contents, parents=True)
        except errors.ClocheError as e:
            raise _file_error(e, file) from e

    async def read_file(self, file: str, text: bool = True) -> Any:
        limit, kept = SandboxEnvironmentLimits.MAX_READ_FILE_SIZE, bytearray()
        try:
            async with self.sandbox.files.read_stream(self._path(file)) as pieces:
                async for piece in pieces:
                    kept += piece
                    if len(kept) > limit:
                        raise OutputLimitExceededError(limit_str=SandboxEnvironmentLimits.MAX_READ_FILE_SIZE_STR, truncated_output=None)
        except errors.ClocheError as e:
            raise _file_error(e, file) from e
        return kept.decode("utf-8") if text else bytes(kept)

    async def connection(self, *, user: Optional[str] = None) -> SandboxConnection:
        try:
            info = await self.sandbox.refresh()
        except errors.ClocheError as e:
            raise ConnectionError(str(e)) from e
        if info.ended is not None:
            raise ConnectionError(f"the sandbox {info.id} has ended")
        words = ["cloche", "shell", *(["--user", user] if user else []), "--cwd", self._working_dir, info.id]
        return SandboxConnection(type="cloche", command=" ".join(words), container=info.id)

    def default_polling_interval(self) -> float:
        return 0.2


def _result_of(ran: Ran, timeout: Optional[int]) -> ExecResult[str]:
    stdout, stderr = ran.stdout.decode("utf-8", "replace"), ran.stderr.decode("utf-8", "replace")
    ended = ran.exec.ended or {}
    is_own = timeout is not None and (ended.get("detail") or {}).get("timeout_ms") == timeout * 1000
    if ran.exec.cause in LOST or (ran.exec.cause == "timeout" and not is_own):
        raise SandboxUnavailableError(f"the sandbox ended while the command ran: {ended.get('message')}")
    if ran.exec.cause == "timeout":
        error = TimeoutError(f"Command timed out after {timeout} seconds")
        if stdout or stderr:
            setattr(error, "truncated_output", stdout + stderr)
        raise error
    return ExecResult(success=ran.exit_code == 0, returncode=ran.exit_code, stdout=stdout, stderr=stderr)


def _file_error(e: errors.ClocheError, file: str) -> Exception:
    return SandboxUnavailableError(str(e)) if isinstance(e, UNAVAILABLE) else file_error(e, file)
