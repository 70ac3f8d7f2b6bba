# SPDX-License-Identifier: Apache-2.0
"""Each page in a real browser: what it shows, what can be done there, and how it looks."""

import csv
import io
import re
import uuid

import pytest
from dashboard.conftest import PATIENCE_MS
from harness.daemon import call, end, wait_for
from playwright.sync_api import expect


def text_of(page, selector):
    return page.locator(selector).inner_text()


def test_the_overview_counts_and_draws(page, lively):
    page.locator("[data-tile=Running] .value", has_text=re.compile(r"[1-9]")).wait_for()
    page.wait_for_selector("[data-tile=Running] [data-state=stopped]")
    page.locator("[data-tile=CPU] .value", has_text=re.compile(r"[1-9]")).wait_for()
    page.wait_for_selector(".recent .badge")
    assert page.locator(".card:not(.history) .uplot canvas").count() == 3
    assert re.search(r"\d+ starts, half within", text_of(page, "[data-what=starts]"))


def test_sandboxes_are_listed_filtered_sorted_and_made(tab, client, lively):
    with tab("/sandboxes") as page:
        working = page.locator("tr", has_text="at-work")
        working.locator("[data-state=running]").wait_for()
        working.locator(".spark").first.wait_for()
        assert "process" in working.inner_text()
        resting = page.locator("tr", has_text="at-rest")
        assert "stopped" in resting.inner_text()
        page.keyboard.press("/")
        page.keyboard.type("team:blue")
        resting.wait_for(state="detached")
        page.fill("[data-filter]", "")
        page.click("button.sort:text-is('Name')")
        names = page.locator("tbody tr td:first-child").all_inner_texts()
        assert names == sorted(names)
        page.click("text=New sandbox")
        name = f"made-{uuid.uuid4().hex[:8]}"
        page.fill("dialog [name=name]", name)
        page.click("dialog button[type=submit]")
        page.wait_for_url(re.compile(r"/sandboxes/sb_"))
        page.wait_for_selector(f"text={name}")
        end(client.get(name))


def test_a_new_sandbox_may_start_from_what_is_there_and_what_comes_is_named(tab):
    templates = [{"name": "python", "manifest": {}}, {"name": "kernel", "manifest": {"kernel": ["linux-image-cloud"]}}]
    builds = [{"name": n, "state": s} for n, s in (("universal", "running"), ("kernel", "queued"), ("python", "running"), ("bun", "failed"))]
    with tab("/sandboxes") as page:
        page.route("**/v1/templates", lambda route: route.fulfill(json={"templates": templates}))
        page.route("**/v1/builds", lambda route: route.fulfill(json={"builds": builds}))
        page.click("text=New sandbox")
        options = page.locator("select[name=template] option")
        options.nth(1).wait_for(state="attached")
        assert options.all_inner_texts() == ["the default", "python", "universal (being built)"]
        assert [o.is_enabled() for o in options.all()] == [True, True, False]


def test_a_sandbox_comes_and_goes_without_a_reload(tab, client):
    with tab("/sandboxes") as page:
        page.evaluate("window.isTheSame = true")
        sandbox = client.create(name=f"live-{uuid.uuid4().hex[:8]}")
        row = page.locator("tr", has_text=sandbox.name)
        row.locator("[data-state=running]").wait_for()
        end(sandbox)
        row.locator("[data-state=running]").wait_for(state="detached")
        assert page.evaluate("window.isTheSame")


def test_templates_are_told_and_a_build_that_fails_says_why(page):
    page.keyboard.press("g")
    page.keyboard.press("t")
    page.wait_for_url("**/templates")
    page.wait_for_selector("tr:has-text('host')")
    page.click("text=Build a template")
    page.fill("dialog textarea", 'name = "from-nothing"\nfrom = "nobody"\n')
    page.click("dialog button[type=submit]")
    page.wait_for_selector("dialog .problem:has-text('nobody'), .build:has-text('nobody')")


def test_usage_is_drawn_and_exported(tab, client, lively):
    with tab("/usage") as page:
        page.wait_for_selector("tr:has-text('default')")
        page.wait_for_selector(".uplot canvas")
        with page.expect_download() as download:
            page.click("text=Export CSV")
        rows = list(csv.DictReader(io.StringIO(download.value.path().read_text())))
        assert rows and {"day", "cpu_ns", "cost"} <= set(rows[0])


def test_what_is_used_shows_without_a_reload(tab, client):
    with tab("/usage") as page:
        made = page.locator("[data-tile='Sandboxes made'] .value")
        before = made.inner_text()
        end(client.create())
        expect(made).not_to_have_text(before, timeout=PATIENCE_MS)


def test_a_key_is_made_shown_once_and_revoked(tab, dashboard):
    with tab("/keys") as page:
        name = f"key-{uuid.uuid4().hex[:8]}"
        page.click("text=New key")
        page.fill("dialog [name=name]", name)
        page.select_option("dialog [name=scope]", "read")
        page.click("dialog button[type=submit]")
        secret = page.locator("[data-what=secret]").input_value()
        page.click("text=Done")
        with dashboard.open("/keys", key=secret) as limited:
            limited.wait_for_selector("text=Only admins can manage keys")
            limited.watch.allow("401", "ERR_")
            page.click(f"tr:has-text('{name}') >> text=Revoke")
            page.click("dialog button[type=submit]")
            page.locator(f"tr:has-text('{name}')").wait_for(state="detached")
            # Its login has ended with it.
            limited.goto("/sandboxes")
            limited.wait_for_selector("#key")


@pytest.mark.parametrize("kind", ["with a clipboard", "over plain http"])
def test_the_secret_of_a_key_is_copied_by_a_button(dashboard, client, daemon, kind):
    context = dashboard.context()
    try:
        if kind == "with a clipboard":
            context.grant_permissions(["clipboard-write"], origin=daemon.url)
        else:
            context.add_init_script("Object.defineProperty(Navigator.prototype, 'clipboard', { value: undefined })")
        with dashboard.page(context, "/keys") as page:
            page.click("text=New key")
            page.fill("dialog [name=name]", f"key-{uuid.uuid4().hex[:8]}")
            page.click("dialog button[type=submit]")
            secret = page.locator("[data-what=secret]").input_value()
            page.click("[data-act=copy]")
            page.wait_for_selector("dialog:has-text('Copied.')")
            page.click("text=Done")
            page.goto("/sandboxes")
            page.locator("[data-filter]").press("Control+v")
            assert page.input_value("[data-filter]") == secret
    finally:
        context.close()


def test_of_very_many_the_first_are_drawn_and_more_on_demand(tab):
    """A thousand keys are an hour's work of a CI: the page must not take a minute for them."""
    with tab("/sandboxes") as page:
        keys = [{"id": f"key_{i}", "name": f"k{i}", "scope": "read", "created_us": i} for i in range(1000)]
        page.route("**/v1/keys*", lambda route: route.fulfill(json={"keys": keys}))
        page.click("nav >> text=Keys")
        page.locator("button:has-text('200 of 1000')").click()
        assert page.locator("table[aria-label=Keys] tbody tr").count() == 400


def test_a_quota_is_set(tab, client):
    project = client.create_project(f"q-{uuid.uuid4().hex[:8]}")
    with tab("/keys") as page:
        page.select_option("select[aria-label=Project]", project["id"])
        page.click("header >> text=Change")
        page.fill("dialog [name=sandboxes]", "3")
        page.click("dialog button[type=submit]")
        page.wait_for_selector("[data-quota=sandboxes]:has-text('of 3')")
    assert client.quota(project=project["id"])["limits"]["sandboxes"] == 3


def test_a_project_is_removed_but_for_the_operators_own(tab, client):
    project = client.create_project(f"r-{uuid.uuid4().hex[:8]}")
    with tab("/keys") as page:
        page.wait_for_selector("select[aria-label=Project]")
        assert not page.is_visible("text=Remove project")
        page.select_option("select[aria-label=Project]", project["id"])
        page.click("text=Remove project")
        page.click("dialog button[type=submit]")
        page.wait_for_selector("text=The project is removed")
        page.locator(f"option[value={project['id']}]").wait_for(state="detached")
        assert not page.is_visible("text=Remove project")
    assert project["id"] not in [p["id"] for p in client.projects()]


def test_events_are_listed_filtered_and_shown_whole(tab, lively):
    with tab("/events") as page:
        page.wait_for_selector("tr:has-text('sandbox.running')")
        page.select_option("select[aria-label=Kind]", "exec")
        page.locator("tr:has-text('sandbox.running')").first.wait_for(state="detached")
        page.locator("tbody button.link").first.click()
        assert '"hash"' in text_of(page, "dialog pre")


def test_who_read_what_is_found_by_a_word(tab, daemon, lively, client):
    box = lively[0]
    path = f"/tmp/found-{box.id}"
    for method, body in (("PUT", b"1"), ("GET", None)):
        assert call(daemon, method, f"/v1/sandboxes/{box.id}/files?path={path}", body)[0] == 200
    wait_for(lambda: path in call(daemon, "GET", "/v1/events?audit=1&type=api.read")[1].decode(), 10, "the audit log")
    with tab("/audit") as page:
        page.wait_for_selector("tr:has-text('sandbox.running')")
        page.fill("input[aria-label=Words]", path)
        page.fill("input[aria-label=From]", "127.0.0.0/8")
        page.keyboard.press("Enter")
        page.locator("tr:has-text('sandbox.running')").first.wait_for(state="detached")
        page.wait_for_selector("h1:has-text('2 found')")
        assert page.locator("tbody tr:has-text('127.0.0.1')").count() == page.locator("tbody tr").count() == 2
        page.select_option("select[aria-label=What]", "api.read")
        page.wait_for_selector("h1:has-text('1 found')")
        page.reload()  # the address keeps what was asked
        page.wait_for_selector("h1:has-text('1 found')")
        assert page.input_value("input[aria-label=Words]") == path and page.input_value("select[aria-label=What]") == "api.read"
        page.locator("tbody button.link").first.click()
        assert path in text_of(page, "dialog pre")
        page.keyboard.press("Escape")
        page.fill("input[aria-label=From]", "nowhere")
        page.watch.allow("400")
        page.keyboard.press("Enter")
        page.wait_for_selector(".failure:has-text('address: must be an address')")


def test_the_host_page_tells_what_the_doctor_found(tab):
    with tab("/host") as page:
        page.wait_for_selector("tr:has-text('user namespaces'):has-text('ok')")
        page.wait_for_selector("section:has-text('Engine jail'):has-text('seccomp')")


def test_a_page_that_is_not_there_and_a_failure_are_told(tab):
    with tab("/sandboxes") as page:
        page.watch.allow("500")
        page.route("**/v1/templates", lambda route: route.fulfill(status=500, json={"error": {"code": "internal", "message": "all broken"}}))
        page.click("nav >> text=Templates")
        page.wait_for_selector(".failure:has-text('all broken')")
        page.unroute("**/v1/templates")
        page.click("text=Try again")
        page.wait_for_selector("tr:has-text('host')")
        page.evaluate("history.pushState(null, '', '/nowhere'); dispatchEvent(new PopStateEvent('popstate'))")
        page.wait_for_selector("text=There is no such page")


def test_the_keyboard_is_enough(page):
    page.keyboard.press("?")
    page.wait_for_selector("dialog:has-text('Keyboard')")
    page.keyboard.press("Escape")
    page.keyboard.press("g")
    page.keyboard.press("s")
    page.wait_for_url("**/sandboxes")
    page.wait_for_selector("[data-filter]")
    page.keyboard.press("/")
    assert page.evaluate("document.activeElement.type") == "search"
    page.keyboard.press("Escape")
    page.keyboard.press("Tab")
    outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
    assert outline != "none", "what has the focus is not marked"
