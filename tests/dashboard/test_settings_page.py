# SPDX-License-Identifier: Apache-2.0
"""The page of settings in a real browser: what is not the default comes first, a search finds the rest, and only the operator sees it."""

from dashboard.conftest import take_pictures
from dashboard.test_hostile import PAYLOAD, is_clean

DEFAULT = {"from": "default", "file": None, "line": None, "variable": None}
IN_FILE = {**DEFAULT, "from": "file", "file": "/etc/cloche/cloche.toml", "line": 7}


def setting(name, **more):
    return {"name": name, "option": f"--{name}", "kind": "string", "value": "/a", "default": "/a", "changed": False, "hidden": False, "origin": DEFAULT,
            "overridden_line": None, "needs": "reload", "pending": None, "help": f"what {name} means", **more}


def show_only(page, *settings):
    """What this daemon cannot be brought to say."""
    page.route("**/v1/settings", lambda route: route.fulfill(json={"file": {"path": "/etc/cloche/cloche.toml", "present": True}, "settings": list(settings)}))
    page.click("nav >> text=Settings")
    page.wait_for_selector("table[aria-label=Settings] tbody tr")


def names(page):
    return page.locator("table[aria-label=Settings] tbody tr").evaluate_all("(rows) => rows.map((r) => r.dataset.key)")


def test_what_is_not_the_default_comes_first_and_a_search_finds_the_rest(page, client):
    page.keyboard.press("g")
    page.keyboard.press("i")
    page.wait_for_selector("tr[data-key=data]:has-text('command line, --data')")
    changed = [s["name"] for s in client.settings()["settings"] if s["changed"]]
    shown = names(page)
    assert set(shown[:len(changed)]) == set(changed)
    assert len(shown) == len(client.settings()["settings"])
    page.keyboard.press("/")
    page.keyboard.type("pool made ahead memory")
    page.wait_for_selector("tr[data-key=data]", state="detached")
    assert names(page) == ["pool.memory"]
    page.keyboard.type(" nothing-like-it")
    page.wait_for_selector(".empty:has-text('Nothing matches')")


def test_what_waits_for_a_restart_and_what_is_hidden_are_told_in_both_themes(page):
    waits = setting("data", needs="restart", pending={"value": "/b", "origin": IN_FILE})
    given = setting("count", kind="count", value=5, default=3, changed=True, origin={**DEFAULT, "from": "command_line"}, overridden_line=4)
    hides = setting("registry", value="https://***@example.com/", default=None, changed=True, hidden=True, origin={**DEFAULT, "from": "environment", "variable": "THE_URL"})
    show_only(page, setting("plain"), hides, waits, given)
    assert names(page) == ["data", "registry", "count", "plain"]
    page.wait_for_selector("tr[data-key=data] [data-pending]:has-text('/b'):has-text('line 7 of /etc/cloche/cloche.toml')")
    page.wait_for_selector("tr[data-key=registry]:has-text('credentials are set, and not shown'):has-text('variable THE_URL')")
    page.wait_for_selector("tr[data-key=count]:has-text('command line, --count'):has-text('line 4 of the file is overridden')")
    take_pictures(page, "settings-pending")


def test_hostile_words_of_a_setting_are_text(page):
    show_only(page, setting("data", value=PAYLOAD, help=PAYLOAD, changed=True, origin={**IN_FILE, "file": PAYLOAD}, pending={"value": [PAYLOAD], "origin": IN_FILE}))
    assert is_clean(page)


def test_a_tenant_is_told_whom_to_ask(dashboard, client):
    project = client.create_project("settings-tenant")
    key = client.create_key("theirs", scope="admin", project=project["id"])
    with dashboard.open("/settings", key=key["secret"]) as page:
        page.wait_for_selector(".empty:has-text('Only admins of the project default')")
        assert page.locator("table").count() == 0
    client.revoke_key(key["key"]["id"], project=project["id"])
    client.delete_project(project["id"])
