# SPDX-License-Identifier: Apache-2.0
"""A sandbox is found by its name on every node: three whole daemons and a real PostgreSQL."""

import contextlib
import hashlib
import http.client
import os
import socket
import subprocess
from concurrent.futures import ThreadPoolExecutor

import pytest
from harness.daemon import BUILD, wait_for
from harness.whole_node import cluster_of, team_of, without

pytestmark = pytest.mark.skipif(not (BUILD / "cloche-cluster").exists(), reason="built without libpq")


@pytest.fixture(scope="module")
def three(database):
    database.ask("ALTER SYSTEM SET track_functions = 'all'", "one")
    database.ask("SELECT pg_reload_conf()", "one")
    with cluster_of(database, "a", "b", "c") as nodes:
        yield nodes


@pytest.fixture
def key(three):
    return three[0].daemon.key


@pytest.fixture
def team(three):
    return team_of(three)


def create(node, key, name, **more):
    return node.ok("POST", "/v1/sandboxes", {"template": "host", "name": name, **more}, key=key)


@contextlib.contextmanager
def made_on(node, key, name):
    sandbox = create(node, key, name)
    try:
        yield sandbox["id"]
    finally:
        node.call("DELETE", f"/v1/sandboxes/{sandbox['id']}", key=key)


def said_by(node, key, name, word):
    """What a command there writes."""
    with node.client(key=key) as client:
        return client.get(name).run(["echo", word]).stdout


def questions(database):
    return int(database.ask("SELECT coalesce(sum(calls), 0) FROM pg_stat_user_functions WHERE funcname = 'named'", "one"))


def test_every_node_finds_a_name_for_commands_files_and_code(three, key):
    a, b, c = three
    data = os.urandom(3 << 20)
    with made_on(b, key, "desk") as sandbox_id:
        for n in three:
            with n.client(key=key) as client:
                desk = client.get("desk")
                assert desk.id == sandbox_id
                path = f"/v1/sandboxes/desk/files?path=/tmp/{n.name}"
                n.ok("PUT", path, data, key=key, headers={"Content-Type": "application/octet-stream"})
                assert desk.run(["sha256sum", f"/tmp/{n.name}"]).stdout.split()[0] == hashlib.sha256(data).hexdigest()
                assert n.ok("GET", path, key=key) == data
                assert n.call("POST", "/v1/sandboxes/desk/execs", {"argv": ["true"]}, key=key)[0] < 300
                assert n.refused("POST", "/v1/sandboxes/desk/execs", {"argv": 5}, key=key) == (400, "invalid_field")
        c.ok("DELETE", "/v1/sandboxes/desk", key=key)
        for n in three:
            assert n.refused("GET", "/v1/sandboxes/desk", key=key) == (404, "not_found")


def test_the_command_line_finds_a_name_through_any_node(three, key):
    with made_on(three[1], key, "typed"):
        for n in three:
            env = {**os.environ, "CLOCHE_URL": n.daemon.url, "CLOCHE_API_KEY": key}
            r = subprocess.run([BUILD / "cloche", "exec", "typed", "echo", n.name], env=env, capture_output=True, text=True, timeout=120)
            assert (r.returncode, r.stdout) == (0, f"{n.name}\n"), r.stderr


def test_a_name_that_has_moved_is_found_by_who_knew_its_old_place(three, key):
    a, b, c = three
    for here, there in ((b, c), (c, b), (b, c)):
        with made_on(here, key, "nomad"):
            assert said_by(a, key, "nomad", "one") == "one\n"  # now a believes to know
        wait_for(lambda there=there: there.call("POST", "/v1/sandboxes", {"template": "host", "name": "nomad"}, key=key)[0] == 201, 30, "the name is free")
        try:
            a.ok("POST", "/v1/sandboxes/nomad/execs", {"argv": ["true"]}, key=key)
            assert said_by(a, key, "nomad", "two") == "two\n"
        finally:
            there.ok("DELETE", "/v1/sandboxes/nomad", key=key)


def test_a_name_is_found_as_soon_as_its_create_is_answered(three, key):
    """Also by a node that has just said that there is none."""
    a, b, _ = three
    for i in range(5):
        assert a.refused("GET", f"/v1/sandboxes/early{i}", key=key) == (404, "not_found")
        with made_on(b, key, f"early{i}"):
            assert a.call("GET", f"/v1/sandboxes/early{i}", key=key)[0] == 200


def test_create_or_get_gives_the_same_sandbox_on_every_node(three, key):
    with ThreadPoolExecutor(6) as pool:
        got = list(pool.map(lambda n: create(n, key, "shared", get_or_create=True), three * 2))
    try:
        assert len({s["id"] for s in got}) == 1
        assert sum(s["created"] for s in got) == 1
        for n in three:
            again = create(n, key, "shared", get_or_create=True)
            assert (again["id"], again["created"]) == (got[0]["id"], False)
            assert n.refused("POST", "/v1/sandboxes", {"template": "host", "name": "shared"}, key=key) == (409, "conflict")
    finally:
        three[0].ok("DELETE", "/v1/sandboxes/shared", key=key)


def test_nobody_finds_another_projects_sandbox_by_its_name(three, key, team):
    a, b, c = three
    with made_on(b, key, "private"):
        for n in three:
            status, answer = n.call("GET", "/v1/sandboxes/private", key=team)
            assert status == 404
            unknown = n.call("GET", "/v1/sandboxes/unknown", key=team)[1]["error"]
            assert answer["error"]["message"] == unknown["message"].replace("unknown", "private")
            assert n.refused("POST", "/v1/sandboxes/private/execs", {"argv": ["true"]}, key=team) == (404, "not_found")
        with made_on(c, team, "private") as theirs:
            for n in three:
                assert n.ok("GET", "/v1/sandboxes/private", key=team)["id"] == theirs
                assert n.ok("GET", "/v1/sandboxes/private", key=key)["id"] != theirs  # the control: its own is found


def test_without_the_database_a_name_is_not_known_and_not_said_to_be_nobodys(three, key, database):
    a, b, c = three
    with made_on(b, key, "known"), made_on(b, key, "unasked"):
        assert said_by(a, key, "known", "before") == "before\n"
        with without(database, *three):
            assert a.refused("GET", "/v1/sandboxes/unasked", key=key) == (503, "cluster_unavailable")
            assert a.refused("POST", "/v1/sandboxes", {"template": "host", "name": "unasked", "get_or_create": True}, key=key) == (503, "cluster_unavailable")
            assert said_by(b, key, "unasked", "here") == "here\n"
            assert said_by(a, key, "known", "believed") == "believed\n"
            b.ok("DELETE", "/v1/sandboxes/known", key=key)
            assert a.refused("GET", "/v1/sandboxes/known", key=key) == (503, "cluster_unavailable")
        assert said_by(a, key, "unasked", "again") == "again\n"


def test_a_flood_of_unknown_names_costs_the_database_little(three, key, team, database):
    a, b, _ = three
    before = questions(database)
    with made_on(b, key, "calm"), ThreadPoolExecutor(24) as pool:
        flood = [pool.submit(a.call, "GET", f"/v1/sandboxes/none-{i}", key=team) for i in range(300)]
        for _ in range(5):
            assert said_by(a, key, "calm", "on") == "on\n"
        assert {f.result()[0] for f in flood} <= {404, 429}
    assert questions(database) - before < 330
    with ThreadPoolExecutor(24) as pool:  # the same name, by many
        before = questions(database)
        assert {status for status, _ in pool.map(lambda _: a.call("GET", "/v1/sandboxes/none", key=team), range(400))} == {404}
        assert questions(database) - before < 200


def test_who_is_known_on_one_node_alone_is_told_so(three, key):
    """A caller of the unix socket has no key that the other node could check."""
    a, b, _ = three

    class Local(http.client.HTTPConnection):
        def connect(self):
            self.sock = socket.socket(socket.AF_UNIX)
            self.sock.connect(str(a.run / "cloche.sock"))

    with made_on(b, key, "remote"), made_on(a, key, "local"):
        for name, status in (("remote", 401), ("local", 200)):
            local = Local("localhost")
            local.request("GET", f"/v1/sandboxes/{name}")
            reply = local.getresponse()
            text = reply.read().decode()
            assert reply.status == status and ("'b'" in text) == (status == 401), text
            local.close()


LIES = ["'[]'", "'7'", "NULL", "'{\"holder\": null, \"node\": 2}'", "'{\"holder\": \"sb_x\", \"node\": 2}'", "to_jsonb(repeat('x', 200000))",
        "jsonb_build_object('holder', 'sb_' || repeat('a', 26), 'node', 4000000000)"]


@contextlib.contextmanager
def answering(database, function, arguments, answer):
    database.ask(f"ALTER FUNCTION cluster.{function} RENAME TO {function}_kept", "one")
    try:
        database.ask(f"CREATE FUNCTION cluster.{function}({arguments}) RETURNS jsonb LANGUAGE sql AS $$ SELECT ({answer})::jsonb $$", "one")
        yield
    finally:
        database.ask(f"DROP FUNCTION IF EXISTS cluster.{function}; ALTER FUNCTION cluster.{function}_kept RENAME TO {function}", "one")


def test_a_lying_database_leads_nobody_astray_and_ends_nobody(three, key, team, database):
    a, b, c = three
    before = [n.daemon.gateway_pid for n in three]
    arguments = "node int, secret text, project_id text, name text"
    for i, lie in enumerate(LIES):
        with answering(database, "named", arguments, lie):
            assert a.call("GET", f"/v1/sandboxes/lied-{i}", key=key)[0] in (500, 503), lie
    with made_on(b, key, "true"), made_on(c, team, "false"):
        with answering(database, "named", arguments, "jsonb_build_object('holder', 'sb_' || repeat('a', 26), 'node', 3)"):
            assert a.refused("GET", "/v1/sandboxes/false", key=key) == (404, "not_found")  # c has it, and it is another project's
            assert a.refused("GET", "/v1/sandboxes/true", key=key) == (404, "not_found")
            assert a.call("GET", "/v1/sandboxes/false", key=team)[0] == 200  # the control
        assert said_by(a, key, "true", "found") == "found\n"
        for n in (0, 99):
            with answering(database, "named", arguments, f"jsonb_build_object('holder', 'sb_' || repeat('a', 26), 'node', {n})"):
                assert a.call("GET", f"/v1/sandboxes/nowhere-{n}", key=key)[0] == 503
    assert [n.daemon.gateway_pid for n in three] == before
