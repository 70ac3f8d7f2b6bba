# SPDX-License-Identifier: Apache-2.0
"""What is open ends with the key or login that it was opened with (T03): when that is revoked, when it expires, when its owner logs out. Beside each is the
same with another key, which goes on."""

import contextlib
import json
import socket
import time

import pytest
from harness.daemon import PATIENCE, call

END_S = 10 * PATIENCE  # "never" to a test; it takes half a second
WEBSOCKET = "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n"
CHUNKED = "Transfer-Encoding: chunked\r\n"


class Open:
    """A request that goes on: its head was sent, with a credential."""

    def __init__(self, daemon, method, path, credential, fields="", body=None):
        self.sock = socket.create_connection(("127.0.0.1", daemon.port), timeout=END_S)
        data = b"" if body is None else json.dumps(body).encode()
        if body is not None:
            fields += f"Content-Type: application/json\r\nContent-Length: {len(data)}\r\n"
        self.sock.sendall(f"{method} {path} HTTP/1.1\r\nHost: localhost\r\n{credential}\r\n{fields}\r\n".encode() + data)
        self.seen = b""

    def is_open(self):
        self.sock.settimeout(0.05)
        try:
            while data := self.sock.recv(65536):
                self.seen += data
        except TimeoutError:
            return b"HTTP/1.1 4" not in self.seen[:20]
        except OSError:
            pass
        return False

    def ends(self):
        deadline = time.monotonic() + END_S
        while self.is_open():
            assert time.monotonic() < deadline, f"it goes on: {self.seen[-200:]}"
        return True


def ways(sandbox, exec_id):
    """(method, path, fields, body) of what is open for long, by name."""
    base = f"/v1/sandboxes/{sandbox.id}"
    return {
        "terminal": ("GET", f"{base}/execs/{exec_id}/attach", WEBSOCKET, None),
        "events": ("GET", "/v1/events?follow=true", "", None),
        "output": ("GET", f"{base}/execs/{exec_id}/output?follow=true", "", None),
        "wait": ("GET", f"{base}/execs/{exec_id}/wait", "", None),
        "exec": ("POST", f"{base}/execs", "", {"argv": ["sleep", "1000"]}),
        "code": ("POST", f"{base}/code", "", {"code": "import time; time.sleep(1000)"}),
        "watch": ("GET", f"{base}/files/watch?path=/tmp", "", None),
        "upload": ("PUT", f"{base}/files?path=/tmp/up", CHUNKED, None),
        "stdin": ("POST", f"{base}/execs/{exec_id}/stdin", CHUNKED, None),
        "body": ("POST", "/v1/run", "Content-Type: application/json\r\nContent-Length: 100\r\n", None),
    }


NAMES = ["terminal", "events", "output", "wait", "exec", "code", "watch", "upload", "stdin", "body"]


@pytest.fixture
def open_exec(client, sandbox):
    exec_ = sandbox.start(["/bin/sh"], open_stdin=True)
    yield exec_.id


def bearer(secret):
    return f"Authorization: Bearer {secret}"


@pytest.mark.parametrize("name", NAMES)
def test_T03_what_is_open_ends_when_its_key_is_revoked(daemon, client, sandbox, open_exec, name):
    method, path, fields, body = ways(sandbox, open_exec)[name]
    keys = [client.create_key(f"t03-{i}", scope="write") for i in range(2)]
    mine, other = (Open(daemon, method, path, bearer(key["secret"]), fields, body) for key in keys)
    assert mine.is_open() and other.is_open(), (mine.seen, other.seen)
    client.revoke_key(keys[0]["key"]["id"])
    assert mine.ends()
    assert other.is_open(), other.seen  # the control
    client.revoke_key(keys[1]["key"]["id"])
    assert other.ends()


def test_T03_what_is_typed_after_the_revocation_does_not_run(daemon, client, sandbox, open_exec):
    key = client.create_key("typist", scope="write")
    typed = Open(daemon, "POST", f"/v1/sandboxes/{sandbox.id}/execs/{open_exec}/stdin", bearer(key["secret"]), CHUNKED)
    typed.sock.sendall(b"13\r\necho >/tmp/before \n\r\n")
    deadline = time.monotonic() + END_S
    while not sandbox.files.exists("/tmp/before"):
        assert time.monotonic() < deadline
    client.revoke_key(key["key"]["id"])
    assert typed.ends()
    with contextlib.suppress(OSError):  # what still comes is dropped, or refused
        for _ in range(20):
            typed.sock.sendall(b"13\r\necho >/tmp/after  \n\r\n")
            time.sleep(0.05)
    assert not sandbox.files.exists("/tmp/after")


def test_T03_a_key_ends_when_it_expires(daemon, client):
    made = client.create_key("brief", scope="read", expires_in=2)
    stream = Open(daemon, "GET", "/v1/events?follow=true", bearer(made["secret"]))
    assert stream.is_open() and made["key"]["expires_us"] > made["key"]["created_us"]
    assert call(daemon, "GET", "/v1/sandboxes", key=made["secret"])[0] == 200
    assert stream.ends()
    assert call(daemon, "GET", "/v1/sandboxes", key=made["secret"])[0] in (401, 429)


@pytest.mark.parametrize("given", [0, 999, 315360000001, -1, "1d"])
def test_an_expiry_that_is_none_is_refused_by_name(daemon, given):
    status, body = call(daemon, "POST", "/v1/keys", {"name": "x", "expires_in_ms": given})
    assert status == 400 and body["error"]["field"] == "expires_in_ms"


def test_T03_what_a_browser_has_open_ends_when_it_logs_out(daemon, client):
    key = client.create_key("person", scope="write")
    logins = []
    for _ in range(2):
        conn = Open(daemon, "POST", "/v1/login", "X-Cloche-Dashboard: 1", body={"key": key["secret"]})
        conn.is_open()
        head = conn.seen.decode("latin-1")
        logins.append(next(line.split(": ")[1].split(";")[0] for line in head.split("\r\n") if line.lower().startswith("set-cookie")))
    shown = [f"Cookie: {cookie}\r\nX-Cloche-Dashboard: 1" for cookie in logins]
    mine, other = (Open(daemon, "GET", "/v1/events?follow=true", credential) for credential in shown)
    assert mine.is_open() and other.is_open(), mine.seen
    Open(daemon, "DELETE", "/v1/login", shown[0]).is_open()
    assert mine.ends()
    assert other.is_open()
    client.revoke_key(key["key"]["id"])
    assert other.ends()
