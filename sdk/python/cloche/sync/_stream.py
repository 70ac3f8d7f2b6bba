# SPDX-License-Identifier: Apache-2.0
# Made by tools/make-sync from aio/_stream.py; change that one.
"""What comes piece by piece from one reply."""

from __future__ import annotations

from collections import deque
from typing import Any, Callable, Deque, Generic, Iterable, List, Optional, TypeVar

from .._protocol import Event, Json, LineDecoder
from ._transport import Reply

T = TypeVar("T")


class Stream(Generic[T]):
    """An iterator over what a reply brings. Close it early to tell the daemon that you read no further."""

    def __init__(self, opener: Callable[[], Reply], decode: Callable[[bytes], Iterable[T]]) -> None:
        self._opener = opener
        self._decode = decode
        self._reply: Optional[Reply] = None
        self._pending: Deque[T] = deque()
        self.open()

    def open(self) -> "Stream[T]":
        """Sends the request, if that has not happened yet. Reading the first item does it, too."""
        if self._reply is None:
            self._reply = self._opener()
        return self

    def __iter__(self) -> "Stream[T]":
        return self

    def __next__(self) -> T:
        self.open()
        while not self._pending:
            assert self._reply is not None
            data = self._reply.read_some()
            if not data:
                raise StopIteration
            self._pending.extend(self._decode(data))
        return self._pending.popleft()

    def close(self) -> None:
        if self._reply is not None:
            self._reply.close()

    def __enter__(self) -> "Stream[T]":
        return self.open()

    def __exit__(self, *exc: Any) -> None:
        self.close()


def bytes_of(opener: Callable[[], Reply]) -> Stream[bytes]:
    return Stream(opener, lambda data: [data])


def lines_of(opener: Callable[[], Reply]) -> Stream[Json]:
    return Stream(opener, LineDecoder().feed)


def events_of(opener: Callable[[], Reply]) -> Stream[Event]:
    decoder = LineDecoder()

    def decode(data: bytes) -> List[Event]:
        return [Event.from_json(j) for j in decoder.feed(data)]

    return Stream(opener, decode)
