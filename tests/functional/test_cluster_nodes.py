# SPDX-License-Identifier: Apache-2.0
"""GET /v1/nodes: any node of a cluster tells of all, without asking the database: whole daemons and a real PostgreSQL."""

import contextlib
import json
import os
import signal
import time

import pytest
from cloche import errors
from contract.description import OPERATIONS
from functional.test_cluster_lists import answering, stopped
from harness.cluster import FENCE_AFTER_S, Database
from harness.daemon import BUILD, wait_for
from harness.running import running
from harness.whole_node import Member, cluster_of, team_of, without

pytestmark = pytest.mark.skipif(not (BUILD / "cloche-cluster").exists(), reason="built without libpq")


@pytest.fixture(scope="module")
def database():
    d = Database()
    d.make("one")
    yield d
    d.close()


@pytest.fixture(scope="module")
def three(database):
    with cluster_of(database, "a", "b", "c") as nodes:
        yield nodes


def told(node, key):
    """What a node tells of all, which must be as api/openapi.yaml describes it."""
    answer = node.ok("GET", "/v1/nodes", key=key)
    OPERATIONS["list_nodes"].check(200, "application/json", json.dumps(answer).encode())
    return answer


def row(node, key, name):
    return next((n for n in told(node, key)["nodes"] if n["name"] == name), None)


def sound(answer):
    return [n["state"] for n in answer["nodes"]] == ["up"] * 3 and not any(n["problem"] for n in answer["nodes"]) and answer["cluster"]["problems"] == []


def test_each_node_tells_the_same_of_all_and_which_it_is_itself(three):
    key = three[0].daemon.key
    for here in three:
        wait_for(lambda here=here: sound(told(here, key)), 30, "all are well")
        before_us = time.time_ns() // 1000
        answer = told(here, key)
        assert [(n["name"], n["number"], n["address"], n["this_node"], n["cordoned"]) for n in answer["nodes"]] == [(n.name, i, n.address, n is here, False) for i, n in enumerate(three, 1)]
        cluster = answer["cluster"]
        assert cluster["id"] == here.status()["cluster_id"] and cluster["state"] == "held"
        assert 0 < cluster["right_ms"] <= cluster["fence_after_ms"] == 1000 * FENCE_AFTER_S
        assert cluster["right_ms"] < cluster["lost_in_ms"] < cluster["lost_after_ms"]
        assert answer["as_of_us"] <= before_us + 60_000_000
        for n in answer["nodes"]:
            assert n["beat_age_ms"] >= 0 and n["version"] == here.call("GET", "/v1/health", key=key)[1]["version"]


def test_what_a_node_has_and_how_full_it_is_is_told_by_the_others(three):
    a, b, _ = three
    key = team_of(three)
    admin = a.daemon.key
    wait_for(lambda: row(a, admin, "b")["load"]["cpus"], 30, "its load is told")
    before = row(a, admin, "b")["load"]
    assert before["spares"] == 0 and before["sandboxes_max"] > 0 and before["cpus"] == os.cpu_count()
    assert 0 < before["memory_mib"] < before["memory_max_mib"] and 0 <= before["disk_mib"] < before["disk_max_mib"] and before["cpu_milli"] <= 2000 * before["cpus"]
    made = [b.ok("POST", "/v1/sandboxes", {"template": "host"}, key=key)["id"] for _ in range(3)]
    wait_for(lambda: row(a, admin, "b")["load"]["sandboxes"] == before["sandboxes"] + 3, 30, "the other node tells of them")
    wait_for(lambda: row(b, admin, "b")["load"]["sandboxes"] == before["sandboxes"] + 3, 30, "and itself")
    for i in made:
        b.ok("DELETE", f"/v1/sandboxes/{i}", key=key)
    wait_for(lambda: row(a, admin, "b")["load"]["sandboxes"] == before["sandboxes"], 30, "they have gone")


def test_it_is_for_the_operators_of_the_host_alone(three):
    a, _, _ = three
    assert a.refused("GET", "/v1/nodes", key=team_of(three)) == (403, "forbidden")
    other = a.ok("POST", "/v1/projects", {"name": "nodes-tenant"})["id"]
    admin = a.ok("POST", "/v1/keys", {"name": "k", "project": other, "scope": "admin"})["secret"]
    reader = a.ok("POST", "/v1/keys", {"name": "r", "scope": "read"})["secret"]
    assert a.refused("GET", "/v1/nodes", key=admin) == (403, "forbidden")
    assert a.refused("GET", "/v1/nodes", key=reader) == (403, "forbidden")
    assert a.refused("GET", "/v1/nodes", key="no key") == (401, "unauthenticated")
    assert a.refused("GET", "/v1/nodes?node=b", key=a.daemon.key)[0] == 400


def test_the_sdk_gives_it(three):
    a, _, _ = three
    with a.client() as client:
        assert [n["name"] for n in client.nodes()["nodes"]] == ["a", "b", "c"]
    with a.client(team_of(three)) as client, pytest.raises(errors.Forbidden):
        client.nodes()


def test_a_cordoned_node_is_shown_so_by_all(three):
    a, b, c = three
    key = a.daemon.key
    b.ask("node", "cordon")
    try:
        for n in three:
            wait_for(lambda n=n: row(n, key, "b")["cordoned"], 30, "it is cordoned")
            assert row(n, key, "b")["state"] == "up" and not row(n, key, "c")["cordoned"]
    finally:
        b.ask("node", "uncordon")
    wait_for(lambda: not row(c, key, "b")["cordoned"], 30, "it is not any more")


def test_a_silent_node_is_told_with_what_to_do(three):
    a, b, c = three
    key = a.daemon.key
    with stopped(c):
        for n in (a, b):
            wait_for(lambda n=n: row(n, key, "c")["state"] in ("silent", "fenced"), 30, "it is silent")
            seen = row(n, key, "c")
            assert seen["problem"]["code"] in ("node_silent", "node_fenced") and "systemctl status cloche" in seen["problem"]["hint"], seen
            assert seen["beat_age_ms"] >= 1000 * FENCE_AFTER_S
            assert seen["load"]["cpus"] == os.cpu_count()  # what it told last
            assert row(n, key, "a")["state"] == row(n, key, "b")["state"] == "up"
    for n in three:
        wait_for(lambda n=n: sound(told(n, key)), 30, "all are well")


def test_without_the_database_the_last_beats_are_told_with_their_time_and_what_is_wrong(three, database):
    """So no request asks the database: it is not there."""
    a, _, _ = three
    key = a.daemon.key
    wait_for(lambda: sound(told(a, key)), 30, "all are well")
    with without(database, *three):
        wait_for(lambda: told(a, key)["cluster"]["problems"], 30, "it knows why")
        answer = told(a, key)
        (problem,) = answer["cluster"]["problems"]
        assert problem["code"] == "database_unreachable" and "pg_isready" in problem["hint"]
        assert answer["cluster"]["state"] == "fenced" and answer["cluster"]["right_ms"] is None and answer["cluster"]["lost_in_ms"] > 0
        assert [(n["name"], n["state"]) for n in answer["nodes"]] == [("a", "fenced"), ("b", "up"), ("c", "up")]
        assert answer["nodes"][0]["problem"] == problem and answer["nodes"][0]["beat_age_ms"] >= 1000 * FENCE_AFTER_S
        assert told(a, key)["as_of_us"] == answer["as_of_us"] and answer["as_of_us"] < time.time_ns() // 1000
    wait_for(lambda: sound(told(a, key)) and told(a, key)["as_of_us"] > answer["as_of_us"], 30, "the beats are heard again")


def test_a_database_that_does_not_answer_delays_nobody_who_asks(three, database):
    a, _, _ = three
    key = a.daemon.key
    wait_for(lambda: sound(told(a, key)), 30, "all are well")
    pids = [int(p) for p in database.ask("SELECT pid FROM pg_stat_activity WHERE datname = 'one' AND usename <> 'owner'", "one").split()]
    assert len(pids) >= 6
    for p in pids:
        os.kill(p, signal.SIGSTOP)
    try:
        for _ in range(20):
            assert len(told(a, key)["nodes"]) == 3
    finally:
        for p in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(p, signal.SIGCONT)
    wait_for(lambda: sound(told(a, key)), 60, "all are well again")


LIES = ["5", "'[]'::jsonb", "'{\"nodes\": 5, \"number\": \"x\"}'::jsonb", "'{\"nodes\": [1, {}], \"number\": 7}'::jsonb"]
# Rows of a right shape, of which the figures are of none.
ROWS = """SELECT jsonb_build_object('number', 7, 'nodes', jsonb_agg(jsonb_build_object('node', n.node, 'name', n.name, 'address', n.address, 'epoch', 1, 'is_claimed', 7, 'is_lost', NULL,
    'is_cordoned', 'yes', 'seen_ms_ago', -5, 'figures', '{"version": "<script>1</script>", "skew_ms": "x", "load": {"sandboxes": -1, "cpus": 1.5, "spares": "many", "cpu_milli": 900000000000000000,
    "capacity": "x", "committed": [null, "x", -3]}}'::jsonb, 'tags', (SELECT jsonb_agg(t.tag) FROM cluster.node_tags t WHERE t.node = n.node)) ORDER BY n.node)) FROM cluster.nodes n"""


def test_a_database_that_lies_about_the_nodes_says_nothing_of_another_shape_and_ends_nobody(three, database):
    a, _, _ = three
    key = a.daemon.key
    before = [n.daemon.gateway_pid for n in three]
    for lie in LIES:
        wait_for(lambda: sound(told(a, key)), 30, "all are well")
        with answering(database, "directory", "node int, secret text", f"to_jsonb({lie})"):
            some_beats(a)  # a question that was under way is answered
            since = told(a, key)["as_of_us"]
            some_beats(a)
            assert told(a, key)["as_of_us"] == since, lie  # what was right last stays
            assert [n["name"] for n in told(a, key)["nodes"]] == ["a", "b", "c"]
    literal = "'" + database.ask(ROWS, "one").replace("'", "''") + "'::jsonb"  # nodes may read no table
    with answering(database, "directory", "node int, secret text", literal):
        wait_for(lambda: row(a, key, "b")["version"] is None, 30, "it is read")
        lied = row(a, key, "b")
        assert all(v is None for v in lied["load"].values()) and lied["beat_age_ms"] is None and not lied["cordoned"], lied
        assert row(a, key, "a")["version"]  # of itself it knows
    wait_for(lambda: sound(told(a, key)), 30, "all are well")
    assert [n.daemon.gateway_pid for n in three] == before


def some_beats(node):
    since = node.status()["beats"]
    wait_for(lambda: node.status()["beats"] >= since + 4, 30, "some beats")


def test_a_node_that_has_not_joined_says_so_and_what_is_wrong_with_its_store(database):
    alone = Member("z", database, options=("--cluster-objects", "dir:///nowhere/cloche-test-objects"))
    with running(alone.daemon):
        alone.await_problem("not_joined")
        wait_for(lambda: len(told(alone, alone.daemon.key)["cluster"]["problems"]) == 2, 30, "the store was looked at")
        answer = told(alone, alone.daemon.key)
        assert answer["cluster"]["id"] is None and answer["cluster"]["state"] == "out" and answer["nodes"] == [] and answer["as_of_us"] is None
        assert [p["code"] for p in answer["cluster"]["problems"]] == ["not_joined", "objects_missing"]


@pytest.fixture
def short_lived():
    """A database of its own, whose nodes are lost soon."""
    d = Database()
    d.make("one")
    yield d
    d.close()


def test_a_lost_node_is_told_as_lost_until_it_is_removed_and_then_tells_it_of_itself(short_lived):
    with cluster_of(short_lived, "a", "c", lost_after_s=5 * FENCE_AFTER_S) as (a, c):
        key = a.daemon.key
        with stopped(c):
            wait_for(lambda: row(a, key, "c")["state"] == "lost", 60, "it is lost")
            assert row(a, key, "c")["problem"]["code"] == "node_lost"
        wait_for(lambda: row(a, key, "c")["state"] == "up", 60, "it is back")
        c.ask("node", "cordon")
        a.ask("node", "rm", "--owner", short_lived.owner("one"), "c")
        wait_for(lambda: row(a, key, "c") is None, 30, "it is no node of the cluster any more")
        wait_for(lambda: row(c, key, "c")["state"] == "removed", 30, "it knows")
        assert row(c, key, "c")["this_node"] and row(c, key, "c")["problem"]["code"] == "node_unknown"
