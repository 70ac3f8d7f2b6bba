# SPDX-License-Identifier: Apache-2.0
"""Previews in a real browser: a Node server inside is seen, by path and by name; and what its pages cannot do to
the daemon and to the pages of another sandbox."""

from pathlib import Path

import pytest
from cloche import Client
from harness.browser import Browser
from harness.daemon import Daemon

SITE = Path(__file__).resolve().parents[1] / "harness" / "site.js"
DOMAIN = "preview.localhost"  # which a browser takes for this machine, and for as safe as https
PORT = 3000


class Site:
    """A sandbox with a Node server, as `name` calls itself."""

    def __init__(self, client, name):
        self.name, self.sandbox = name, client.create(ports=[PORT])
        self.sandbox.files.write("/tmp/site.js", SITE.read_bytes())
        self.opened = self.sandbox.expose(PORT)
        self.url = {"path": self.opened["url"], "name": self.opened["host_url"]}
        self.origin = self.opened["host_url"].split("/?")[0]

    def start(self):
        server = self.sandbox.start(["node", "/tmp/site.js", self.name, str(PORT)])
        output = server.output()
        assert any(b"listening" in (e.data or b"") for e in output)
        output.close()
        return self


@pytest.fixture(scope="module")
def browser():
    browser = Browser()
    yield browser
    browser.close()


@pytest.fixture(scope="module")
def named_daemon():
    daemon = Daemon("--preview-domain", DOMAIN).start()
    yield daemon
    daemon.stop()
    daemon.remove()


@pytest.fixture(scope="module")
def named_client(named_daemon):
    with Client(named_daemon.url, named_daemon.key) as client:
        yield client


@pytest.fixture(scope="module")
def sites(named_client):
    one, other = (Site(named_client, name).start() for name in ("one", "other"))
    yield one, other
    for site in (one, other):
        site.sandbox.delete()


@pytest.mark.parametrize("form", ["path", "name"])
def test_a_node_server_inside_is_seen_by_a_browser_with_its_websocket(browser, sites, form):
    with browser.page() as page:
        page.go(sites[0].url[form])
        assert page.wait("document.getElementById('echo').textContent") == "one: hello"
        assert page.run("document.querySelector('h1').textContent") == "Hello from one"
        assert sites[0].opened["token"] not in page.run("location.href") or form == "path"


def test_the_page_where_nothing_listens_yet_turns_into_the_servers(browser, named_client):
    site = Site(named_client, "late")
    with site.sandbox, browser.page() as page, browser.page() as second:
        page.go(site.url["path"])
        second.go(site.url["name"])
        for p in (page, second):
            assert p.wait("document.querySelector('h1')?.textContent") == "Nothing is listening yet"
        site.start()
        for p in (page, second):
            assert p.wait("document.title === 'late'")


def test_N26_A22_by_path_a_page_has_no_origin_in_a_browser(browser, sites, named_daemon):
    kept = {
        "cookies": "document.cookie = 'a=1'",
        "storage": "localStorage.setItem('a', '1') || 'kept'",
        "a worker": "navigator.serviceWorker.register('worker.js').then(() => 'kept')",
        "the API": "fetch('/v1/health').then((r) => 'read ' + r.status)",
        "a frame": "new Promise((done) => { const f = document.createElement('iframe'); f.src = '/v1/health'; "
        "f.onload = () => done(f.contentDocument ? 'read' : 'SecurityError: no document'); document.body.append(f); })",
    }
    with browser.page() as page:
        page.go(sites[0].url["path"])
        assert page.run("self.origin") == "null"
        tried = {name: page.run(code) for name, code in kept.items()}
        assert all(str(t).startswith(("SecurityError", "TypeError", "NotSupportedError", "InvalidStateError")) for t in tried.values()), tried
        page.go(f"{named_daemon.url}/v1/health")  # the controls: a page of the daemon's own, and one by name
        assert page.run(kept["the API"]) == "read 200"
        page.go(sites[0].url["name"])
        assert [page.run(kept[k]) for k in ("cookies", "storage", "a worker")] == ["a=1", "kept", "kept"]
        assert page.run(f"fetch('{named_daemon.url}/v1/health').then((r) => 'read ' + r.status)").startswith("TypeError")


def test_N26_cookies_of_one_sandbox_are_not_anothers(browser, sites):
    one, other = sites
    with browser.page() as page:
        page.go(one.url["name"])
        page.run("fetch('cookies').then((r) => r.text())")
        assert page.run("fetch('cookies').then((r) => r.text())") == "by_one=1"  # the control; ours is not shown inside
        page.go(other.url["name"])
        assert page.run("document.cookie") == ""
        assert page.run("fetch('cookies').then((r) => r.text())") == ""
        # A script may set a cookie for the names beside its own. It does not take another's link away.
        page.go(one.url["name"])
        page.run(f"document.cookie = 'cloche_port=pt_{'a' * 26}; path=/; domain={DOMAIN}'")
        page.run(f"document.cookie = 'cloche_port=pt_{'b' * 26}; path=/where; domain={DOMAIN}'")
        page.go(other.origin + "/where")
        assert page.run("document.body.textContent") == "server of other"


def test_N26_workers_and_domains_of_one_sandbox_do_not_reach_another(browser, sites):
    one, other = sites
    where = "fetch('/where').then((r) => r.text())"
    with browser.page() as page:
        page.go(one.url["name"])
        assert page.run("navigator.serviceWorker.register('/worker.js').then(() => navigator.serviceWorker.ready).then(() => 'on')") == "on"
        assert page.wait(f"{where}.then((t) => t === 'worker of one')")  # the control
        assert page.run(f"document.domain = '{DOMAIN}'") in (DOMAIN, "SecurityError") and page.run("originAgentCluster") is True
        page.go(other.url["name"])
        assert page.run(where) == "server of other"


def test_N26_a_page_of_one_sandbox_cannot_read_another_with_the_visitors_token(browser, sites):
    one, other = sites
    load = "new Promise((done) => {{ const s = document.createElement('script'); s.src = '{}/secret.js'; s.onload = () => done(window.secret); s.onerror = () => done('refused'); document.head.append(s); }})"
    frame = "new Promise((done) => {{ const f = document.createElement('iframe'); f.src = '{}/'; f.onload = () => done(f.contentDocument ? f.contentDocument.title : 'closed'); document.body.append(f); }})"
    with browser.page() as page:
        page.go(other.url["name"])
        assert page.run(load.format(other.origin)) == "of other"  # the controls
        assert page.run(frame.format(other.origin)) == "other"
        page.go(one.url["name"])
        assert page.run(load.format(other.origin)) == "refused"
        assert page.run(frame.format(other.origin)) == "closed"
        assert page.run(f"fetch('{other.origin}/where', {{credentials: 'include', mode: 'no-cors'}}).then((r) => r.type)") == "opaque"
        assert page.run(f"fetch('{other.origin}/where', {{credentials: 'include'}}).then((r) => r.text())").startswith("TypeError")
        socket = f"new Promise((done) => {{ const s = new WebSocket('{other.origin.replace('http', 'ws')}/ws'); s.onopen = () => done('open'); s.onerror = () => done('refused'); }})"
        assert page.run(socket) == "refused"
