# SPDX-License-Identifier: Apache-2.0
"""Usage of a cluster: each node's own figures, added up by whichever is asked, also while one is silent."""

import http.client
import os
import signal
import subprocess

import pytest
from harness.cluster import Database
from harness.daemon import BUILD, wait_for
from harness.whole_node import cluster_of

pytestmark = pytest.mark.skipif(not (BUILD / "cloche-cluster").exists(), reason="built without libpq")


@pytest.fixture(scope="module")
def database():
    database = Database()
    yield database
    database.close()


@pytest.fixture(scope="module")
def nodes(database):
    database.make("one")
    with cluster_of(database, "a", "b", options=lambda name: ("--usage-period", "1s")) as both:
        yield both


def project(node, key, name):
    made = node.ok("POST", "/v1/projects", {"name": name}, key=key)
    return made["id"], node.ok("POST", "/v1/keys", {"name": name, "project": name, "scope": "admin"}, key=key)["secret"]


def use(node, key, n):
    """n sandboxes with an exec each, on this node."""
    for _ in range(n):
        with node.client(key).create(template="host") as box:
            box.run(["true"])


FIGURES = ["running_ms", "cpu_ns", "memory_mib_ms", "memory_used_mib_ms", "disk_mib_ms", "network_in_bytes", "network_out_bytes", "execs", "calls", "creates"]


def own(database, project_id):
    """By node, what each has told of itself."""
    rows = database.ask(f"SELECT node, array_to_string(figures, ' ') FROM cluster.usage_days WHERE project_id = '{project_id}'", "one").splitlines()
    return {int(node): dict(zip(FIGURES, map(int, figures.split()))) for node, figures in (row.split("|") for row in rows)}


def usage(node, key, **query):
    return node.ok("GET", "/v1/usage" + ("?" + "&".join(f"{k}={v}" for k, v in query.items()) if query else ""), key=key)


def settled(node, key, creates):
    """All sandboxes have ended, and their last seconds are counted."""
    wait_for(lambda: usage(node, key)["total"]["creates"] == creates and not node.ok("GET", "/v1/sandboxes", key=key)["sandboxes"], 30, "all have ended")


def test_any_node_tells_the_sum_of_all_and_each_second_once(nodes, database):
    a, b = nodes
    project_id, key = project(a, a.daemon.key, "summed")
    use(a, key, 2)
    use(b, key, 3)
    settled(a, key, 5)
    told = [usage(n, key) for n in (a, b)]
    assert told[0]["incomplete"] == told[1]["incomplete"] == []
    assert told[0]["total"] == told[1]["total"]
    assert told[0]["total"]["execs"] == 5
    wait_for(lambda: {n: f["creates"] for n, f in own(database, project_id).items()} == {1: 2, 2: 3}, 60, "each has told its own")
    wait_for(lambda: all(told[0]["total"][figure] == sum(f[figure] for f in own(database, project_id).values()) for figure in FIGURES), 60, "they add up to the sum")
    assert all(f["running_ms"] and f["cpu_ns"] for f in own(database, project_id).values())
    by_day = usage(b, key, group_by="day")
    assert sum(row["running_ms"] for row in by_day["rows"]) == told[0]["total"]["running_ms"]


def test_pages_of_sandboxes_have_those_of_all_nodes_once(nodes):
    a, b = nodes
    _, key = project(a, a.daemon.key, "paged")
    use(a, key, 3)
    use(b, key, 4)
    settled(a, key, 7)
    for limit in (1, 2, 3, 100):
        ids, cursor = [], None
        while True:
            page = usage(b, key, group_by="sandbox", limit=limit, **({"cursor": cursor} if cursor else {}))
            assert len(page["rows"]) <= limit
            ids += [row["sandbox_id"] for row in page["rows"]]
            cursor = page["next_cursor"]
            if not cursor:
                break
        assert len(ids) == len(set(ids)) == 7 and ids == sorted(ids), limit


def test_csv_and_the_command_line_have_the_sums(nodes):
    a, b = nodes
    _, key = project(a, a.daemon.key, "told")
    use(a, key, 1)
    use(b, key, 1)
    settled(a, key, 2)
    total = usage(a, key)["total"]
    argv = [str(BUILD / "cloche"), "usage", "--json"]
    r = subprocess.run(argv, capture_output=True, text=True, timeout=60, env={**os.environ, "CLOCHE_URL": b.daemon.url, "CLOCHE_API_KEY": key})
    assert r.returncode == 0 and f'"running_ms": {total["running_ms"]}' in r.stdout and '"creates": 2' in r.stdout, r
    connection = http.client.HTTPConnection("127.0.0.1", b.daemon.port, timeout=60)
    connection.request("GET", "/v1/usage", headers={"X-API-Key": key, "Accept": "text/csv"})
    lines = connection.getresponse().read().decode().split("\r\n")
    assert dict(zip(lines[0].split(","), lines[1].split(",")))["running_ms"] == str(total["running_ms"])
    connection.close()


def told_to(database, project_id, figure_at):
    return int(database.ask(f"SELECT coalesce(sum(figures[{figure_at}]), 0) FROM cluster.usage_days WHERE project_id = '{project_id}'", "one"))


CREATES, EXECS = 10, 8  # places in a row


def test_figures_of_a_silent_node_are_the_last_it_told_and_their_age_is_said(nodes, database):
    a, b = nodes
    project_id, key = project(a, a.daemon.key, "silent")
    use(a, key, 1)
    use(b, key, 2)
    settled(a, key, 3)
    whole = usage(a, key)["total"]
    wait_for(lambda: told_to(database, project_id, CREATES) == 3, 60, "both have told it")
    wait_for(lambda: database.ask(f"SELECT sum(figures[1]) FROM cluster.usage_days WHERE project_id = '{project_id}'", "one") == str(whole["running_ms"]), 60, "all of it")
    pid = b.daemon.gateway_pid
    os.kill(pid, signal.SIGSTOP)
    try:
        told = usage(a, key)
        assert [part["node"] for part in told["incomplete"]] == ["b"] and told["incomplete"][0]["as_of_us"] > 0
        assert told["total"] == whole
        by_sandbox = usage(a, key, group_by="sandbox")
        assert len(by_sandbox["rows"]) == 1 and [part["node"] for part in by_sandbox["incomplete"]] == ["b"]
        r = subprocess.run([str(BUILD / "cloche"), "usage"], capture_output=True, text=True, timeout=60, env={**os.environ, "CLOCHE_URL": a.daemon.url, "CLOCHE_API_KEY": key})
        assert r.returncode == 0 and "node b as of" in r.stderr, r
    finally:
        os.kill(pid, signal.SIGCONT)
    wait_for(lambda: usage(a, key)["incomplete"] == [], 30, "b answers")
    assert usage(a, key)["total"] == whole


def test_a_database_that_was_set_back_is_told_again_and_counts_nothing_twice(nodes, database):
    a, b = nodes
    project_id, key = project(a, a.daemon.key, "rewound")
    use(a, key, 1)
    use(b, key, 1)
    settled(a, key, 2)
    wait_for(lambda: told_to(database, project_id, CREATES) == 2, 60, "both have told it")
    database.ask("TRUNCATE cluster.usage_days", "one")
    database.stop()
    database.start()
    for n in nodes:
        n.await_state("held")
    wait_for(lambda: told_to(database, project_id, CREATES) == 2, 60, "it is told again")
    assert told_to(database, project_id, EXECS) == 2
    assert usage(b, key)["total"]["creates"] == 2


def test_without_the_database_nodes_are_asked_all_the_same(nodes, database):
    a, b = nodes
    _, key = project(a, a.daemon.key, "away")
    use(a, key, 1)
    use(b, key, 1)
    settled(a, key, 2)
    database.stop()
    try:
        for n in nodes:
            n.await_state("fenced")
        told = usage(a, key)
        assert told["total"]["creates"] == 2
        assert [part["node"] for part in told["incomplete"]] == [None]
    finally:
        database.start()
        for n in nodes:
            n.await_state("held")


@pytest.mark.parametrize("answer", ["'[]'", "'{\"rows\": 7}'", "'{\"rows\": [[1, 2]]}'", "'{\"rows\": [[\"prj_x\", 20000, [-1, 1e300, \"x\"]]], \"has_more\": true}'",
                                    "jsonb_build_object('rows', jsonb_build_array(jsonb_build_array(repeat('x', 9000), 99999999999, '[]'::jsonb)), 'told', '[[]]'::jsonb)", "NULL"])
def test_a_lying_database_changes_no_figure_of_nodes_that_answer(nodes, database, answer):
    a, b = nodes
    key = a.daemon.key
    before, pid = usage(a, key, group_by="day"), a.daemon.gateway_pid
    database.ask("ALTER FUNCTION cluster.usage_of RENAME TO usage_kept", "one")
    try:
        database.ask(f"""CREATE FUNCTION cluster.usage_of(node int, secret text, project_id text, but jsonb, from_day int, to_day int, by_day boolean, after_project text, after_day int)
                         RETURNS jsonb LANGUAGE sql AS $$ SELECT ({answer})::jsonb $$""", "one")
        told = usage(a, key, group_by="day")
        assert [row["creates"] for row in told["rows"]] == [row["creates"] for row in before["rows"]]
        assert told["incomplete"]
    finally:
        database.ask("DROP FUNCTION IF EXISTS cluster.usage_of; ALTER FUNCTION cluster.usage_kept RENAME TO usage_of", "one")
    assert a.daemon.gateway_pid == pid
