# SPDX-License-Identifier: Apache-2.0
"""Ports in: what a visitor, a page and a server inside must not be able to do to the daemon and to each other."""

import base64
import time

import pytest
from cloche import Client
from harness.daemon import Daemon, memory_kib, parse_reply, wait_for
from harness.web import PORT, Web, start_server

DOMAIN = "preview.test"


@pytest.fixture(scope="module")
def named():
    """A daemon that serves previews by name: (daemon, sandbox with a server, host name)."""
    daemon = Daemon("--preview-domain", DOMAIN).start()
    try:
        with Client(daemon.url, daemon.key) as client, client.create() as sandbox:
            start_server(sandbox)
            yield daemon, sandbox, f"{PORT}-{sandbox.id[3:]}.{DOMAIN}"
    finally:
        daemon.stop()
        daemon.remove()


@pytest.fixture
def web(daemon, sandbox):
    start_server(sandbox)
    return Web(daemon, sandbox.expose(PORT)["url"])


def raw(answer):
    """A path for which the server inside sends these very bytes."""
    return "/raw?" + base64.b64encode(answer).decode()


def names(fields):
    return {name.lower() for name, _ in fields}


def values(headers, name):
    return [v for n, v in headers if n == name]


def test_N26_who_has_no_token_of_this_port_learns_nothing(daemon, client, make_sandbox):
    one, other = make_sandbox(), make_sandbox()
    start_server(one)
    token = one.expose(PORT)["token"]
    second = one.expose(PORT + 1)["token"]
    foreign = other.expose(PORT)["token"]
    brief = one.expose(PORT + 2, expires_in=0.001)["token"]
    time.sleep(0.002)
    web = Web(daemon, f"{daemon.url}/p/{one.id}/{PORT}/")
    tries = {
        "none": web.ask(),
        "another port's": web.ask(headers=[("X-Cloche-Token", second)]),
        "another sandbox's": web.ask(headers=[("X-Cloche-Token", foreign)]),
        "a made-up one": web.ask(headers=[("X-Cloche-Token", "pt_" + "a" * 26)]),
        "an API key": web.ask(headers=[("Authorization", f"Bearer {daemon.key}")]),
        "in a cookie": web.ask(headers=[("Cookie", f"cloche_port={token}")]),
        "expired": Web(daemon, f"{daemon.url}/p/{one.id}/{PORT + 2}/").ask(headers=[("X-Cloche-Token", brief)]),
        "no such port": Web(daemon, f"{daemon.url}/p/{one.id}/9/").ask(headers=[("X-Cloche-Token", token)]),
        "no such sandbox": Web(daemon, f"{daemon.url}/p/sb_{'a' * 26}/{PORT}/").ask(headers=[("X-Cloche-Token", token)]),
        "no id": Web(daemon, f"{daemon.url}/p/../{PORT}/").ask(),
    }
    plain = {key: (status, body.split(b"request_id")[0]) for key, (status, _, body) in tries.items()}
    assert set(plain.values()) == {plain["none"]} and plain["none"][0] == 401, plain
    assert web.ask(headers=[("X-Cloche-Token", token)])[0] == 200  # the control
    one.expose(PORT)
    assert web.ask(headers=[("X-Cloche-Token", token)])[0] == 401  # a new token ends the old one


def test_N26_keys_cookies_and_tokens_of_ours_never_reach_the_server(daemon, sandbox, web):
    seen = web.seen(
        "/",
        headers=[
            ("Authorization", f"Bearer {daemon.key}"),
            ("X-API-Key", daemon.key),
            ("X-Cloche-Token", "pt_" + "a" * 26),
            ("Cookie", "session=1"),
            ("X-Forwarded-For", "6.6.6.6"),
            ("X-Forwarded-Host", "evil.example"),
            ("X-Forwarded-Anything", "evil.example"),
            ("X_Forwarded_Host", "evil.example"),  # the same to who makes variables of them
            ("Transfer_Encoding", "chunked"),
            ("Content_Length", "5"),
            ("Connection", "x-private, close"),
            ("X-Private", "1"),
            ("TE", "trailers"),
            ("Expect", "100-continue"),
            ("Proxy-Authorization", "Basic eDp5"),
        ],
    )
    allowed = {"host", "connection", "x-forwarded-proto", "x-forwarded-host"}
    assert names(seen["fields"]) == allowed, seen["fields"]
    assert daemon.key not in str(seen) and "evil.example" not in str(seen)
    fields = web.seen("/", headers=[("Authorization", "Basic YXBwOnB3"), ("X-Api-Key", "the-app's-own")])["fields"]
    assert {"authorization", "x-api-key"} <= names(fields)  # the control: the app's own pass


SMUGGLED = {
    "length and chunks": b"Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "two lengths": b"Content-Length: 0\r\nContent-Length: 5\r\n\r\n12345",
    "length list": b"Content-Length: 5, 5\r\n\r\n12345",
    "odd coding": b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
    "two codings": b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n",
    "blank before colon": b"Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n",
    "folded": b"X: a\r\n Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "bare line feed": b"X: a\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "bad chunk": b"Transfer-Encoding: chunked\r\n\r\n0x5\r\n12345\r\n0\r\n\r\n",
}


@pytest.mark.parametrize("name", SMUGGLED)
def test_N26_a_request_with_two_readings_is_not_passed_on(daemon, web, name):
    head = f"POST {web.base}/first HTTP/1.1\r\nHost: {web.host}\r\n".encode()
    smuggled = f"GET {web.base}/smuggled HTTP/1.1\r\nHost: {web.host}\r\n\r\n".encode()
    data = daemon.raw(head + SMUGGLED[name] + smuggled, timeout=5)
    assert data.count(b"HTTP/1.1 ") == 1 and b"/smuggled" not in data, data
    assert parse_reply(data)[0] in (400, 501)


HOSTILE = {
    "no HTTP": b"\x16\x03\x01 hello\r\n\r\n",
    "length and chunks": b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "two lengths": b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
    "unasked upgrade": b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n",
    "interims without end": b"HTTP/1.1 100 Continue\r\n\r\n" * 100,
    "a head without end": b"HTTP/1.1 200 OK\r\nX: " + b"a" * 8000,
    "many fields": b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 500 + b"\r\n",
    "nothing": b"",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_N26_an_answer_that_is_none_becomes_an_error_of_ours(web, name):
    status, _, body = web.ask(raw(HOSTILE[name]) if HOSTILE[name] else "/raw?")
    assert status == 502 and b'"guest_error"' in body


def test_N26_an_answer_cut_short_is_not_taken_for_a_whole_one(web):
    for answer in (b"Content-Length: 10\r\n\r\nabc", b"Transfer-Encoding: chunked\r\n\r\n5\r\nabc", b"Transfer-Encoding: chunked\r\n\r\nzz\r\n"):
        with pytest.raises(Exception, match="(?i)incomplete|reset|aborted"):
            web.ask(raw(b"HTTP/1.1 200 OK\r\n" + answer))
    status, headers, body = web.ask(raw(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nabHTTP/1.1 200 OK\r\nX-Second: 1\r\n\r\n"))
    assert (status, body) == (200, b"ab") and not values(headers, "x-second")


def test_N26_A22_by_path_a_page_is_of_no_origin_and_keeps_nothing(web):
    answer = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nSet-Cookie: a=1; Path=/\r\nClear-Site-Data: *\r\nService-Worker-Allowed: /\r\nStrict-Transport-Security: max-age=1\r\nContent-Security-Policy: default-src *\r\nX-Own: 1\r\nContent-Length: 2\r\n\r\nhi"
    status, headers, _ = web.ask(raw(answer))
    policies = values(headers, "content-security-policy")
    assert status == 200 and any(p.startswith("sandbox ") and "same-origin" not in p for p in policies)
    assert values(headers, "x-content-type-options") == ["nosniff"] and values(headers, "referrer-policy") == ["no-referrer"]
    for name in ("set-cookie", "clear-site-data", "service-worker-allowed", "strict-transport-security"):
        assert not values(headers, name), name
    assert values(headers, "x-own") == ["1"]  # the control


def test_N26_by_name_a_sandbox_has_cookies_of_its_own_and_no_others(named):
    daemon, sandbox, host = named
    sandbox.expose(PORT, public=True)
    web = Web(daemon, f"http://{host}/", host)
    answer = b"HTTP/1.1 200 OK\r\nSet-Cookie: a=1; Path=/\r\nSet-Cookie: b=1; Domain=preview.test\r\nSet-Cookie: cloche_port=x\r\nSet-Cookie: c=1;domain =.preview.test\r\nContent-Length: 0\r\n\r\n"
    assert values(web.ask(raw(answer))[1], "set-cookie") == ["a=1; Path=/"]
    seen = web.seen("/", headers=[("Cookie", "a=1; cloche_port=pt_x; b=2")])
    assert ["Cookie", "a=1; b=2"] in seen["fields"]


FOREIGN_COOKIES = ("b=1; Domain=preview.test", "c=1;domain =.preview.test", "d=1; Path=/;DOMAIN\t=preview.test", "e=1; domain", "cloche_port=x", " cloche_port =x",
                   "cloche_port\t=x", "=cloche_port=x", "= cloche_port=x")
OF_THE_SITE = {"Clear-Site-Data": '"cookies", "storage"', "Strict-Transport-Security": "max-age=1; includeSubDomains", "Alt-Svc": 'h3=":443"', "NEL": "{}",
               "Report-To": "{}", "Set-Cookie2": "a=1", "Public-Key-Pins": "x", "Expect-CT": "max-age=1", "Set-Login": "logged-in",
               "Secure-Session-Registration": "(ES256)", "Sec-Session-Registration": "(ES256)", "clear_site_data": '"*"'}


def test_N30_by_name_no_field_acts_on_the_whole_site(named):
    daemon, sandbox, host = named
    sandbox.expose(PORT, public=True)
    fields = [*(("Set-Cookie", cookie) for cookie in FOREIGN_COOKIES), *OF_THE_SITE.items(), ("Set-Cookie", "own=1"), ("X-Own", "1"),
              ("Service-Worker-Allowed", "/"), ("Origin-Agent-Cluster", "?0")]
    answer = "HTTP/1.1 200 OK\r\n" + "".join(f"{name}: {value}\r\n" for name, value in fields) + "Content-Length: 0\r\n\r\n"
    _, headers, _ = Web(daemon, f"http://{host}/", host).ask(raw(answer.encode()))
    assert values(headers, "set-cookie") == ["own=1"] and values(headers, "x-own") == ["1"]  # the answer came through
    assert values(headers, "service-worker-allowed") == ["/"]  # that is for its own name alone
    assert values(headers, "origin-agent-cluster") == ["?1"]
    assert not [name for name in OF_THE_SITE if values(headers, name.lower())]


def test_N26_a_token_in_the_query_moves_into_a_cookie_of_that_name_alone(named):
    daemon, sandbox, host = named
    opened = sandbox.expose(PORT)
    assert opened["host_url"] == f"http://{host}:{daemon.port}/?cloche_token={opened['token']}"
    web = Web(daemon, f"http://{host}/", host)
    status, headers, _ = web.ask(f"/page?x=1&cloche_token={opened['token']}&y=2")
    assert status == 303 and values(headers, "location") == ["/page?x=1&y=2"]
    cookie = values(headers, "set-cookie")[0]
    assert cookie.startswith(f"cloche_port={opened['token']}; Path=/;") and "HttpOnly" in cookie and "SameSite=Lax" in cookie
    assert "Domain" not in cookie
    kept = [("Cookie", f"cloche_port={opened['token']}")]
    assert web.seen("/page", headers=kept)["path"] == "/page"
    assert web.ask("/page", headers=[*kept, ("Origin", f"http://{host}")])[0] == 200
    assert web.ask("/page", headers=[*kept, ("Origin", f"http://3000-{'b' * 26}.{DOMAIN}")])[0] == 401
    assert web.ask("/page", headers=[*kept, ("Origin", "null")])[0] == 401


@pytest.mark.parametrize("label", ["www", "3000", "3000-", "-x", "0-{id}", "65536-{id}", "03000-{id}", "3000-{id}.x", "3001-{id}", "3000-{id}-x"])
def test_N26_a_name_below_the_domain_is_never_the_api(named, label):
    daemon, sandbox, _ = named
    host = f"{label.format(id=sandbox.id[3:])}.{DOMAIN}"
    status, _, body = Web(daemon, f"http://{host}/", host).ask("/v1/sandboxes", headers=[("Authorization", f"Bearer {daemon.key}")])
    assert status == 401 and b'"sandboxes"' not in body


def test_N26_by_path_only_the_daemons_own_names_are_answered(daemon, web):
    web.host = "evil.example"
    assert web.ask()[0] == 403


def test_E49_what_was_asked_for_does_not_show_in_a_page_of_ours(daemon, sandbox):
    html = [("Accept", "text/html")]
    for part in ("<script>alert(1)<", '"><img%20src=x>', "%3Cscript%3Ealert(1)", "'onload=alert(1)", "\\x1b]52;c;"):
        for path in (f"/p/{part}/3000/", f"/p/{sandbox.id}/{part}/", f"/p/{sandbox.id}/3000~{part}/"):
            status, headers, body = Web(daemon, f"{daemon.url}{path}").ask(headers=html)
            assert b"alert" not in body and b"<img" not in body and b"52;c" not in body
            assert status == 400 or (status == 401 and "default-src 'none'" in values(headers, "content-security-policy")[0])


def test_N25_a_reader_that_stops_costs_bounded_memory_and_too_many_are_refused(daemon, sandbox, web):
    before = memory_kib(daemon.gateway_pid)
    conns = []
    try:
        for _ in range(20):
            s = web.connect()
            s.sendall(f"GET {web.base}/big HTTP/1.1\r\nHost: {web.host}\r\n\r\n".encode())
            conns.append(s)
        for s in conns:
            assert s.recv(1)
        assert memory_kib(daemon.gateway_pid) - before < 64 * 1024
        for _ in range(110):
            s = web.connect()
            s.sendall(f"GET {web.base}/slow-events HTTP/1.1\r\nHost: {web.host}\r\n\r\n".encode())
            conns.append(s)
        wait_for(lambda: web.ask()[0] == 429, 20, "a refusal")
    finally:
        for s in conns:
            s.close()
    wait_for(lambda: web.ask()[0] == 200, 20, "room again")


def test_N25_a_websocket_is_taken_from_as_fast_as_the_other_side_takes(daemon, web):
    """The server echoes: who does not read what comes back is not read from either, in the end."""
    before = memory_kib(daemon.gateway_pid)
    with web.upgrade() as s:
        s.settimeout(1)
        sent = 0
        with pytest.raises(TimeoutError):
            while sent < 200_000_000:
                sent += s.send(b"x" * 1_000_000)
        assert memory_kib(daemon.gateway_pid) - before < 16 * 1024
        s.settimeout(20)
        got = 0
        while got < sent:
            part = s.recv(1 << 20)
            assert part
            got += len(part)


def test_N25_a_visitor_who_leaves_frees_a_server_that_never_answers(web):
    for _ in range(2):
        conns = [web.connect() for _ in range(128)]
        for s in conns:
            s.sendall(f"GET {web.base}/silent HTTP/1.1\r\nHost: {web.host}\r\n\r\n".encode())
        wait_for(lambda: web.ask()[0] == 429, 20, "a refusal")
        for s in conns:
            s.close()
        wait_for(lambda: web.ask()[0] == 200, 20, "room again")


def test_N25_websockets_that_say_nothing_cost_little(daemon, web):
    def open_all():
        conns = [web.upgrade() for _ in range(100)]
        for s in conns:
            s.sendall(b"x" * 100_000)
        for s in conns:
            left = 100_000
            while left:
                left -= len(s.recv(left))
        return conns

    for s in open_all():  # what the first time costs is not theirs
        s.close()
    wait_for(lambda: web.ask()[0] == 200, 20, "room again")
    before = memory_kib(daemon.gateway_pid)
    conns = open_all()
    try:
        assert memory_kib(daemon.gateway_pid) - before < 100 * 48  # half of what came and went on each
    finally:
        for s in conns:
            s.close()


def wait_cut(s):
    try:
        while s.recv(65536):
            pass
    except ConnectionResetError:
        pass


def test_N26_a_token_that_ends_takes_its_visitors_along(daemon, sandbox, web):
    with web.upgrade() as s:
        sandbox.expose(PORT)
        wait_cut(s)  # by the new token
    for seconds in (1, 4, 16):  # a busy machine may need longer to get there at all
        brief = Web(daemon, sandbox.expose(PORT, expires_in=seconds)["url"])
        try:
            s = brief.upgrade()
            break
        except AssertionError:
            assert seconds < 16
    with s:
        wait_cut(s)  # by its own end
    assert brief.ask()[0] == 401


def test_N24_closing_a_port_cuts_who_is_connected(sandbox, web):
    with web.connect() as s:
        s.sendall(f"GET {web.base}/slow-events HTTP/1.1\r\nHost: {web.host}\r\n\r\n".encode())
        assert s.recv(65536)
        sandbox.close_port(PORT)
        wait_cut(s)
    assert web.ask()[0] == 401
