# SPDX-License-Identifier: Apache-2.0
# Made by tools/make-sync from aio/_part.py; change that one.
"""What every part of a sandbox's face stands on: calls below /v1/sandboxes/ID."""

from __future__ import annotations

from typing import Any, Sequence

from .._protocol import Json, Request, request
from ._caller import Caller
from ._transport import Reply


class Part:
    """A sandbox, or something of it. Whatever is asked of a sandbox that is not open yet opens it first."""

    client: Caller

    @property
    def id(self) -> str:
        raise NotImplementedError

    def open(self) -> Any:
        raise NotImplementedError

    def _request(self, method: str, path: Sequence[str], **parts: Any) -> Request:
        self.open()
        return request(method, ["sandboxes", self.id, *path], **parts)

    def _call(self, method: str, path: Sequence[str], **parts: Any) -> Json:
        return self.client.call(self._request(method, path, **parts))

    def _reply(self, method: str, path: Sequence[str], **parts: Any) -> Reply:
        return self.client.open(self._request(method, path, **parts))
