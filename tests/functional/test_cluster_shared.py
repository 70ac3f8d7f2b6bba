# SPDX-License-Identifier: Apache-2.0
"""What the nodes of a cluster agree on: two whole daemons on one machine and a real PostgreSQL."""

import contextlib
import os
import secrets
import shutil
import subprocess
import threading
import signal
from concurrent.futures import ThreadPoolExecutor

import pytest
from harness.cluster import Database, Node
from harness.daemon import BUILD, Daemon, call, children_of, read_text, wait_for
from harness.running import running
from harness.whole_node import LOST_AFTER_S

pytestmark = pytest.mark.skipif(not (BUILD / "cloche-cluster").exists(), reason="built without libpq")


class Whole:
    """A node that is a whole daemon."""

    def __init__(self, name, database):
        self.database = database
        self.node = Node(name, database.conninfo("one"))
        self.daemon = Daemon("--cluster-postgres", self.node.conninfo, "--cluster-address", self.node.address, "--pool-max", "0")
        shutil.rmtree(self.node.dir)
        self.node.dir, self.node.data, self.node.run = self.daemon.dir, self.daemon.data, self.daemon.run
        self.node.config = self.daemon.dir / "cloche.toml"

    def part(self, comm):
        return next((p for p in children_of(self.daemon.process.pid) if read_text(f"/proc/{p}/comm").strip() == comm), None)

    def call(self, method, path, body=None, **options):
        return call(self.daemon, method, path, body, **options)

    def ok(self, method, path, body=None, **options):
        status, answer = self.call(method, path, body, **options)
        told = [line for line in self.daemon.log().splitlines() if "cluster." in line][-5:]
        assert status < 300, (method, path, status, answer, told)
        return answer

    def refused(self, method, path, body=None, **options):
        status, answer = self.call(method, path, body, **options)
        assert status >= 400, (method, path, answer)
        return status, answer["error"]["code"]


def records(database, kind, more=""):
    return database.ask(f"SELECT count(*) FROM cluster.records WHERE kind = '{kind}' AND NOT is_gone {more}", "one")


@contextlib.contextmanager
def cluster_of_two(prepare=lambda b: None):
    with contextlib.ExitStack() as stack:
        database = Database()
        stack.callback(database.close)
        database.make("one")
        a, b = Whole("a", database), Whole("b", database)
        stack.enter_context(running(a.daemon))
        stack.enter_context(running(b.daemon))
        a.node.await_problem("not_joined")
        prepare(b)
        a.node.init(database.owner("one"), lost_after_s=LOST_AFTER_S)
        a.node.await_state("held")
        wait_for(lambda: records(database, "key") == "1", 30, "a's records")
        b.node.join(a.node.ask("cluster", "invite")["token"])
        b.node.await_state("held")
        wait_for(lambda: records(database, "key") != "1", 30, "b's records")
        yield a, b


@pytest.fixture(scope="module")
def pair():
    def prepare(b):
        b.ok("POST", "/v1/sandboxes", {"template": "host", "name": "before"})

    with cluster_of_two(prepare) as both:
        yield both


@contextlib.contextmanager
def without(database, *nodes):
    """The database is away, and the nodes know it."""
    database.stop()
    try:
        for n in nodes:
            n.node.await_state("fenced")
        yield
    finally:
        database.start()
        for n in nodes:
            n.node.await_state("held")
            wait_for(lambda n=n: n.call("POST", "/v1/keys", {"name": "again"})[0] == 201, 30, "it agrees again")


def await_answer(whole):
    def up():
        with contextlib.suppress(OSError):
            return whole.call("GET", "/v1/health", key="")[0] == 200
        return False

    wait_for(up, 60, "it answers again")


def create(whole, name=None, key=None, **options):
    body = {"template": "host", **({"name": name} if name else {})}
    return whole.call("POST", "/v1/sandboxes", body, key=key, **options)


def delete(whole, made):
    whole.ok("DELETE", f"/v1/sandboxes/{made['id']}", key=None)


def make_key(whole, **more):
    return whole.ok("POST", "/v1/keys", {"name": "k", **more})


def test_a_key_opens_every_node_at_once(pair):
    a, b = pair
    for _ in range(5):  # each is used before a beat could have told of it
        made = make_key(a)
        b.ok("GET", "/v1/sandboxes", key=made["secret"])
        a.ok("DELETE", f"/v1/keys/{made['key']['id']}")
    assert b.ok("GET", "/v1/keys", key=a.daemon.key)["keys"] != []


def test_a_key_that_one_node_revokes_is_dead_on_the_other(pair):
    a, b = pair
    made = make_key(a)
    a.ok("GET", "/v1/sandboxes", key=made["secret"])
    b.ok("GET", "/v1/sandboxes", key=made["secret"])
    b.ok("DELETE", f"/v1/keys/{made['key']['id']}", key=a.daemon.key)
    assert b.refused("GET", "/v1/sandboxes", key=made["secret"]) == (401, "unauthenticated")
    wait_for(lambda: a.call("GET", "/v1/sandboxes", key=made["secret"])[0] == 401, 30, "a hears of it")


def test_a_key_is_revoked_where_nobody_has_heard_of_it_yet(pair):
    a, b = pair
    for _ in range(5):  # before a beat could have told of it
        made = make_key(a)
        b.ok("DELETE", f"/v1/keys/{made['key']['id']}", key=a.daemon.key)
    wait_for(lambda: made["key"]["id"] not in [k["id"] for k in a.ok("GET", "/v1/keys")["keys"]], 30, "a hears of it")
    assert a.refused("GET", "/v1/sandboxes", key=made["secret"]) == (401, "unauthenticated")
    assert b.refused("DELETE", "/v1/keys/key_" + "2" * 26, key=a.daemon.key)[0] == 404


def test_a_flood_of_wrong_keys_costs_the_database_little(pair):
    a, b = pair
    count = "SELECT coalesce(sum(calls), 0) FROM pg_stat_user_functions WHERE funcname = 'changed'"
    a.database.ask("ALTER SYSTEM SET track_functions = 'all'", "one")
    a.database.ask("SELECT pg_reload_conf()", "one")
    before = int(a.database.ask(count, "one"))
    with ThreadPoolExecutor(16) as pool:
        wrong = list(pool.map(lambda _: b.refused("GET", "/v1/sandboxes", key=f"clo_{secrets.token_hex(20)}"), range(400)))
    assert {status for status, _ in wrong} <= {401, 429}
    assert int(a.database.ask(count, "one")) - before < 100  # five a second, and the looks of both
    b.ok("GET", "/v1/sandboxes", key=make_key(a)["secret"])


def test_projects_are_the_clusters_and_a_name_is_taken_once(pair):
    a, b = pair
    made = a.ok("POST", "/v1/projects", {"name": "team"})
    assert b.refused("POST", "/v1/projects", {"name": "team"}, key=a.daemon.key) == (409, "conflict")
    wait_for(lambda: "team" in [p["name"] for p in b.ok("GET", "/v1/projects", key=a.daemon.key)["projects"]], 30, "b knows the project")
    key = b.ok("POST", "/v1/keys", {"name": "of-team", "project": "team"}, key=a.daemon.key)
    a.ok("GET", "/v1/sandboxes", key=key["secret"])
    b.ok("DELETE", f"/v1/projects/{made['id']}", key=a.daemon.key)
    wait_for(lambda: a.call("GET", "/v1/sandboxes", key=key["secret"])[0] == 401, 30, "its keys are dead")
    wait_for(lambda: "team" not in [p["name"] for p in a.ok("GET", "/v1/projects")["projects"]], 30, "a has it no more")


def test_of_two_that_make_a_project_at_once_one_wins(pair):
    a, b = pair
    for i in range(5):
        with ThreadPoolExecutor(2) as pool:
            got = list(pool.map(lambda n: n.call("POST", "/v1/projects", {"name": f"race{i}"}, key=a.daemon.key)[0], (a, b)))
        assert sorted(got) == [201, 409]


def test_what_a_node_had_before_it_joined_is_kept_and_a_clash_is_told(pair):
    """Both had a project "default": the cluster's is that of the node that made it."""
    a, b = pair
    names = [p["name"] for p in a.ok("GET", "/v1/projects")["projects"]]
    assert "default" in names and "default-2" in names
    assert "cluster.project_renamed" in b.daemon.log()
    b.ok("GET", "/v1/sandboxes")  # its own first key still opens its own project
    wait_for(lambda: a.call("GET", "/v1/sandboxes", key=b.daemon.key)[0] == 200, 30, "a knows b's key")
    assert a.refused("GET", "/v1/projects", key=b.daemon.key) == (403, "forbidden")


def test_a_quota_that_is_set_holds_on_every_node(pair):
    a, b = pair
    made = a.ok("POST", "/v1/projects", {"name": "small"})
    key = make_key(a, project="small")
    a.ok("PUT", f"/v1/projects/{made['id']}/quota", {"sandboxes": 0})
    b.ok("GET", "/v1/sandboxes", key=key["secret"])
    wait_for(lambda: b.call("POST", "/v1/sandboxes", {"template": "host"}, key=key["secret"])[0] == 429, 30, "b holds to it")


def test_without_the_database_keys_are_believed_and_none_are_made(pair):
    a, b = pair
    made = make_key(a)
    b.ok("GET", "/v1/sandboxes", key=made["secret"])
    with without(a.database, a, b):
        b.ok("GET", "/v1/sandboxes", key=made["secret"])
        assert a.refused("POST", "/v1/keys", {"name": "k"}) == (503, "cluster_unavailable")
        assert a.refused("DELETE", f"/v1/keys/{made['key']['id']}") == (503, "cluster_unavailable")
        assert a.refused("DELETE", "/v1/keys/key_" + "3" * 26) == (503, "cluster_unavailable")  # it may be good elsewhere
        assert a.refused("POST", "/v1/projects", {"name": "p"}) == (503, "cluster_unavailable")
        assert a.refused("GET", "/v1/sandboxes", key="clo_" + "0" * 40) == (503, "cluster_unavailable")
    a.ok("DELETE", f"/v1/keys/{made['key']['id']}")


def test_a_gateway_that_is_killed_knows_what_was_agreed(pair):
    a, b = pair
    made, gone = make_key(a), make_key(a)
    b.ok("GET", "/v1/sandboxes", key=gone["secret"])
    os.kill(b.daemon.gateway_pid, signal.SIGSTOP)
    a.ok("DELETE", f"/v1/keys/{gone['key']['id']}")
    os.kill(b.daemon.gateway_pid, signal.SIGKILL)
    await_answer(b)
    wait_for(lambda: b.call("GET", "/v1/sandboxes", key=made["secret"])[0] == 200, 30, "b knows the key")
    wait_for(lambda: b.call("GET", "/v1/sandboxes", key=gone["secret"])[0] == 401, 30, "and the revocation")


@pytest.mark.parametrize("answer", ["'[]'", "'7'", "'{\"number\": -1, \"newest\": 0, \"records\": []}'", "'{\"number\": 1e300, \"newest\": 1e300, \"records\": []}'",
                                    "jsonb_build_object('number', 9000000000, 'newest', 9000000000, 'records', jsonb_build_array(1, NULL, '{}', jsonb_build_object('kind', 'key', 'id', 'x', 'project_id', 'y', 'record', 5)))",
                                    "to_jsonb(repeat('x', 200000))", "NULL"])
def test_a_lying_database_makes_no_key_and_ends_nobody(pair, answer):
    a, b = pair
    made = make_key(a)
    b.ok("GET", "/v1/sandboxes", key=made["secret"])
    a.database.ask("ALTER FUNCTION cluster.changed RENAME TO changed_kept", "one")
    before = b.daemon.gateway_pid
    try:
        a.database.ask(f"CREATE FUNCTION cluster.changed(node int, secret text, after bigint) RETURNS jsonb LANGUAGE sql AS $$ SELECT ({answer})::jsonb $$", "one")
        a.database.ask("UPDATE cluster.changes SET number = number + 1", "one")
        assert b.call("GET", "/v1/sandboxes", key="clo_" + secrets.token_hex(20))[0] in (401, 503)
        b.ok("GET", "/v1/sandboxes", key=made["secret"])
    finally:
        a.database.ask("DROP FUNCTION IF EXISTS cluster.changed; ALTER FUNCTION cluster.changed_kept RENAME TO changed", "one")
    wait_for(lambda: b.call("GET", "/v1/sandboxes", key=make_key(a)["secret"])[0] == 200, 60, "b goes on")
    assert b.daemon.gateway_pid == before


def test_a_name_belongs_to_one_sandbox_of_all_nodes(pair):
    a, b = pair
    key = a.daemon.key
    status, made = create(a, "solo")
    assert status == 201
    status, answer = create(b, "solo", key)
    assert status == 409 and answer["error"]["code"] == "conflict" and made["id"] in answer["error"]["hint"]
    assert create(b, "solo")[0] == 201  # another project's
    delete(a, made)
    wait_for(lambda: create(b, "solo", key)[0] == 201, 30, "the name is free")
    assert create(a, "solo")[0] == 409


def test_of_many_creates_with_one_name_on_two_nodes_one_wins(pair):
    a, b = pair
    for i in range(4):
        with ThreadPoolExecutor(6) as pool:
            got = list(pool.map(lambda n: create(n, f"race{i}", a.daemon.key)[0], (a, b) * 3))
        assert sorted(got) == [201, 409, 409, 409, 409, 409]
    assert a.database.ask("SELECT count(*) FROM cluster.names WHERE name LIKE 'race%'", "one") == "4"


def test_a_name_is_free_when_its_sandbox_is_deleted(pair):
    a, _ = pair
    for _ in range(5):
        status, made = create(a, "again")
        assert status == 201, made
        delete(a, made)


def test_an_idempotency_key_holds_on_all_nodes(pair):
    a, b = pair
    header = {"Idempotency-Key": "once"}
    status, made = create(a, headers=header)
    assert status == 201 and create(a, headers=header)[1]["id"] == made["id"]
    status, answer = create(b, key=a.daemon.key, headers=header)
    assert status == 503 and answer["error"]["code"] == "node_unreachable"  # these two do not reach each other; else it is led there
    status, answer = create(b, "other", a.daemon.key, headers=header)
    assert status == 409 and answer["error"]["field"] == "Idempotency-Key"
    assert a.database.ask("SELECT count(*) FROM cluster.names WHERE name = 'other'", "one") == "0"


def test_without_the_database_unnamed_creates_go_on_and_named_ones_wait(pair):
    a, _ = pair
    with without(a.database, a):
        status, made = create(a)
        assert status == 201
        delete(a, made)
        status, answer = create(a, "fenced")
        assert status == 503 and answer["error"]["code"] == "cluster_unavailable"
        assert create(a, headers={"Idempotency-Key": "fenced"})[0] == 503
    assert create(a, "fenced")[0] == 201


def test_a_node_brings_its_names_along(pair):
    a, b = pair
    wait_for(lambda: a.database.ask("SELECT node FROM cluster.names WHERE name = 'before'", "one") == "2", 30, "its name is taken")
    assert create(a, "before", b.daemon.key)[0] == 409


@contextlib.contextmanager
def no_answer_about_names(database):
    """The table of names is locked: a call for one begins, and does not end."""
    with subprocess.Popen(["psql", "-X", "-q", "-A", "-t", "-h", database.folder, "-p", str(database.port), "-U", "owner", "-d", "one"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as locker:
        locker.stdin.write("BEGIN; LOCK TABLE cluster.names; SELECT 'locked';\n")
        locker.stdin.flush()
        assert locker.stdout.readline().strip() == "locked"
        try:
            yield
        finally:
            locker.communicate("COMMIT;\n", timeout=30)


@pytest.mark.parametrize("victim", ["gateway", "member"])
def test_a_kill_in_the_middle_of_a_named_create_keeps_no_name(pair, victim):
    a, b = pair
    name = f"middle-{victim}"

    def try_create():
        with contextlib.suppress(OSError, ValueError):
            create(a, name)

    with no_answer_about_names(a.database):
        thread = threading.Thread(target=try_create)
        thread.start()
        wait_for(lambda: a.database.ask("SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%take_create%'", "one") == "1", 30, "a create that waits")
        os.kill(a.daemon.gateway_pid if victim == "gateway" else a.part("cloche-member"), signal.SIGKILL)
    thread.join(60)
    await_answer(a)
    a.node.await_state("held")
    wait_for(lambda: create(b, name, a.daemon.key)[0] == 201, 60, "the name is free")
    assert create(a, name)[0] == 409
