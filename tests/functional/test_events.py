# SPDX-License-Identifier: Apache-2.0
"""The event log: what happened, in one order that nobody can change unseen."""

import contextlib
import hashlib
import http.client
import json
import os
import re
import signal
import sqlite3
import threading

import pytest
from cloche import Client, errors
from harness.cli import Cli
from harness.daemon import Daemon, call, wait_for
from harness.schema import go_back

ZERO = "0" * 64


def lines(daemon, query="", key=None, headers=None):
    """The lines of GET /v1/events, as they came."""
    connection = http.client.HTTPConnection("127.0.0.1", daemon.port, timeout=60)
    connection.request("GET", f"/v1/events?{query}", headers={"X-API-Key": key or daemon.key, **(headers or {})})
    reply = connection.getresponse()
    data = reply.read().decode()
    connection.close()
    assert reply.status == 200, data
    return data.splitlines()


def entries(daemon, query="", key=None):
    return [json.loads(line) for line in lines(daemon, query, key)]


def check(export, anchors=None):
    """Holds a whole export against its own hashes, chain by chain; gives the last hash of each."""
    last = {} if anchors is None else dict(anchors)
    numbers = {}
    for line in export:
        entry = json.loads(line)
        chain = "former" if "from" not in entry else entry["project_id"]
        covered = line[: line.rindex(',"hash":')]
        assert hashlib.sha256(covered.encode()).hexdigest() == entry["hash"], entry["seq"]
        assert entry["prev"] == last.get(chain, ZERO), entry["seq"]
        assert numbers.get(chain) in (None, entry["seq"] - 1), entry["seq"]
        last[chain], numbers[chain] = entry["hash"], entry["seq"]
    return last


def head(daemon, query="", key=None):
    connection = http.client.HTTPConnection("127.0.0.1", daemon.port, timeout=60)
    connection.request("GET", f"/v1/events/head?{query}", headers={"X-API-Key": key or daemon.key})
    return json.loads(connection.getresponse().read())


def heads(daemon):
    """The newest hash of each chain."""
    told = head(daemon, "all=1")
    return {c["project_id"]: c["head"]["hash"] for c in told["chains"] if c["count"] > 0 and not c["audit"]}


def tenant_cli(daemon, key):
    cli = Cli(daemon)
    cli.env["CLOCHE_API_KEY"] = key
    return cli


def alter(daemon, *sql):
    """What somebody does who has got at the database: the daemon is stopped meanwhile."""
    assert daemon.stop() == 0
    db = sqlite3.connect(daemon.data / "gateway" / "state.db", isolation_level=None)
    for statement in sql:
        db.execute(statement)
    db.close()
    daemon.start()


class Follower(threading.Thread):
    """Reads the log as server-sent events, and comes back by Last-Event-ID until it has seen `until`."""

    def __init__(self, daemon, until):
        super().__init__(daemon=True)
        self.daemon_, self.until, self.seen, self.reads = daemon, until, [], 0
        self.start()

    def read(self):
        connection = http.client.HTTPConnection("127.0.0.1", self.daemon_.port, timeout=60)
        headers = {"X-API-Key": self.daemon_.key, "Accept": "text/event-stream"}
        headers["Last-Event-ID"] = str(self.seen[-1]["place"] if self.seen else 0)
        connection.request("GET", "/v1/events?follow=1&all=1", headers=headers)
        reply = connection.getresponse()
        self.reads += 1
        for line in reply:
            if line.startswith(b"data: "):
                self.seen.append(json.loads(line[6:]))
                if self.until(self.seen[-1]):
                    return True
        return False

    def run(self):
        while True:
            try:
                if self.read():
                    return
            except (OSError, http.client.HTTPException):
                pass


@pytest.fixture
def own():
    daemon = Daemon("--default-memory", "128MiB", "--events-rate", "5").start()
    yield daemon
    daemon.stop()
    daemon.remove()


def test_a_life_is_told_in_order_with_causes_and_who_asked(daemon, client, sandbox):
    connection = http.client.HTTPConnection("127.0.0.1", daemon.port, timeout=60)
    body = json.dumps({"argv": ["sh", "-c", "exit 3"]})
    headers = {"X-API-Key": daemon.key, "X-Request-Id": "asked-by-me.1", "Content-Type": "application/json"}
    connection.request("POST", f"/v1/sandboxes/{sandbox.id}/execs", body=body, headers=headers)
    reply = connection.getresponse()
    assert (reply.status, reply.getheader("X-Request-Id")) == (200, "asked-by-me.1")
    exec_id = json.loads(reply.read())["exec"]["id"]
    sandbox.run_code("1+1")
    sandbox.delete()
    told = entries(daemon, f"sandbox_id={sandbox.id}")
    assert [e["type"] for e in told] == [
        "sandbox.created", "sandbox.running", "exec.started", "exec.exited", "context.created",
        "sandbox.stopping", "context.ended", "sandbox.ended",
    ]
    by_type = {e["type"]: e for e in told}
    assert by_type["exec.started"]["request_id"] == "asked-by-me.1"
    assert by_type["exec.started"]["key_id"].startswith("key_")
    assert (by_type["exec.exited"]["exec_id"], by_type["exec.exited"]["data"]["exit_code"]) == (exec_id, 3)
    assert by_type["context.ended"]["data"]["calls"] == 1
    assert by_type["sandbox.ended"]["data"]["cause"] == "deleted"


def test_who_changes_a_sandbox_leaves_a_word_of_what(daemon, sandbox):
    sandbox.update(tags={"team": "blue"})
    sandbox.expose(9000)
    sandbox.close_port(9000)
    sandbox.set_network("allow-all")
    told = entries(daemon, f"sandbox_id={sandbox.id}&type=sandbox.changed")
    assert [e["data"]["what"] for e in told] == ["settings", "ports", "ports", "network"]


def test_who_follows_is_told_figures_in_between(daemon, client, sandbox):
    told = client.events(after=head(daemon)["head"]["seq"], follow=True, figures=True)
    figures = next(told)
    assert figures["type"] == "figures" and figures["figures"]["states"]["running"] >= 1
    sandbox.update(tags={"team": "blue"})
    entry = next(e for e in told if e["type"] != "figures")
    assert (entry["type"], entry["sandbox_id"]) == ("sandbox.changed", sandbox.id)
    told.close()
    with pytest.raises(errors.InvalidField, match="follow"):
        list(client.events(figures=True))


def test_no_argument_environment_or_key_is_in_the_log(daemon, client, engine, template):
    secret = "hunter2-" + os.urandom(8).hex()
    with client.create(engine=engine, template=template, env={"TOKEN": secret}) as box:
        box.run(["echo", secret])
        box.run(f"echo {secret}")
        box.run_code(f"'{secret}'")
        told = "\n".join(lines(daemon, f"sandbox_id={box.id}"))
    assert "exec.exited" in told
    assert secret not in told and daemon.key not in "\n".join(lines(daemon, "all=1"))


def test_a_key_sees_its_own_projects_events_only(daemon, client, sandbox, project_keys):
    assert entries(daemon, f"sandbox_id={sandbox.id}", project_keys["read"])
    other = project_keys["other"]
    assert entries(daemon, f"sandbox_id={sandbox.id}", other) == []
    assert len({e["project_id"] for e in entries(daemon, "", other)}) == 1
    assert sandbox.id not in json.dumps(entries(daemon, "", other))
    with Client(daemon.url, other) as stranger, stranger.create() as theirs:
        assert [e["sandbox_id"] for e in entries(daemon, "type=sandbox.created", other)][-1] == theirs.id
        assert theirs.id not in json.dumps(entries(daemon))
        assert theirs.id in json.dumps(entries(daemon, "all=1"))  # the positive control
    connection = http.client.HTTPConnection("127.0.0.1", daemon.port, timeout=60)
    for key, status in ((other, 403), (project_keys["write"], 403), (project_keys["admin"], 200)):
        connection.request("HEAD", "/v1/events?all=1", headers={"X-API-Key": key})
        reply = connection.getresponse()
        reply.read()
        assert reply.status == status


def test_a_follower_misses_and_repeats_nothing_when_the_gateway_is_killed(own):
    with Client(own.url, own.key) as client:
        last = []
        follower = Follower(own, lambda e: e["type"] == "sandbox.ended" and last and e["sandbox_id"] == last[0])
        for round_ in range(3):
            with client.create() as box:
                box.run(["true"])
            wait_for(lambda: follower.seen and follower.seen[-1]["sandbox_id"] == box.id, 20, "the follower")
            pid = own.gateway_pid
            os.kill(pid, signal.SIGKILL)
            wait_for(lambda: own._part("gateway") not in (None, pid), 30, "a new gateway")
        box = wait_for(lambda: client.create(), 10, "a sandbox")
        last.append(box.id)
        box.delete()
        follower.join(30)
    assert not follower.is_alive() and follower.reads >= 4
    places = [e["place"] for e in follower.seen]
    assert places == list(range(1, len(places) + 1))
    assert [e for e in follower.seen if e["type"] == "daemon.started"][1:]
    chain = lines(own, "all=1")
    assert [json.loads(line) for line in chain][: len(places)] == follower.seen
    assert check(chain) == heads(own)


def test_T08_a_tenants_numbers_do_not_move_with_what_another_does(own):
    with Client(own.url, own.key) as client:
        client.create_project("quiet")
        key = client.create_key("k", scope="admin", project="quiet")["secret"]
        before, of_all = head(own, key=key), head(own, "all=1")
        with client.create() as box:
            for _ in range(5):
                box.run(["true"])
        client.create_key("more")
        assert head(own, key=key) == before
        assert call(own, "POST", "/v1/webhooks", {"url": "https://example.com/"}, key=key)[1]["webhook"]["last_seq"] == before["head"]["seq"]
        assert head(own, "all=1")["place"] >= of_all["place"] + 14  # the positive control
        with Client(own.url, key) as tenant:
            tenant.create(name="mine").delete()
        told = lines(own, key=key)
        assert [json.loads(line)["seq"] for line in told] == list(range(1, len(told) + 1))
        assert all("place" not in json.loads(line) for line in told)
        assert list(check(told).values()) == [head(own, key=key)["head"]["hash"]]
        stream = lines(own, "after=2", key=key, headers={"Accept": "text/event-stream"})
        assert [line for line in stream if line.startswith("id: ")] == [f"id: {n}" for n in range(3, len(told) + 1)]


def make_former(state):
    """Makes of the log what a cloche of schema version 16 had: one chain of all entries, with numbers of the host."""
    with contextlib.closing(sqlite3.connect(state)) as db, db:
        (boot_id,) = db.execute("SELECT boot_id FROM event_chains WHERE project_id = '' AND boot_id IS NOT NULL").fetchone()
        rows = db.execute("SELECT place, at_us, type, project_id, sandbox_id, exec_id, key_id, request_id, data FROM events ORDER BY place").fetchall()
        go_back(db, 16)
        db.execute("DELETE FROM event_chain")
        names = ("seq", "at_us", "type", "project_id", "sandbox_id", "exec_id", "key_id", "request_id")
        prev, size = ZERO, 0
        for *fields, data in rows:
            entry = {name: value if value != "" else None for name, value in zip(names, fields)}
            covered = json.dumps(entry, separators=(",", ":"), ensure_ascii=False)[:-1] + f',"data":{data},"prev":"{prev}"'
            hash_ = hashlib.sha256(covered.encode()).hexdigest()
            db.execute("UPDATE events SET prev = ?, hash = ? WHERE seq = ?", (bytes.fromhex(prev), bytes.fromhex(hash_), entry["seq"]))
            prev, size = hash_, size + len(covered) + 76
        db.execute("INSERT INTO event_chain VALUES (1, 0, ?, ?, ?, ?, ?, ?)", (bytes(32), rows[-1][0], bytes.fromhex(prev), len(rows), size, boot_id))
    return rows[-1][0], prev


def test_a_log_of_an_older_cloche_stays_as_it_was_and_each_chain_goes_on_behind_it(tmp_path):
    daemon = Daemon("--default-memory", "128MiB").start()
    try:
        with Client(daemon.url, daemon.key) as client:
            client.create_project("tenant")
            key = client.create_key("k", scope="write", project="tenant")["secret"]
            with client.create() as box:
                box.run(["true"])
        assert daemon.stop() == 0
        last, hash_ = make_former(daemon.data / "gateway" / "state.db")
        daemon.start()
        of_all = head(daemon, "all=1")
        assert of_all["former"] == {"head": {"seq": last, "hash": hash_}, "anchor": {"seq": 0, "hash": ZERO}, "count": last}
        with Client(daemon.url, key) as tenant:
            tenant.create().delete()
        theirs = entries(daemon, key=key)
        former = [e for e in theirs if "from" not in e]
        assert [e["type"] for e in former] == ["project.created", "key.created"]
        assert [e["seq"] for e in theirs if "from" in e] == list(range(last + 1, last + 1 + len(theirs) - len(former)))
        assert theirs[len(former)]["prev"] == hash_
        assert entries(daemon, f"after={last}", key) == theirs[len(former):]  # a cursor from before is good
        Client(daemon.url, daemon.key).create_project("new")
        assert [e["seq"] for e in entries(daemon, "all=1&type=project.created")][-1] == 1
        cli, export = Cli(daemon), tmp_path / "all.jsonl"
        for words in (["events", "verify", "--all"], ["events", "verify"]):
            assert "as they were written" in cli.ok(*words)
        assert "as they were written" in tenant_cli(daemon, key).ok("events", "verify")
        export.write_text(cli.ok("events", "--all", "--json"))
        cli.ok("events", "verify", str(export))
        whole = export.read_text().splitlines()
        export.write_text("\n".join(whole[:2] + whole[3:]) + "\n")
        status, _, err = cli("events", "verify", str(export))
        assert status == 125 and "entry 4 does not follow entry 2" in err
        alter(daemon, "DELETE FROM events WHERE place = 3")
        status, _, err = cli("events", "verify", "--all")
        assert status == 125 and "entry 4 does not follow entry 2" in err
        # They go by their age as others do, and what is left can be checked.
        assert daemon.stop() == 0
        daemon.options += ["--events-age", "1s"]
        daemon.start()
        gone = wait_for(lambda: (h := head(daemon, "all=1"))["former"]["count"] == 0 and h, 10, "retention")
        assert gone["former"]["anchor"] == {"seq": last, "hash": hash_}
        assert cli("events", "verify", "--all")[0] == 0
    finally:
        daemon.stop()
        daemon.remove()


def test_an_export_checks_out_and_an_altered_row_is_found():
    daemon = Daemon("--default-memory", "128MiB").start()
    try:
        with Client(daemon.url, daemon.key) as client, client.create() as box:
            box.run(["true"])
        assert check(lines(daemon, "all=1")) == heads(daemon)
        assert list(check(lines(daemon)).values()) == [head(daemon)["head"]["hash"]]
        alter(daemon, "UPDATE events SET data = '{}' WHERE seq = 3 AND project_id <> ''")
        with pytest.raises(AssertionError, match="^3"):
            check(lines(daemon))
        with pytest.raises(AssertionError, match="^3"):
            check(lines(daemon, "all=1"))
    finally:
        daemon.stop()
        daemon.remove()


def test_the_command_line_checks_an_export_and_a_daemons_log(own, tmp_path):
    cli = Cli(own)
    with Client(own.url, own.key) as client, client.create() as box:
        box.run(["true"])
        shown = cli.ok("events", "--sandbox", box.id)
        assert re.search(rf" exec\.exited {box.id} ex_\w+ .*exit_code=0", shown)
    assert "entries are as they were written" in cli.ok("events", "verify")
    export = tmp_path / "export.jsonl"
    export.write_text(cli.ok("events", "--all", "--json"))
    assert "of 2 chains are as they were written" in cli.ok("events", "verify", str(export))
    assert "of 2 chains are as they were written" in cli.ok("events", "verify", "--all")
    export.write_text(cli.ok("events", "--json"))
    newest = json.loads(cli.ok("events", "verify", str(export), "--json"))["head"]
    assert newest == head(own)["head"]["hash"]
    whole = export.read_text()
    lines_ = whole.splitlines()
    for wrong, message in (
        (whole.replace('"sandbox.created"', '"sandbox.running"'), "was altered"),
        ("\n".join(lines_[:2] + lines_[3:]) + "\n", "does not follow"),
        ("\n".join(lines_[:-1]) + "\n", "the last entry's hash is"),
        (whole + "{}\n", "not an entry"),
    ):
        export.write_text(wrong)
        status, _, err = cli("events", "verify", "--head", newest, str(export))
        assert status == 125 and message in err, (message, err)


@pytest.mark.slow
def test_the_command_line_finds_an_altered_row_and_a_cut_off_end():
    theirs = "project_id = (SELECT id FROM projects WHERE name = 'p')"
    for sql, message in (
        ([f"UPDATE events SET type = 'key.revoked' WHERE seq = 2 AND {theirs}"], "entry 2 was altered"),
        ([f"DELETE FROM events WHERE seq = 3 AND {theirs}"], "entry 4 does not follow entry 2"),
        ([f"UPDATE events SET seq = {n} WHERE seq = {m} AND {theirs}" for m, n in ((2, 9), (3, 2), (9, 3))], "entry [23] was altered"),
        ([f"DELETE FROM events WHERE {theirs} AND seq = (SELECT max(seq) FROM events WHERE {theirs})"], "does not follow|end is missing"),
        ([f"DELETE FROM events WHERE seq = 1 AND {theirs}"], "beginning is missing"),
    ):
        daemon = Daemon().start()
        try:
            with Client(daemon.url, daemon.key) as client:
                client.create_project("p")
                key = client.create_key("k", scope="read", project="p")["secret"]
                for i in range(3):
                    client.create_key(f"k{i}", project="p")
            cli, tenant = Cli(daemon), tenant_cli(daemon, key)
            for good in (tenant("events", "verify"), cli("events", "verify", "--all")):
                assert good[0] == 0, good
            alter(daemon, *sql)
            for status, _, err in (tenant("events", "verify"), cli("events", "verify", "--all")):
                assert status == 125 and re.search(message, err), err
            assert cli("events", "verify")[0] == 0  # another project's chain is whole
        finally:
            daemon.stop()
            daemon.remove()


def test_the_sdk_follows_over_a_restart(own):
    with Client(own.url, own.key) as client:
        seen = []
        for entry in client.events(follow=True, all=True):
            seen.append(entry["place"])
            if entry["type"] == "daemon.started" and len(seen) == 1:
                os.kill(own.gateway_pid, signal.SIGKILL)
            elif entry["type"] == "daemon.started":
                break
        assert seen == list(range(1, len(seen) + 1))
        assert [e["place"] for e in client.events(type="daemon.started", all=True)] == [1, seen[-1]]


def test_a_flood_from_one_sandbox_is_told_as_a_number(own):
    with Client(own.url, own.key) as client, client.create() as box:
        for _ in range(60):
            box.run(["true"])
        box.delete()
        told = entries(own, f"sandbox_id={box.id}")
        suppressed = sum(e["data"]["count"] for e in told if e["type"] == "events.suppressed")
        execs = sum(e["type"].startswith("exec.") for e in told)
    assert suppressed > 0 and execs + suppressed == 120
    assert told[-1]["type"] == "sandbox.ended"


def test_what_is_kept_is_bounded_and_a_place_that_is_gone_is_a_gap():
    daemon = Daemon("--events-count", "100").start()
    try:
        with Client(daemon.url, daemon.key) as client:
            client.create_project("few")
            key = client.create_key("k", scope="read", project="few")["secret"]
            for i in range(150):
                client.create_key(f"k{i}")
            of_all = wait_for(lambda: (h := head(daemon, "all=1"))["count"] <= 100 and h, 10, "retention")
        now = head(daemon)
        told = lines(daemon, "after=1")
        assert json.loads(told[0]) == {"type": "gap", "after": 1, "upto": now["anchor"]["seq"]}
        assert len(told) - 1 == now["count"]
        project = json.loads(told[1])["project_id"]
        assert check(told[1:], {project: now["anchor"]["hash"]}) == {project: now["head"]["hash"]}
        told = lines(daemon, "all=1&after=1")
        assert json.loads(told[0]) == {"type": "gap", "after": 1, "upto": of_all["removed_place"]}
        assert check(told[1:], {c["project_id"]: c["anchor"]["hash"] for c in of_all["chains"] if not c["audit"]} | {None: json.loads(told[1])["prev"]})
        # Who caused few has all of them still: nobody is pushed out by a neighbour.
        assert [e["type"] for e in entries(daemon, key=key)] == ["project.created", "key.created"]
        assert Cli(daemon)("events", "verify", "--all")[0] == 0
    finally:
        daemon.stop()
        daemon.remove()


def test_types_places_and_limits_select(daemon, client, sandbox):
    for _ in range(3):
        sandbox.run(["true"])
    query = f"sandbox_id={sandbox.id}"
    assert {e["type"] for e in entries(daemon, query + "&type=exec")} == {"exec.started", "exec.exited"}
    assert len(entries(daemon, query + "&type=exec.exited")) == 3
    first = entries(daemon, query + "&limit=2")
    assert len(first) == 2
    rest = entries(daemon, f"{query}&after={first[-1]['seq']}")
    assert [e["seq"] for e in first + rest] == [e["seq"] for e in entries(daemon, query)]


def test_every_line_of_a_request_has_its_id_and_no_secret(daemon, client, sandbox):
    own = Daemon("--log-level", "debug").start()
    try:
        connection = http.client.HTTPConnection("127.0.0.1", own.port, timeout=60)
        headers = {"X-API-Key": own.key, "X-Request-Id": "find-me"}
        connection.request("GET", "/v1/sandboxes?limit=7", headers=headers)
        assert connection.getresponse().read()
        connection.request("GET", "/v1/sandboxes", headers={"X-API-Key": "clo_" + "a" * 40, "X-Request-Id": "bad\tid"})
        reply = connection.getresponse()
        assert reply.getheader("X-Request-Id").startswith("req_")
        assert json.loads(reply.read())["error"]["request_id"] == reply.getheader("X-Request-Id")
        line = wait_for(lambda: [e for e in own.log_of("http.request") if e["request"] == "find-me"], 5, "a line")[0]
        assert (line["method"], line["path"], line["status"]) == ("GET", "/v1/sandboxes", 200) and line["us"] > 0
        assert own.key not in own.log() and "a" * 40 not in own.log()
        refused = [e for e in entries(own, "all=1") if e["type"] == "key.refused"]
        assert refused[-1]["request_id"] == reply.getheader("X-Request-Id")
    finally:
        own.stop()
        own.remove()
