# SPDX-License-Identifier: Apache-2.0
"""How each page looks: pictures in BUILD/dashboard, in both themes and on a phone, where nothing is wider than the screen."""

import pytest
from dashboard.conftest import DESK, PHONE, SHOTS

PAGES = ["/", "/sandboxes", "/templates", "/usage", "/keys", "/events", "/host"]


@pytest.mark.parametrize(
    ("look", "theme", "viewport"), [("light", "light", DESK), ("dark", "dark", DESK), ("phone", "dark", PHONE)],
    ids=["light", "dark", "phone"],
)
def test_every_page_has_its_picture(dashboard, lively, look, theme, viewport):
    SHOTS.mkdir(exist_ok=True)
    with dashboard.open("/", theme=theme, viewport=viewport) as page:
        for path in PAGES:
            page.evaluate("([path]) => { history.pushState(null, '', path); dispatchEvent(new PopStateEvent('popstate')); }", [path])
            page.wait_for_selector("main h1")
            page.wait_for_selector("main :is(.tile, table, .quotas, .empty)")
            page.locator("main .spinner").wait_for(state="detached")
            page.screenshot(path=SHOTS / f"{path.strip('/') or 'overview'}-{look}.png")
            wide = page.evaluate("document.documentElement.scrollWidth - innerWidth")
            assert wide <= 0, f"{path} is wider than the window by {wide} pixels"
    with dashboard.open("/", key="", theme=theme, viewport=viewport) as page:
        page.wait_for_selector("#key")
        page.screenshot(path=SHOTS / f"login-{look}.png")
