# SPDX-License-Identifier: Apache-2.0
"""HTTP itself, by raw sockets: what is malformed gets a typed answer or none, and the daemon lives."""

import hashlib
import json
import re
import socket
import ssl
import subprocess
import time
import warnings

import pytest
from cloche import Client
from harness import audit
from harness.daemon import Daemon, call, memory_kib, parse_reply, read_all
from harness.websocket import BINARY, WebSocket

OK = b"GET /v1/health HTTP/1.1\r\nHost: localhost\r\n\r\n"
CLOSE = b"GET /v1/health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"


def post(headers, body=b"", line=b"POST /v1/sandboxes HTTP/1.1"):
    return line + b"\r\nHost: localhost\r\n" + headers + b"\r\n" + body


MALFORMED = {
    "no-version": b"GET /v1/health\r\n\r\n",
    "http-0.9": b"GET /\r\n",
    "http-2": b"GET /v1/health HTTP/2.0\r\nHost: localhost\r\n\r\n",
    "http-1.2": b"GET /v1/health HTTP/1.2\r\nHost: localhost\r\n\r\n",
    "lower-version": b"GET /v1/health http/1.1\r\nHost: localhost\r\n\r\n",
    "h2-preface": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "garbage": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(range(200)) + b"\r\n\r\n",
    "two-spaces": b"GET  /v1/health HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "tab": b"GET\t/v1/health HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "leading-space": b" GET /v1/health HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "no-host": b"GET /v1/health HTTP/1.1\r\n\r\n",
    "two-hosts": b"GET /v1/health HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n\r\n",
    "bad-host": b"GET /v1/health HTTP/1.1\r\nHost: a b\r\n\r\n",
    "host-userinfo": b"GET /v1/health HTTP/1.1\r\nHost: user@localhost\r\n\r\n",
    "no-colon": b"GET /v1/health HTTP/1.1\r\nHost: localhost\r\nNonsense\r\n\r\n",
    "space-before-colon": b"GET /v1/health HTTP/1.1\r\nHost : localhost\r\n\r\n",
    "empty-name": b"GET /v1/health HTTP/1.1\r\nHost: localhost\r\n: x\r\n\r\n",
    "obs-fold": b"GET /v1/health HTTP/1.1\r\nHost: localhost\r\nX: a\r\n b\r\n\r\n",
    "bare-lf": b"GET /v1/health HTTP/1.1\nHost: localhost\n\n",
    "bare-cr": b"GET /v1/health HTTP/1.1\r\nHost: localhost\r\nX: a\rb\r\n\r\n",
    "nul-in-value": b"GET /v1/health HTTP/1.1\r\nHost: localhost\r\nX: a\0b\r\n\r\n",
    "nul-in-name": b"GET /v1/health HTTP/1.1\r\nHost: localhost\r\nX\0: a\r\n\r\n",
    "nul-in-target": b"GET /v1/he\0alth HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "utf8-in-target": "GET /v1/ä HTTP/1.1\r\nHost: localhost\r\n\r\n".encode(),
    "percent-nul": b"GET /v1/sandboxes/%00 HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "percent-cut": b"GET /v1/sandboxes/%4 HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "percent-bad": b"GET /v1/sandboxes/%zz HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "fragment": b"GET /v1/health#x HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "asterisk": b"GET * HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "connect": b"CONNECT localhost:80 HTTP/1.1\r\nHost: localhost:80\r\n\r\n",
    "absolute-other": b"GET http://evil.example/v1/health HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "cl-and-te": post(b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n", b"0\r\n\r\n"),
    "two-cl": post(b"Content-Length: 2\r\nContent-Length: 2\r\n", b"{}"),
    "cl-list": post(b"Content-Length: 2, 2\r\n", b"{}"),
    "cl-plus": post(b"Content-Length: +2\r\n", b"{}"),
    "cl-minus": post(b"Content-Length: -1\r\n", b"{}"),
    "cl-hex": post(b"Content-Length: 0x2\r\n", b"{}"),
    "cl-space": post(b"Content-Length: 1 1\r\n", b"{}"),
    "cl-empty": post(b"Content-Length: \r\n", b"{}"),
    "cl-huge": post(b"Content-Length: 99999999999999999999999\r\n", b"{}"),
    "te-unknown": post(b"Transfer-Encoding: xchunked\r\n", b"0\r\n\r\n"),
    "te-gzip": post(b"Transfer-Encoding: gzip, chunked\r\n", b"0\r\n\r\n"),
    "te-twice": post(b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", b"0\r\n\r\n"),
    "te-comma": post(b"Transfer-Encoding: chunked ,\r\n", b"0\r\n\r\n"),
    "te-identity": post(b"Transfer-Encoding: identity\r\n", b"{}"),
    "te-in-1.0": post(b"Transfer-Encoding: chunked\r\n", b"0\r\n\r\n", line=b"POST /v1/sandboxes HTTP/1.0"),
    "chunk-size-bad": post(b"Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n", b"zz\r\n{}\r\n0\r\n\r\n"),
    "chunk-size-0x": post(b"Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n", b"0x2\r\n{}\r\n0\r\n\r\n"),
    "chunk-size-minus": post(b"Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n", b"-2\r\n{}\r\n0\r\n\r\n"),
    "chunk-size-huge": post(b"Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n", b"ffffffffffffffffff\r\n{}"),
    "chunk-no-crlf": post(b"Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n", b"2\r\n{}0\r\n\r\n"),
    "chunk-bare-lf": post(b"Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n", b"2\n{}\n0\n\n"),
    "expect-unknown": post(b"Expect: tea\r\nContent-Length: 2\r\n", b"{}"),
    "method-long": b"A" * 5000 + b" / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "method-odd": b"GE(T /v1/health HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "target-long": b"GET /" + b"a" * 70_000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "header-long": b"GET /v1/health HTTP/1.1\r\nHost: localhost\r\nX: " + b"a" * 1_000_000 + b"\r\n\r\n",
    "headers-many": b"GET /v1/health HTTP/1.1\r\nHost: localhost\r\n" + b"X: y\r\n" * 10_000 + b"\r\n",
}


@pytest.mark.parametrize("name", sorted(MALFORMED))
def test_a_malformed_request_gets_a_typed_answer_and_the_connection_ends(daemon, name):
    # What follows on the same connection must never be taken for a request of its own.
    request = MALFORMED[name].replace(b"Content-Type: ", b"X-API-Key: %s\r\nContent-Type: " % daemon.key.encode(), 1)
    data = daemon.raw(request + CLOSE, timeout=5)
    status, headers, body = parse_reply(data)
    assert 400 <= status < 600 and status not in (401, 403)
    assert body["error"]["code"] and body["error"]["request_id"]
    assert len(re.findall(rb"HTTP/1\.1 \d{3} ", data)) == 1
    assert call(daemon, "GET", "/v1/health", key="")[0] == 200


@pytest.mark.parametrize("method, path, status", [
    ("GET", "/nothing", 404), ("GET", "/v1", 404), ("GET", "/v1/", 404), ("GET", "/v1/nothing", 404), ("GET", "/v9/sandboxes", 404),
    ("POST", "/v1/health", 405), ("PUT", "/v1/sandboxes", 405), ("TRACE", "/v1/health", 405), ("BREW", "/v1/health", 405),
    ("GET", "/v1/run", 405), ("DELETE", "/v1/sandboxes", 405),
])
def test_what_is_not_there_is_told_apart_from_what_it_cannot_do(daemon, method, path, status):
    got, body = call(daemon, method, path)
    assert (got, body["error"]["code"]) == (status, {404: "not_found", 405: "method_not_allowed"}[status])


def test_an_answer_of_405_lists_what_is_allowed(daemon):
    _, headers, _ = parse_reply(daemon.raw(b"BREW /v1/sandboxes HTTP/1.1\r\nHost: localhost\r\nX-API-Key: %s\r\nConnection: close\r\n\r\n" % daemon.key.encode()))
    assert {"GET", "POST"} <= {w.strip() for w in headers["allow"].split(",")}


def test_head_answers_as_get_without_the_body(daemon):
    data = daemon.raw(b"HEAD /v1/health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
    assert data.startswith(b"HTTP/1.1 200")
    assert data.endswith(b"\r\n\r\n")


def test_requests_in_one_packet_are_answered_in_order(daemon):
    key = daemon.key.encode()
    one = b"GET /v1/sandboxes/%s HTTP/1.1\r\nHost: localhost\r\nX-API-Key: " + key + b"\r\n\r\n"
    names = [b"first", b"second", b"third"]
    data = daemon.raw(b"".join(one % n for n in names) + CLOSE)
    assert data.count(b"HTTP/1.1 404") == 3
    assert data.index(b"first") < data.index(b"second") < data.index(b"third") < data.index(b"HTTP/1.1 200")


def test_a_request_in_single_bytes_is_understood(daemon):
    with socket.create_connection(("127.0.0.1", daemon.port), timeout=60) as s:
        s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for i in range(len(CLOSE)):
            s.sendall(CLOSE[i : i + 1])
        assert read_all(s).startswith(b"HTTP/1.1 200")


def test_keep_alive_carries_many_requests(daemon):
    with socket.create_connection(("127.0.0.1", daemon.port), timeout=60) as s:
        for _ in range(50):
            s.sendall(OK)
            head = b""
            while b"\r\n\r\n" not in head:
                head += s.recv(4096)
            assert head.startswith(b"HTTP/1.1 200")


def test_chunked_bodies_are_understood_with_extensions_and_trailers(daemon):
    body = json.dumps({"command": "echo 1"}).encode()
    chunks = b"".join(b"1;ext=1\r\n" + body[i : i + 1] + b"\r\n" for i in range(len(body))) + b"0\r\n\r\n"
    head = b"POST /v1/run HTTP/1.1\r\nHost: localhost\r\nX-API-Key: " + daemon.key.encode()
    head += b"\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n"
    status, _, reply = parse_reply(daemon.raw(head + chunks, timeout=30))
    assert status in (200, 400)  # extensions may be refused, never misread
    if status == 200:
        assert reply["stdout"] == "1\n"


def test_expect_100_continue_is_honoured(daemon):
    body = b'{"command":"echo 1"}'
    head = b"POST /v1/run HTTP/1.1\r\nHost: localhost\r\nX-API-Key: " + daemon.key.encode()
    head += b"\r\nContent-Type: application/json\r\nExpect: 100-continue\r\nConnection: close\r\nContent-Length: %d\r\n\r\n" % len(body)
    with socket.create_connection(("127.0.0.1", daemon.port), timeout=60) as s:
        s.sendall(head)
        assert s.recv(25).startswith(b"HTTP/1.1 100")
        s.sendall(body)
        assert b"200 OK" in read_all(s)


def test_http_1_0_is_answered_and_closed(daemon):
    data = daemon.raw(b"GET /v1/health HTTP/1.0\r\nHost: localhost\r\n\r\n")
    assert data.startswith(b"HTTP/1.") and b" 200 " in data[:20]


def test_a_foreign_host_name_is_refused(daemon):
    """A web page whose name was rebound to this address sends its own name."""
    for host in (b"evil.example", b"evil.example:7070", b"localhost.evil.example", b"127.0.0.1.evil.example"):
        status, _, body = parse_reply(daemon.raw(b"GET /v1/health HTTP/1.1\r\nHost: " + host + b"\r\nConnection: close\r\n\r\n"))
        assert status in (400, 403, 421)
        assert body["error"]["code"]


def test_a_page_of_another_origin_gets_no_permission(daemon):
    data = daemon.raw(b"OPTIONS /v1/sandboxes HTTP/1.1\r\nHost: localhost\r\nOrigin: https://evil.example\r\nAccess-Control-Request-Method: POST\r\nConnection: close\r\n\r\n")
    assert b"access-control-allow-origin" not in data.lower()


@pytest.mark.parametrize("piece", [b"G", b"GET /v1/hea", b"POST /v1/sandboxes HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{"])
def test_a_client_that_stops_in_the_middle_disturbs_no_other(daemon, piece):
    slow = [socket.create_connection(("127.0.0.1", daemon.port)) for _ in range(20)]
    try:
        for s in slow:
            s.sendall(piece)
        for _ in range(10):
            assert call(daemon, "GET", "/v1/health", key="", timeout=5)[0] == 200
    finally:
        for s in slow:
            s.close()


def test_a_body_that_is_shorter_than_told_is_no_request(daemon, client):
    before = client.health()["sandboxes"]
    head = b"POST /v1/sandboxes HTTP/1.1\r\nHost: localhost\r\nX-API-Key: " + daemon.key.encode()
    daemon.raw(head + b"\r\nContent-Type: application/json\r\nContent-Length: 10\r\n\r\n{}", timeout=2, half_close=True)
    assert client.health()["sandboxes"] == before


def test_an_upload_that_is_refused_early_is_answered(daemon, client):
    head = b"PUT /v1/sandboxes/none/files?path=a HTTP/1.1\r\nHost: localhost\r\nX-API-Key: " + daemon.key.encode()
    status, _, body = parse_reply(daemon.raw(head + b"\r\nContent-Length: 50000000\r\n\r\n" + b"x" * 1_000_000, timeout=5))
    assert (status, body["error"]["code"]) == (404, "not_found")


def test_endless_headers_and_bodies_are_cut_and_memory_stays_flat(daemon):
    base = memory_kib(daemon.gateway_pid)
    for endless in (b"GET / HTTP/1.1\r\n" + b"X-A: " + b"b" * 8000 + b"\r\n",
                    b"POST /v1/sandboxes HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"):
        with socket.create_connection(("127.0.0.1", daemon.port), timeout=5) as s:
            try:
                s.sendall(endless)
                for _ in range(400):
                    s.sendall(b"10000\r\n" + b"x" * 65536 + b"\r\n")
            except (BrokenPipeError, ConnectionResetError, socket.timeout):
                pass
    assert memory_kib(daemon.gateway_pid) < base + 16 * 1024


def test_replies_tell_their_request_and_are_not_sniffed(daemon):
    _, headers, _ = parse_reply(daemon.raw(CLOSE))
    assert headers["x-request-id"]
    assert headers["content-type"].startswith("application/json")


def test_downloads_are_attachments_that_no_browser_renders(daemon, sandbox):
    sandbox.files.write("page.html", b"<script>alert(1)</script>")
    head = f"GET /v1/sandboxes/{sandbox.id}/files?path=page.html HTTP/1.1\r\nHost: localhost\r\nX-API-Key: {daemon.key}\r\nConnection: close\r\n\r\n"
    _, headers, body = parse_reply(daemon.raw(head.encode()))
    assert headers["content-type"] == "application/octet-stream"
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["content-disposition"].startswith("attachment")


def test_a_file_name_cannot_add_a_header(daemon, sandbox):
    sandbox.files.write("a\r\nX-Injected: 1", b"1")
    head = f"GET /v1/sandboxes/{sandbox.id}/files?path=a%0d%0aX-Injected:%201 HTTP/1.1\r\nHost: localhost\r\nX-API-Key: {daemon.key}\r\nConnection: close\r\n\r\n"
    _, headers, _ = parse_reply(daemon.raw(head.encode()))
    assert "x-injected" not in headers


def test_server_sent_events_carry_the_same_events(daemon, sandbox):
    body = json.dumps({"shell": "echo out; echo err >&2; exit 2"})
    status, data = call(daemon, "POST", f"/v1/sandboxes/{sandbox.id}/execs", body, headers={"Accept": "text/event-stream"})
    blocks = [b for b in data.decode().split("\n\n") if b.strip()]
    events = [json.loads(line[6:]) for b in blocks for line in b.split("\n") if line.startswith("data: ")]
    assert status == 200
    assert events[0]["type"] == "started" and events[-1]["type"] == "exited"
    assert {e["type"] for e in events} == {"started", "stdout", "stderr", "exited"}
    assert events[-1]["exec"]["exit_code"] == 2


def test_an_unacceptable_form_is_refused(daemon, sandbox):
    status, body = call(daemon, "POST", f"/v1/sandboxes/{sandbox.id}/execs", {"argv": ["true"]}, headers={"Accept": "image/png"})
    assert (status, body["error"]["code"]) == (406, "not_acceptable")


def test_the_unix_socket_needs_no_key_for_root_and_is_closed_to_others(daemon):
    with Client(f"unix:{daemon.socket}") as client:
        assert client.health()["engines"]
        assert client.run("echo by socket").stdout == "by socket\n"
    assert daemon.socket.stat().st_mode & 0o007 == 0
    code = f"import socket; s = socket.socket(socket.AF_UNIX); s.connect('{daemon.socket}')"
    other = subprocess.run(["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "/usr/bin/python3", "-c", code], stderr=subprocess.PIPE)
    assert b"PermissionError" in other.stderr


def check_that_input_outlasts_its_client(daemon, sandbox, context):
    """TLS has read from the socket what the server has not looked at yet."""
    data = bytes(range(256)) * 4000
    one = sandbox.start("mkfifo /tmp/gate; echo ready; cat /tmp/gate; head -c 1024002 | sha256sum", open_stdin=True, timeout=60)
    output = one.output()
    assert next(output).data == b"ready\n"
    ws = WebSocket(daemon, sandbox, one, tls=context)
    ws.send(BINARY, data)
    ws.send(BINARY, b"!")
    ws.send(BINARY, b"?")
    ws.say_goodbye()
    ws.flush()
    ws.close()
    sandbox.run(": > /tmp/gate")
    assert next(output).data.split()[0].decode() == hashlib.sha256(data + b"!?").hexdigest()


def test_https_is_served_with_a_certificate(tmp_path):
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
                    "-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1,DNS:localhost", "-keyout", key, "-out", cert],
                   check=True, stderr=subprocess.DEVNULL)
    daemon = Daemon("--tls-cert", str(cert), "--tls-key", str(key)).start()
    try:
        context = ssl.create_default_context(cafile=str(cert))
        with socket.create_connection(("127.0.0.1", daemon.port), timeout=60) as plain:
            with context.wrap_socket(plain, server_hostname="localhost") as s:
                assert s.version() in ("TLSv1.2", "TLSv1.3")
                s.sendall(CLOSE)
                assert read_all(s).startswith(b"HTTP/1.1 200")
        with socket.create_connection(("127.0.0.1", daemon.port), timeout=60) as s:
            s.sendall(OK)
            assert b"200 OK" not in read_all(s)
        with Client(f"unix:{daemon.socket}") as client, client.create() as sandbox:
            check_that_input_outlasts_its_client(daemon, sandbox, context)
        old = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        old.check_hostname, old.verify_mode = False, ssl.CERT_NONE
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            old.maximum_version = ssl.TLSVersion.TLSv1_1
        with socket.create_connection(("127.0.0.1", daemon.port), timeout=60) as plain, pytest.raises((ssl.SSLError, OSError)):
            old.wrap_socket(plain)
    finally:
        ids = daemon.ids()
        status = daemon.stop()
        left = audit.left_after_stop(daemon, ids)
        daemon.remove()
    assert status == 0 and not left


def test_many_idle_connections_do_not_stop_new_ones(daemon):
    idle = []
    try:
        for _ in range(300):
            idle.append(socket.create_connection(("127.0.0.1", daemon.port), timeout=5))
        deadline = time.monotonic() + 10
        assert call(daemon, "GET", "/v1/health", key="", timeout=10)[0] == 200
        assert time.monotonic() < deadline
    finally:
        for s in idle:
            s.close()
