# SPDX-License-Identifier: Apache-2.0
"""Commands and code: AsyncRuns is that side of a sandbox, AsyncExec one command that goes on by itself."""

from __future__ import annotations

import time
from typing import Any, AsyncIterator, List, Mapping, Optional, Union

from .. import errors
from .._protocol import (
    FOREVER,
    NDJSON,
    Command,
    Event,
    ExecInfo,
    ExecResult,
    Json,
    code_body,
    exec_body,
    milliseconds,
    request,
    stream_of,
)
from .._streams import CodeCollector, ExecCollector, OnOutput, OnResult
from ..code import CodeEvent, CodeEvents, CodeResult
from ._part import AsyncPart
from ._stream import AsyncStream, events_of
from ._wire import Source


class AsyncRuns(AsyncPart):
    async def run(
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
        text: bool = True,
        kill_on_disconnect: bool = False,
    ) -> ExecResult:
        """Runs a command and waits for its end. A str is a command line for /bin/sh, a sequence is a program with its arguments.

        `timeout` is in seconds. The callbacks get output while the command runs, as text, or as bytes with `text=False`. The result
        has the output too, up to 16 MiB of each stream.
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
            req = await self._request("POST", ["execs"], body=body, accept=NDJSON, timeout=FOREVER)
            return (await self.client.collect(req, ExecCollector(on_stdout, on_stderr, text))).result()
        return ExecResult.from_json(await self._call("POST", ["execs"], body=body, timeout=FOREVER))

    async def start(
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
    ) -> "AsyncExec":
        """Starts a command and returns at once. The command runs on, even if this program ends. `open_stdin` keeps its stdin open
        for write_stdin()."""
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
        made = await self._call("POST", ["execs"], body=body, timeout=FOREVER)
        return AsyncExec(self, ExecInfo.from_json(made["exec"]))

    def stream(self, command: Command, **fields: Any) -> AsyncStream[Event]:
        """Starts a command and yields its events as they come. The fields are those of run()."""
        body = exec_body(command, **fields)
        return events_of(lambda: self._reply("POST", ["execs"], body=body, accept=NDJSON, timeout=FOREVER))

    async def execs(self) -> List["AsyncExec"]:
        """Lists the commands that run in it, and those that have ended and are kept."""
        return [AsyncExec(self, ExecInfo.from_json(e)) for e in (await self._call("GET", ["execs"]))["execs"]]

    async def exec(self, exec_id: str) -> "AsyncExec":
        """Gets a command by its id, also one that another program started."""
        return AsyncExec(self, ExecInfo.from_json(await self._call("GET", ["execs", exec_id])))

    async def run_code(
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
        on_result: Optional[OnResult] = None,
        text: bool = True,
        kill_on_disconnect: bool = False,
    ) -> CodeResult:
        """Runs code in an interpreter that keeps its state from call to call. The language is Python, unless you name another.

        Code that fails raises nothing: see `error` of the result, and check(). `context` is the id or name of a context; without it
        the language's default context is used. `timeout` is in seconds; the code is then interrupted. The callbacks get output
        while the code runs, as text, or as bytes with `text=False`. The result has the output too, up to 16 MiB of each stream.
        """
        body = code_body(code, language, context, timeout, on_busy, cwd, env, kill_on_disconnect)
        if on_stdout or on_stderr or on_result:
            req = await self._request("POST", ["code"], body=body, accept=NDJSON, timeout=FOREVER)
            return (await self.client.collect(req, CodeCollector(on_stdout, on_stderr, on_result, text))).result()
        return CodeResult.from_json(await self._call("POST", ["code"], body=body, timeout=FOREVER))

    async def run_code_stream(self, code: str, language: Optional[str] = None, **fields: Any) -> AsyncIterator[CodeEvent]:
        """Like run_code(), but yields the events as they come. Leaving the loop does not stop the code, unless `kill_on_disconnect`
        is set."""
        maker = CodeEvents()
        body = code_body(code, language, **fields)
        async with events_of(lambda: self._reply("POST", ["code"], body=body, accept=NDJSON, timeout=FOREVER)) as events:
            async for event in events:
                for made in maker.feed(event, int(time.time() * 1000)):
                    yield made


class AsyncExec:
    """A command that runs, or ran, in a sandbox. It outlives the client that started it."""

    def __init__(self, sandbox: AsyncPart, info: ExecInfo) -> None:
        self.sandbox = sandbox
        self.info = info
        self._client = sandbox.client
        self._parts = ["sandboxes", sandbox.id, "execs", info.id]

    @property
    def id(self) -> str:
        return self.info.id

    async def _post(self, verb: str, body: Json) -> None:
        await self._client.call(request("POST", [*self._parts, verb], body=body))

    async def refresh(self) -> ExecInfo:
        """Asks the daemon for the current state, and updates `info`."""
        self.info = ExecInfo.from_json(await self._client.call(request("GET", self._parts)))
        return self.info

    def output(self, after: int = 0, follow: bool = True) -> AsyncIterator[Event]:
        """Its output events with a sequence number above `after`. With `follow` it goes on until the command has ended.

        If the connection breaks, it reconnects and goes on: no event is lost or comes twice.
        """
        return self._client.follow([*self._parts, "output"], {"follow": follow}, after)

    async def wait(self, timeout: Optional[float] = None) -> ExecInfo:
        """Waits until the command has ended, or until the timeout is over. Returns its current state."""
        deadline = None if timeout is None else time.monotonic() + timeout
        while True:
            left = 30.0 if deadline is None else max(0.0, min(30.0, deadline - time.monotonic()))
            query = {"timeout_ms": milliseconds(left)}
            req = request("GET", [*self._parts, "wait"], query=query, timeout=left + 60.0)
            self.info = ExecInfo.from_json(await self._client.call(req))
            if self.info.is_over or (deadline is not None and time.monotonic() >= deadline):
                return self.info

    async def write_stdin(self, data: Source, *, eof: bool = False) -> None:
        """Writes bytes to its stdin. Returns when the sandbox has taken them, so this waits while the program does not read."""
        body, path = stream_of(data), [*self._parts, "stdin"]
        await self._client.call(request("POST", path, query={"eof": eof}, stream=body, timeout=FOREVER))

    async def close_stdin(self) -> None:
        """Closes its stdin."""
        await self.write_stdin(b"", eof=True)

    async def signal(self, signal: Union[str, int], *, tree: bool = False) -> None:
        """Sends a signal to its process group, or with `tree` to all processes that it has started."""
        await self._post("signal", {"signal": signal, "tree": tree or None})

    async def kill(self) -> ExecInfo:
        """Kills it and all processes that it has started, and waits for the end."""
        try:
            await self.signal("KILL", tree=True)
        except errors.Gone:
            pass
        return await self.wait()

    async def resize(self, rows: int, cols: int) -> None:
        """Resizes its terminal, if it has one (`pty`)."""
        await self._post("resize", {"rows": rows, "cols": cols})

    async def delete(self) -> None:
        """Kills the command if it still runs, and removes its record and output."""
        await self._client.call(request("DELETE", self._parts))

    def __repr__(self) -> str:
        return f"<Exec {self.id} {self.info.state}>"
