# SPDX-License-Identifier: Apache-2.0
"""The SDK by itself, against a server that plays a script: no daemon is needed."""

import json
import os
import socket
import sys
import threading

import pytest
import yaml
from cloche import Client, errors
from cloche._protocol import Endpoint, Event, ExecResult, LineDecoder, exec_body
from harness.daemon import ROOT

HEALTH = b'{"status":"ok","ready":true,"version":"1"}'


def reply(body=HEALTH, status=b"200 OK", headers=b""):
    return b"HTTP/1.1 %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n%s\r\n%s" % (status, len(body), headers, body)


class Script:
    """Each connection gets the next list of replies, one a request, and is then closed."""

    def __init__(self, *connections):
        self.requests = []
        self._connections = connections
        self._server = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._server.getsockname()[1]}"
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self):
        for replies in self._connections:
            conn, _ = self._server.accept()
            with conn:
                for one in replies:
                    head = b""
                    while b"\r\n\r\n" not in head:
                        part = conn.recv(65536)
                        if not part:
                            break
                        head += part
                    if not head:
                        break
                    self.requests.append(head)
                    conn.sendall(one)

    def done(self):
        self._thread.join(10)
        self._server.close()
        return not self._thread.is_alive()


def test_every_code_of_the_api_has_a_class_of_its_own():
    api = yaml.safe_load((ROOT / "api" / "openapi.yaml").read_text())
    codes = set(api["components"]["schemas"]["ErrorCode"]["enum"])
    assert set(errors.BY_CODE) == codes


def test_an_error_carries_what_the_daemon_said():
    body = {"error": {"code": "invalid_field", "message": "name: bad", "field": "name", "hint": "try a-z", "request_id": "req_1"}}
    e = errors.from_body(400, body)
    assert type(e) is errors.InvalidField
    assert (e.code, e.field, e.hint, e.request_id, e.status, e.retryable) == ("invalid_field", "name", "try a-z", "req_1", 400, False)


@pytest.mark.parametrize("body", [None, [], "x", {}, {"error": "x"}, {"error": {}}, {"error": {"code": "of-tomorrow"}}])
def test_an_odd_error_body_is_still_an_error(body):
    assert isinstance(errors.from_body(500, body), errors.ClocheError)


@pytest.mark.parametrize("url, text", [
    ("http://localhost", "http://localhost:7070"), ("https://h", "https://h:443"), ("http://[::1]:1", "http://[::1]:1"),
    ("unix:/a/b.sock", "unix:/a/b.sock"), ("unix:///a/b.sock", "unix:/a/b.sock"),
])
def test_a_url_is_understood(url, text):
    assert str(Endpoint.parse(url)) == text


@pytest.mark.parametrize("url", ["", "ftp://x", "http://", "localhost:7070", "unix:relative", "http://h/path", "http://h?x"])
def test_a_url_that_is_none_is_refused(url):
    with pytest.raises(ValueError):
        Endpoint.parse(url)


def test_the_environment_names_the_daemon(monkeypatch):
    monkeypatch.setenv("CLOCHE_URL", "http://127.0.0.1:99")
    assert str(Endpoint.default()) == "http://127.0.0.1:99"
    monkeypatch.delenv("CLOCHE_URL")
    assert str(Endpoint.default()) == "unix:/run/cloche/cloche.sock"


def test_lines_are_found_however_the_bytes_are_cut():
    data = '{"a":"ü🎈"}\n\n{"b":2}\n'.encode()
    for size in range(1, len(data) + 1):
        decoder, seen = LineDecoder(), []
        for i in range(0, len(data), size):
            seen += decoder.feed(data[i : i + size])
        assert seen == [{"a": "ü🎈"}, {"b": 2}]


def test_events_carry_text_or_bytes():
    assert Event.from_json({"type": "stdout", "seq": 1, "text": "ü"}).data == "ü".encode()
    assert Event.from_json({"type": "stderr", "seq": 2, "base64": "/w=="}).data == b"\xff"
    with pytest.raises(errors.Gone):
        Event.from_json({"type": "error", "error": {"code": "gone", "message": "it ended"}})


def test_a_result_has_the_exact_bytes_where_they_are_no_text():
    r = ExecResult.from_json({"exec": {"id": "ex_1", "state": "exited", "exit_code": 0}, "stdout": "\ufffd", "stdout_base64": "/w==", "stderr": "e"})
    assert (r.stdout_bytes, r.stderr, r.exit_code) == (b"\xff", "e", 0)


def test_a_line_and_an_argv_are_told_apart():
    assert exec_body("a b")["shell"] == "a b" and "argv" not in exec_body("a b")
    assert exec_body(["a", "b"])["argv"] == ["a", "b"]
    assert exec_body(["a"], stdin=b"\xff")["stdin_base64"] == "/w=="


def test_a_connection_is_used_again():
    script = Script([reply(), reply(), reply()])
    with Client(script.url) as client:
        for _ in range(3):
            assert client.health()["ready"]
    assert script.done()


def test_the_key_goes_with_every_request_and_in_no_url():
    script = Script([reply()])
    with Client(script.url, "clo_secret") as client:
        client.health()
    assert script.done()
    assert b"Authorization: Bearer clo_secret" in script.requests[0]
    assert b"secret" not in script.requests[0].split(b"\r\n")[0]


def test_a_read_is_sent_again_when_its_connection_was_closed():
    script = Script([reply()], [reply()])
    with Client(script.url) as client:
        assert client.health()["ready"]
        assert client.health()["ready"]
    assert script.done()


def test_a_create_is_never_sent_twice():
    script = Script([b""], [reply()])
    with Client(script.url) as client, pytest.raises(errors.ConnectionFailed):
        client.create()
    assert len(script.requests) == 1
    socket.create_connection(("127.0.0.1", int(script.url.rpartition(":")[2]))).close()
    script.done()


def test_a_read_is_tried_again_when_the_daemon_is_not_ready():
    busy = json.dumps({"error": {"code": "unavailable", "message": "starting", "request_id": "r"}}).encode()
    script = Script([reply(busy, b"503 Service Unavailable"), reply()])
    with Client(script.url) as client:
        assert client.health()["ready"]
    assert script.done()


def test_no_daemon_is_a_typed_error(tmp_path):
    with Client(f"unix:{tmp_path}/none.sock") as client, pytest.raises(errors.ConnectionFailed) as e:
        client.create()
    assert "none.sock" in str(e.value)


def test_a_reply_that_is_no_http_is_a_typed_error():
    script = Script([b"nonsense\r\n\r\n"])
    with Client(script.url) as client, pytest.raises(errors.ConnectionFailed):
        client.create()
    assert script.done()


def test_a_silent_daemon_is_given_up_on():
    server = socket.create_server(("127.0.0.1", 0))
    with Client(f"http://127.0.0.1:{server.getsockname()[1]}", timeout=0.2) as client, pytest.raises(errors.TimedOut):
        client.health()
    server.close()


def test_a_call_may_wait_without_end():
    body = b'{"exec":{"id":"ex_1","state":"exited","exit_code":0},"stdout":"42\\n","stderr":""}'
    script = Script([reply(body)])
    with Client(script.url) as client:
        assert client.run("echo 42").stdout == "42\n"
    assert script.done()


def test_the_sdk_needs_nothing_but_the_standard_library():
    package = ROOT / "sdk" / "python" / "cloche"
    sources = [f for part in (".", "aio", "sync") for f in (package / part).glob("*.py")]
    words = {line.split()[1].split(".")[0] for f in sources for line in f.read_text().splitlines() if line.startswith(("import ", "from "))}
    if not hasattr(sys, "stdlib_module_names"):
        pytest.skip("this Python does not name its library's modules")
    assert {w for w in words if w} <= set(sys.stdlib_module_names)
    assert os.path.exists(ROOT / "sdk" / "python" / "cloche" / "py.typed")
