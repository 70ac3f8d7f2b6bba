# SPDX-License-Identifier: Apache-2.0
"""Quotas hold over the whole cluster: whole daemons on one machine and a real PostgreSQL."""

import contextlib
import os
import signal
from concurrent.futures import ThreadPoolExecutor

import pytest
from harness.daemon import BUILD, wait_for
from harness.whole_node import cluster_of, without

pytestmark = pytest.mark.skipif(not (BUILD / "cloche-cluster").exists(), reason="built without libpq")


@pytest.fixture(scope="module")
def pair(database):
    with cluster_of(database, "a", "b", options=lambda name: ("--price-create", "1.00")) as nodes:
        yield nodes


@contextlib.contextmanager
def project(first, name, **limits):
    """A project of the whole cluster with these limits, and a key of it."""
    made = first.ok("POST", "/v1/projects", {"name": name})
    key = first.ok("POST", "/v1/keys", {"name": "k", "project": name, "scope": "admin"})["secret"]
    first.ok("PUT", f"/v1/projects/{made['id']}/quota", limits)
    yield made["id"], key


def knows(node, key, what, limit):
    """The change has come with a beat."""
    wait_for(lambda: node.call("GET", "/v1/quota", key=key)[1].get("project", {}).get("limits", {}).get(what) == limit, 30, f"{node.name} knows the limit")


def create(node, key, **body):
    try:
        return node.call("POST", "/v1/sandboxes", {"template": "host", **body}, key=key)
    except OSError:
        return 0, {}


def live(node, key):
    return [s["id"] for s in node.ok("GET", "/v1/sandboxes", key=key)["sandboxes"] if s["state"] in ("running", "creating", "paused")]


def clear(nodes, key):
    for n in nodes:
        for s in live(n, key):
            n.call("DELETE", f"/v1/sandboxes/{s}", key=key)
    wait_for(lambda: not any(live(n, key) for n in nodes), 60, "all are gone")


def leased(database, project_id, what="sandboxes"):
    return int(database.ask(f"SELECT coalesce(sum(amount), 0) FROM cluster.leases WHERE project_id = '{project_id}' AND what = '{what}'", "one"))


def own_sandboxes(node, key):
    return {s for s in live(node, key)}


def all_live(nodes, key):
    return set().union(*(own_sandboxes(n, key) for n in nodes))


def test_a_flood_of_creates_on_all_nodes_stops_at_the_limit_and_reaches_it(pair, database):
    with project(pair[0], "flood", sandboxes=10) as (project_id, key):
        for n in pair:
            knows(n, key, "sandboxes", 10)
        with ThreadPoolExecutor(8) as pool:
            got = list(pool.map(lambda i: create(pair[i % 2], key), range(30)))
        made = [answer["id"] for status, answer in got if status == 201]
        assert len(made) == 10 == len(all_live(pair, key)), [(s, a.get("error", {}).get("message")) for s, a in got]
        assert {status for status, _ in got} == {201, 429}
        assert {a["error"]["code"] for s, a in got if s == 429} == {"quota_exceeded"}
        assert leased(database, project_id) <= 10
        clear(pair, key)
        wait_for(lambda: create(pair[1], key)[0] == 201, 30, "there is room again")
        clear(pair, key)


def test_what_one_node_does_not_use_another_one_gets(pair, database):
    with project(pair[0], "moves", sandboxes=6) as (project_id, key):
        for n in pair:
            knows(n, key, "sandboxes", 6)
        for here, there in (pair, pair[::-1]):
            assert [create(here, key)[0] for _ in range(6)] == [201] * 6
            assert create(there, key)[0] == 429
            clear(pair, key)
            wait_for(lambda there=there: create(there, key)[0] == 201, 30, "a recalled part")
            clear(pair, key)
        assert leased(database, project_id) <= 6


@pytest.mark.parametrize("limits, body", [({"vcpus": 2}, {"limits": {"vcpus": 1}}), ({"memory_mib": 512}, {"limits": {"memory_mib": 256}}),
                                          ({"disk_mib": 1024}, {"limits": {"disk_mib": 512}})])
def test_cpus_memory_and_disk_are_shared_as_sandboxes_are(pair, limits, body):
    what = next(iter(limits))
    with project(pair[0], f"of-{what.replace('_', '-')}", **limits) as (_, key):
        for n in pair:
            knows(n, key, what, limits[what])
        assert create(pair[0], key, **body)[0] == 201
        assert create(pair[1], key, **body)[0] == 201
        status, answer = create(pair[1], key, **body)
        assert status == 429 and what in answer["error"]["message"], answer
        clear(pair, key)


def test_creates_a_minute_are_counted_over_all_nodes(pair):
    with project(pair[0], "rate", creates_per_minute=4) as (_, key):
        for n in pair:
            knows(n, key, "creates_per_minute", 4)
        got = [create(pair[i % 2], key) for i in range(8)]
        made = [s for s, _ in got if s == 201]
        assert 4 <= len(made) <= 6, [s for s, _ in got]  # it fills meanwhile, one in fifteen seconds
        refused = next(a for s, a in got if s == 429)
        assert "creates_per_minute" in str(refused) or "a minute" in refused["error"]["message"]
        clear(pair, key)


def test_a_budget_is_spent_once_over_all_nodes(pair):
    with project(pair[0], "budget", budget="5.00") as (_, key):
        for n in pair:
            knows(n, key, "budget", "5.00")
        got = [create(pair[i % 2], key) for i in range(9)]
        assert [s for s, _ in got].count(201) == 5, [(s, a.get("error", {}).get("message")) for s, a in got]
        refused = next(a for s, a in got if s != 201)
        assert refused["error"]["code"] == "budget_exceeded"
        for n in pair:  # what it has admitted goes on
            assert [s["state"] for s in n.ok("GET", "/v1/sandboxes", key=key)["sandboxes"] if s["id"] in {a.get("id") for _, a in got}].count("running") >= 2
        clear(pair, key)


def test_what_the_whole_cluster_uses_is_told(pair):
    with project(pair[0], "told", sandboxes=5) as (_, key):
        for n in pair:
            knows(n, key, "sandboxes", 5)
        assert [create(pair[i % 2], key)[0] for i in range(4)] == [201] * 4
        for n in pair:
            wait_for(lambda n=n: n.ok("GET", "/v1/quota", key=key)["project"]["cluster"].get("sandboxes", {}).get("used") == 4, 60, "all that is used")
            told = n.ok("GET", "/v1/quota", key=key)["project"]
            assert 4 <= told["cluster"]["sandboxes"]["reserved"] <= 5 and told["current"]["sandboxes"] == 2
        clear(pair, key)


def test_a_node_that_joins_leaves_no_empty_project_behind(pair):
    for n in pair:
        wait_for(lambda n=n: [p["name"] for p in n.ok("GET", "/v1/projects", key=pair[0].daemon.key)["projects"]].count("default") == 1, 30, "the cluster's project")
        assert not [p["name"] for p in n.ok("GET", "/v1/projects", key=pair[0].daemon.key)["projects"] if p["name"].startswith("default-")]


def test_a_keys_own_limit_holds_on_all_nodes(pair):
    with project(pair[0], "of-key", sandboxes=8) as (_, admin):
        made = pair[0].ok("POST", "/v1/keys", {"name": "small"}, key=admin)
        key = made["secret"]
        pair[0].ok("PUT", f"/v1/keys/{made['key']['id']}/quota", {"sandboxes": 2}, key=admin)
        for n in pair:
            wait_for(lambda n=n: (n.call("GET", "/v1/quota", key=key)[1].get("key") or {}).get("limits", {}).get("sandboxes") == 2, 30, "the limit")
        assert [create(pair[i % 2], key)[0] for i in range(4)] == [201, 201, 429, 429]
        clear(pair, admin)


def test_a_lowered_limit_admits_nothing_until_enough_has_ended(pair, database):
    with project(pair[0], "lowered", sandboxes=6) as (project_id, key):
        for n in pair:
            knows(n, key, "sandboxes", 6)
        assert [create(pair[i % 2], key)[0] for i in range(6)] == [201] * 6
        pair[1].ok("PUT", f"/v1/projects/{project_id}/quota", {"sandboxes": 2}, key=pair[0].daemon.key)
        for n in pair:
            knows(n, key, "sandboxes", 2)
        while len(all_live(pair, key)) > 2:
            assert create(pair[0], key)[0] == create(pair[1], key)[0] == 429
            n = next(n for n in pair if own_sandboxes(n, key))
            n.ok("DELETE", f"/v1/sandboxes/{sorted(own_sandboxes(n, key))[0]}", key=key)
        assert create(pair[0], key)[0] == 429
        clear(pair, key)
        wait_for(lambda: leased(database, project_id) <= 2, 60, "the rest went back")
        wait_for(lambda: create(pair[0], key)[0] == 201, 30, "there is room")
        clear(pair, key)


def test_without_the_database_creates_go_on_within_what_is_held(pair, database):
    with project(pair[0], "away", sandboxes=6) as (_, key), project(pair[0], "free") as (_, free):
        for n in pair:
            knows(n, key, "sandboxes", 6)
            wait_for(lambda n=n: n.call("GET", "/v1/quota", key=free)[0] == 200, 30, "the key")
        assert [create(pair[0], key)[0] for _ in range(3)] == [201] * 3
        pair[0].ok("DELETE", f"/v1/sandboxes/{live(pair[0], key)[0]}", key=key)
        with without(database, *pair):
            assert create(pair[0], key)[0] == 201  # out of what it holds
            for n in pair:  # an eighth more may have been given in advance, to the other one too when a create was led there
                status, answer = 201, {}
                while status == 201:
                    assert len(all_live(pair, key)) <= 6
                    status, answer = create(n, key)
                assert status == 503 and answer["error"]["code"] == "cluster_unavailable", answer
            assert create(pair[1], free)[0] == 201  # a project without a limit asks nobody
        for n in pair:
            n.await_state("held")
        wait_for(lambda: create(pair[1], key)[0] == 201, 30, "it is asked again")
        clear(pair, key)
        clear(pair, free)


@pytest.mark.parametrize("victim", ["gateway", "member"])
def test_a_part_that_is_killed_in_the_middle_of_a_flood_admits_nothing_more(pair, database, victim):
    with project(pair[0], f"killed-{victim}", sandboxes=10) as (project_id, key):
        for n in pair:
            knows(n, key, "sandboxes", 10)
        with ThreadPoolExecutor(8) as pool:
            flood = [pool.submit(create, pair[i % 2], key) for i in range(40)]
            wait_for(lambda: sum(f.done() for f in flood) >= 4, 60, "the flood has begun")
            os.kill(pair[1].daemon.gateway_pid if victim == "gateway" else pair[1].member_pid(), signal.SIGKILL)
            for f in flood:
                f.result()
        wait_for(lambda: pair[1].call("GET", "/v1/sandboxes", key=key)[0] == 200, 60, "it answers again")
        assert len(all_live(pair, key)) <= 10
        pair[1].await_state("held")
        wait_for(lambda: create(pair[1], key)[0] == 429 or len(all_live(pair, key)) >= 10, 60, "the limit is reached")
        wait_for(lambda: create(pair[0], key)[0] == 429, 60, "on both")
        assert len(all_live(pair, key)) == 10 and leased(database, project_id) <= 10
        clear(pair, key)


@pytest.mark.parametrize("answer", ["'[]'", "'7'", "'{\"result\": \"ok\", \"leases\": 7}'", "'{\"result\": \"ok\", \"leases\": [1, null, {\"owner\": 5}]}'", "NULL", "to_jsonb(repeat('x', 200000))",
                                    "jsonb_build_object('result', 'ok', 'leases', (SELECT jsonb_agg(c || '{\"total\": 4000000000000000000, \"limit\": -1, \"leased\": 1e300}') FROM jsonb_array_elements(calls) c))",
                                    "jsonb_build_object('result', 'ok', 'leases', (SELECT jsonb_agg(c || '{\"total\": -5}') FROM jsonb_array_elements(calls) c))"])
def test_a_lying_database_ends_no_gateway_and_gives_no_more_than_was_asked_for(pair, database, answer):
    with project(pair[0], "lies-" + str(abs(hash(answer)) % 10**8), sandboxes=4) as (_, key):
        knows(pair[1], key, "sandboxes", 4)
        before = pair[1].daemon.gateway_pid
        database.ask("ALTER FUNCTION cluster.lease_many RENAME TO lease_many_kept", "one")
        try:
            database.ask(f"CREATE FUNCTION cluster.lease_many(node int, secret text, epoch bigint, calls jsonb) RETURNS jsonb LANGUAGE sql AS $$ SELECT ({answer})::jsonb $$", "one")
            statuses = [create(pair[1], key)[0] for _ in range(2)]
            assert set(statuses) <= {201, 429, 503}, statuses
        finally:
            database.ask("DROP FUNCTION IF EXISTS cluster.lease_many; ALTER FUNCTION cluster.lease_many_kept RENAME TO lease_many", "one")
        wait_for(lambda: create(pair[1], key)[0] == 201, 60, "it goes on")
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(lambda _: create(pair[1], key), range(6)))
        assert len(all_live(pair, key)) <= 4 and pair[1].daemon.gateway_pid == before
        clear(pair, key)
