# SPDX-License-Identifier: Apache-2.0
"""The audit log: who has read content or changed something, from where, whatever the wire."""

import base64
import json
import os
import sqlite3
import subprocess

import pytest
from cloche import Client
from harness.cli import CLOCHE, Cli
from harness.daemon import Daemon, call, wait_for
from harness.mcp import Session


def audit(daemon, query="", key=None):
    status, data = call(daemon, "GET", f"/v1/events?audit=1&{query}", key=key)
    assert status == 200, data
    return [json.loads(line) for line in data.splitlines()]


def told(daemon, sandbox_id, n, key=None):
    """What the log has of a sandbox, once there are so many entries: they are written a little later than their replies."""
    return wait_for(lambda: len(e := audit(daemon, f"sandbox_id={sandbox_id}", key)) >= n and e, 10, f"{n} entries")


def key_id(daemon, secret):
    return call(daemon, "GET", "/v1/login", key=secret)[1]["key"]["id"]


def test_reads_and_writes_inside_are_told_with_who_what_and_from_where(daemon, sandbox, project_keys):
    at, key = f"/v1/sandboxes/{sandbox.id}", project_keys["write"]
    sandbox.run_code("1")  # makes the context, which is an event
    who = {"User-Agent": "audited/1"}
    sent = [
        ("PUT", "/files?path=/tmp/a", b"abc", 200),
        ("GET", "/files?path=/tmp/a", None, 200),
        ("GET", "/files?path=/tmp/none", None, 404),
        ("POST", "/files/mkdir", {"path": "/tmp/d"}, 200),
        ("GET", "/files/tar?path=/tmp/d", None, 200),
        ("POST", "/code", {"code": "1"}, 200),
        ("DELETE", "/files?path=/tmp/a", None, 200),
    ]
    for method, path, body, status in sent:
        assert call(daemon, method, at + path, body, key=key, headers=who)[0] == status
    entries = told(daemon, sandbox.id, len(sent))
    assert [(e["data"]["method"], e["data"]["status"]) for e in entries] == [(method, status) for method, _, _, status in sent]
    assert [e["type"] for e in entries] == ["api." + ("read" if m == "GET" else "write") for m, *_ in sent]
    assert [e["data"].get("path") for e in entries] == ["/tmp/a", "/tmp/a", "/tmp/none", "/tmp/d", "/tmp/d", None, "/tmp/a"]
    assert {(e["from"], e["agent"], e["sandbox_id"]) for e in entries} == {("127.0.0.1", "audited/1", sandbox.id)}
    assert len({e["key_id"] for e in entries}) == 1 and all(e["request_id"] for e in entries)
    assert entries[1]["data"]["route"] == "/v1/sandboxes/{id}/files" and entries[1]["data"]["bytes"] > 3


def test_what_is_an_event_is_told_there_and_not_once_more(daemon, client, sandbox):
    sandbox.run(["true"])
    (started,) = client.events(sandbox=sandbox.id, type="exec.started")
    assert started["key_id"] and started["from"]
    call(daemon, "GET", f"/v1/sandboxes/{sandbox.id}/execs/{started['exec_id']}/output")
    call(daemon, "GET", f"/v1/sandboxes/{sandbox.id}")  # no content
    call(daemon, "PUT", f"/v1/sandboxes/{sandbox.id}/files?path=/tmp/x", b"1")
    entries = told(daemon, sandbox.id, 2)
    assert [(e["type"], e["exec_id"]) for e in entries] == [("api.read", started["exec_id"]), ("api.write", None)]
    assert not [e for e in client.events(sandbox=sandbox.id) if e["type"].startswith("api.")]


def test_the_wire_of_e2b_and_tools_of_mcp_are_told_too(daemon):
    status, made = call(daemon, "POST", "/v2/sandboxes", {"templateID": "base", "secure": True}, key="", headers={"X-API-Key": daemon.key})
    assert status == 201, made
    fields = {"E2b-Sandbox-Id": made["sandboxID"], "E2b-Sandbox-Port": "49983", "X-Access-Token": made["envdAccessToken"]}
    assert call(daemon, "GET", "/files?path=/etc/passwd", key="", headers=fields)[0] == 200
    (entry,) = told(daemon, f"sb_{made['sandboxID']}", 1)
    assert (entry["type"], entry["data"]["path"], entry["data"]["status"]) == ("api.read", "/etc/passwd", 200) and entry["key_id"]
    call(daemon, "DELETE", f"/sandboxes/{made['sandboxID']}", key="", headers={"X-API-Key": daemon.key})
    with Session(daemon.url, daemon.key) as session:
        session.call("exec", command="true")
        session.call("write_file", path="/tmp/told", content="x")
        entry = wait_for(lambda: [e for e in audit(daemon) if e["data"].get("tool") == "write_file" and e["data"]["path"] == "/tmp/told"], 10, "the tool")[-1]
    assert (entry["type"], entry["data"]["path"], entry["data"]["route"]) == ("api.write", "/tmp/told", "/mcp")


def test_what_a_call_does_after_it_had_to_wait_is_told_as_its_callers(daemon, client, make_sandbox):
    sandbox = make_sandbox(idle_timeout=0.3, on_idle="pause")
    wait_for(lambda: sandbox.refresh().state == "paused", what="the pause")
    assert call(daemon, "POST", f"/v1/sandboxes/{sandbox.id}/execs", {"argv": ["true"]}, headers={"User-Agent": "waited/1"})[0] == 200
    (started,) = client.events(sandbox=sandbox.id, type="exec.started")
    assert started["key_id"] and started["request_id"] and (started["from"], started["agent"]) == ("127.0.0.1", "waited/1")


def test_the_first_tool_of_a_session_which_makes_its_sandbox_is_told_itself(daemon, client):
    with Session(daemon.url, daemon.key) as session:
        session.http.headers["User-Agent"] = "first/1"
        session.call("write_file", path="/tmp/first", content="x")
        entry = wait_for(lambda: [e for e in audit(daemon) if e["agent"] == "first/1" and e["type"] == "api.write"], 10, "the tool")[0]
        assert entry["data"]["path"] == "/tmp/first" and entry["sandbox_id"] and entry["key_id"]
    with Session(daemon.url, daemon.key) as session:
        session.http.headers["User-Agent"] = "first/2"
        session.call("exec", command="true")
        assert [e["key_id"] for e in client.events(type="exec.started") if e["agent"] == "first/2"] == [entry["key_id"]]


def test_what_the_path_named_is_told_and_a_token_is_not(daemon, client, sandbox):
    snapshot = sandbox.snapshot()
    assert call(daemon, "GET", f"/v1/snapshots/{snapshot.id}/archive")[0] == 200
    client.delete_snapshot(snapshot.id)
    token = call(daemon, "GET", f"/templates/x/files/{'0b' * 32}")[1]["url"].rpartition("/")[2]
    assert call(daemon, "PUT", f"/templatefiles/{token}", b"x", key="")[0] < 500

    def of(route, kind, params):  # others have used the routes before, and an entry comes a little later than its reply
        found = lambda e: (e["data"].get("route"), e["type"], e["data"].get("params")) == (route, kind, params)  # noqa: E731
        return wait_for(lambda: [e for e in audit(daemon) if found(e)], 10, route)[-1]
    of("/v1/snapshots/{snapshot}/archive", "api.read", {"snapshot": snapshot.id})
    write = of("/templatefiles/{token}", "api.write", {})
    assert write["key_id"]
    assert token not in json.dumps(audit(daemon))


def test_a_project_sees_its_own_audit_log_and_only_an_admin_of_default_sees_all(daemon, sandbox, project_keys):
    call(daemon, "PUT", f"/v1/sandboxes/{sandbox.id}/files?path=/tmp/mine", b"1")
    told(daemon, sandbox.id, 1)
    assert sandbox.id not in json.dumps(audit(daemon, key=project_keys["other"]))
    for key, status in (("other", 403), ("write", 403), ("admin", 200)):
        assert call(daemon, "GET", "/v1/events?audit=1&all=1", key=project_keys[key])[0] == status
    assert sandbox.id in json.dumps(audit(daemon, "all=1"))


def test_the_audit_log_can_be_checked_and_an_altered_entry_is_found():
    daemon = Daemon().start()
    try:
        cli = Cli(daemon)
        for i in range(40):
            assert call(daemon, "POST", "/v1/webhooks", {"url": "bad"})[0] == 400
        wait_for(lambda: len(audit(daemon)) == 40, 10, "the entries")
        for words in (["--audit"], ["--audit", "--all"]):
            assert "as they were written" in cli.ok("events", "verify", *words)
        assert "api.write" in cli.ok("events", "--audit")
        assert daemon.stop() == 0
        db = sqlite3.connect(daemon.data / "gateway" / "state.db", isolation_level=None)
        db.execute("UPDATE events SET key_id = 'key_other' WHERE seq = 7 AND type = 'api.write'")
        db.close()
        daemon.start()
        for words in (["--audit"], ["--audit", "--all"]):
            status, _, err = cli("events", "verify", *words)
            assert status == 125 and "entry 7 was altered" in err
        assert cli("events", "verify", "--all")[0] == 0
    finally:
        daemon.stop()
        daemon.remove()


@pytest.mark.parametrize("query", ["audit=maybe", "audit=1&figures=1"])
def test_a_wish_that_makes_no_sense_is_refused(daemon, query):
    assert call(daemon, "GET", f"/v1/events?{query}")[0] == 400


@pytest.fixture(scope="module")
def sealed(tmp_path_factory):
    """A daemon with two projects that have done something, its exports, and its public key in a file."""
    daemon, at = Daemon().start(), tmp_path_factory.mktemp("sealed")
    try:
        with Client(daemon.url, daemon.key) as client:
            client.create_project("tenant")
            key = client.create_key("k", scope="admin", project="tenant")["secret"]
            for i in range(5):
                client.create_key(f"k{i}", project="tenant")
        for _ in range(5):
            assert call(daemon, "POST", "/v1/webhooks", {"url": "bad"}, key=key)[0] == 400
        wait_for(lambda: len(audit(daemon, key=key)) == 5, 10, "the audit log")
        cli, tenant = Cli(daemon), Cli(daemon)
        tenant.env["CLOCHE_API_KEY"] = key
        (at / "pub").write_text(cli.ok("audit", "key"))
        tenant.ok("audit", "export", str(at / "own"))
        cli.ok("audit", "export", "--all", str(at / "all"))
        cli.ok("audit", "export", "--project", "tenant", str(at / "named"))
        (at / "part").write_text(tenant.ok("audit", "export", "--since", "1ms", "-"))
        yield daemon, at, tenant
    finally:
        daemon.stop()
        daemon.remove()


def verify(key, file):
    """As on another machine: without any daemon."""
    done = subprocess.run([CLOCHE, "audit", "verify", "--key", str(key), str(file)], env={"HOME": "/nonexistent", "CLOCHE_URL": "http://127.0.0.1:9"},
                          capture_output=True, text=True, timeout=60)
    return done.returncode, done.stdout + done.stderr


def test_an_export_is_sealed_and_can_be_checked_without_a_daemon(sealed):
    _, at, _ = sealed
    for name, chains in (("own", 2), ("named", 2), ("all", 3), ("part", 2)):
        status, said = verify(at / "pub", at / name)
        assert status == 0 and f"of {chains} chains are as they were written, sealed 20" in said, (name, said)
    entries = [json.loads(line) for line in (at / "own").read_text().splitlines()]
    assert [e["type"] for e in entries if "type" in e] == ["project.created"] + 6 * ["key.created"] + 5 * ["api.write"]
    assert "place" not in (at / "own").read_text()
    assert "a part was exported" in verify(at / "pub", at / "part")[1]
    assert len((at / "part").read_text().splitlines()) == 4  # the last of each chain, and two seals


def test_a_seal_is_a_plain_signature_of_ed25519(sealed, tmp_path):
    _, at, _ = sealed
    seal = json.loads((at / "own").read_text().splitlines()[-1])
    (tmp_path / "text").write_text("cloche seal 1\n" + seal["statement"])
    (tmp_path / "sig").write_bytes(base64.b64decode(seal["signature"]))
    words = ["openssl", "pkeyutl", "-verify", "-pubin", "-inkey", str(at / "pub"), "-rawin", "-in", str(tmp_path / "text"), "-sigfile", str(tmp_path / "sig")]
    assert subprocess.run(words, capture_output=True).returncode == 0
    (tmp_path / "text").write_text("cloche seal 1\n" + seal["statement"].replace('"count":5', '"count":4'))
    assert subprocess.run(words, capture_output=True).returncode != 0


def test_an_export_that_was_changed_is_found_out(sealed, tmp_path):
    _, at, _ = sealed
    lines = (at / "own").read_text().splitlines()
    wrong = {
        "entry 2 was altered": [lines[0], lines[1].replace("key.created", "key.revoked"), *lines[2:]],
        "entry 4 does not follow entry 2": [*lines[:2], *lines[3:]],
        "entry 3 does not follow entry 1": [lines[0], lines[2], lines[1], *lines[3:]],
        "its end is missing": [*lines[:6], *lines[7:]],
        "all of its entries are missing": [line for line in lines if '"api.write"' not in line],
        "a chain has no seal": lines[:-1],
        "the seal is not of this key, or was altered": [*lines[:-1], lines[-1].replace('count\\":5', 'count\\":4')],
        f"line {len(lines) + 1}: this is not an entry of an event log": [*lines, "{}"],
    }
    for message, changed in wrong.items():
        assert changed != lines, message
        (tmp_path / "changed").write_text("\n".join(changed) + "\n")
        status, said = verify(at / "pub", tmp_path / "changed")
        assert status == 125 and message in said, (message, said)


def test_an_export_that_fails_leaves_the_one_before(sealed, tmp_path):
    _, at, tenant = sealed
    old = tmp_path / "audit.jsonl"
    old.write_bytes((at / "own").read_bytes())
    key = tenant.env["CLOCHE_API_KEY"]
    tenant.env["CLOCHE_API_KEY"] = "clo_of_nobody"
    try:
        status, _, said = tenant("audit", "export", str(old))
    finally:
        tenant.env["CLOCHE_API_KEY"] = key
    assert status != 0 and said
    assert old.read_bytes() == (at / "own").read_bytes() and os.listdir(tmp_path) == ["audit.jsonl"]


def test_another_daemons_key_and_what_is_no_key_are_refused(sealed, tmp_path):
    _, at, _ = sealed
    subprocess.run(["openssl", "genpkey", "-algorithm", "ed25519", "-out", str(tmp_path / "other")], check=True, capture_output=True)
    subprocess.run(["openssl", "pkey", "-in", str(tmp_path / "other"), "-pubout", "-out", str(tmp_path / "other.pub")], check=True)
    (tmp_path / "text").write_text("hello")
    for key, message in (("other.pub", "not of this key"), ("text", "no public Ed25519 key"), ("none", "cannot read")):
        status, said = verify(tmp_path / key, at / "own")
        assert status == 125 and message in said, said


def test_the_key_stays_and_only_root_reads_it(sealed):
    daemon, at, tenant = sealed
    file = daemon.data / "audit.key"
    assert file.stat().st_mode & 0o777 == 0o600 and file.stat().st_uid == 0
    assert daemon.stop() == 0
    daemon.start()
    assert tenant.ok("audit", "key") == (at / "pub").read_text()
    status, _, err = tenant("audit", "export", "--all", "-")
    assert status == 125 and "default" in err


def test_a_project_s_events_are_kept_as_long_as_its_own_setting_says():
    daemon = Daemon().start()
    try:
        keys = {}
        with Client(daemon.url, daemon.key) as client:
            for name in ("brief", "usual"):
                client.create_project(name)
                keys[name] = client.create_key("k", scope="admin", project=name)["secret"]
                assert call(daemon, "POST", "/v1/webhooks", {"url": "bad"}, key=keys[name])[0] == 400
                wait_for(lambda name=name: audit(daemon, key=keys[name]), 10, "the audit log")

            def kept(name):
                told = call(daemon, "GET", "/v1/events", key=keys[name])[1].decode() + json.dumps(audit(daemon, key=keys[name]))
                return [word for word in ("project.created", "key.created", "api.write") if word in told]

            def is_gone():  # a change has the log looked through at once, else it is once a minute
                assert client.set_quota(project="brief", events_age_ms=1000)["events_age_ms"] == 1000
                return kept("brief") == []

            assert kept("brief") == kept("usual") == ["project.created", "key.created", "api.write"]
            wait_for(is_gone, 30, "retention")
            assert kept("usual") == ["project.created", "key.created", "api.write"]
            assert "as they were written" in Cli(daemon).ok("events", "verify", "--all")
            assert daemon.stop() == 0
            daemon.start()
            assert client.quota(project="brief")["events_age_ms"] == 1000
            assert client.set_quota(project="brief")["events_age_ms"] is None
        status, body = call(daemon, "PUT", "/v1/projects/brief/quota", {"events_age_ms": 10})
        assert status == 400 and body["error"]["field"] == "events_age_ms"
    finally:
        daemon.stop()
        daemon.remove()
