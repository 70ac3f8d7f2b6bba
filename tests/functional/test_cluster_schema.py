# SPDX-License-Identifier: Apache-2.0
"""The database of a cluster (src/cluster/schema.sql) on a real PostgreSQL: it does what the model of the simulation does, nodes may do no more than they must, and
calls that meet are done one after the other."""

import json
import shutil
import subprocess
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from harness.daemon import BUILD, ROOT, wait_for

SCHEMA = [ROOT / "src" / "cluster" / name for name in ("schema.sql", "schema-2.sql", "schema-3.sql", "schema-4.sql", "schema-5.sql", "schema-6.sql", "schema-7.sql", "schema-8.sql", "schema-9.sql", "schema-10.sql", "schema-11.sql")]
FOR_NODES = {"hello", "join_node", "epoch_of", "beat", "lease", "take_name", "free_name", "claim", "lose", "invite", "use_invitation", "certificate_of", "requests", "certify", "directory", "cordon",
             "put_record", "changed", "take_create", "free_create", "taken", "named", "tell", "where", "list_others", "tell_batch", "list_of", "where_is", "once_of", "sample",
             "keep_parcel", "parcel_of", "drop_parcel", "object_key", "publish_template", "remove_template",
             "wrote", "written", "lease_many", "own_leases", "wanted", "take_rate", "ask_renewal", "end_renewal", "renewals_open", "answer_renewal",
             "publish_snapshot", "snapshot_of", "seen_snapshots", "remove_snapshot",
             "object_rows", "tell_objects", "take_duty", "keep_duty", "end_duty", "marked_objects", "put_sealed", "tell_usage", "usage_of",
             "own", "disown", "owned_rows", "owned_row", "owner_of", "moved_rows", "take_over"}


class Server:
    """A PostgreSQL of its own on a Unix socket, without syncs."""

    def __init__(self):
        found = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"), key=lambda p: int(p.parts[-3]))
        assert found, "no PostgreSQL: tools/install-deps test installs it"
        self.programs = found[-1].parent
        self.folder = Path(tempfile.mkdtemp(prefix="cloche-test-pg-", dir="/tmp"))
        shutil.chown(self.folder, "postgres")
        self.run("initdb", "--auth=trust", "--username=owner", "--no-sync", "--encoding=UTF8", "--locale=C")
        self.start()

    def run(self, program, *words):
        subprocess.run([self.programs / program, "-D", self.folder / "data", *words], user="postgres", group="postgres", extra_groups=[], cwd="/", check=True, stdout=subprocess.DEVNULL)

    def start(self):
        self.run("pg_ctl", "--wait", "--log", str(self.folder / "log"), "--options", f"-c listen_addresses= -c unix_socket_directories={self.folder} -c fsync=off", "start")

    def stop(self):
        self.run("pg_ctl", "--wait", "--mode=fast", "stop")

    def psql(self, *words, user="owner", **options):
        argv = ["psql", "-X", "-q", "-A", "-t", "-h", str(self.folder), "-U", user, "-d", "postgres", *words]
        return subprocess.run(argv, capture_output=True, text=True, timeout=120, **options)

    def ask(self, sql, user="owner"):
        r = self.psql("-v", "ON_ERROR_STOP=1", "-c", sql, user=user)
        assert r.returncode == 0, r.stderr
        return r.stdout.strip()

    def renew(self):
        """An empty cluster with two nodes and a quota of 20, and a role for nodes."""
        self.ask("DROP SCHEMA IF EXISTS cluster CASCADE")
        r = self.psql("-v", "ON_ERROR_STOP=1", *(word for step in SCHEMA for word in ("-f", step)))
        assert r.returncode == 0, r.stderr

    def add_two(self):
        for n in (1, 2):
            assert self.ask(f"SELECT cluster.add_node('node{n}:7071', repeat('{n}', 32), ARRAY[{n}, {n + 16}])") == str(n)
            assert self.ask(f"SELECT cluster.join_node({n}, repeat('{n}', 32), 0, 1, true)") == "1"
        self.ask("INSERT INTO cluster.quotas VALUES ('p', 'memory', 20)")


@pytest.fixture(scope="module")
def server():
    s = Server()
    try:
        s.ask("CREATE ROLE node LOGIN")
        s.renew()
        s.ask("GRANT cloche_node TO node")
        yield s
    finally:
        s.stop()
        shutil.rmtree(s.folder)


@pytest.fixture
def two(server):
    server.renew()
    server.add_two()
    return server


class Session:
    """A client that stays, to be in the middle of a transaction."""

    def __init__(self, server):
        self.process = subprocess.Popen(["psql", "-X", "-q", "-A", "-t", "-h", server.folder, "-U", "owner", "-d", "postgres"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def say(self, sql):
        self.process.stdin.write(sql + ";\n")
        self.process.stdin.flush()

    def hear(self):
        return self.process.stdout.readline().strip()

    def ask(self, sql):
        self.say(sql)
        return self.hear()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.communicate(timeout=30)


def differences(server, seed, steps):
    lines = subprocess.run([BUILD / "tests/cluster/contract", str(seed), str(steps)], check=True, capture_output=True, text=True).stdout.splitlines()
    rows = [line.split("\t") for line in lines]
    assert len(rows) > steps
    r = server.psql("-f", "-", input="".join(f"{sql};\n" for sql, _ in rows))
    got = r.stdout.splitlines()
    assert r.stderr == "" and len(got) == len(rows), r.stderr[:500]
    return [(sql, wanted, given) for (sql, wanted), given in zip(rows, got) if wanted != given]


@pytest.mark.parametrize("seed", [1, 2])
def test_the_database_answers_as_the_model_does(server, seed):
    server.renew()
    assert differences(server, seed, 1500) == []


def test_a_database_without_the_check_of_epochs_answers_otherwise(server):
    server.renew()
    server.ask("CREATE OR REPLACE FUNCTION cluster.hold(node int, epoch bigint) RETURNS boolean LANGUAGE sql AS 'SELECT true'")
    assert differences(server, 1, 500)


def test_a_node_may_call_some_functions_and_read_nothing(two):
    may = two.ask("SELECT proname FROM pg_proc WHERE pronamespace = 'cluster'::regnamespace AND has_function_privilege('node', oid, 'EXECUTE')").split()
    assert set(may) == FOR_NODES
    tables = two.ask("SELECT relname FROM pg_class WHERE relnamespace = 'cluster'::regnamespace AND relkind = 'r'").split()
    assert len(tables) == 29
    for table in tables:
        for sql in (f"SELECT 1 FROM cluster.{table}", f"DELETE FROM cluster.{table}", f"TRUNCATE cluster.{table}"):
            assert "permission denied" in two.psql("-c", sql, user="node").stderr, sql
    assert "permission denied" in two.psql("-c", "CREATE TABLE cluster.own (x int)", user="node").stderr
    assert two.ask("SELECT is_taken FROM cluster.beat(1, repeat('1', 32), 1, 2, '{}')", user="node") == "t"


@pytest.mark.parametrize("call", ["join_node(1, {}, 0, 1, true)", "epoch_of(1, {})", "beat(1, {}, 1, 2, '{{}}')", "lease(1, {}, 1, 'p', 'memory', 1, 5, 5)",
                                  "take_name(1, {}, 1, 1, 'p', 'n', 'sb_1')", "free_name(1, {}, 1, 1, 'p', 'n', 'sb_1')",
                                  "put_sealed(1, {}, 1, 'secret', 'sec_1', 'prj_1', 1, 1, false, false, 'x')", "tell_usage(1, {}, 1, '[]')",
                                  "usage_of(1, {}, NULL, '[]', 1, 2, true, '', 0)", "claim(1, {}, 1, 2, 1, 1, 'x')", "lose(1, {}, 1, 2, 1, 1, 'x')", "invite(1, {}, 'i', repeat('0', 64), 60)", "certificate_of(1, {})",
                                  "put_record(1, {}, 1, 'project', 'prj_1', 'prj_1', 'n', '{{}}', false)", "changed(1, {}, 0)", "take_create(1, {}, 1, 1, 'p', 'sb_1', 'n', 'k', 'd')",
                                  "free_create(1, {}, 1, 1, 'sb_1', true)", "taken(1, {}, '')", "named(1, {}, 'p', 'n')", "tell(1, {}, 1, true, '[]', '[]')", "\"where\"(1, {}, 'sb_1')",
                                  "list_others(1, {}, 'p', 1, '', 10, '{{}}')", "requests(1, {})", "certify(1, {}, 'i', 'c', NULL)", "directory(1, {})", "wrote(1, {})", "written(1, {})", "lease_many(1, {}, 1, '[]')",
                                  "own_leases(1, {}, 1, '', '')", "wanted(1, {})", "take_rate(1, {}, 1, 'prj_1', 1, 5)",
                                  "object_rows(1, {}, '')", "tell_objects(1, {}, 1, 's')", "take_duty(1, {}, 1, 'collect')", "keep_duty(1, {}, 1, 'collect', '[]')",
                                  "end_duty(1, {}, 1, 'collect', '{{}}', 60)", "marked_objects(1, {})",
                                  "own(1, {}, 1, 'sb_1', 'prj_1', 0, 'sn_1', 0, 'x')", "disown(1, {}, 1, 'sb_1', 'prj_1')", "owned_rows(1, {}, '')", "owned_row(1, {}, 'sb_1')", "owner_of(1, {}, 'sb_1')",
                                  "moved_rows(1, {}, '')", "take_over(1, {}, 1, 10)"])
def test_who_does_not_know_a_nodes_secret_does_nothing_in_its_name(two, call):
    for secret in ("repeat('2', 32)", "''", "NULL"):
        r = two.psql("-v", "ON_ERROR_STOP=1", "-v", "VERBOSITY=verbose", "-c", f"SELECT cluster.{call.format(secret)}", user="node")
        assert r.returncode != 0 and "CL001" in r.stderr and "invitation" in r.stderr, r.stderr
    two.ask(f"SELECT cluster.{call.format(repr('1' * 32))}", user="node")


def test_a_node_cannot_put_tables_of_its_own_in_the_way(two):
    shadow = "CREATE TEMP TABLE nodes AS SELECT 1 AS node, sha256('mine') AS secret_sha256; SELECT cluster.beat(1, 'mine', 1, 2, '{}')"
    assert "no such node, or its secret is another" in two.psql("-c", shadow, user="node").stderr


def test_a_beat_that_comes_behind_a_claim_is_refused(two):
    with Session(two) as claimer, Session(two) as node:
        claimer.say("BEGIN")
        assert claimer.ask("SELECT cluster.claim(2, repeat('2', 32), 1, 1, 1, 1, cluster.server())") == "t"
        node.say("SELECT is_taken FROM cluster.beat(1, repeat('1', 32), 1, 2, '{}')")
        wait_for(lambda: two.ask("SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'") == "1", 20, "a beat that waits")
        claimer.say("COMMIT")
        assert node.hear() == "f"


def test_a_claim_that_comes_behind_a_beat_does_nothing(two):
    with Session(two) as node, Session(two) as claimer:
        node.say("BEGIN")
        assert node.ask("SELECT is_taken FROM cluster.beat(1, repeat('1', 32), 1, 2, '{}')") == "t"
        claimer.say("SELECT cluster.claim(2, repeat('2', 32), 1, 1, 1, 1, cluster.server())")
        wait_for(lambda: two.ask("SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'") == "1", 20, "a claim that waits")
        node.say("COMMIT")
        assert claimer.hear() == "f"
    assert two.ask("SELECT epoch FROM cluster.beats WHERE node = 1") == "1"


def test_a_beat_does_not_wait_for_a_lease(two):
    with Session(two) as node:
        node.say("BEGIN")
        assert node.ask("SELECT cluster.lease(1, repeat('1', 32), 1, 'p', 'memory', 1, 5, 5)") == "5"
        assert two.ask("SET lock_timeout = '5s'; SELECT is_taken FROM cluster.beat(1, repeat('1', 32), 1, 2, '{}')") == "t"
        node.say("COMMIT")


def test_many_at_once_lease_no_more_than_the_limit(two):
    def take(n):
        calls = "".join(f"SELECT cluster.lease({n % 2 + 1}, repeat('{n % 2 + 1}', 32), 1, 'p', 'memory', {10 * i + n}, {(i * 7 + n) % 15}, {(i * 7 + n) % 15});\n" for i in range(1, 60))
        r = two.psql("-v", "ON_ERROR_STOP=1", "-f", "-", input=calls + "SELECT max(leased) FROM cluster.quotas;")
        assert r.returncode == 0, r.stderr
        return int(r.stdout.split()[-1])

    with ThreadPoolExecutor(4) as pool:
        assert max(pool.map(take, range(4))) <= 20
    assert two.ask("SELECT leased = (SELECT sum(amount) FROM cluster.leases) FROM cluster.quotas") == "t"


def test_a_tag_and_an_address_belong_to_one_node_and_secrets_are_long(two):
    for sql, said in (("add_node('c:1', repeat('3', 32), ARRAY[1])", "node_tags_pkey"), ("add_node('node1:7071', repeat('3', 32), ARRAY[5])", "nodes_address_key"),
                      ("add_node('c:1', 'short', ARRAY[5])", "32 are the least"), ("add_node('c:1', repeat('3', 32), ARRAY[1048576])", "node_tags_tag_check")):
        assert said in two.psql("-c", f"SELECT cluster.{sql}").stderr


def test_a_database_that_was_started_anew_is_another_server(two):
    before = two.ask("SELECT cluster.server()")
    assert two.ask("SELECT cluster.server()") == before
    two.stop()
    two.start()
    assert two.ask("SELECT cluster.server()") != before
    assert two.ask(f"SELECT cluster.claim(2, repeat('2', 32), 1, 1, 1, 1, '{before}')") == "f"


def jsonb(two, sql):
    return json.loads(two.ask("SELECT cluster." + sql))


def one(n):
    return f"{n}, repeat('{n}', 32), 1"


def test_a_name_and_an_idempotency_key_are_taken_together_or_not_at_all(two):
    take = "take_create({}, {}, 'p', '{}', {}, {}, '{}')"
    assert jsonb(two, take.format(one(1), 1, "sb_1", "'n'", "'k'", "d")) == {"result": "ok"}
    assert jsonb(two, take.format(one(1), 2, "sb_1", "'n'", "'k'", "d")) == {"result": "ok"}  # said again
    assert jsonb(two, take.format(one(1), 2, "sb_3", "'m'", "NULL", "")) == {"result": "stale"}  # a late one
    assert jsonb(two, take.format(one(2), 1, "sb_2", "'n'", "'j'", "d")) == {"result": "taken", "holder": "sb_1", "node": 1}
    assert jsonb(two, take.format(one(2), 2, "sb_2", "'m'", "'k'", "d")) == {"result": "done", "holder": "sb_1", "node": 1}
    assert jsonb(two, take.format(one(2), 3, "sb_2", "'m'", "'k'", "e")) == {"result": "other_request"}
    assert two.ask("SELECT string_agg(key, ',') FROM cluster.once") == "k"  # j was given back
    assert jsonb(two, f"free_create({one(2)}, 4, 'sb_1', true)") == {"result": "ok"}  # another's: nothing happens
    assert jsonb(two, f"taken({one(1)[:-3]}, '')")["sandboxes"] == ["sb_1"]
    assert jsonb(two, f"free_create({one(1)}, 3, 'sb_1', false)") == {"result": "ok"}
    assert jsonb(two, take.format(one(2), 5, "sb_2", "'n'", "NULL", "")) == {"result": "ok"}
    assert jsonb(two, take.format(one(1), 4, "sb_4", "'m'", "'k'", "d"))["result"] == "done"  # the key was kept


def test_a_node_tells_of_its_own_sandboxes_alone(two):
    rows = """'[{"id": "sb_1", "project_id": "p", "row": {"created_us": 5, "state": "running", "tags": {}}}]'"""
    assert jsonb(two, f"tell({one(1)}, true, {rows}, '[]')") == {"result": "ok"}
    assert jsonb(two, f"tell({one(2)}, true, {rows.replace('running', 'failed')}, '[]')") == {"result": "ok"}
    assert jsonb(two, f"tell({one(2)}, true, '[]', '[\"sb_1\"]')") == {"result": "ok"}
    assert two.ask("SELECT node, row->>'state' FROM cluster.sandboxes") == "1|running"
    assert jsonb(two, f"\"where\"({one(2)[:-3]}, 'sb_1')") == {"node": 1} and jsonb(two, f"\"where\"({one(2)[:-3]}, 'sb_2')") == {"node": None}
    assert [r["row"]["state"] for r in jsonb(two, f"list_others({one(2)[:-3]}, 'p', 10, '', 10, '{{}}')")["rows"]] == ["running"]
    assert jsonb(two, f"list_others({one(1)[:-3]}, 'p', 10, '', 10, '{{}}')")["rows"] == []


def test_changes_are_numbered_without_gaps_and_what_is_gone_stays_gone(two):
    put = "put_record({}, 'project', '{}', '{}', {}, '{{}}', {})"
    assert jsonb(two, put.format(one(1), "prj_1", "prj_1", "'n'", "false")) == {"result": "ok", "number": 1}
    assert jsonb(two, put.format(one(1), "prj_1", "prj_1", "'n'", "false")) == {"result": "ok", "number": 1}
    assert jsonb(two, put.format(one(2), "prj_2", "prj_2", "'n'", "false")) == {"result": "taken", "holder": "prj_1"}
    assert jsonb(two, f"put_record({one(2)}, 'key', 'key_1', 'prj_9', 'h', '{{}}', false)") == {"result": "no_project"}
    assert jsonb(two, f"put_record({one(2)}, 'key', 'key_1', 'prj_1', 'h', '{{}}', false)")["number"] == 2
    assert jsonb(two, put.format(one(2), "prj_1", "prj_1", "NULL", "true"))["number"] == 3
    assert jsonb(two, put.format(one(1), "prj_1", "prj_1", "'n'", "false"))["result"] == "gone"
    got = jsonb(two, f"changed({one(1)[:-3]}, 0)")
    assert got["number"] == got["newest"] == 3 and [(r["id"], r["is_gone"]) for r in got["records"]] == [("prj_1", True)]


def test_many_changes_come_in_parts_and_none_is_missed(two):
    for i in range(150):
        two.ask(f"SELECT cluster.put_record({one(1)}, 'project', 'prj_{i}', 'prj_{i}', 'n{i}', jsonb_build_object('x', repeat('y', 700)), false)")
    seen, after = [], 0
    while True:
        got = jsonb(two, f"changed({one(1)[:-3]}, {after})")
        seen += [r["id"] for r in got["records"]]
        assert got["number"] > after and len(json.dumps(got)) < 65000
        after = got["number"]
        if after == got["newest"]:
            break
    assert seen == [f"prj_{i}" for i in range(150)]


@pytest.fixture
def owning(two):
    """Node 1 has a sandbox that outlives it: with a name, an idempotency key, a row of the directory and two generations."""
    jsonb(two, f"put_record({one(1)}, 'project', 'prj_1', 'prj_1', 'n', '{{}}', false)")
    for i in (1, 2):
        assert jsonb(two, f"publish_snapshot({one(1)}, 'sn_{i}', 'prj_1', 'sb_1', 0, '{{\"files\": {{}}}}')")["result"] == "ok"
    assert jsonb(two, f"take_create({one(1)}, 1, 'prj_1', 'sb_1', 'n', 'k', 'd')") == {"result": "ok"}
    assert jsonb(two, f"tell_batch({one(1)}, 5, 5, '[{{\"id\": \"sb_1\", \"project_id\": \"prj_1\", \"row\": {{\"created_us\": 5}}}}]', '[]', true)")["result"] == "ok"
    assert own(two, 1, 0, "sn_1") == {"result": "ok", "term": 1}
    return two


def own(two, node, term, generation, sandbox="sb_1", project="prj_1", epoch=1, age_ms=0):
    return jsonb(two, f"own({node}, repeat('{node}', 32), {epoch}, '{sandbox}', '{project}', {term}, '{generation}', {age_ms}, 'sealed {generation}')")


def take(two, node, epoch=1, most=50):
    return jsonb(two, f"take_over({node}, repeat('{node}', 32), {epoch}, {most})")


def claim(two, by, of, epoch=1, number=1):
    assert two.ask(f"SELECT cluster.claim({by}, repeat('{by}', 32), {epoch}, {of}, 1, {number}, cluster.server())") == "t"


def test_only_its_owner_says_what_generation_a_sandbox_has(owning):
    assert own(owning, 1, 1, "sn_2", age_ms=5000) == {"result": "ok", "term": 1}
    assert own(owning, 2, 1, "sn_1") == {"result": "moved", "node": 1, "term": 1}
    assert own(owning, 2, 0, "sn_1") == {"result": "moved", "node": 1, "term": 1}
    assert own(owning, 1, 2, "sn_1")["result"] == "moved"  # of a term that is not its own
    assert own(owning, 1, 1, "sn_1", epoch=7) == {"result": "stale"}
    assert own(owning, 1, 1, "sn_9") == {"result": "no_snapshot"}  # that is not durable
    assert own(owning, 1, 0, "sn_1", sandbox="sb_2") == {"result": "no_snapshot"}  # that is another's
    assert own(owning, 1, 0, "sn_1", sandbox="sb_2", project="prj_9") == {"result": "no_project"}
    assert jsonb(owning, "owned_rows(1, repeat('1', 32), '')")["rows"] == [{"id": "sb_1", "term": 1, "generation": "sn_2"}]
    assert jsonb(owning, "owned_rows(2, repeat('2', 32), '')")["rows"] == [] and jsonb(owning, "owned_row(2, repeat('2', 32), 'sb_1')") == {"row": None}
    assert jsonb(owning, "owner_of(2, repeat('2', 32), 'sb_1')") == {"node": 1, "term": 1, "is_gone": False} and jsonb(owning, "owner_of(2, repeat('2', 32), 'sb_9')")["node"] is None
    assert owning.ask("SELECT clock_timestamp() - taken_at BETWEEN '5s' AND '60s' FROM cluster.owned") == "t"


def test_a_node_that_lives_loses_nothing_and_one_that_is_claimed_loses_all_at_once(owning):
    assert take(owning, 2) == {"result": "ok", "n": 0}
    claim(owning, 2, 1)
    assert own(owning, 1, 1, "sn_2") == {"result": "stale"}
    assert take(owning, 2, epoch=9) == {"result": "stale"}
    assert take(owning, 2) == {"result": "ok", "n": 1} and take(owning, 2) == {"result": "ok", "n": 0}
    row = jsonb(owning, "owned_row(2, repeat('2', 32), 'sb_1')")["row"]
    assert (row["term"], row["generation"], row["sealed"], row["from"]) == (2, "sn_1", "sealed sn_1", None) and row["lost_ms"] >= 0
    assert owning.ask("SELECT (SELECT node FROM cluster.names), (SELECT node FROM cluster.once), (SELECT node FROM cluster.sandboxes)") == "2|2|2"
    # It comes back, and may not go on with it.
    assert owning.ask("SELECT cluster.join_node(1, repeat('1', 32), 2, 2, false)") == "3"
    assert own(owning, 1, 1, "sn_2", epoch=3) == {"result": "moved", "node": 2, "term": 2}
    assert jsonb(owning, "disown(1, repeat('1', 32), 3, 'sb_1', 'prj_1')") == {"result": "moved", "node": 2}
    assert jsonb(owning, "moved_rows(1, repeat('1', 32), '')")["rows"] == [{"id": "sb_1", "node": 2}] and jsonb(owning, "moved_rows(2, repeat('2', 32), '')")["rows"] == []
    assert own(owning, 2, 2, "sn_2") == {"result": "ok", "term": 2}


def test_what_a_node_has_again_is_of_another_term(owning):
    claim(owning, 2, 1)
    assert take(owning, 2)["n"] == 1
    assert owning.ask("SELECT cluster.join_node(1, repeat('1', 32), 2, 2, false)") == "3"
    claim(owning, 1, 2, epoch=3)
    assert take(owning, 1, epoch=3)["n"] == 1
    assert own(owning, 1, 1, "sn_2", epoch=3) == {"result": "moved", "node": 1, "term": 3}
    assert own(owning, 1, 3, "sn_2", epoch=3) == {"result": "ok", "term": 3}


def test_a_node_that_is_back_before_anybody_has_taken_keeps_all(owning):
    claim(owning, 2, 1)
    assert owning.ask("SELECT cluster.join_node(1, repeat('1', 32), 2, 2, false)") == "3"
    assert take(owning, 2) == {"result": "ok", "n": 0}
    assert own(owning, 1, 1, "sn_2", epoch=3)["result"] == "ok"


def test_a_join_and_a_takeover_come_one_behind_the_other(owning):
    claim(owning, 2, 1)
    with Session(owning) as taker, Session(owning) as node:
        taker.say("BEGIN")
        assert json.loads(taker.ask("SELECT cluster.take_over(2, repeat('2', 32), 1, 50)"))["n"] == 1
        node.say("SELECT cluster.join_node(1, repeat('1', 32), 2, 2, false)")
        wait_for(lambda: owning.ask("SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'") == "1", 20, "a join that waits")
        taker.say("COMMIT")
        assert node.hear() == "3"
    assert jsonb(owning, "owned_rows(1, repeat('1', 32), '')")["rows"] == []


def test_a_deleted_sandbox_is_never_taken_and_late_words_do_not_bring_it_back(owning):
    disown = f"disown({one(1)}, 'sb_1', 'prj_1')"
    assert jsonb(owning, disown) == {"result": "ok"} and jsonb(owning, disown) == {"result": "ok"}
    assert own(owning, 1, 1, "sn_2") == {"result": "gone"} and own(owning, 1, 0, "sn_2") == {"result": "gone"}
    assert owning.ask("SELECT string_agg(id, ',') FROM cluster.snapshots WHERE gone_at IS NULL") == "sn_2"
    claim(owning, 2, 1)
    assert take(owning, 2) == {"result": "ok", "n": 0}


def test_what_a_removed_node_had_waits_for_another_owner(owning):
    assert owning.ask("SELECT cluster.lose(2, repeat('2', 32), 1, 1, 1, 1, cluster.server())") == "t"
    owning.ask("DELETE FROM cluster.nodes WHERE node = 1")
    assert take(owning, 2) == {"result": "ok", "n": 1}
    assert jsonb(owning, "owned_row(2, repeat('2', 32), 'sb_1')")["row"]["generation"] == "sn_1"
    assert owning.ask("SELECT count(*) FROM cluster.left_owners") == "0"
    # Nobody has its tag any more, so all others must know where it is.
    assert owning.ask("SELECT cluster.add_node('node3:7071', repeat('3', 32), ARRAY[3])") == "3"
    assert jsonb(owning, "moved_rows(3, repeat('3', 32), '')")["rows"] == [{"id": "sb_1", "node": 2}] and jsonb(owning, "moved_rows(2, repeat('2', 32), '')")["rows"] == []


def test_a_removed_project_owns_nothing(owning):
    jsonb(owning, f"put_record({one(1)}, 'project', 'prj_1', 'prj_1', NULL, '{{}}', true)")
    assert owning.ask("SELECT count(*) FROM cluster.owned") == "0"
