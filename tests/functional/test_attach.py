# SPDX-License-Identifier: Apache-2.0
"""The WebSocket to an exec: bytes in, bytes out, and what a hostile peer may send."""

import pytest
from harness.daemon import call, parse_reply
from harness.websocket import BINARY, CLOSE, PING, PONG, TEXT, WebSocket


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
