# SPDX-License-Identifier: Apache-2.0
"""A policy that records: everything public passes, and what was reached becomes a policy. Decisions, as a list."""

import json
import os
import signal

from cloche._protocol import request
from harness.cli import Cli
from harness.daemon import wait_for
from harness.internet import ALLOWED, OTHER, PRIVATE
from harness.walled import REFUSED

RECORD = {"mode": "record"}


def learnt(box, n):
    """The suggestion, once it has so many rules."""
    said = {}

    def look():
        said.update(box.sandbox.suggest_network())
        return len(said["policy"]["rules"]) >= n

    wait_for(look, 10, f"{n} rules in {said}")
    return said


def test_what_was_recorded_is_the_smallest_policy_that_would_have_sufficed(walled):
    box = walled(RECORD)
    for _ in range(3):
        assert box.get("allowed.test")[0] == 200
    assert "reply" in box.dial("tls", "www.wild.test", 443, "www.wild.test")
    assert box.dial("tcp", OTHER, 22, 30)["said"]
    said = learnt(box, 3)
    assert said["complete"] is True
    matches = [rule["match"] for rule in said["policy"]["rules"]]
    assert sorted(matches, key=str) == sorted(
        [
            {"domains": ["allowed.test"], "ports": [80]},
            {"domains": ["www.wild.test"], "ports": [443]},
            {"cidrs": [f"{OTHER}/32"], "ports": [22]},
        ],
        key=str,
    )
    box.sandbox.set_network(said["policy"])
    assert box.get("allowed.test")[0] == 200
    assert "reply" in box.dial("tls", "www.wild.test", 443, "www.wild.test")
    assert box.dial("tcp", OTHER, 22, 30)["said"]
    assert box.get("other.test")[0] == 403
    assert " 403 " in box.dial("tls", "allowed.test", 443, "allowed.test")["reply"]


def test_recording_opens_nothing_that_is_not_public(walled, internet):
    box = walled(RECORD)
    assert box.dial("tcp", PRIVATE, 22, 30)["error"] in REFUSED
    assert box.raw(ALLOWED, "GET /private HTTP/1.1\\r\\nHost: private.test\\r\\n\\r\\n")[0] == 403
    assert not internet.seen("request", path="/private")
    assert box.get("allowed.test")[0] == 200
    assert [r["match"]["domains"] for r in learnt(box, 1)["policy"]["rules"]] == [["allowed.test"]]


def test_what_is_learnt_goes_past_the_rate_of_decisions(walled, walled_client):
    """Hundreds of connections a second are not all told, but each host is."""
    box = walled(RECORD)
    program = f"""if 1:
        import socket
        def get(name):
            with socket.create_connection(("{ALLOWED}", 80)) as s:
                s.sendall(f"GET / HTTP/1.1\\r\\nHost: {{name}}\\r\\n\\r\\n".encode())
                return s.recv(100).split()[1]
        print({{get("allowed.test") for _ in range(150)}}, get("www.wild.test"))
    """
    assert box.sandbox.run(["python3", "-c", program]).stdout == "{b'200'} b'200'\n"
    assert learnt(box, 1)["policy"]["rules"][0]["match"] == {"domains": ["allowed.test", "www.wild.test"], "ports": [80]}


def test_of_a_policy_that_enforces_what_was_denied_is_suggested_beside_what_was_reached(walled):
    box = walled({"rules": [{"match": {"domains": ["allowed.test"]}, "action": "allow"}, {"match": {"domains": ["www.wild.test"]}, "action": "deny"}]})
    assert box.get("allowed.test")[0] == 200
    assert box.get("other.test")[0] == 403
    assert box.get("www.wild.test")[0] == 403  # that one is meant
    said = learnt(box, 2)
    assert said["complete"] is True
    assert [rule["match"] for rule in said["policy"]["rules"]] == [
        {"domains": ["allowed.test"], "ports": [80]},
        {"domains": ["other.test"], "ports": [80, 443]},
    ]
    box.sandbox.set_network(said["policy"])
    assert (box.get("allowed.test")[0], box.get("other.test")[0]) == (200, 200)


def test_a_suggestion_can_begin_later(walled):
    box = walled(RECORD)
    assert box.get("allowed.test")[0] == 200
    first = learnt(box, 1)
    box.sandbox.set_network(RECORD)  # begins anew
    assert box.get("other.test")[0] == 200
    wait_for(lambda: box.sandbox.suggest_network(after=first["upto"])["policy"]["rules"], 10, "a second rule")
    said = box.sandbox.suggest_network(after=first["upto"])
    assert [r["match"]["domains"] for r in said["policy"]["rules"]] == [["other.test"]]


def test_what_was_learnt_outlives_the_gateway(walled, walled_daemon):
    box = walled(RECORD)
    assert box.get("allowed.test")[0] == 200
    before = learnt(box, 1)["policy"]
    gateway = walled_daemon.gateway_pid
    os.kill(gateway, signal.SIGKILL)
    wait_for(lambda: walled_daemon.gateway_pid != gateway, 20, "the next gateway")
    assert box.sandbox.suggest_network()["policy"] == before


def test_decisions_are_listed_in_pages(walled, walled_client):
    box = walled({"allow": ["allowed.test"]})
    for path in ("/1", "/2", "/3"):
        assert box.get("allowed.test", path)[0] == 200
    assert " 403 " in box.dial("tls", ALLOWED, 443, "other.test")["reply"]
    wait_for(lambda: len(connections(box)) == 4, 10, "four decisions")
    assert [(d["verdict"], d["name"], d["rule"]) for d in connections(box)] == [("allowed", "allowed.test", 0)] * 3 + [("denied", "other.test", None)]
    pages, cursor = [], None
    while not pages or cursor:
        page = walled_client.call(request("GET", ["sandboxes", box.sandbox.id, "network", "decisions"], query={"limit": 1, "cursor": cursor}))
        pages.append(page["decisions"])
        cursor = page["next_cursor"]
    assert max(map(len, pages)) == 1
    assert [d for page in pages for d in page] == list(box.sandbox.network_decisions())


def connections(box):
    return [d for d in box.sandbox.network_decisions() if d["kind"] == "connection"]


def test_the_command_line_suggests_and_lists(walled_daemon, tmp_path):
    cli = Cli(walled_daemon)
    policy = tmp_path / "record.json"
    policy.write_text(json.dumps(RECORD))
    box = cli.ok("create", "--network", str(policy)).strip()
    try:
        cli.ok("exec", box, "curl", "-s", "http://allowed.test/")
        wait_for(lambda: "allowed.test" in cli.ok("network", "suggest", box), 10, "a rule")
        (tmp_path / "policy.json").write_text(cli.ok("network", "suggest", box))
        assert "allowed.test" in cli.ok("network", "set", box, str(tmp_path / "policy.json"))
        wait_for(lambda: "http" in cli.ok("network", "decisions", box), 10, "its decision")
        assert json.loads(cli.ok("network", "decisions", "--json", box))[0]["verdict"] == "allowed"
    finally:
        cli.ok("rm", box)
