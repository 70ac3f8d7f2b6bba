# SPDX-License-Identifier: Apache-2.0
"""The WebSocket to an exec: bytes in, bytes out, and what a hostile peer may send."""

import base64
import hashlib
import json
import os
import socket
import struct

import pytest
from harness.daemon import call, parse_reply

GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
TEXT, BINARY, CLOSE, PING, PONG = 1, 2, 8, 9, 10


class WebSocket:
    def __init__(self, daemon, sandbox, exec_, query="", headers=""):
        self.sock = socket.create_connection(("127.0.0.1", daemon.port), timeout=60)
        key = base64.b64encode(os.urandom(16))
        request = (
            f"GET /v1/sandboxes/{sandbox.id}/execs/{exec_.id}/attach{query} HTTP/1.1\r\nHost: localhost\r\nX-API-Key: {daemon.key}\r\n"
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
            data = key + bytes(b ^ key[i % 4] for i, b in enumerate(data))
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

    def close(self):
        self.sock.close()


@pytest.fixture
def attach(daemon, sandbox):
    made = []

    def one(exec_, **fields):
        made.append(WebSocket(daemon, sandbox, exec_, **fields))
        return made[-1]

    yield one
    for ws in made:
        ws.close()


def test_bytes_go_in_and_out_until_the_exec_ends(sandbox, attach):
    e = sandbox.start(["cat"], open_stdin=True)
    ws = attach(e)
    ws.send(BINARY, b"\x00\xffhello")
    ws.send(TEXT, b'{"eof": true}')
    output, texts, code = ws.until_close()
    assert output == b"\x00\xffhello"
    assert texts[-1]["exited"]["exit_code"] == 0
    assert code == 1000


def test_a_terminal_can_be_resized_and_interrupted(sandbox, attach):
    e = sandbox.start("trap 'stty size; exit 0' WINCH; echo set; while :; do sleep 0.05; done", pty=True)
    ws = attach(e)
    seen = b""
    while b"set" not in seen:
        seen += ws.recv()[1]
    ws.send(TEXT, b'{"resize": {"rows": 33, "cols": 77}}')
    output, _, code = ws.until_close()
    assert b"33 77" in output and code == 1000


def test_fragments_make_one_message_and_pings_are_answered(sandbox, attach):
    e = sandbox.start(["cat"], open_stdin=True)
    ws = attach(e)
    ws.send(BINARY, b"one ", fin=False)
    ws.send(PING, b"are you there")
    ws.send(0, b"two")
    got = {PONG: b"", BINARY: b""}
    while got[BINARY] != b"one two" or not got[PONG]:
        opcode, data = ws.recv()
        got[opcode] += data
    assert got[PONG] == b"are you there"
    e.kill()


def test_two_attached_clients_see_the_same_output(sandbox, attach):
    e = sandbox.start("read x; echo got $x", open_stdin=True)
    a, b = attach(e), attach(e)
    a.send(BINARY, b"it\n")
    assert a.until_close()[0] == b.until_close()[0] == b"got it\n"


def test_attaching_after_the_end_replays_the_output(sandbox, attach):
    e = sandbox.start("echo before; exit 4")
    e.wait(60)
    output, texts, code = attach(e).until_close()
    assert (output, texts[-1]["exited"]["exit_code"], code) == (b"before\n", 4, 1000)


def test_leaving_kills_nothing(sandbox, attach):
    e = sandbox.start("read x; echo got $x", open_stdin=True)
    attach(e).close()
    e.write_stdin(b"later\n", eof=True)
    assert e.wait(60).exit_code == 0


BROKEN = {
    "unmasked": dict(opcode=BINARY, data=b"x", mask=False),
    "reserved-bit": dict(opcode=BINARY, data=b"x", reserved=0x40),
    "reserved-opcode": dict(opcode=3, data=b"x"),
    "long-ping": dict(opcode=PING, data=b"x" * 126),
    "fragmented-ping": dict(opcode=PING, data=b"x", fin=False),
    "orphan-continuation": dict(opcode=0, data=b"x"),
    "length-2-63": dict(opcode=BINARY, data=b"x", length=1 << 63),
    "length-huge": dict(opcode=BINARY, data=b"x", length=1 << 40),
    "close-of-one-byte": dict(opcode=CLOSE, data=b"\x03"),
    "close-of-bad-code": dict(opcode=CLOSE, data=b"\x00\x05"),
    "bad-utf8": dict(opcode=TEXT, data=b'{"eof":"\xff"}'),
    "not-json": dict(opcode=TEXT, data=b"hello"),
    "unknown-field": dict(opcode=TEXT, data=b'{"reboot":true}'),
    "bad-size": dict(opcode=TEXT, data=b'{"resize":{"rows":0,"cols":1}}'),
}


@pytest.mark.parametrize("name", sorted(BROKEN))
def test_a_broken_frame_ends_the_connection_and_nothing_else(sandbox, attach, name):
    e = sandbox.start(["sleep", "1000"], open_stdin=True)
    ws = attach(e)
    fields = dict(BROKEN[name])
    ws.send(fields.pop("opcode"), fields.pop("data"), **fields)
    _, texts, code = ws.until_close()
    assert code is None or code in (1002, 1003, 1007, 1008, 1009) or any("error" in t for t in texts)
    assert e.refresh().state in ("starting", "running")
    e.kill()


def test_a_flood_of_pings_disturbs_no_other(sandbox, attach, daemon):
    e = sandbox.start(["sleep", "1000"], open_stdin=True)
    ws = attach(e)
    ws.sock.settimeout(1)
    try:
        for _ in range(20_000):
            ws.sock.sendall(b"\x89\x80\x00\x00\x00\x00")
    except OSError:
        pass
    assert call(daemon, "GET", "/v1/health", key="")[0] == 200
    e.kill()


@pytest.mark.parametrize("headers, status", [
    ("", 400), ("Upgrade: websocket\r\n", 400), ("Upgrade: websocket\r\nConnection: Upgrade\r\n", 400),
    ("Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 8\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n", 400),
    ("Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: short\r\n", 400),
    ("Upgrade: h2c\r\nConnection: Upgrade\r\n", 400),
])
def test_a_handshake_that_is_none_is_refused(sandbox, daemon, headers, status):
    e = sandbox.start(["sleep", "1000"], open_stdin=True)
    request = f"GET /v1/sandboxes/{sandbox.id}/execs/{e.id}/attach HTTP/1.1\r\nHost: localhost\r\nX-API-Key: {daemon.key}\r\n{headers}\r\n"
    got, _, body = parse_reply(daemon.raw(request.encode(), timeout=0.5))
    assert got in (status, 426)
    assert body["error"]["code"]
    e.kill()


def test_a_page_of_another_origin_cannot_attach(sandbox, attach):
    e = sandbox.start(["sleep", "1000"], open_stdin=True)
    ws = attach(e, headers="Origin: https://evil.example\r\n")
    assert not ws.is_open
    assert ws.head.startswith((b"HTTP/1.1 403", b"HTTP/1.1 400"))
    e.kill()


def test_attach_needs_the_write_scope(daemon, sandbox, project_keys):
    e = sandbox.start(["sleep", "1000"], open_stdin=True)
    headers = {"Upgrade": "websocket", "Connection": "Upgrade", "Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA=="}
    status, _ = call(daemon, "GET", f"/v1/sandboxes/{sandbox.id}/execs/{e.id}/attach", key=project_keys["read"], headers=headers)
    assert status == 403
    e.kill()
