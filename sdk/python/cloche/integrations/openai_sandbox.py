# SPDX-License-Identifier: Apache-2.0
"""A sandbox client for OpenAI's Agents SDK (`pip install openai-agents`): its sandbox agents work in cloche.

    agent = SandboxAgent(name="coder", ...)
    run_config = RunConfig(sandbox=SandboxRunConfig(client=ClocheSandboxClient(), options=ClocheSandboxClientOptions()))
    await Runner.run(agent, "make the tests pass", run_config=run_config)
"""

from __future__ import annotations

import io
import uuid
from pathlib import Path
from typing import Any, Dict, List, Literal, Optional, Union
from urllib.parse import urlsplit

from agents.sandbox.errors import (
    ExecTimeoutError,
    ExecTransportError,
    ExposedPortUnavailableError,
    WorkspaceArchiveReadError,
    WorkspaceArchiveWriteError,
    WorkspaceReadNotFoundError,
)
from agents.sandbox.manifest import Manifest
from agents.sandbox.session import SandboxSession, SandboxSessionState
from agents.sandbox.session.base_sandbox_session import BaseSandboxSession
from agents.sandbox.session.pty_types import PtyExecUpdate
from agents.sandbox.session.sandbox_client import BaseSandboxClient, BaseSandboxClientOptions
from agents.sandbox.snapshot import resolve_snapshot
from agents.sandbox.types import ExecResult, ExposedPortEndpoint

from .. import errors
from ..aio.execs import AsyncExec
from ..aio.sandbox import AsyncClient, AsyncSandbox
from ._openai_pty import Terminals

BACKEND = "cloche"


class ClocheSandboxClientOptions(BaseSandboxClientOptions):  # type: ignore[misc]
    """`fields` are those of Sandbox.create(); `exposed_ports` need the daemon's setting preview.domain."""

    type: Literal["cloche"] = "cloche"
    fields: Dict[str, Any] = {}
    exposed_ports: tuple[int, ...] = ()

    def __init__(self, fields: Optional[Dict[str, Any]] = None, exposed_ports: tuple[int, ...] = (), **more: Any) -> None:
        super().__init__(**{"type": BACKEND, **more, "fields": fields or {}, "exposed_ports": exposed_ports})


class ClocheSandboxSessionState(SandboxSessionState):  # type: ignore[misc]
    type: Literal["cloche"] = "cloche"
    sandbox_id: str
    fields: Dict[str, Any] = {}


class ClocheSandboxSession(BaseSandboxSession):  # type: ignore[misc]
    """One sandbox as the SDK works with it. Commands run in the manifest's root."""

    def __init__(self, state: ClocheSandboxSessionState, sandbox: AsyncSandbox) -> None:
        self.state = state
        self._sandbox = sandbox
        self._terminals = Terminals()

    async def _prepare_backend_workspace(self) -> None:
        """The root lies where only root may make it; what is in it is the user's."""
        root = self.state.manifest.root
        make = ["sh", "-c", 'mkdir -p -- "$1" && chown user: "$1"', "sh", root]
        (await self._sandbox.run(make, user="root")).check()

    async def _exec_internal(self, *command: Any, timeout: Optional[float] = None) -> ExecResult:
        words = [str(word) for word in command]
        env = await self.state.manifest.environment.resolve()
        try:
            done = await self._sandbox.run(words, cwd=self.state.manifest.root, env=env or None, timeout=timeout, kill_on_disconnect=True)
        except errors.ClocheError as e:
            raise ExecTransportError(command=words, cause=e) from e
        if done.cause == "timeout":
            raise ExecTimeoutError(command=words, timeout_s=timeout)
        code = done.exit_code if done.exit_code is not None else 128 + (done.signal or 0)
        return ExecResult(stdout=done.stdout_bytes, stderr=done.stderr_bytes, exit_code=code)

    def supports_pty(self) -> bool:
        return True

    async def pty_exec_start(
        self,
        *command: Any,
        timeout: Optional[float] = None,
        shell: Union[bool, List[str]] = True,
        user: Any = None,
        tty: bool = False,
        yield_time_s: Optional[float] = None,
        max_output_tokens: Optional[int] = None,
    ) -> PtyExecUpdate:
        """`timeout` is the command's whole life; without it, it lives until it ends or the session does."""
        words = self._prepare_exec_command(*command, shell=shell, user=None)

        async def begin() -> AsyncExec:
            env = await self.state.manifest.environment.resolve()
            root = self.state.manifest.root
            return await self._sandbox.start(words, cwd=root, env=env or None, user=_name(user), pty=tty, timeout=timeout)

        try:
            return await self._terminals.start(begin, tty, yield_time_s, max_output_tokens)
        except errors.ClocheError as e:
            raise ExecTransportError(command=words, cause=e) from e

    async def pty_write_stdin(
        self, *, session_id: int, chars: str, yield_time_s: Optional[float] = None, max_output_tokens: Optional[int] = None
    ) -> PtyExecUpdate:
        try:
            return await self._terminals.write(session_id, chars, yield_time_s, max_output_tokens)
        except errors.ClocheError as e:
            raise ExecTransportError(command=["write_stdin"], cause=e) from e

    async def pty_terminate_all(self) -> None:
        await self._terminals.end_all()

    def _inside(self, path: Any) -> str:
        return str(Path(self.state.manifest.root) / path)

    async def read(self, path: Path, *, user: Any = None) -> io.IOBase:
        at = self._inside(path)
        try:
            return io.BytesIO(await self._sandbox.files.read(at, user=_name(user)))
        except errors.FileMissing as e:
            raise WorkspaceReadNotFoundError(path=Path(at), cause=e) from e
        except errors.ClocheError as e:
            raise WorkspaceArchiveReadError(path=Path(at), cause=e) from e

    async def write(self, path: Path, data: io.IOBase, *, user: Any = None) -> None:
        at = self._inside(path)
        content = data.read()
        try:
            await self._sandbox.files.write(at, content.encode() if isinstance(content, str) else content, parents=True, user=_name(user))
        except errors.ClocheError as e:
            raise WorkspaceArchiveWriteError(path=Path(at), cause=e) from e

    async def running(self) -> bool:
        try:
            return (await self._sandbox.refresh()).state == "running"
        except errors.ClocheError:
            return False

    async def persist_workspace(self) -> io.IOBase:
        root, archive = self.state.manifest.root, io.BytesIO()
        try:
            async for piece in self._sandbox.files.tar_out(root):
                archive.write(piece)
        except errors.ClocheError as e:
            raise WorkspaceArchiveReadError(path=Path(root), cause=e) from e
        archive.seek(0)
        return archive

    async def hydrate_workspace(self, data: io.IOBase) -> None:
        root = self.state.manifest.root
        try:
            await self._prepare_backend_workspace()
            await self._sandbox.files.tar_in(root, data.read())
        except errors.ClocheError as e:
            raise WorkspaceArchiveWriteError(path=Path(root), cause=e) from e

    async def _resolve_exposed_port(self, port: int) -> ExposedPortEndpoint:
        opened = await self._sandbox.expose(port)
        url = urlsplit(opened["host_url"] or "")
        if not url.hostname:
            reason = {"hint": "set preview_domain in the daemon's settings: ports are told by names of their own"}
            raise ExposedPortUnavailableError(port=port, exposed_ports=self.state.exposed_ports, reason="backend_unavailable", context=reason)
        tls = url.scheme == "https"
        return ExposedPortEndpoint(host=url.hostname, port=url.port or (443 if tls else 80), tls=tls, query=url.query)

    async def _shutdown_backend(self) -> None:
        await self._sandbox.close()


def _name(user: Any) -> Optional[str]:
    return user if user is None or isinstance(user, str) else str(user.name)


class ClocheSandboxClient(BaseSandboxClient):  # type: ignore[misc]
    """`client` is the connection to the daemon. Default: AsyncClient()."""

    backend_id = BACKEND
    supports_default_options = True

    def __init__(self, client: Optional[AsyncClient] = None) -> None:
        self._client = client or AsyncClient()

    async def create(self, *, snapshot: Any = None, manifest: Any = None, options: Optional[ClocheSandboxClientOptions] = None) -> SandboxSession:
        options = options or ClocheSandboxClientOptions()
        manifest = self._validate_manifest_for_create(manifest or Manifest())
        sandbox = await AsyncSandbox.create(client=self._client, **options.fields)
        id = uuid.uuid4()
        state = ClocheSandboxSessionState(
            session_id=id,
            manifest=manifest,
            snapshot=resolve_snapshot(snapshot, str(id)),
            exposed_ports=options.exposed_ports,
            sandbox_id=sandbox.id,
            fields=options.fields,
        )
        return self._wrap_session(ClocheSandboxSession(state, sandbox))

    async def delete(self, session: SandboxSession) -> SandboxSession:
        await session._inner._shutdown_backend()
        return session

    async def resume(self, state: SandboxSessionState) -> SandboxSession:
        """The same sandbox where it still runs or can be woken, else a new one, filled from the state's snapshot."""
        state.assert_path_grants_rebound()
        is_same = True
        try:
            sandbox = await AsyncSandbox.get(state.sandbox_id, client=self._client)
            await sandbox.resume()
        except errors.ClocheError:
            is_same = False
            sandbox = await AsyncSandbox.create(client=self._client, **state.fields)
            state.sandbox_id, state.workspace_root_ready = sandbox.id, False
        inner = ClocheSandboxSession(state, sandbox)
        inner._set_start_state_preserved(is_same)
        return self._wrap_session(inner)

    def deserialize_session_state(self, payload: Dict[str, object]) -> SandboxSessionState:
        return self._deserialize_session_state_payload(payload, ClocheSandboxSessionState)
