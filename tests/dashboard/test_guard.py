# SPDX-License-Identifier: Apache-2.0
"""Nobody uses a login but the dashboard's own pages (A12). Every attempt stands beside one that gets in."""

import base64
import http.server
import socket
import subprocess
import threading

import pytest
from cloche import Client
from dashboard.conftest import Dashboard
from harness.daemon import Daemon, call, parse_reply, wait_for

OURS = {"X-Cloche-Dashboard": "1"}


def log_in(daemon, key=None, **fields):
    """The token of a fresh login."""
    body = fields or {"key": key or daemon.key}
    head = f"POST /v1/login HTTP/1.1\r\nHost: 127.0.0.1:{daemon.port}\r\nContent-Type: application/json\r\nConnection: close\r\n"
    text = str(body).replace("'", '"')
    status, headers, _ = parse_reply(daemon.raw(f"{head}Content-Length: {len(text)}\r\n\r\n{text}".encode()))
    assert status == 200
    cookie = headers["set-cookie"]
    assert "HttpOnly" in cookie and "SameSite=Strict" in cookie and "Domain" not in cookie
    return cookie.partition("=")[2].partition(";")[0]


def by_cookie(daemon, token, method="GET", path="/v1/sandboxes", body=None, **headers):
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    return call(daemon, method, path, body, key="", headers={"Cookie": f"cloche_login={token}", **sent})[0]


@pytest.fixture(scope="module")
def guarded():
    """A daemon of its own: it counts failures, and is killed."""
    daemon = Daemon("--pool-max", "0").start()
    try:
        yield daemon
    finally:
        status = daemon.stop()
        daemon.remove()
    assert status == 0


@pytest.fixture(scope="module")
def token(guarded):
    return log_in(guarded)


@pytest.fixture(scope="module")
def client(guarded):
    with Client(guarded.url, guarded.key) as client:
        yield client


@pytest.fixture(scope="module")
def socket_path(client):
    """Of a WebSocket that is there to be opened."""
    with client.create() as sandbox:
        run = sandbox.start(["sleep", "1000"], open_stdin=True)
        yield f"/v1/sandboxes/{sandbox.id}/execs/{run.id}/attach"
        run.kill()


def test_A12_a_cookie_counts_only_with_our_header_from_our_origin(guarded, token):
    refused = (401, 403, 429)
    assert by_cookie(guarded, token, **OURS) == 200
    assert by_cookie(guarded, token, **OURS, Sec_Fetch_Site="same-origin", Origin=guarded.url) == 200
    assert by_cookie(guarded, token) in refused
    for site in ("cross-site", "same-site", "none"):
        assert by_cookie(guarded, token, **OURS, Sec_Fetch_Site=site) in refused
    for origin in ("http://127.0.0.1:1", "null", "https://example.com"):
        assert by_cookie(guarded, token, **OURS, Origin=origin) == 403
    assert by_cookie(guarded, token, "DELETE", "/v1/keys/key_none", **OURS) == 404
    assert by_cookie(guarded, token, "DELETE", "/v1/keys/key_none") in refused


def test_A12_a_cookie_opens_nothing_but_the_api(guarded, token):
    for path in ("/sandboxes", "/v2/sandboxes", "/mcp", "/metrics"):
        assert by_cookie(guarded, token, path=path, **OURS) in (401, 403, 404, 429), path
    assert by_cookie(guarded, token, path="/v1/health", **OURS) == 200


def test_A12_what_is_no_login_lets_nobody_in(guarded, token):
    refused = (401, 429)
    wrong = "0" * 64
    assert by_cookie(guarded, token, **OURS) == 200
    for value in (wrong, token[:-1], token + "0", token.upper(), "", f"{token}; cloche_login={wrong}", f"{wrong}; cloche_login={token}"):
        assert by_cookie(guarded, value, **OURS) in refused, value


def upgrade(daemon, path, token, *fields):
    key = base64.b64encode(b"0" * 16).decode()
    head = [f"GET {path} HTTP/1.1", f"Host: 127.0.0.1:{daemon.port}", f"Cookie: cloche_login={token}", "Connection: Upgrade", "Upgrade: websocket",
            "Sec-WebSocket-Version: 13", f"Sec-WebSocket-Key: {key}", *fields, "", ""]
    with socket.create_connection(("127.0.0.1", daemon.port), timeout=60) as s:
        s.sendall("\r\n".join(head).encode())
        return int(s.makefile("rb").readline().split()[1])


def test_A12_a_websocket_needs_our_origin(guarded, token, socket_path):
    assert upgrade(guarded, socket_path, token, f"Origin: {guarded.url}") == 101
    assert upgrade(guarded, socket_path, token) in (401, 429)
    assert upgrade(guarded, socket_path, token, "Origin: http://127.0.0.1:1") == 403
    assert upgrade(guarded, socket_path, token, f"Origin: {guarded.url}", "Sec-Fetch-Site: same-site") in (401, 429)


def test_a_login_ends_with_its_key_and_has_its_scope(guarded, client):
    made = client.create_key("short", scope="read")
    token = log_in(guarded, made["secret"])
    assert by_cookie(guarded, token, **OURS) == 200
    assert by_cookie(guarded, token, "POST", "/v1/sandboxes", {}, **OURS) == 403
    client.revoke_key(made["key"]["id"])
    assert by_cookie(guarded, token, **OURS) in (401, 429)


def test_a_login_survives_the_daemon_and_a_link_does_not(guarded):
    token = log_in(guarded)
    link = call(guarded, "POST", "/v1/login/links")[1]["link"]
    other = call(guarded, "POST", "/v1/login/links")[1]["link"]
    assert call(guarded, "POST", "/v1/login", {"link": other}, key="")[0] == 200
    guarded.kill_parts("gateway")
    assert by_cookie(guarded, token, **OURS) == 200
    assert call(guarded, "POST", "/v1/login", {"link": link}, key="")[0] == 401


def test_wrong_logins_are_slowed_down_and_a_good_one_is_let_in(guarded):
    tries = [call(guarded, "POST", "/v1/login", {"key": f"clo_{n:040x}"}, key="")[0] for n in range(25)]
    assert tries[0] == 401 and tries[-1] == 429
    assert log_in(guarded)


def test_tokens_are_kept_nowhere(guarded):
    token = log_in(guarded)
    link = call(guarded, "POST", "/v1/login/links")[1]["link"]
    files = [p for p in guarded.dir.rglob("*") if p.is_file() and p.stat().st_size < 64 << 20]
    assert any(p.name == "state.db" for p in files)
    for secret in (token, link):
        assert not [p for p in files if secret.encode() in p.read_bytes()]


def test_with_tls_the_cookie_is_for_tls_alone(tmp_path):
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2", "-subj", "/CN=localhost",
                    "-keyout", key, "-out", cert], check=True, stderr=subprocess.DEVNULL)
    daemon = Daemon("--pool-max", "0", "--tls-cert", str(cert), "--tls-key", str(key)).start()
    try:
        body = f'{{"key": "{daemon.key}"}}'
        told = subprocess.run(["curl", "-sik", f"https://127.0.0.1:{daemon.port}/v1/login", "-H", "Content-Type: application/json", "-d", body],
                              check=True, stdout=subprocess.PIPE, text=True).stdout
        assert "Set-Cookie: __Host-cloche_login=" in told and "; Secure" in told
    finally:
        status = daemon.stop()
        daemon.remove()
    assert status == 0


ATTACK = """<!doctype html><title>waiting</title><form id=f method=post action="{url}/v1/login" target=t enctype="text/plain"><input name='{{"key":"' value='x"}}'></form>
<iframe name=t></iframe><iframe src="{url}/"></iframe><img src="{url}/v1/sandboxes"><script src="{url}/v1/sandboxes"></script><script>
const said = [];
const say = (name) => (value) => said.push(name + " " + value);
const tries = [
  fetch("{url}/v1/keys", {{method: "POST", credentials: "include", headers: {{"Content-Type": "application/json", "X-Cloche-Dashboard": "1"}}, body: '{{"name": "stolen"}}'}}).then((r) => r.status).then(say("post"), say("post")),
  fetch("{url}/v1/keys", {{method: "POST", credentials: "include", mode: "no-cors", body: '{{"name": "stolen"}}'}}).then((r) => r.type).then(say("simple"), say("simple")),
  fetch("{url}/v1/login", {{credentials: "include"}}).then((r) => r.text()).then(say("who"), say("who")),
  new Promise((done) => {{ const ws = new WebSocket("{ws}"); ws.onopen = () => done("open"); ws.onerror = () => done("refused"); }}).then(say("socket")),
];
document.getElementById("f").submit();
Promise.allSettled(tries).then(() => {{ window.said = said; document.title = "done"; }});
</script>"""


@pytest.fixture
def foreign_site(guarded, socket_path):
    """A page on another port of the same machine: of the same site to a cookie, and of another origin."""
    text = ATTACK.format(url=guarded.url, ws=guarded.url.replace("http", "ws") + socket_path).encode()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    thread.join()
    server.server_close()


def test_A12_a_page_beside_ours_does_nothing_with_our_login(browser, guarded, client, socket_path, foreign_site):
    with Dashboard(browser, guarded).open("/") as page:
        # The same calls from our own page are answered.
        assert page.evaluate("fetch('/v1/keys', {headers: {'X-Cloche-Dashboard': '1'}}).then((r) => r.status)") == 200
        assert page.evaluate("(path) => new Promise((done) => { const ws = new WebSocket(path); ws.onopen = () => (ws.close(), done('open')); ws.onerror = () => done('refused'); })",
                             guarded.url.replace("http", "ws") + socket_path) == "open"
        page.watch.allow(foreign_site, "console", "Refused", "asks")
        page.goto(foreign_site)
        wait_for(lambda: page.title() == "done", 30, "the attack's end")
        said = page.evaluate("window.said")
        assert "socket refused" in said and not any("200" in s or "201" in s or "clo" in s for s in said), said
        framed = [f for f in page.frames if f.url == guarded.url + "/" and f.query_selector("#root")]
        assert not framed, "another page shows ours in a frame"
    assert "stolen" not in [k["name"] for k in client.keys()]


def test_files_come_compressed_or_not_and_may_be_kept(guarded):
    daemon = guarded
    status, headers, body = parse_reply(daemon.raw(f"GET / HTTP/1.1\r\nHost: 127.0.0.1:{daemon.port}\r\nConnection: close\r\n\r\n".encode()))
    assert status == 200 and headers["cache-control"] == "no-cache"
    policy = headers["content-security-policy"]
    assert "default-src 'none'" in policy and "unsafe" not in policy and "frame-ancestors 'none'" in policy
    script = body.decode().partition('script type="module" src="')[2].partition('"')[0]
    for accept, coding in (("identity", None), ("br;q=1, gzip", "gzip"), ("gzip;q=0", None)):
        asked = f"GET {script} HTTP/1.1\r\nHost: 127.0.0.1:{daemon.port}\r\nAccept-Encoding: {accept}\r\nConnection: close\r\n\r\n"
        status, headers, data = parse_reply(daemon.raw(asked.encode()))
        assert (status, headers.get("content-encoding")) == (200, coding)
        assert "immutable" in headers["cache-control"] and (data[:2] == b"\x1f\x8b") == bool(coding)
    assert parse_reply(daemon.raw(f"GET /assets/../index.html HTTP/1.1\r\nHost: 127.0.0.1:{daemon.port}\r\nConnection: close\r\n\r\n".encode()))[0] in (400, 401, 404, 429)
    rebound = parse_reply(daemon.raw(b"GET / HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n"))
    assert rebound[0] == 403
