# SPDX-License-Identifier: Apache-2.0
"""Secrets by name: what refers to one has its value outside the sandbox, and nobody reads it back."""

import json
import os

import pytest
from cloche import Client, errors
from harness.cli import Cli
from harness.daemon import PATIENCE, Daemon, wait_for

FIRST, SECOND = "sk-f1rst-0123456789", "sk-s3cond-9876543210"


def policy(value="Bearer secret://API", **more):
    return {"rules": [{"match": {"domains": ["allowed.test"]}, "action": {"transform": {"headers": {"authorization": value}, **more}}}]}


def get(box, path="/x"):
    """(status, what the server saw)."""
    done = box.sandbox.run(["curl", "-sS", "-w", "\n%{http_code}", f"https://allowed.test{path}"], timeout=30 * PATIENCE)
    body, _, status = done.stdout.rpartition("\n")
    return int(status or 0), json.loads(body)["fields"].get("authorization") if body.startswith("{") else body


@pytest.fixture
def kept(walled_client):
    walled_client.set_secret("API", FIRST)
    yield walled_client
    for one in walled_client.secrets():
        walled_client.delete_secret(one["name"], force=True)


def test_a_rule_that_names_a_secret_sends_its_value_and_shows_the_name(walled, kept):
    box = walled(policy())
    assert get(box) == (200, f"Bearer {FIRST}")
    shown = json.dumps(box.sandbox.network())
    assert "Bearer secret://API" in shown and FIRST not in shown
    assert FIRST not in box.sandbox.run("env; cat /proc/*/environ 2>/dev/null; true").stdout


def test_a_new_value_is_used_by_sandboxes_that_run(walled, kept):
    box = walled(policy())
    assert get(box) == (200, f"Bearer {FIRST}")
    assert kept.set_secret("API", SECOND)["version"] == 2
    wait_for(lambda: get(box) == (200, f"Bearer {SECOND}"), 30, "the new value")


def test_a_secret_that_is_in_use_is_removed_by_force_alone_and_its_rule_denies(walled, kept):
    box = walled(policy())
    assert get(box)[0] == 200
    with pytest.raises(errors.Conflict) as refused:
        kept.delete_secret("API")
    assert "the policies of 1 sandbox refer to secret 'API'" in str(refused.value)
    kept.delete_secret("API", force=True)
    wait_for(lambda: get(box)[0] != 200, 30, "a denial")
    kept.set_secret("API", SECOND)
    wait_for(lambda: get(box) == (200, f"Bearer {SECOND}"), 30, "the value that came back")


@pytest.mark.parametrize("value, words", [("secret://NONE", "no secret 'NONE'"), ("secret://", "secret://NAME")])
def test_a_policy_that_names_no_secret_is_refused_with_what_to_do(kept, value, words):
    with pytest.raises(errors.InvalidField) as refused:
        kept.create(network=policy(value))
    assert refused.value.field == "network" and words in str(refused.value)


def test_a_value_that_would_break_out_of_its_header_is_refused(walled, kept):
    kept.set_secret("LINES", "one\r\nx-admin: yes")
    with pytest.raises(errors.InvalidField) as refused:
        kept.create(network=policy("secret://LINES"))
    assert "rules[0].action.transform.headers" in str(refused.value) and "one line" in str(refused.value) and "x-admin" not in str(refused.value)
    box = walled(policy())
    kept.set_secret("API", "later\r\nx-admin: yes")
    wait_for(lambda: get(box)[0] != 200, 30, "a denial")


def test_an_environment_that_asks_for_it_has_the_value_and_the_row_has_the_name(kept, walled):
    box = walled(env={"TOKEN": "secret://API", "PLAIN": "a secret://API"})
    assert box.sandbox.run('echo "$TOKEN $PLAIN"').stdout == f"{FIRST} a secret://API\n"
    assert box.sandbox.run('echo "$OWN"', env={"OWN": "secret://API"}).stdout == f"{FIRST}\n"
    assert box.sandbox.run_code("import os; print(os.environ['TOKEN'])").stdout == f"{FIRST}\n"
    with pytest.raises(errors.InvalidField, match="no secret 'NONE'"):
        box.sandbox.run("true", env={"OWN": "secret://NONE"})


def test_one_for_some_hosts_goes_to_those_alone(kept, walled):
    assert kept.set_secret("BOUND", FIRST, hosts=["Allowed.test", "*.allowed.test"])["hosts"] == ["allowed.test", "*.allowed.test"]
    box = walled(policy("Bearer secret://BOUND"))
    assert get(box) == (200, f"Bearer {FIRST}")
    header = {"transform": {"headers": {"authorization": "secret://BOUND"}}}
    for domains in (["other.test"], ["allowed.test", "other.test"], ["*"], ["*.test"]):
        with pytest.raises(errors.ClocheError, match="secret 'BOUND' may not be sent to") as refused:
            kept.create(network={"rules": [{"match": {"domains": domains}, "action": header}]})
        assert refused.value.field == "network"
    with pytest.raises(errors.ClocheError, match="may not be sent to 'proxy.test'"):
        kept.create(network={"allow": ["allowed.test"], "proxy": {"url": "http://proxy.test:3128", "username": "me", "password": "secret://BOUND"}})
    with pytest.raises(errors.ClocheError, match="only to the hosts that it is for"):
        box.sandbox.run("true", env={"TOKEN": "secret://BOUND"})
    with pytest.raises(errors.ClocheError, match="may not be sent to 'other.test'"):
        kept.create(source={"type": "git", "url": "https://other.test/repo.git", "credentials": {"password": "secret://BOUND"}})
    kept.set_secret("BOUND", SECOND)  # the hosts stay
    wait_for(lambda: get(box) == (200, f"Bearer {SECOND}"), 30, "the new value")
    kept.set_secret("BOUND", SECOND, hosts=["other.test"])
    wait_for(lambda: get(box)[0] != 200, 30, "a denial")
    with pytest.raises(errors.InvalidField) as bad:
        kept.set_secret("BOUND", SECOND, hosts=["https://allowed.test/"])
    assert bad.value.field == "hosts" and "is a URL: give its host name alone" in str(bad.value)


def test_one_for_some_hosts_never_goes_in_the_clear(kept, walled):
    """In the clear nobody has proven to be that host, and a proxy of the policy's own choice would read it."""
    kept.set_secret("BOUND", FIRST, hosts=["allowed.test"])
    bare = {"domains": ["allowed.test"], "protocol": "http"}

    def clear(name):
        return {"rules": [{"match": bare, "action": {"transform": {"headers": {"authorization": f"secret://{name}"}}}}]}

    box = walled(clear("API"))  # the control: one without hosts does
    assert FIRST in box.sandbox.run(["curl", "-sS", "http://allowed.test/bare"], timeout=30 * PATIENCE).stdout
    with pytest.raises(errors.ClocheError, match="only over TLS"):
        kept.create(network=clear("BOUND"))
    kept.set_secret("API", FIRST, hosts=["allowed.test"])
    wait_for(lambda: FIRST not in box.sandbox.run(["curl", "-sS", "http://allowed.test/bare"], timeout=30 * PATIENCE).stdout, 30, "a denial")
    with pytest.raises(errors.ClocheError, match="only over TLS"):
        kept.create(source={"type": "git", "url": "http://allowed.test/repo.git", "credentials": {"password": "secret://BOUND"}})


def test_names_and_values_of_another_form_are_refused_by_field(kept):
    for name in ("1st", "a.b", "a" * 65, "ä"):
        with pytest.raises(errors.InvalidField) as refused:
            kept.set_secret(name, "x")
        assert refused.value.field == "name"
    for value in ("", "x" * 8193):
        with pytest.raises(errors.InvalidField) as refused:
            kept.set_secret("A", value)
        assert refused.value.field == "value"


def test_the_event_has_the_name_and_no_value(kept):
    kept.set_secret("NOTED", SECOND)
    kept.delete_secret("NOTED")
    told = [(e["type"], e["data"]) for e in kept.events(type="secret") if e["data"]["name"] == "NOTED"]
    assert told == [("secret.set", {"name": "NOTED", "version": 1}), ("secret.removed", {"name": "NOTED", "version": 1})]


def test_another_project_neither_sees_nor_uses_it(kept, walled_daemon):
    project = kept.create_project("strangers")
    with Client(f"unix:{walled_daemon.socket}", kept.create_key("theirs", project=project["id"], scope="admin")["secret"]) as other:
        assert other.secrets() == []
        with pytest.raises(errors.InvalidField, match="no secret 'API'"):
            other.create(network=policy())
        with pytest.raises(errors.NotFound):
            other.delete_secret("API")


# The rest is on daemons of their own, whose files are looked at and changed.


def bytes_below(root):
    for folder, _, names in os.walk(root):
        for name in names:
            path = os.path.join(folder, name)
            if os.path.isfile(path) and not os.path.islink(path) and os.path.getsize(path) < 64 << 20:
                with open(path, "rb") as f:
                    yield path, f.read()


def test_no_file_of_the_daemon_has_the_value_and_a_backup_has_no_key(tmp_path):
    daemon = Daemon("--pool-max", "0", rm=False).start()
    try:
        with Client(daemon.url, daemon.key) as client:
            client.set_secret("API", FIRST)
            sandbox = client.create(persistent=True, env={"TOKEN": "secret://API"}, network=policy())
            sandbox.stop()
            Cli(daemon).ok("backup", str(tmp_path / "kept"))
        key = (daemon.data / "secrets.key").read_text().strip()
        assert (daemon.data / "secrets.key").stat().st_mode & 0o777 == 0o600
        found = [path for path, data in bytes_below(daemon.data) if FIRST.encode() in data]
        assert found == [] and FIRST not in daemon.log()
        with Client(daemon.url, daemon.key) as client:
            client.get(sandbox.id).delete()
        new = tmp_path / "restored"
        Cli(daemon).ok("restore", "--data", str(new), "--run", str(tmp_path / "run"), str(tmp_path / "kept"))
        restored = list(bytes_below(new))
        words = [key.encode(), bytes.fromhex(key), FIRST.encode()]
        assert [(path, words.index(word)) for path, data in restored for word in words if word in data] == []
        assert [path for path, data in restored if b"secret://API" in data]  # the control: the row that refers to it is there
        assert (new / "admin.key").exists() and not (new / "secrets.key").exists() and not (new / "audit.key").exists() and not (new / "authority").exists()
    finally:
        daemon.stop()
        daemon.remove()


def test_a_daemon_without_its_key_file_goes_on_and_says_which_secrets_are_locked():
    daemon = Daemon("--pool-max", "0", rm=False).start()
    try:
        with Client(daemon.url, daemon.key) as client:
            client.set_secret("API", FIRST)
        daemon.stop()
        file = daemon.data / "secrets.key"
        old = file.read_text()
        file.unlink()
        daemon.start()
        with Client(daemon.url, daemon.key) as client:
            assert client.secrets()[0]["locked"] is True
            with client.create(env={"TOKEN": "secret://API"}) as sandbox, pytest.raises(errors.InvalidField, match="locked"):
                sandbox.run("true")
        assert "locked" in Cli(daemon).ok("secret", "ls")
        daemon.stop()
        file.write_text(file.read_text() + old)  # the old one below the new one
        daemon.start()
        with Client(daemon.url, daemon.key) as client:
            assert client.secrets()[0]["locked"] is False
            with client.create(env={"TOKEN": "secret://API"}) as sandbox:
                assert sandbox.run('echo "$TOKEN"').stdout == f"{FIRST}\n"
        daemon.stop()
        file.write_text("no key\n")
        with pytest.raises(RuntimeError, match="secrets.key.*line 1"):
            daemon.start()
        file.write_text(old)
    finally:
        daemon.stop()
        daemon.remove()


def test_the_command_line_takes_a_value_from_stdin_alone(daemon, cli):
    assert cli.ok("secret", "set", "--host", "a.test", "--host", "*.b.test", "FROM_CLI", data="x") == "FROM_CLI\n"
    assert "a.test,*.b.test" in cli.ok("secret", "ls")
    assert cli.ok("secret", "set", "--host", "*", "FROM_CLI", data="from stdin\n") == "FROM_CLI\n"
    assert cli.ok("completion", "--words", "--", "secret", "rm", "FROM").split()[0] == "FROM_CLI"
    assert "FROM_CLI" in cli.ok("secret", "ls") and "from stdin" not in cli.ok("secret", "ls", "--json")
    with Client(daemon.url, daemon.key) as client, client.create(env={"T": "secret://FROM_CLI"}) as sandbox:
        assert sandbox.run('echo "$T"').stdout == "from stdin\n"
    assert cli.ok("secret", "rm", "FROM_CLI") == "FROM_CLI\n"
    assert cli("secret", "rm", "FROM_CLI")[0] != 0
