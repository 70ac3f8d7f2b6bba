# SPDX-License-Identifier: Apache-2.0
"""An environment for Harbor (`pip install cloche[harbor]`, Python 3.12): each trial is one sandbox.

    harbor run -p tasks/ -a oracle --env cloche.integrations.harbor:ClocheEnvironment

A task's Dockerfile is built into a template once, by its content; a `docker_image` is pulled by the first trial. A task with a
`docker-compose.yaml` is a project of several sandboxes (cloche.compose), and the agent works in the one of the service `main`.
Network policies are enforced exactly, of every service, also when they change between phases. A policy that cannot be enforced is
refused before the trial starts.
"""

from __future__ import annotations

import asyncio
import ipaddress
import json
import posixpath
import re
import tarfile
import tempfile
from pathlib import Path
from typing import Any, Dict, List, Optional, Union

from harbor.environments.base import BaseEnvironment, ExecResult, SandboxBuildFailedError, transfer_tar_filter
from harbor.constants import MAIN_SERVICE_NAME
from harbor.environments.capabilities import EnvironmentCapabilities, EnvironmentResourceCapabilities
from harbor.environments.compose_service_ops import ComposeServiceOpsMixin
from harbor.environments.definition import COMPOSE_FILE_NAME, DOCKERFILE_NAME, require_agent_environment_definition
from harbor.models.task.config import NetworkMode, NetworkPolicy
from harbor.models.trial.config import ResourceMode

from .. import compose, errors
from .._fields import check_fields
from ..aio.sandbox import AsyncSandbox
from ..sync.sandbox import Client
from . import _harbor_compose
from ._rollouts import LEASE_S, WAIT_S, OutputLimit, client_of_loop, close_sandbox, file_error, leases, open_sandbox, renewer_of, run_limited, upload_file, upload_tree

OUTPUT_MAX = 64 << 20
KEPT_S = 3600.0
ROOT = "root"
_building: Dict[str, asyncio.Lock] = {}


class ClocheEnvironment(ComposeServiceOpsMixin, BaseEnvironment):  # type: ignore[misc]
    """`fields` are those of Sandbox.create(), such as `engine` or `template` (`--ek fields='{…}'`); a template replaces the task's image."""

    def __init__(self, *words: Any, fields: Optional[Dict[str, Any]] = None, **named: Any) -> None:
        self._fields = dict(fields or {})
        check_fields(self._fields)
        self._sandbox: Optional[AsyncSandbox] = None
        self._project: Optional[compose.AsyncProject] = None
        self._shell = "bash"
        super().__init__(*words, **named)

    @classmethod
    def preflight(cls) -> None:
        try:
            with Client() as client:
                client.health()
        except errors.ClocheError as e:
            raise SystemExit(f"cloche: {e}") from e

    @staticmethod
    def type() -> str:
        return "cloche"

    @classmethod
    def resource_capabilities(cls) -> EnvironmentResourceCapabilities:
        return EnvironmentResourceCapabilities(cpu_limit=True, memory_limit=True, fractional_cpus=True)

    @property
    def capabilities(self) -> EnvironmentCapabilities:
        return EnvironmentCapabilities(
            disable_internet=True,
            network_allowlist=True,
            network_allowlist_hostnames=True,
            network_allowlist_wildcard_hostnames=True,
            network_allowlist_ipv4_addresses=True,
            network_allowlist_ipv4_cidrs=True,
            dynamic_network_policy=True,
            docker_compose=True,
        )

    @property
    def _compose_file(self) -> Path:
        path: Path = self.environment_dir / COMPOSE_FILE_NAME
        return path

    @property
    def _uses_compose(self) -> bool:
        return self._compose_file.exists()

    def validate_network_policy_support(self, network_policy: Optional[NetworkPolicy] = None) -> None:
        super().validate_network_policy_support(network_policy)
        for host in (network_policy or self._network_policy).allowed_hosts:
            try:
                network = ipaddress.ip_network(host)
            except ValueError:
                continue
            if network.is_loopback or network.is_link_local or network.is_multicast:
                raise ValueError(f"allowed_hosts: {host} is the host's own, which no sandbox's policy opens")

    def _validate_definition(self) -> None:
        if self.extra_docker_compose_paths:
            raise ValueError("--extra-docker-compose: files over the task's own are not supported; put their services into its docker-compose.yaml")
        if self._uses_compose:
            _harbor_compose.check_fields_of_project(self._fields, self._compose_file)
            self._whole_file(self.task_env_config.docker_image)
            return
        if "template" not in self._fields:
            require_agent_environment_definition(self.environment_dir, docker_image=self.task_env_config.docker_image)

    def _whole_file(self, image: Optional[str]) -> str:
        cpus, memory = (self._resource_limit_value(name, auto_mode=ResourceMode.LIMIT) for name in ("cpu", "memory"))
        return _harbor_compose.whole_file(
            self._compose_file,
            template=self._fields.get("template"),
            image=image,
            env=self._startup_env(),
            cpus=cpus,
            memory_mb=memory,
            disk_mb=self._effective_storage_mb,
        )

    @property
    def sandbox(self) -> AsyncSandbox:
        if self._sandbox is None:
            raise RuntimeError("the environment has not been started, or was stopped")
        return self._sandbox

    async def start(self, force_build: bool) -> None:
        if self._uses_compose:
            await self._start_project(force_build)
        else:
            await self._start_sandbox(force_build)
        workdir = self._workdir()
        if workdir is not None:
            await self.sandbox.files.mkdir(workdir, parents=True, user=ROOT)
        await self.ensure_dirs(self._mount_targets(writable_only=True))
        await self._upload_environment_dir_after_start()

    async def _start_sandbox(self, force_build: bool) -> None:
        origin = {} if "template" in self._fields else await self._origin(force_build)
        cpu, memory = (self._resource_limit_value(name, auto_mode=ResourceMode.LIMIT) for name in ("cpu", "memory"))
        sizes = {"vcpus": cpu, "memory_mib": memory, "disk_mib": self._effective_storage_mb}
        limits = {**{name: value for name, value in sizes.items() if value is not None}, **(self._fields.get("limits") or {})}
        tags = {"harbor": self.session_id[:64], **(self._fields.get("tags") or {})}
        policy = _policy_of(self.network_policy)
        fields = {**origin, **self._fields, "limits": limits or None, "tags": tags, "network": policy, "env": self._startup_env() or None}
        self._sandbox = await open_sandbox(client_of_loop(), fields)

    def _template_name(self) -> str:
        """Of what is built for the task: by its content."""
        return re.sub(r"[^a-z0-9-]+", "-", self.environment_name.lower()).strip("-")[:24].strip("-") + f"-{self.environment_id[:12]}"

    async def _start_project(self, force_build: bool) -> None:
        """What it builds is there for the next trial, unless it is to be built anew."""
        client, own = client_of_loop(), self.task_env_config
        image = None if force_build and (self.environment_dir / DOCKERFILE_NAME).exists() else own.docker_image
        given = _harbor_compose.variables(self.environment_dir, self.environment_id, image, self._effective_cpus, self._effective_memory_mb, self._mounts)
        fields = {name: value for name, value in self._fields.items() if name != "template" and value is not None}
        name = self._template_name()
        with tempfile.TemporaryDirectory(prefix="cloche-harbor-") as directory:
            file, policy = Path(directory) / COMPOSE_FILE_NAME, Path(directory) / "network.json"
            file.write_text(self._whole_file(image), encoding="utf-8")
            allowed = _policy_of(self.network_policy)
            policy.write_text(json.dumps(allowed))
            fields = {"timeout": LEASE_S, "wait": WAIT_S, "templates": None if force_build else name, **fields}
            fields |= {"directory": self.environment_dir, "network": allowed if isinstance(allowed, str) else str(policy)}
            async with _building.setdefault(name, asyncio.Lock()):  # the first builds, the others find it
                try:
                    project = await compose.up_async(str(file), client=client, variables=given, on_progress=lambda event: self.logger.debug("%s", event), **fields)
                except errors.ClocheError as e:
                    raise _error_of_file(e, str(file), self._compose_file) from e
        self._project, self._sandbox = project, project[MAIN_SERVICE_NAME]
        if self._fields.get("timeout") is None:
            for sandbox in self._sandboxes:
                leases.hold(sandbox.id, renewer_of(client))

    @property
    def _sandboxes(self) -> List[AsyncSandbox]:
        return [self.sandbox] if self._project is None else [self._project[name] for name in self._project]

    async def _origin(self, force_build: bool) -> Dict[str, Any]:
        image, dockerfile = self.task_env_config.docker_image, self.environment_dir / DOCKERFILE_NAME
        if image and not (force_build and dockerfile.exists()):
            return {"image": image}
        name = self._template_name()
        client = client_of_loop()
        async with _building.setdefault(name, asyncio.Lock()):
            try:
                await client.template(name)
                is_there = True
            except errors.NotFound:
                is_there = False
            if force_build or not is_there:
                try:
                    await asyncio.wait_for(
                        client.build_template(name=name, context=str(self.environment_dir), fresh=force_build, on_log=self.logger.debug),
                        self.task_env_config.build_timeout_sec,
                    )
                except (errors.InvalidField, errors.BadRequest) as e:
                    raise SandboxBuildFailedError(f"{dockerfile}: {e}") from e
        return {"template": name}

    async def stop(self, delete: bool) -> None:
        if self._sandbox is None:
            return
        sandbox, project, all_of_it = self._sandbox, self._project, self._sandboxes
        self._sandbox = self._project = None
        if delete and project is None:
            await close_sandbox(sandbox)
            return
        for one in all_of_it:
            leases.let_go(one.id)
        if delete and project is not None:
            await project.down()
            return
        for one in all_of_it:
            await one.update(timeout=KEPT_S)
        self.logger.info("the sandbox is kept for an hour: cloche shell %s", sandbox.id)

    async def _apply_network_policy(self, network_policy: NetworkPolicy) -> None:
        for sandbox in self._sandboxes:
            await sandbox.set_network(_policy_of(network_policy))

    def _workdir(self) -> Optional[str]:
        """Where commands begin: the task's word, or the last WORKDIR of the Dockerfile's last stage."""
        workdir: Optional[str] = self.task_env_config.workdir
        if workdir is None and self._uses_compose:
            workdir = _harbor_compose.working_dir_of(self._compose_file)
        dockerfile = self.environment_dir / DOCKERFILE_NAME
        if workdir is not None or not dockerfile.exists():
            return workdir
        for word, rest in re.findall(r"^\s*(FROM|WORKDIR)\s+(.+?)\s*$", dockerfile.read_text(), re.M | re.I):
            workdir = None if word.upper() == "FROM" else posixpath.join(workdir or "/", rest.strip("\"'"))
        if workdir is not None and "$" in workdir:
            raise ValueError(f"{dockerfile}: WORKDIR {workdir} depends on a variable: say workdir in [environment] of task.toml")
        return workdir

    async def exec(
        self,
        command: str,
        cwd: Optional[str] = None,
        env: Optional[Dict[str, str]] = None,
        timeout_sec: Optional[int] = None,
        user: Union[None, str, int] = None,
    ) -> ExecResult:
        who = self._resolve_user(user)
        place, given = cwd or self._workdir(), self._merge_env(env)
        name = ROOT if who is None else str(who)
        try:
            return await _run(self.sandbox, self._shell, command, cwd=place, env=given, user=name, timeout=timeout_sec)
        except _NoShell as e:
            if self._shell == "sh":
                return e.result
            self._shell = "sh"
            return await self.exec(command, cwd, env, timeout_sec, user)

    def _compose_service_transport(self, service: Optional[str]) -> "_Services":
        if self._project is None:
            raise self._compose_unsupported(service)
        return _Services(self._project)

    async def upload_file(self, source_path: Union[Path, str], target_path: str) -> None:
        try:
            await upload_file(self.sandbox, str(source_path), target_path, user=ROOT)
        except errors.ClocheError as e:
            raise file_error(e, target_path) from e

    async def upload_dir(self, source_dir: Union[Path, str], target_dir: str) -> None:
        """With modes and links."""
        try:
            await upload_tree(self.sandbox, str(source_dir), target_dir, user=ROOT)
        except errors.ClocheError as e:
            raise file_error(e, target_dir) from e

    async def download_file(self, source_path: str, target_path: Union[Path, str]) -> None:
        await _download_file(self.sandbox, source_path, target_path)

    async def download_dir(self, source_dir: str, target_dir: Union[Path, str]) -> None:
        """With modes and links; what would lead out of the target is refused."""
        await _download_dir(self.sandbox, source_dir, target_dir)


class _Services:
    """The other services of a project. Their commands have a shell that every image has, and none of main's directory, user or variables."""

    def __init__(self, project: compose.AsyncProject) -> None:
        self._project = project

    def _of(self, service: str) -> AsyncSandbox:
        if service not in self._project:
            raise ValueError(f"the task has no service {service!r}; there are {', '.join(self._project)}")
        return self._project[service]

    async def service_exec(
        self,
        command: str,
        *,
        service: str,
        cwd: Optional[str] = None,
        env: Optional[Dict[str, str]] = None,
        timeout_sec: Optional[int] = None,
        user: Union[None, str, int] = None,
    ) -> ExecResult:
        try:
            return await _run(self._of(service), "sh", command, cwd=cwd, env=env, user=None if user is None else str(user), timeout=timeout_sec)
        except _NoShell as e:
            return e.result

    async def service_download_file(self, source_path: str, target_path: Union[Path, str], *, service: str) -> None:
        await _download_file(self._of(service), source_path, target_path)

    async def service_download_dir(self, source_dir: str, target_dir: Union[Path, str], *, service: str) -> None:
        await _download_dir(self._of(service), source_dir, target_dir)

    async def stop_service(self, service: str) -> None:
        """Its programs stand still from here on; they and its files go with the project."""
        await self._of(service).pause(to="memory")


class _NoShell(Exception):
    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.result = ExecResult(stdout="", stderr=f"{message}\n", return_code=127)


async def _run(sandbox: AsyncSandbox, shell: str, command: str, *, timeout: Optional[int], **fields: Any) -> ExecResult:
    try:
        ran = await run_limited(sandbox, [shell, "-c", command], limit=OUTPUT_MAX, timeout=timeout, **fields)
    except OutputLimit as e:
        raise RuntimeError(f"Command printed more than {OUTPUT_MAX >> 20} MiB and was killed") from e
    except (errors.FileMissing, errors.FileDenied) as e:  # the shell, the directory or the user
        if e.message.startswith("argv"):
            raise _NoShell(e.message) from e
        return ExecResult(stdout="", stderr=f"{e.message}\n", return_code=126)
    if ran.exec.cause == "timeout" and timeout is not None:
        raise RuntimeError(f"Command timed out after {timeout} seconds")
    return ExecResult(stdout=ran.stdout.decode("utf-8", "replace"), stderr=ran.stderr.decode("utf-8", "replace"), return_code=ran.exit_code)


async def _download_file(sandbox: AsyncSandbox, source_path: str, target_path: Union[Path, str]) -> None:
    try:
        with open(target_path, "wb") as file:
            async for piece in sandbox.files.read_stream(source_path, user=ROOT):
                file.write(piece)
    except errors.ClocheError as e:
        Path(target_path).unlink()  # an empty one would look like what was asked for
        raise file_error(e, source_path) from e


async def _download_dir(sandbox: AsyncSandbox, source_dir: str, target_dir: Union[Path, str]) -> None:
    try:
        with tempfile.TemporaryFile() as file:
            async for piece in sandbox.files.tar_out(source_dir, user=ROOT):
                file.write(piece)
            file.seek(0)
            with tarfile.open(fileobj=file) as archive:
                archive.extractall(target_dir, filter=transfer_tar_filter)
    except errors.ClocheError as e:
        raise file_error(e, source_dir) from e


def _error_of_file(e: errors.ClocheError, made: str, own: Path) -> Exception:
    """It names a line of the file that was made from the task's: the field is what helps."""
    message = re.sub(re.escape(made) + r":\d+", str(own), e.message)
    if message == e.message:
        return e
    error: Exception = SandboxBuildFailedError(f"{message}; {e.hint}" if e.hint else message)
    return error


def _policy_of(policy: NetworkPolicy) -> Any:
    if policy.network_mode == NetworkMode.PUBLIC:
        return "allow-all"
    if policy.network_mode == NetworkMode.NO_NETWORK or not policy.allowed_hosts:
        return "deny-all"
    return {"allow": list(policy.allowed_hosts)}
