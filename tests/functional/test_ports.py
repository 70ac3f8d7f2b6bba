# SPDX-License-Identifier: Apache-2.0
"""Ports of sandboxes from outside: opened with a token, served as web sites, closed again."""

import base64
import hashlib
import json
import os
import socket
import threading

import pytest
from cloche import ClocheError
from harness.daemon import call, read_all, wait_for
from harness.web import PORT, Web, start_server
from harness.websocket import BINARY, WebSocket


@pytest.fixture
def web(daemon, sandbox):
    start_server(sandbox)
    return Web(daemon, sandbox.expose(PORT)["url"])


def test_a_page_of_a_server_inside_is_seen_by_its_url(web):
    seen = web.seen("/a//b/../c%2fd?x=1&y=%zz")
    assert (seen["method"], seen["path"]) == ("GET", "/a//b/../c%2fd?x=1&y=%zz")
    assert ["Host", f"localhost:{PORT}"] in seen["fields"]


@pytest.mark.vm
def test_bodies_of_either_framing_arrive_whole(web):
    data = bytes(range(256)) * 8192
    for body in (data, iter([data[:100], data[100:]])):
        seen = web.seen("/upload", method="POST", body=body)
        assert (seen["length"], seen["hash"]) == (len(data), hashlib.sha256(data).hexdigest())


def test_any_method_is_passed_on_and_head_has_no_body(web):
    assert web.seen("/", method="PROPFIND")["method"] == "PROPFIND"
    status, _, body = web.ask("/", method="HEAD")
    assert (status, body) == (200, b"")


def test_a_large_answer_arrives_whole(web):
    status, _, body = web.ask("/big", timeout=60)
    assert (status, len(body)) == (200, 100_000_000)


def test_events_arrive_while_the_answer_goes_on(web):
    with web.connect() as s:
        s.sendall(f"GET {web.base}/slow-events HTTP/1.1\r\nHost: {web.host}\r\n\r\n".encode())
        data = b""
        while b"data: first" not in data:
            part = s.recv(65536)
            assert part, data
            data += part


@pytest.mark.vm
def test_a_websocket_carries_bytes_both_ways(web):
    with web.upgrade() as s:
        f = s.makefile("rb")
        for size in (1, 70000, 5):
            s.sendall(b"m" * size)
            assert f.read(size) == b"m" * size


def test_a_client_that_waits_for_a_word_before_its_body_gets_it(web):
    with web.connect() as s:
        s.sendall(f"POST {web.base}/up HTTP/1.1\r\nHost: {web.host}\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\n".encode())
        assert s.recv(100) == b"HTTP/1.1 100 Continue\r\n\r\n"
        s.sendall(b"abc")
        data = s.recv(65536)
        while b'"length": 3' not in data:
            part = s.recv(65536)
            assert part, data
            data += part


def test_a_server_that_listens_on_ipv6_only_is_reached(daemon, sandbox):
    start_server(sandbox, "::1")
    assert Web(daemon, sandbox.expose(PORT)["url"]).seen("/six")["path"] == "/six"


def test_where_nothing_listens_a_browser_gets_a_page_that_tries_again(daemon, sandbox):
    web = Web(daemon, sandbox.expose(4000)["url"])
    status, headers, body = web.ask(headers=[("Accept", "text/html,*/*")])
    assert status == 502 and b'http-equiv="refresh"' in body and b"Nothing is listening yet" in body
    status, headers, body = web.ask()
    assert status == 502 and json.loads(body)["error"]["code"] == "guest_error"
    assert ("retry-after", "1") in headers


def test_ports_are_listed_without_tokens_and_closed(client, sandbox):
    opened = sandbox.expose(3000, expires_in=60)
    sandbox.expose(80, public=True)
    ports = sandbox.ports()
    assert [(p["port"], p["public"]) for p in ports] == [(80, True), (3000, False)]
    assert opened["token"] not in str(ports) and opened["expires_us"] > opened["created_us"]
    sandbox.close_port(3000)
    assert [p["port"] for p in sandbox.ports()] == [80]
    with pytest.raises(ClocheError) as e:
        sandbox.close_port(3000)
    assert e.value.status == 404


@pytest.mark.parametrize("body", [{}, {"port": 0}, {"port": 65536}, {"port": "80"}, {"port": 80, "x": 1}, {"port": 80, "expires_in_ms": 0}])
def test_a_wrong_field_is_named(daemon, sandbox, body):
    status, reply = call(daemon, "POST", f"/v1/sandboxes/{sandbox.id}/ports", body)
    assert status == 400 and reply["error"]["field"] in ("port", "x", "expires_in_ms")


def test_the_path_without_its_slash_leads_browsers_to_the_one_with_it_and_is_open_to_programs(web):
    status, headers, _ = web.ask("?a=1", headers=[("Accept", "text/html,*/*")])
    assert status == 308 and ("location", web.base + "/?a=1") in headers
    assert web.seen("")["path"] == "/" and web.seen("?a=1", headers=[("Accept", "*/*")])["path"] == "/?a=1"


def test_redirects_of_the_server_stay_below_the_port(web):
    for to, seen in {
        "/login?a=1": web.base + "/login?a=1",
        f"http://localhost:{PORT}/login": web.base + "/login",
        f"http://localhost:{PORT}?a=1": web.base + "/?a=1",
        f"http://{web.host}/login": web.base + "/login",
        "http://example.com/": "http://example.com/",
        "//example.com/": "//example.com/",
        f"http://localhost:{PORT}.example.com/": f"http://localhost:{PORT}.example.com/",
        "login": "login",
    }.items():
        raw = base64.b64encode(f"HTTP/1.1 302 Found\r\nLocation: {to}\r\nContent-Length: 0\r\n\r\n".encode()).decode()
        status, headers, _ = web.ask("/raw?" + raw)
        assert status == 302 and ("location", seen) in headers, to


ECHO = """
import socket
l = socket.socket(); l.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
l.bind(("127.0.0.1", 7000)); l.listen()
while True:
    c = l.accept()[0]
    while True:
        data = c.recv(65536)
        if not data: break
        c.sendall(data)
    c.sendall(b"END"); c.close()
"""


@pytest.fixture
def forwarded(cli, sandbox):
    """A port of this machine that leads to an echo inside."""
    sandbox.start(["python3", "-I", "-c", ECHO])
    probe = ["python3", "-I", "-c", "import socket; socket.create_connection(('127.0.0.1', 7000)).close()"]
    wait_for(lambda: sandbox.run(probe).exit_code == 0, 20, "an echo in the sandbox")
    p = cli.start("port-forward", sandbox.id, "0:7000")
    try:
        line = p.stdout.readline().decode()
        yield int(line.split(" ")[0].split(":")[1])
    finally:
        p.terminate()
        p.communicate()


@pytest.mark.vm
def test_a_forwarded_port_carries_bytes_both_ways_and_their_ends(forwarded):
    data = os.urandom(3_000_000)  # more than all buffers on the way hold
    with socket.create_connection(("127.0.0.1", forwarded), timeout=60) as s:
        sender = threading.Thread(target=lambda: (s.sendall(data), s.shutdown(socket.SHUT_WR)))
        sender.start()
        assert read_all(s) == data + b"END"
        sender.join()


# Takes a connection, after a head an upgraded one, and reads nothing more before somebody opens its gate.
PARKED = """
import hashlib, os, socket, sys
l = socket.socket(); l.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
l.bind(("127.0.0.1", 7001)); l.listen()
os.mkfifo("/tmp/gate")
print("ready", flush=True)
c = l.accept()[0]
if sys.argv[1] == "upgrade":
    while not c.recv(65536).endswith(b"\\r\\n\\r\\n"): pass
    c.sendall(b"HTTP/1.1 101 Switching Protocols\\r\\nUpgrade: websocket\\r\\nConnection: Upgrade\\r\\n"
              b"Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\\r\\n\\r\\n")
open("/tmp/gate").read()
h = hashlib.sha256()
while data := c.recv(65536):
    h.update(data)
print(h.hexdigest())
"""


@pytest.mark.parametrize("way", ["tcp", "upgrade"])
def test_what_was_sent_before_a_client_left_arrives(daemon, sandbox, way):
    """More than the kernel takes while nobody reads, so that a part of it waits in the daemon."""
    data = [os.urandom(60_000) for _ in range(66)]
    server = sandbox.start(["python3", "-I", "-c", PARKED, way], timeout=60)
    output = server.output()
    assert next(output).data == b"ready\n"
    if way == "tcp":
        ws = WebSocket(daemon, sandbox, path="ports/7001/tcp")
        for piece in data:
            ws.send(BINARY, piece)
        ws.say_goodbye()
        ws.close()
    else:
        with Web(daemon, sandbox.expose(7001)["url"]).upgrade() as s:
            s.sendall(b"".join(data))
    sandbox.run(": > /tmp/gate")
    assert next(output).data.split() == [hashlib.sha256(b"".join(data)).hexdigest().encode()]


def test_a_forwarded_port_where_nothing_listens_ends_the_connection(cli, sandbox):
    p = cli.start("port-forward", sandbox.id, "0:9")
    try:
        port = int(p.stdout.readline().decode().split(" ")[0].split(":")[1])
        with socket.create_connection(("127.0.0.1", port), timeout=60) as s:
            assert read_all(s) == b""
    finally:
        p.terminate()
        p.communicate()


def test_the_command_line_gives_a_link_and_closes_it(daemon, cli, sandbox):
    start_server(sandbox)
    url = cli.ok("url", "--expires", "1h", sandbox.id, str(PORT)).strip()
    assert url.startswith(f"{daemon.url}/p/{sandbox.id}/{PORT}~pt_")
    assert Web(daemon, url).seen("/x")["path"] == "/x"
    cli.ok("url", "--close", sandbox.id, str(PORT))
    assert Web(daemon, url).ask()[0] == 401
    assert cli("url", sandbox.id, "70000")[0] != 0


def test_ports_named_at_create_are_open_at_once(daemon, make_sandbox):
    sandbox = make_sandbox(ports=[PORT, 80])
    assert [p["port"] for p in sandbox.ports()] == [80, PORT]
    start_server(sandbox)
    assert Web(daemon, sandbox.port_url(PORT)).seen("/at-once")["path"] == "/at-once"
    for ports in ([0], [65536], ["80"], list(range(1, 40))):
        status, reply = call(daemon, "POST", "/v1/sandboxes", {"ports": ports})
        assert status == 400 and reply["error"]["field"] == "ports"


@pytest.mark.parametrize("how", ["pause", "stop"])
def test_a_visit_wakes_a_sandbox_at_rest(daemon, make_sandbox, how):
    sandbox = make_sandbox(persistent=True, auto_resume=True)
    start_server(sandbox)
    web = Web(daemon, sandbox.expose(PORT)["url"])
    assert web.ask("/")[0] == 200
    getattr(sandbox, how)()
    status, _, body = web.ask("/", timeout=30)
    assert sandbox.refresh().state == "running"
    if how == "pause":
        assert status == 200
    else:  # its server has ended with it
        assert status == 502 and b"nothing listens" in body
        start_server(sandbox)
        assert web.ask("/")[0] == 200


def test_a_visit_without_a_token_wakes_nobody(daemon, make_sandbox):
    sandbox = make_sandbox(persistent=True)
    url = sandbox.expose(PORT)["url"]
    sandbox.stop()
    status, _, _ = Web(daemon, url.replace("~", "~x")).ask("/")
    assert status >= 400 and sandbox.refresh().state == "stopped"
