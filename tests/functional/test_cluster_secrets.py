# SPDX-License-Identifier: Apache-2.0
"""Secrets and webhooks of a cluster: two whole daemons and a real PostgreSQL, which may lie."""

import base64
import contextlib
import json
import os
import signal
from concurrent.futures import ThreadPoolExecutor

import pytest
from cloche.errors import ClocheError
from functional.test_cluster_lists import Local, stopped as silent
from functional.test_webhooks import Receiver, signature_is_good
from harness.cluster import Database
from harness.daemon import BUILD, wait_for
from harness.whole_node import cluster_of

pytestmark = pytest.mark.skipif(not (BUILD / "cloche-cluster").exists(), reason="built without libpq")
BEAT_S = 20  # two seconds and a round trip; on a busy machine more


@pytest.fixture(scope="module")
def database():
    database = Database()
    yield database
    database.close()


@pytest.fixture(scope="module")
def nodes(database):
    """Both have a secret from before; b's is in a project of its own."""
    database.make("one")
    with cluster_of(database, "a", "b", options=lambda name: ("--webhooks-allow", "127.0.0.0/8")) as both:
        yield both


@pytest.fixture
def a(nodes):
    wait_for(lambda: nodes[0].state() == "held", 30, "a is held")
    return nodes[0]


@pytest.fixture
def b(nodes):
    wait_for(lambda: nodes[1].state() == "held", 30, "b is held")
    return nodes[1]


def put(node, key, name, value, **more):
    return node.ok("PUT", f"/v1/secrets/{name}", {"value": value, **more}, key=key)


def value_on(node, key, name):
    """As a process of a sandbox there sees it."""
    with node.client(key).create(template="host", env={"TOLD": f"secret://{name}"}) as box:
        return box.run('printf %s "$TOLD"').stdout


def refused_on(node, key, name):
    """What a process there is told that wants it."""
    with node.client(key).create(template="host") as box:
        with pytest.raises(ClocheError) as told:
            box.run("true", env={"TOLD": f"secret://{name}"})
        return told.value.code


def policy(name):
    return {"rules": [{"match": {"domains": ["api.example.com"]}, "action": {"transform": {"headers": {"authorization": f"Bearer secret://{name}"}}}}]}


def version_on(node, key, name):
    status, answer = node.call("GET", f"/v1/secrets/{name}", key=key)
    return answer["version"] if status == 200 else status


def records(database, what="count(*)", more=""):
    return database.ask(f"SELECT {what} FROM cluster.records WHERE kind = 'secret' {more}", "one")


def test_a_secret_that_is_set_on_one_node_is_used_on_the_other_at_once(a, b):
    key = a.daemon.key
    for i in range(3):  # before a beat could have told of it
        assert put(a, key, f"quick{i}", f"value {i}")["version"] == 1
        assert value_on(b, key, f"quick{i}") == f"value {i}"
    put(a, key, "header", "x")
    made = b.ok("POST", "/v1/sandboxes", {"template": "host", "network": policy("header")}, key=key)
    b.ok("DELETE", f"/v1/sandboxes/{made['id']}", key=key)
    put(a, key, "password", "x")
    assert "no secret" not in str(b.call("POST", "/v1/sandboxes", {"template": "host", "source": {"type": "git", "url": "https://127.0.0.1:1/x.git", "username": "x", "password": "secret://password"}}, key=key))
    assert {"quick0", "quick1", "quick2"} <= {s["name"] for s in b.ok("GET", "/v1/secrets", key=key)["secrets"]}
    put(b, key, "listed", "x")
    assert "listed" in {s["name"] for s in a.ok("GET", "/v1/secrets", key=key)["secrets"]}


def test_a_secret_is_changed_and_removed_on_either_node(a, b):
    key = a.daemon.key
    put(a, key, "moving", "one")
    assert put(b, key, "moving", "two")["version"] == 2
    wait_for(lambda: version_on(a, key, "moving") == 2, BEAT_S, "a hears of it")
    assert value_on(a, key, "moving") == "two"
    b.ok("DELETE", "/v1/secrets/moving", key=key)
    wait_for(lambda: version_on(a, key, "moving") == 404, BEAT_S, "it is gone on a")
    assert a.refused("DELETE", "/v1/secrets/moving", key=key) == (404, "not_found")
    assert put(a, key, "moving", "three")["version"] == 4  # its number goes on
    assert value_on(b, key, "moving") == "three"
    put(a, key, "short", "x")
    b.ok("DELETE", "/v1/secrets/short", key=key)  # which has not heard of it yet
    assert refused_on(a, key, "never-set") == "invalid_field"


def test_a_secret_that_a_sandbox_of_another_node_uses_is_removed_by_force_alone(a, b):
    key = a.daemon.key
    wire = a.ok("POST", "/secrets", {"name": "used-there", "value": "x" * 20}, key=key)["secretID"]
    made = b.ok("POST", "/v1/sandboxes", {"template": "host", "network": policy("used-there")}, key=key)
    status, answer = a.call("DELETE", "/v1/secrets/used-there", key=key)
    assert (status, answer["error"]["code"]) == (409, "conflict") and "'b'" in answer["error"]["message"] and "force" in answer["error"]["hint"]
    assert a.call("DELETE", f"/secrets/{wire}", key=key)[0] == 409  # by E2B's wire, too
    assert b.refused("DELETE", "/v1/secrets/used-there", key=key) == (409, "conflict")
    assert version_on(a, key, "used-there") == version_on(b, key, "used-there") == 1
    b.ok("DELETE", f"/v1/sandboxes/{made['id']}", key=key)
    wait_for(lambda: a.call("DELETE", "/v1/secrets/used-there", key=key)[0] == 200, 30, "nobody uses it any more")
    assert a.refused("DELETE", "/v1/secrets/used-there", key=key) == (404, "not_found")


def test_a_secret_is_kept_while_a_node_does_not_say_whether_it_uses_it(a, b):
    key = a.daemon.key
    put(a, key, "unsure", "x" * 20)
    with silent(b):
        status, answer = a.call("DELETE", "/v1/secrets/unsure", key=key)
        assert (status, answer["error"]["code"]) == (503, "node_unreachable") and "'b'" in answer["error"]["message"] and "force" in answer["error"]["hint"]
        assert version_on(a, key, "unsure") == 1
        assert a.refused("DELETE", "/v1/secrets/none", key=key) == (404, "not_found")  # for that nobody needs to be asked
        assert a.call("DELETE", "/v1/secrets/unsure?force=true", key=key)[0] == 200
    put(a, key, "local", "x" * 20)
    local = Local(a)  # other nodes do not know who calls the socket
    local.request("DELETE", "/v1/secrets/local")
    answer = json.loads(local.getresponse().read())
    assert answer["error"]["code"] == "conflict" and "CLOCHE_API_KEY" in answer["error"]["hint"]
    local.request("DELETE", "/v1/secrets/local?force=true")
    assert local.getresponse().status == 200
    local.close()


def test_hosts_hold_on_every_node(a, b):
    key = a.daemon.key
    put(a, key, "bound", "x", hosts=["api.example.com", "*.example.org"])
    assert b.ok("GET", "/v1/secrets/bound", key=key)["hosts"] == ["api.example.com", "*.example.org"]
    assert refused_on(b, key, "bound") == "invalid_field"
    put(b, key, "bound", "y")  # keeps them
    assert a.ok("GET", "/v1/secrets/bound", key=key)["hosts"] == ["api.example.com", "*.example.org"]


def test_any_bytes_of_any_length_come_through(a, b):
    key = a.daemon.key
    for i, value in enumerate(["\n" * 8192, "\x01" * 8192, "ü" * 4096, "x"]):
        put(a, key, f"long{i}", value, hosts=[f"{'h' * 60}{n}.{'e' * 60}.{'x' * 60}.{'a' * 50}.example" for n in range(32)] if i == 0 else [])
        assert b.ok("GET", f"/v1/secrets/long{i}", key=key)["version"] == 1
    assert value_on(b, key, "long2") == "ü" * 4096
    assert a.refused("PUT", "/v1/secrets/long4", {"value": "x" * 8193}, key=key) == (400, "invalid_field")


def test_e2b_clients_of_both_nodes_have_the_same_secrets(a, b):
    key = a.daemon.key
    made = a.ok("POST", "/secrets", {"name": "wire", "value": "one"}, key=key)
    assert b.ok("GET", f"/secrets/{made['secretID']}", key=key)["name"] == "wire"
    assert b.call("POST", "/secrets", {"name": "wire", "value": "two"}, key=key)[0] == 409
    b.call("DELETE", f"/secrets/{made['secretID']}", key=key)
    wait_for(lambda: a.call("GET", f"/secrets/{made['secretID']}", key=key)[0] == 404, BEAT_S, "it is gone on a")


def test_of_two_that_set_one_at_once_both_nodes_end_with_the_same(a, b):
    key = a.daemon.key
    for i in range(5):
        with ThreadPoolExecutor(6) as pool:
            got = list(pool.map(lambda n: n[1].call("PUT", f"/v1/secrets/race{i}", {"value": f"{n[0]}"}, key=key)[0], enumerate((a, b) * 3)))
        assert set(got) <= {200, 201}
        wait_for(lambda i=i: {version_on(n, key, f"race{i}") for n in (a, b)} == {6}, BEAT_S, "each has counted")
        assert value_on(a, key, f"race{i}") == value_on(b, key, f"race{i}")


def test_the_database_sees_no_value_and_no_name(a, b, database):
    key, value = a.daemon.key, "the-value-that-nobody-sees"
    put(a, key, "hidden-name", value, hosts=["hidden.example"])
    with Receiver() as receiver:
        hook = a.ok("POST", "/v1/webhooks", {"url": receiver.url}, key=key)
        all_there = database.ask("SELECT string_agg(r::text, ' ') FROM cluster.records r", "one")
        for plain in (value, base64.b64encode(value.encode()).decode(), "hidden-name", "hidden.example", receiver.url, hook["secret"]):
            assert plain not in all_there
        assert hook["webhook"]["id"] in all_there  # the control
        b.ok("DELETE", f"/v1/webhooks/{hook['webhook']['id']}", key=key)


def test_without_the_database_secrets_are_used_and_none_is_changed(a, b, database):
    key = a.daemon.key
    put(a, key, "kept", "here")
    assert version_on(b, key, "kept") == 1
    database.stop()
    try:
        for n in (a, b):
            n.await_state("fenced")
        assert value_on(b, key, "kept") == "here"
        assert b.refused("PUT", "/v1/secrets/kept", {"value": "x"}, key=key) == (503, "cluster_unavailable")
        assert b.refused("DELETE", "/v1/secrets/kept", key=key) == (503, "cluster_unavailable")
        assert b.refused("GET", "/v1/secrets/of-another-node", key=key) == (503, "cluster_unavailable")
        assert b.refused("POST", "/v1/webhooks", {"url": "http://127.0.0.1:1/"}, key=key) == (503, "cluster_unavailable")
        assert refused_on(b, key, "of-another-node") == "cluster_unavailable"
        assert b.refused("POST", "/v1/sandboxes", {"template": "host", "network": policy("of-another-node")}, key=key) == (503, "cluster_unavailable")
        assert "kept" in {s["name"] for s in b.ok("GET", "/v1/secrets", key=key)["secrets"]}
    finally:
        database.start()
        for n in (a, b):
            n.await_state("held")
    wait_for(lambda: b.call("PUT", "/v1/secrets/kept", {"value": "there"}, key=key)[0] == 200, 30, "it agrees again")
    wait_for(lambda: version_on(a, key, "kept") == 2, BEAT_S, "a hears of it")


@contextlib.contextmanager
def stopped(pid):
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def test_a_gateway_that_was_killed_has_what_was_changed_meanwhile(a, b):
    key = a.daemon.key
    put(a, key, "missed", "old")
    put(a, key, "missed-removal", "old")
    assert version_on(b, key, "missed") == version_on(b, key, "missed-removal") == 1
    pid = b.daemon.gateway_pid
    os.kill(pid, signal.SIGSTOP)
    put(a, key, "missed", "new")
    a.ok("DELETE", "/v1/secrets/missed-removal?force=true", key=key)  # nobody can tell whether b uses it
    os.kill(pid, signal.SIGKILL)

    def has_it():
        with contextlib.suppress(OSError):
            return version_on(b, key, "missed") == 2 and version_on(b, key, "missed-removal") == 404
        return False

    wait_for(has_it, 60, "b has both")
    assert value_on(b, key, "missed") == "new"


def test_an_older_state_that_is_replayed_is_not_taken_and_the_newer_comes_back(a, b, database):
    key = a.daemon.key
    put(a, key, "replayed", "leaked")
    database.ask("CREATE TABLE IF NOT EXISTS public.stolen AS SELECT * FROM cluster.records WHERE kind = 'secret' ORDER BY number DESC LIMIT 1", "one")
    put(a, key, "replayed", "fresh")
    wait_for(lambda: version_on(b, key, "replayed") == 2, BEAT_S, "b hears of it")
    back = ("UPDATE cluster.changes SET number = number + 1; UPDATE cluster.records r SET record = s.record, is_gone = false, number = (SELECT number FROM cluster.changes) "
            "FROM public.stolen s WHERE r.kind = s.kind AND r.id = s.id")
    before = [n.daemon.log().count("cluster.sealed_older") for n in (a, b)]
    database.ask(back, "one")  # the first node that hears of it repairs it, perhaps before the other one looks
    wait_for(lambda: [n.daemon.log().count("cluster.sealed_older") for n in (a, b)] != before, 30, "one says so")
    assert version_on(b, key, "replayed") == version_on(a, key, "replayed") == 2
    assert value_on(b, key, "replayed") == "fresh"
    newest = "SELECT r.record->>'version' FROM cluster.records r JOIN public.stolen s USING (kind, id)"
    wait_for(lambda: database.ask(newest, "one") == "2", 30, "the database is told again")
    a.ok("DELETE", "/v1/secrets/replayed", key=key)
    wait_for(lambda: version_on(b, key, "replayed") == 404, BEAT_S, "b has it no more")
    database.ask(back, "one")
    wait_for(lambda: database.ask(newest, "one") == "3", 30, "the removal is told again")
    assert version_on(b, key, "replayed") == version_on(a, key, "replayed") == 404
    assert refused_on(b, key, "replayed") == "invalid_field"


FORGERIES = {
    "another value": "record = jsonb_set(r.record, '{sealed}', to_jsonb(o.record->>'sealed'))",
    "another version": "record = jsonb_set(r.record, '{version}', '7')",
    "another time": "record = jsonb_set(jsonb_set(r.record, '{version}', '7'), '{changed_us}', '99')",
    "a removal": "is_gone = true, record = jsonb_set(r.record, '{version}', '7')",
    "another shape": "record = '{\"version\": \"7\", \"changed_us\": [], \"sealed\": {}}'",
    "no seal": "record = jsonb_set(jsonb_set(r.record, '{version}', '7'), '{sealed}', '\"plain\"')",
}


@pytest.mark.parametrize("what", FORGERIES)
def test_a_record_that_the_database_forges_is_refused(a, b, database, what):
    key = a.daemon.key
    name = "forged-" + what.replace(" ", "-")
    put(a, key, "other", "of the other")
    other = database.ask("SELECT id FROM cluster.records WHERE kind = 'secret' ORDER BY number DESC LIMIT 1", "one")
    put(a, key, name, "genuine")
    assert version_on(b, key, name) == 1
    here = database.ask("SELECT id FROM cluster.records WHERE kind = 'secret' ORDER BY number DESC LIMIT 1", "one")
    before, pid = b.daemon.log().count("cluster.record_refused"), b.daemon.gateway_pid
    database.ask("UPDATE cluster.changes SET number = number + 1; "
                 f"UPDATE cluster.records r SET {FORGERIES[what]}, number = (SELECT number FROM cluster.changes) FROM cluster.records o WHERE r.id = '{here}' AND o.id = '{other}'", "one")
    if what == "another value":  # under the version that b has, nothing is taken; under a later one it is refused
        database.ask(f"UPDATE cluster.changes SET number = number + 1; UPDATE cluster.records r SET record = jsonb_set(r.record, '{{version}}', '7'), number = (SELECT number FROM cluster.changes) WHERE id = '{here}'", "one")
    wait_for(lambda: b.daemon.log().count("cluster.record_refused") > before, 30, "b refuses it")
    assert version_on(b, key, name) == 1 and value_on(b, key, name) == "genuine"
    assert b.daemon.gateway_pid == pid
    assert put(b, key, name, "set again")["version"] > 1  # a client's new value holds all the same
    wait_for(lambda: version_on(a, key, name) > 1, 30, "a has it")
    assert value_on(a, key, name) == "set again"


def test_another_projects_record_is_not_taken(a, b, database):
    key = a.daemon.key
    made = a.ok("POST", "/v1/projects", {"name": "spy"}, key=key)
    spy = a.ok("POST", "/v1/keys", {"name": "spy", "project": "spy", "scope": "admin"}, key=key)["secret"]
    put(a, key, "coveted", "of default")
    here = database.ask("SELECT id FROM cluster.records WHERE kind = 'secret' ORDER BY number DESC LIMIT 1", "one")
    before = b.daemon.log().count("cluster.record_refused")
    database.ask("UPDATE cluster.changes SET number = number + 1; INSERT INTO cluster.records SELECT kind, 'sec_' || repeat('0', 32), '" + made["id"] + "', NULL, record, false, "
                 f"(SELECT number FROM cluster.changes), node FROM cluster.records WHERE id = '{here}'", "one")
    wait_for(lambda: b.daemon.log().count("cluster.record_refused") > before, 30, "b refuses it")
    assert version_on(b, spy, "coveted") == 404
    assert version_on(b, key, "coveted") == 1  # the control


def test_secrets_go_with_their_project_on_all_nodes(a, b, database):
    key = a.daemon.key
    made = a.ok("POST", "/v1/projects", {"name": "passing"}, key=key)
    own = a.ok("POST", "/v1/keys", {"name": "own", "project": "passing", "scope": "admin"}, key=key)["secret"]
    put(a, own, "token", "x")
    assert version_on(b, own, "token") == 1
    b.ok("DELETE", f"/v1/projects/{made['id']}", key=key)
    assert records(database, more=f"AND project_id = '{made['id']}'") == "0"
    wait_for(lambda: a.call("GET", "/v1/secrets", key=own)[0] == 401, 30, "a has it no more")


def test_a_database_that_was_set_back_is_told_again(a, b, database):
    key = a.daemon.key
    put(a, key, "lasting", "x")
    put(b, key, "lasting", "y")
    wait_for(lambda: version_on(a, key, "lasting") == 2, BEAT_S, "a has it")
    database.ask("DELETE FROM cluster.records WHERE kind IN ('secret', 'webhook')", "one")
    database.stop()
    database.start()
    for n in (a, b):
        n.await_state("held")
    wait_for(lambda: records(database, more="AND NOT is_gone AND record->>'version' = '2'") != "0", 60, "it is there again")
    assert value_on(a, key, "lasting") == value_on(b, key, "lasting") == "y"


def deliveries(receiver, type):
    return [(headers["webhook-id"], json.loads(body)) for headers, body in list(receiver.got) if json.loads(body)["type"] == type]


def await_later(receiver, key, *nodes):
    """A sandbox more on each node, whose delivery has come: what the node had to send before it has come, too."""
    made = [n.ok("POST", "/v1/sandboxes", {"template": "host"}, key=key)["id"] for n in nodes]
    wait_for(lambda: set(made) <= {e["sandbox_id"] for _, e in deliveries(receiver, "sandbox.created")}, 20, "what came later")
    return made


def test_a_webhook_is_the_clusters_and_each_event_is_sent_once(a, b):
    key = a.daemon.key
    with Receiver() as receiver:
        hook = a.ok("POST", "/v1/webhooks", {"url": receiver.url, "types": "sandbox.created"}, key=key)
        hook_id = hook["webhook"]["id"]
        made = [n.ok("POST", "/v1/sandboxes", {"template": "host"}, key=key)["id"] for n in (b, a, b)]  # b has not heard of it yet
        wait_for(lambda: len(deliveries(receiver, "sandbox.created")) >= 3, 20, "all of them")
        made += await_later(receiver, key, a, b)
        got = deliveries(receiver, "sandbox.created")
        assert sorted(e["sandbox_id"] for _, e in got) == sorted(made)
        assert len({webhook_id for webhook_id, _ in got}) == len(made)
        assert {tuple(webhook_id.split(".")[:2]) for webhook_id, _ in got} == {(hook_id, "1"), (hook_id, "2")}
        for headers, body in receiver.got:
            assert signature_is_good(headers, body, hook["secret"])
        for one in made:
            a.ok("DELETE", f"/v1/sandboxes/{one}", key=key)
        assert hook_id in {h["id"] for h in b.ok("GET", "/v1/webhooks", key=key)["webhooks"]}
        b.ok("PATCH", f"/v1/webhooks/{hook_id}", {"types": "sandbox.ended"}, key=key)
        assert b.ok("GET", f"/v1/webhooks/{hook_id}", key=key)["types"] == "sandbox.ended"
        wait_for(lambda: a.ok("GET", f"/v1/webhooks/{hook_id}", key=key)["types"] == "sandbox.ended", BEAT_S, "a hears of it")
        b.ok("DELETE", f"/v1/webhooks/{hook_id}", key=key)
        wait_for(lambda: a.call("GET", f"/v1/webhooks/{hook_id}", key=key)[0] == 404, BEAT_S, "it is gone on a")
        other = a.ok("POST", "/v1/webhooks", {"url": receiver.url, "types": "sandbox.ended"}, key=key)["webhook"]["id"]
        n = len(receiver.got)
        gone = [a.ok("POST", "/v1/sandboxes", {"template": "host"}, key=key)["id"] for _ in range(2)]
        for one in gone:  # when the second was told, the first has been, by each hook that is there
            a.ok("DELETE", f"/v1/sandboxes/{one}", key=key)
        wait_for(lambda: gone[1] in {e["sandbox_id"] for _, e in deliveries(receiver, "sandbox.ended")}, 20, "what came later")
        assert {headers["webhook-id"].split(".")[0] for headers, _ in receiver.got[n:]} == {other}
        a.ok("DELETE", f"/v1/webhooks/{other}", key=key)


def test_a_webhook_signs_with_a_secret_that_another_node_has_set(a, b):
    key = a.daemon.key
    first, second = ("whsec_" + base64.b64encode(os.urandom(32)).decode() for _ in range(2))
    put(a, key, "signer", first)
    with Receiver() as receiver:
        hook = b.ok("POST", "/v1/webhooks", {"url": receiver.url, "types": "key.created", "secret": "secret://signer"}, key=key)
        for node, secret in ((a, first), (b, second)):
            if secret == second:
                put(a, key, "signer", second)
                wait_for(lambda: version_on(b, key, "signer") == 2, BEAT_S, "b has the new one")
            n = len(receiver.got)
            node.ok("POST", "/v1/keys", {"name": "told"}, key=key)
            wait_for(lambda: len(receiver.got) > n, 20, "it is told")
            assert signature_is_good(*receiver.got[-1], secret)
        assert a.refused("DELETE", "/v1/secrets/signer", key=key) == (409, "conflict")
        a.ok("DELETE", f"/v1/webhooks/{hook['webhook']['id']}", key=key)
