# SPDX-License-Identifier: Apache-2.0
"""More ways around the network wall: the host and neighbours by every spelling (N03, N04), names that lead on (N05), odd
protocols with a capture of what leaves (N17), a daemon that is away (N24), clients and servers that are slow or never
end (N25)."""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from cloche import Client
from harness import audit
from harness.daemon import ENGINE, PATIENCE, memory_kib, wait_for
from harness.internet import ALLOWED, HOST, PRIVATE
from harness.running import running
from harness.walled import DIAL, REFUSED, Walled, control, parse

HARNESS = Path(DIAL).parent
ONE_HOST = {"allow": ["allowed.test"]}
GET = "GET /{} HTTP/1.1\\r\\nHost: {}\\r\\nConnection: close\\r\\n\\r\\n"
HOST6 = "2a00:1450:4::1"
HOST_PORT = 8199
AS_NUMBER = int.from_bytes(bytes(map(int, HOST.split("."))), "big")
SPELT = [
    HOST, str(AS_NUMBER), hex(AS_NUMBER), "0121.2.0105.1", "81.2.17665", "81.148737", f"::ffff:{HOST}", f"64:ff9b::{HOST}", "2002:5102:4501::1", HOST6,
    "host.test", "localhost", "x.localhost", "127.0.0.1", "127.1", "0.0.0.0", "0", "::1", "::", "::ffff:127.0.0.1",
]  # fmt: skip


@pytest.fixture
def host_server(internet):
    """A server on the daemon's host: gives what came to it."""
    with tempfile.TemporaryDirectory() as d:
        log = Path(d) / "log"
        log.touch()
        argv = [*internet.enter(internet.inner), sys.executable, "-S", str(HARNESS / "raw_server.py"), str(log), str(HOST_PORT)]
        with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as p:
            assert p.stdout.readline() == b"up\n"
            yield lambda: [json.loads(line)["bytes"] for line in log.read_text().splitlines()]
            p.stdin.close()


def test_N03_the_host_is_out_of_reach_however_it_is_written(walled, internet, host_server):
    for way in (HOST, HOST6, "127.0.0.1"):
        assert parse(control(internet, "send", way, HOST_PORT, GET.format("control", way)))[0] == 200
    wait_for(lambda: len(host_server()) == 3, 10, "the controls")
    box = walled("allow-all")
    for way in SPELT:
        found = box.dial("send", way, HOST_PORT, GET.format("n03", way))
        assert found.get("error") in REFUSED | {"no such name"} or parse(found)[0] in (400, 403), (way, found)
    box.sandbox.set_network({"allow": ["allowed.test", "host.test"]})
    for way in SPELT:  # said inside of a request that goes elsewhere
        host = f"[{way}]" if ":" in way else way
        assert box.raw(ALLOWED, GET.format("n03", host))[0] in (400, 403), way
    assert box.get("allowed.test")[0] == 200
    assert len(host_server()) == 3


def test_N04_a_neighbours_server_is_out_of_reach(walled, walled_daemon):
    first, second = walled("allow-all"), walled("allow-all")
    serve = "import http.server as h; h.ThreadingHTTPServer(('', 9911), h.SimpleHTTPRequestHandler).serve_forever()"
    second.sandbox.start(["python3", "-c", serve])
    wait_for(lambda: parse(second.dial("send", "127.0.0.1", 9911, GET.format("", "x")))[0] == 200, 10, "the neighbour's server")
    for way in ("127.0.0.1", "0.0.0.0", "::1", HOST, HOST6):
        assert first.dial("send", way, 9911, GET.format("", "x")).get("error") in REFUSED
        assert first.dial("send", way, walled_daemon.port, GET.format("v1/health", "x")).get("error") in REFUSED


def test_N05_an_alias_of_a_closed_name_leads_nowhere(walled, internet):
    box = walled({"allow": ["alias.test", "chain.test", "six.test"]})
    assert box.get("chain.test")[0] == 200  # an alias as such is fine
    assert box.dial("dns", "alias.test", "A") == {"rcode": 0, "answers": 0}
    assert box.raw(ALLOWED, GET.format("n05", "alias.test"))[0] == 403
    assert box.get("six.test")[0] == 200
    internet.set_zone({"six.test": ["fd00::5", "fe80::1", "::ffff:10.99.0.5", "64:ff9b::10.99.0.5"]})
    assert box.raw(ALLOWED, GET.format("n05", "six.test"))[0] == 403
    assert box.dial("dns", "six.test", "AAAA") == {"rcode": 0, "answers": 0}
    assert not internet.seen("request", path="/n05")


@pytest.mark.parametrize("host", ["ALLOWED.TEST", "allowed.test.", "allowed.test:80", "Allowed.Test.:80"])
def test_N08_another_spelling_of_the_allowed_host_is_the_allowed_host(walled, host):
    status, seen = walled(ONE_HOST).raw(ALLOWED, GET.format("n08", host))
    assert (status, seen["host"].removesuffix(":80")) == (200, "allowed.test")


PROXIED = {
    "connect-to-an-odd-port": ("CONNECT allowed.test:22 HTTP/1.1", "allowed.test:22", 405),
    "connect-to-an-address": (f"CONNECT {PRIVATE}:80 HTTP/1.1", f"{PRIVATE}:80", 405),
    "connect-to-the-allowed": ("CONNECT allowed.test:443 HTTP/1.1", "allowed.test:443", 405),
    "absolute-to-a-private-name": ("GET http://private.test/n16 HTTP/1.1", "private.test", 403),
    "absolute-to-metadata": ("GET http://169.254.169.254/n16 HTTP/1.1", "169.254.169.254", 403),
    "absolute-with-a-user": ("GET http://allowed.test@private.test/n16 HTTP/1.1", "private.test", 400),
    "absolute-by-https": ("GET https://allowed.test/n16 HTTP/1.1", "allowed.test", 400),
}


@pytest.mark.parametrize(("line", "host", "status"), PROXIED.values(), ids=PROXIED.keys())
def test_N16_the_wall_is_no_proxy_to_be_asked(walled, internet, line, host, status):
    box = walled({"allow": ["*.test"]})
    assert box.raw(ALLOWED, f"{line}\\r\\nHost: {host}\\r\\n\\r\\n")[0] == status
    assert not internet.seen("request", path="/n16")
    assert box.raw(ALLOWED, "GET http://allowed.test/own HTTP/1.1\\r\\nHost: allowed.test\\r\\n\\r\\n")[0] == 200


ODD_PROTOCOLS = """if 1:
    import errno, socket
    ways = [
        (socket.AF_INET, socket.SOCK_DGRAM, 0, ("93.184.216.34", 443)),
        (socket.AF_INET, socket.SOCK_DGRAM, 0, ("224.0.0.251", 5353)),
        (socket.AF_INET, socket.SOCK_DGRAM, 0, ("255.255.255.255", 67)),
        (socket.AF_INET6, socket.SOCK_DGRAM, 0, ("ff02::1", 5353)),
        (socket.AF_INET6, socket.SOCK_DGRAM, 0, ("2606:2800:220:1::34", 443)),
        (socket.AF_INET, socket.SOCK_DGRAM, socket.IPPROTO_ICMP, ("93.184.216.34", 0)),
        (socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP, ("93.184.216.34", 0)),
        (socket.AF_INET, socket.SOCK_STREAM, 132, ("93.184.216.34", 80)),
        (socket.AF_INET, socket.SOCK_RAW, 253, ("93.184.216.34", 0)),
    ]
    for family, kind, protocol, to in ways:
        try:
            with socket.socket(family, kind, protocol) as s:
                s.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
                s.settimeout(2)
                if kind == socket.SOCK_STREAM:
                    s.connect(to)
                s.sendto(b"WORD" * 3, to)
                print("sent")
        except OSError as e:
            print(errno.errorcode.get(e.errno, e))
"""


def test_N17_nothing_but_tcp_and_dns_of_the_wall_leaves(walled, internet):
    box = walled("allow-all")
    argv = [*internet.enter(internet.inner), sys.executable, "-S", str(HARNESS / "capture.py"), "guest-n17", "control-n17"]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as p:
        assert p.stdout.readline() == b"up\n"
        said = box.sandbox.run(["python3", "-c", ODD_PROTOCOLS.replace("WORD", "guest-n17")], user="root")
        assert len(said.stdout.split()) == 9, said.stderr
        assert ENGINE == "vm" or "sent" not in said.stdout.split()  # a vm's own kernel sends, to a wall that lets nothing by
        internet.run(sys.executable, "-c", ODD_PROTOCOLS.replace("WORD", "control-n17"))
        found = json.loads(p.communicate()[0])
    assert found["guest-n17"] == 0
    assert found["control-n17"] > 0


def test_N24_while_the_daemon_is_away_connections_are_refused(internet):
    with running(internet.daemon("--default-memory", "128MiB", "--pool-max", "0", rm=False)) as daemon:
        with Client(f"unix:{daemon.socket}", daemon.key) as client:
            sandbox = client.create(network="allow-all")
            assert Walled(sandbox).dial("tcp", ALLOWED, 22, 30)["said"]
            pid = min(audit.processes_of_cgroups({sandbox.id}))
        assert daemon.stop() == 0
        inside = ["nsenter", f"--net=/proc/{pid}/ns/net", sys.executable, "-S", str(DIAL)]
        seen = len(internet.seen("connection"))
        for words in (("tcp", ALLOWED, "22"), ("tcp", "2606:2800:220:1::34", "22"), ("udp", ALLOWED, "443")):
            said = json.loads(subprocess.run([*inside, *words], capture_output=True, text=True, timeout=30, check=True).stdout)
            assert said["error"] in REFUSED, said
        assert len(internet.seen("connection")) == seen
        daemon.options.append("--rm")
        daemon.start()
        with Client(f"unix:{daemon.socket}", daemon.key) as client:
            box = Walled(client.get(sandbox.id))
            wait_for(lambda: box.sandbox.network()["in_force"], 20, "the door")
            assert box.dial("tcp", ALLOWED, 22, 30)["said"]


SLOW = """if 1:
    import socket, struct, sys
    def dial(port=80):
        return socket.create_connection(("93.184.216.34", port), 10)
    def reset(s):
        s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        s.close()
    kept = []
    for _ in range(150):  # heads that never end, of plain requests and of TLS
        kept.append(dial())
        kept[-1].sendall(b"GET / HTTP/1.1\\r\\nHost: allo")
    for _ in range(50):
        kept.append(dial(443))
        kept[-1].sendall(b"\\x16\\x03\\x01\\x02\\x00\\x01")
    for _ in range(200):  # resets, before and behind the first byte
        reset(dial())
        s = dial()
        s.sendall(b"GET /reset HTTP/1.1\\r\\nHost: allowed.test\\r\\n\\r\\n")
        reset(s)
    print("up", flush=True)
    sys.stdin.read()
"""


def test_N25_slow_and_broken_clients_hold_up_nobody(walled, walled_daemon):
    slow, other = walled({"allow": ["allowed.test"], "limits": {"connections": 400}}), walled(ONE_HOST)
    before = memory_kib(walled_daemon.wall_pid)
    attack = slow.sandbox.start(["python3", "-c", SLOW], open_stdin=True)
    wait_for(lambda: any(b"up" in e.data for e in attack.output(follow=False) if e.type == "stdout"), 30, "the attack")
    for _ in range(3):
        assert other.get("allowed.test")[0] == 200
    assert slow.get("allowed.test")[0] == 200
    assert memory_kib(walled_daemon.wall_pid) - before < 32 * 1024
    attack.kill()


ENDLESS = """if 1:
    import socket
    def send(port, first, more):
        s = socket.create_connection(("93.184.216.34", port), 10)
        s.settimeout(1)
        n, reply = 0, b""
        try:
            s.sendall(first)
            while n < 64 << 20:
                n += s.send(more)
        except OSError:
            pass
        try:
            reply = s.recv(100)
        except OSError:
            pass
        return n, reply.split()[1].decode() if reply else "0"
    print(*send(80, b"GET / HTTP/1.1\\r\\nHost: allowed.test\\r\\n", b"X: y\\r\\n" * 1000))
    print(*send(80, b"GET / HTTP/1.1\\r\\nHost: allowed.test\\r\\nX: ", b"x" * 8192))
    print(*send(80, b"GET /", b"x" * 8192))
    print(*send(443, b"\\x16\\x03\\x01\\x40\\x00\\x01\\x00\\xff\\xff", b"x" * 8192))
    print(*send(80, b"\\r\\n", b"\\r\\n" * 4096))
    print(*send(23, b"", b"x" * 65536))
"""


def test_N25_what_never_ends_is_cut_or_held_in_bounded_memory(walled, walled_daemon):
    deaf = {"match": {"cidrs": [f"{ALLOWED}/32"], "ports": [23]}, "action": "allow"}
    box = walled({"rules": [deaf], "allow": ["allowed.test"]})
    before = memory_kib(walled_daemon.wall_pid)
    said = [line.split() for line in box.sandbox.run(["python3", "-c", ENDLESS], timeout=60 * PATIENCE).stdout.splitlines()]
    assert len(said) == 6
    sent = [int(n) for n, _ in said]
    assert max(sent[3:]) < 32 << 20, sent  # what sockets hold on both ways, and no more
    assert {status for _, status in said} <= {"400", "431", "414", "0"}, said
    assert memory_kib(walled_daemon.wall_pid) - before < 16 * 1024
    assert box.get("allowed.test")[0] == 200


def test_N28_nobody_inside_has_a_raw_way_to_a_link(walled):
    box = walled("allow-all")
    program = """if 1:
        import socket
        print([name for _, name in socket.if_nameindex()])
        for family in (socket.AF_PACKET, socket.AF_NETLINK):
            try:
                s = socket.socket(family, socket.SOCK_RAW, socket.htons(3) if family == socket.AF_PACKET else 12)
                print("opened")
            except OSError:
                print("refused")
    """
    links = {"jail": ["lo"], "vm": ["lo", "eth0"]}[ENGINE]
    assert box.sandbox.run(["python3", "-c", program], user="root").stdout == f"{links}\nrefused\nrefused\n"
