# SPDX-License-Identifier: Apache-2.0
"""A deployment for SWE-ReX (`pip install cloche[swerex]`), as SWE-agent uses it: each is one sandbox.

    deployment = ClocheDeployment(image="python:3.12", limits={"memory_mib": 2048})
    await deployment.start()
    await deployment.runtime.create_session(CreateBashSessionRequest())
    await deployment.runtime.run_in_session(BashAction(command="ls"))

A session is a bash that keeps its variables, directory and functions. A command whose timeout is over is interrupted, and the
session goes on. Programs that ask on a terminal (`is_interactive_command`, `expect`) are refused.
"""

from __future__ import annotations

import io
import logging
import os
import shlex
from typing import Any, Dict, List, Literal, Optional

from pydantic import BaseModel, ConfigDict
from swerex.deployment.abstract import AbstractDeployment
from swerex.deployment.hooks.abstract import CombinedDeploymentHook, DeploymentHook
from swerex.exceptions import (
    BashIncorrectSyntaxError,
    CommandTimeoutError,
    DeploymentNotStartedError,
    DeploymentStartupError,
    NonZeroExitCodeError,
    SessionDoesNotExistError,
    SessionExistsError,
)
from swerex.runtime.abstract import (
    AbstractRuntime,
    BashAction,
    BashInterruptAction,
    BashObservation,
    CloseBashSessionResponse,
    CloseResponse,
    CloseSessionRequest,
    Command,
    CommandResponse,
    CreateBashSessionRequest,
    CreateBashSessionResponse,
    IsAliveResponse,
    ReadFileRequest,
    ReadFileResponse,
    UploadRequest,
    UploadResponse,
    WriteFileRequest,
    WriteFileResponse,
)
from swerex.utils.log import get_logger

from .. import errors
from .._fields import check_fields
from ..aio.sandbox import AsyncClient, AsyncSandbox
from ..code import CodeResult
from ._rollouts import OutputLimit, close_sandbox, file_error, open_sandbox, run_limited, upload_file, upload_tree

OUTPUT_MAX = 64 << 20
MERGE = 'exec "$@" 2>&1'
ESCAPES = "backslashreplace"


class _Session:
    """A bash of a context, whose stdout and stderr are one."""

    def __init__(self, sandbox: AsyncSandbox, request: CreateBashSessionRequest) -> None:
        self._sandbox = sandbox
        self._request = request
        self._context = ""

    async def start(self) -> str:
        made = await self._sandbox.contexts.create(language="bash")
        self._context = made.id
        return await self._begin()

    async def _begin(self) -> str:
        sources = [f"source {shlex.quote(path)}" for path in self._request.startup_source]
        return _output(await self._run("\n".join(["exec 2>&1", *sources]), None))

    async def _run(self, code: str, timeout: Optional[float]) -> CodeResult:
        return await self._sandbox.run_code(code, context=self._context, timeout=timeout, kill_on_disconnect=True)

    async def run(self, action: BashAction) -> BashObservation:
        await self._check_syntax(action.command)
        done = await self._run(action.command, action.timeout)
        asked = await self._run('printf %s "$?"', None)
        if asked.restarted:  # the command ended the shell: its state is gone
            await self._begin()
        if done.cause == "timeout":
            raise CommandTimeoutError(f"timeout after {action.timeout} seconds while running command {action.command!r}")
        code = done.exit_code if asked.restarted or done.exit_code else int(asked.stdout)
        output = _output(done)
        if action.check == "raise" and code != 0:
            message = f"Command {action.command!r} failed with exit code {code}. Here is the output:\n{output!r}"
            raise NonZeroExitCodeError(f"{action.error_msg}: {message}" if action.error_msg else message)
        return BashObservation(output=output, exit_code=None if action.check == "ignore" else code)

    async def _check_syntax(self, command: str) -> None:
        done = await self._sandbox.run(["bash", "-n"], stdin=command)
        if done.exit_code != 0:
            message = f"Error (exit code {done.exit_code}) while checking bash command \n{command!r}\n---- Stderr ----\n{done.stderr}"
            raise BashIncorrectSyntaxError(message, extra_info={"bash_stdout": done.stdout, "bash_stderr": done.stderr})

    async def interrupt(self) -> BashObservation:
        """Nothing runs between calls: what took too long has been interrupted already."""
        try:
            await self._sandbox.contexts.interrupt(self._context)
        except errors.Conflict:
            pass
        return BashObservation(output="", exit_code=0)

    async def close(self) -> None:
        try:
            await self._sandbox.contexts.remove(self._context)
        except (errors.Gone, errors.NotFound):
            pass


def _output(done: CodeResult) -> str:
    """As a terminal shows it: what was printed, and why the shell ended where it did."""
    printed = (done.stdout_bytes + done.stderr_bytes).decode("utf-8", ESCAPES)
    return printed if done.error is None else f"{printed}{done.error}\n"


class ClocheRuntime(AbstractRuntime):  # type: ignore[misc]
    def __init__(self, sandbox: AsyncSandbox, *, logger: Optional[logging.Logger] = None) -> None:
        self.sandbox = sandbox
        self.logger = logger or get_logger("rex-runtime")
        self._sessions: Dict[str, _Session] = {}

    async def is_alive(self, *, timeout: Optional[float] = None) -> IsAliveResponse:
        try:
            info = await self.sandbox.refresh()
        except errors.ClocheError as e:
            return IsAliveResponse(is_alive=False, message=str(e))
        ended = info.ended or {}
        return IsAliveResponse(is_alive=info.ended is None, message=str(ended.get("message") or ended.get("cause") or ""))

    def _session(self, name: str) -> _Session:
        if name not in self._sessions:
            raise SessionDoesNotExistError(f"session {name!r} does not exist")
        return self._sessions[name]

    async def create_session(self, request: CreateBashSessionRequest) -> CreateBashSessionResponse:
        if request.session in self._sessions:
            raise SessionExistsError(f"session {request.session} already exists")
        session = _Session(self.sandbox, request)
        output = await session.start()
        self._sessions[request.session] = session
        return CreateBashSessionResponse(output=output)

    async def run_in_session(self, action: Any) -> BashObservation:
        session = self._session(action.session)
        if isinstance(action, BashInterruptAction):
            return await session.interrupt()
        for field in ("is_interactive_command", "is_interactive_quit", "expect"):
            if getattr(action, field):
                raise NotImplementedError(f"{field}: sessions of cloche have no terminal that a program could ask on; feed its input by a pipe")
        return await session.run(action)

    async def close_session(self, request: CloseSessionRequest) -> CloseBashSessionResponse:
        await self._session(request.session).close()
        del self._sessions[request.session]
        return CloseBashSessionResponse()

    async def execute(self, command: Command) -> CommandResponse:
        words: List[str] = [command.command] if isinstance(command.command, str) else list(command.command)
        if command.shell:
            words = ["/bin/sh", "-c", *words]
        if command.merge_output_streams:
            words = ["/bin/sh", "-c", MERGE, "sh", *words]
        try:
            ran = await run_limited(self.sandbox, words, limit=OUTPUT_MAX, env=command.env, cwd=command.cwd, timeout=command.timeout)
        except OutputLimit as e:
            raise RuntimeError(f"the command printed more than {OUTPUT_MAX >> 20} MiB and was killed: write to a file instead") from e
        except errors.ClocheError as e:
            raise file_error(e, command.cwd if command.cwd and e.message.startswith("cwd") else words[0]) from e
        if ran.exec.cause == "timeout":
            raise CommandTimeoutError(f"Timeout ({command.timeout}s) exceeded while running command")
        code = ran.exec.exit_code if ran.exec.exit_code is not None else -(ran.exec.signal or 0)
        told = CommandResponse(stdout=ran.stdout.decode("utf-8", ESCAPES), stderr=ran.stderr.decode("utf-8", ESCAPES), exit_code=code)
        if command.check and code != 0:
            message = f"Command {command.command!r} failed with exit code {code}. Stdout:\n{told.stdout!r}\nStderr:\n{told.stderr!r}"
            raise NonZeroExitCodeError(f"{command.error_msg}: {message}" if command.error_msg else message)
        return told

    async def read_file(self, request: ReadFileRequest) -> ReadFileResponse:
        try:
            data = await self.sandbox.files.read(request.path)
        except errors.ClocheError as e:
            raise file_error(e, request.path) from e
        text = io.TextIOWrapper(io.BytesIO(data), encoding=request.encoding or "utf-8", errors=request.errors)
        return ReadFileResponse(content=text.read())

    async def write_file(self, request: WriteFileRequest) -> WriteFileResponse:
        try:
            await self.sandbox.files.write(request.path, request.content, parents=True)
        except errors.ClocheError as e:
            raise file_error(e, request.path) from e
        return WriteFileResponse()

    async def upload(self, request: UploadRequest) -> UploadResponse:
        """Modes and links of a directory come along; a file goes below a target that is a directory, as cp has it."""
        try:
            if os.path.isdir(request.source_path):
                await upload_tree(self.sandbox, request.source_path, request.target_path)
            else:
                await upload_file(self.sandbox, request.source_path, request.target_path)
        except errors.ClocheError as e:
            raise file_error(e, request.target_path) from e
        return UploadResponse()

    async def close(self) -> CloseResponse:
        for session in self._sessions.values():
            await session.close()
        self._sessions.clear()
        return CloseResponse()


class ClocheDeploymentConfig(BaseModel):  # type: ignore[misc]
    """`fields` are those of Sandbox.create(); `image` is the one that SWE-agent sets."""

    model_config = ConfigDict(extra="forbid")

    type: Literal["cloche"] = "cloche"
    image: Optional[str] = None
    fields: Dict[str, Any] = {}

    def get_deployment(self) -> "ClocheDeployment":
        return ClocheDeployment.from_config(self)


class ClocheDeployment(AbstractDeployment):  # type: ignore[misc]
    """`client` is the connection to the daemon. Default: AsyncClient(). The other fields are those of Sandbox.create()."""

    def __init__(self, *, logger: Optional[logging.Logger] = None, client: Optional[AsyncClient] = None, **fields: Any) -> None:
        self.logger = logger or get_logger("rex-deploy")
        self._runtime: Optional[ClocheRuntime] = None
        self._hooks = CombinedDeploymentHook()
        check_fields(fields)
        self._fields = fields
        self._client = client

    @classmethod
    def from_config(cls, config: ClocheDeploymentConfig) -> "ClocheDeployment":
        return cls(**{**({"image": config.image} if config.image else {}), **config.fields})

    def add_hook(self, hook: DeploymentHook) -> None:
        self._hooks.add_hook(hook)

    @property
    def runtime(self) -> ClocheRuntime:
        if self._runtime is None:
            raise DeploymentNotStartedError()
        return self._runtime

    async def is_alive(self, *, timeout: Optional[float] = None) -> IsAliveResponse:
        return await self.runtime.is_alive(timeout=timeout)

    async def start(self) -> None:
        if self._runtime is not None:
            return
        self._hooks.on_custom_step("Starting sandbox")
        self._client = self._client or AsyncClient()
        try:
            sandbox = await open_sandbox(self._client, self._fields)
        except errors.ClocheError as e:
            raise DeploymentStartupError(str(e)) from e
        self._runtime = ClocheRuntime(sandbox, logger=self.logger)

    async def stop(self) -> None:
        runtime, self._runtime = self._runtime, None
        if runtime is not None:
            await close_sandbox(runtime.sandbox)
