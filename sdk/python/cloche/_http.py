# SPDX-License-Identifier: Apache-2.0
"""HTTP/1.1 without I/O: the bytes of a request, and a decoder that is fed the bytes of its reply.

        head --> length(n) ------------------------------> over
          |----> chunk size --> chunk(n) --> its CRLF --.    ^
          |           ^-----------------------------------'    |
          |           `--> trailers ---------------------------|
          `----> until the connection ends --------------------'

No more of a reply is held than one piece that was fed, a head, or a line of it; both have a cap.
"""

from __future__ import annotations

from typing import Dict, List, Mapping, Optional

from ._protocol import Endpoint, Request

HEAD_MAX = 64 * 1024
LINE_MAX = 4 * 1024


class BrokenReply(Exception):
    """What came is no reply."""


def request_head(req: Request, endpoint: Endpoint, headers: Mapping[str, str]) -> bytes:
    """All of a request but its body. A body that is no bytes is sent in chunks."""
    host = "localhost" if endpoint.scheme == "unix" else str(endpoint).partition("://")[2]
    fields: Dict[str, str] = {"Host": host, **req.headers, **headers}
    if isinstance(req.body, bytes):
        fields["Content-Length"] = str(len(req.body))
    elif req.body is not None:
        fields["Transfer-Encoding"] = "chunked"
    elif req.method in ("POST", "PUT", "PATCH"):
        fields["Content-Length"] = "0"
    lines = [f"{req.method} {req.target} HTTP/1.1", *(f"{name}: {value}" for name, value in fields.items())]
    if any(c in line for line in lines for c in "\r\n\0"):
        raise ValueError("a header of the request has a line break in it")
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


LAST_CHUNK = b"0\r\n\r\n"


class ReplyDecoder:
    """`status` is 0 until the head is there; `is_over` once nothing more belongs to the reply."""

    def __init__(self, method: str) -> None:
        self.status = 0
        self.headers: Dict[str, str] = {}
        self.is_over = False
        self._method = method
        self._state = self._head
        self._left = 0
        self._buffer = bytearray()
        self._is_kept = False

    @property
    def keeps_connection(self) -> bool:
        """The connection may carry another request."""
        return self.is_over and self._is_kept and not self._buffer

    def feed(self, data: bytes) -> bytes:
        """The body's bytes in it; none of them while the head is not whole. b"" is the connection's end."""
        if not data:
            return self._end()
        self._buffer += data
        found: List[bytes] = []
        while not self.is_over:
            piece = self._state()
            if piece is None:
                break
            found.append(piece)
        return b"".join(found)

    def _end(self) -> bytes:
        if self._state == self._until_end:
            self.is_over = True
        if not self.is_over:
            raise BrokenReply("the connection ended before the reply did")
        return b""

    # Each state takes what it can from the buffer: body bytes, b"" for progress without any, None for "not enough yet".

    def _head(self) -> Optional[bytes]:
        end = self._buffer.find(b"\r\n\r\n")
        if end < 0:
            if len(self._buffer) > HEAD_MAX:
                raise BrokenReply("the reply's head is too long")
            return None
        lines = self._take(end + 4)[:-4].decode("latin-1").split("\r\n")
        version, _, rest = lines[0].partition(" ")
        if version not in ("HTTP/1.1", "HTTP/1.0") or not rest[:3].isdigit():
            raise BrokenReply("this is not HTTP")
        status = int(rest[:3])
        if 100 <= status < 200:
            return b""
        fields = (line.partition(":") for line in lines[1:])
        self.headers = {name.strip().lower(): value.strip() for name, _, value in fields}
        self._choose(status, version)
        self.status = status
        return b""

    def _choose(self, status: int, version: str) -> None:
        self._is_kept = version == "HTTP/1.1" and self.headers.get("connection", "").lower() != "close"
        length = self.headers.get("content-length")
        if self._method == "HEAD" or status in (204, 304):
            self.is_over = True
        elif self.headers.get("transfer-encoding", "").lower() == "chunked":
            self._state = self._chunk_size
        elif length is not None:
            if not (length.isascii() and length.isdigit()):
                raise BrokenReply("the reply has no proper length")
            self._left = int(length)
            self._state = self._length
            self.is_over = self._left == 0
        else:
            self._is_kept = False
            self._state = self._until_end

    def _length(self) -> Optional[bytes]:
        piece = self._take(self._left)
        self._left -= len(piece)
        self.is_over = self._left == 0
        return piece or None

    def _until_end(self) -> Optional[bytes]:
        return self._take(len(self._buffer)) or None

    def _chunk_size(self) -> Optional[bytes]:
        line = self._line()
        if line is None:
            return None
        size = line.partition(b";")[0].strip()
        if not 0 < len(size) < 16 or size.strip(b"0123456789abcdefABCDEF"):
            raise BrokenReply("a chunk has no proper length")
        self._left = int(size, 16)
        self._state = self._chunk if self._left else self._trailers
        return b""

    def _chunk(self) -> Optional[bytes]:
        piece = self._take(self._left)
        self._left -= len(piece)
        if self._left == 0:
            self._state = self._chunk_end
        return piece or None

    def _chunk_end(self) -> Optional[bytes]:
        line = self._line()
        if line:
            raise BrokenReply("a chunk is longer than it says")
        if line is not None:
            self._state = self._chunk_size
        return line

    def _trailers(self) -> Optional[bytes]:
        line = self._line()
        self.is_over = line == b""
        return None if line is None else b""

    def _line(self) -> Optional[bytes]:
        end = self._buffer.find(b"\r\n")
        if end >= 0:
            return self._take(end + 2)[:-2]
        if len(self._buffer) > LINE_MAX:
            raise BrokenReply("a line of the reply is too long")
        return None

    def _take(self, size: int) -> bytes:
        piece = bytes(self._buffer[:size])
        del self._buffer[:size]
        return piece
