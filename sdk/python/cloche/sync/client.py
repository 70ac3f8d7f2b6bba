# SPDX-License-Identifier: Apache-2.0
# Made by tools/make-sync from aio/client.py; change that one.
"""The daemon: a connection to it, and what belongs to no single sandbox."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Iterator, Optional

from .._protocol import FOREVER, NDJSON, Command, Endpoint, ExecResult, SandboxInfo, request, run_body
from .._streams import CodeCollector, ExecCollector, OnOutput, OnResult
from ..code import CodeResult
from .account import Account
from .images import Images

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .._fields import SandboxFields
    from .sandbox import Sandbox


class Client(Account, Images):
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

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *exc: Any) -> None:
        self.close()

    def create(self, **fields: Unpack[SandboxFields]) -> "Sandbox":
        """A new sandbox; it runs when this returns."""
        from .sandbox import Sandbox

        return Sandbox.create(client=self, **fields)

    def get(self, id_or_name: str) -> "Sandbox":
        """By id or name, from anywhere."""
        from .sandbox import Sandbox

        return Sandbox._of(self, SandboxInfo.from_json(self.call(request("GET", ["sandboxes", id_or_name]))))

    def list(
        self, *, tag: Optional[str] = None, state: Optional[str] = None, page_size: Optional[int] = None
    ) -> Iterator["Sandbox"]:
        """All that match, newest first; pages are fetched as they are needed. `tag` is NAME:VALUE."""
        from .sandbox import Sandbox

        query = {"tag": tag, "state": state, "limit": page_size}
        for one in self.pages(["sandboxes"], "sandboxes", query):
            yield Sandbox._of(self, SandboxInfo.from_json(one))

    def run(
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
            return self.run_code(code, on_stdout=on_stdout, on_stderr=on_stderr, **fields)
        body = run_body(command, None, fields)
        if on_stdout or on_stderr:
            req = request("POST", ["run"], body=body, accept=NDJSON, timeout=FOREVER)
            return (self.collect(req, ExecCollector(on_stdout, on_stderr))).result()
        return ExecResult.from_json(self.call(request("POST", ["run"], body=body, timeout=FOREVER)))

    def run_code(
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
            return (self.collect(req, CodeCollector(on_stdout, on_stderr, on_result))).result()
        return CodeResult.from_json(self.call(request("POST", ["run"], body=body, timeout=FOREVER)))
