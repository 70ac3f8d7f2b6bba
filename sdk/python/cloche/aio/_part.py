# SPDX-License-Identifier: Apache-2.0
"""What every part of a sandbox's face stands on: calls below /v1/sandboxes/ID."""

from __future__ import annotations

from typing import Any, Sequence

from .._protocol import Json, Request, request
from ._caller import AsyncCaller
from ._transport import AsyncReply


class AsyncPart:
    """A sandbox, or something of it. Whatever is asked of a sandbox that is not open yet opens it first."""

    client: AsyncCaller

    @property
    def id(self) -> str:
        raise NotImplementedError

    async def open(self) -> Any:
        raise NotImplementedError

    async def _request(self, method: str, path: Sequence[str], **parts: Any) -> Request:
        await self.open()
        return request(method, ["sandboxes", self.id, *path], **parts)

    async def _call(self, method: str, path: Sequence[str], **parts: Any) -> Json:
        return await self.client.call(await self._request(method, path, **parts))

    async def _reply(self, method: str, path: Sequence[str], **parts: Any) -> AsyncReply:
        return await self.client.open(await self._request(method, path, **parts))
