# SPDX-License-Identifier: Apache-2.0
"""What comes piece by piece from one reply."""

from __future__ import annotations

from collections import deque
from typing import Any, Awaitable, Callable, Deque, Generic, Iterable, List, Optional, TypeVar

from .._protocol import Event, Json, LineDecoder
from ._transport import AsyncReply

T = TypeVar("T")


class AsyncStream(Generic[T]):
    """An iterator over what a reply brings. Close it early to tell the daemon that you read no further."""

    def __init__(self, opener: Callable[[], Awaitable[AsyncReply]], decode: Callable[[bytes], Iterable[T]]) -> None:
        self._opener = opener
        self._decode = decode
        self._reply: Optional[AsyncReply] = None
        self._pending: Deque[T] = deque()
        # sync: self.open()

    async def open(self) -> "AsyncStream[T]":
        """Sends the request, if that has not happened yet. Reading the first item does it, too."""
        if self._reply is None:
            self._reply = await self._opener()
        return self

    def __aiter__(self) -> "AsyncStream[T]":
        return self

    async def __anext__(self) -> T:
        await self.open()
        while not self._pending:
            assert self._reply is not None
            data = await self._reply.read_some()
            if not data:
                raise StopAsyncIteration
            self._pending.extend(self._decode(data))
        return self._pending.popleft()

    def close(self) -> None:
        if self._reply is not None:
            self._reply.close()

    async def __aenter__(self) -> "AsyncStream[T]":
        return await self.open()

    async def __aexit__(self, *exc: Any) -> None:
        self.close()


def bytes_of(opener: Callable[[], Awaitable[AsyncReply]]) -> AsyncStream[bytes]:
    return AsyncStream(opener, lambda data: [data])


def lines_of(opener: Callable[[], Awaitable[AsyncReply]]) -> AsyncStream[Json]:
    return AsyncStream(opener, LineDecoder().feed)


def events_of(opener: Callable[[], Awaitable[AsyncReply]]) -> AsyncStream[Event]:
    decoder = LineDecoder()

    def decode(data: bytes) -> List[Event]:
        return [Event.from_json(j) for j in decoder.feed(data)]

    return AsyncStream(opener, decode)
