# SPDX-License-Identifier: Apache-2.0
"""Fixtures of the dashboard's suite: one Chromium for all of it, and pages that must neither ask anybody but the daemon, nor be
refused anything by their own policy, nor say an error."""

import contextlib
import os
import re
import shutil
import socketserver
import threading

import pytest
from harness.daemon import BUILD, end
from playwright.sync_api import sync_playwright

SHOTS = BUILD / "dashboard"
PHONE, DESK, WIDE = {"width": 360, "height": 800}, {"width": 1280, "height": 860}, {"width": 1920, "height": 1080}
# Whatever is waited for is there at once on a quiet machine.
PATIENCE_MS = 90_000  # later than that is never
FLAGS = [
    "--no-sandbox",  # its own: it runs as root here, and sees nothing but our tests' pages
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--no-proxy-server",
]


class Outside(socketserver.ThreadingTCPServer):
    """Stands for a host of the world: counts who connects, asked for anything or not. What a page tells of its requests is not
    enough: a connection by itself is none, and those of a frame that is new are not all told."""

    daemon_threads = True

    class RequestHandlerClass(socketserver.StreamRequestHandler):
        def handle(self):
            self.server.connections += 1
            self.server.asked |= set(re.findall(rb"^GET (\S+)", self.rfile.readline()))
            self.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")

    def __init__(self):
        super().__init__(("127.0.0.1", 0), self.RequestHandlerClass)
        self.connections, self.asked = 0, set()
        threading.Thread(target=self.serve_forever, daemon=True).start()


@pytest.fixture(scope="session")
def outside():
    """Hosts by the names at which the browser finds them."""
    hosts = {name: Outside() for name in ("outside.example", "control.example")}
    yield hosts
    for host in hosts.values():
        host.shutdown()
        host.server_close()


@pytest.fixture(scope="session")
def browser(outside):
    os.environ.setdefault("DBUS_SESSION_BUS_ADDRESS", "disabled:")
    rules = ", ".join(f"MAP {name} 127.0.0.1:{host.server_address[1]}" for name, host in outside.items())
    with sync_playwright() as playwright:
        program = shutil.which("chromium-headless-shell") or shutil.which("chromium")  # the same engine without the parts of a window
        browser = playwright.chromium.launch(executable_path=program, args=[*FLAGS, f"--host-resolver-rules={rules}"])
        yield browser
        browser.close()


class Watch:
    """What went wrong on a page without anybody looking."""

    def __init__(self, page, url):
        self.found, self.allowed = [], []
        page.on("console", lambda m: m.type == "error" and self.found.append(f"console: {m.text} ({m.location['url']})"))
        page.on("pageerror", lambda e: self.found.append(f"error: {e}"))
        page.on("request", lambda r: r.url.startswith((url, "data:", "blob:")) or self.found.append(f"asks {r.url}"))

    def allow(self, *words):
        """What a test provokes: messages with one of these words."""
        self.allowed += words

    def left(self):
        return [f for f in self.found if not any(w in f for w in self.allowed)]


class Dashboard:
    """Browsers on one daemon: each `open()` is a context of its own, and a page in it."""

    def __init__(self, browser, daemon):
        self.browser, self.daemon = browser, daemon

    def context(self, key=None, theme="light", viewport=DESK):
        """A browser's profile, logged in unless key is ""."""
        context = self.browser.new_context(viewport=viewport, color_scheme=theme, reduced_motion="reduce", base_url=self.daemon.url)
        context.set_default_timeout(PATIENCE_MS)
        if key != "":
            reply = context.request.post("/v1/login", data={"key": key or self.daemon.key})
            assert reply.status == 200, reply.text()
        return context

    @contextlib.contextmanager
    def page(self, context, path, is_in=True):
        page = context.new_page()
        try:
            page.watch = Watch(page, self.daemon.url)
            page.goto(path)
            if is_in:
                page.wait_for_selector(".live[data-state=open]")
            yield page
            assert page.watch.left() == []
        finally:
            page.close()

    @contextlib.contextmanager
    def open(self, path="/", key=None, theme="light", viewport=DESK):
        """A page behind the login, at path; key "": in front of it."""
        context = self.context(key, theme, viewport)
        try:
            with self.page(context, path, is_in=key != "") as page:
                yield page
        finally:
            context.close()


def take_pictures(page, name):
    """In both themes, on a phone and on a wide screen: the page, as it stands, follows the system and the window."""
    SHOTS.mkdir(exist_ok=True)
    for look, theme, size in (("light", "light", DESK), ("dark", "dark", DESK), ("phone", "dark", PHONE), ("wide", "light", WIDE)):
        page.emulate_media(color_scheme=theme)
        if page.viewport_size != size:
            page.set_viewport_size(size)
        page.screenshot(path=SHOTS / f"{name}-{look}.png", full_page=name.startswith("sandbox-"))
        wide = page.evaluate("document.documentElement.scrollWidth - innerWidth")
        assert wide <= 0, f"{name} is wider than the window by {wide} pixels"
    page.set_viewport_size(DESK)


@pytest.fixture(scope="session")
def admins(browser, daemon):
    """The one context of all pages that need none of their own."""
    context = Dashboard(browser, daemon).context()
    yield context
    context.close()


@pytest.fixture
def dashboard(browser, daemon):
    return Dashboard(browser, daemon)


@pytest.fixture
def tab(dashboard, admins):
    """A function that opens a page at a path, in the context that all share."""
    return lambda path: dashboard.page(admins, path)


@pytest.fixture
def page(tab):
    with tab("/") as page:
        yield page


@pytest.fixture(scope="module")
def lively(client):
    """Something to look at: one that works, one that rests."""
    made = [client.create(name="at-work", tags={"team": "blue"}), client.create(name="at-rest", persistent=True)]
    made[0].start(["python3", "-c", "import time\nwhile True: sum(range(300000)); time.sleep(0.2)"])
    made[1].stop()
    yield made
    for sandbox in made:
        end(sandbox)
