# SPDX-License-Identifier: Apache-2.0
"""SSH by name, with the key outside: ssh and git inside just work where a rule has a key for a host."""

import subprocess

import pytest
from cloche import ClocheError
from harness.daemon import PATIENCE, wait_for
from harness.ssh_servers import SshServers, ssh_rule

pytestmark = pytest.mark.jail("vms of this suite have no ssh inside")
SSH = ["ssh", "-o", "BatchMode=yes"]


@pytest.fixture(scope="module")
def servers(internet):
    servers = SshServers(internet)
    yield servers
    servers.close()


@pytest.fixture
def keep(walled_client):
    """A function that keeps a secret of the test's own."""
    kept = []

    def put(name, value, **fields):
        kept.append(name)
        walled_client.set_secret(name, value, **fields)
        return f"secret://{name}"

    yield put
    for name in {secret["name"] for secret in walled_client.secrets()} & set(kept):
        walled_client.delete_secret(name, force=True)


def login(box, to, *words):
    return box.sandbox.run([*SSH, to, *words], timeout=60 * PATIENCE)


def test_ssh_and_git_work_with_a_key_that_is_outside(walled, servers, keep):
    key, _ = servers.user_key()
    box = walled({"rules": [ssh_rule(servers, keep("DEPLOY", key))]})
    assert login(box, "root@ssh.test", "echo", "hello", "there").stdout == "hello there\n"
    cloned = box.sandbox.run(f"git clone -q root@ssh.test:{servers.repository} /tmp/repo && cat /tmp/repo/told && cd /tmp/repo && git -c user.name=a -c user.email=a@b.test commit -q --allow-empty -m two && git push -q && sudo ssh -o BatchMode=yes root@ssh.test echo and root", timeout=60 * PATIENCE)
    assert (cloned.stdout, cloned.stderr) == ("behind ssh\nand root\n", "")
    assert box.sandbox.run("test -e ~/.ssh").exit_code == 1  # nothing was asked or written
    assert box.sandbox.run("ssh-add -l").stdout.split()[2:] == ["ssh.test", "(ED25519)"]
    shown = box.sandbox.network()["policy"]["rules"][0]
    assert shown["action"]["ssh"]["key"] == "secret://DEPLOY" and shown["match"]["ports"] == [22]


@pytest.mark.parametrize("kind", ["rsa", "ecdsa", "p521", "pem"])
def test_keys_of_all_usual_kinds_log_in(walled, servers, keep, kind):
    key, _ = servers.user_key(kind)
    host_kind = kind if kind in ("rsa", "ecdsa") else "ed25519"
    box = walled({"rules": [ssh_rule(servers, keep("KIND", key), kind=host_kind)]})
    assert login(box, "root@ssh.test", "echo", kind).stdout == f"{kind}\n"


def test_another_port_and_two_hosts_have_their_own_keys(walled, servers, keep):
    one, two = (servers.user_key()[0] for _ in range(2))
    box = walled({"rules": [ssh_rule(servers, keep("ONE", one)), ssh_rule(servers, keep("TWO", two), "twin.test", ports=[2222])]})
    assert login(box, "root@ssh.test", "echo", "one").stdout == "one\n"
    assert box.sandbox.run([*SSH, "-p", "2222", "root@twin.test", "echo", "two"]).stdout == "two\n"
    assert box.sandbox.run([*SSH, "-p", "2222", "root@ssh.test", "true"]).exit_code == 255  # the names are two, whatever their address


def test_beside_allow_all_the_name_has_its_own_address(walled, servers, keep):
    key, _ = servers.user_key()
    box = walled({"rules": [ssh_rule(servers, keep("BESIDE", key)), {"action": "allow"}]})
    assert login(box, "root@ssh.test", "echo", "hello").stdout == "hello\n"


def test_a_key_that_is_replaced_or_removed_counts_at_once(walled, walled_client, servers, keep):
    old, old_path = servers.user_key()
    box = walled({"rules": [ssh_rule(servers, keep("TURNING", old))]})
    assert login(box, "root@ssh.test", "true").exit_code == 0
    new, _ = servers.user_key()
    servers.authorized.write_text("".join(line for line in servers.authorized.read_text().splitlines(True) if line not in old_path.with_name(old_path.name + ".pub").read_text()))
    assert login(box, "root@ssh.test", "true").exit_code == 255
    walled_client.set_secret("TURNING", new)
    wait_for(lambda: login(box, "root@ssh.test", "true").exit_code == 0, 20 * PATIENCE)
    n = servers.log().count("Starting session")
    session = box.sandbox.start([*SSH, "root@ssh.test", "sleep 600"])
    wait_for(lambda: servers.log().count("Starting session") > n, 20 * PATIENCE)
    walled_client.delete_secret("TURNING", force=True)
    assert session.wait(timeout=60 * PATIENCE).exit_code == 255  # what the rule allowed was meant to have the key
    assert login(box, "root@ssh.test", "true").exit_code == 255


def test_a_policy_without_the_rule_cuts_and_cleans_up(walled, servers, keep):
    key, _ = servers.user_key()
    box = walled({"rules": [ssh_rule(servers, keep("CUT", key))]})
    n = servers.log().count("Starting session")
    session = box.sandbox.start([*SSH, "root@ssh.test", "sleep 600"])
    wait_for(lambda: servers.log().count("Starting session") > n, 20 * PATIENCE)
    box.sandbox.set_network({"allow": ["allowed.test"]})
    assert session.wait(timeout=60 * PATIENCE).exit_code == 255
    assert login(box, "root@ssh.test", "true").exit_code == 255
    assert box.sandbox.run("ls /run/cloche-ssh.sock /etc/ssh/ssh_known_hosts2; pgrep cloche-ssh; echo $SSH_AUTH_SOCK").stdout == "\n"
    box.sandbox.set_network({"rules": [ssh_rule(servers, "secret://CUT")]})
    assert login(box, "root@ssh.test", "echo", "again").stdout == "again\n"


def test_it_goes_on_in_copies(walled, servers, keep):
    key, _ = servers.user_key()
    box = walled({"rules": [ssh_rule(servers, keep("COPIED", key))]})
    [copy] = box.sandbox.fork()
    try:
        assert copy.run([*SSH, "root@ssh.test", "echo", "copy"]).stdout == "copy\n"
    finally:
        copy.delete()
    assert login(box, "root@ssh.test", "echo", "original").stdout == "original\n"


@pytest.mark.parametrize(("change", "field"), [
    ({"domains": ["*.test"]}, "domains"), ({"domains": []}, "domains"), ({"ports": ["20-30"]}, "ports"), ({"ports": [1, 2, 3, 4, 5]}, "ports"),
    ({"protocol": "tls"}, "protocol"), ({"paths": ["/"]}, "protocol")])
def test_a_rule_with_a_key_is_about_whole_names_and_single_ports(walled, servers, change, field):
    rule = ssh_rule(servers, "secret://NONE")
    with pytest.raises(ClocheError, match=rf"rules\[0\]\.match\.{field}"):
        walled({"rules": [{**rule, "match": {**rule["match"], **change}}]})


def test_what_is_no_key_is_refused_by_name(walled, servers, keep, tmp_path):
    key, path = servers.user_key()
    locked = tmp_path / "locked"
    locked.write_text(key)
    locked.chmod(0o600)
    subprocess.run(["ssh-keygen", "-q", "-p", "-P", "", "-N", "12345", "-f", str(locked)], check=True, stdout=subprocess.DEVNULL)
    for value, words in ((locked.read_text(), "has a passphrase"), ("no key", "is no private key"), (path.with_name(path.name + ".pub").read_text(), "is no private key")):
        with pytest.raises(ClocheError, match=words):
            walled({"rules": [ssh_rule(servers, keep("BROKEN", value))]})
    with pytest.raises(ClocheError, match="no secret 'ABSENT'"):
        walled({"rules": [ssh_rule(servers, "secret://ABSENT")]})
    for host_key in ("ssh-ed25519", "ssh-ed25519 AAAA", "ssh-dss AAAAB3NzaC1kc3MAAAAA", servers.host_key().replace("ssh-ed25519", "ssh-rsa", 1)):
        rule = ssh_rule(servers, keep("FINE", key))
        rule["action"]["ssh"]["host_keys"] = [host_key]
        with pytest.raises(ClocheError, match=r"host_keys\[0\]"):
            walled({"rules": [rule]})


def test_a_secret_for_some_hosts_is_used_with_those_alone(walled, servers, keep):
    key, _ = servers.user_key()
    reference = keep("BOUND", key, hosts=["ssh.test"])
    assert login(walled({"rules": [ssh_rule(servers, reference)]}), "root@ssh.test", "true").exit_code == 0
    with pytest.raises(ClocheError, match="may not be sent to 'twin.test'"):
        walled({"rules": [ssh_rule(servers, reference, "twin.test")]})
