# SPDX-License-Identifier: Apache-2.0
"""A create is made where there is room: three whole daemons and a real PostgreSQL, of which two take few sandboxes."""

import json
import secrets
from concurrent.futures import ThreadPoolExecutor

import pytest
from harness.daemon import BUILD, connection_to, wait_for
from harness.whole_node import cluster_of, without

pytestmark = pytest.mark.skipif(not (BUILD / "cloche-cluster").exists(), reason="built without libpq")

FEW = 3  # of a and b; c takes twice as many


@pytest.fixture(scope="module")
def three(database):
    most = {"a": FEW, "b": FEW, "c": 2 * FEW}
    with cluster_of(database, *most, options=lambda name: ["--sandboxes-max", str(most[name])]) as nodes:
        yield nodes


@pytest.fixture
def key(three):
    """All nodes are empty, and know it of each other."""
    key = three[0].daemon.key
    yield key
    for n in three:
        for row in n.ok("GET", "/v1/sandboxes?limit=100", key=key)["sandboxes"]:
            n.call("DELETE", f"/v1/sandboxes/{row['id']}", key=key)


def figures(database):
    """What the nodes say of themselves: how many sandboxes each has and takes."""
    rows = database.ask("SELECT n.name, b.figures->'load'->'committed'->>0, b.figures->'load'->'capacity'->>0 FROM cluster.beats b JOIN cluster.nodes n USING (node)", "one").splitlines()
    return {name: (int(has) // 1000, int(takes) // 1000) for name, has, takes in (row.split("|") for row in rows if not row.endswith("||"))}


def await_figures(database, **have):
    wait_for(lambda: {n: has for n, (has, _) in figures(database).items()} == have, 30, f"the nodes tell {have}: {figures(database)}")


def make(node, key, body=None, path="/v1/sandboxes", headers=None):
    """Status, answer, and the node that has made it."""
    connection = connection_to(node.daemon, 120)
    try:
        text = json.dumps({k: v for k, v in {"template": "host", **(body or {})}.items() if v is not None})
        connection.request("POST", path, text, {"Content-Type": "application/json", **({"Authorization": f"Bearer {key}"} if key else {}), **(headers or {})})
        reply = connection.getresponse()
        return reply.status, json.loads(reply.read()), reply.getheader("Cloche-Node")
    finally:
        connection.close()


def fill(node, key):
    """Creates with a name stay while there is room."""
    for i in range(FEW):
        status, answer, where = make(node, key, {"name": f"fill-{node.name}-{i}"})
        assert (status, where) == (201, node.name), answer


def led_on(node, key, body=None, **more):
    """A full node hears that others have room some moments after they have it."""
    got = {}

    def try_it():
        got["last"] = make(node, key, body, **more)
        return got["last"][0] == 201

    wait_for(try_it, 30, f"another node makes it: {got}")
    _, made, where = got["last"]
    assert where in ("b", "c")
    return made, where


def test_a_create_is_made_where_it_was_asked_while_there_is_room(three, key, database):
    await_figures(database, a=0, b=0, c=0)
    for n in three:
        status, made, where = make(n, key)
        assert (status, where) == (201, n.name)
        assert n.ok("GET", f"/v1/sandboxes/{made['id']}", key=key)["state"] == "running"


def test_a_full_node_leads_creates_to_others_until_all_are_full(three, key, database):
    a, b, c = three
    await_figures(database, a=0, b=0, c=0)
    fill(a, key)
    places = ["a"] * FEW
    for _ in range(3 * FEW):
        status, made, where = make(a, key)
        assert status == 201, made
        places.append(where)
        for n in three:
            assert n.ok("GET", f"/v1/sandboxes/{made['id']}", key=key)["id"] == made["id"]
    assert sorted(places) == ["a"] * FEW + ["b"] * FEW + ["c"] * 2 * FEW
    for n in three:
        status, answer, _ = make(n, key)
        assert (status, answer["error"]["code"]) == (503, "no_capacity"), answer
        assert "no other node" in answer["error"]["message"]
    rows = b.ok("GET", "/v1/sandboxes?limit=100", key=key)["sandboxes"]
    assert len(rows) == 4 * FEW and {row["node"] for row in rows} == {"a", "b", "c"}
    victim = next(row["id"] for row in rows if row["node"] == "b")
    a.ok("DELETE", f"/v1/sandboxes/{victim}", key=key)
    wait_for(lambda: make(a, key)[0] == 201, 30, "there is room on b again, and a hears of it")


def maker(node, key):
    """The node that makes a sandbox which this one is asked for. It is deleted, so that asking again fills nobody."""
    status, made, where = make(node, key)
    if status == 201:
        node.ok("DELETE", f"/v1/sandboxes/{made['id']}", key=key)
    return where


def test_a_cordoned_node_makes_none_and_others_do(three, key, database):
    a, b, c = three
    a.ask("node", "cordon")
    try:
        wait_for(lambda: a.ask("node", "ls")["nodes"][0]["is_cordoned"], 30, "it is cordoned")
        wait_for(lambda: maker(a, key) in ("b", "c"), 30, "its gateway knows")
        for _ in range(2):
            status, _, where = make(a, key)
            assert status == 201 and where in ("b", "c")
    finally:
        a.ask("node", "uncordon")
    wait_for(lambda: maker(a, key) == "a", 30, "it makes sandboxes again")


def test_a_retry_with_an_idempotency_key_finds_the_first_sandbox_on_any_node(three, key, database):
    a, b, c = three
    await_figures(database, a=0, b=0, c=0)
    fill(a, key)
    headers = {"Idempotency-Key": secrets.token_hex(8)}
    first, _ = led_on(a, key, headers=headers)
    for n in (a, b, c, a):
        status, again, _ = make(n, key, headers=headers)
        assert (status, again["id"]) == (201, first["id"]), again
    for n in three:
        status, answer, _ = make(n, key, {"tags": {"other": "request"}}, headers=headers)
        assert (status, answer["error"]["code"]) == (409, "conflict")
    assert len(a.ok("GET", "/v1/sandboxes?limit=100", key=key)["sandboxes"]) == FEW + 1


def test_a_named_create_of_a_full_node_is_made_elsewhere_and_found_by_name(three, key, database):
    a, b, c = three
    await_figures(database, a=0, b=0, c=0)
    fill(a, key)
    made, _ = led_on(a, key, {"name": "placed"})
    for n in three:
        assert n.ok("GET", "/v1/sandboxes/placed", key=key)["id"] == made["id"]
        assert make(n, key, {"name": "placed"})[0] == 409


def test_a_create_from_another_nodes_snapshot_is_made_there(three, key, database):
    a, b, c = three
    await_figures(database, a=0, b=0, c=0)
    _, source, _ = make(b, key)
    _, other, _ = make(c, key)
    b.ok("POST", f"/v1/sandboxes/{source['id']}/execs", {"shell": "true"}, key=key)
    snapshot = b.ok("POST", f"/v1/sandboxes/{source['id']}/snapshots", {}, key=key)["id"]
    volume = c.ok("POST", "/v1/volumes", {"name": "disk"}, key=key)["id"]
    try:
        for n in three:
            status, made, where = make(n, key, {"template": None, "snapshot": snapshot})
            assert (status, where) == (201, "b"), made
            a.ok("DELETE", f"/v1/sandboxes/{made['id']}", key=key)
        status, made, where = make(a, key, {"volumes": [{"volume": volume, "path": "/data"}]})
        assert (status, where) == (201, "c"), made
        a.ok("DELETE", f"/v1/sandboxes/{made['id']}", key=key)
        status, answer, _ = make(a, key, {"template": None, "snapshot": snapshot, "volumes": [{"volume": volume, "path": "/data"}]})
        assert status == 409 and "'b'" in answer["error"]["message"] and "'c'" in answer["error"]["message"]
    finally:
        a.call("DELETE", f"/v1/snapshots/{snapshot}", key=key)
        a.call("DELETE", f"/v1/volumes/{volume}", key=key)


def test_creates_go_on_without_the_database_and_are_led_on_by_what_was_known(three, key, database):
    a, b, c = three
    await_figures(database, a=0, b=0, c=0)
    fill(a, key)
    led_on(a, key)
    with without(database, *three):
        assert make(b, key)[0] == 201
        status, answer, where = make(a, key)
        assert status == 201 and where in ("b", "c"), answer


def test_many_creates_at_once_fill_all_nodes_and_no_more(three, key, database):
    await_figures(database, a=0, b=0, c=0)
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda i: make(three[i % 2], key), range(6 * FEW)))
    made = [where for status, _, where in answers if status == 201]
    assert all(status in (201, 503) for status, _, _ in answers)
    assert made.count("a") <= FEW and made.count("b") <= FEW and made.count("c") <= 2 * FEW
    assert len(made) >= 2 * FEW


def test_a_client_cannot_say_that_a_peer_has_chosen_this_node(three, key, database):
    """Else it got 421 instead of an answer, and could see who is full."""
    a = three[0]
    await_figures(database, a=0, b=0, c=0)
    fill(a, key)
    led_on(a, key, headers={"Cloche-Placed": "1"})
    assert make(a, key, {"template": "none-such"}, headers={"Cloche-Placed": "1"})[0] == 400


def test_creates_and_lists_of_e2bs_wire_are_of_all_nodes(three, key, database):
    a, b, c = three
    await_figures(database, a=0, b=0, c=0)
    fill(a, key)
    sent = {"X-API-Key": key}
    made = [led_on(a, "", {"templateID": "host", "template": None}, path="/sandboxes", headers=sent) for _ in range(3)]
    want = sorted(row["id"][3:] for row in b.ok("GET", "/v1/sandboxes?limit=100", key=key)["sandboxes"])
    assert len(want) == FEW + 3 and {one["sandboxID"] for one, _ in made} < set(want)
    for n in three:
        assert sorted(row["sandboxID"] for row in n.ok("GET", "/sandboxes", key="", headers=sent)) == want
        for order in ("asc", "desc"):
            seen, token = [], ""
            while True:
                connection = connection_to(n.daemon, 60)
                connection.request("GET", f"/v2/sandboxes?limit=1&order={order}" + (f"&nextToken={token}" if token else ""), headers=sent)
                reply = connection.getresponse()
                assert (reply.status, reply.getheader("Cloche-Incomplete"), reply.getheader("X-Total-Running")) == (200, None, str(FEW + 3))
                page, token = json.loads(reply.read()), reply.getheader("X-Next-Token")
                connection.close()
                seen += page
                if not token:
                    break
            assert sorted(row["sandboxID"] for row in seen) == want
            starts = [row["startedAt"] for row in seen]
            assert starts == sorted(starts, reverse=order == "desc")
