# SPDX-License-Identifier: Apache-2.0
"""The past on the Overview, the Host and a sandbox's page: charts with gaps, a table behind them, and what ran at a moment."""

import math
import time
from urllib.parse import parse_qs, urlparse

from dashboard.conftest import take_pictures
from playwright.sync_api import expect

STEPS = {"1h": (10_000, 360), "24h": (60_000, 1440), "7d": (600_000, 1008), "30d": (600_000, 4320)}
FIGURES = {
    "cpu_milli": ("milli-CPU", "mean", 1400), "memory_bytes": ("bytes", "max", 3 << 30), "disk_bytes": ("bytes", "max", 1 << 30),
    "network_in_bytes_per_second": ("bytes/s", "mean", 900_000), "network_out_bytes_per_second": ("bytes/s", "mean", 90_000),
    "sandboxes": ("count", "max", 24), "creates": ("count", "sum", 6), "execs": ("count", "sum", 40), "calls": ("count", "sum", 15),
    "host_cpu_milli": ("milli-CPU", "mean", 2600), "host_memory_bytes": ("bytes", "max", 9 << 30), "host_disk_free_bytes": ("bytes", "min", 80 << 30),
    "host_load_milli": ("milli", "mean", 2100), "creates_failed": ("count", "sum", 2), "refusals": ("count", "sum", 1),
}  # fmt: skip


def told(query):
    """A history as the API gives it, with a daemon that was down for a fifth of the time, and for a moment of one reading."""
    span = query.get("range", ["1h"])[0]
    step_ms, count = STEPS[span]

    def value(i, most):
        is_gap = count * 0.5 < i < count * 0.7 or abs(i - count * 0.8) == 1
        return None if is_gap else int(most * (0.55 + 0.4 * math.sin(i * 9 / count)) * (1 + 0.1 * math.sin(i)))

    series = [{"name": name, "unit": unit, "aggregate": way, "values": [value(i, most) for i in range(count)]} for name, (unit, way, most) in FIGURES.items()]
    return {"scope": query["scope"][0], "id": None, "range": span, "from_us": (int(time.time() * 1000) - step_ms * count) * 1000, "step_ms": step_ms, "count": count, "series": series}


def with_a_past(page):
    page.route("**/v1/history?*", lambda route: route.fulfill(json=told(parse_qs(urlparse(route.request.url).query))))


def test_the_overview_shows_the_past_and_what_ran_then(tab):
    asked = []

    def answer(route):
        query = parse_qs(urlparse(route.request.url).query)
        asked.append(int(query["at_us"][0]))
        ran = {"id": "sb_" + "a" * 26, "name": "then", "template": "host", "began_us": asked[-1] - 1, "ended_us": None, "cpu_milli": 250, "memory_bytes": 1 << 20}
        route.fulfill(json={"at_us": asked[-1], "sandboxes": [ran], "next_cursor": None})

    with tab("/") as page:
        with_a_past(page)
        page.route("**/v1/history/running?*", answer)
        page.click(".history >> text=Day")
        page.wait_for_selector(".history .uplot")
        assert page.locator(".history .uplot").count() == 6
        expect(page.locator(".history [aria-label^='CPU in the last day, at most']")).to_have_count(1)
        page.locator(".history .u-over").first.click(position={"x": 30, "y": 40})
        page.wait_for_selector(".ran tr[data-key] >> text=then")
        assert time.time() - 86_400 < asked[0] / 1e6 < time.time() - 43_200
        page.fill(".ran input", "2026-11-17T14:00:00")
        page.click(".ran >> text=Show")
        expect(page.locator("[data-what=ran]")).to_contain_text("17 Nov")
        page.click(".history summary")
        rows = page.locator(".history details tbody tr")
        assert rows.count() == 30
        assert "–" in rows.nth(12).inner_text()  # nobody looked
        page.locator(".history").scroll_into_view_if_needed()
        take_pictures(page, "sandbox-history-overview")


def test_the_host_has_its_own_past(tab):
    with tab("/host") as page:
        with_a_past(page)
        page.click(".history >> text=Month")
        expect(page.locator(".history .uplot")).to_have_count(7)
        take_pictures(page, "sandbox-history-host")


def test_a_sandbox_has_its_past_among_its_usage(tab, sandbox):
    with tab(f"/sandboxes/{sandbox.id}#usage") as page:
        with_a_past(page)
        page.click(".history >> text=Week")
        expect(page.locator(".history .uplot")).to_have_count(4)
        take_pictures(page, "sandbox-history")


def test_the_daemon_is_asked_for_the_range_that_is_chosen(tab):
    with tab("/") as page:
        with page.expect_request(lambda r: "/v1/history?" in r.url and "range=7d" in r.url):
            page.click(".history >> text=Week")
        expect(page.locator(".history button[aria-pressed=true]")).to_have_text("Week")
        expect(page.locator(".history .spinner")).to_have_count(0)
        expect(page.locator(".history .failure")).to_have_count(0)
