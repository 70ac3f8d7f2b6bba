# SPDX-License-Identifier: Apache-2.0
# Made by tools/make-sync from aio/_transport.py; change that one.
"""Requests to the daemon and their replies, over connections that are kept for the next.

A connection carries one request at a time. A kept one may have been closed by the daemon meanwhile, which shows when it is used:
then, and only for a request that may be sent twice, a fresh one is tried. A reply that streams owns its connection until it is
read to its end or closed.
"""

from __future__ import annotations

import socket
import ssl
from collections import deque
from typing import Any, Iterator, Deque, Dict, List, Mapping, Optional

from .. import errors
from .._http import LAST_CHUNK, BrokenReply, ReplyDecoder, chunk, request_head
from .._protocol import Endpoint, Request, error_of
from ._wire import Wire, locate, pieces_of

TLS_HINT = "if its certificate is of an authority of your own, name that one's file in SSL_CERT_FILE; if it has no TLS, write http://"

IDLE_MAX = 16
TIMEOUTS = (socket.timeout,)


class Reply:
    """A reply whose body has not been read yet."""

    def __init__(self, transport: "Transport", wire: Wire, decoder: ReplyDecoder, first: bytes, timeout: float) -> None:
        self._transport = transport
        self._wire: Optional[Wire] = wire
        self._decoder = decoder
        self._first = first
        self._timeout = timeout
        self.status = decoder.status
        self.headers: Mapping[str, str] = decoder.headers

    def read(self) -> bytes:
        """The whole rest."""
        pieces: List[bytes] = []
        while True:
            piece = self.read_some()
            if not piece:
                return b"".join(pieces)
            pieces.append(piece)

    def read_some(self) -> bytes:
        """Bytes as they come, b"" at the end."""
        data, self._first = self._first, b""
        while not data and self._wire is not None and not self._decoder.is_over:
            try:
                data = self._decoder.feed(self._wire.receive(self._timeout))
            except TIMEOUTS as e:
                self.close()
                raise errors.TimedOut("no bytes came within the time given") from e
            except (OSError, BrokenReply) as e:
                self.close()
                raise errors.ConnectionFailed(f"the reply broke off: {e}") from e
            except BaseException:
                self.close()
                raise
        if self._decoder.is_over:
            self._release()
        return data

    def chunks(self) -> Iterator[bytes]:
        try:
            while True:
                data = self.read_some()
                if not data:
                    return
                yield data
        finally:
            self.close()

    def close(self) -> None:
        """Ends it here; what has not been read is not waited for."""
        if self._wire is not None:
            self._wire.close()
            self._wire = None

    def _release(self) -> None:
        if self._wire is not None and self._decoder.keeps_connection:
            self._transport.keep(self._wire)
            self._wire = None
        self.close()

    def __enter__(self) -> "Reply":
        return self

    def __exit__(self, *exc: Any) -> None:
        self.close()


class Transport:
    """Without an endpoint it is found, or started, at the first request."""

    def __init__(self, endpoint: Optional[Endpoint], headers: Mapping[str, str], timeout: float) -> None:
        self.endpoint = endpoint
        self.timeout = timeout
        self._headers: Dict[str, str] = dict(headers)
        self._idle: Deque[Wire] = deque()  # its append and pop are atomic
        self._tls: Optional[ssl.SSLContext] = None

    def keep(self, wire: Wire) -> None:
        if len(self._idle) < IDLE_MAX:
            self._idle.append(wire)
        else:
            wire.close()

    def close(self) -> None:
        while self._idle:
            self._idle.pop().close()

    def open(self, request: Request) -> Reply:
        """Sends it and reads the reply's head. A reply that is an error is raised."""
        wire = self._take_idle()
        if wire is not None:
            try:
                return self._exchange(wire, request)
            except errors.ConnectionFailed:
                if not request.is_repeatable:
                    raise
        return self._exchange(self._connect(), request)

    def _take_idle(self) -> Optional[Wire]:
        while True:
            try:
                wire = self._idle.pop()
            except IndexError:
                return None
            if not wire.is_stale():
                return wire
            wire.close()

    def _connect(self) -> Wire:
        if self.endpoint is None:
            self.endpoint, key = locate()
            if key is not None:
                self._headers.setdefault("Authorization", f"Bearer {key}")
        if self.endpoint.scheme == "https" and self._tls is None:
            self._tls = ssl.create_default_context()
        try:
            return Wire.connect(self.endpoint, self._tls, self.timeout)
        except TIMEOUTS as e:
            raise errors.TimedOut(f"{self.endpoint} did not answer within the time given") from e
        except ssl.SSLError as e:
            raise errors.ConnectionFailed(f"TLS with {self.endpoint} failed: {e.reason or e}", hint=TLS_HINT) from e
        except OSError as e:
            raise errors.ConnectionFailed(
                f"cannot talk to {self.endpoint}: {e}", hint="is the daemon running? CLOCHE_URL says where it is"
            ) from e

    def _exchange(self, wire: Wire, request: Request) -> Reply:
        timeout = self.timeout if request.timeout is None else request.timeout
        decoder = ReplyDecoder(request.method)
        first = b""
        try:
            self._send(wire, request, timeout)
            while not decoder.status:
                first = decoder.feed(wire.receive(timeout))
        except TIMEOUTS as e:
            wire.close()
            raise errors.TimedOut("the daemon did not answer within the time given") from e
        except (OSError, BrokenReply) as e:
            wire.close()
            raise errors.ConnectionFailed(f"cannot talk to {self.endpoint}: {e}") from e
        except BaseException:
            wire.close()
            raise
        reply = Reply(self, wire, decoder, first, timeout)
        if reply.status >= 400:
            raise error_of(reply.status, reply.read())
        return reply

    def _send(self, wire: Wire, request: Request, timeout: float) -> None:
        assert self.endpoint is not None
        head = request_head(request, self.endpoint, self._headers)
        if request.body is None or isinstance(request.body, bytes):
            head += request.body or b""
        try:
            wire.send(head, timeout)
            if request.body is not None and not isinstance(request.body, bytes):
                for piece in pieces_of(request.body):
                    if piece:
                        wire.send(chunk(piece), timeout)
                wire.send(LAST_CHUNK, timeout)
        except BrokenPipeError:
            # The daemon may refuse a body before it has all of it: its answer is then waiting.
            if request.body is None:
                raise
