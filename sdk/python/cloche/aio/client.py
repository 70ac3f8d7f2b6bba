# SPDX-License-Identifier: Apache-2.0
"""The daemon: a connection to it, and what belongs to no single sandbox."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, AsyncIterator, Optional

from .._protocol import FOREVER, NDJSON, Command, Endpoint, ExecResult, SandboxInfo, request, run_body
from .._streams import CodeCollector, ExecCollector, OnOutput, OnResult
from ..code import CodeResult
from .account import AsyncAccount
from .images import AsyncImages

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .._fields import SandboxFields
    from .sandbox import AsyncSandbox


class AsyncClient(AsyncAccount, AsyncImages):
    """`url` is http://HOST:PORT, https://HOST:PORT or unix:/PATH; without it CLOCHE_URL, then the local socket, then a private
    daemon where a `cloche` program is at hand. `api_key` defaults to CLOCHE_API_KEY. `timeout` is how long the daemon may be
    silent where no work of a sandbox's is waited for. `traceparent` (W3C) goes with every request.
    """

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

    async def __aenter__(self) -> "AsyncClient":
        return self

    async def __aexit__(self, *exc: Any) -> None:
        self.close()

    async def create(self, **fields: Unpack[SandboxFields]) -> "AsyncSandbox":
        """A new sandbox; it runs when this returns."""
        from .sandbox import AsyncSandbox

        return await AsyncSandbox.create(client=self, **fields)

    async def get(self, id_or_name: str) -> "AsyncSandbox":
        """By id or name, from anywhere."""
        from .sandbox import AsyncSandbox

        return AsyncSandbox._of(self, SandboxInfo.from_json(await self.call(request("GET", ["sandboxes", id_or_name]))))

    async def list(
        self, *, tag: Optional[str] = None, state: Optional[str] = None, page_size: Optional[int] = None
    ) -> AsyncIterator["AsyncSandbox"]:
        """All that match, newest first; pages are fetched as they are needed. `tag` is NAME:VALUE."""
        from .sandbox import AsyncSandbox

        query = {"tag": tag, "state": state, "limit": page_size}
        async for one in self.pages(["sandboxes"], "sandboxes", query):
            yield AsyncSandbox._of(self, SandboxInfo.from_json(one))

    async def run(
        self,
        command: Optional[Command] = None,
        *,
        code: Optional[str] = None,
        on_stdout: Optional[OnOutput] = None,
        on_stderr: Optional[OnOutput] = None,
        **fields: Any,
    ) -> Any:
        """One call, a fresh sandbox, gone after: a command (line or argv) gives an ExecResult; `code` is as run_code() has it.

        `fields` are `language`, `timeout` in seconds, and others as they are on the wire: files, env, stdin, limits, template,
        packages, …
        """
        if code is not None:
            return await self.run_code(code, on_stdout=on_stdout, on_stderr=on_stderr, **fields)
        body = run_body(command, None, fields)
        if on_stdout or on_stderr:
            req = request("POST", ["run"], body=body, accept=NDJSON, timeout=FOREVER)
            return (await self.collect(req, ExecCollector(on_stdout, on_stderr))).result()
        return ExecResult.from_json(await self.call(request("POST", ["run"], body=body, timeout=FOREVER)))

    async def run_code(
        self,
        code: str,
        language: Optional[str] = None,
        *,
        on_stdout: Optional[OnOutput] = None,
        on_stderr: Optional[OnOutput] = None,
        on_result: Optional[OnResult] = None,
        **fields: Any,
    ) -> CodeResult:
        """The same for code."""
        body = run_body(None, code, {"language": language, **fields})
        if on_stdout or on_stderr or on_result:
            req = request("POST", ["run"], body=body, accept=NDJSON, timeout=FOREVER)
            return (await self.collect(req, CodeCollector(on_stdout, on_stderr, on_result))).result()
        return CodeResult.from_json(await self.call(request("POST", ["run"], body=body, timeout=FOREVER)))
