# SPDX-License-Identifier: Apache-2.0
"""What a page shows is what is there: whatever happens between its question and the moment from which it is told, and whatever
happens to the daemon. Its requests are held back here, so that "between" is as long as a test needs it to be."""

import uuid

import pytest
from cloche import Client
from dashboard.conftest import PATIENCE_MS, Dashboard
from harness.daemon import Daemon, end, wait_for


@pytest.fixture
def mortal():
    daemon = Daemon("--pool-max", "0").start()
    try:
        yield daemon
    finally:
        status = daemon.stop()
        daemon.remove()
    assert status == 0


def test_a_restart_of_the_daemon_is_survived(browser, mortal):
    with Dashboard(browser, mortal).open("/sandboxes") as page, Client(mortal.url, mortal.key) as client:
        page.watch.allow("ERR_", "502", "503")
        page.evaluate("window.isTheSame = true")
        page.wait_for_selector("text=No sandboxes yet")
        mortal.kill_parts("gateway")
        before = client.create(name="after-a-kill")
        page.wait_for_selector("tr:has-text('after-a-kill') [data-state=running]")
        page.wait_for_selector(".live[data-state=open]")
        mortal.stop()
        page.wait_for_selector(".live[data-state=lost]")
        mortal.start()
        page.wait_for_selector(".live[data-state=open]")
        page.wait_for_selector("tr:has-text('after-a-kill') :is([data-state=stopped], [data-state=failed]), :text('No sandboxes yet')")
        client.create(name="after-a-start")
        page.wait_for_selector("tr:has-text('after-a-start') [data-state=running]")
        assert page.evaluate("window.isTheSame"), "the page was loaded anew"
        assert before.id


class Held:
    """The first requests to an address, held back until they are let go. The ones behind them go through."""

    def __init__(self, context, pattern, count=1):
        self.routes, self.count = [], count
        context.route(pattern, self.take)

    def take(self, route):
        if len(self.routes) < self.count:
            self.routes.append(route)
        else:
            route.continue_()

    def wait(self, page, count=1):
        """Until so many have come; the browser's driver works while the page is asked something."""
        wait_for(lambda: page.evaluate("true") and len(self.routes) >= count, PATIENCE_MS / 1000, "the request")
        return self.routes[count - 1]


def new_name():
    return f"n-{uuid.uuid4().hex[:8]}"


@pytest.fixture
def early(dashboard):
    """A function that opens a page which is not told yet what happens, and gives the page and how to have it told."""
    context = dashboard.context()
    pages = []

    def go(path, sign):
        context.unroute_all()
        held = Held(context, "**/v1/events/head*")
        page = context.new_page()
        pages.append(page)
        page.goto(path)
        page.locator(sign).first.wait_for()  # it has asked for what it shows
        return page, held.wait(page).continue_

    yield go
    context.close()


def test_what_happens_before_the_log_is_followed_is_shown(early, client, lively):
    name = new_name()
    page, follow = early("/sandboxes", "tr[data-key]")
    made = client.create(name=name)
    follow()
    page.locator(f"tr:has-text('{name}') [data-state=running]").wait_for()
    page, follow = early(f"/sandboxes/{made.id}#events", "[data-type='sandbox.running']")
    made.run(["true"])
    made.pause(to="memory")
    follow()
    page.locator("[data-type='exec.exited']").wait_for()
    page.locator(".box-head [data-state=paused]").wait_for()
    end(made)
    page, follow = early("/keys", "table tr[data-key]")
    key = client.create_key(name)
    follow()
    page.locator(f"tr:has-text('{name}')").wait_for()
    for path, sign in (("/events", "tr[data-key]"), ("/", ".recent .badge")):
        page, follow = early(path, sign)
        told = new_name()
        client.create_project(told)
        follow()
        page.locator(f"main :text('{told}')").first.wait_for()
    client.revoke_key(key["key"]["id"])


def test_a_file_that_comes_before_the_watch_is_open_is_listed(dashboard, sandbox):
    context = dashboard.context()
    watches = Held(context, "**/files/watch?*", count=2)
    sandbox.files.write("first.txt", b"")
    with dashboard.page(context, f"/sandboxes/{sandbox.id}") as page:
        page.click("#tab-files")
        page.locator("tr[data-key='first.txt']").wait_for()
        page.watch.allow("ERR_FAILED")
        watches.wait(page).abort()  # it is begun anew
        again = watches.wait(page, 2)
        sandbox.files.write("between.txt", b"")
        assert page.locator("tr[data-key='between.txt']").count() == 0
        again.continue_()
        page.locator("tr[data-key='between.txt']").wait_for()
        sandbox.files.write("behind.txt", b"")
        page.locator("tr[data-key='behind.txt']").wait_for()
    context.close()


HIDE = "isHidden => { Object.defineProperty(document, 'hidden', {get: () => isHidden, configurable: true}); document.dispatchEvent(new Event('visibilitychange')); }"


def test_a_tab_that_nobody_looks_at_gives_its_connections_back_and_misses_nothing(dashboard, client, lively):
    context = dashboard.context()
    context.clock.install()
    with dashboard.page(context, "/sandboxes") as page:
        page.evaluate(HIDE, True)
        context.clock.fast_forward(60_000)
        page.wait_for_selector(".live[data-state=connecting]")
        made = client.create(name=new_name())
        page.evaluate(HIDE, False)
        page.wait_for_selector(f"tr:has-text('{made.name}') [data-state=running]")
        page.wait_for_selector(".live[data-state=open]")
        end(made)
    context.close()
