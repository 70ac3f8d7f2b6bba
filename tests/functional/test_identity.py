# SPDX-License-Identifier: Apache-2.0
"""Identities of sandboxes: short tokens that an independent library verifies by the documents that clouds read, given out by policy alone."""

import base64
import http.client
import json
import os
import socket
import sqlite3
import subprocess
import sys
import time
import urllib.error
import urllib.request
from contextlib import closing, contextmanager
from datetime import timedelta
from types import SimpleNamespace

import jwt
import pytest
from cloche import Client, errors
from harness.cli import Cli
from harness.daemon import BUILD, PATIENCE, Daemon, wait_for
from harness.running import running
from harness.samples import samples_of

AWS, VAULT = "sts.amazonaws.com", "https://vault.example.com/v1?x=1"
FIELD = "X-Cloche-Identity: 1"
ISSUER = "https://cloche.test"  # of the daemon behind the wall (conftest.py)


def granting(*audiences, **more):
    return {"identity": {"audiences": list(audiences)}, **more}


def ask(box, audience, *, field=FIELD, path="/token", scheme="http"):
    """(status, body) of the wall's answer to the code inside."""
    words = ["curl", "-sS", "-k", "-G", "-w", "\n%{http_code}", "--data-urlencode", f"audience={audience}", *(["-H", field] if field else [])]
    done = box.sandbox.run([*words, f"{scheme}://identity.cloche.internal{path}"], timeout=60 * PATIENCE)
    body, _, status = done.stdout.rpartition("\n")
    return int(status or 0), body


def verified(token, keys, audience, issuer):
    """The claims, by PyJWT: the key of the header's kid, RS256 and nothing else."""
    key = jwt.PyJWKSet.from_dict(keys)[jwt.get_unverified_header(token)["kid"]]
    return jwt.decode(token, key, algorithms=["RS256"], audience=audience, issuer=issuer, options={"require": ["exp", "nbf", "iat", "iss", "sub", "aud", "jti"]})


def document(daemon, name):
    """As a cloud reads it: without a key."""
    with urllib.request.urlopen(f"{daemon.url}/.well-known/{name}", timeout=30 * PATIENCE) as reply:
        assert reply.headers["Content-Type"] == "application/json" and "max-age" in reply.headers["Cache-Control"]
        return json.load(reply)


# Through the wall: for both engines.


def walled_keys(daemon):
    """The set of keys of a daemon in a namespace of its own."""
    conn = http.client.HTTPConnection("localhost", timeout=60)
    conn.sock = socket.socket(socket.AF_UNIX)
    conn.sock.connect(str(daemon.socket))
    conn.request("GET", "/.well-known/jwks.json")
    keys = json.loads(conn.getresponse().read())
    conn.close()
    return keys


def test_code_inside_gets_a_token_that_says_what_its_sandbox_is(walled, walled_daemon, walled_client, engine):
    box = walled(granting(AWS, VAULT))
    keys = walled_keys(walled_daemon)
    for audience in (AWS, VAULT):
        status, token = ask(box, audience)
        assert status == 200, token
        claims = verified(token, keys, audience, ISSUER)
        shown = walled_client.get(box.sandbox.id).info
        grade = shown.isolation["grade"]
        assert claims["sub"] == f"project:default:template:{shown.template}:isolation:{grade}"
        assert (claims["project"], claims["template"], claims["sandbox_id"]) == ("default", shown.template, box.sandbox.id)
        assert (claims["engine"], claims["isolation"]) == (engine, grade)
        assert ("image_digest" in claims) == (shown.template != "host")
        assert claims["exp"] - claims["iat"] == 600 and claims["iat"] - claims["nbf"] == 60
        assert abs(claims["iat"] - time.time()) < 120 * PATIENCE


def test_it_gets_none_for_an_audience_that_is_not_named_nor_without_the_header_nor_elsewhere(walled):
    box = walled(granting(AWS))
    assert ask(box, AWS)[0] == 200  # the control
    for attempt in ({"audience": "other.example.com"}, {"audience": ""}, {"audience": AWS, "field": None}, {"audience": AWS, "path": "/tokens"}):
        status, body = ask(box, **attempt)
        assert status == 403 and "no token: ask for GET /token" in body and "eyJ" not in body
    assert ask(box, AWS, scheme="https")[0] in (0, 403)
    posted = box.sandbox.run(["curl", "-sS", "-H", FIELD, "-d", "", f"http://identity.cloche.internal/token?audience={AWS}"], timeout=60 * PATIENCE).stdout
    assert "eyJ" not in posted


@pytest.mark.parametrize("policy", ["allow-all", {"allow": ["allowed.test"]}])
def test_a_sandbox_without_the_grant_gets_nothing(walled, walled_client, policy):
    box = walled(policy)
    status, body = ask(box, AWS)
    assert status in (0, 403, 502) and "eyJ" not in body
    with pytest.raises(errors.Forbidden, match=f"does not name the audience '{AWS}'"):
        box.sandbox.identity_token(AWS)


def test_the_rest_of_a_policy_holds_beside_the_identity(walled):
    box = walled(granting(AWS, rules=[{"match": {"domains": ["denied.test"]}, "action": "deny"}, {"action": "allow"}]))
    assert ask(box, AWS)[0] == 200
    assert box.get("allowed.test")[0] == 200 and box.get("denied.test")[0] == 403
    assert box.sandbox.explain_network("http://denied.test/")["rule"] == 0  # as its author counts
    assert box.sandbox.explain_network(f"http://identity.cloche.internal/token?audience={AWS}")["rule"] is None
    decided = [d for d in box.sandbox.network_decisions() if d["kind"] == "connection"]
    assert {d["rule"] for d in decided if d["name"] == "identity.cloche.internal"} == {None}
    assert {d["rule"] for d in decided if d["name"] == "denied.test"} == {0}


def test_two_sandboxes_have_two_identities(walled, walled_daemon):
    keys = walled_keys(walled_daemon)
    boxes = [walled(granting(AWS)) for _ in range(2)]
    claims = [verified(ask(box, AWS)[1], keys, AWS, ISSUER) for box in boxes]
    assert [c["sandbox_id"] for c in claims] == [box.sandbox.id for box in boxes]
    assert claims[0]["jti"] != claims[1]["jti"]


def test_the_wall_puts_a_token_into_requests_and_the_sandbox_never_has_it(walled, walled_daemon):
    rule = {"match": {"domains": ["allowed.test"]}, "action": {"transform": {"headers": {"authorization": f"Bearer identity://{VAULT}"}, "scrub": ["authorization"]}}}
    box = walled({"rules": [rule]})
    done = box.sandbox.run(["curl", "-sS", "https://allowed.test/x"], timeout=60 * PATIENCE)
    assert json.loads(done.stdout)["fields"]["authorization"].startswith("Bearer ****")  # scrubbed
    box.sandbox.set_network({"rules": [{**rule, "action": {"transform": {"headers": {"authorization": f"Bearer identity://{VAULT}"}}}}]})
    done = box.sandbox.run(["curl", "-sS", "https://allowed.test/x"], timeout=60 * PATIENCE)  # this server tells what it was sent
    scheme, token = json.loads(done.stdout)["fields"]["authorization"].split()
    assert scheme == "Bearer" and verified(token, walled_keys(walled_daemon), VAULT, ISSUER)["sandbox_id"] == box.sandbox.id
    shown = json.dumps(box.sandbox.network())
    assert f"Bearer identity://{VAULT}" in shown and "eyJ" not in shown
    assert "eyJ" not in box.sandbox.run("env; cat /proc/*/environ 2>/dev/null; true").stdout
    assert ask(box, VAULT)[0] in (0, 403)  # code inside is not given what a header has
    assert box.sandbox.identity_token(VAULT)["audience"] == VAULT  # who may write is


def on_e2b_wire(daemon, method, path, body=None):
    """Of a daemon in a namespace of its own: the status and the reply."""
    conn = http.client.HTTPConnection("localhost", timeout=60 * PATIENCE)
    with closing(conn):
        conn.sock = socket.socket(socket.AF_UNIX)
        conn.sock.connect(str(daemon.socket))
        conn.request(method, path, body and json.dumps(body), {"X-API-Key": daemon.key, "Content-Type": "application/json"})
        reply = conn.getresponse()
        return reply.status, json.loads(reply.read() or b"{}")


@pytest.mark.jail("the wire has no choice of an engine, and the wall is the same")
def test_workload_tokens_of_e2b_are_put_into_requests_by_their_names(walled_daemon, walled_client, internet):
    def rules(name):
        return {"allowOut": ["allowed.test"], "denyOut": ["0.0.0.0/0"], "rules": {"allowed.test": [{"transform": {"headers": {"authorization": f"Bearer ${{e2b.identity.tokens.{name}}}"}}}]}}

    def sent():
        done = sandbox.run(["curl", "-sS", "https://allowed.test/x"], timeout=60 * PATIENCE)  # this server tells what it was sent
        return json.loads(done.stdout)["fields"]["authorization"].removeprefix("Bearer ")

    internet.set_zone({})
    iam = {"tokens": {"aws": {"audience": AWS, "tokenType": "JWT-SVID"}, "my vault": {"audience": VAULT, "tokenType": "JWT-SVID"}}}
    status, made = on_e2b_wire(walled_daemon, "POST", "/v2/sandboxes", {"templateID": "host", "iam": iam, "network": rules("aws")})
    assert status == 201, made
    path, keys = f"/sandboxes/{made['sandboxID']}/network", walled_keys(walled_daemon)
    with walled_client.get(f"sb_{made['sandboxID']}") as sandbox:
        assert verified(sent(), keys, AWS, ISSUER)["sandbox_id"] == sandbox.id
        assert on_e2b_wire(walled_daemon, "PUT", path, rules("my vault"))[0] == 204
        assert verified(sent(), keys, VAULT, ISSUER)["sandbox_id"] == sandbox.id
        status, told = on_e2b_wire(walled_daemon, "PUT", path, rules("gcp"))
        assert status == 400 and "'gcp'" in told["message"]
        assert verified(sent(), keys, VAULT, ISSUER)  # nothing has changed


def test_a_policy_that_is_set_later_gives_and_takes(walled):
    box = walled("deny-all")
    box.sandbox.set_network(granting(AWS))
    assert ask(box, AWS)[0] == 200
    box.sandbox.allow_network("allowed.test")
    assert ask(box, AWS)[0] == 200 and box.get("allowed.test")[0] == 200
    box.sandbox.set_network(granting("other.example.com"))
    assert ask(box, AWS)[0] == 403
    box.sandbox.set_network("deny-all")
    assert ask(box, AWS)[0] == 0


def test_after_a_revocation_the_wall_has_tokens_of_the_new_key(walled, walled_daemon, walled_client):
    box = walled(granting(AWS))
    old = jwt.get_unverified_header(ask(box, AWS)[1])["kid"]
    kept = {key["id"] for key in walled_client.rotate_identity(revoke=True)["keys"]}
    assert old not in kept
    wait_for(lambda: jwt.get_unverified_header(ask(box, AWS)[1])["kid"] in kept, 30, "a token of the new key")
    assert verified(ask(box, AWS)[1], walled_keys(walled_daemon), AWS, ISSUER)["sandbox_id"] == box.sandbox.id


# Of a daemon alone.


@contextmanager
def issuing(*options, rm=True):
    daemon = Daemon("--pool-max", "0", *options, rm=rm)
    daemon.options += ["--identity-issuer", daemon.url]
    with running(daemon):
        yield daemon


@pytest.fixture(scope="module")
def issuer():
    with issuing() as daemon:
        yield daemon


@pytest.fixture(scope="module")
def owner(issuer):
    with Client(issuer.url, issuer.key) as client:
        yield client


@pytest.fixture
def granted(owner):
    with owner.create(template="host", network=granting(AWS)) as sandbox:
        yield sandbox


def test_e2b_s_own_client_names_tokens_and_uses_them_in_rules(issuer, owner):
    e2b = pytest.importorskip("e2b")
    settings = {"api_url": issuer.url, "sandbox_url": issuer.url, "api_key": f"e2b_{issuer.key.removeprefix('clo_')}"}
    token = e2b.Secret.iam_token(audience=VAULT, token_type="JWT-SVID")
    network = {"rules": {"vault.example.com": [{"transform": lambda ctx: {"headers": {"Authorization": f"Bearer {ctx.iam.tokens['vault']}"}}}]}}
    made = e2b.Sandbox.create(iam={"tokens": {"vault": token}}, network=network, **settings)
    try:
        shown = json.dumps(owner.get(f"sb_{made.sandbox_id}").network())
        assert f"Bearer identity://{VAULT}" in shown
    finally:
        made.kill()
    with pytest.raises(Exception, match="iam.tokens.vault.*tokenType"):
        e2b.Sandbox.create(iam={"tokens": {"vault": e2b.Secret.iam_token(audience=VAULT, token_type="X509-SVID")}}, **settings)


def test_without_an_issuer_e2b_s_tokens_are_refused(daemon):
    asked = {"templateID": "host", "iam": {"tokens": {"aws": {"audience": AWS, "tokenType": "JWT-SVID"}}}}
    status, told = on_e2b_wire(daemon, "POST", "/v2/sandboxes", asked)
    assert status == 400 and "gives out none" in told["message"]


def fetched(daemon, token, audience=AWS):
    """By the way that a cloud goes: discovery, the set of keys, the key."""
    about = document(daemon, "openid-configuration")
    assert about["issuer"] == daemon.url and about["id_token_signing_alg_values_supported"] == ["RS256"]
    key = jwt.PyJWKClient(about["jwks_uri"], timeout=30).get_signing_key_from_jwt(token)
    return jwt.decode(token, key, algorithms=["RS256"], audience=audience, issuer=about["issuer"])


def test_a_cloud_needs_the_url_alone(issuer, granted):
    made = granted.identity_token(AWS)
    claims = fetched(issuer, made["token"])
    assert claims["jti"] == made["token_id"] and claims["exp"] * 1000000 == made["expires_us"]
    with pytest.raises(jwt.InvalidAudienceError):
        fetched(issuer, made["token"], "other.example.com")
    head, claims, signature = made["token"].split(".")
    forged = json.loads(base64.urlsafe_b64decode(claims + "=="))
    forged["project"] = "another"
    forged = base64.urlsafe_b64encode(json.dumps(forged).encode()).rstrip(b"=").decode()
    with pytest.raises(jwt.InvalidSignatureError):
        fetched(issuer, f"{head}.{forged}.{signature}")


def test_a_token_is_good_for_a_skewed_clock_and_no_longer_than_it_says(issuer, granted):
    token = granted.identity_token(AWS)["token"]
    keys = document(issuer, "jwks.json")
    key = jwt.PyJWKSet.from_dict(keys)[jwt.get_unverified_header(token)["kid"]]
    claims = jwt.decode(token, options={"verify_signature": False})
    assert claims["nbf"] == claims["iat"] - 60  # a verifier whose clock is behind takes it
    with pytest.raises(jwt.ExpiredSignatureError):  # as at a clock that is 601 s ahead
        jwt.decode(token, key, algorithms=["RS256"], audience=AWS, leeway=timedelta(seconds=-601), options={"verify_iat": False, "verify_nbf": False})


def test_who_may_not_write_or_is_of_another_project_gets_none(issuer, owner, granted):
    with Client(issuer.url, owner.create_key("reader", scope="read")["secret"]) as reader, pytest.raises(errors.Forbidden):
        reader.get(granted.id).identity_token(AWS)
    project = owner.create_project("strangers:of:mine")
    with Client(issuer.url, owner.create_key("theirs", project=project["id"], scope="admin")["secret"]) as other:
        with pytest.raises(errors.NotFound):
            other.get(granted.id).identity_token(AWS)
        with pytest.raises(errors.Forbidden):
            other.rotate_identity()
        with other.create(template="host", network=granting(AWS)) as theirs:
            assert fetched(issuer, theirs.identity_token(AWS)["token"])["sub"] == "project:strangers%3Aof%3Amine:template:host:isolation:process"


def test_one_that_has_ended_has_no_identity(owner):
    sandbox = owner.create(template="host", network=granting(AWS))
    sandbox.identity_token(AWS)
    sandbox.delete()
    with pytest.raises((errors.Gone, errors.NotFound)):
        sandbox.identity_token(AWS)


def test_a_fork_has_an_identity_of_its_own(issuer, granted):
    with granted.fork(memory=False)[0] as copy:
        claims = fetched(issuer, copy.identity_token(AWS)["token"])
        assert claims["sandbox_id"] == copy.id and claims["snapshot_id"]


@pytest.mark.parametrize(
    "policy, field, words",
    [
        (granting(), "network.identity.audiences", ""),
        (granting("a b"), "network.identity.audiences[0]", "letters that a URL may have"),
        (granting("a" * 256), "network.identity.audiences[0]", "1 to 255"),
        (granting(AWS, AWS), "network.identity.audiences[1]", "given twice"),
        (granting(*map(str, range(9))), "network.identity.audiences", ""),
        ({"identity": {}}, "network.identity.audiences", "required"),
        ({"identity": {"audiences": [AWS], "tokens": ["x"]}}, "network.identity.tokens", ""),
        ({"rules": [{"match": {"domains": ["a.test"]}, "action": {"transform": {"headers": {f"x-{i}": "identity://a" for i in range(9)}}}}]}, "network.rules[0].action.transform.headers", "up to 8"),  # each costs a signature
        ({"rules": [{"match": {"domains": ["a.test"]}, "action": {"transform": {"headers": {"x": "to identity://a"}}}}]}, "network.rules[0].action.transform.headers", "identity://AUDIENCE"),
    ],
)
def test_a_grant_of_another_form_is_refused_by_field(owner, policy, field, words):
    with pytest.raises(errors.InvalidField) as refused:
        owner.create(network=policy)
    assert refused.value.field == field and words in str(refused.value)


def test_after_a_rotation_old_tokens_verify_and_after_a_revocation_they_do_not(issuer, owner, granted):
    old = granted.identity_token(AWS)["token"]
    before = owner.identity()
    (signing,) = [k["id"] for k in before["keys"] if k["state"] == "current"]
    (following,) = [k["id"] for k in before["keys"] if k["state"] == "next"]
    assert jwt.get_unverified_header(old)["kid"] == signing
    after = {k["state"]: k for k in owner.rotate_identity()["keys"]}
    assert after["retired"]["id"] == signing and after["current"]["id"] == following and after["next"]["id"] not in (signing, following)
    assert after["retired"]["removed_us"] - after["retired"]["retired_us"] == 65 * 60 * 1000000  # longer than any token
    new = granted.identity_token(AWS)["token"]
    assert jwt.get_unverified_header(new)["kid"] == following  # which verifiers have had for long
    assert fetched(issuer, old) and fetched(issuer, new)
    kept = {k["id"] for k in owner.rotate_identity(revoke=True)["keys"]}
    assert len(kept) == 2 and not kept & {signing, following, after["next"]["id"]}
    for token in (old, new):
        with pytest.raises(jwt.PyJWKClientError):
            fetched(issuer, token)
    assert fetched(issuer, granted.identity_token(AWS)["token"])
    told = [e["data"]["cause"] for e in owner.events(type="identity.rotated", all=True)]
    assert told[-2:] == ["asked", "revoked"] and told[0] == "first"


def test_each_token_is_an_event_and_neither_it_nor_a_key_is_anywhere(issuer, owner, granted):
    made = granted.identity_token(AWS)
    told = [e for e in owner.events(type="identity.issued") if e["sandbox_id"] == granted.id]
    assert told[-1]["data"] == {"audience": AWS, "by": "call", "token_id": made["token_id"], "expires_us": made["expires_us"],
                                "key": jwt.get_unverified_header(made["token"])["kid"]}
    assert any(e["data"]["by"] == "wall" for e in told)
    signature = made["token"].rpartition(".")[2]
    everything = [issuer.log(), json.dumps(list(owner.events())), json.dumps(owner.identity()), json.dumps(granted.network())]
    for text in everything:
        assert signature not in text and "PRIVATE KEY" not in text and "eyJ" not in text
    for path in (issuer.data / "gateway").glob("state.db*"):
        data = path.read_bytes()
        assert signature.encode() not in data and b"PRIVATE KEY" not in data
    assert all({"d", "p", "q"}.isdisjoint(key) for key in document(issuer, "jwks.json")["keys"])


def test_the_command_line_shows_and_rotates(issuer, granted):
    cli = Cli(issuer)
    assert issuer.url in cli.ok("identity") and "current" in cli.ok("identity")
    before = json.loads(cli.ok("identity", "--json"))
    after = json.loads(cli.ok("identity", "rotate", "--json"))
    assert {k["id"] for k in before["keys"]} < {k["id"] for k in after["keys"]}
    token = cli.ok("identity", "token", granted.id, AWS).strip()
    assert fetched(issuer, token)["sandbox_id"] == granted.id


def test_the_guide_does_what_it_says(issuer, tmp_path):
    """Its blocks as they stand, in order."""
    env = {**os.environ, "CLOCHE_URL": issuer.url, "CLOCHE_API_KEY": issuer.key, "PATH": f"{BUILD}:{os.environ['PATH']}"}
    typed = [sample for sample in samples_of("docs/guides/identity.md") if sample.language in ("sh", "python")]
    assert len(typed) == 4
    for sample in typed:
        words = ["bash", "-euo", "pipefail", "-c"] if sample.language == "sh" else [sys.executable, "-c"]
        done = subprocess.run([*words, sample.code], env=env, cwd=tmp_path, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120 * PATIENCE)
        assert done.returncode == 0 and not sample.broken_promises(done.stdout), (sample.place, done.stdout, done.stderr)


def test_the_operator_names_the_audiences_that_a_policy_may_have():
    with issuing("--identity-audience", AWS, "--identity-token", "5m") as daemon, Client(daemon.url, daemon.key) as client:
        assert client.identity()["audiences"] == [AWS]
        with client.create(template="host", network=granting(AWS)) as sandbox:
            claims = fetched(daemon, sandbox.identity_token(AWS)["token"])
            assert claims["exp"] - claims["iat"] == 300
            with pytest.raises(errors.InvalidField, match="names the audience 'other'") as refused:
                sandbox.set_network(granting("other"))
            assert "identity.audiences" in refused.value.hint
        with pytest.raises(errors.InvalidField, match="names the audience 'other'"):
            client.create(network={"rules": [{"match": {"domains": ["a.test"]}, "action": {"transform": {"headers": {"x": "identity://other"}}}}]})


def test_a_daemon_without_an_issuer_says_how_to_have_one(client, daemon):
    with pytest.raises(errors.InvalidField) as refused:
        client.create(network=granting(AWS))
    assert refused.value.field == "network" and "identity.issuer" in refused.value.hint
    for call in (client.identity, client.rotate_identity):
        with pytest.raises(errors.NotFound) as refused:
            call()
        assert "identity.issuer" in refused.value.hint
    for name in ("openid-configuration", "jwks.json"):
        with pytest.raises(urllib.error.HTTPError) as missing:
            document(daemon, name)
        assert missing.value.code == 404


@pytest.mark.parametrize("url, words", [("http://example.com", "must begin with https://"), ("https://example.com/", "must not end with '/'")])
def test_an_issuer_that_no_cloud_takes_is_refused_at_the_start(url, words):
    daemon = Daemon("--identity-issuer", url)
    with pytest.raises(RuntimeError, match=words):
        daemon.start()
    daemon.remove()


@pytest.mark.slow
def test_a_lost_key_file_costs_no_token_that_is_out_and_the_daemon_goes_on():
    with issuing(rm=False) as daemon:
        with Client(daemon.url, daemon.key) as client:
            sandbox = client.create(template="host", network=granting(AWS))
            old = sandbox.identity_token(AWS)["token"]
        daemon.stop()
        with closing(sqlite3.connect(daemon.data / "gateway" / "state.db")) as db:
            rows = db.execute("SELECT sealed FROM identity_keys").fetchall()
        assert len(rows) == 2 and all(sealed.startswith("sealed:") for (sealed,) in rows)
        (daemon.data / "secrets.key").unlink()
        daemon.start()
        (told,) = daemon.log_of("identity.key_lost")
        assert told["keys"] == 2 and "new ones take their places" in told["message"]
        with Client(daemon.url, daemon.key) as client:
            new = client.get(sandbox.id).identity_token(AWS)["token"]
            assert jwt.get_unverified_header(new)["kid"] != jwt.get_unverified_header(old)["kid"]
            assert fetched(daemon, old) and fetched(daemon, new)
            assert [e["data"]["cause"] for e in client.events(type="identity.rotated", all=True)] == ["first", "lost"]
            client.get(sandbox.id).delete()


@pytest.mark.slow
def test_code_inside_gets_a_fresh_token_when_half_of_the_last_ones_time_is_over(internet):
    with running(internet.daemon("--pool-max", "0", "--identity-issuer", ISSUER, "--identity-token", "60s")) as daemon:
        with Client(f"unix:{daemon.socket}", daemon.key) as client, client.create(template="host", engine="jail", network=granting(AWS)) as sandbox:
            box = SimpleNamespace(sandbox=sandbox)
            first = ask(box, AWS)[1]
            wait_for(lambda: ask(box, AWS)[1] != first, 60, "another token")
            claims = verified(ask(box, AWS)[1], walled_keys(daemon), AWS, ISSUER)
            assert claims["exp"] - claims["iat"] == 60
