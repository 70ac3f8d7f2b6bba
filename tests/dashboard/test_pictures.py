# SPDX-License-Identifier: Apache-2.0
"""How each page looks: pictures in BUILD/dashboard, in both themes, on a phone and on a wide screen, where nothing is wider than the screen."""

from dashboard.conftest import DESK, PHONE, SHOTS, WIDE, take_pictures

PAGES = ["/templates", "/keys", "/secrets", "/events", "/host", "/settings", "/usage", "/sandboxes", "/"]  # figures over time come meanwhile


def test_every_page_has_its_picture(tab, client, lively):
    client.set_secret("EXAMPLE_KEY", "any")
    with tab("/") as page:
        for path in PAGES:
            page.evaluate("([path]) => { history.pushState(null, '', path); dispatchEvent(new PopStateEvent('popstate')); }", [path])
            page.wait_for_selector("main h1")
            page.wait_for_selector("main :is(.tile, table, .quotas, .empty)")
            page.locator("main .spinner").wait_for(state="detached")
            take_pictures(page, path.strip("/") or "overview")
    client.delete_secret("EXAMPLE_KEY")


def test_the_whole_menu_is_in_sight_on_a_phone(tab):
    with tab("/") as page:
        page.set_viewport_size(PHONE)
        boxes = [node.bounding_box() for node in page.locator(".side :is(a:not([hidden]), button, .live)").all()]
        assert len(boxes) > 10
        for box in boxes:
            assert box["x"] >= 0 and box["x"] + box["width"] <= PHONE["width"], box
        cut = page.evaluate("[...document.querySelectorAll('.side nav a span')].filter((s) => s.scrollWidth > s.parentElement.clientWidth).length")
        assert cut == 0, "a word of the menu is cut off"
        page.set_viewport_size(DESK)


def test_a_wide_screen_is_used(tab):
    with tab("/") as page:
        page.set_viewport_size(WIDE)
        page.wait_for_selector(".columns .card")
        right = page.evaluate("Math.max(...[...document.querySelectorAll('.card')].map((c) => c.getBoundingClientRect().right))")
        page.set_viewport_size(DESK)
        assert right > WIDE["width"] - 60


def test_every_empty_place_says_what_it_is_and_what_to_do_first(tab):
    with tab("/sandboxes") as page:
        page.route("**/v1/sandboxes?*", lambda route: route.fulfill(json={"sandboxes": [], "next_cursor": None}))
        page.route("**/v1/builds", lambda route: route.fulfill(json={"builds": []}))
        page.route("**/v1/usage?*", lambda route: route.fulfill(json={"rows": [], "currency": "EUR", "total": {"cost": "0.00", "cpu_ns": 0, "memory_mib_ms": 0, "creates": 0}}))
        page.route("**/v1/secrets", lambda route: route.fulfill(json={"secrets": []}))
        for path in ("/templates", "/usage", "/secrets", "/sandboxes", "/nowhere"):
            page.evaluate("([path]) => { history.pushState(null, '', path); dispatchEvent(new PopStateEvent('popstate')); }", [path])
            page.wait_for_selector("main .empty strong + p + p.first")
            take_pictures(page, f"empty-{path.strip('/')}")


def test_the_form_for_a_new_sandbox_has_its_picture(tab):
    with tab("/sandboxes") as page:
        page.click("text=New sandbox")
        page.locator("[name=engine] option").nth(2).wait_for(state="attached")
        page.evaluate("document.querySelectorAll('dialog details').forEach((d) => (d.open = true))")
        page.fill("[name=env]", "no value")
        page.click("dialog button[type=submit]")
        page.wait_for_selector("[data-field=env] .problem")
        take_pictures(page, "new-sandbox")
        page.evaluate("document.querySelectorAll('dialog details').forEach((d) => (d.open = false))")
        take_pictures(page, "new-sandbox-folded")


def test_the_login_has_its_picture(dashboard):
    with dashboard.open("/", key="") as page:
        page.wait_for_selector("#key")
        take_pictures(page, "login")


def test_the_switch_of_themes_is_kept(dashboard):
    with dashboard.open("/host", viewport=DESK) as page:
        page.click("button[data-theme=dark]")
        assert page.evaluate("document.documentElement.dataset.theme") == "dark"
        page.reload()
        page.wait_for_selector("button[data-theme=dark][aria-pressed=true]")
        assert page.evaluate("document.documentElement.dataset.theme") == "dark"
    assert SHOTS.is_dir()
