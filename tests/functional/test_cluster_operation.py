# SPDX-License-Identifier: Apache-2.0
"""What operators of a cluster see and do: the state of all nodes with what repairs each, certificates near their end, the authority's key on another node."""

import json
import shutil
import subprocess

import pytest
from cloche import Client, errors
from harness.certificates import Authority
from harness.cluster import Database, Node
from harness.daemon import Daemon, call, wait_for
from harness.running import running


@pytest.fixture(scope="module")
def ca(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("ca"))


@pytest.fixture(scope="module")
def database(ca):
    """It speaks TLS, with a certificate for its address."""
    pair = ca.issue("127.0.0.1")
    d = Database(tls=(pair, pair))
    yield d
    d.close()


@pytest.fixture
def place(database, request):
    """Nodes by name in a cluster of the test's own."""
    class Place:
        name = request.node.name[:40]
        owner = database.owner(name)

        def __init__(self):
            self.nodes = []

        def node(self, name, more="sslmode=disable"):
            self.nodes.append(Node(name, database.conninfo(self.name, more)))
            return self.nodes[-1]

        def first(self, name="a"):
            a = self.node(name)
            a.init(self.owner)
            a.start()
            a.await_state("held")
            return a

        def another(self, name, inviting):
            b = self.node(name)
            b.join(inviting.ask("cluster", "invite")["token"])
            b.start()
            b.await_state("held")
            return b

    p = Place()
    database.make(p.name)
    yield p
    for node in p.nodes:
        node.close()


def node_row(node, name):
    return next(n for n in node.status()["directory"] if n["name"] == name)


def test_a_database_that_another_authority_has_signed_is_told_apart_from_one_without_tls(place, ca, tmp_path, database):
    other = Authority(tmp_path, "other")
    a = place.node("a", f"sslmode=verify-full sslrootcert={ca.cert}")
    a.init(place.owner)
    a.start()
    a.await_state("held")  # the control: this one it believes
    a.kill()
    a.conninfo = database.conninfo(place.name, f"sslmode=verify-full sslrootcert={other.cert}")
    a.start()
    a.await_problem("database_untrusted")
    problem = a.status()["problem"]
    assert "certificate verify failed" in problem["message"] and "sslrootcert=FILE" in problem["hint"]
    assert "does not support" not in problem["message"]


def test_a_database_whose_clock_is_an_hour_off_keeps_no_node_from_its_right(place, database):
    a = place.first()
    shift = ("DO $$ DECLARE body text := pg_get_functiondef('cluster.beat'::regproc); BEGIN EXECUTE replace(body, 'at_us := (', 'at_us := 3600000000 + ('); "
             "END $$")
    database.ask(shift, place.name)
    a.await_problem("clock_skew")
    status = a.status()
    assert status["state"] == "held" and "clock is 3" in status["problem"]["message"] and "s behind PostgreSQL's" in status["problem"]["message"]
    assert "timedatectl" in status["problem"]["hint"]
    wait_for(lambda: node_row(a, "a").get("problem", {}).get("code") == "clock_skew", 60, "the others hear of it, too")


def test_status_names_each_node_that_is_in_trouble_and_what_to_do(place):
    a = place.first()
    b = place.another("b", a)
    assert [n["state"] for n in a.status()["directory"]] == ["up", "up"]
    b.kill()
    wait_for(lambda: node_row(a, "b")["state"] in ("silent", "fenced"), 60, "b is missed")
    problem = node_row(a, "b")["problem"]
    assert problem["code"] in ("node_silent", "node_fenced") and "systemctl status cloche" in problem["hint"]
    wait_for(lambda: node_row(a, "b")["state"] == "lost", 120, "b is lost")
    assert node_row(a, "b")["problem"]["code"] == "node_lost"
    b.start()
    b.await_state("held")
    wait_for(lambda: "problem" not in node_row(a, "b"), 60, "b is back")


def test_the_map_names_the_node_of_each_tag(place, database):
    a = place.first()
    place.another("b", a)
    rows = a.ask("cluster", "map")["map"]
    assert len(rows) == 32 and len({r["tag"] for r in rows}) == 32 and {r["node"] for r in rows} == {"a", "b"}
    letters = "abcdefghijkmnpqrstuvwxyz23456789"  # as src/base/id.c has them
    tags = {int(t) for t in database.ask("SELECT tag FROM cluster.node_tags JOIN cluster.nodes USING (node) WHERE name = 'b'", place.name).split()}
    assert {"".join(letters[t >> s & 31] for s in (15, 10, 5, 0)) for t in tags} == {r["tag"] for r in rows if r["node"] == "b"}


def test_the_authoritys_key_moves_to_another_node_which_then_lets_others_join(place):
    a = place.first()
    b = place.another("b", a)
    refused = b.refused("cluster", "invite")
    assert "the authority's key is not here" in refused
    for node in (a, b):
        node.kill()
    shutil.move(a.data / "cluster" / "authority.key", b.data / "cluster" / "authority.key")
    for node in (a, b):
        node.start()
        node.await_state("held")
    assert not a.status()["signs"] and b.status()["signs"]
    place.another("c", b)
    # With no key anywhere, everybody says so.
    b.kill()
    (b.data / "cluster" / "authority.key").unlink()
    b.start()
    b.await_state("held")
    wait_for(lambda: a.status().get("authority_problem", {}).get("code") == "authority_missing", 60, "the authority is missed")


@pytest.fixture
def whole(place):
    """A node as a whole daemon."""
    a = place.node("a")
    d = Daemon("--cluster-postgres", a.conninfo, "--cluster-address", a.address, "--pool-max", "2")
    a.data, a.run = d.data, d.run
    with running(d):
        a.await_problem("not_joined")
        a.init(place.owner)
        a.await_state("held")
        yield a, d


def test_a_cordoned_node_makes_no_sandboxes_and_keeps_those_that_it_has(whole):
    a, d = whole
    with Client(d.url, api_key=d.key) as client, client.create(template="host") as sandbox:
        kept = client.create(template="host", persistent=True)
        kept.stop()
        assert a.ask("node", "cordon") == {"name": "a", "is_new": True}
        assert a.ask("node", "ls")["nodes"][0]["is_cordoned"]
        refused = wait_for(lambda: refusal(client), 60, "a refusal")
        assert refused.code == "no_capacity" and "this node is cordoned" in str(refused)
        assert sandbox.run(["echo", "goes on"]).stdout == "goes on\n"
        assert kept.run(["echo", "resumed"]).stdout == "resumed\n"  # it is no new one
        kept.delete()
        a.ask("node", "uncordon")
        wait_for(lambda: refusal(client) is None, 60, "creates again")
        assert not a.ask("node", "uncordon")["is_new"]


def refusal(client):
    try:
        client.create(template="host").delete()
    except errors.ClocheError as e:
        return e
    return None


def test_health_tells_what_is_wrong_with_the_cluster_and_what_to_do_first(whole, database):
    _, d = whole
    assert problems_of(d) == {}
    database.stop()
    try:
        said = wait_for(lambda: problems_of(d).get("cluster_failing"), 60, "a problem of the cluster")
        assert "database_unreachable: " in said["message"] and "do this first: check `postgres` under [cluster]" in said["message"]
        assert "cloche cluster status" in said["hint"]
    finally:
        database.start()
    wait_for(lambda: problems_of(d) == {}, 60, "it is over")


def problems_of(d):
    return {p["code"]: p for p in call(d, "GET", "/v1/health")[1].get("problems", []) if p["code"] == "cluster_failing"}


def test_a_node_is_removed_when_it_is_cordoned_and_its_name_is_nobody_elses(place):
    a = place.first()
    b = place.another("b", a)
    assert "owner" in a.refused("node", "cordon", "b")  # a node puts out none but itself
    assert "neither cordoned nor lost" in a.refused("node", "rm", "--owner", place.owner, "b")
    assert "there is no node" in a.refused("node", "rm", "--owner", place.owner, "nobody")
    assert a.ask("node", "cordon", "--owner", place.owner, "b") == {"name": "b", "is_new": True}
    assert [n["is_cordoned"] for n in a.ask("node", "ls")["nodes"]] == [False, True]
    a.ask("node", "rm", "--owner", place.owner, "b")
    assert [n["name"] for n in a.ask("node", "ls")["nodes"]] == ["a"]
    b.await_problem("node_unknown")
    b.await_state("fenced")  # it goes on for as long as its right lasts, and no longer
    assert "there is no such node" in b.refused("cluster", "map")
    wait_for(lambda: a.status()["nodes"] == 1, 60, "a knows b no more")
    token = a.ask("cluster", "invite")["token"]
    assert "was removed, and its certificate may still be somewhere" in b.refused("node", "join", token, "--name", "b", "--replace")
    b.name = "b2"
    b.join(a.ask("cluster", "invite")["token"], "--replace")
    b.kill()
    b.start()  # as the launcher does
    b.await_state("held")


def test_a_node_with_a_good_secret_puts_out_no_other(place, database):
    """Its login may call what nodes call, for itself."""
    a = place.first()
    b = place.another("b", a)
    papers = json.loads((b.data / "cluster" / "node.json").read_text())

    def as_b(sql):
        return subprocess.run(["psql", "-X", "-A", "-t", f"host=127.0.0.1 port={database.port} dbname={place.name} sslmode=disable user={papers['user']} password={papers['password']}",
                               "-c", sql], capture_output=True, text=True)

    node = papers["node"]
    control = as_b(f"SELECT cluster.cordon({node}, '{papers['secret']}', true)")
    assert control.stdout.strip() == "t", control.stderr
    for sql in (f"SELECT cluster.cordon({node - 1}, '{papers['secret']}', true)", "SELECT cluster.cordon_named('a', true)", "SELECT cluster.remove_node('a')",
                "DELETE FROM cluster.nodes", "UPDATE cluster.nodes SET is_cordoned = true", "DELETE FROM cluster.removed_names"):
        r = as_b(sql)
        assert r.returncode != 0 and ("permission denied" in r.stderr or "its secret is another" in r.stderr), (sql, r.stderr)
    assert [(n["name"], n["is_cordoned"]) for n in a.ask("node", "ls")["nodes"]] == [("a", False), ("b", True)]
