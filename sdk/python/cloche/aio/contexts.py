# SPDX-License-Identifier: Apache-2.0
"""The named interpreters of a sandbox."""

from __future__ import annotations

from typing import List, Mapping, Optional

from ..code import ContextInfo
from ._part import AsyncPart


class AsyncContexts:
    def __init__(self, sandbox: AsyncPart) -> None:
        self._sandbox = sandbox

    async def create(
        self,
        name: Optional[str] = None,
        *,
        language: Optional[str] = None,
        cwd: Optional[str] = None,
        env: Optional[Mapping[str, str]] = None,
        user: Optional[str] = None,
    ) -> ContextInfo:
        """Creates an interpreter with its own state, for run_code(context=…). A sandbox can have 16."""
        body = {"name": name, "language": language, "cwd": cwd, "env": env, "user": user}
        return ContextInfo.from_json(await self._sandbox._call("POST", ["contexts"], body=body))

    async def list(self) -> List[ContextInfo]:
        """Lists all contexts, oldest first."""
        return [ContextInfo.from_json(j) for j in (await self._sandbox._call("GET", ["contexts"]))["contexts"]]

    async def _one(self, method: str, context: str, *word: str) -> ContextInfo:
        return ContextInfo.from_json(await self._sandbox._call(method, ["contexts", context, *word]))

    async def get(self, context: str) -> ContextInfo:
        """Gets one by its id or name."""
        return await self._one("GET", context)

    async def remove(self, context: str) -> ContextInfo:
        """Removes the context: ends its interpreter and all that it started."""
        return await self._one("DELETE", context)

    async def restart(self, context: str) -> ContextInfo:
        """Gives the context a fresh interpreter. Its state is lost."""
        return await self._one("POST", context, "restart")

    async def interrupt(self, context: str) -> ContextInfo:
        """Interrupts the running call, which ends with an error, and keeps the state."""
        return await self._one("POST", context, "interrupt")
