# SPDX-License-Identifier: Apache-2.0
"""A credential that a rule sets reaches the host that it is for, and nobody else: not the sandbox, not another host, not
whoever reads logs, events or replies (N07, N11, N12, N13, N14, N16). Each attempt has a request beside it that shows that the rule works."""

import base64
import json

import pytest
from cloche import ClocheError
from harness.daemon import PATIENCE
from harness.internet import ALLOWED, OTHER
from harness.walled import parse

KEY = "sk-5ecret-9f8e7d6c5b4a"
FIELD = f"Bearer {KEY}"
SET = {"transform": {"headers": {"authorization": FIELD, "x-auth-key": KEY}}}
POLICY = {"rules": [{"match": {"domains": ["allowed.test"], "methods": ["GET", "POST"], "paths": [{"prefix": "/v1/"}]}, "action": SET}], "allow": ["allowed.test", "other.test"]}

# Sends each text by TLS to an address under a name, with the ALPN given ("-": none); prints what comes back as JSON.
SAY = """if 1:
    import json, socket, ssl, sys
    address, name, alpn, old = sys.argv[1:5]
    context = ssl.create_default_context()
    if alpn != "-":
        context.set_alpn_protocols(alpn.split(","))
    if old != "-":
        context.maximum_version = ssl.TLSVersion.TLSv1_1
        context.minimum_version = ssl.TLSVersion.TLSv1
        context.set_ciphers("ALL:@SECLEVEL=0")
    def say(text):
        with context.wrap_socket(socket.create_connection((address, 443), 10), server_hostname=name) as s:
            s.sendall(text.encode().decode("unicode_escape").encode("latin-1"))
            data = b""
            while part := s.recv(65536):
                data += part
                head, _, body = data.partition(b"\\r\\n\\r\\n")
                length = [v for v in head.lower().split(b"\\r\\n") if v.startswith(b"content-length:")]
                if length and len(body) >= int(length[0].split(b":")[1]):
                    break
            return {"reply": data.decode("latin-1")}
    for text in sys.argv[5:]:
        try:
            print(json.dumps(say(text)))
        except OSError as e:
            print(json.dumps({"error": str(e)}))
"""


def say_all(box, texts, name="allowed.test", address=ALLOWED, alpn="-", old="-"):
    done = box.sandbox.run(["python3", "-S", "-W", "ignore", "-c", SAY, address, name, alpn, old, *texts], timeout=60 * PATIENCE)
    assert done.exit_code == 0, done.stderr
    return [parse(json.loads(line)) for line in done.stdout.splitlines()]


def say(box, text, **how):
    return say_all(box, [text], **how)[0]


def request(path, fields="", method="GET", host="allowed.test"):
    return f"{method} {path} HTTP/1.1\\r\\nHost: {host}\\r\\n{fields}\\r\\n"


def bearers(internet, path):
    return [e["fields"].get("authorization") for e in internet.seen("request", path=path)]


# Neither has the whole key in its own words or memory.
SEARCH_FILES = r"""
    key=$(printf '%s-%s-%s' sk 5ecret 9f8e7d6c5b4a)
    grep -rIls -e "$key" / --exclude-dir=proc --exclude-dir=sys --exclude-dir=usr
    grep -ls -e "$key" /proc/[0-9]*/environ /proc/[0-9]*/cmdline
    true
"""
SEARCH_MEMORY = r"""if 1:
    import re
    found, pattern = 0, re.compile(rb"sk-5\x65cret-9f8[e]7d6c5b4a")
    with open("/proc/self/maps") as maps, open("/proc/self/mem", "rb", 0) as mem:
        for span, mode in (line.split()[:2] for line in maps):
            first, last = (int(x, 16) for x in span.split("-"))
            if mode.startswith("rw"):
                mem.seek(first)
                found += len(pattern.findall(mem.read(last - first)))
    print(found > 0)
"""


def test_N11_an_injected_key_reaches_its_host_and_is_nowhere_inside(walled, walled_client, walled_daemon, internet):
    box = walled(POLICY)
    code = "import urllib.request as u; print(u.urlopen('https://allowed.test/v1/quiet').read())"
    assert box.sandbox.run_code(code).stdout == "b'{}'\n"
    assert bearers(internet, "/v1/quiet") == [FIELD]
    assert box.sandbox.run_code(SEARCH_MEMORY).stdout == "False\n"
    found = box.sandbox.run(["sh", "-c", SEARCH_FILES], user="root", timeout=60 * PATIENCE)
    assert (found.stdout, found.exit_code) == ("", 0), found.stderr
    assert KEY not in json.dumps(box.sandbox.network())
    assert KEY not in json.dumps(list(walled_client.events(sandbox=box.sandbox.id)))
    assert KEY not in walled_daemon.log()
    assert KEY not in str(internet.asked_names())
    # The searches find what is there. This server tells the key in its reply, which is its own affair.
    assert box.sandbox.run_code("kept = u.urlopen('https://allowed.test/v1/loud').read()\n" + SEARCH_MEMORY).stdout == "True\n"
    planted = box.sandbox.run(["sh", "-c", SEARCH_FILES], user="root", env={"PLANTED": KEY}, timeout=60 * PATIENCE)
    assert "environ" in planted.stdout


COPIES = [
    "Authorization: mine\\r\\nX-Auth-Key: mine",
    "aUtHoRiZaTiOn: mine\\r\\nX-AUTH-KEY: mine",
    "X-Auth-Key: mine\\r\\nx-auth-key: yours",
]


def test_N11_the_sandboxs_own_copies_are_dropped(walled):
    box = walled(POLICY)
    for status, seen in say_all(box, [request("/v1/copies", fields + "\\r\\n") for fields in COPIES]):
        assert (status, seen["fields"]["authorization"], seen["fields"]["x-auth-key"]) == (200, FIELD, KEY)
        assert [n.lower() for n in seen["names"]].count("x-auth-key") == 1


REFUSED = {
    "connection-names-the-field": (request("/v1/bad", "Connection: authorization\\r\\n"), 400),
    "trace": (request("/v1/bad", method="TRACE"), 405),
    "connect": (request("other.test:443", method="CONNECT"), 400),
    "h2c": (request("/v1/bad", "Connection: Upgrade, HTTP2-Settings\\r\\nUpgrade: h2c\\r\\nHTTP2-Settings: AAMAAABkAAQAAP__\\r\\n"), 501),
    "upgrade": (request("/v1/bad", "Connection: Upgrade\\r\\nUpgrade: tls/1.3\\r\\n"), 501),
    "another-host": (request("/v1/bad", host="other.test"), 403),
    "absolute-target": (request("https://other.test/v1/bad"), 400),
    "absolute-target-of-the-host": (request("http://allowed.test/v1/bad"), 400),
    "another-port": (request("/v1/bad", host="allowed.test:8443"), 403),
    "two-hosts": (request("/v1/bad", "Host: other.test\\r\\n"), 400),
    "two-lengths": (request("/v1/bad", "Content-Length: 1\\r\\nContent-Length: 2\\r\\n", method="POST"), 400),
    "length-and-chunks": (request("/v1/bad", "Content-Length: 1\\r\\nTransfer-Encoding: chunked\\r\\n", method="POST"), 400),
    "bare-newline": ("GET /v1/bad HTTP/1.1\\nHost: allowed.test\\r\\n\\r\\n", 400),
}


def test_N11_games_with_the_request_are_refused_before_it_is_sent(walled, internet):
    box = walled(POLICY)
    replies = say_all(box, [text for text, _ in REFUSED.values()] + [request("/v1/good")])
    assert dict(zip(REFUSED, (status for status, _ in replies))) == {name: status for name, (_, status) in REFUSED.items()}
    assert replies[-1][0] == 200
    assert not internet.seen("request", path="/v1/bad")


def test_N11_only_what_the_rule_matches_gets_the_field(walled, internet):
    box = walled(POLICY)
    urls = [f"https://allowed.test{p}" for p in ("/v1/first", "/v2/second", "/v1/../v2/third", "/v1/fourth")]
    kept = box.sandbox.run(["curl", "-sS", "--path-as-is", "-w", "%{num_connects}", *(w for u in urls for w in ("-o", "/dev/null", u))])
    assert kept.stdout == "1000", kept.stderr  # one connection for all
    assert [bearers(internet, p)[-1] for p in ("/v1/first", "/v2/second", "/v2/third", "/v1/fourth")] == [FIELD, None, None, FIELD]
    assert say(box, request("/v1/put", "Content-Length: 0\\r\\n", method="PUT"))[1]["fields"].get("authorization") is None


@pytest.mark.parametrize("path", ["/v1/%252e%252e/admin", "/v1/%252E%252E%252Fadmin", "/v1/.%252e/admin", "/v1/%25252e%25252e/admin", "/v1/x%255c..%255c..%255cadmin"])
def test_N31_no_credential_goes_where_a_second_decoding_leads(walled, internet, path):
    box = walled(POLICY)
    status, _ = say(box, request(path))
    assert status in (200, 400, 403) and FIELD not in bearers(internet, path)
    assert say(box, request("/v1/%2520x"))[0] == 200 and FIELD in bearers(internet, "/v1/%2520x")  # what means the same to all keeps it


def test_N11_a_redirect_takes_no_field_along(walled, internet):
    box = walled({"rules": [{"match": {"domains": ["allowed.test"]}, "action": SET}, {"match": {"domains": ["other.test"], "methods": ["GET"]}, "action": "allow"}]})
    followed = box.sandbox.run(["curl", "-sSL", "--location-trusted", "https://allowed.test/redirect"])
    assert followed.exit_code == 0, followed.stderr
    assert json.loads(followed.stdout)["path"] == "/landed"
    assert bearers(internet, "/redirect")[-1] == FIELD
    assert bearers(internet, "/landed")[-1] is None


def test_N11_plain_http_gets_no_field_unless_that_is_said(walled, internet):
    box = walled({"rules": [{"match": {"domains": ["allowed.test"]}, "action": SET}], "allow": ["allowed.test"]})
    assert box.get("allowed.test", "/plain")[0] == 200
    assert bearers(internet, "/plain") == [None]
    assert box.sandbox.explain_network("http://allowed.test/")["strength"] == "host"
    assert box.sandbox.explain_network("https://allowed.test/")["strength"] == "verified"


def test_N07_a_name_at_another_address_leads_to_the_host_of_that_name(walled, internet):
    box = walled(POLICY)
    status, seen = say(box, request("/v1/fronted"), address=OTHER)
    assert (status, seen["address"]) == (200, ALLOWED)


def test_N11_a_rebound_name_gets_no_field(walled, internet):
    box = walled({"rules": [{"match": {"domains": ["other.test"]}, "action": SET}]})
    internet.set_zone({"other.test": ["10.99.0.5"]})
    assert say(box, request("/v1/rebound", host="other.test"), name="other.test")[0] == 403
    internet.set_zone({})
    assert say(box, request("/v1/back", host="other.test"), name="other.test")[0] == 200
    assert not internet.seen("request", path="/v1/rebound")


def test_N14_clients_that_cannot_be_looked_into_are_refused(walled, internet):
    box = walled(POLICY)
    assert say(box, request("/v1/spdy"), alpn="spdy/3")[0] == 0
    assert say(box, request("/v1/both"), alpn="h2,http/1.1")[0] == 200
    assert say(box, request("/v1/old"), old="1.1")[0] == 0
    assert not internet.seen("request", path="/v1/spdy") and not internet.seen("request", path="/v1/old")


def test_N13_a_sandboxs_issuer_is_good_for_that_sandbox_alone_and_has_no_key_inside(walled, walled_daemon):
    first, second = walled(POLICY), walled(POLICY)
    own = "/usr/local/share/ca-certificates/cloche.crt"
    certificate = first.sandbox.files.read(own)
    assert certificate != second.sandbox.files.read(own)
    second.sandbox.files.write("/tmp/first.crt", certificate)
    wrong = second.sandbox.run(["curl", "-sS", "--cacert", "/tmp/first.crt", "https://allowed.test/v1/"])
    assert wrong.exit_code == 60, wrong.stderr  # curl: not believed
    assert second.sandbox.run(["curl", "-sS", "-o", "/dev/null", "https://allowed.test/v1/"]).exit_code == 0
    search = "grep -rls -e 'PRIVATE KEY' /etc /home /root /run /tmp /var /usr/local/share/ca-certificates /dev/shm"
    assert first.sandbox.run(["sh", "-c", search], user="root").stdout == ""
    key = walled_daemon.data / "wall.key"
    assert key.stat().st_mode & 0o777 == 0o600 and key.stat().st_uid == 0
    # The gateway, which has the policies, has no way to the key.
    assert "wall.key" not in "".join(p.name for p in (walled_daemon.data / "gateway").iterdir())


def leaf_of(box, host):
    """(who signed it, its serial number) of what a host shows."""
    show = f"openssl s_client -connect {host}:443 -servername {host} </dev/null 2>/dev/null | openssl x509 -noout -issuer -serial"
    issuer, serial = box.sandbox.run(["sh", "-c", show]).stdout.splitlines()
    return issuer.replace(" = ", "="), serial


def test_N13_the_shared_issuer_of_refusals_can_do_nothing_but_refuse(walled):
    rules = {"allow": ["allowed.test"]}
    first, second, opened = walled(rules), walled(rules), walled(POLICY)
    key_of = ["openssl", "x509", "-noout", "-pubkey", "-in", "/usr/local/share/ca-certificates/cloche.crt"]
    keys = [box.sandbox.run(key_of).stdout for box in (first, second, opened)]
    assert keys[0] == keys[1] != keys[2]
    issuer, serial = leaf_of(first, "denied.test")
    assert "CN=refusals" in issuer
    # What one has tried to reach is not to be seen by another.
    assert leaf_of(second, "denied.test")[1] != serial
    # Nothing that leads anywhere is signed by it: what passes has its server's own, what the wall looks into the sandbox's.
    assert "cloche" not in leaf_of(first, "allowed.test")[0]
    assert f"CN={opened.sandbox.id}" in leaf_of(opened, "allowed.test")[0]
    opened.sandbox.files.write("/tmp/refusals.crt", first.sandbox.files.read("/usr/local/share/ca-certificates/cloche.crt"))
    wrong = opened.sandbox.run(["curl", "-sS", "--cacert", "/tmp/refusals.crt", "https://allowed.test/v1/"])
    assert wrong.exit_code == 60, wrong.stderr  # curl: not believed


def test_N13_the_constraints_of_the_certificates_are_strict(walled):
    box = walled(POLICY)
    shown = box.sandbox.run(["sh", "-c", "openssl x509 -noout -text -in /usr/local/share/ca-certificates/cloche.crt"]).stdout
    assert "CA:TRUE, pathlen:0" in shown and "Certificate Sign" in shown and "prime256v1" in shown
    leaf = "openssl s_client -connect allowed.test:443 -servername allowed.test </dev/null 2>/dev/null | openssl x509 -noout -text"
    shown = box.sandbox.run(["sh", "-c", leaf]).stdout
    assert "CA:FALSE" in shown and "DNS:allowed.test" in shown and "TLS Web Server Authentication" in shown


def all_of(box, url, *options):
    """Every byte that curl gets: fields, interim replies, the body."""
    done = box.sandbox.run(["curl", "-sS", "-i", *options, url], timeout=30 * PATIENCE)
    assert done.exit_code == 0, done.stderr
    return done.stdout


def echo_policy(value, **more):
    action = {"transform": {"headers": {"authorization": value, "x-other": "not-a-secret"}, **more}}
    return {"rules": [{"match": {"domains": ["allowed.test"], "methods": ["GET"]}, "action": action}], "allow": ["allowed.test", "other.test"]}


PASSWORD = "pa55w0rd-9f8e7d6c"
BASIC = base64.b64encode(f"someone:{PASSWORD}".encode()).decode()


@pytest.mark.parametrize(("value", "secrets"), [(FIELD, [KEY]), (f"Basic {BASIC}", [BASIC, PASSWORD])], ids=["bearer", "basic"])
def test_N12_a_key_that_a_server_repeats_is_taken_out_of_its_replies(walled, internet, value, secrets):
    box = walled(echo_policy(value, scrub=["Authorization"]))
    for path in ("chunks", "length"):
        seen = all_of(box, f"https://allowed.test/echo/{path}", "-H", "Range: bytes=0-", "-H", "Accept-Encoding: gzip")
        assert not [s for s in secrets if s in seen]
        assert seen.count("*" * len(secrets[0])) >= 3 and "not-a-secret" in seen and seen.endswith(("}", "*"))
        sent = internet.seen("request", path=f"/echo/{path}")[-1]["fields"]
        assert (sent["authorization"], sent["accept-encoding"], sent.get("range")) == (value, "identity", None)
    # The control: without the option the server's word is passed on as it is.
    box.sandbox.set_network(echo_policy(value))
    for path in ("chunks", "length"):
        seen = all_of(box, f"https://allowed.test/echo/{path}")
        assert all(s in seen for s in secrets)


def test_N12_no_reply_of_that_host_tells_it_whoever_asks_and_how(walled):
    box = walled({**echo_policy(FIELD, scrub=["authorization"]), "mode": "enforce"})
    own = ["-X", "POST", "-H", f"Authorization: Bearer {KEY}"]  # which no rule replaces: as if another request had left it there
    assert KEY not in all_of(box, "https://allowed.test/echo/chunks", *own)
    assert KEY not in all_of(box, "http://allowed.test/echo/chunks", *own)
    assert KEY in all_of(box, "http://other.test/echo/chunks", *own)


def test_N12_what_cannot_be_looked_into_is_not_passed_on(walled):
    box = walled(echo_policy(FIELD, scrub=["authorization"]))
    refused = all_of(box, "https://allowed.test/echo/gzip")
    assert refused.startswith("HTTP/1.1 502") and "encoded" in refused and KEY not in refused
    assert all_of(box, "https://allowed.test/echo/gzip", "--head").startswith("HTTP/1.1 200")
    box.sandbox.set_network(echo_policy(FIELD))
    assert KEY in all_of(box, "https://allowed.test/echo/gzip", "--compressed")


def test_N12_what_is_to_be_taken_out_must_be_set_and_long_enough(walled_client):
    for value, scrub, why in ((FIELD, ["x-key"], "none of the headers"), ("Bearer short", ["authorization"], "8 bytes"), (FIELD, [7], "none of")):
        with pytest.raises(ClocheError) as e:
            walled_client.create(network=echo_policy(value, scrub=scrub))
        assert e.value.field == "network.rules[0].action.transform.scrub[0]" and why in str(e.value)


def test_N24_secrets_of_a_policy_are_in_no_error(walled_client):
    bad = {"rules": [{"match": {"domains": ["allowed.test"]}, "action": {"transform": {"headers": {"authorization": FIELD, "bad name": KEY}}}}]}
    with pytest.raises(ClocheError) as e:
        walled_client.create(network=bad)
    assert KEY not in str(e.value)
    line = {"rules": [{"match": {"domains": ["allowed.test"]}, "action": {"transform": {"headers": {"a": f"{KEY}\r\nx: y"}}}}]}
    with pytest.raises(ClocheError) as e:
        walled_client.create(network=line)
    assert KEY not in str(e.value)


def test_N25_half_a_handshake_holds_a_connection_and_nothing_else(walled):
    box = walled({**POLICY, "limits": {"connections": 20}})
    program = f"""if 1:
        import socket, ssl
        into, out = ssl.MemoryBIO(), ssl.MemoryBIO()
        tls = ssl.create_default_context().wrap_bio(into, out, server_hostname="allowed.test")
        try:
            tls.do_handshake()
        except ssl.SSLWantReadError:
            pass
        hello, held = out.read(), []
        for _ in range(15):
            s = socket.create_connection(("{ALLOWED}", 443))
            s.sendall(hello)
            held.append(s)
        print(all(s.recv(5)[:1] == b"\\x16" for s in held), flush=True)
        import urllib.request
        print(urllib.request.urlopen("https://allowed.test/v1/beside").status)
    """
    assert box.sandbox.run(["python3", "-c", program], timeout=30 * PATIENCE).stdout == "True\n200\n"
