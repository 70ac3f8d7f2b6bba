# SPDX-License-Identifier: Apache-2.0
"""The services of a Compose file, each in a sandbox of its own; they reach each other by name.

    with compose.up("compose.yaml", client=client) as project:
        print(project["web"].run("curl -s http://db:8000/").stdout)

The file is read by the `cloche` program (CLOCHE_PROGRAM, or in PATH): there is one reader of Compose files, for the command line and
for this. So a client's own machine needs that program; the daemon may be elsewhere. Project has a twin for asyncio, AsyncProject.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import tempfile
import uuid
from typing import Any, Callable, Dict, Iterator, List, Mapping, Optional, Sequence, Tuple, Union

from . import errors
from .aio.sandbox import AsyncClient, AsyncSandbox
from .sync.sandbox import Client, Sandbox

OnProgress = Callable[[Dict[str, Any]], Any]
SECRET = ("CLOCHE_URL", "CLOCHE_API_KEY")


def _program() -> str:
    program = os.environ.get("CLOCHE_PROGRAM") or shutil.which("cloche")
    if program is None:
        raise errors.ClocheError("Compose files are read by the program `cloche`, which is not here", hint="install it, or say where it is: CLOCHE_PROGRAM")
    return program


def _environment(transport: Any, variables: Optional[Mapping[str, str]]) -> Dict[str, str]:
    """The program's own: the daemon of the client, and the variables that the file may use; the caller's without any."""
    env = {name: value for name, value in (os.environ if variables is None else {"PATH": os.defpath, **variables}).items() if name not in SECRET}
    if transport.endpoint is not None:
        env["CLOCHE_URL"] = str(transport.endpoint)
    authorization = dict(transport._headers).get("Authorization", "")
    if authorization:
        env["CLOCHE_API_KEY"] = authorization.partition(" ")[2]
    return env


def _up_words(file: Optional[str], name: str, fields: Mapping[str, Any]) -> List[str]:
    words = ["up", "--json", "-p", name]
    if file is not None:
        words += ["-f", os.fspath(file)]
    if fields.get("directory") is not None:
        words += ["--project-directory", os.fspath(fields["directory"])]
    for option in ("within", "network", "engine", "min_grade", "templates"):
        if fields.get(option) is not None:
            words += [f"--{option.replace('_', '-')}", str(fields[option])]
    for option in ("timeout", "wait"):
        if fields.get(option) is not None:
            words += [f"--{option}", f"{round(fields[option] * 1000)}ms"]
    for option in ("allow", "profile"):
        for value in fields.get(f"{option}s" if option == "profile" else option) or ():
            words += [f"--{option}", value]
    return words + (["--one-network"] if fields.get("one_network") else [])


FIELDS = ("directory", "within", "network", "engine", "min_grade", "templates", "timeout", "wait", "allow", "profiles", "one_network")


def _check(fields: Mapping[str, Any]) -> None:
    for name in fields:
        if name not in FIELDS:
            raise TypeError(f"up() has no option {name!r}; there are {', '.join(FIELDS)}")


def _failure(said: str) -> errors.ClocheError:
    """What the program said on stderr: "cloche: MESSAGE", and a hint that is further to the right."""
    lines = said.strip().splitlines()
    at = next((i for i in reversed(range(len(lines))) if lines[i].startswith("cloche: ")), None)
    if at is None:
        return errors.ClocheError(said.strip() or "cloche compose failed")
    hint = " ".join(line.strip() for line in lines[at + 1 :])
    return errors.ClocheError(lines[at][len("cloche: ") :], hint=hint or None)


def _told(line: Union[str, bytes], on_progress: Optional[OnProgress]) -> None:
    if on_progress is not None and line.strip():
        on_progress(json.loads(line))


class Project:
    """A running project: a mapping from service names to sandboxes. At the end of a `with` block it is removed with everything in it."""

    def __init__(self, client: Client, name: str, sandboxes: Dict[str, Sandbox]) -> None:
        self.client, self.name, self._sandboxes = client, name, sandboxes

    def __getitem__(self, service: str) -> Sandbox:
        return self._sandboxes[service]

    def __iter__(self) -> Iterator[str]:
        return iter(self._sandboxes)

    def __len__(self) -> int:
        return len(self._sandboxes)

    def __enter__(self) -> "Project":
        return self

    def __exit__(self, *exc: Any) -> None:
        self.down()

    def logs(self, service: Optional[str] = None) -> str:
        """The output of the services' commands so far, each line after the name of its service."""
        return _run(self.client, ["logs", "-p", self.name, *([service] if service else [])])

    def down(self) -> None:
        """Removes its sandboxes, the templates that were built for it, and its volumes."""
        down(self.name, client=self.client)


def _run(client: Client, words: Sequence[str]) -> str:
    done = subprocess.run([_program(), "compose", *words], env=_environment(client._transport, None), capture_output=True, text=True)
    if done.returncode != 0:
        raise _failure(done.stderr)
    return done.stdout


def _services(sandboxes: Sequence[Any], name: str) -> Dict[str, Any]:
    mine = [s for s in reversed(list(sandboxes)) if s.info.tags.get("compose") == name]
    return {s.info.tags["compose_service"]: s for s in mine}


def up(
    file: Optional[str] = None,
    project: Optional[str] = None,
    *,
    client: Optional[Client] = None,
    variables: Optional[Mapping[str, str]] = None,
    on_progress: Optional[OnProgress] = None,
    **fields: Any,
) -> Project:
    """Starts the services of a Compose file. Returns when all have started and those with a health check are healthy.

    Without `project` the project gets a new name, so the same file can run several times side by side. `variables` replace the
    environment variables of this process that the file may use. `fields`: `network` and `allow` say what each service may reach
    outside (default: nothing); `timeout` and `wait` are in seconds; paths in the file begin in `directory` (default: that of the
    file); for `within`, `engine`, `min_grade`, `templates`, `profiles` and `one_network` see `cloche compose up --help`. If anything fails, the project is removed and ClocheError is raised.
    """
    _check(fields)
    client = client or Client()
    client.health()  # finds the daemon, or starts it
    name = project or f"compose-{uuid.uuid4().hex[:16]}"
    words = [_program(), "compose", *_up_words(file, name, fields)]
    said = tempfile.TemporaryFile("w+")  # a pipe would fill while stdout is read
    running = subprocess.Popen(words, env=_environment(client._transport, variables), stdout=subprocess.PIPE, stderr=said, text=True)
    try:
        assert running.stdout is not None
        for line in running.stdout:
            _told(line, on_progress)
        if running.wait() != 0:
            said.seek(0)
            raise _failure(said.read())
        return Project(client, name, _services(list(client.list(group=name)), name))
    except BaseException:
        running.kill()
        running.wait()
        down(name, client=client)
        raise
    finally:
        said.close()


def down(project: str, *, client: Optional[Client] = None) -> None:
    """Removes a project with everything in it, also one that has started only in part."""
    client = client or Client()
    client.health()
    _run(client, ["down", "-p", project])


class AsyncProject:
    """Project for asyncio: `async with await compose.up_async(...)`."""

    def __init__(self, client: AsyncClient, name: str, sandboxes: Dict[str, AsyncSandbox]) -> None:
        self.client, self.name, self._sandboxes = client, name, sandboxes

    def __getitem__(self, service: str) -> AsyncSandbox:
        return self._sandboxes[service]

    def __iter__(self) -> Iterator[str]:
        return iter(self._sandboxes)

    def __len__(self) -> int:
        return len(self._sandboxes)

    async def __aenter__(self) -> "AsyncProject":
        return self

    async def __aexit__(self, *exc: Any) -> None:
        await self.down()

    async def logs(self, service: Optional[str] = None) -> str:
        """Like Project.logs()."""
        return await _run_async(self.client, ["logs", "-p", self.name, *([service] if service else [])])

    async def down(self) -> None:
        """Like Project.down()."""
        await down_async(self.name, client=self.client)


async def _wait(running: "asyncio.subprocess.Process", on_progress: Optional[OnProgress] = None) -> Tuple[str, str]:
    async def read() -> str:
        kept = []
        assert running.stdout is not None
        async for line in running.stdout:
            _told(line, on_progress)
            kept.append(line.decode("utf-8", "replace"))
        return "".join(kept)

    assert running.stderr is not None
    out, err = await asyncio.gather(read(), running.stderr.read())
    await running.wait()
    return out, err.decode("utf-8", "replace")


async def _start(client: AsyncClient, words: Sequence[str], variables: Optional[Mapping[str, str]]) -> "asyncio.subprocess.Process":
    pipe = asyncio.subprocess.PIPE
    env = _environment(client._transport, variables)
    return await asyncio.create_subprocess_exec(_program(), "compose", *words, env=env, stdout=pipe, stderr=pipe, limit=1 << 22)


async def _run_async(client: AsyncClient, words: Sequence[str]) -> str:
    running = await _start(client, words, None)
    out, err = await _wait(running)
    if running.returncode != 0:
        raise _failure(err)
    return out


async def up_async(
    file: Optional[str] = None,
    project: Optional[str] = None,
    *,
    client: Optional[AsyncClient] = None,
    variables: Optional[Mapping[str, str]] = None,
    on_progress: Optional[OnProgress] = None,
    **fields: Any,
) -> AsyncProject:
    """Like up(), for asyncio."""
    _check(fields)
    client = client or AsyncClient()
    await client.health()
    name = project or f"compose-{uuid.uuid4().hex[:16]}"
    running = await _start(client, _up_words(file, name, fields), variables)
    try:
        _, err = await _wait(running, on_progress)
        if running.returncode != 0:
            raise _failure(err)
        return AsyncProject(client, name, _services([s async for s in client.list(group=name)], name))
    except BaseException:
        if running.returncode is None:
            running.kill()
            await asyncio.shield(running.wait())
        await asyncio.shield(down_async(name, client=client))
        raise


async def down_async(project: str, *, client: Optional[AsyncClient] = None) -> None:
    """Like down(), for asyncio."""
    client = client or AsyncClient()
    await client.health()
    await _run_async(client, ["down", "-p", project])
