# SPDX-License-Identifier: Apache-2.0
"""Credentials that are no secrets by name, sealed where they are kept: webhooks' own, and those in policies."""

import contextlib
import http.client
import json
import socket
import sqlite3

import pytest
from cloche import Client, errors
from functional.test_secrets import bytes_below, get, policy
from functional.test_webhooks import Receiver, call, hook_to, signature_is_good, state
from harness.cli import Cli
from harness.daemon import Daemon, end, wait_for
from harness.walled import Walled

pytestmark = pytest.mark.slow  # daemons are stopped and started, time and again

HEADER, PROXY, THEIRS = "sk-lit3ral-0123456789", "pr0xy-pass-9876543210", "th3irs-literal-5555555"
VERCEL = "/vercel/api/v2/sandboxes"
TRANSFORM = {"allow": {"allowed.test": [{"transform": [{"headers": {"authorization": THEIRS}}]}]}}


@contextlib.contextmanager
def own_daemon(make):
    """One that leaves its sandboxes when it is stopped, but for the last time."""
    daemon = make("--pool-max", "0", rm=False).start()
    try:
        yield daemon
    finally:
        daemon.stop()
        daemon.options.append("--rm")
        daemon.start()
        daemon.stop()
        daemon.remove()


@contextlib.contextmanager
def asking(daemon):
    with Client(f"unix:{daemon.socket}", daemon.key) as client:
        yield client


def ask_vercel(daemon, method, path, body=None):
    conn = http.client.HTTPConnection("localhost", timeout=60)
    conn.sock = socket.socket(socket.AF_UNIX)
    conn.sock.connect(str(daemon.socket))
    conn.request(method, path, json.dumps(body) if body is not None else None, {"Content-Type": "application/json", "Authorization": f"Bearer {daemon.key}"})
    reply = conn.getresponse()
    text = reply.read()
    conn.close()
    assert reply.status == 200, (reply.status, text)
    return json.loads(text)


def files_with(root, *words):
    return sorted({word for _, data in bytes_below(root) for word in words if word.encode() in data})


def database(daemon):
    return sqlite3.connect(daemon.data / "gateway" / "state.db")


def make_plain(daemon, hook_id, secret, rows):
    """Puts back what an older cloche had: the texts as they are. rows: the policy of each sandbox."""
    with contextlib.closing(database(daemon)) as db, db:
        db.execute("UPDATE hooks SET secret = ? WHERE id = ?", (secret, hook_id))
        for sandbox_id, network in rows.items():
            db.execute("UPDATE sandboxes SET json = json_set(json, '$.network', json(?)) WHERE id = ?", (json.dumps(network), sandbox_id))
        db.execute("UPDATE faces SET json = json_set(json, '$.config.policy', json(?)) WHERE kind = 'vercel.sandbox'", (json.dumps(TRANSFORM),))


def test_no_file_and_no_backup_has_a_credential_of_a_webhook_or_a_policy(tmp_path):
    with own_daemon(Daemon) as daemon, asking(daemon) as client:
        secret = client.create_webhook("https://hooks.example.com/told")["secret"]
        proxied = {"allow": ["allowed.test"], "proxy": {"url": "http://proxy.test:3128", "username": "me", "password": PROXY}}
        client.create(persistent=True, name="literal", network=policy(f"Bearer {HEADER}"), tags={"word": "c0ntrol-1234567"}).stop()
        client.create(persistent=True, name="proxied", network=proxied).stop()
        ask_vercel(daemon, "POST", VERCEL, {"name": "theirs", "persistent": True, "networkPolicy": TRANSFORM})
        words = [secret, secret.removeprefix("whsec_"), HEADER, PROXY, THEIRS]
        control = ["c0ntrol-1234567", "https://hooks.example.com/told"]
        assert files_with(daemon.data, *words, *control) == sorted(control)
        assert not [w for w in words if w in daemon.log()]
        Cli(daemon).ok("backup", str(tmp_path / "kept"))
        new = tmp_path / "restored"
        Cli(daemon).ok("restore", "--data", str(new), "--run", str(tmp_path / "run"), str(tmp_path / "kept"))
        assert files_with(new, *words, *control) == sorted(control)
        daemon.stop()
        assert files_with(daemon.data, *words, *control) == sorted(control)


def test_an_older_database_is_sealed_at_the_start_and_all_goes_on(internet):
    internet.set_zone({})
    with own_daemon(internet.daemon) as daemon:
        with asking(daemon) as client:
            made = client.create_webhook("https://hooks.example.com/told", types="key")
            sandbox = client.create(network=policy("Bearer other-0000000000"))
            kept = client.create(persistent=True, network=policy("Bearer other-0000000000"))
            kept.stop()
            theirs = ask_vercel(daemon, "POST", VERCEL, {"name": "theirs", "persistent": False, "networkPolicy": TRANSFORM})["session"]["id"]
        daemon.stop()
        old = "whsec_" + "QUJD" * 10 + "QUI="
        make_plain(daemon, made["webhook"]["id"], old, {sandbox.id: policy(f"Bearer {HEADER}"), kept.id: policy(f"Bearer {HEADER}")})
        assert files_with(daemon.data, old, HEADER, THEIRS) == sorted([old, HEADER, THEIRS])  # the control
        daemon.start()
        with asking(daemon) as client:
            assert "store.erased" in daemon.log()
            assert files_with(daemon.data, old, HEADER, THEIRS) == []
            assert client.webhooks()[0]["locked"] is False
            assert get(Walled(client.get(sandbox.id))) == (200, f"Bearer {HEADER}")
            assert client.get(kept.id).network()["locked"] is False
            assert client.get(theirs).id == theirs
        daemon.stop()
        assert not [w for w in (old, HEADER, THEIRS) if w.encode() in (daemon.data / "gateway" / "state.db").read_bytes()]
        daemon.start()
        with asking(daemon):
            assert daemon.log().count("store.erased") == 1  # once


def test_a_new_key_takes_over_and_the_old_one_can_go(internet):
    internet.set_zone({})
    with own_daemon(internet.daemon) as daemon:
        with asking(daemon) as client:
            client.create_webhook("https://hooks.example.com/told", types="key")
            sandbox = client.create(network=policy(f"Bearer {HEADER}"))
            ask_vercel(daemon, "POST", VERCEL, {"name": "theirs", "persistent": False, "networkPolicy": TRANSFORM})
        file = daemon.data / "secrets.key"
        old = file.read_text()
        for text in ("cd" * 32 + "\n" + old, "cd" * 32 + "\n"):
            daemon.stop()
            file.write_text(text)
            daemon.start()
        with asking(daemon) as client:
            assert client.webhooks()[0]["locked"] is False
            assert get(Walled(client.get(sandbox.id))) == (200, f"Bearer {HEADER}")
            assert "policy_locked" not in daemon.log() and "network.locked" not in daemon.log()


def test_without_its_key_file_a_daemon_says_what_waits_and_all_else_goes_on(internet):
    internet.set_zone({})
    with own_daemon(internet.daemon) as daemon:
        with asking(daemon) as client:
            hook = client.create_webhook("https://hooks.example.com/told", types="key")["webhook"]["id"]
            sandbox = client.create(network=policy(f"Bearer {HEADER}"))
            plain = client.create(network={"allow": ["allowed.test"]})
            assert get(Walled(sandbox)) == (200, f"Bearer {HEADER}")
            client.set_secret("API", "any")
        daemon.stop()
        file = daemon.data / "secrets.key"
        old = file.read_text()
        file.unlink()
        daemon.start()
        with asking(daemon) as client:
            network = client.get(sandbox.id).network()
            assert (network["locked"], network["kind"]) == (True, "deny-all")
            assert get(Walled(client.get(sandbox.id)))[0] != 200
            assert Walled(client.get(plain.id)).get("allowed.test")[0] == 200
            with pytest.raises(errors.Conflict, match="locked"):
                client.get(sandbox.id).allow_network("other.test")
            client.create_key("an event for it")
            told = wait_for(lambda: client.webhooks()[0]["last_error"], 30, "why it waits")
            assert "its secret is locked" in told and "put the key file back" in told and client.webhooks()[0]["dropped"] == 0
            (problem,) = wait_for(lambda: [p for p in client.health()["problems"] if p["code"] == "key_lost"], 30, "the problem")
            assert "secrets that are locked: 1, webhooks that wait: 1, sandboxes whose policy is locked: 1" in problem["message"]
            locked = [(line["event"], line["id"]) for line in map(json.loads, daemon.log().splitlines()) if line["event"].endswith(".locked") and "id" in line]
            assert set(locked) == {("network.locked", sandbox.id), ("hook.locked", hook)}
            client.create().delete()  # all else goes on
        daemon.stop()
        file.write_text(old)
        daemon.start()
        with asking(daemon) as client:
            assert get(Walled(client.get(sandbox.id))) == (200, f"Bearer {HEADER}")
            assert client.webhooks()[0]["locked"] is False and client.get(sandbox.id).network()["locked"] is False
            file.unlink()
        daemon.stop()
        daemon.start()
        with asking(daemon) as client:  # without it: by another policy
            client.get(sandbox.id).set_network(policy("Bearer an0ther-0123456789"))
            assert get(Walled(client.get(sandbox.id))) == (200, "Bearer an0ther-0123456789")
            assert client.get(sandbox.id).network()["locked"] is False


@pytest.fixture(scope="module")
def sender():
    daemon = Daemon("--pool-max", "0", "--webhooks-allow", "127.0.0.0/8").start()
    yield daemon
    daemon.stop()
    daemon.remove()


FIRST, SECOND = "whsec_" + "MDEy" * 11, "whsec_" + "OTg3" * 11


def test_a_webhook_signs_with_a_secret_by_name_and_with_its_new_value(sender):
    with Receiver() as receiver, Client(sender.url, sender.key) as client:
        client.set_secret("HOOK", FIRST)
        hook_id, shown = hook_to(sender, receiver.url, types="secret", secret="secret://HOOK")
        assert shown == "secret://HOOK" and state(sender, hook_id)["secret"] == "secret://HOOK"
        client.set_secret("OTHER", "x")
        wait_for(lambda: len(receiver.got) == 1, what="the first")
        client.set_secret("HOOK", SECOND)
        wait_for(lambda: len(receiver.got) == 2, what="the second")
        assert signature_is_good(*receiver.got[0], FIRST) and not signature_is_good(*receiver.got[0], SECOND)
        assert signature_is_good(*receiver.got[1], SECOND)
        with pytest.raises(errors.Conflict, match="1 webhook signs with secret 'HOOK'"):
            client.delete_secret("HOOK")
        client.delete_secret("HOOK", force=True)
        assert "no secret 'HOOK'" in wait_for(lambda: state(sender, hook_id)["last_error"], what="why it waits")
        assert state(sender, hook_id)["locked"] is True and len(receiver.got) == 2
        client.set_secret("HOOK", FIRST)
        wait_for(lambda: len(receiver.got) == 4, what="the removal and the set")
        assert signature_is_good(*receiver.got[3], FIRST) and state(sender, hook_id)["locked"] is False
        client.delete_webhook(hook_id)
        client.delete_secret("HOOK")


def test_a_webhook_of_its_own_secret_is_given_one_by_name(sender):
    with Receiver() as receiver, Client(sender.url, sender.key) as client:
        client.set_secret("HOOK", FIRST)
        made = client.create_webhook(receiver.url, types="key")
        hook_id = made["webhook"]["id"]
        assert made["secret"].startswith("whsec_") and made["webhook"]["secret"] is None
        Cli(sender).ok("webhook", "set", "--secret", "HOOK", hook_id)
        client.create_key("told")
        wait_for(lambda: receiver.got, what="an event")
        assert signature_is_good(*receiver.got[0], FIRST)
        assert Cli(sender).ok("webhook", "add", "--secret", "HOOK", "https://example.com/x") == "secret://HOOK\n"
        for one in client.webhooks():
            client.delete_webhook(one["id"])
        client.delete_secret("HOOK")


@pytest.mark.parametrize("value, words", [("whsec_QUJD", "cannot sign"), ("plain", "cannot sign"), (None, "no secret 'HOOK'")])
def test_a_secret_that_cannot_sign_is_refused_with_what_to_do(sender, value, words):
    with Client(sender.url, sender.key) as client:
        if value:
            client.set_secret("HOOK", value)
        with pytest.raises(errors.InvalidField) as refused:
            client.create_webhook("https://example.com/x", secret="secret://HOOK")
        assert refused.value.field == "secret" and words in str(refused.value) and "cloche secret set" in str(refused.value)
        for one in client.secrets():
            client.delete_secret(one["name"])


def test_one_for_other_hosts_and_a_literal_are_refused(sender):
    with Client(sender.url, sender.key) as client:
        client.set_secret("HOOK", FIRST, hosts=["hooks.example.com"])
        client.delete_webhook(client.create_webhook("https://hooks.example.com/x", secret="secret://HOOK")["webhook"]["id"])
        for url in ("https://example.com/x", "https://93.184.216.34/x"):
            with pytest.raises(errors.InvalidField, match="may not be used for this URL"):
                client.create_webhook(url, secret="secret://HOOK")
        with pytest.raises(errors.InvalidField, match="must be secret://NAME"):
            client.create_webhook("https://hooks.example.com/x", secret=FIRST)
        moved = client.create_webhook("https://hooks.example.com/x", secret="secret://HOOK")["webhook"]["id"]
        with pytest.raises(errors.InvalidField, match="may not be used for this URL"):
            client.update_webhook(moved, url="https://example.com/x")
        assert call(sender, "GET", f"/v1/webhooks/{moved}")[1]["url"] == "https://hooks.example.com/x"
        client.delete_webhook(moved)
        client.delete_secret("HOOK")


def test_a_fork_sends_what_its_source_sends(walled):
    (fork,) = walled(policy(f"Bearer {HEADER}")).sandbox.fork(memory=False)
    try:
        assert get(Walled(fork)) == (200, f"Bearer {HEADER}")
    finally:
        end(fork)
