# SPDX-License-Identifier: Apache-2.0
"""A page outlives the daemon's processes: it says that it lost them, and goes on where it was."""

import pytest
from cloche import Client
from dashboard.conftest import Dashboard
from harness.daemon import Daemon


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
