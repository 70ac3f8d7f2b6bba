# SPDX-License-Identifier: Apache-2.0
"""The page of nodes in a real browser, on a cluster of three whole daemons and a real PostgreSQL; and what the list of sandboxes says of nodes."""

import pytest
from dashboard.conftest import Dashboard, take_pictures
from dashboard.test_hostile import PAYLOAD, is_clean
from functional.test_cluster_lists import made, stopped
from harness.cluster import Database
from harness.daemon import BUILD
from harness.whole_node import cluster_of, team_of, without

pytestmark = pytest.mark.skipif(not (BUILD / "cloche-cluster").exists(), reason="built without libpq")
NAMES = ("amsterdam", "berlin", "zurich")


@pytest.fixture(scope="module")
def database():
    d = Database()
    d.make("one")
    yield d
    d.close()


@pytest.fixture(scope="module")
def three(database):
    with cluster_of(database, *NAMES) as nodes:
        yield nodes


@pytest.fixture(scope="module")
def clustered(browser, three):
    return Dashboard(browser, three[0].daemon)


def row(name, words="", state="up"):
    return f"tr[data-key={name}]:has(.badge[data-state={state}]){''.join(f':has-text({w!r})' for w in words.split('|') if w)}"


def calm(page):
    for name in NAMES:
        page.wait_for_selector(row(name))
    page.locator(".problems li").first.wait_for(state="detached")


def test_all_nodes_are_shown_with_how_full_they_are(clustered, three):
    a, b, _ = three
    with made(a.daemon.key, a, b, b), clustered.open("/") as page:
        page.click("nav >> text=Nodes")
        page.wait_for_selector("h1:has-text('3 of 3 are up')")
        calm(page)
        page.wait_for_selector(row("berlin", "2 of "))
        page.wait_for_selector(row("amsterdam", f"this one|{a.address}|1 of "))
        assert page.locator("text='this one'").count() == 1
        page.wait_for_selector(".tile[data-tile=Sandboxes]:has-text('3')")
        page.wait_for_selector("[data-tile='The cluster\\'s database']:has-text('answers')")
        for name in NAMES:
            assert page.locator(f"tr[data-key={name}] .bar").count() == 4
        take_pictures(page, "nodes")


def test_a_silent_and_a_cordoned_node_are_told_with_what_to_do_and_it_follows_by_itself(clustered, three):
    _, b, c = three
    with clustered.open("/nodes") as page:
        calm(page)
        b.ask("node", "cordon")
        try:
            page.wait_for_selector(row("berlin", "cordoned"))
            with stopped(c):
                page.wait_for_selector("tr[data-key=zurich]:has(.badge.bad:text-is('silent'))")
                page.wait_for_selector(".problems li:has-text('zurich'):has-text('systemctl status cloche')")
                page.wait_for_selector("h1:has-text('2 of 3 are up')")
                page.wait_for_selector("[data-tile='Take new sandboxes'] .value:text-is('1 of 3')")
                take_pictures(page, "nodes-trouble")
        finally:
            b.ask("node", "uncordon")
        calm(page)
        page.locator("tr .badge:text-is('cordoned')").wait_for(state="detached")


def test_without_the_database_the_page_says_what_is_wrong_and_how_old_it_is(clustered, three, database):
    with clustered.open("/nodes") as page:
        calm(page)
        with without(database, *three):
            page.wait_for_selector(".problems li[data-code=database_unreachable]:has-text('pg_isready')")
            page.wait_for_selector("[data-tile='The cluster\\'s database']:has-text('does not answer')")
            page.wait_for_selector("tr[data-key=amsterdam] .badge.bad:text-is('cut off')")
            page.wait_for_selector("[data-old]:has-text('heard nothing since')")
            page.wait_for_selector("tr[data-key=berlin] .badge:text-is('was up')")
            take_pictures(page, "nodes-alone")
        calm(page)


def test_hostile_words_about_nodes_are_text(clustered):
    problem = {"code": PAYLOAD, "message": PAYLOAD, "hint": PAYLOAD}
    load = dict.fromkeys(("sandboxes", "sandboxes_max", "spares", "cpu_milli", "cpus", "memory_mib", "memory_max_mib", "disk_mib", "disk_max_mib"))
    node = {"name": PAYLOAD, "number": 1, "address": PAYLOAD, "this_node": True, "state": PAYLOAD, "cordoned": True, "version": PAYLOAD, "beat_age_ms": None, "load": load, "problem": problem}
    cluster = {"id": PAYLOAD, "state": PAYLOAD, "right_ms": None, "lost_in_ms": 1, "fence_after_ms": 1, "lost_after_ms": 1, "problems": [problem]}
    with clustered.open("/") as page:
        page.route("**/v1/nodes", lambda route: route.fulfill(json={"cluster": cluster, "as_of_us": None, "nodes": [node]}))
        page.click("nav >> text=Nodes")
        page.wait_for_selector("table[aria-label=Nodes] tbody tr:has-text('not told')")
        assert is_clean(page)
        incomplete = [{"node": PAYLOAD, "why": PAYLOAD, "as_of_us": None}]
        page.route("**/v1/sandboxes?*", lambda route: route.fulfill(json={"sandboxes": [], "next_cursor": None, "incomplete": incomplete}))
        page.click("nav >> text=Sandboxes")
        page.wait_for_selector("[data-incomplete]:has-text('None of its rows are here')")
        assert is_clean(page)


def test_a_machine_that_has_not_joined_is_told_how(clustered):
    cluster = {"id": None, "state": "out", "right_ms": None, "lost_in_ms": None, "fence_after_ms": 1, "lost_after_ms": 1, "problems": [{"code": "not_joined", "message": "not in it", "hint": "join"}]}
    with clustered.open("/") as page:
        page.route("**/v1/nodes", lambda route: route.fulfill(json={"cluster": cluster, "as_of_us": None, "nodes": []}))
        page.click("nav >> text=Nodes")
        page.wait_for_selector(".empty:has-text('cloche node join')")
        page.wait_for_selector(".tile:has-text('not joined')")


def test_a_tenant_of_a_cluster_sees_no_nodes(clustered, three):
    with clustered.open("/", key=team_of(three)) as page:
        assert page.locator("nav a[href='/nodes']").is_hidden()
        page.evaluate("history.pushState(null, '', '/nodes'); dispatchEvent(new PopStateEvent('popstate'))")
        page.wait_for_selector(".empty:has-text('Only admins of the project default')")


def test_without_a_cluster_the_menu_and_the_keys_have_no_nodes(tab):
    with tab("/host") as page:
        asked = []
        page.on("response", lambda r: r.url.endswith("/v1/nodes") and asked.append(r.status))
        page.reload()
        page.wait_for_selector(".live[data-state=open]")
        page.wait_for_selector("main .tile")
        assert page.locator("nav a[href='/nodes']").is_hidden()
        page.keyboard.press("?")
        page.wait_for_selector("dialog:has-text('Overview')")
        assert page.locator("dialog dd:text-is('Nodes')").count() == 0
        page.keyboard.press("Escape")
        page.evaluate("history.pushState(null, '', '/nodes'); dispatchEvent(new PopStateEvent('popstate'))")
        page.wait_for_selector(".empty:has-text('This machine is in no cluster') a[href='/docs/guides/cluster']")
        assert asked[0] == 200


def test_sandboxes_show_their_node_and_the_list_says_what_it_lacks(clustered, three):
    a, b, c = three
    key = team_of(three)
    with made(key, b, c) as (first, second), clustered.open("/sandboxes", key=key) as page:
        page.wait_for_selector(f"tr[data-key={first}] td[data-label=Node]:text-is('berlin')")
        page.wait_for_selector(f"tr[data-key={second}] td[data-label=Node]:text-is('zurich')")
        page.wait_for_selector("[data-reported]:has-text('berlin, zurich')")  # other nodes do not know this login
        assert page.locator("[data-incomplete]").count() == 0
        with stopped(c):
            page.wait_for_selector("[data-incomplete]:has-text('zurich: it is silent')")
            take_pictures(page, "sandboxes-incomplete")
        page.locator("[data-incomplete]").wait_for(state="detached")
        with made(key, b) as (new,):  # the log of the node that is asked says nothing of it
            page.wait_for_selector(f"tr[data-key={new}]")
        page.click(f"tr[data-key={first}] a")
        page.wait_for_selector(".failure:has-text(\"'berlin' has it\"):has-text('ask that node')")
        page.watch.allow("401")
