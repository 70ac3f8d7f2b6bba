# SPDX-License-Identifier: Apache-2.0
"""Vercel's wire, and what bodies name, on any node of a cluster: three whole daemons and a real PostgreSQL."""

import json
import secrets
from concurrent.futures import ThreadPoolExecutor

import pytest
from harness.daemon import BUILD, wait_for
from harness.routes import routes_of
from harness.whole_node import cluster_of, team_of, without

pytestmark = pytest.mark.skipif(not (BUILD / "cloche-cluster").exists(), reason="built without libpq")
VERCEL = "/vercel/api/v2/sandboxes"


@pytest.fixture(scope="module")
def three(database):
    with cluster_of(database, "a", "b", "c", options=lambda name: ("--pool-max", "1", "--pool-reserve", "2") if name == "b" else ()) as nodes:
        yield nodes


@pytest.fixture
def team(three):
    return team_of(three)


def node_of(node, key, sandbox_id):
    return next(row["node"] for row in node.ok("GET", "/v1/sandboxes", key=key)["sandboxes"] if row["id"] == sandbox_id)


def vercel(node, key, name, **more):
    status, answer = node.call("POST", VERCEL, {"name": name, **more}, key=key)
    return status, answer


def names(node, key, query=""):
    """Of all pages, each asked of this node."""
    found, cursor = [], ""
    while True:
        page = node.ok("GET", f"{VERCEL}?limit=2{query}{cursor}", key=key)
        found += [s["name"] for s in page["sandboxes"]]
        if not page["pagination"]["next"]:
            return found
        cursor = f"&cursor={page['pagination']['next']}"


def test_a_sandbox_of_vercels_wire_is_one_on_all_nodes(three, team):
    a, b, c = three
    made = b.ok("POST", VERCEL, {"name": "desk", "env": {"A": "1"}}, key=team)
    session = made["session"]["id"]
    try:
        for n in three:
            assert n.ok("GET", f"{VERCEL}/desk", key=team)["session"]["id"] == session
            assert n.ok("GET", f"{VERCEL}/sessions/{session}", key=team)["session"]["status"] == "running"
            assert names(n, team) == ["desk"]
            assert [s["id"] for s in n.ok("GET", f"{VERCEL}/sessions?name=desk", key=team)["sessions"]] == [session]
            status, answer = vercel(n, team, "desk")
            assert status == 400 and "exists already" in answer["error"]["message"], answer
        command = a.ok("POST", f"{VERCEL}/sessions/{session}/cmd", {"command": "sh", "args": ["-c", "echo hello; exit 3"]}, key=team)["command"]["id"]
        assert c.ok("GET", f"{VERCEL}/sessions/{session}/cmd/{command}?wait=true", key=team)["command"]["exitCode"] == 3
        assert c.ok("PATCH", f"{VERCEL}/desk", {"tags": {"x": "y"}}, key=team)["sandbox"]["tags"] == {"x": "y"}
        assert names(a, team, "&tags=x:y") == ["desk"]
        taken = a.ok("POST", f"{VERCEL}/sessions/{session}/snapshot", {}, key=team)["snapshot"]["id"]
        for n in three:
            assert n.ok("GET", f"{VERCEL}/snapshots/{taken}", key=team)["snapshot"]["id"] == taken
            assert [s["id"] for s in n.ok("GET", f"{VERCEL}/snapshots", key=team)["snapshots"]] == [taken]
            assert n.ok("GET", f"{VERCEL}/snapshots/tree?snapshotId={taken}", key=team)["anchor"]["snapshot"]["id"] == taken
        again = c.ok("GET", f"{VERCEL}/desk?resume=true", key=team)
        assert again["session"]["id"] != session and again["resumed"] is True
        copy = a.ok("POST", VERCEL, {"name": "copy", "source": {"type": "snapshot", "snapshotId": taken}}, key=team)
        assert node_of(c, team, copy["session"]["id"]) == "b"  # where the snapshot is
        fork = c.ok("POST", f"{VERCEL}/copy/fork", {"name": "twin"}, key=team)
        assert sorted(names(c, team)) == ["copy", "desk", "twin"]
        assert fork["sandbox"]["name"] == "twin"
    finally:
        for name in ("desk", "copy", "twin"):
            a.call("DELETE", f"{VERCEL}/{name}", key=team)
    for n in three:
        assert names(n, team) == []
        assert n.call("GET", f"{VERCEL}/desk", key=team)[0] == 404


def test_pages_of_vercels_lists_go_over_all_nodes(three, team):
    made = [f"s{i}" for i in range(7)]
    try:
        for i, name in enumerate(made):
            assert vercel(three[i % 3], team, name, persistent=False)[0] == 200
        for n in three:
            assert names(n, team, "&sortBy=name&sortOrder=asc") == made
            assert names(n, team, "&sortBy=name&sortOrder=desc") == made[::-1]
            assert names(n, team, "&sortOrder=asc") == made
            assert names(n, team) == made[::-1]
            assert names(n, team, "&namePrefix=s3") == ["s3"]
            assert sorted(names(n, team, "&sortBy=statusUpdatedAt")) == made
    finally:
        for name in made:
            three[0].call("DELETE", f"{VERCEL}/{name}", key=team)


def test_of_vercel_sandboxes_made_at_once_under_one_name_there_is_one(three, team, database):
    for _ in range(3):
        with ThreadPoolExecutor(6) as pool:
            got = list(pool.map(lambda i: vercel(three[i % 3], team, "race", persistent=False), range(6)))
        assert sorted(status for status, _ in got) == [200] + [400] * 5, got
        wait_for(lambda: [names(n, team) for n in three] == [["race"]] * 3, 30, "the losers are gone")
        sandboxes = three[0].ok("GET", "/v1/sandboxes", key=team)["sandboxes"]
        wait_for(lambda: len(three[0].ok("GET", "/v1/sandboxes", key=team)["sandboxes"]) == 1, 30, f"one session: {sandboxes}")
        three[1].ok("DELETE", f"{VERCEL}/race", key=team)
    with without(database, *three):
        status, answer = vercel(three[0], team, "later", persistent=False)
        assert (status, answer["error"]["code"]) == (503, "cluster_unavailable")
        assert three[0].ok("GET", f"{VERCEL}", key=team)["sandboxes"] == []


def test_a_volume_and_a_drive_are_found_by_their_name_everywhere(three, team):
    a, b, c = three
    volume = b.ok("POST", "/v1/volumes", {"name": "data", "size_mib": 16}, key=team)["id"]
    drive = c.ok("POST", f"{VERCEL}/drives/disk", {}, key=team)["drive"]["id"]
    try:
        for n in three:
            assert n.ok("GET", "/v1/volumes/data", key=team)["id"] == volume == n.ok("GET", f"/v1/volumes/{volume}", key=team)["id"]
            assert {(v["name"], v["node"]) for v in n.ok("GET", "/v1/volumes", key=team)["volumes"]} == {("data", "b"), ("disk", "c")}
            assert n.ok("POST", f"{VERCEL}/drives/disk", {}, key=team)["drive"]["id"] == drive  # it is there
            assert {d["name"] for d in n.ok("GET", f"{VERCEL}/drives", key=team)["drives"]} == {"data", "disk"}
            if n is not b:
                status, answer = n.call("POST", "/v1/volumes", {"name": "data"}, key=team)
                assert (status, answer["error"]["code"]) == (409, "conflict") and "'b'" in answer["error"]["message"]
            made = n.ok("POST", "/v1/sandboxes", {"template": "host", "volumes": [{"volume": "data", "path": "/data"}]}, key=team)
            assert node_of(a, team, made["id"]) == "b"
            n.ok("DELETE", f"/v1/sandboxes/{made['id']}", key=team)
            assert n.refused("GET", "/v1/volumes/nothing", key=team) == (404, "not_found")
            assert n.refused("POST", "/v1/sandboxes", {"template": "host", "volumes": [{"volume": "nothing", "path": "/x"}]}, key=team)[1] in ("invalid_field", "not_found")
            both = [{"volume": "data", "path": "/data"}, {"volume": "disk", "path": "/disk"}]
            status, answer = n.call("POST", "/v1/sandboxes", {"template": "host", "volumes": both}, key=team)
            assert status == 409 and "'b'" in answer["error"]["message"] and "'c'" in answer["error"]["message"], answer
        copied = a.ok("POST", "/v1/volumes", {"name": "copy", "source": "data"}, key=team)
        assert {(v["name"], v["node"]) for v in c.ok("GET", "/v1/volumes", key=team)["volumes"]} == {("data", "b"), ("disk", "c"), ("copy", "b")}
        a.ok("DELETE", f"/v1/volumes/{copied['name']}", key=team)
    finally:
        c.ok("DELETE", "/v1/volumes/data", key=team)
        a.ok("DELETE", f"{VERCEL}/drives/disk", key=team)
    assert a.refused("GET", "/v1/volumes/data", key=team) == (404, "not_found")


def test_a_snapshot_is_found_by_its_name_everywhere(three, team):
    a, b, c = three
    source = b.ok("POST", "/v1/sandboxes", {"template": "host"}, key=team)["id"]
    other = c.ok("POST", "/v1/sandboxes", {"template": "host"}, key=team)["id"]
    snapshot = b.ok("POST", f"/v1/sandboxes/{source}/snapshots", {"name": "base"}, key=team)["id"]
    made = []
    try:
        for n in three:
            assert n.ok("GET", "/v1/snapshots/base", key=team)["id"] == snapshot
            made.append(n.ok("POST", "/v1/sandboxes", {"snapshot": "base"}, key=team)["id"])
            assert node_of(a, team, made[-1]) == "b"
            assert n.ok("POST", "/v1/run", {"snapshot": "base", "command": "echo hi"}, key=team)["stdout"] == "hi\n"
            assert n.ok("GET", f"/v1/diff?from=base&to={source}", key=team)["changes"] == []
            status, answer = n.call("POST", f"/v1/sandboxes/{other}/rollback", {"snapshot": "base"}, key=team)
            assert status == 409 and "'b'" in answer["error"]["message"] and "'c'" in answer["error"]["message"], answer
            status, answer = n.call("GET", f"/v1/diff?from=base&to={other}", key=team)
            assert status == 409 and "'b'" in answer["error"]["message"], answer
            status, answer = n.call("POST", f"/v1/sandboxes/{other}/apply", {"from": source}, key=team)
            assert status == 409 and "'b'" in answer["error"]["message"], answer
        a.ok("DELETE", "/v1/snapshots/base", key=team)
        assert c.refused("GET", "/v1/snapshots/base", key=team) == (404, "not_found")
    finally:
        for sandbox_id in (*made, source, other):
            a.call("DELETE", f"/v1/sandboxes/{sandbox_id}", key=team)


def test_a_client_that_claims_to_be_a_peer_learns_nothing_of_names(three, team):
    """The field of a question between nodes is an ordinary one where a client says it; and a peer is asked with the client's own key."""
    a, b, _ = three
    b.ok("POST", "/v1/volumes", {"name": "hidden", "size_mib": 16}, key=team)
    try:
        for n in three:
            field = {"Cloche-Find": "volume/hidden", "Cloche-Client": "127.0.0.1"}
            assert n.call("GET", "/v1/volumes", key=three[0].daemon.key, headers=field)[1]["volumes"] == []
            assert n.refused("GET", "/v1/volumes/hidden", key=three[0].daemon.key, headers=field) == (404, "not_found")  # another project's
            assert n.refused("GET", "/v1/volumes/hidden", key="", headers=field) == (401, "unauthenticated")
            assert n.ok("GET", "/v1/volumes/hidden", key=team, headers=field)["name"] == "hidden"  # the control
    finally:
        a.ok("DELETE", "/v1/volumes/hidden", key=team)


def test_a_group_is_one_nodes_and_its_members_are_made_there(three, team):
    a, b, c = three
    made = [b.ok("POST", "/v1/sandboxes", {"template": "host", "group": "web", "alias": "one"}, key=team)["id"]]
    try:
        for n, alias in ((a, "two"), (c, "three")):
            made.append(n.ok("POST", "/v1/sandboxes", {"template": "host", "group": "web", "alias": alias}, key=team)["id"])
        assert {row["node"] for row in a.ok("GET", "/v1/sandboxes?group=web", key=team)["sandboxes"]} == {"b"}
    finally:
        for sandbox_id in made:
            a.call("DELETE", f"/v1/sandboxes/{sandbox_id}", key=team)


def batch(node, key, count, **headers):
    """The lines of its stream."""
    status, answer = node.call("POST", "/v1/sandboxes:batch", {"template": "host", "count": count}, key=key, headers=headers)
    lines = answer if isinstance(answer, list) else [json.loads(line) for line in answer.splitlines()]
    return status, lines


def test_a_batch_is_known_to_all_nodes_and_a_retry_finds_it(three, team):
    a, b, c = three
    key = {"Idempotency-Key": secrets.token_hex(8)}
    status, first = batch(b, team, 3, **key)
    assert status == 200 and first[-1]["made"] == 3, first
    batch_id = first[0]["batch_id"]
    for n in three:
        status, again = batch(n, team, 3, **key)
        assert status == 200 and again[0]["batch_id"] == batch_id and again[-1]["made"] == 3, again
        assert len(n.ok("GET", f"/v1/sandboxes?tag=batch:{batch_id}", key=team)["sandboxes"]) == 3
    assert a.call("POST", "/v1/sandboxes:batch", {"template": "host", "count": 4}, key=team, headers=key)[0] == 409
    c.ok("DELETE", f"/v1/batches/{batch_id}", key=team)
    wait_for(lambda: a.ok("GET", "/v1/sandboxes", key=team)["sandboxes"] == [], 30, "all have ended")


def test_what_waits_and_what_is_reserved_is_listed_from_all_nodes(three, team):
    a, b, c = three
    reserved = b.ok("POST", "/v1/pool", {"template": "host", "count": 1}, key=team)["id"]
    for n in three:
        assert [(r["id"], r["node"]) for r in n.ok("GET", "/v1/pool", key=team)["reservations"]] == [(reserved, "b")]
        assert n.ok("GET", f"/v1/pool/{reserved}", key=team)["id"] == reserved
        assert n.ok("GET", "/v1/creates", key=team) == {"waiting": 0, "creates": [], "incomplete": []}
    c.ok("DELETE", f"/v1/pool/{reserved}", key=team)
    assert a.refused("GET", f"/v1/pool/{reserved}", key=team) == (404, "not_found")


# Streams without an end, and what ends what is asked about.
NOT_WALKED = {"/v1/sandboxes/{id}/files/watch", "/v1/sandboxes/{id}/execs/{exec_id}/attach", "/v1/sandboxes/{id}/ports/{port}/tcp", "/v1/snapshots/{snapshot}/archive"}


def test_every_route_that_is_led_answers_on_each_node_as_on_the_owner(three, team):
    """Each native route with an id or a name in its path, asked of all nodes: whatever the owner says, so say the others."""
    b = three[1]
    made = b.ok("POST", "/v1/sandboxes", {"template": "host", "name": "walked"}, key=team)["id"]
    ids = {"{id}": made, "{exec_id}": b.ok("POST", f"/v1/sandboxes/{made}/execs", {"argv": ["true"]}, key=team)["exec"]["id"], "{context_id}": "ctx_" + "a" * 26, "{port}": "3000",
           "{snapshot}": b.ok("POST", f"/v1/sandboxes/{made}/snapshots", {"name": "walked"}, key=team)["id"],
           "{volume}": b.ok("POST", "/v1/volumes", {"name": "walked", "size_mib": 16}, key=team)["id"]}
    seen = set()
    try:
        for method, path, *_ in routes_of("api/routes.c"):
            if method == "DELETE" or path in NOT_WALKED or not any(part in path for part in ("{id}", "{snapshot}", "{volume}")):
                continue
            for with_names in (False, True):
                target = path
                for part, value in ids.items():
                    target = target.replace(part, "walked" if with_names and part in ("{id}", "{snapshot}", "{volume}") else value)
                body = None if method == "GET" else {"nonsense": 1}
                said = [n.call(method, target, body, key=team) for n in three]
                told = [(status, answer["error"]["code"] if status >= 400 else None) for status, answer in said]
                assert told[0] == told[1] == told[2], (method, target, said)
                seen.add((method, path))
        for part in ("snapshots", "volumes"):
            assert three[0].ok("GET", f"/v1/{part}/walked", key=team)["id"] == ids["{" + part[:-1] + "}"]
        assert len(seen) > 45, len(seen)
    finally:
        for part in ("snapshots", "volumes", "sandboxes"):
            three[2].call("DELETE", f"/v1/{part}/walked", key=team)


def test_a_tool_that_names_a_sandbox_of_another_node_says_so(three, team):
    a, b, _ = three
    made = b.ok("POST", "/v1/sandboxes", {"template": "host"}, key=team)["id"]
    try:
        call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "exec", "arguments": {"command": "echo hi", "sandbox_id": made}}}
        said = {n.name: json.dumps(n.call("POST", "/mcp", call, key=team, headers={"Accept": "application/json, text/event-stream"})[1], default=str) for n in (a, b)}
        assert "was made on another node" in said["a"] and "'a'" in said["a"], said
        assert "hi" in said["b"] and "another node" not in said["b"], said  # the control
    finally:
        a.call("DELETE", f"/v1/sandboxes/{made}", key=team)
