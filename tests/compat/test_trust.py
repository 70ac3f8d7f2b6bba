# SPDX-License-Identifier: Apache-2.0
"""Names and TLS without a certificate of the operator's: a daemon with a preview domain, E2B's published clients, and between them what `cloche trust` prints."""

import json
import os
import shutil
import ssl
import stat
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from harness.certificates import NEW_KEY
from harness.daemon import BUILD, Daemon
from harness.running import running
from harness.wildcard_dns import WildcardDns

DOMAIN = "box.test"
HERE = Path(__file__).parent
needs_npm = pytest.mark.skipif(not shutil.which("npm"), reason="this host has no npm")


@pytest.fixture(scope="module")
def named():
    with running(Daemon("--preview-domain", DOMAIN, "--pool-max", "0")) as daemon:
        yield daemon


def plain():
    """The environment of somebody who has set nothing."""
    return {k: v for k, v in os.environ.items() if not k.startswith(("E2B_", "CLOCHE_", "SSL_CERT", "NODE_", "REQUESTS_"))}


def trust(daemon, home, *words, ok=True):
    env = {**plain(), "HOME": str(home), "CLOCHE_URL": daemon.url, "CLOCHE_API_KEY": daemon.key}
    env.pop("XDG_CONFIG_HOME", None)
    done = subprocess.run([BUILD / "cloche", "trust", *words], env=env, capture_output=True, text=True, timeout=30)
    assert (done.returncode == 0) == ok, done.stderr
    return done.stdout if ok else done.stderr


def variables(lines):
    """What a shell has after it has run the lines."""
    done = subprocess.run(["env", "-i", "sh", "-euc", f"{lines}\nenv -0"], capture_output=True, text=True, check=True)
    return dict(one.split("=", 1) for one in done.stdout.split("\0") if one)


@pytest.mark.parametrize("words, program", [([sys.executable], "by_name.py"), pytest.param(["node"], "by_name.mjs", marks=needs_npm)], ids=["python", "js"])
def test_what_is_printed_is_all_that_e2b_s_client_needs(named, request, tmp_path, words, program):
    if program.endswith(".py"):
        pytest.importorskip("e2b_code_interpreter")
        cwd = tmp_path
        shutil.copy(HERE / "e2b" / program, cwd)
    else:
        cwd = request.getfixturevalue("project") / "e2b"
    resolver = tmp_path / "resolv.conf"
    script = 'mount --bind "$0" /etc/resolv.conf && eval "$LINES" && unset LINES && exec "$@"'
    with WildcardDns(DOMAIN) as dns:
        resolver.write_text(f"nameserver {dns.address}\n")
        done = subprocess.run(["unshare", "--mount", "--propagation", "private", "sh", "-euc", script, str(resolver), *words, program], cwd=cwd,
                              env={**plain(), "LINES": trust(named, tmp_path)}, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout.splitlines()[-1])
    assert said.pop("host").endswith(f".{DOMAIN}:{named.port}")
    assert said == {"command": "/home/user\n", "file": "by name", "code": "42", "preview": "by name"}


def test_a_program_trusts_what_it_did_before_too(named, tmp_path):
    """SSL_CERT_FILE takes the place of the system's certificates, so it has them."""
    told = variables(trust(named, tmp_path))
    own, bundle = Path(told["NODE_EXTRA_CA_CERTS"]).read_text(), Path(told["SSL_CERT_FILE"]).read_text()
    assert own.count("BEGIN CERTIFICATE") == 1 and bundle.endswith(own) and told["REQUESTS_CA_BUNDLE"] == told["SSL_CERT_FILE"]
    system = Path("/etc/ssl/certs/ca-certificates.crt")
    if system.exists():
        assert bundle.startswith(system.read_text())
    assert own == trust(named, tmp_path, "--pem")
    assert "E2B_API_KEY" not in variables(trust(named, tmp_path, "--no-key"))


def get(url, **words):
    return urllib.request.urlopen(urllib.request.Request(url), timeout=30, **words).read()


def test_one_port_speaks_tls_and_plain_http(named, tmp_path):
    told = json.loads(get(f"{named.url}/v1/authority"))  # without a key
    assert told["domain"] == DOMAIN and told["address"] == f"{DOMAIN}:{named.port}" and told["expires_us"]
    (tmp_path / "ca.pem").write_text(told["certificates"])
    words = ["curl", "-s", "-o", tmp_path / "body", "-w", "%{http_code} %{ssl_verify_result}", "--resolve", f"api.{DOMAIN}:{named.port}:127.0.0.1",
             "-H", f"X-API-Key: {named.key}", f"https://api.{DOMAIN}:{named.port}/v2/sandboxes"]
    assert subprocess.run([*words, "--cacert", tmp_path / "ca.pem"], capture_output=True, text=True).stdout == "200 0"
    assert subprocess.run(words, capture_output=True, text=True).stdout.startswith("000 ")  # nobody trusts it who was not told
    (tmp_path / "body").unlink()


def sign(directory, key_and_cert, *names):
    """A certificate for the names, signed with the authority's own key: what a thief could make."""
    ca, leaf, request, extensions = (directory / name for name in ("thief.pem", "leaf.pem", "leaf.csr", "leaf.ext"))
    ca.write_text(key_and_cert)
    extensions.write_text(f"subjectAltName={','.join(names)}\nkeyUsage=critical,digitalSignature\nextendedKeyUsage=serverAuth\n")
    subprocess.run(["openssl", "req", "-new", *NEW_KEY, "-subj", "/O=thief", "-keyout", directory / "leaf.key", "-out", request], check=True, capture_output=True)
    subprocess.run(["openssl", "x509", "-req", "-in", request, "-CA", ca, "-CAkey", ca, "-CAcreateserial", "-extfile", extensions, "-days", "2", "-out", leaf],
                   check=True, capture_output=True)
    return leaf


def verified(directory, leaf, *words):
    return subprocess.run(["openssl", "verify", "-CAfile", directory / "ca.pem", "-purpose", "sslserver", "-x509_strict", *words, leaf], capture_output=True, text=True)


def test_the_authority_s_own_key_makes_nobody_another_site(named, tmp_path):
    """openssl is the judge; the certificate for a name below the domain shows that only the name was wrong with the others."""
    file = Path(named.data) / "authority" / f"{DOMAIN}.pem"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600 and stat.S_IMODE(file.parent.stat().st_mode) == 0o700 and file.stat().st_uid == 0
    (tmp_path / "ca.pem").write_text(trust(named, tmp_path, "--pem"))
    good = sign(tmp_path, file.read_text(), f"DNS:3000-abc.{DOMAIN}", f"DNS:{DOMAIN}")
    assert verified(tmp_path, good, "-verify_hostname", f"3000-abc.{DOMAIN}").returncode == 0
    for names in (["DNS:example.com"], [f"DNS:a.{DOMAIN}", "DNS:example.com"], [f"DNS:not{DOMAIN}"], ["DNS:test"], ["IP:127.0.0.1"], ["IP:::1"], ["IP:192.0.2.1"]):
        said = verified(tmp_path, sign(tmp_path, file.read_text(), *names))
        assert said.returncode != 0 and ("permitted subtree violation" in said.stderr or "excluded subtree violation" in said.stderr), (names, said)
    assert verified(tmp_path, good, "-purpose", "sslclient").returncode != 0


def test_names_below_localhost_need_no_resolver(tmp_path):
    """Clients take no wildcard directly below localhost: each name has a certificate of its own. curl and E2B's Python client resolve them by themselves."""
    with running(Daemon("--preview-domain", "localhost", "--pool-max", "0")) as daemon:
        lines = trust(daemon, tmp_path)
        told = variables(lines)
        assert told["E2B_DOMAIN"] == f"localhost:{daemon.port}" and "libnss-myhostname" in lines
        words = ["curl", "-s", "-w", "%{http_code}", "-o", tmp_path / "body", "-H", f"X-API-Key: {daemon.key}"]
        for name, status in (("api", "200"), ("3000-" + "a" * 26, "401")):
            done = subprocess.run([*words, "--cacert", told["SSL_CERT_FILE"], f"https://{name}.localhost:{daemon.port}/v2/sandboxes"], capture_output=True, text=True)
            assert done.stdout == status, done
        pytest.importorskip("e2b")
        program = "from e2b import Sandbox\nwith Sandbox.create(timeout=120) as box:\n    print(box.commands.run('echo by name').stdout)"
        done = subprocess.run([sys.executable, "-c", program], env={**plain(), **told}, capture_output=True, text=True, timeout=120)
        assert done.stdout.strip() == "by name", done.stderr


def test_a_daemon_without_names_says_what_to_do(daemon, tmp_path):
    with pytest.raises(urllib.error.HTTPError) as refused:
        get(f"{daemon.url}/v1/authority")
    assert refused.value.code == 404 and "--preview-domain" in json.loads(refused.value.read())["error"]["hint"]
    assert "--preview-domain" in trust(daemon, tmp_path, ok=False)


def test_a_restart_keeps_the_authority_and_a_domain_that_is_none_is_refused(named, tmp_path):
    before = trust(named, tmp_path, "--pem")
    named.stop()
    named.start()
    assert trust(named, tmp_path, "--pem") == before
    done = subprocess.run([BUILD / "cloche", "serve", "--data", tmp_path / "data", "--run", tmp_path / "run", "--preview-domain", "box.test,DNS:example.com"],
                          capture_output=True, text=True)
    assert done.returncode == 2 and "preview.domain" in done.stderr and "is not a host name" in done.stderr
    assert ssl.PEM_cert_to_DER_cert(before)


def test_the_usual_port_of_tls_is_in_no_name(tmp_path):
    """Else what compares URLs as texts, such as a mock of a client's, finds two that are the same."""
    daemon = Daemon("--preview-domain", DOMAIN, "--pool-max", "0", prefix=["unshare", "-n", "sh", "-c", 'ip link set lo up && exec "$@"', "sh"])
    daemon.port = 443
    with running(daemon):
        daemon.url = f"unix:{daemon.socket}"
        assert variables(trust(daemon, tmp_path))["E2B_DOMAIN"] == DOMAIN
