# SPDX-License-Identifier: Apache-2.0
"""A client of a WebSocket, such as an exec's, that can also break its rules."""

import base64
import fcntl
import hashlib
import json
import os
import socket
import struct
import termios
import time

GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
TEXT, BINARY, CLOSE, PING, PONG = 1, 2, 8, 9, 10


def masked(data, key):
    """As one long number: byte by byte a megabyte takes a second."""
    stream = (key * (len(data) // 4 + 1))[:len(data)]
    return (int.from_bytes(data, "big") ^ int.from_bytes(stream, "big")).to_bytes(len(data), "big")


class WebSocket:
    def __init__(self, daemon, sandbox, exec_=None, query="", headers="", path=None, tls=None):
        """path: below the sandbox; else the exec's attach. tls: a context."""
        self.sock = socket.create_connection(("127.0.0.1", daemon.port), timeout=60)
        if tls:
            self.sock = tls.wrap_socket(self.sock, server_hostname="localhost")
        key = base64.b64encode(os.urandom(16))
        request = (
            f"GET /v1/sandboxes/{sandbox.id}/{path or f'execs/{exec_.id}/attach'}{query} HTTP/1.1\r\nHost: localhost\r\nX-API-Key: {daemon.key}\r\n"
            f"Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {key.decode()}\r\n{headers}\r\n"
        )
        self.sock.sendall(request.encode())
        self.head = b""
        while not self.head.endswith(b"\r\n\r\n"):
            byte = self.sock.recv(1)
            if not byte:
                break
            self.head += byte
        self.is_open = self.head.startswith(b"HTTP/1.1 101")
        if self.is_open:
            accept = base64.b64encode(hashlib.sha1(key + GUID).digest())
            assert accept in self.head

    def send(self, opcode, data=b"", fin=True, mask=True, reserved=0, length=None):
        head = bytes([(0x80 if fin else 0) | reserved | opcode])
        n = len(data) if length is None else length
        flag = 0x80 if mask else 0
        if n < 126:
            head += bytes([flag | n])
        elif n < 65536:
            head += bytes([flag | 126]) + struct.pack(">H", n)
        else:
            head += bytes([flag | 127]) + struct.pack(">Q", n)
        if mask:
            key = os.urandom(4)
            data = key + masked(data, key)
        self.sock.sendall(head + data)

    def _exactly(self, n):
        data = b""
        while len(data) < n:
            part = self.sock.recv(n - len(data))
            if not part:
                raise EOFError
            data += part
        return data

    def recv(self):
        """(opcode, data) of the next frame."""
        first, second = self._exactly(2)
        assert not second & 0x80, "a server's frames are not masked"
        n = second & 0x7F
        if n == 126:
            (n,) = struct.unpack(">H", self._exactly(2))
        elif n == 127:
            (n,) = struct.unpack(">Q", self._exactly(8))
        return first & 0x0F, self._exactly(n)

    def until_close(self):
        """All that comes, and the code of the close (None: cut without one)."""
        output, texts = b"", []
        try:
            while True:
                opcode, data = self.recv()
                if opcode == BINARY:
                    output += data
                elif opcode == TEXT:
                    texts.append(json.loads(data))
                elif opcode == CLOSE:
                    return output, texts, struct.unpack(">H", data[:2])[0] if data else 1005
        except (EOFError, ConnectionResetError):
            return output, texts, None

    def say_goodbye(self):
        self.send(CLOSE, struct.pack(">H", 1000))

    def flush(self):
        """Returns when all has come to the other kernel: what is under way is lost by a reset, and by a close with bytes that were not read."""
        while struct.unpack("i", fcntl.ioctl(self.sock, termios.TIOCOUTQ, bytes(4)))[0] > 0:
            time.sleep(0.005)

    def reset(self):
        """As a killed client may look: no end of the stream, but a reset."""
        self.flush()
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.sock.close()

    def close(self):
        self.sock.close()
