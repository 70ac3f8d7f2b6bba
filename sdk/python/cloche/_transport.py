# SPDX-License-Identifier: Apache-2.0
"""Bytes to the daemon and back: HTTP/1.1 over TCP, TLS or a unix socket, by http.client.

A connection carries one request at a time; idle ones are kept for the next. A kept one may have
been closed by the daemon meanwhile, which shows when it is used: then, and only for a request that
may be sent twice, a fresh one is tried. A reply that streams owns its connection until it is read
to its end or closed.
"""

from __future__ import annotations

import http.client
import select
import socket
import ssl
import threading
from typing import Any, Iterator, List, Optional

from . import errors
from ._protocol import FOREVER, Endpoint, Request, error_of

IDLE_MAX = 16
CHUNK = 256 * 1024


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: str, timeout: Optional[float]) -> None:
        super().__init__("localhost", timeout=timeout)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


class Reply:
    """A reply whose body has not been read yet."""

    def __init__(self, transport: "Transport", conn: http.client.HTTPConnection, response: http.client.HTTPResponse):
        self._transport = transport
        self._conn: Optional[http.client.HTTPConnection] = conn
        self._response = response
        self.status = response.status
        self.headers = response.headers

    def read(self, size: Optional[int] = None) -> bytes:
        """Up to size bytes as they come, b"" at the end; without a size the whole rest."""
        try:
            data = self._response.read() if size is None else self._response.read1(size)
        except socket.timeout as e:
            self.close()
            raise errors.TimedOut("no bytes came within the time given") from e
        except (OSError, http.client.HTTPException) as e:
            self.close()
            raise errors.ConnectionFailed(f"the reply broke off: {e}") from e
        if size is None or not data:
            self._release()
        return data

    def chunks(self) -> Iterator[bytes]:
        with self:
            while True:
                data = self.read(CHUNK)
                if not data:
                    return
                yield data

    def close(self) -> None:
        """Ends it here; what has not been read is not waited for."""
        if self._conn is not None:
            self._conn.close()
            self._response.close()
            self._conn = None

    def _release(self) -> None:
        if self._conn is None:
            return
        if self._response.will_close or not self._response.isclosed():
            self.close()
        else:
            self._transport.keep(self._conn)
            self._conn = None

    def __enter__(self) -> "Reply":
        return self

    def __exit__(self, *exc: Any) -> None:
        self.close()


class Transport:
    def __init__(self, endpoint: Endpoint, api_key: Optional[str], timeout: float) -> None:
        self.endpoint = endpoint
        self.timeout = timeout
        self._api_key = api_key
        self._idle: List[http.client.HTTPConnection] = []
        self._lock = threading.Lock()
        self._tls = ssl.create_default_context() if endpoint.scheme == "https" else None

    def keep(self, conn: http.client.HTTPConnection) -> None:
        with self._lock:
            if len(self._idle) < IDLE_MAX:
                self._idle.append(conn)
                return
        conn.close()

    def close(self) -> None:
        with self._lock:
            idle, self._idle = self._idle, []
        for conn in idle:
            conn.close()

    def open(self, request: Request) -> Reply:
        """Sends it and reads the reply's head. A reply that is an error is raised."""
        conn = self._take_idle()
        if conn is not None:
            try:
                return self._exchange(conn, request)
            except errors.ConnectionFailed:
                if not request.is_repeatable:
                    raise
        return self._exchange(self._connect(), request)

    def _take_idle(self) -> Optional[http.client.HTTPConnection]:
        with self._lock:
            while self._idle:
                conn = self._idle.pop()
                if not _is_stale(conn):
                    return conn
                conn.close()
        return None

    def _connect(self) -> http.client.HTTPConnection:
        e = self.endpoint
        if e.scheme == "unix":
            return _UnixConnection(e.path, self.timeout)
        if self._tls is not None:
            return http.client.HTTPSConnection(e.host, e.port, timeout=self.timeout, context=self._tls)
        return http.client.HTTPConnection(e.host, e.port, timeout=self.timeout)

    def _exchange(self, conn: http.client.HTTPConnection, request: Request) -> Reply:
        try:
            if conn.sock is None:
                conn.connect()
            assert conn.sock is not None
            timeout = self.timeout if request.timeout is None else request.timeout
            conn.sock.settimeout(None if timeout == FOREVER else timeout)
            self._send(conn, request)
            reply = Reply(self, conn, conn.getresponse())
        except socket.timeout as e:
            conn.close()
            raise errors.TimedOut("the daemon did not answer within the time given") from e
        except (OSError, http.client.HTTPException) as e:
            conn.close()
            raise errors.ConnectionFailed(f"cannot talk to {self.endpoint}: {e}") from e
        except BaseException:
            conn.close()
            raise
        if reply.status >= 400:
            raise error_of(reply.status, reply.read())
        return reply

    def _send(self, conn: http.client.HTTPConnection, request: Request) -> None:
        headers = dict(request.headers)
        if self._api_key:
            headers["Authorization"] = f"Bearer {self._api_key}"
        body = request.body
        is_stream = body is not None and not isinstance(body, bytes)
        if is_stream:
            headers["Transfer-Encoding"] = "chunked"
        try:
            conn.request(request.method, request.target, body=body, headers=headers, encode_chunked=is_stream)
        except (BrokenPipeError, ConnectionResetError):
            # The daemon may refuse a body before it has all of it: its answer is then waiting.
            if body is None or conn.sock is None:
                raise


def _is_stale(conn: http.client.HTTPConnection) -> bool:
    """An idle connection has nothing to say: bytes or an end mean that it is over."""
    if conn.sock is None:
        return True
    poll = select.poll()
    poll.register(conn.sock, select.POLLIN)
    return bool(poll.poll(0))
