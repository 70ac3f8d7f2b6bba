# SPDX-License-Identifier: Apache-2.0
"""Members of a cluster on a real PostgreSQL: made, invited, joined, fenced, taken over, and wrong in every way that has a name."""

import json
import os
import signal
import socket
import struct
import subprocess

import pytest
from cloche import Client
from harness.cluster import Database, Namespaces, Node
from harness.daemon import BUILD, ROOT, Daemon, children_of, read_text, wait_for
from harness.running import running

pytestmark = pytest.mark.skipif(not (BUILD / "cloche-cluster").exists(), reason="built without libpq")


@pytest.fixture(scope="module")
def database():
    d = Database()
    d.make("one")
    d.make("two")
    yield d
    d.close()


@pytest.fixture
def place(database):
    """An empty database, and nodes that end with the test."""
    nodes = []

    class Place:
        name = "one"
        owner = database.owner(name)
        server = database

        def ask(self, sql):
            return database.ask(sql, self.name)

        def node(self, name, conninfo=None, **options):
            nodes.append(Node(name, conninfo or database.conninfo(self.name), **options))
            return nodes[-1]

        def first(self, **times):
            n = self.node("a")
            n.init(self.owner, **times)
            return n.start()

        def second(self, first, name="b", **options):
            n = self.node(name, **options)
            n.join(first.ask("cluster", "invite")["token"])
            return n.start()

    for name in ("one", "two"):
        database.ask("DROP SCHEMA IF EXISTS cluster CASCADE", name)
    yield Place()
    for n in nodes:
        n.close()


def test_a_cluster_is_made_and_a_second_node_joins_by_an_invitation(place):
    a = place.first()
    b = place.second(a)
    a.await_state("held")
    b.await_state("held")
    wait_for(lambda: [n["state"] for n in b.ask("node", "ls")["nodes"]] == ["up", "up"], 30, "both up")
    assert [(n["name"], n["is_here"]) for n in b.ask("node", "ls")["nodes"]] == [("a", False), ("b", True)]
    wait_for(lambda: a.status()["nodes"] == 2 and b.status()["nodes"] == 2, 30, "the directory of both")
    assert a.status()["signs"] and not b.status()["signs"]
    certificate = subprocess.run(["openssl", "verify", "-CAfile", b.data / "cluster/authority.crt", b.data / "cluster/node.crt"], capture_output=True, text=True)
    assert certificate.returncode == 0, certificate.stderr
    names = subprocess.run(["openssl", "x509", "-noout", "-ext", "subjectAltName", "-in", b.data / "cluster/node.crt"], capture_output=True, text=True).stdout
    assert f"URI:cloche://{a.status()['cluster_id']}/b" in names and "DNS:b.example" in names
    tags = [set(json.loads((n.data / "cluster/node.json").read_text())["tags"]) for n in (a, b)]
    assert [len(t) for t in tags] == [16, 16] and not tags[0] & tags[1]


def test_a_member_tells_its_gateway_of_all_nodes_and_answers_what_it_asks(place):
    a = place.first()
    b = place.second(a)
    for n in (a, b):
        n.await_state("held")
    wait_for(lambda: a.gateway().word()["state"] == "held" and len(a.gateway().directory()) == 2, 30, "the directory of both")
    word, nodes = a.gateway().word(), a.gateway().directory()
    assert (word["node"], word["epoch"], word["code"]) == (1, a.status()["epoch"], "")
    assert [(n["node"], n["name"], n["address"]) for n in nodes] == [(1, "a", "a.example:7071"), (2, "b", "b.example:7071")]
    for n, row in zip((a, b), nodes, strict=True):
        assert sorted(row["tags"]) == sorted(json.loads((n.data / "cluster/node.json").read_text())["tags"])
    wait_for(lambda: all(n["is_alive"] for n in a.gateway().directory()), 30, "both alive")
    b.kill()
    wait_for(lambda: [n["is_alive"] for n in a.gateway().directory()] == [True, False], 60, "b is silent")
    assert a.gateway().call({"call": "nothing_of_the_kind"})["error"]["code"] == "unsupported"


@pytest.mark.parametrize("message", [b"", b"x", struct.pack("II", 99, 1), struct.pack("II", 6, 1) + b"{", struct.pack("II", 6, 1) + b"[]", struct.pack("III", 3, 0, 1), struct.pack("III", 3, 1, 0)])
def test_a_member_ends_with_a_gateway_that_says_what_is_wrong(place, message):
    a = place.first()
    a.await_state("held")
    if message:
        a.gateway().socket.send(message)
    else:
        a.gateway().socket.shutdown(socket.SHUT_RDWR)
    assert a.process.wait(30) == 0


def test_a_claim_that_was_refused_is_made_again(place):
    """The watched node may have been heard just then; it can fall silent later, with the same epoch."""
    a = place.first(lost_after_s=300)
    b = place.second(a)
    for n in (a, b):
        n.await_state("held")
    claim = place.ask("SELECT pg_get_functiondef('cluster.claim'::regproc)")
    place.ask(claim.replace("BEGIN", "BEGIN\n\tRETURN false;", 1))
    b.signal(signal.SIGSTOP)
    wait_for(lambda: "cluster.silent_node" in a.log(), 60, "a has seen it, and was refused")
    place.ask(claim)
    wait_for(lambda: "cluster.takeover" in a.log(), 30, "a has claimed it")
    b.signal(signal.SIGCONT)
    wait_for(lambda: "cluster.epoch_over" in b.log(), 30, "b hears of it")
    b.await_state("held")


def test_the_member_has_no_rights_and_sees_its_own_directory_alone(place):
    a = place.first()
    a.await_state("held")
    status = dict(line.split(":\t") for line in open(f"/proc/{a.process.pid}/status").read().splitlines() if ":\t" in line)
    assert status["CapEff"] == status["CapBnd"] == "0" * 16 and status["Seccomp"] == "2" and status["NoNewPrivs"] == "1"
    assert status["Uid"].split()[0] not in ("0", "65534")
    assert os.readlink(f"/proc/{a.process.pid}/root") == str(a.data / "cluster/root")
    assert "call_refused" not in a.log()
    for path in (a.data / "cluster/node.json", a.data / "cluster/authority.key", a.data / "cluster/node.key"):
        assert path.stat().st_mode & 0o777 == 0o600 and path.stat().st_uid == 0
    assert (a.run / "cluster.sock").stat().st_mode & 0o777 == 0o600


def test_functions_run_by_a_role_that_cannot_log_in(place):
    place.first()
    owners = place.ask("SELECT DISTINCT rolname, rolcanlogin, rolsuper FROM pg_proc JOIN pg_roles r ON r.oid = proowner WHERE pronamespace = 'cluster'::regnamespace")
    assert owners.startswith("cloche_owner_") and owners.endswith("|f|f") and "\n" not in owners


def test_an_invitation_lets_one_node_in_once(place):
    a = place.first()
    token = a.ask("cluster", "invite")["token"]
    place.node("b").join(token)
    said = place.node("c").refused("node", "join", token, "--name", "c")
    assert "used already" in said and "cloche cluster invite" in said
    assert place.ask("SELECT count(*) FROM cluster.nodes") == "2"


def test_an_invitation_ends_with_its_time(place):
    a = place.first()
    token = a.ask("cluster", "invite")["token"]
    place.ask("UPDATE cluster.invitations SET expires_at = now() - interval '1 second'")
    b = place.node("b")
    said = b.refused("node", "join", token, "--name", "b")
    assert "has expired" in said and "cloche cluster invite" in said
    assert not (b.data / "cluster/node.json").exists()
    b.join(a.ask("cluster", "invite")["token"])


@pytest.mark.parametrize("token", ["", "x", "cloche-join-", "cloche-join-e30", "cloche-join-" + "A" * 5000, "cloche-join-ÿ"])
def test_what_is_no_invitation_is_told_so(place, token):
    assert "is not an invitation" in place.node("b").refused("node", "join", token)


def test_who_holds_the_database_alone_gets_no_certificate(place):
    """The owner of the database invents a request, and changes one: the node that signs refuses both."""
    a = place.first()
    a.await_state("held")
    place.ask("SELECT cluster.add_node('evil:1', repeat('e', 32), ARRAY(SELECT generate_series(1, 16)), 'evil')")
    place.ask("INSERT INTO cluster.invitations VALUES ('inv_' || repeat('a', 26), sha256('x'), 1, now() + interval '1 hour', 2, 'r', repeat('0', 64))")
    wait_for(lambda: place.ask("SELECT refusal FROM cluster.invitations"), 30, "a refusal")
    assert "knows no such invitation" in place.ask("SELECT refusal FROM cluster.invitations")
    a.kill()
    b = place.node("b")
    token = a.ask("cluster", "invite")["token"]
    b.write_config()
    joining = subprocess.Popen([BUILD / "cloche", "node", "join", "--config", b.config, token, "--name", "b"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    wait_for(lambda: place.ask("SELECT count(*) FROM cluster.invitations WHERE request LIKE '%BEGIN%'") == "1", 30, "a request")
    place.ask("UPDATE cluster.nodes SET name = 'other' WHERE name = 'b'")
    a.start()
    said = joining.communicate(timeout=90)[1]
    assert joining.returncode != 0 and "not of who has the invitation" in said
    assert place.ask("SELECT count(*) FROM cluster.invitations WHERE certificate IS NOT NULL") == "0"


def test_a_database_that_shows_another_authority_is_refused(place):
    a = place.first()
    token = a.ask("cluster", "invite")["token"]
    other = subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", "/dev/null", "-subj", "/CN=evil"], capture_output=True, text=True, check=True).stdout
    place.ask(f"UPDATE cluster.cluster SET certificate = '{other}'")
    said = place.node("b").refused("node", "join", token, "--name", "b")
    assert "another authority" in said and place.ask("SELECT count(*) FROM cluster.nodes") == "1"


def test_a_join_that_nobody_signs_goes_on_when_it_is_said_again(place):
    a = place.first()
    token = a.ask("cluster", "invite")["token"]
    a.kill()
    b = place.node("b")
    b.write_config()
    argv = [BUILD / "cloche", "node", "join", "--config", b.config, token, "--name", "b"]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as first:
        wait_for(lambda: place.ask("SELECT count(*) FROM cluster.nodes") == "2", 30, "a number for b")
        first.kill()
    assert b.problem() == "not_joined"
    a.start()
    assert b.join(token)["node"] == 2
    assert b.start() and place.ask("SELECT count(*) FROM cluster.nodes") == "2"
    b.await_state("held")


def test_names_and_addresses_belong_to_one_node(place):
    a = place.first()
    token = a.ask("cluster", "invite")["token"]
    said = place.node("b", address="a.example:7071").refused("node", "join", token, "--name", "b")
    assert "nodes_address_key" in said and "--address" in said
    assert "must be 1 to 63 of a-z" in place.node("b").refused("node", "join", token, "--name", "B_1")
    assert "is not HOST:PORT" in place.node("b", address="nowhere").refused("node", "join", token, "--name", "b")
    place.node("b").join(token)


def test_a_second_cluster_in_the_same_database_is_refused_and_a_node_is_in_one(place, database):
    a = place.first()
    said = place.node("b").refused("cluster", "init", "--owner", place.owner, "--name", "b")
    assert "has a cluster already" in said and "cloche node join" in said
    said = a.refused("cluster", "init", "--owner", database.owner("two"), "--name", "a")
    assert "is in the cluster" in said and "--replace" in said


def test_a_node_of_another_cluster_says_so_and_does_nothing_there(place, database):
    a = place.first()
    b = place.node("b", database.conninfo("two"))
    b.init(database.owner("two"))
    b.conninfo = database.conninfo(place.name)
    b.start()
    b.await_problem("cluster_foreign")
    assert b.state() == "out"
    a.await_state("held")


@pytest.mark.parametrize("change,code,command", [
    ("UPDATE cluster.version SET number = 999, least_member = 999", "member_too_old", "apt install"),
    ("UPDATE cluster.version SET number = 1", "schema_too_old", "cloche cluster migrate"),
    ("REVOKE EXECUTE ON FUNCTION cluster.hello FROM cloche_node", "rights_missing", "cloche cluster migrate"),
    ("DROP SCHEMA cluster CASCADE", "cluster_missing", "cloche cluster init"),
])
def test_a_database_that_does_not_fit_is_named_with_what_repairs_it(place, change, code, command):
    a = place.first()
    a.await_state("held")
    a.kill()
    place.ask(change)
    a.start()
    a.await_problem(code)
    assert command in a.status()["problem"]["hint"] and a.state() == "out"
    if code == "rights_missing":
        a.ask("cluster", "migrate", "--owner", place.owner)
        a.await_state("held")


def test_a_database_of_step_1_is_migrated_and_keeps_what_it_has(place):
    """The cluster is set back to what its first release made; then a migration, twice."""
    a = place.first()
    a.await_state("held")
    a.kill()
    rows = place.ask("SELECT row_to_json(c) FROM cluster.cluster c") + "|" + place.ask("SELECT row_to_json(n) FROM cluster.nodes n")
    cluster, node = (json.loads(r) for r in rows.split("|"))
    tags, owner = place.ask("SELECT array_agg(tag) FROM cluster.node_tags"), place.ask("SELECT pg_get_userbyid(nspowner) FROM pg_namespace WHERE nspname = 'cluster'")
    first = (ROOT / "src" / "cluster" / "schema.sql").read_text()
    place.ask(f"DROP SCHEMA cluster CASCADE; SET ROLE {owner}; {first}")
    place.ask(f"INSERT INTO cluster.cluster SELECT * FROM json_populate_record(NULL::cluster.cluster, '{json.dumps(cluster)}')")
    place.ask(f"SELECT cluster.add_node('{node['address']}', repeat('x', 32), '{tags}', 'a'); UPDATE cluster.nodes SET secret_sha256 = '{node['secret_sha256']}'")
    a.start()
    a.await_problem("schema_too_old")
    assert "cloche cluster migrate" in a.status()["problem"]["hint"]
    newest = len(list((ROOT / "src" / "cluster").glob("schema*.sql")))
    assert a.ask("cluster", "migrate", "--owner", place.owner)["steps"] == newest - 1
    a.await_state("held")
    assert a.ask("cluster", "migrate", "--owner", place.owner)["steps"] == 0
    assert place.ask("SELECT number FROM cluster.version") == str(newest)
    assert set(place.ask("SELECT DISTINCT pg_get_userbyid(relowner) FROM pg_class WHERE relnamespace = 'cluster'::regnamespace").split()) == {owner}


def test_a_node_that_the_cluster_has_removed_is_told_so(place):
    a = place.first()
    b = place.second(a)
    b.await_state("held")
    place.ask("DELETE FROM cluster.nodes WHERE name = 'b'")
    b.await_problem("node_unknown")
    assert "cloche node join" in b.status()["problem"]["hint"]
    wait_for(lambda: b.state() == "fenced", 30, "the fence of b")


@pytest.mark.parametrize("conninfo,code", [
    ("host=127.0.0.1 port=1 sslmode=disable", "database_unreachable"),
    ("host=nowhere.invalid sslmode=disable", "database_name_unknown"),
    ("{} dbname=nothing_here", "database_missing"),
    ("{} password=wrong", "database_refused"),
    ("{} user=nobody_here", "database_refused"),
    ("{} sslmode=require", "database_without_tls"),
    ("host=/var/run/postgresql", "setting_invalid"),
    ("hoost=db", "setting_invalid"),
    ("{} sslmode=verify-full sslrootcert=/nonexistent/x", "setting_invalid"),
])
def test_a_wrong_setting_is_named(place, database, conninfo, code):
    a = place.node("a")
    a.init(place.owner)
    a.conninfo = conninfo.format(database.conninfo(place.name))
    a.start()
    a.await_problem(code)
    assert a.state() == "out" and a.process.poll() is None


def test_a_database_that_is_stopped_fences_the_node_and_gives_its_right_back(place, database):
    a = place.first()
    a.await_state("held")
    epoch = a.status()["epoch"]
    database.stop()
    try:
        a.await_state("fenced")
        assert a.problem() == "database_unreachable" and "pg_isready" in a.status()["problem"]["hint"]
    finally:
        database.start()
    a.await_state("held")
    assert a.status()["epoch"] == epoch and a.problem() == ""


def test_a_synchronous_standby_that_is_away_fences_nobody(place, database):
    a = place.first()
    a.await_state("held")
    database.ask("ALTER SYSTEM SET synchronous_standby_names = 'away'", "one")
    database.ask("SELECT pg_reload_conf()", "one")
    waiting = None
    try:
        argv = ["psql", "-X", "-q", "-h", database.folder, "-p", str(database.port), "-U", "owner", "-d", "one", "-c", "CREATE TABLE public.control (n int)"]
        waiting = subprocess.Popen(argv)  # the control: a commit that nobody made asynchronous
        wait_for(lambda: place.ask("SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND query LIKE '%public.control%'") == "1", 30, "a commit that waits")
        beats = int(place.ask("SELECT number FROM cluster.beats WHERE node = 1"))
        wait_for(lambda: int(place.ask("SELECT number FROM cluster.beats WHERE node = 1")) > beats + 10, 60, "ten beats more")
        assert a.state() == "held" and waiting.poll() is None
    finally:
        database.ask("ALTER SYSTEM RESET synchronous_standby_names", "one")
        database.ask("SELECT pg_reload_conf()", "one")
        if waiting:
            assert waiting.wait(60) == 0
            place.ask("DROP TABLE public.control")


def test_a_member_that_stands_still_loses_its_epoch_and_joins_anew(place):
    a = place.first()
    b = place.second(a)
    b.await_state("held")
    a.await_state("held")
    wait_for(lambda: [w["node"] for w in a.status()["watching"]] == [2], 30, "a watches b")
    b.signal(signal.SIGSTOP)
    wait_for(lambda: place.ask("SELECT is_claimed FROM cluster.nodes WHERE name = 'b'") == "t", 60, "a claim")
    assert [n["state"] for n in a.ask("node", "ls")["nodes"]] == ["up", "fenced"]
    b.signal(signal.SIGCONT)
    wait_for(lambda: b.status()["epoch"] == 3 and b.state() == "held", 60, "b in again")
    assert "cluster.epoch_over" in b.log() and '"state":"fenced"' in b.log()
    assert place.ask("SELECT is_claimed FROM cluster.nodes WHERE name = 'b'") == "f"


def test_a_member_that_is_killed_is_claimed_then_lost_and_comes_back(place):
    a = place.first(fence_after_s=1)
    b = place.second(a)
    b.await_state("held")
    b.kill()
    wait_for(lambda: place.ask("SELECT is_claimed FROM cluster.nodes WHERE name = 'b'") == "t", 60, "a claim")
    wait_for(lambda: place.ask("SELECT is_lost FROM cluster.nodes WHERE name = 'b'") == "t", 90, "a loss")
    b.start()
    b.await_state("held")
    assert place.ask("SELECT is_lost OR is_claimed FROM cluster.nodes WHERE name = 'b'") == "f"


def test_three_nodes_in_namespaces_and_one_is_cut_off():
    spaces = Namespaces(3)
    database = Database(address=spaces.address)
    nodes = []
    try:
        database.make("one")
        for i, name in enumerate("abc"):
            nodes.append(Node(name, database.conninfo("one"), prefix=spaces.prefix(i)))
        a, b, c = nodes
        a.init(database.owner("one"))
        a.start()
        for n in (b, c):
            n.join(a.ask("cluster", "invite")["token"])
            n.start()
        for n in nodes:
            n.await_state("held")
        wait_for(lambda: all(len(n.status()["watching"]) == 2 for n in nodes), 30, "all watch each other")
        spaces.cut(1)
        b.await_state("fenced")
        wait_for(lambda: database.ask("SELECT is_claimed FROM cluster.nodes WHERE name = 'b'", "one") == "t", 60, "a claim")
        assert (a.state(), c.state()) == ("held", "held")
        spaces.cut(1, False)
        b.await_state("held")
        assert database.ask("SELECT epoch FROM cluster.beats JOIN cluster.nodes USING (node) WHERE name = 'b'", "one") == "3"
    finally:
        for n in nodes:
            n.close()
        database.close()
        spaces.close()


def member_of(daemon):
    return next((p for p in children_of(daemon.process.pid) if read_text(f"/proc/{p}/comm").strip() == "cloche-member"), None)


@pytest.fixture
def whole(place):
    """A node that made a cluster, as a whole daemon."""
    a = place.node("a")
    d = Daemon("--cluster-postgres", a.conninfo, "--cluster-address", a.address, "--pool-max", "0")
    a.data, a.run = d.data, d.run
    with running(d):
        a.await_problem("not_joined")
        a.init(place.owner)
        a.await_state("held")
        yield a, d


def test_a_daemon_has_a_member_that_is_replaced_alone(whole):
    """A join takes no restart, and the death of a member none of the others."""
    a, d = whole
    first, others = member_of(d), (d.gateway_pid, d.broker_pid)
    os.kill(first, signal.SIGKILL)
    wait_for(lambda: member_of(d) not in (None, first), 30, "another member")
    a.await_state("held")
    assert (d.gateway_pid, d.broker_pid) == others and a.status()["epoch"] >= 2
    second = member_of(d)
    os.kill(second, signal.SIGTERM)  # as systemd sends it to all: only the gateway's end ends a member
    a.await_state("held")
    assert member_of(d) == second
    with Client(d.url, api_key=d.key) as client, client.create(template="host") as sandbox:
        assert sandbox.run(["echo", "alone"]).stdout == "alone\n"


def test_a_daemon_in_a_cluster_serves_while_the_database_is_stopped(whole, database):
    a, d = whole
    database.stop()
    try:
        a.await_state("fenced")
        with Client(d.url, api_key=d.key) as client, client.create(template="host") as sandbox:
            assert sandbox.run(["echo", "on"]).stdout == "on\n"
    finally:
        database.start()
    a.await_state("held")


def test_no_part_but_the_member_loads_libpq(whole):
    _, d = whole
    for pid in children_of(d.process.pid):
        maps = read_text(f"/proc/{pid}/maps")
        assert ("libpq" in maps) == (pid == member_of(d)), read_text(f"/proc/{pid}/comm")
    assert "libpq" not in subprocess.run(["ldd", BUILD / "cloche"], capture_output=True, text=True).stdout


def test_a_daemon_without_a_cluster_has_no_member():
    with running(Daemon("--pool-max", "0")) as d:
        assert member_of(d) is None and len([p for p in children_of(d.process.pid) if "cloche-" in read_text(f"/proc/{p}/comm")]) == 5
