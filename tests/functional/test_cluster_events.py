# SPDX-License-Identifier: Apache-2.0
"""Event logs of a cluster: any node hands out that of each, and says whose it is."""

import http.client
import json
import os
import signal
import threading

import pytest
from harness.cluster import Database
from harness.daemon import BUILD, wait_for
from harness.whole_node import cluster_of

pytestmark = pytest.mark.skipif(not (BUILD / "cloche-cluster").exists(), reason="built without libpq")


@pytest.fixture(scope="module")
def nodes():
    database = Database()
    try:
        database.make("one")
        with cluster_of(database, "a", "b") as both:
            yield both
    finally:
        database.close()


def ask(node, path, key):
    """Whose it is, and the entries."""
    connection = http.client.HTTPConnection("127.0.0.1", node.daemon.port, timeout=60)
    connection.request("GET", path, headers={"X-API-Key": key, "Accept": "application/x-ndjson"})
    reply = connection.getresponse()
    lines = [json.loads(line) for line in reply.read().splitlines() if line]
    connection.close()
    assert reply.status == 200, lines
    return reply.getheader("Cloche-Node"), lines


def test_each_node_hands_out_the_log_of_each(nodes):
    a, b = nodes
    key = a.daemon.key
    made = {n.name: n.ok("POST", "/v1/sandboxes", {"template": "host"}, key=key)["id"] for n in nodes}
    for n in nodes:
        n.ok("DELETE", f"/v1/sandboxes/{made[n.name]}", key=key)
    for asked in nodes:
        for owner in nodes:
            name, lines = ask(asked, f"/v1/events?node={owner.name}&type=sandbox.created&sandbox_id={made[owner.name]}", key)
            assert name == owner.name and [e["sandbox_id"] for e in lines] == [made[owner.name]]
        assert ask(asked, "/v1/events?limit=1", key)[0] == asked.name
        for path in ("/v1/events/head", "/v1/history"):
            status, answer = asked.call("GET", f"{path}?node=b", key=key)
            assert status == 200, answer
    assert a.refused("GET", "/v1/events?node=nobody", key=key) == (404, "not_found")


def test_a_stream_follows_the_log_of_another_node(nodes):
    a, b = nodes
    key, got = a.daemon.key, []

    def follow():
        for event in a.client(key).events(follow=True, node="b", type="key.created"):
            got.append(event["data"]["subject_key_id"])

    threading.Thread(target=follow, daemon=True).start()
    of_a = a.ok("POST", "/v1/keys", {"name": "of-a"}, key=key)["key"]["id"]
    made = [b.ok("POST", "/v1/keys", {"name": f"of-b{i}"}, key=key)["key"]["id"] for i in range(3)]
    wait_for(lambda: set(made) <= set(got), 30, "all have come")
    assert got[-3:] == made and of_a not in got


def test_lists_of_builds_say_which_node_does_not_answer(nodes):
    a, b = nodes
    key = a.daemon.key
    assert [n.ok("GET", "/v1/builds", key=key) for n in nodes] == [{"builds": [], "incomplete": []}] * 2
    os.kill(b.daemon.gateway_pid, signal.SIGSTOP)
    try:
        told = a.ok("GET", "/v1/builds", key=key)
    finally:
        os.kill(b.daemon.gateway_pid, signal.SIGCONT)
    assert [part["node"] for part in told["incomplete"]] == ["b"]
