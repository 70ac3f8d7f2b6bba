# SPDX-License-Identifier: Apache-2.0
"""A node that is cut off for too long ends what it has, and a database that was set back is told again: whole daemons and a real PostgreSQL."""

import json
import os
import shutil
import signal

import pytest
from harness.cluster import FENCE_AFTER_S, Database
from harness.daemon import BUILD, wait_for
from harness.relay import Relay
from harness.whole_node import cluster_of

pytestmark = pytest.mark.skipif(not (BUILD / "cloche-cluster").exists(), reason="built without libpq")


@pytest.fixture(scope="module")
def relays():
    return {}


@pytest.fixture(scope="module")
def pair(database, relays):
    def reached_by(name, database):
        relays[name] = Relay(database)
        return relays[name]

    with cluster_of(database, "a", "b", reached_by=reached_by, lost_after_s=5 * FENCE_AFTER_S) as nodes:
        yield nodes
    for r in relays.values():
        r.close()


def limited(first, others, name, limit):
    made = first.ok("POST", "/v1/projects", {"name": name})
    key = first.ok("POST", "/v1/keys", {"name": "k", "project": name})["secret"]
    first.ok("PUT", f"/v1/projects/{made['id']}/quota", {"sandboxes": limit})
    for n in others:
        wait_for(lambda n=n: n.call("GET", "/v1/quota", key=key)[1].get("project", {}).get("limits", {}).get("sandboxes") == limit, 30, f"{n.name} knows the limit")
    return made["id"], key


def create(node, key, **body):
    return node.call("POST", "/v1/sandboxes", {"template": "host", **body}, key=key)


def events(node, kind, key):
    status, lines = node.call("GET", f"/v1/events?type={kind}&all=1&limit=100", key=key)
    assert status == 200, lines
    return [json.loads(line) for line in lines.splitlines()]


def is_lost(database, name):
    return database.ask(f"SELECT is_lost FROM cluster.nodes WHERE name = '{name}'", "one") == "t"


def cut_by_network(node, relay):
    relay.cut()
    return lambda: relay.cut(is_cut=False)


def cut_by_a_member_that_stands_still(node, relay):
    pid = node.member_pid()
    os.kill(pid, signal.SIGSTOP)
    return lambda: os.kill(pid, signal.SIGCONT)


def cut_and_gateway_killed(node, relay):
    relay.cut()
    node.await_state("fenced")
    os.kill(node.daemon.gateway_pid, signal.SIGKILL)  # and the member goes with it: neither remembers a beat
    return lambda: relay.cut(is_cut=False)


@pytest.mark.parametrize("cut", [cut_by_network, cut_by_a_member_that_stands_still, cut_and_gateway_killed])
def test_a_node_that_is_cut_off_for_too_long_ends_its_sandboxes_before_others_have_their_names_and_quota(pair, database, relays, cut):
    a, b = pair
    name = cut.__name__.replace("_", "-")
    project_id, key = limited(a, pair, name, 3)
    made = [create(b, key, name=f"{name[:20]}-{i}") for i in range(3)]
    assert [status for status, _ in made] == [201] * 3, made
    assert create(a, key)[0] == 429
    ids = [answer["id"] for _, answer in made]
    epoch = b.status()["epoch"]
    mend = cut(b, relays["b"])
    try:

        def states():
            try:
                return [b.call("GET", f"/v1/sandboxes/{i}", key=key) for i in ids]
            except OSError:
                return [(0, {})]

        wait_for(lambda: all(s == 200 and x["state"] == "stopped" for s, x in states()) or is_lost(database, "b"), 60, "b ends its own")
        for status, sandbox in states():
            assert status == 200 and sandbox["state"] == "stopped", sandbox  # no later than others take it for dead
            assert sandbox["ended"]["cause"] == "node_lost" and "cut off from its cluster" in sandbox["ended"]["message"]
        assert b.refused("POST", "/v1/sandboxes", {"template": "host"}, key=key) == (503, "cluster_unavailable")
        wait_for(lambda: is_lost(database, "b"), 60, "a takes b for dead")
        got = [create(a, key, name=f"{name[:20]}-{i}") for i in range(3)]  # names and quota are free
        assert [status for status, _ in got] == [201] * 3, got
    finally:
        mend()
    b.await_state("held")
    assert b.status()["epoch"] > epoch and not is_lost(database, "b")
    wait_for(lambda: events(b, "node.returned", a.daemon.key), 30, "b says that it is back")
    assert events(b, "node.lost", a.daemon.key)[-1]["data"]["sandboxes"] >= 3
    wait_for(lambda: create(b, key)[0] == 429, 30, "b knows that a has it all")
    for _, answer in got:
        a.ok("DELETE", f"/v1/sandboxes/{answer['id']}", key=key)
    wait_for(lambda: create(b, key)[0] == 201, 30, "b makes sandboxes again")
    for s in b.ok("GET", "/v1/sandboxes", key=key)["sandboxes"]:
        b.call("DELETE", f"/v1/sandboxes/{s['id']}", key=key)


def test_a_node_that_is_back_in_time_keeps_all(pair, database, relays):
    a, b = pair
    _, key = limited(a, pair, "in-time", 3)
    status, made = create(b, key, name="stays")
    assert status == 201
    relays["b"].cut()
    b.await_state("fenced")
    relays["b"].cut(is_cut=False)
    b.await_state("held")
    assert b.ok("GET", f"/v1/sandboxes/{made['id']}", key=key)["state"] == "running"
    assert create(a, key, name="stays")[0] == 409
    b.ok("DELETE", f"/v1/sandboxes/{made['id']}", key=key)


@pytest.fixture
def patient():
    """A database of its own, and two nodes that bear it to be away for long."""
    d = Database()
    d.make("one")
    try:
        with cluster_of(d, "a", "b") as nodes:
            yield d, nodes
    finally:
        d.close()


def test_a_database_that_is_set_back_is_noticed_and_told_again(patient):
    database, pair = patient
    a, b = pair
    project_id, key = limited(a, pair, "set-back", 4)
    gone = a.ok("POST", "/v1/keys", {"name": "gone", "project": "set-back"})
    wait_for(lambda: b.call("GET", "/v1/sandboxes", key=gone["secret"])[0] == 200, 30, "b knows it")
    kept, data = database.folder / "kept", database.folder / "data"
    database.stop()
    shutil.copytree(data, kept)
    database.start()
    for n in pair:
        n.await_state("held")
    status, named = 0, {}

    def make():
        nonlocal status, named
        status, named = create(b, key, name="behind-the-backup")
        return status == 201

    wait_for(make, 60, "a named create")
    assert create(a, key)[0] == 201
    late = a.ok("POST", "/v1/keys", {"name": "late", "project": "set-back"})["secret"]
    a.ok("DELETE", f"/v1/keys/{gone['key']['id']}?project=set-back")
    wait_for(lambda: b.call("GET", "/v1/sandboxes", key=gone["secret"])[0] == 401, 30, "b knows that it is revoked")
    database.stop("immediate")
    for p in sorted(data.rglob("*"), reverse=True):
        p.rmdir() if p.is_dir() and not p.is_symlink() else p.unlink()
    copy_back(kept, data)
    shutil.rmtree(kept)
    database.start()
    for n in pair:
        n.await_state("held")
    in_database = "SELECT count(*) FROM cluster.{}"
    wait_for(lambda: database.ask(in_database.format(f"names WHERE sandbox_id = '{named['id']}'"), "one") == "1", 60, "the name is there again")
    wait_for(lambda: database.ask(in_database.format(f"records WHERE kind = 'key' AND id = '{gone['key']['id']}' AND is_gone"), "one") == "1", 60, "the revocation, too")
    wait_for(lambda: database.ask(in_database.format("records WHERE kind = 'key' AND record->>'name' = 'late' AND NOT is_gone"), "one") == "1", 60, "and the key")
    wait_for(lambda: database.ask(f"SELECT coalesce(sum(amount), 0) >= 2 FROM cluster.leases WHERE project_id = '{project_id}'", "one") == "t", 60, "and the leases")
    wait_for(lambda: all(events(n, "cluster.rewound", a.daemon.key) for n in pair), 30, "both have said it")
    assert "rewound_s_ago" in a.status()
    for n in pair:
        assert n.call("GET", "/v1/sandboxes", key=gone["secret"])[0] in (401, 429)  # the test has called without a good key many times by now
        n.ok("GET", "/v1/sandboxes", key=late)
        n.cloche("cluster", "status", check=False)
    got = [create(pair[i % 2], key)[0] for i in range(4)]
    assert sorted(got) == [201, 201, 429, 429]


def copy_back(source, data):
    shutil.copytree(source, data, dirs_exist_ok=True)
    for p in (data, *data.rglob("*")):
        shutil.chown(p, "postgres", "postgres")
    data.chmod(0o700)
