# SPDX-License-Identifier: Apache-2.0
"""E2B's client that is given a domain and a key, and nothing else: it computes https://api.DOMAIN and https://PORT-ID.DOMAIN by itself."""

import json
import os
import subprocess
import sys

import pytest
from harness.certificates import Authority
from harness.daemon import Daemon
from harness.running import running

pytest.importorskip("e2b")
DOMAIN = "box.test"
CREATE = """
import json
from e2b_code_interpreter import Sandbox
print(json.dumps({"id": Sandbox.create(timeout=120).sandbox_id}))
"""
USE = """
import json, os, ssl, sys, urllib.request
from e2b import NotFoundException
from e2b_code_interpreter import Sandbox

said, box = {}, Sandbox.connect(sys.argv[1])
said["host"] = box.get_host(8000)
said["command"] = box.commands.run("echo $HOME").stdout
box.files.write("x.txt", "by name")
said["file"] = box.files.read("x.txt")
said["code"] = box.run_code("6 * 7").text
said["listed"] = box.sandbox_id in [one.sandbox_id for one in Sandbox.list().next_items()]
box.commands.run("python3 -m http.server 8000 --bind 127.0.0.1 --directory .", background=True)
box.commands.run("until (echo > /dev/tcp/127.0.0.1/8000) 2>/dev/null; do sleep 0.05; done", timeout=60)
trusted = ssl.create_default_context(cafile=os.environ["SSL_CERT_FILE"])
said["preview"] = urllib.request.urlopen(f"https://{box.get_host(8000)}/x.txt", context=trusted).read().decode()
box.kill()
try:
    Sandbox.connect(box.sandbox_id)
except NotFoundException as error:
    said["gone"] = str(error)
print(json.dumps(said))
"""


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def named(authority):
    pair = authority.issue(DOMAIN, f"*.{DOMAIN}")
    with running(Daemon("--preview-domain", DOMAIN, "--tls-cert", str(pair), "--tls-key", str(pair), "--pool-max", "0")) as daemon:
        yield daemon


def run(program, words, settings, hosts):
    """Runs it where /etc/hosts is a file of the test's. That knows no wildcards, and the client reads it once: so what makes a sandbox is another program than
    what uses it."""
    script = 'mount --bind "$0" /etc/hosts && exec "$@"'
    done = subprocess.run(["unshare", "--mount", "--propagation", "private", "sh", "-c", script, str(hosts), sys.executable, "-c", program, *words],
                          env={**os.environ, **settings}, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_a_domain_and_a_key_are_all_that_the_client_is_told(named, authority, tmp_path):
    settings = {"E2B_DOMAIN": f"{DOMAIN}:{named.port}", "E2B_API_KEY": f"e2b_{named.key.removeprefix('clo_')}", "SSL_CERT_FILE": str(authority.cert)}
    assert not {"E2B_API_URL", "E2B_SANDBOX_URL"} & set(os.environ)
    hosts = tmp_path / "hosts"
    hosts.write_text(f"127.0.0.1 localhost api.{DOMAIN}\n")
    sandbox = run(CREATE, [], settings, hosts)["id"]
    hosts.write_text(f"127.0.0.1 localhost api.{DOMAIN} " + " ".join(f"{port}-{sandbox}.{DOMAIN}" for port in (49983, 49999, 8000)) + "\n")
    said = run(USE, [sandbox], settings, hosts)
    assert said.pop("host").endswith(f".{DOMAIN}:{named.port}") and said.pop("gone")
    assert said == {"command": "/home/user\n", "file": "by name", "code": "42", "listed": True, "preview": "by name"}


def ask(daemon, authority, path, host):
    done = subprocess.run(["curl", "-s", "--cacert", str(authority.cert), "-w", "\n%{http_code}", "-H", f"X-API-Key: {daemon.key}",
                           "--resolve", f"{host}:{daemon.port}:127.0.0.1", f"https://{host}:{daemon.port}{path}"], capture_output=True, text=True, check=True)
    body, _, status = done.stdout.rpartition("\n")
    return int(status), body


def test_the_api_s_name_has_e2b_s_paths_and_no_other(named, authority):
    assert ask(named, authority, "/v2/sandboxes", "api." + DOMAIN) [0] == 200
    assert ask(named, authority, "/v2/sandboxes", "API.Box.Test")[0] == 200
    for path in ("/", "/v1/sandboxes", "/nothing", "/mcp", "/dashboard/"):
        status, body = ask(named, authority, path, "api." + DOMAIN)
        assert status == 404 and json.loads(body)["code"] == 404, (path, body)
    for name in ("apis", "x", "1-api"):  # sandboxes' names, of which there are none
        assert ask(named, authority, "/v2/sandboxes", f"{name}.{DOMAIN}")[0] == 401, name


LOST = """
from e2b import Sandbox
box = Sandbox.create(timeout=120)
try:
    box.commands.run("true")
except Exception as error:
    print(error)
print(box.get_host(3000))
box.kill()
"""


def test_a_client_that_was_told_half_sends_nothing_to_e2b_and_hears_what_is_missing(daemon):
    """It would compute a name of E2B's own, and show the sandbox's token there."""
    settings = {"E2B_API_URL": daemon.url, "E2B_API_KEY": f"e2b_{daemon.key.removeprefix('clo_')}"}
    env = {name: value for name, value in os.environ.items() if not name.startswith("E2B_")}
    done = subprocess.run([sys.executable, "-c", LOST], env={**env, **settings}, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    error, host = done.stdout.strip().rsplit("\n", 1)
    assert "set-e2b-sandbox-url-or-preview-domain.invalid" in error
    assert host.endswith(".set-e2b-sandbox-url-or-preview-domain.invalid")


def test_a_client_that_came_by_a_name_keeps_its_own_domain():
    """A proxy of the operator's knows names that the daemon does not."""
    with running(Daemon("--host", "api.example.com", "--pool-max", "0")) as daemon:
        words = ["curl", "-s", "-H", f"X-API-Key: {daemon.key}", "-H", "Content-Type: application/json", "-d", '{"templateID": "base"}', f"{daemon.url}/v2/sandboxes"]
        made = [json.loads(subprocess.run([*words, "-H", f"Host: {host}"], capture_output=True, check=True).stdout) for host in ("api.example.com", "127.0.0.1")]
        assert [one["domain"] for one in made] == [None, "set-e2b-sandbox-url-or-preview-domain.invalid"], made
        for one in made:
            subprocess.run(["curl", "-s", "-X", "DELETE", "-H", f"X-API-Key: {daemon.key}", f"{daemon.url}/sandboxes/{one['sandboxID']}"], check=True)
