# SPDX-License-Identifier: Apache-2.0
"""The way into the dashboard, and that nobody else gets in by it."""

from harness.daemon import call


def in_by_key(page, key):
    page.fill("#key", key)
    page.keyboard.press("Enter")


def test_a_key_logs_in_and_a_log_out_ends_it(dashboard, client, daemon):
    head = call(daemon, "GET", "/v1/events/head")[1]["head"]["seq"]
    with dashboard.open(key="") as page:
        page.watch.allow("401", "429")
        in_by_key(page, "clo_" + "0" * 40)
        page.wait_for_selector(".problem:is(:has-text('unknown, malformed or revoked'), :has-text('too many calls'))")
        in_by_key(page, daemon.key)
        page.wait_for_selector(".live[data-state=open]")
        cookie = next(c for c in page.context.cookies() if c["name"] == "cloche_login")
        assert (cookie["httpOnly"], cookie["sameSite"], cookie["path"]) == (True, "Strict", "/")
        (told,) = client.events(after=head, type="key.logged_in")
        assert told["data"]["scope"] == "admin" and daemon.key not in str(told)
        page.reload()
        page.click("[data-act=logout]")
        page.wait_for_selector("#key")
        # The cookie itself is worth nothing now, whoever has kept it.
        _, who = call(daemon, "GET", "/v1/login", key="", headers={"Cookie": f"cloche_login={cookie['value']}", "X-Cloche-Dashboard": "1"})
        assert who["key"] is None


def test_a_link_lets_one_browser_in_once(dashboard, client, daemon):
    link = call(daemon, "POST", "/v1/login/links")[1]["link"]
    with dashboard.open(f"/#link={link}", key="") as page:
        page.wait_for_selector(".live[data-state=open]")
        assert "link" not in page.url
    with dashboard.open(f"/#link={link}", key="") as page:
        page.watch.allow("401", "429")
        page.wait_for_selector(".problem:is(:has-text('used already'), :has-text('too many calls'))")
