# SPDX-License-Identifier: Apache-2.0
"""TLS that the wall looks into, because a rule asks for what is inside: real clients accept it, rules about requests
hold, and servers have to prove who they are."""

import importlib.util
import io
import json
import os
import signal
import tarfile
from pathlib import Path

import pytest
from harness.daemon import PATIENCE, wait_for
from harness.internet import ALLOWED

KEY = "sk-5ecret-0123456789"
INJECT = {"match": {"domains": ["allowed.test"]}, "action": {"transform": {"headers": {"authorization": f"Bearer {KEY}"}}}}
CLIENTS = {
    "curl": ["curl", "-sS", "https://allowed.test/curl"],
    "python": ["python3", "-c", "import urllib.request as u; print(u.urlopen('https://allowed.test/python').read().decode())"],
    "python-without-variables": ["env", "-i", "/usr/bin/python3", "-c", "import urllib.request as u; print(u.urlopen('https://allowed.test/bare').read().decode())"],
    "openssl": ["sh", "-c", "printf 'GET /openssl HTTP/1.1\\r\\nHost: allowed.test\\r\\nConnection: close\\r\\n\\r\\n' | openssl s_client -quiet -verify_return_error -connect allowed.test:443 -servername allowed.test -ign_eof 2>/dev/null | tail -n 1"],
    "node": ["node", "-e", "fetch('https://allowed.test/node').then(r => r.text()).then(console.log)"],
}


@pytest.mark.parametrize("argv", CLIENTS.values(), ids=CLIENTS.keys())
def test_a_client_inside_accepts_what_the_wall_shows_and_its_request_gets_the_field(walled, argv):
    box = walled({"rules": [INJECT]})
    done = box.sandbox.run(argv, timeout=30 * PATIENCE)
    assert done.exit_code == 0, done.stderr
    seen = json.loads(done.stdout)
    assert (seen["host"], seen["address"], seen["alpn"]) == ("allowed.test", ALLOWED, "http/1.1")
    assert seen["fields"]["authorization"] == f"Bearer {KEY}"


# Libraries that look elsewhere than the system does: only variables lead them to what is installed.
REQUESTS = "import requests; print(requests.get('https://allowed.test/requests').text)"
HTTPX = "import httpx; print(httpx.get('https://allowed.test/httpx', timeout=300).text)"
URLLIB3 = "import urllib3; print(urllib3.PoolManager().request('GET', 'https://allowed.test/urllib3').data.decode())"


@pytest.fixture(scope="session")
def libraries():
    """What pip has installed for the tests, certifi's own bundle included, as an archive."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for name in ("requests", "httpx", "urllib3", "certifi", "idna", "charset_normalizer", "httpcore", "h11", "anyio", "typing_extensions"):
            place = Path(importlib.util.find_spec(name).origin)
            place = place.parent if place.name == "__init__.py" else place
            tar.add(place, place.name, filter=lambda entry: None if entry.name.endswith("__pycache__") else entry)
    return out.getvalue()


def keys_seen(text):
    return [json.loads(line)["fields"]["authorization"] for line in text.splitlines()]


@pytest.mark.slow
def test_libraries_with_a_store_of_their_own_accept_it_too(walled, libraries):
    box = walled({"rules": [INJECT]})
    box.sandbox.files.mkdir("/tmp/lib")
    box.sandbox.files.tar_in("/tmp/lib", libraries)
    lib = {"PYTHONPATH": "/tmp/lib"}
    done = box.sandbox.run(["python3", "-S", "-c", "; ".join((REQUESTS, HTTPX, URLLIB3))], env=lib, timeout=30 * PATIENCE)
    assert keys_seen(done.stdout) == [f"Bearer {KEY}"] * 3, done.stderr
    done = box.sandbox.run(["sudo", "PYTHONPATH=/tmp/lib", "python3", "-S", "-c", REQUESTS], timeout=30 * PATIENCE)
    assert keys_seen(done.stdout) == [f"Bearer {KEY}"], done.stderr
    assert keys_seen(box.sandbox.run_code("import sys; sys.path.insert(0, '/tmp/lib'); " + REQUESTS).stdout) == [f"Bearer {KEY}"]
    # The control: it is the variables that lead there.
    bare = box.sandbox.run(["env", "-i", "PYTHONPATH=/tmp/lib", "/usr/bin/python3", "-S", "-c", REQUESTS], timeout=30 * PATIENCE)
    assert "CERTIFICATE_VERIFY_FAILED" in bare.stderr


def curl(box, url, *options):
    """(status, body) as curl inside has it, or (0, its words)."""
    done = box.sandbox.run(["curl", "-sS", "-w", "\n%{http_code}", *options, url], timeout=30 * PATIENCE)
    if done.exit_code != 0:
        return 0, done.stderr
    body, _, status = done.stdout.rpartition("\n")
    return int(status), json.loads(body) if body.startswith("{") else body


def decisions(client, sandbox, **facts):
    events = client.events(sandbox=sandbox.id, type="policy.decided")
    return [e["data"] for e in events if all(e["data"].get(k) == v for k, v in facts.items())]


def test_git_and_apt_accept_it_too(walled, internet):
    box = walled({"rules": [INJECT]})
    assert box.sandbox.run(["git", "ls-remote", "https://allowed.test/repo.git"]).stdout.endswith("refs/heads/main\n")
    assert box.sandbox.run(["/usr/lib/apt/apt-helper", "download-file", "https://allowed.test/apt", "/tmp/apt"]).exit_code == 0
    assert {e["fields"]["authorization"] for e in internet.log() if e.get("path") in ("/apt", "/repo.git/info/refs")} == {f"Bearer {KEY}"}


def test_code_in_a_context_accepts_it_too(walled):
    box = walled({"rules": [INJECT]})
    code = "import urllib.request as u; print(u.urlopen('https://allowed.test/code').status)"
    assert box.sandbox.run_code(code).stdout == "200\n"
    node = "console.log((await fetch('https://allowed.test/code')).status)"
    assert box.sandbox.run_code(node, language="javascript").stdout == "200\n"


def test_a_policy_can_leave_what_it_denies_without_an_answer(walled, walled_client):
    """For programs that only look at an exit status. The control: the same policy with answers."""
    inside = {"domains": ["allowed.test"], "methods": ["GET"]}
    tries = [("https://denied.test/",), ("http://denied.test/",), ("https://198.51.100.7/",), ("https://allowed.test/", "-X", "DELETE"), ("https://allowed.test/", "-X", "DELETE", "--http2-prior-knowledge")]
    for refusals, status in (("reset", 0), ("answer", 403)):
        box = walled({"rules": [{"match": inside, "action": "allow"}], "refusals": refusals})
        assert [curl(box, *one)[0] for one in tries] == [status] * len(tries)
        assert curl(box, "https://allowed.test/x")[0] == 200
        assert len(decisions(walled_client, box.sandbox, verdict="denied")) >= len(tries)


def test_methods_and_paths_inside_of_tls_are_judged_request_by_request(walled, internet):
    match = {"domains": ["allowed.test"], "methods": ["GET"], "paths": [{"prefix": "/v1/"}]}
    box = walled({"rules": [{"match": match, "action": "allow"}]})
    assert curl(box, "https://allowed.test/v1/x")[0] == 200
    assert curl(box, "https://allowed.test/v1/x", "-X", "DELETE")[0] == 403
    both = box.sandbox.run(["curl", "-sS", "-o", "/dev/null", "-o", "/dev/null", "-w", "%{http_code} ", "https://allowed.test/v1/y", "https://allowed.test/v2"])
    assert both.stdout == "200 403 "
    assert not internet.seen("request", path="/v2") and not internet.seen("request", path="/v1/x", method="DELETE")


def test_a_host_without_such_a_rule_is_passed_on_untouched(walled):
    box = walled({"rules": [INJECT], "allow": ["other.test"]})
    shown = "openssl s_client -connect {0}:443 -servername {0} </dev/null 2>/dev/null | openssl x509 -noout -issuer"
    assert "test good" in box.sandbox.run(["sh", "-c", shown.format("other.test")]).stdout
    assert box.sandbox.id in box.sandbox.run(["sh", "-c", shown.format("allowed.test")]).stdout


def test_a_body_of_many_records_passes_both_ways(walled):
    box = walled({"rules": [INJECT]})
    program = """if 1:
        import json, random, urllib.request
        sent = random.randbytes(300_000).hex()
        seen = json.load(urllib.request.urlopen("https://allowed.test/large", data=sent.encode()))
        print(seen["body"] == sent)
    """
    assert box.sandbox.run(["python3", "-c", program], timeout=30 * PATIENCE).stdout == "True\n"


def test_events_pass_one_by_one_as_they_come(walled):
    program = """if 1:
        import urllib.request as u
        stream = u.urlopen("https://allowed.test/events", timeout=60)
        print(stream.readline(), stream.readline(), u.urlopen("https://allowed.test/next").status, stream.read())
    """
    said = walled({"rules": [INJECT]}).sandbox.run(["python3", "-S", "-c", program], timeout=90 * PATIENCE)
    assert said.stdout == "b'data: first\\n' b'\\n' 200 b'data: second\\n\\n'\n", said.stderr


def test_a_rule_replies_in_place_of_a_host_by_tls(walled):
    respond = {"respond": {"status": 418, "content_type": "text/plain", "body": "short and stout"}}
    box = walled({"rules": [{"match": {"domains": ["allowed.test"], "paths": ["/tea"]}, "action": respond}], "allow": ["allowed.test"]})
    assert curl(box, "https://allowed.test/tea") == (418, "short and stout")
    assert curl(box, "https://allowed.test/coffee")[0] == 200


@pytest.mark.parametrize("name", ["expired.test", "stranger.test", "wrong.test", "allowed.test:8443"])
def test_a_server_that_does_not_prove_its_name_gets_no_request(walled, walled_client, internet, name):
    box = walled({"rules": [{"match": {"domains": ["*.test"]}, "action": INJECT["action"]}]})
    status, words = curl(box, f"https://{name}/unproven")
    assert (status, "certificate" in words or "TLS" in words) == (502, True), words
    assert not internet.seen("request", path="/unproven")
    failed = wait_for(lambda: decisions(walled_client, box.sandbox, verdict="failed", name=name.split(":")[0]), 10, "its event")
    assert [d["reason"] for d in failed] == [words.split(": ", 1)[1].strip()]
    assert curl(box, "https://allowed.test/proven")[0] == 200


def test_an_address_without_a_name_is_looked_into_by_its_address(walled):
    match = {"cidrs": [f"{ALLOWED}/32"], "methods": ["GET"]}
    box = walled({"rules": [{"match": match, "action": "allow"}]})
    assert curl(box, f"https://{ALLOWED}/")[0] == 200
    assert curl(box, f"https://{ALLOWED}/", "-X", "POST")[0] == 403


def test_a_policy_that_looks_into_tls_may_come_later_and_go_again(walled):
    box = walled("allow-all")
    assert "SSL_CERT_FILE" not in box.sandbox.run(["env"]).stdout
    box.sandbox.set_network({"rules": [INJECT]})
    for argv in CLIENTS.values():
        assert KEY in box.sandbox.run(argv, timeout=30 * PATIENCE).stdout
    assert "SSL_CERT_FILE=/mine" in box.sandbox.run(["env"], env={"SSL_CERT_FILE": "/mine"}).stdout
    box.sandbox.set_network({"allow": ["allowed.test"]})
    assert KEY not in box.sandbox.run(["curl", "-sSk", "https://allowed.test/"]).stdout


IDLE = """if 1:
    import http.client, pathlib
    c = http.client.HTTPSConnection("allowed.test", timeout=600)
    c.request("GET", "/idle")
    c.getresponse().read()
    pathlib.Path("/tmp/idle").touch()
    print(c.sock.recv(1))
"""


def test_a_change_cuts_a_kept_connection_that_it_forbids_and_no_other(walled):
    box = walled({"rules": [INJECT]})
    kept = box.sandbox.start(["python3", "-S", "-c", IDLE])
    wait_for(lambda: box.sandbox.files.exists("/tmp/idle"), 20, "its first request")
    box.sandbox.set_network({"allow": ["allowed.test"]})  # which it could still be used for
    assert kept.refresh().state == "running"
    box.sandbox.set_network({"allow": ["other.test"]})
    assert kept.wait(60 * PATIENCE).state == "exited"


def test_a_policy_that_comes_while_it_is_paused_is_trusted_when_it_goes_on(walled):
    box = walled({"allow": ["allowed.test"]})
    box.sandbox.pause(to="memory")
    box.sandbox.set_network({"rules": [INJECT]})
    box.sandbox.resume()
    wait_for(lambda: curl(box, "https://allowed.test/resumed")[0] == 200, 10, "the certificate inside")


@pytest.mark.slow
def test_killed_walls_and_gateways_change_nothing_that_a_client_has_to_trust(walled, walled_daemon):
    box = walled({"rules": [INJECT]})
    held = "cat /usr/local/share/ca-certificates/cloche.crt | openssl x509 -noout -pubkey -subject -dates"
    before = box.sandbox.run(["sh", "-c", held]).stdout
    assert "BEGIN PUBLIC KEY" in before
    os.kill(walled_daemon.wall_pid, signal.SIGKILL)
    wait_for(lambda: curl(box, "https://allowed.test/after")[0] == 200, 20, "the next wall")
    gateway = walled_daemon.gateway_pid
    os.kill(gateway, signal.SIGKILL)
    wait_for(lambda: walled_daemon.gateway_pid != gateway, 20, "the next gateway")
    wait_for(lambda: box.sandbox.network()["in_force"], 20, "the door")
    wait_for(lambda: curl(box, "https://allowed.test/after")[0] == 200, 20, "the next gateway")
    assert box.sandbox.run(["sh", "-c", held]).stdout == before
    assert box.sandbox.run(["grep", "-c", "issuer of cloche", "/etc/ssl/certs/ca-certificates.crt"]).stdout == "1\n"


def test_a_bundle_that_lies_elsewhere_is_taken_over_whole(walled):
    box = walled("allow-all")
    move = "mkdir -p /etc/pki/tls/certs && mv /etc/ssl/certs/ca-certificates.crt /etc/pki/tls/certs/ca-bundle.crt && cd /etc/pki/tls/certs && grep -c BEGIN ca-bundle.crt; grep -c 'issuer of cloche' ca-bundle.crt"
    both, ours = map(int, box.sandbox.run(["sh", "-c", move], user="root").stdout.split())
    before = both - ours  # one that was made ahead trusts the issuer of refusals, whose place the sandbox's own takes
    box.sandbox.set_network({"rules": [INJECT]})
    assert curl(box, "https://allowed.test/moved")[0] == 200
    assert int(box.sandbox.run(["grep", "-c", "BEGIN", "/etc/ssl/certs/ca-certificates.crt"]).stdout) == before + 1


def test_what_the_wall_says_itself_is_marked(walled):
    box = walled({"rules": [{"match": {"domains": ["allowed.test", "stranger.test"], "paths": ["/x"]}, "action": "allow"}]})
    for url, kind in (("https://allowed.test/y", "denied"), ("https://stranger.test/x", "failed"), ("https://allowed.test/x", "")):
        assert box.sandbox.run(["curl", "-sS", "-o", "/dev/null", "-w", "%header{x-cloche-wall}", url]).stdout == kind


def test_a_copy_trusts_its_own_issuer_or_none_and_never_its_sources(walled):
    read = "cat /usr/local/share/ca-certificates/cloche.crt; grep -c 'issuer of cloche' /etc/ssl/certs/ca-certificates.crt"
    source = walled({"rules": [INJECT]})
    snapshot = source.sandbox.snapshot()["id"]
    try:
        *of_source, n = source.sandbox.run(read).stdout.splitlines()
        assert of_source and n == "1"
        assert walled(snapshot=snapshot).sandbox.run(read).stdout.split() == ["0"]
        copy = walled({"rules": [INJECT]}, snapshot=snapshot)
        *of_copy, n = copy.sandbox.run(read).stdout.splitlines()
        assert of_copy and of_copy != of_source and n == "1"
        assert curl(copy, "https://allowed.test/")[0] == 200
    finally:
        source.sandbox.client.delete_snapshot(snapshot)
