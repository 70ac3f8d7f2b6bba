# SPDX-License-Identifier: Apache-2.0
"""An environment for Harbor (`pip install cloche[harbor]`, Python 3.12): each trial is one sandbox.

    harbor run -p tasks/ -a oracle --env cloche.integrations.harbor:ClocheEnvironment

A task's Dockerfile is built into a template once, by its content; a `docker_image` is pulled by the first trial. Network policies
are enforced exactly, also when they change between phases. A policy that cannot be enforced is refused before the trial starts.
"""

from __future__ import annotations

import asyncio
import ipaddress
import posixpath
import re
import tarfile
import tempfile
from pathlib import Path
from typing import Any, Dict, Optional, Union

from harbor.environments.base import BaseEnvironment, ExecResult, SandboxBuildFailedError, transfer_tar_filter
from harbor.environments.capabilities import EnvironmentCapabilities, EnvironmentResourceCapabilities
from harbor.environments.definition import COMPOSE_FILE_NAME, DOCKERFILE_NAME, require_agent_environment_definition
from harbor.models.task.config import NetworkMode, NetworkPolicy
from harbor.models.trial.config import ResourceMode

from .. import errors
from .._fields import check_fields
from ..aio.sandbox import AsyncSandbox
from ..sync.sandbox import Client
from ._rollouts import OutputLimit, client_of_loop, close_sandbox, file_error, leases, open_sandbox, run_limited, upload_file, upload_tree

OUTPUT_MAX = 64 << 20
KEPT_S = 3600.0
ROOT = "root"
_building: Dict[str, asyncio.Lock] = {}


class ClocheEnvironment(BaseEnvironment):  # type: ignore[misc]
    """`fields` are those of Sandbox.create(), such as `engine` or `template` (`--ek fields='{…}'`); a template replaces the task's image."""

    def __init__(self, *words: Any, fields: Optional[Dict[str, Any]] = None, **named: Any) -> None:
        self._fields = dict(fields or {})
        check_fields(self._fields)
        self._sandbox: Optional[AsyncSandbox] = None
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
        )

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
        if "template" in self._fields:
            return
        require_agent_environment_definition(self.environment_dir, docker_image=self.task_env_config.docker_image)
        if (self.environment_dir / COMPOSE_FILE_NAME).exists():
            raise ValueError(f"{COMPOSE_FILE_NAME}: tasks of several containers are not supported")

    @property
    def sandbox(self) -> AsyncSandbox:
        if self._sandbox is None:
            raise RuntimeError("the environment has not been started, or was stopped")
        return self._sandbox

    async def start(self, force_build: bool) -> None:
        origin = {} if "template" in self._fields else await self._origin(force_build)
        cpu, memory = (self._resource_limit_value(name, auto_mode=ResourceMode.LIMIT) for name in ("cpu", "memory"))
        sizes = {"vcpus": cpu, "memory_mib": memory, "disk_mib": self._effective_storage_mb}
        limits = {**{name: value for name, value in sizes.items() if value is not None}, **(self._fields.get("limits") or {})}
        tags = {"harbor": self.session_id[:64], **(self._fields.get("tags") or {})}
        policy = _policy_of(self.network_policy)
        fields = {**origin, **self._fields, "limits": limits or None, "tags": tags, "network": policy, "env": self._startup_env() or None}
        self._sandbox = await open_sandbox(client_of_loop(), fields)
        workdir = self._workdir()
        if workdir is not None:
            await self._sandbox.files.mkdir(workdir, parents=True, user=ROOT)
        await self.ensure_dirs(self._mount_targets(writable_only=True))
        await self._upload_environment_dir_after_start()

    async def _origin(self, force_build: bool) -> Dict[str, Any]:
        image, dockerfile = self.task_env_config.docker_image, self.environment_dir / DOCKERFILE_NAME
        if image and not (force_build and dockerfile.exists()):
            return {"image": image}
        name = re.sub(r"[^a-z0-9-]+", "-", self.environment_name.lower()).strip("-")[:40] + f"-{self.environment_id[:12]}"
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
        sandbox, self._sandbox = self._sandbox, None
        if sandbox is None:
            return
        if delete:
            await close_sandbox(sandbox)
            return
        leases.let_go(sandbox.id)
        await sandbox.update(timeout=KEPT_S)
        self.logger.info("the sandbox is kept for an hour: cloche shell %s", sandbox.id)

    async def _apply_network_policy(self, network_policy: NetworkPolicy) -> None:
        await self.sandbox.set_network(_policy_of(network_policy))

    def _workdir(self) -> Optional[str]:
        """Where commands begin: the task's word, or the last WORKDIR of the Dockerfile's last stage."""
        workdir: Optional[str] = self.task_env_config.workdir
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
            ran = await run_limited(self.sandbox, [self._shell, "-c", command], limit=OUTPUT_MAX, cwd=place, env=given, user=name, timeout=timeout_sec)
        except OutputLimit as e:
            raise RuntimeError(f"Command printed more than {OUTPUT_MAX >> 20} MiB and was killed") from e
        except (errors.FileMissing, errors.FileDenied) as e:  # the shell, the directory or the user
            if self._shell == "bash" and e.message.startswith("argv"):
                self._shell = "sh"
                return await self.exec(command, cwd, env, timeout_sec, user)
            return ExecResult(stdout="", stderr=f"{e.message}\n", return_code=127 if e.message.startswith("argv") else 126)
        if ran.exec.cause == "timeout" and timeout_sec is not None:
            raise RuntimeError(f"Command timed out after {timeout_sec} seconds")
        return ExecResult(stdout=ran.stdout.decode("utf-8", "replace"), stderr=ran.stderr.decode("utf-8", "replace"), return_code=ran.exit_code)

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
        try:
            with open(target_path, "wb") as file:
                async for piece in self.sandbox.files.read_stream(source_path, user=ROOT):
                    file.write(piece)
        except errors.ClocheError as e:
            raise file_error(e, source_path) from e

    async def download_dir(self, source_dir: str, target_dir: Union[Path, str]) -> None:
        """With modes and links; what would lead out of the target is refused."""
        try:
            with tempfile.TemporaryFile() as file:
                async for piece in self.sandbox.files.tar_out(source_dir, user=ROOT):
                    file.write(piece)
                file.seek(0)
                with tarfile.open(fileobj=file) as archive:
                    archive.extractall(target_dir, filter=transfer_tar_filter)
        except errors.ClocheError as e:
            raise file_error(e, source_dir) from e


def _policy_of(policy: NetworkPolicy) -> Any:
    if policy.network_mode == NetworkMode.PUBLIC:
        return "allow-all"
    if policy.network_mode == NetworkMode.NO_NETWORK or not policy.allowed_hosts:
        return "deny-all"
    return {"allow": list(policy.allowed_hosts)}
