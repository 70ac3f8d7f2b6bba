# SPDX-License-Identifier: Apache-2.0
"""A list asked of any node has the sandboxes and snapshots of all nodes: three whole daemons and a real PostgreSQL."""

import contextlib
import http.client
import json
import os
import signal
import socket
import subprocess
from concurrent.futures import ThreadPoolExecutor

import pytest
from cloche import errors
from harness.cluster import FENCE_AFTER_S, Database
from harness.daemon import BUILD, children_of, wait_for
from harness.whole_node import cluster_of, team_of, without

pytestmark = pytest.mark.skipif(not (BUILD / "cloche-cluster").exists(), reason="built without libpq")


@pytest.fixture(scope="module")
def three(database):
    with cluster_of(database, "a", "b", "c") as nodes:
        yield nodes


@pytest.fixture
def team(three):
    return team_of(three)


def listed(node, key, query="", what="sandboxes"):
    return node.ok("GET", f"/v1/{what}{query}", key=key)


def ids(answer, what="sandboxes"):
    return [row["id"] for row in answer[what]]


def pages(node, key, limit, query="", what="sandboxes"):
    """All rows of all pages, one after the other, each page asked of the next node."""
    rows, cursor, nodes = [], None, list(node)
    while True:
        page = nodes[0].ok("GET", f"/v1/{what}?limit={limit}{query}" + (f"&cursor={cursor}" if cursor else ""), key=key)
        nodes = nodes[1:] + nodes[:1]
        rows += page[what]
        cursor = page["next_cursor"]
        assert len(page[what]) <= limit
        if not cursor:
            return rows


@contextlib.contextmanager
def made(key, *places, **more):
    """A sandbox on each of the nodes."""
    done = []
    try:
        for n in places:
            done.append((n, n.ok("POST", "/v1/sandboxes", {"template": "host", **more}, key=key)["id"]))
        yield [i for _, i in done]
    finally:
        for n, i in done:
            n.call("DELETE", f"/v1/sandboxes/{i}", key=key)


def test_a_sandbox_is_listed_by_every_node_as_soon_as_it_is_made(three, team):
    for here in three:
        with made(team, here) as (sandbox_id,):
            for n in three:
                answer = listed(n, team)
                assert [(row["id"], row["node"]) for row in answer["sandboxes"]] == [(sandbox_id, here.name)]
                assert answer["incomplete"] == []
        for n in three:
            assert ids(listed(n, team)) == []


def test_pages_over_all_nodes_lose_and_repeat_nothing(three, team):
    a, b, c = three
    with made(team, a, b, c, c, a, b, a, c, b, b) as all_ids:
        for limit in (1, 2, 3, 7, 100):
            rows = pages(three, team, limit)
            assert sorted(row["id"] for row in rows) == sorted(all_ids)
            assert [row["created_us"] for row in rows] == sorted((row["created_us"] for row in rows), reverse=True)
        first = a.ok("GET", "/v1/sandboxes?limit=4", key=team)
        with made(team, b, c):  # those that come later stand before the page
            rest = c.ok("GET", f"/v1/sandboxes?limit=100&cursor={first['next_cursor']}", key=team)
            assert sorted(ids(first) + ids(rest)) == sorted(all_ids)


def test_filters_hold_on_all_nodes(three, team):
    a, b, c = three
    with made(team, a, b, tags={"suite": "x"}) as tagged, made(team, c, tags={"suite": "y"}) as other:
        for n in three:
            assert sorted(ids(listed(n, team, "?tag=suite:x"))) == sorted(tagged)
            assert ids(listed(n, team, "?tag=suite:y")) == other
            assert ids(listed(n, team, "?state=paused")) == []
        b.ok("POST", f"/v1/sandboxes/{tagged[0]}/pause", {}, key=team)
        for n in three:
            assert ids(listed(n, team, "?state=paused")) == tagged[:1]
            assert n.refused("GET", "/v1/sandboxes?state=lost", key=team) == (400, "invalid_field")


def test_nobody_sees_another_projects_rows(three, team):
    key = three[0].daemon.key
    with made(key, *three), made(team, three[1]) as (own,):
        for n in three:
            assert ids(listed(n, team)) == [own]
            assert own not in ids(listed(n, key))  # the control: the other project has three of its own
            assert len(ids(listed(n, key))) == 3
            for bad in ("?project=default", "?cursor=x", "?cursor=c2Jf"):
                assert n.refused("GET", f"/v1/sandboxes{bad}", key=team)[0] == 400


def test_a_field_that_says_it_is_a_peer_gets_nothing_more(three, team):
    """What peers say among themselves is an ordinary field where a client says it."""
    with made(team, three[1]) as (own,):
        for field in ("Cloche-Client", "Cloche-Moved", "Cloche-Incomplete"):
            answer = three[0].ok("GET", "/v1/sandboxes", key=team, headers={field: "1"})
            assert ids(answer) == [own] and answer["incomplete"] == []


def test_snapshots_are_listed_by_every_node_and_of_a_sandbox_by_its_name(three, team):
    a, b, c = three
    with made(team, b, name="source") as (source,), made(team, c) as (other,):
        first = b.ok("POST", f"/v1/sandboxes/{source}/snapshots", {}, key=team)["id"]
        second = c.ok("POST", f"/v1/sandboxes/{other}/snapshots", {}, key=team)["id"]
        for n in three:
            assert ids(listed(n, team, what="snapshots"), "snapshots") == [second, first]
            assert ids(listed(n, team, "?sandbox=source", "snapshots"), "snapshots") == [first]
            assert ids(listed(n, team, f"?sandbox={other}", "snapshots"), "snapshots") == [second]
        assert [row["id"] for row in pages(three, team, 1, what="snapshots")] == [second, first]
        for i in (first, second):
            a.ok("DELETE", f"/v1/snapshots/{i}", key=team)


def test_many_lists_at_once_are_all_whole(three, team):
    a, b, c = three
    with made(team, a, b, c) as all_ids, ThreadPoolExecutor(12) as pool:
        answers = list(pool.map(lambda i: three[i % 3].call("GET", "/v1/sandboxes", key=team), range(60)))
    assert {status for status, _ in answers} == {200}
    for _, answer in answers:
        assert sorted(ids(answer)) == sorted(all_ids) and answer["incomplete"] == []


def told(database, node):
    """Ids that the directory has of a node."""
    return set(database.ask(f"SELECT s.sandbox_id FROM cluster.sandboxes s JOIN cluster.nodes n USING (node) WHERE n.name = '{node.name}'", "one").split())


def await_told(database, node, want):
    wait_for(lambda: want <= told(database, node), 30, "the directory knows them")


@contextlib.contextmanager
def stopped(node):
    """A node all of whose processes stand still."""
    pids = [node.daemon.process.pid, *children_of(node.daemon.process.pid)]  # the launcher first: it replaces what stands still
    for p in pids:
        os.kill(p, signal.SIGSTOP)
    try:
        yield
    finally:
        for p in reversed(pids):
            os.kill(p, signal.SIGCONT)
        node.await_state("held")


def test_what_a_silent_node_had_is_listed_with_its_age_and_comes_back_with_it(three, team, database):
    a, b, c = three
    with made(team, a, b, c) as all_ids:
        await_told(database, c, {all_ids[2]})
        with stopped(c):
            for n in (a, b):
                answer = listed(n, team)
                assert sorted(ids(answer)) == sorted(all_ids)
                (behind,) = answer["incomplete"]
                assert behind["node"] == "c" and behind["as_of_us"] > 0, behind
                assert [row["id"] for row in pages((a, b), team, 1)] == ids(answer)
                assert n.refused("GET", f"/v1/sandboxes/{all_ids[2]}", key=team) == (503, "node_unreachable")
            with a.client(team) as client, pytest.warns(errors.IncompleteList, match="node c"):
                assert sorted(s.id for s in client.list()) == sorted(all_ids)
        for n in three:
            wait_for(lambda n=n: listed(n, team)["incomplete"] == [], 30, "all answer again")
            assert sorted(ids(listed(n, team))) == sorted(all_ids)


def test_without_the_database_a_list_says_that_it_may_not_be_whole(three, team, database):
    a, b, c = three
    with made(team, a, b, c) as all_ids:
        with without(database, *three):
            answer = listed(a, team)
            assert sorted(ids(answer)) == sorted(all_ids)  # the nodes themselves are reached
            assert [row["node"] for row in answer["incomplete"]] == [None]
        assert listed(a, team)["incomplete"] == []


def test_the_directory_follows_what_ends_also_while_the_database_was_away(three, team, database):
    a, b, c = three
    with made(team, b, b) as (kept, deleted):
        await_told(database, b, {kept, deleted})
        with without(database, *three):
            b.ok("DELETE", f"/v1/sandboxes/{deleted}", key=team)
        wait_for(lambda: deleted not in told(database, b), 30, "the directory has heard of its end")
        assert kept in told(database, b)
        database.ask("DELETE FROM cluster.sandboxes", "one")  # rows that the database has lost, and says so by its number
        database.ask("UPDATE cluster.told SET number = number - 1", "one")
        await_told(database, b, {kept})


def test_the_command_line_shows_the_node_of_each_and_says_what_the_list_lacks(three, team, database):
    a, b, c = three
    env = {**os.environ, "CLOCHE_URL": a.daemon.url, "CLOCHE_API_KEY": team}

    def ps():
        r = subprocess.run([BUILD / "cloche", "ps"], env=env, capture_output=True, text=True, timeout=120)
        assert r.returncode == 0, r.stderr
        return r.stdout.splitlines(), r.stderr

    with made(team, b, c) as (first, second):
        await_told(database, c, {second})
        rows, said = ps()
        assert rows[0].split()[:2] == ["NODE", "ID"] and said == ""
        assert [row.split()[:2] for row in rows[1:]] == [["c", second], ["b", first]]
        with stopped(c):
            rows, said = ps()
            assert [row.split()[:2] for row in rows[1:]] == [["c", second], ["b", first]]
            assert said.startswith("cloche: node c as of ")


class Local(http.client.HTTPConnection):
    def __init__(self, node):
        super().__init__("localhost")
        self.path = str(node.run / "cloche.sock")

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(self.path)


def test_a_caller_of_the_unix_socket_has_the_others_part_from_the_directory(three, database):
    a, b, _ = three
    with made(a.daemon.key, a, b) as (own, other):
        await_told(database, b, {other})
        local = Local(a)
        local.request("GET", "/v1/sandboxes")
        answer = json.loads(local.getresponse().read())
        local.close()
        assert {row["id"]: row["node"] for row in answer["sandboxes"]} == {own: "a", other: "b"}
        assert [row["node"] for row in answer["incomplete"]] == ["b", "c"]


def test_a_login_of_the_dashboard_has_the_others_part_from_the_directory_and_is_told_which_node_has_a_sandbox(three, database):
    """No other node knows its cookie."""
    a, b, _ = three
    with made(a.daemon.key, a, b) as (own, other):
        await_told(database, b, {other})
        conn = http.client.HTTPConnection("127.0.0.1", a.daemon.port, timeout=60)

        def ask(method, path, body=None, **fields):
            conn.request(method, path, body and json.dumps(body), {"X-Cloche-Dashboard": "1", "Content-Type": "application/json", **fields})
            reply = conn.getresponse()
            return reply.status, json.loads(reply.read()), reply

        cookie = ask("POST", "/v1/login", {"key": a.daemon.key})[2].getheader("Set-Cookie").split(";")[0]
        status, answer, _ = ask("GET", "/v1/sandboxes", Cookie=cookie)
        assert status == 200 and {row["id"]: row["node"] for row in answer["sandboxes"]} == {own: "a", other: "b"}
        assert [row["node"] for row in answer["incomplete"]] == ["b", "c"] and all("keys alone" in row["why"] and row["as_of_us"] for row in answer["incomplete"])
        assert ask("GET", f"/v1/sandboxes/{own}", Cookie=cookie)[0] == 200
        status, answer, _ = ask("GET", f"/v1/sandboxes/{other}", Cookie=cookie)
        assert status == 401 and "'b' has it" in answer["error"]["message"] and "ask that node" in answer["error"]["hint"]
        assert ask("GET", f"/v1/sandboxes/{other}", Cookie=cookie, Authorization=f"Bearer {a.daemon.key}")[0] == 200  # a key counts
        conn.close()


@contextlib.contextmanager
def answering(database, function, arguments, answer):
    database.ask(f"ALTER FUNCTION cluster.{function} RENAME TO {function}_kept", "one")
    try:
        database.ask(f"CREATE FUNCTION cluster.{function}({arguments}) RETURNS jsonb LANGUAGE sql AS $$ SELECT ({answer})::jsonb $$", "one")
        yield
    finally:
        database.ask(f"DROP FUNCTION IF EXISTS cluster.{function}; ALTER FUNCTION cluster.{function}_kept RENAME TO {function}", "one")


LIES = ("'[]'::jsonb", "'{}'::jsonb", "jsonb_build_object('rows', 5, 'told', '{}'::jsonb)",
        "jsonb_build_object('rows', jsonb_build_array(7, '{}'::jsonb, jsonb_build_object('node', 'c', 'row', jsonb_build_object('id', 'sb_x', 'created_us', -1))), 'told', jsonb_build_array(1, NULL))",
        "jsonb_build_object('rows', jsonb_build_array(jsonb_build_object('node', 'a', 'row', jsonb_build_object('id', 'sb_' || repeat('a', 26), 'created_us', 5))), 'told', '[]'::jsonb, 'has_more', true)")


def test_a_database_that_lies_about_other_nodes_adds_nothing_and_ends_nobody(three, team, database):
    """Rows of a node that has answered, of none that there is, or of no shape are passed over."""
    a, b, c = three
    before = [n.daemon.gateway_pid for n in three]
    arguments = "node int, secret text, project_id text, nodes jsonb, before_us bigint, before_id text, most int, filter jsonb"
    with made(team, a, b) as (own, other), stopped(c):
        for lie in LIES:
            with answering(database, "list_of", arguments, lie):
                answer = listed(a, team)
                assert sorted(ids(answer)) == sorted([own, other]) and [row["node"] for row in answer["incomplete"]] == ["c"], lie
                assert answer["next_cursor"] is None
    for lie in ("5", "'{\"nodes\": 5}'::jsonb", "'{\"nodes\": [1, {}, {\"node\": 7, \"load\": {\"version\": -1, \"capacity\": [1], \"committed\": \"x\"}}]}'::jsonb",
                "jsonb_build_object('nodes', jsonb_build_array(jsonb_build_object('node', 99, 'load', jsonb_build_object('version', 1, 'capacity', jsonb_build_array(1, 1, 1), 'committed', jsonb_build_array(0, 0, 0)))))"):
        with answering(database, "sample", "node int, secret text", f"to_jsonb({lie})"):
            for _ in range(3):
                with made(team, a) as (one,):
                    assert ids(listed(b, team)) == [one]
    assert [n.daemon.gateway_pid for n in three] == before


@pytest.fixture
def short_lived():
    """A database of its own, whose nodes are lost soon."""
    d = Database()
    d.make("one")
    yield d
    d.close()


def test_an_id_of_a_lost_node_is_gone_and_one_that_nobody_told_is_not_found(short_lived):
    with cluster_of(short_lived, "a", "c", lost_after_s=5 * FENCE_AFTER_S) as (a, c), made(a.daemon.key, c) as (kept,):
        team = a.daemon.key
        await_told(short_lived, c, {kept})
        with stopped(c):
            wait_for(lambda: short_lived.ask("SELECT is_lost FROM cluster.nodes WHERE name = 'c'", "one") == "t", 60, "it is lost")
            wait_for(lambda: a.call("GET", f"/v1/sandboxes/{kept}", key=team)[0] == 410, 60, "its sandboxes have ended")
            untold = kept[:7] + "a" * (len(kept) - 7)
            assert a.refused("GET", f"/v1/sandboxes/{untold}", key=team) == (404, "not_found")
