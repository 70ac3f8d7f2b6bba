# SPDX-License-Identifier: Apache-2.0
"""One connection, by a socket, and the few other things that the two faces do differently. Its twin is aio/_wire.py."""

from __future__ import annotations

import select
import socket
import ssl
import time
from typing import Any, BinaryIO, Iterable, Iterator, Optional, Tuple, Union

from .. import _private
from .._protocol import CHUNK, FOREVER, Endpoint

Source = Union[bytes, str, BinaryIO, Iterable[bytes]]


class Wire:
    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock

    @classmethod
    def connect(cls, endpoint: Endpoint, tls: Optional[ssl.SSLContext], timeout: float) -> "Wire":
        seconds = None if timeout == FOREVER else timeout
        if endpoint.scheme == "unix":
            sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            try:
                sock.settimeout(seconds)
                sock.connect(endpoint.path)
            except BaseException:
                sock.close()
                raise
            return cls(sock)
        sock = socket.create_connection((endpoint.host, endpoint.port), seconds)
        try:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return cls(tls.wrap_socket(sock, server_hostname=endpoint.host) if tls else sock)
        except BaseException:
            sock.close()
            raise

    def send(self, data: bytes, timeout: float) -> None:
        """BrokenPipeError where the daemon hears no more; it may have answered before."""
        self._sock.settimeout(None if timeout == FOREVER else timeout)
        try:
            self._sock.sendall(data)
        except ConnectionResetError as e:
            raise BrokenPipeError(str(e)) from e

    def receive(self, timeout: float) -> bytes:
        """What has come, b"" at the end."""
        self._sock.settimeout(None if timeout == FOREVER else timeout)
        return self._sock.recv(CHUNK)

    def is_stale(self) -> bool:
        """An idle connection has nothing to say: bytes or an end mean that it is over."""
        poll = select.poll()
        poll.register(self._sock, select.POLLIN)
        return bool(poll.poll(0))

    def close(self) -> None:
        self._sock.close()


def pieces_of(body: Any) -> Iterator[bytes]:
    return iter(body)


def settle(value: Any) -> Any:
    """What a callback of the user's returned."""
    return value


def pause(seconds: float) -> None:
    time.sleep(seconds)


def locate() -> Tuple[Endpoint, Optional[str]]:
    """A daemon may have to be started for it, which takes a moment."""
    return _private.locate()
