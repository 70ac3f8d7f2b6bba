# SPDX-License-Identifier: Apache-2.0
"""Any node may be asked: what another one has is passed on to it over mutual TLS, and answered."""

import contextlib
import hashlib
import json
import os
import signal
import socket
import ssl
import subprocess
import threading
import urllib.parse

import pytest
from cloche import errors
from harness.cluster import FENCE_AFTER_S
from harness.daemon import BUILD, call, read_text, wait_for
from harness.running import running
from harness.websocket import BINARY, TEXT, WebSocket
from harness.whole_node import DOMAIN, Member

pytestmark = pytest.mark.skipif(not (BUILD / "cloche-cluster").exists(), reason="built without libpq")


@pytest.fixture(scope="module")
def pair(database):
    """Two nodes with the same first key."""
    with contextlib.ExitStack() as stack:
        a = Member("a", database)
        stack.enter_context(running(a.daemon))
        b = Member("b", database, key=a.daemon.key)
        stack.enter_context(running(b.daemon))
        for n in (a, b):
            n.await_problem("not_joined")
        a.ask("cluster", "init", "--owner", database.owner("one"), "--name", "a", "--fence-after", f"{FENCE_AFTER_S}s", "--lost-after", "600s")
        a.await_state("held")
        b.join(a.ask("cluster", "invite")["token"])
        wait_for(lambda: a.sees(2) and b.sees(2), 60, "both see both")
        wait_for(lambda: reaches(a, b) and reaches(b, a), 60, "each reaches the other")
        yield a, b


def reaches(here, there):
    """Gateways know the directory a moment after the members."""
    with there.client() as direct, direct.create(template="host") as sandbox, here.client() as client:
        try:
            return client.get(sandbox.id).id == sandbox.id
        except errors.ClocheError:
            return False


def log_of(node):
    return node.daemon.log()


@pytest.fixture
def far(pair):
    """A sandbox that b has, as a's clients see it."""
    a, b = pair
    with b.client() as direct, direct.create(template="host") as sandbox, a.client() as client:
        yield client.get(sandbox.id)


def test_ids_bear_a_tag_of_their_node(pair):
    for n in pair:
        tags = json.loads((n.data / "cluster/node.json").read_text())["tags"]
        letters = "abcdefghijkmnpqrstuvwxyz23456789"
        with n.client() as client, client.create(template="host") as sandbox:
            tag = 0
            for letter in sandbox.id.split("_")[1][:4]:
                tag = tag << 5 | letters.index(letter)
            assert tag in tags


def test_commands_and_code_run_through_the_other_node(far):
    assert far.run(["echo", "far"]).stdout == "far\n"
    result = far.run("read x; echo got $x; exit 3", stdin="in\n")
    assert (result.stdout, result.exit_code) == ("got in\n", 3)
    assert len(far.run("for i in $(seq 200); do printf %05000d $i; done").stdout) == 1_000_000


def test_files_of_some_mib_pass_both_ways_unchanged(far):
    data = os.urandom(6 << 20)
    far.files.write("/tmp/big", data)
    assert far.run(["sha256sum", "/tmp/big"]).stdout.split()[0] == hashlib.sha256(data).hexdigest()
    assert far.files.read("/tmp/big") == data


def test_many_clients_use_the_other_node_at_once(pair, far):
    a, _ = pair
    wrong = []

    def work(i):
        with a.client() as client:
            s = client.get(far.id)
            for k in range(10):
                out = s.run(["echo", f"{i}.{k}"]).stdout
                if out != f"{i}.{k}\n":
                    wrong.append((i, k, out))

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert wrong == []
    streams = a.status()["streams"]
    assert streams["opened"] < 80  # 80 calls and more: streams are kept


def test_a_command_is_attached_through_the_other_node(pair, far):
    """A WebSocket: bytes as they are, both ways, and its end."""
    a, _ = pair
    ws = WebSocket(a.daemon, far, far.start(["cat"], open_stdin=True))
    ws.send(BINARY, b"\x00\xffhello" * 20_000)
    ws.send(TEXT, b'{"eof": true}')
    output, texts, code = ws.until_close()
    assert output == b"\x00\xffhello" * 20_000
    assert texts[-1]["exited"]["exit_code"] == 0 and code == 1000


def test_a_preview_is_reached_by_path_and_by_name(pair, far):
    a, b = pair
    far.files.write("/tmp/page", b"of the far node")
    far.start(["python3", "-m", "http.server", "3000", "--directory", "/tmp"])
    path = urllib.parse.urlsplit(far.expose(3000, public=True)["url"]).path.rstrip("/")
    by_path = path if path.startswith("/p/") else f"/p/{far.id}/3000"
    wait_for(lambda: call(b.daemon, "GET", f"{by_path}/page", key="")[0] == 200, 60, "the server inside")
    by_name = {"Host": f"3000-{far.id.split('_')[1]}.{DOMAIN}"}
    for n in (b, a):
        assert call(n.daemon, "GET", f"{by_path}/page", key="") == (200, b"of the far node"), n.name
        assert call(n.daemon, "GET", "/page", key="", headers=by_name) == (200, b"of the far node"), n.name
    assert call(a.daemon, "GET", "/page", key="", headers={"Host": "elsewhere.example"})[0] == 403


def test_e2bs_client_is_served_through_the_other_node(pair, far):
    """Its ids are without their kind, and its calls into a sandbox name it by a field."""
    a, b = pair
    short, key = far.id.split("_")[1], {"X-API-Key": a.daemon.key}
    made = call(b.daemon, "POST", "/sandboxes", {"templateID": "host", "secure": True}, key="", headers=key)
    assert made[0] == 201, made
    short, token = made[1]["sandboxID"], made[1].get("envdAccessToken", "")
    try:
        assert call(a.daemon, "GET", f"/sandboxes/{short}", key="", headers=key)[1]["sandboxID"] == short
        inside = {"E2b-Sandbox-Id": short, "E2b-Sandbox-Port": "49983", "X-Access-Token": token}
        assert call(a.daemon, "GET", "/health", key="", headers=inside)[0] in (200, 204)
        answer = call(a.daemon, "POST", "/filesystem.Filesystem/ListDir", {"path": "/", "depth": 1}, key="", headers={**inside, "Connect-Protocol-Version": "1", "Authorization": "Basic dXNlcjo="})
        assert answer[0] == 200, answer
    finally:
        assert call(a.daemon, "DELETE", f"/sandboxes/{short}", key="", headers=key)[0] == 204


def test_who_has_no_key_has_none_on_the_owner(pair, far):
    a, b = pair
    assert call(a.daemon, "GET", f"/v1/sandboxes/{far.id}", key="")[0] == 401
    assert call(a.daemon, "GET", f"/v1/sandboxes/{far.id}", key="clo_" + "x" * 40)[0] == 401
    assert call(a.daemon, "GET", f"/v1/sandboxes/{far.id}")[0] == 200


def test_an_ordinary_client_cannot_say_what_a_peer_says(pair, far):
    """The address of a client is a peer's to tell: the audit has the true one."""
    a, b = pair
    forged = {"Cloche-Client": "203.0.113.9", "X-Request-Id": "forged-1"}
    for n in pair:
        status, _ = call(n.daemon, "GET", f"/v1/sandboxes/{far.id}", key="clo_" + "x" * 40, headers=forged)
        assert status == 401
    for n in pair:
        assert "203.0.113.9" not in log_of(n)
        events = call(n.daemon, "GET", "/v1/events?limit=1000")[1]
        assert "203.0.113.9" not in str(events)


def test_a_request_is_not_smuggled_behind_another(pair, far):
    """What two parsers could read differently is refused by the first node, and bytes behind a body never reach the second as a request of its own."""
    a, b = pair
    hidden = f"DELETE /v1/sandboxes/{far.id} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {a.daemon.key}\r\n\r\n"
    heads = [
        f"Content-Length: {len(hidden)}\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n{hidden}",
        f"Content-Length: 0\r\nContent-Length: {len(hidden)}\r\n\r\n{hidden}",
        f"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n{hidden}",
        f"Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n{hidden}",
        f"X: y\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n{hidden}",
    ]
    for head in heads:
        with socket.create_connection(("127.0.0.1", a.daemon.port)) as s:
            s.sendall(f"POST /v1/sandboxes/{far.id}/execs HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\n{head}".encode())
            s.settimeout(30)
            answer = b""
            with contextlib.suppress(ConnectionError):
                while more := s.recv(65536):
                    answer += more
        assert answer.startswith((b"HTTP/1.1 400", b"HTTP/1.1 501")), (head, answer)
    assert far.run(["echo", "alive"]).stdout == "alive\n"


def test_an_id_of_nobody_is_not_found_and_costs_no_hop(pair):
    a, _ = pair
    before = a.status()["streams"]
    tags = {t for n in pair for t in json.loads((n.data / "cluster/node.json").read_text())["tags"]}
    assert 0 not in tags
    assert call(a.daemon, "GET", "/v1/sandboxes/sb_" + "a" * 26)[0] == 404
    assert a.status()["streams"] == before


def tls_of(node, **changes):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    if node:
        context.load_cert_chain(changes.get("certificate", node.data / "cluster/node.crt"), changes.get("key", node.data / "cluster/node.key"))
    return context


def speak(node, context, message):
    host, port = node.address.split(":")
    try:
        with socket.create_connection((host, int(port)), timeout=30) as plain, context.wrap_socket(plain) as s:
            s.sendall(message)
            return s.recv(65536)
    except (ssl.SSLError, ConnectionError):
        return b""


def hop(far_id, key):
    return f"GET /v1/sandboxes/{far_id} HTTP/1.1\r\nHost: anything\r\nAuthorization: Bearer {key}\r\nCloche-Client: 203.0.113.7\r\n\r\n".encode()


def test_strangers_get_no_stream_and_a_peer_gets_one_but_no_rights(pair, far, tmp_path):
    a, b = pair
    good = hop(far.id, a.daemon.key)
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", tmp_path / "key", "-out", tmp_path / "crt", "-subj", "/O=cloche/CN=a",
                    "-addext", f"subjectAltName=URI:cloche://{a.status()['cluster_id']}/a"], check=True, capture_output=True)
    assert speak(b, tls_of(None), good) == b""
    assert speak(b, tls_of(a, certificate=tmp_path / "crt", key=tmp_path / "key"), good) == b""
    assert speak(b, tls_of(b), good) == b""  # a node is no peer of its own: no loop
    assert speak(b, tls_of(a), good).startswith(b"HTTP/1.1 200")
    assert speak(b, tls_of(a), hop(far.id, "clo_" + "x" * 40)).startswith(b"HTTP/1.1 401")


def test_a_hop_is_never_passed_on(pair):
    """A peer that asks for what a third has, or the asker itself, is told that it is not here."""
    a, b = pair
    with a.client() as client, client.create(template="host") as near:
        assert speak(b, tls_of(a), hop(near.id, a.daemon.key)).startswith(b"HTTP/1.1 404")


def test_a_member_outlives_a_flood_of_strangers(pair, far):
    _, b = pair
    host, port = b.address.split(":")
    with contextlib.ExitStack() as stack:
        for _ in range(400):
            stack.enter_context(socket.create_connection((host, int(port)), timeout=30))
        assert far.run(["echo", "on"]).stdout == "on\n"


def test_a_peer_that_never_reads_holds_up_itself_alone(pair, far):
    a, b = pair
    far.files.write("/tmp/large", bytes(32 << 20))
    host, port = b.address.split(":")
    with socket.create_connection((host, int(port)), timeout=30) as plain, tls_of(a).wrap_socket(plain) as s:
        s.sendall(f"GET /v1/sandboxes/{far.id}/files?path=/tmp/large HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {a.daemon.key}\r\n\r\n".encode())
        assert s.recv(100).startswith(b"HTTP/1.1 200")
        for _ in range(3):
            assert far.run(["echo", "on"]).stdout == "on\n"
        rss = int(next(line for line in read_text(f"/proc/{b.member_pid()}/status").splitlines() if line.startswith("VmRSS")).split()[1])
        assert rss < 64 << 10


def test_a_member_that_is_killed_fails_hops_shortly_and_sandboxes_go_on(pair, far):
    a, b = pair
    first = a.member_pid()
    os.kill(first, signal.SIGKILL)
    wait_for(lambda: a.member_pid() not in (None, first), 30, "another member")
    wait_for(lambda: reaches(a, b), 60, "a reaches b again")
    assert far.run(["echo", "on"]).stdout == "on\n"


def test_a_node_that_is_gone_is_told_as_unreachable(pair, far):
    """Its launcher stands still, so that nobody starts a member anew."""
    a, b = pair
    assert far.run(["true"]).exit_code == 0
    os.kill(b.daemon.process.pid, signal.SIGSTOP)
    try:
        os.kill(b.member_pid(), signal.SIGKILL)
        with a.client(timeout=60) as client:
            error = wait_for(lambda: refusal(client, far.id), 60, "a refusal")
        assert error.status == 503 and "'b'" in str(error)
    finally:
        os.kill(b.daemon.process.pid, signal.SIGCONT)
    wait_for(lambda: reaches(a, b), 60, "a reaches b again")
    assert far.run(["echo", "on"]).stdout == "on\n"


def refusal(client, sandbox_id):
    try:
        client.get(sandbox_id)
    except errors.NodeUnreachable as e:
        return e
    return None


def test_a_node_that_starts_says_of_no_other_nodes_sandbox_that_there_is_none(pair, far, database):
    a, _ = pair
    with a.client() as direct, direct.create(template="host") as own:
        database.stop()  # so that a's new member cannot tell its gateway of the other nodes
        try:
            first = a.daemon.gateway_pid
            os.kill(first, signal.SIGKILL)
            wait_for(lambda: a.daemon.gateway_pid not in (None, first) and a.call("GET", f"/v1/sandboxes/{own.id}")[0] == 200, 60, "its own are served")
            assert a.refused("GET", f"/v1/sandboxes/{far.id}") == (503, "cluster_unavailable")
            assert a.refused("DELETE", f"/v1/sandboxes/{far.id}") == (503, "cluster_unavailable")
        finally:
            database.start()
        wait_for(lambda: a.call("GET", f"/v1/sandboxes/{far.id}")[0] == 200, 60, "it knows the others again")
