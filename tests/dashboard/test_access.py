# SPDX-License-Identifier: Apache-2.0
"""For those who do not see or point: axe-core finds nothing wrong on any page, in either theme."""

import shutil
from pathlib import Path

import pytest
from dashboard.conftest import PATIENCE_MS
from dashboard.test_history import with_a_past
from harness.npm import NPM, made_once, run
from playwright.sync_api import expect

HERE = Path(__file__).parent
# The themes differ in their colours alone: what else is wrong is so in both.
RULES_OF_COLOUR = "runOnly: ['color-contrast', 'link-in-text-block'], "
PAGES = ["/", "/sandboxes", "/templates", "/usage", "/keys", "/secrets", "/events", "/audit", "/host", "/nodes", "/settings", "/nowhere"]

pytestmark = pytest.mark.skipif(not shutil.which("npm"), reason="this host has no npm")


@pytest.fixture(scope="module")
def axe(tmp_path_factory):
    """Its program, for a page to run."""

    def make(path):
        for name in ("package.json", "package-lock.json"):
            shutil.copy(HERE / name, path / name)
        run(*NPM, "ci", cwd=path)

    return (made_once(tmp_path_factory, "axe", make) / "node_modules" / "axe-core" / "axe.min.js").read_text()


@pytest.fixture
def wrong_on(axe):
    """A function that lists what is wrong with a page as it stands, in both themes: the rule, and the nodes that break it."""

    def find(page, name):
        if not page.evaluate("'axe' in window"):
            page.evaluate(f"() => {{ {axe} }}")
        found = []
        for theme, rules in (("light", ""), ("dark", RULES_OF_COLOUR)):
            page.emulate_media(color_scheme=theme)
            page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")  # it has been drawn so
            result = page.evaluate(f"axe.run(document, {{ {rules}resultTypes: ['violations'] }})")
            found += [f"{name}, {theme}: {v['id']}: {v['help']}: {n['html'][:200]} {n['failureSummary']}" for v in result["violations"] for n in v["nodes"]]
        return found

    return find


def go(page, path):
    page.evaluate("([path]) => { history.pushState(null, '', path); dispatchEvent(new PopStateEvent('popstate')); }", [path])
    page.wait_for_selector("main h1")
    page.wait_for_selector("main :is(.tile, table, .quotas, .empty)")
    expect(page.locator("main .spinner")).to_have_count(0, timeout=PATIENCE_MS)


def test_the_pages(tab, client, lively, wrong_on):
    found = []
    client.set_secret("EXAMPLE_KEY", "any")
    with tab("/") as page:
        for path in PAGES:
            go(page, path)
            found += wrong_on(page, path)
    client.delete_secret("EXAMPLE_KEY")
    assert not found, "\n".join(found)


def test_the_past_and_the_table_behind_it(tab, wrong_on):
    with tab("/") as page:
        with_a_past(page)
        page.click(".history >> text=Day")
        page.click(".history summary")
        page.wait_for_selector(".history details tbody tr")
        found = wrong_on(page, "history")
    assert not found, "\n".join(found)


@pytest.fixture
def saved(sandbox, client):
    """A sandbox with something for each of its panels."""
    snapshot = sandbox.snapshot()
    sandbox.start(["sleep", "600"])
    yield sandbox
    client.delete_snapshot(snapshot["id"])


def test_a_sandbox_s_page(tab, saved, wrong_on):
    with tab(f"/sandboxes/{saved.id}") as page:
        page.wait_for_selector("main h1")
        found = []
        for name in page.locator("main [role=tab]").all_inner_texts() or [""]:
            if name:
                page.locator("main [role=tab]", has_text=name).first.click()
            expect(page.locator("main .spinner")).to_have_count(0, timeout=PATIENCE_MS)
            found += wrong_on(page, f"a sandbox, {name}")
    assert not found, "\n".join(found)


def test_the_forms(tab, wrong_on):
    found = []
    for path, button in (("/sandboxes", "New sandbox"), ("/templates", "Build a template"), ("/keys", "New key"), ("/secrets", "New secret")):
        with tab(path) as page:
            page.click(f"text={button}")
            page.wait_for_selector("dialog[open]")
            page.evaluate("document.querySelectorAll('dialog details').forEach((d) => (d.open = true))")
            found += wrong_on(page, button)
    with tab("/") as page:
        page.keyboard.press("?")
        page.wait_for_selector("dialog:has-text('Keyboard')")
        found += wrong_on(page, "the help for the keyboard")
    assert not found, "\n".join(found)


def test_the_login_and_the_documents(dashboard, wrong_on):
    found = []
    with dashboard.open("/", key="") as page:
        page.wait_for_selector("#key")
        found += wrong_on(page, "the login")
    with dashboard.open("/docs/", key="") as page:
        page.fill("#search", "limit memory")
        page.wait_for_selector("#found a")
        found += wrong_on(page, "the documents")
        page.goto("/docs/guides/operate")
        found += wrong_on(page, "a document")
    assert not found, "\n".join(found)
