# SPDX-License-Identifier: Apache-2.0
"""Keys for SSH that stay outside: what a sandbox whose root is hostile can make of the socket that signs with them. Each attempt has a control: the same lie
told to a plain ssh-agent that holds the key logs in, or gets its signature."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from harness.daemon import PATIENCE, wait_for
from harness.internet import HUB
from harness.ssh_servers import SshServers, ssh_rule

pytestmark = pytest.mark.jail("vms of this suite have no ssh inside")
ATTEMPTS = Path(__file__).resolve().parent.parent / "harness" / "ssh_attempts.py"
INSIDE = "/tmp/attempts.py"
SIGNED, REFUSED = 14, 5
# the servers by their addresses, so that ssh inside believes whatever key they have; both take the key
TO = {"ssh.test": ["-p", "22"], "twin.test": ["-p", "2222"]}
WAY_TO_TWIN = {"match": {"cidrs": [f"{HUB}/32"], "ports": [22, 2222]}, "action": "allow"}


def words(host, user="root"):
    options = ["-o", "BatchMode=yes", "-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null"]
    return ["ssh", *options, *TO[host], f"{user}@{HUB}", "echo in"]


@pytest.fixture(scope="module")
def servers(internet):
    servers = SshServers(internet)
    yield servers
    servers.close()


@pytest.fixture(scope="module")
def key(servers):
    return servers.user_key("rsa")


@pytest.fixture
def box(walled, walled_client, servers, key):
    walled_client.set_secret("SSH_ABUSE", key[0])
    box = walled({"rules": [ssh_rule(servers, "secret://SSH_ABUSE"), WAY_TO_TWIN]})
    box.sandbox.files.write(INSIDE, ATTEMPTS.read_bytes())
    yield box
    walled_client.delete_secret("SSH_ABUSE", force=True)


@pytest.fixture(scope="module")
def agent(tmp_path_factory, key):
    """The socket of a plain ssh-agent that has the key."""
    path = tmp_path_factory.mktemp("agent") / "socket"
    process = subprocess.Popen(["ssh-agent", "-D", "-a", str(path)], stdout=subprocess.DEVNULL)
    wait_for(path.exists, 20 * PATIENCE)
    subprocess.run(["ssh-add", "-q", str(key[1])], env={**os.environ, "SSH_AUTH_SOCK": str(path)}, check=True)
    yield path
    process.terminate()
    process.wait(20 * PATIENCE)


def attempt(box, lie, *argv):
    done = box.sandbox.run(["sudo", "-E", "python3", "-S", INSIDE, lie, "/tmp/record", *argv], timeout=60 * PATIENCE)
    assert done.exit_code == 0, done.stderr
    return json.loads(done.stdout)


def control(internet, agent, tmp_path, lie, *argv):
    done = internet.run("env", f"SSH_AUTH_SOCK={agent}", sys.executable, "-S", str(ATTEMPTS), lie, str(tmp_path / "record"), *argv)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_N33_the_key_opens_no_host_but_its_own(internet, box, agent, tmp_path):
    assert attempt(box, "honest", *words("ssh.test"))["said"] == "in\n"
    assert control(internet, agent, tmp_path, "honest", *words("ssh.test"))["said"] == "in\n"
    for lie in ("unbound", "replayed", "forged", "crossed", "honest"):
        assert control(internet, agent, tmp_path, lie, *words("twin.test"))["said"] == "in\n", lie
        got = attempt(box, lie, *words("twin.test"))
        assert got["exit"] == 255 and "Permission denied" in got["error"] and SIGNED not in got["answers"], lie
    assert attempt(box, "unbound", *words("twin.test"))["answers"] == [REFUSED]  # it was asked


def test_N33_the_key_is_for_the_named_users_and_for_logins_alone(internet, box, servers, agent, tmp_path):
    assert attempt(box, "honest", *words("ssh.test"))["said"] == "in\n"
    assert control(internet, agent, tmp_path, "honest", *words("ssh.test"))["said"] == "in\n"
    assert control(internet, agent, tmp_path, "honest", *words("ssh.test", "backup"))["answers"] == [SIGNED]
    assert "Accepted publickey for backup" in servers.log()
    n = servers.log().count("Accepted publickey for backup")
    assert attempt(box, "honest", *words("ssh.test", "backup"))["answers"] == [REFUSED]
    for lie in ("foreign", "behind", "service", "sha1"):
        assert control(internet, agent, tmp_path, lie, *words("ssh.test"))["answers"] == [SIGNED], lie
        assert attempt(box, lie, *words("ssh.test"))["answers"] == [REFUSED], lie
    assert attempt(box, "forwarded", *words("ssh.test"))["exit"] == 255
    assert servers.log().count("Accepted publickey for backup") == n


def test_N33_a_rule_that_denies_the_host_stops_its_key(walled_client, box, servers):
    rules = [ssh_rule(servers, "secret://SSH_ABUSE"), WAY_TO_TWIN]
    box.sandbox.set_network({"deny": ["ssh.test"], "rules": rules})
    assert attempt(box, "honest", *words("ssh.test"))["answers"] == [REFUSED]
    box.sandbox.set_network({"rules": rules})
    assert attempt(box, "honest", *words("ssh.test"))["answers"] == [SIGNED]
    reasons = {e["data"]["reason"] for e in walled_client.events(sandbox=box.sandbox.id, type="policy.decided")}
    assert {"a rule denies it", "a login by SSH was signed"} <= reasons


def test_N33_a_flood_of_requests_is_slowed_and_holds_up_nobody(walled, box, servers):
    flood = """import os, socket, struct
s = socket.socket(socket.AF_UNIX); s.connect(os.environ["SSH_AUTH_SOCK"])
name = b"session-bind@openssh.com"
m = bytes([27]) + struct.pack(">I", len(name)) + name
for i in range(400):
    s.sendall(struct.pack(">I", len(m)) + m); s.recv(5)
for bad in (b"\\xff\\xff\\xff\\xff", b"\\0\\0\\0\\0", b"\\0\\0\\0\\1\\x0b" * 40):
    s = socket.socket(socket.AF_UNIX); s.connect(os.environ["SSH_AUTH_SOCK"])
    try: s.sendall(bad); s.recv(1 << 16)
    except OSError: pass
print("done")"""
    assert box.sandbox.run(["python3", "-c", flood], timeout=60 * PATIENCE).stdout == "done\n"
    other = walled({"rules": [ssh_rule(servers, "secret://SSH_ABUSE")]})
    assert other.sandbox.run(["ssh", "-o", "BatchMode=yes", "root@ssh.test", "echo in"]).stdout == "in\n"
    wait_for(lambda: attempt(box, "honest", *words("ssh.test"))["said"] == "in\n", 20 * PATIENCE)


def test_N34_the_key_is_read_by_no_route(walled_client, box, key):
    assert attempt(box, "honest", *words("ssh.test"))["said"] == "in\n"
    lines = [line for line in key[0].splitlines() if "KEY" not in line]
    piece = lines[len(lines) // 2]
    assert key[0].count(piece) == 1
    look = f"""import os, re
want, seen, found = re.compile(re.escape(b"{piece[19::-1]}"[::-1]) + b"|BEGIN OPENSSH PRIV" + b"ATE"), 0, []  # backwards: this text is in lists of processes
for top in ("/etc", "/run", "/tmp", "/home", "/root", "/var", "/opt"):
    for folder, _, names in os.walk(top):
        for name in names:
            try: data = open(os.path.join(folder, name), "rb").read(1 << 20)
            except OSError: continue
            seen += 1
            if want.search(data): found.append(os.path.join(folder, name))
for pid in filter(str.isdigit, os.listdir("/proc")):
    if int(pid) == os.getpid(): continue
    for name in ("environ", "cmdline", "maps"):
        try: text = open(f"/proc/{{pid}}/{{name}}", "rb").read()
        except OSError: continue
        seen += 1
        if want.search(text): found.append((pid, name))
        if name != "maps": continue
        for line in text.splitlines():
            first, last = (int(n, 16) for n in line.split()[0].split(b"-"))
            try:
                with open(f"/proc/{{pid}}/mem", "rb") as mem:
                    mem.seek(first)
                    if want.search(mem.read(min(last - first, 8 << 20))): found.append((pid, first))
            except (OSError, ValueError, OverflowError): pass
print(seen > 20, found)"""
    assert box.sandbox.run(["sudo", "python3", "-S", "-c", look], timeout=60 * PATIENCE).stdout == "True []\n"
    planted = "open('/tmp/planted', 'w').write(" + repr(piece) + ")"
    box.sandbox.run(["python3", "-c", planted])
    assert "/tmp/planted" in box.sandbox.run(["sudo", "python3", "-S", "-c", look], timeout=60 * PATIENCE).stdout  # it finds what is there
    told = [box.sandbox.network(), walled_client.events(sandbox=box.sandbox.id), walled_client.secrets(), walled_client.list()]
    assert piece not in "".join(repr(list(t) if not isinstance(t, dict) else t) for t in told)


def test_N34_a_key_in_a_policy_itself_is_never_shown(walled, walled_client, servers, key):
    box = walled({"rules": [ssh_rule(servers, key[0])]})
    assert box.sandbox.network()["policy"]["rules"][0]["action"]["ssh"]["key"] == "<redacted>"
    assert box.sandbox.run(["ssh", "-o", "BatchMode=yes", "root@ssh.test", "echo in"]).stdout == "in\n"
