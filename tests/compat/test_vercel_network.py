# SPDX-License-Identifier: Apache-2.0
"""Vercel's policies and sources, behind the wall of a daemon that has an internet."""

import http.client
import json
import socket

import pytest
from harness.internet import ALLOWED, OTHER
from harness.sources import BASE as SOURCES, PASSWORD, TLS_BASE, Sources
from harness.walled import REFUSED, Walled

BASE = "/vercel/api/v2/sandboxes"


class UnixConnection(http.client.HTTPConnection):
    def __init__(self, path):
        super().__init__("localhost", timeout=60)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(60)
        self.sock.connect(str(self.path))


@pytest.fixture
def call(walled_daemon):
    def call(method, path, body=None):
        conn = UnixConnection(walled_daemon.socket)
        conn.request(method, path, json.dumps(body) if body is not None else None,
                     {"Content-Type": "application/json", "Authorization": f"Bearer {walled_daemon.key}"})
        reply = conn.getresponse()
        text = reply.read()
        conn.close()
        return reply.status, json.loads(text) if text[:1] == b"{" else text

    return call


@pytest.fixture
def create(call, walled_client, internet):
    """(what the wire told, the sandbox behind it)"""
    names = []

    def create(path=BASE, **fields):
        internet.set_zone({})
        status, made = call("POST", path, {"persistent": False, **fields})
        assert status == 200, made
        names.append(made["sandbox"]["name"])
        return made, Walled(walled_client.get(made["session"]["id"]))

    yield create
    for name in names:
        call("DELETE", f"{BASE}/{name}?deleteOrphanSnapshots=true")


def reaches(box, name):
    return '"port": 443' in str(box.dial("tls", name, 443, name).get("reply"))


def test_a_domain_is_reached_by_tls_and_nothing_else_is(create):
    _, box = create(networkPolicy={"allow": ["allowed.test", "*.wild.test"]})
    assert reaches(box, "allowed.test") and reaches(box, "www.wild.test")
    assert not reaches(box, "wild.test") and not reaches(box, "other.test")
    assert box.get("allowed.test")[0] != 200  # in the clear a name proves nothing


def test_a_denied_range_beats_every_allow_and_an_empty_policy_denies_all(create):
    _, box = create(networkPolicy={"subnets": {"allow": ["0.0.0.0/0"], "deny": [f"{OTHER}/32"]}})
    assert box.dial("tcp", ALLOWED, 22)["said"].startswith("SSH-")
    assert box.dial("tcp", OTHER, 22).get("error") in REFUSED
    for nothing in ({}, {"allow": []}, {"subnets": {"deny": [f"{OTHER}/32"]}}):
        _, box = create(networkPolicy=nothing)
        assert not reaches(box, "allowed.test")


def test_a_policy_is_changed_while_it_runs_and_holds_for_later_sessions(create, call, walled_client):
    made, box = create(networkPolicy={"mode": "deny-all"}, persistent=True)
    name, session = made["sandbox"]["name"], f"{BASE}/sessions/{made['session']['id']}"
    assert not reaches(box, "allowed.test")
    status, reply = call("POST", f"{session}/network-policy", {"allow": ["allowed.test"]})
    assert (status, reply["session"]["networkPolicy"]) == (200, {"mode": "custom", "allowedDomains": ["allowed.test"]})
    assert reaches(box, "allowed.test")
    assert call("POST", f"{session}/stop", {})[0] == 200
    resumed = call("GET", f"{BASE}/{name}?resume=true")[1]
    box = Walled(walled_client.get(resumed["session"]["id"]))
    assert reaches(box, "allowed.test") and not reaches(box, "other.test")


def test_a_header_is_set_on_its_way_out_and_is_nowhere_inside(create):
    rule = {"match": {"path": {"startsWith": "/v1/"}}, "transform": [{"headers": {"authorization": "Bearer s3cret-value"}}]}
    made, box = create(networkPolicy={"allow": {"allowed.test": [rule]}})
    assert made["sandbox"]["networkPolicy"]["injectionRules"] == [{"domain": "allowed.test", "headerNames": ["authorization"], "match": rule["match"]}]
    assert "s3cret-value" not in json.dumps(made)
    seen = [box.sandbox.run(["curl", "-sS", f"https://allowed.test/{path}"]).stdout for path in ("v1/x", "v2/x")]
    assert "Bearer s3cret-value" in seen[0] and "s3cret-value" not in seen[1], seen


def test_a_response_rule_is_answered_by_the_wall(create):
    rule = {"response": {"statusCode": 418, "body": "short and stout", "contentType": "text/plain"}}
    _, box = create(networkPolicy={"allow": {"allowed.test": [rule]}})
    assert box.sandbox.run(["curl", "-sS", "-w", " %{http_code}", "https://allowed.test/"]).stdout == "short and stout 418"


@pytest.fixture(scope="module")
def sources(internet, tmp_path_factory):
    sources = Sources(tmp_path_factory.mktemp("sources")).start(internet)
    yield sources
    sources.close()


@pytest.mark.parametrize("path, fields, where", [(BASE, {"runtime": "node24"}, "README"), (BASE.replace("v2", "v3"), {}, "app/README")], ids=["runtime", "image"])
def test_a_repository_is_where_its_programs_expect_it(create, sources, path, fields, where):
    _, box = create(path, source={"type": "git", "url": f"{SOURCES}/git/app.git", "depth": 1}, **fields)
    assert box.sandbox.run(["cat", f"/vercel/sandbox/{where}"]).stdout == "version 2\n"


def test_a_repository_s_password_never_comes_inside(create, sources):
    source = {"type": "git", "url": f"{TLS_BASE}/private/git/app.git", "revision": "v1", "username": "bot", "password": PASSWORD}
    made, box = create(source=source)
    assert box.sandbox.run("cat /vercel/sandbox/app/README").stdout == "version 1\n"
    assert PASSWORD not in box.sandbox.run("cat /vercel/sandbox/app/.git/config; env").stdout + json.dumps(made)


def test_a_repository_that_cannot_be_had_makes_no_sandbox(call, internet, sources):
    internet.set_zone({})
    status, reply = call("POST", BASE, {"name": "unborn", "source": {"type": "git", "url": f"{SOURCES}/git/none.git"}})
    assert status == 400, reply
    assert call("GET", f"{BASE}/unborn")[0] == 404
