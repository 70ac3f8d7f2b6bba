# SPDX-License-Identifier: Apache-2.0
"""The cheapest client that Python can be: requests are bytes made beforehand, a reply is read by its Content-Length.
What is left of it is measured, as the floor, with GET /v1/health."""

from __future__ import annotations

import json
import socket
from typing import Any, Optional


def request(method: str, path: str, body: Any = None, key: str = "") -> bytes:
    data = b"" if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
    head = f"{method} {path} HTTP/1.1\r\nHost: localhost\r\n"
    if key:
        head += f"Authorization: Bearer {key}\r\n"
    if body is not None:
        kind = "application/octet-stream" if isinstance(body, bytes) else "application/json"
        head += f"Content-Type: {kind}\r\nContent-Length: {len(data)}\r\n"
    return head.encode() + b"\r\n" + data


CHUNKED = -1


def length_of(head: bytes) -> int:
    """Of the body; CHUNKED where the head does not tell."""
    at = head.lower().find(b"content-length:")
    return int(head[at + 15 : head.index(b"\r\n", at)]) if at >= 0 else CHUNKED


def unchunk(data: bytes) -> bytes:
    out = b""
    while data:
        size, _, data = data.partition(b"\r\n")
        n = int(size, 16)
        out, data = out + data[:n], data[n + 2 :]
    return out


class Reply:
    """A reply that comes in pieces."""

    def __init__(self) -> None:
        self.data = b""
        self.head = 0  # its length, 0 while it is not whole
        self.want = 0

    def take(self, piece: bytes) -> bool:
        """Whether it is whole."""
        self.data += piece
        if not self.head:
            end = self.data.find(b"\r\n\r\n")
            if end < 0:
                return False
            self.head, self.want = end + 4, length_of(self.data[: end + 2])
        if self.want == CHUNKED:
            return self.data.endswith(b"\r\n0\r\n\r\n")
        return len(self.data) >= self.head + self.want

    def body(self) -> Any:
        text = self.data[self.head :]
        if self.want == CHUNKED:
            text = unchunk(text)
        if int(self.data[9:12]) >= 400:
            raise SystemExit(f"bench: {self.data[9:12].decode()} {text.decode(errors='replace')}")
        return json.loads(text) if text else None


class Link:
    """One connection, kept alive."""

    def __init__(self, address: Any, key: str = "") -> None:
        self.key = key
        self.sock = socket.socket(socket.AF_UNIX if isinstance(address, str) else socket.AF_INET)
        self.sock.connect(address)
        if not isinstance(address, str):
            self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def exchange(self, data: bytes) -> Reply:
        reply = Reply()
        try:
            self.sock.sendall(data)
        except BrokenPipeError:
            pass  # it has answered before it had all, and will say why
        while True:
            piece = self.sock.recv(1 << 18)
            if not piece:
                raise SystemExit("bench: the daemon closed the connection")
            if reply.take(piece):
                return reply

    def call(self, method: str, path: str, body: Any = None) -> Any:
        return self.exchange(request(method, path, body, self.key)).body()

    def create(self, **fields: Any) -> str:
        return self.call("POST", "/v1/sandboxes", fields)["id"]

    def code(self, sandbox: str, code: str, language: Optional[str] = None) -> Any:
        body = {"code": code, **({"language": language} if language else {})}
        reply = self.call("POST", f"/v1/sandboxes/{sandbox}/code", body)
        if reply["status"] != "ok":
            raise SystemExit(f"bench: the code failed: {reply['error']}")
        return reply

    def delete(self, sandbox: str) -> None:
        self.call("DELETE", f"/v1/sandboxes/{sandbox}")

    def close(self) -> None:
        self.sock.close()
