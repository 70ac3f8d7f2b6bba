# SPDX-License-Identifier: Apache-2.0
"""One connection, by asyncio, and the few other things that the two faces do differently. Its twin is sync/_wire.py.

The connection is a socket of its own and not one of asyncio's streams: those drop what has come when a write fails, and a daemon
that refuses an upload answers first and closes then. TLS is done in memory, between the socket and the user.
"""

from __future__ import annotations

import asyncio
import inspect
import select
import socket
import ssl
from typing import Any, AsyncIterable, AsyncIterator, Awaitable, BinaryIO, Callable, Iterable, Optional, Tuple, TypeVar, Union

from .. import _private
from .._protocol import CHUNK, FOREVER, Endpoint

Source = Union[bytes, str, BinaryIO, Iterable[bytes], AsyncIterable[bytes]]
T = TypeVar("T")


async def _within(timeout: float, work: Awaitable[T]) -> T:
    return await asyncio.wait_for(work, None if timeout == FOREVER else timeout)


class Tls:
    """Both ends of a TLS session as bytes in memory."""

    def __init__(self, context: ssl.SSLContext, host: str) -> None:
        self.incoming, self.outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.session = context.wrap_bio(self.incoming, self.outgoing, server_hostname=host)

    def read(self) -> bytes:
        try:
            return self.session.read(CHUNK)
        except ssl.SSLZeroReturnError:
            return b""


class Wire:
    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._tls: Optional[Tls] = None

    @classmethod
    async def connect(cls, endpoint: Endpoint, tls: Optional[ssl.SSLContext], timeout: float) -> "Wire":
        return await _within(timeout, cls._connect(endpoint, tls))

    @classmethod
    async def _connect(cls, endpoint: Endpoint, tls: Optional[ssl.SSLContext]) -> "Wire":
        if endpoint.scheme == "unix":
            return await cls._dial(socket.AF_UNIX, endpoint.path)
        loop = asyncio.get_running_loop()
        failure: OSError = ConnectionError(f"no address is known for {endpoint.host}")
        for family, _, _, _, address in await loop.getaddrinfo(endpoint.host, endpoint.port, type=socket.SOCK_STREAM):
            try:
                wire = await cls._dial(family, address)
            except OSError as e:
                failure = e
                continue
            wire._sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return await wire._shake_hands(Tls(tls, endpoint.host)) if tls else wire
        raise failure

    @classmethod
    async def _dial(cls, family: int, address: Any) -> "Wire":
        sock = socket.socket(family, socket.SOCK_STREAM)
        try:
            sock.setblocking(False)
            await asyncio.get_running_loop().sock_connect(sock, address)
        except BaseException:
            sock.close()
            raise
        return cls(sock)

    async def _shake_hands(self, tls: Tls) -> "Wire":
        self._tls = tls
        try:
            await self._by_tls(tls, tls.session.do_handshake)
        except BaseException:
            self.close()
            raise
        return self

    async def _by_tls(self, tls: Tls, step: Callable[[], T]) -> T:
        """Does a step of the session, and moves the bytes that it wants moved."""
        loop = asyncio.get_running_loop()
        while True:
            try:
                result = step()
            except ssl.SSLWantReadError:
                await loop.sock_sendall(self._sock, tls.outgoing.read())
                data = await loop.sock_recv(self._sock, CHUNK)
                if data:
                    tls.incoming.write(data)
                else:
                    tls.incoming.write_eof()
                continue
            await loop.sock_sendall(self._sock, tls.outgoing.read())
            return result

    async def send(self, data: bytes, timeout: float) -> None:
        """BrokenPipeError where the daemon hears no more; it may have answered before."""
        tls = self._tls
        try:
            if tls is None:
                await _within(timeout, asyncio.get_running_loop().sock_sendall(self._sock, data))
            else:
                await _within(timeout, self._by_tls(tls, lambda: tls.session.write(data)))
        except ConnectionResetError as e:
            raise BrokenPipeError(str(e)) from e

    async def receive(self, timeout: float) -> bytes:
        """What has come, b"" at the end."""
        if self._tls is None:
            return await _within(timeout, asyncio.get_running_loop().sock_recv(self._sock, CHUNK))
        return await _within(timeout, self._by_tls(self._tls, self._tls.read))

    def is_stale(self) -> bool:
        """An idle connection has nothing to say: bytes or an end mean that it is over."""
        poll = select.poll()
        poll.register(self._sock, select.POLLIN)
        return bool(poll.poll(0))

    def close(self) -> None:
        self._sock.close()


async def pieces_of(body: Any) -> AsyncIterator[bytes]:
    if hasattr(body, "__aiter__"):
        async for piece in body:
            yield piece
    else:
        for piece in body:
            yield piece


async def settle(value: Any) -> Any:
    """What a callback of the user's returned: that may be awaitable."""
    return await value if inspect.isawaitable(value) else value


async def pause(seconds: float) -> None:
    await asyncio.sleep(seconds)


async def locate() -> Tuple[Endpoint, Optional[str]]:
    """A daemon may have to be started for it, which takes a moment."""
    return await asyncio.get_running_loop().run_in_executor(None, _private.locate)
