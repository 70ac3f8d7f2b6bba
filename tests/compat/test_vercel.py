# SPDX-License-Identifier: Apache-2.0
"""Vercel's wire: their published client and command, pinned, led to a daemon by our shim; and what they would never send."""

import base64
import gzip
import hashlib
import http.client
import json
import os
import random
import re
import shutil
import signal
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from cloche import Client
from harness.audit import processes_of_cgroups
from harness.cli import Terminal
from harness.daemon import ROOT, Daemon, free_port, wait_for
from harness.npm import run
from harness.oci import busybox_layer, forget, layout_of
from harness.registry import Registry
from harness.running import running

HERE = Path(__file__).parent / "vercel"
TABLE = ROOT / "src" / "compat" / "vercel" / "vercel.c"
SUITES = sorted(p.name for p in HERE.glob("*.test.mjs"))
BASE = "/vercel/api/v2/sandboxes"

needs_npm = pytest.mark.skipif(not shutil.which("npm"), reason="this host has no npm")


def run_all(project, environment, *words):
    """What each printed; side by side, since they wait more than they work."""
    with ThreadPoolExecutor(4) as pool:
        return list(pool.map(lambda w: run("node", "--import", "cloche/vercel", *w, cwd=project, env=environment), words))


@needs_npm
def test_their_client_finds_what_it_expects(project, environment):
    run_all(project, environment, *[["--test", f"vercel/{suite}"] for suite in SUITES])


def caller(daemon):
    """(status, body) of a call to the wire, with the admin's key unless it says otherwise."""

    def call(method, path, body=None, key=daemon.key, **headers):
        conn = http.client.HTTPConnection("127.0.0.1", daemon.port, timeout=60)
        data = body if isinstance(body, (bytes, type(None))) else json.dumps(body).encode()
        auth = {"Authorization": f"Bearer {key}"} if key else {}
        conn.request(method, path, data, {"Content-Type": "application/json", **auth, **{k.replace("_", "-"): v for k, v in headers.items()}})
        reply = conn.getresponse()
        text = reply.read()
        conn.close()
        return reply.status, json.loads(text) if reply.getheader("Content-Type") == "application/json" else text

    return call


@pytest.fixture
def call(daemon):
    return caller(daemon)


@pytest.fixture
def made(call):
    """A sandbox as the wire tells it."""
    status, reply = call("POST", BASE, {"persistent": False})
    assert status == 200, reply
    yield reply
    call("DELETE", f"{BASE}/{reply['sandbox']['name']}")


@pytest.fixture
def stdin(call, made):
    """Starts a command, and gives how to write to it: (status, body) of each call."""
    commands = f"{BASE}/sessions/{made['session']['id']}/cmd"

    def start(shell, **fields):
        command = call("POST", commands, {"command": "bash", "args": ["-c", shell], **fields})[1]["command"]["id"]

        def write(data=b"", **fields):
            return call("POST", f"{commands}/{command}/stdin", {**({"data": base64.b64encode(data).decode()} if data else {}), **fields})

        write.wait = lambda: call("GET", f"{commands}/{command}?wait=true")[1]["command"]["exitCode"]
        write.logs = lambda: "".join(json.loads(line)["data"] for line in call("GET", f"{commands}/{command}/logs")[1].splitlines())
        return write

    return start


def test_input_arrives_whole_and_what_comes_twice_once(stdin):
    write = stdin("sleep 0.3; sha256sum", attachStdin=True)
    data = random.Random(1).randbytes(1_200_000)
    assert write()[1]["bytesWritten"] == 0
    assert write(data[:500_000], offset=0)[1]["bytesWritten"] == 500_000
    assert write(data[:500_000], offset=0)[1]["bytesWritten"] == 500_000  # the answer was lost
    assert write(data[400_000:1_000_000], offset=400_000)[1]["bytesWritten"] == 1_000_000
    assert write(data, offset=1_000_001)[0] == 400
    status, body = write(data[1_000_000:], offset=1_000_000, close=True)
    assert status == 200 and body["bytesWritten"] == len(data) and body["command"]["id"]
    assert write.wait() == 0 and write.logs().split()[0] == hashlib.sha256(data).hexdigest()


def test_input_that_nobody_can_read_is_refused(stdin):
    status, body = stdin("sleep 10")(b"lost")
    assert status == 400 and body["error"]["code"] == "command_stdin_unavailable"
    write = stdin("true", attachStdin=True)
    write.wait()
    assert write(b"late")[0] == 404
    write = stdin("cat", attachStdin=True)
    assert write(close=True)[0] == 200 and write.wait() == 0
    write = stdin("head -c 1; exec 0<&-; sleep 60", attachStdin=True)
    status, body = write(bytes(3_000_000))
    assert (status, body["error"]["code"]) == (400, "command_stdin_unavailable") and "has closed its stdin" in body["error"]["message"]


def routes():
    """(method, path, scope) of each row of the face's table."""
    text = TABLE.read_text()
    words = dict(re.findall(r'^#define (\w+) +(.*".*")$', text, re.M))

    def path_of(expression):
        parts = re.findall(r'"([^"]*)"|(\w+)', expression)
        return "".join(literal or path_of(words[name]) for literal, name in parts)

    rows = re.findall(r"\{HTTP_(\w+), +([^,]+), +\w+, +HTTP_BODY_\w+, SCOPE_(\w+)", text)
    return [(method, path_of(path), scope.lower()) for method, path, scope in rows]


def filled(path):
    return re.sub(r"\{\w+\}", "none", path)


def test_the_table_of_routes_is_read_whole():
    assert len(routes()) == TABLE.read_text().count("{HTTP_") >= 26


def test_no_route_answers_without_a_key():
    daemon = Daemon().start()  # of its own: failed tries are counted per caller, and lock it out
    try:
        statuses = set()
        for method, path, _ in routes():
            conn = http.client.HTTPConnection("127.0.0.1", daemon.port, timeout=60)
            conn.request(method, filled(path), b"{}" if method != "GET" else None, {"Content-Type": "application/json"})
            reply = conn.getresponse()
            assert json.loads(reply.read())["error"]["message"]
            statuses.add(reply.status)
            conn.close()
        assert statuses <= {401, 429} and 401 in statuses
    finally:
        daemon.stop()
        daemon.remove()


@pytest.mark.parametrize("row", [r for r in routes() if r[2] == "write"], ids=lambda r: f"{r[0]} {r[1]}")
def test_a_key_that_may_only_read_changes_nothing(call, project_keys, row):
    method, path, _ = row
    status, _ = call(method, filled(path), {} if method in ("POST", "PATCH") else None, key=project_keys["read"])
    assert status == 403


def test_another_project_s_key_finds_nothing(call, made, project_keys):
    other = project_keys["other"]
    name, session = made["sandbox"]["name"], made["session"]["id"]
    assert call("GET", f"{BASE}/{name}", key=other)[0] == 404
    assert call("DELETE", f"{BASE}/{name}", key=other)[0] == 404
    assert call("POST", f"{BASE}/{name}/fork", {}, key=other)[0] == 404
    assert call("GET", BASE, key=other)[1]["sandboxes"] == []
    assert call("GET", f"{BASE}/sessions", key=other)[1]["sessions"] == []
    for method, path, body in [
        ("GET", "", None),
        ("POST", "/cmd", {"command": "true"}),
        ("POST", "/fs/read", {"path": "/etc/passwd"}),
        ("POST", "/fs/mkdir", {"path": "/tmp/x"}),
        ("POST", "/stop", {}),
        ("POST", "/snapshot", {}),
        ("POST", "/interactive", {}),
        ("POST", "/network-policy", {"mode": "allow-all"}),
        ("POST", "/extend-timeout", {"duration": 1000}),
    ]:
        assert call(method, f"{BASE}/sessions/{session}{path}", body, key=other)[0] == 404, path
    assert call("GET", f"{BASE}/{name}")[1]["sandbox"]["status"] == "running"


HOSTILE = [
    {"name": "../x"}, {"name": "a" * 129}, {"name": ""}, {"name": 7}, {"name": "snapshots"},
    {"ports": [22]}, {"ports": [3000, 3000]}, {"ports": "3000"}, {"ports": list(range(2000, 2016))},
    {"timeout": -1}, {"timeout": 1 << 63}, {"timeout": "5m"}, {"resources": {"vcpus": 0}}, {"resources": {"vcpus": 1e9}},
    {"env": {"A=B": "x"}}, {"env": {"A": 1}}, {"tags": {"a": 1}}, {"tags": {str(i): "x" for i in range(6)}},
    {"source": {"type": "git"}}, {"source": {"type": "ftp", "url": "ftp://x"}}, {"source": {"type": "git", "url": "file:///etc/passwd"}},
    {"networkPolicy": {"mode": "wide-open"}}, {"networkPolicy": {"allow": [1]}}, {"networkPolicy": {"allow": ["a b"]}},
    {"networkPolicy": {"subnets": {"allow": ["1.2.3.4/99"]}}}, {"networkPolicy": {"allow": {"x.example": [{"forwardURL": "javascript:x"}]}}},
    {"networkPolicy": {"allow": {"x.example": [{"transform": [{"headers": {"Host": "y"}}]}]}}}, {"networkPolicy": [1]},
    {"keepLastSnapshots": {"count": 0}}, {"keepLastSnapshots": 3}, {"mounts": {"/data": {"drive": "d"}}},
]


@pytest.mark.parametrize("body", HOSTILE, ids=lambda b: json.dumps(b)[:60])
def test_what_is_wrong_in_a_create_is_refused_and_named(call, body):
    status, reply = call("POST", BASE, body)
    assert status == 400, reply
    assert reply["error"]["code"] == "bad_request" and reply["error"]["message"]


def test_unknown_fields_are_left_alone(call):
    status, reply = call("POST", f"{BASE.replace('v2', 'v3')}", {"persistent": False, "__interactive": True, "newest": {"x": 1}, "env": {}})
    assert status == 200 and reply["session"]["interactivePort"] > 0
    assert call("DELETE", f"{BASE}/{reply['sandbox']['name']}")[0] == 200


def test_an_image_is_the_template_of_its_name_and_tag(call, client):
    def status(image):
        code, reply = call("POST", BASE.replace("v2", "v3"), {"persistent": False, "image": image})
        if code == 200:
            call("DELETE", f"{BASE}/{reply['sandbox']['name']}")
        return code

    archive = layout_of(busybox_layer()).tar()
    for name in ("my-repo", "my-repo-v1"):
        client.import_template(name, archive)
    try:
        for image in ("my-repo", "my-repo:latest", "my-repo:v1", "vcr.vercel.com/my-team/my-project/my-repo:v1"):
            assert status(image) == 200, image
        for image in ("my-repo:v2", f"my-repo@sha256:{'a' * 64}", "my-repo/", ":latest", "x" * 255, "a/" * 100 + "x" * 55):
            assert status(image) == 404, image
    finally:
        for name in ("my-repo", "my-repo-v1"):
            forget(client, name)


def live(client):
    return [s for s in client.list() if s.info.ended is None]


def test_an_image_of_a_registry_is_pulled(tmp_path):
    """Once, however often it is asked for; what is in no registry is told as such."""
    registry = Registry("127.0.0.1", free_port())
    try:
        layout_of(busybox_layer(), config={"Env": ["STAGE=pulled"]}).write(tmp_path)
        registry.push(tmp_path, "team/app:1")
        with running(Daemon("--network-may-open", "127.0.0.1/32")) as daemon, Client(daemon.url, daemon.key) as client:
            call = caller(daemon)
            for _ in range(2):
                status, reply = call("POST", BASE.replace("v2", "v3"), {"persistent": False, "image": f"{registry.at}/team/app:1"})
                assert status == 200, reply
                (made,) = live(client)
                assert made.run("cat /etc/mark; echo $STAGE").stdout == "lowest\npulled\n"
                assert call("DELETE", f"{BASE}/{reply['sandbox']['name']}")[0] == 200
                wait_for(lambda: not live(client), what="its sandbox to be gone")
            assert registry.log().count('"GET /v2/team/app/manifests/1 ') == 1
            status, reply = call("POST", BASE.replace("v2", "v3"), {"persistent": False, "image": f"{registry.at}/team/none:1"})
            assert status == 404 and "has no image team/none:1" in reply["error"]["message"], reply
            status, reply = call("POST", BASE.replace("v2", "v3"), {"persistent": False, "image": "127.0.0.1:1/team/none:1"})
            assert status >= 400 and "does not answer" in reply["error"]["message"], reply
            assert not live(client)
    finally:
        registry.close()


def test_an_archive_cannot_lead_out_of_what_its_user_may_write(call, made):
    session = f"{BASE}/sessions/{made['session']['id']}"

    def write(data, cwd="/"):
        return call("POST", f"{session}/fs/write", data, Content_Type="application/gzip", X_Cwd=cwd)[0]

    assert write(b"not gzip") == 400
    assert write(gzip.compress(b"not tar" * 200)) == 400
    assert write(gzip.compress(bytes(1024)), cwd="relative\0path") in (400, 404)
    assert write(gzip.compress(bytes(1024))) == 200


def test_a_terminal_s_token_opens_that_session_s_terminals_alone(call, made):
    session = made["session"]["id"]
    status, reply = call("POST", f"{BASE}/sessions/{session}/interactive", {})
    path = "/" + reply["url"].split("/", 3)[3]
    assert status == 200 and path == f"/vercel/terminal/{session}"
    upgrade = {"Connection": "Upgrade", "Upgrade": "websocket", "Sec_WebSocket_Version": "13", "Sec_WebSocket_Key": "AAAAAAAAAAAAAAAAAAAAAA=="}
    for wrong in (path, f"{path}?token=", f"{path}?token={reply['token'][:-1]}", f"{path}?token={reply['token']}x", f"{path}?token=vt_{'a' * 26}"):
        assert call("GET", wrong, key=None, **upgrade)[0] == 401, wrong
    assert call("GET", f"/vercel/terminal/sb_{'a' * 26}?token={reply['token']}", key=None, **upgrade)[0] == 401
    assert call("GET", BASE, key=reply["token"])[0] in (401, 429)
    assert call("GET", f"{path}?token={reply['token']}", key=None, **upgrade)[0] == 101  # the door is there
    assert call("POST", f"{BASE}/sessions/{session}/stop", {})[0] == 200
    assert call("GET", f"{path}?token={reply['token']}", key=None, **upgrade)[0] == 401


def test_whatever_meets_a_stop_or_a_delete_gets_an_answer_and_leaves_nothing(call):
    name = "raced"

    def work(seed):
        chosen, seen = random.Random(seed), []
        for _ in range(12):
            session = call("GET", f"{BASE}/{name}")[1].get("session", {}).get("id", "sb_none")
            acts = [
                ("POST", BASE, {"name": name}),
                ("GET", f"{BASE}/{name}?resume=true", None),
                ("POST", f"{BASE}/sessions/{session}/stop", {}),
                ("POST", f"{BASE}/sessions/{session}/snapshot", {"expiration": 60000}),
                ("POST", f"{BASE}/sessions/{session}/cmd", {"command": "true", "wait": True}),
                ("POST", f"{BASE}/{name}/fork", {"name": f"{name}-{seed}"}),
                ("DELETE", f"{BASE}/{name}-{seed}?deleteOrphanSnapshots=true", None),
                ("DELETE", f"{BASE}/{name}?deleteOrphanSnapshots=true", None),
            ]
            seen.append(call(*chosen.choice(acts))[0])
        return seen

    with ThreadPoolExecutor(4) as pool:
        statuses = {status for seen in pool.map(work, range(4)) for status in seen}
    assert statuses <= {200, 201, 400, 404, 410, 422}, statuses
    for left in [name, *[f"{name}-{seed}" for seed in range(4)]]:
        assert call("DELETE", f"{BASE}/{left}?deleteOrphanSnapshots=true")[0] in (200, 404)
    for snapshot in call("GET", f"{BASE}/snapshots?limit=50")[1]["snapshots"]:
        assert call("DELETE", f"{BASE}/snapshots/{snapshot['id']}")[0] == 200


def test_a_call_that_a_stop_overtakes_is_told_what_makes_their_client_resume(daemon, client, call, made):
    """Each has reached the sandbox, whose processes stand still: none is answered before the session ends."""
    id = made["session"]["id"]
    session = f"{BASE}/sessions/{id}"
    for pid in processes_of_cgroups({id}):
        os.kill(pid, signal.SIGSTOP)
    open_calls = {}
    for path, body in [
        ("fs/read", {"path": "/etc/passwd"}),
        ("fs/mkdir", {"path": "/tmp/x"}),
        ("cmd", {"command": "true"}),
        ("cmd", {"command": "true", "wait": True}),  # the last: when the daemon has seen it, it has seen all
    ]:
        conn = open_calls[path, len(body)] = http.client.HTTPConnection("127.0.0.1", daemon.port, timeout=60)
        headers = {"Content-Type": "application/json", "Authorization": f"Bearer {daemon.key}"}
        conn.request("POST", f"{session}/{path}", json.dumps(body), headers)
    native = client.get(id)
    wait_for(lambda: [e.info.state for e in native.execs()] == ["starting"] * 2, what="commands that wait for the agent")
    assert call("POST", f"{session}/stop", {})[0] == 200
    for words, conn in open_calls.items():
        reply = conn.getresponse()
        body = json.loads(reply.read())
        conn.close()
        assert (reply.status, body["error"]["code"]) == (410, "sandbox_stopped"), (words, body)


def test_sandboxes_sessions_and_snapshots_outlive_the_daemon():
    daemon = Daemon(rm=False).start()

    def call(method, path, body=None):
        conn = http.client.HTTPConnection("127.0.0.1", daemon.port, timeout=60)
        conn.request(method, path, json.dumps(body) if body is not None else None,
                     {"Content-Type": "application/json", "Authorization": f"Bearer {daemon.key}"})
        reply = conn.getresponse()
        text = reply.read()
        conn.close()
        return reply.status, json.loads(text) if text[:1] == b"{" else text

    try:
        ids = {}
        for name in ("runs", "stopped"):
            ids[name] = call("POST", BASE, {"name": name})[1]["session"]["id"]
            assert call("POST", f"{BASE}/sessions/{ids[name]}/fs/mkdir", {"path": "kept"})[0] == 200
        snapshot = call("POST", f"{BASE}/sessions/{ids['stopped']}/stop", {})[1]["snapshot"]["id"]
        daemon.stop()
        daemon.start()
        assert call("GET", f"{BASE}/runs")[1]["sandbox"]["status"] == "running"
        assert call("GET", f"{BASE}/stopped")[1]["sandbox"]["currentSnapshotId"] == snapshot
        assert len(call("GET", f"{BASE}/sessions?name=stopped")[1]["sessions"]) == 1
        assert [s["id"] for s in call("GET", f"{BASE}/snapshots")[1]["snapshots"]] == [snapshot]
        status, resumed = call("GET", f"{BASE}/stopped?resume=true")
        assert (status, resumed["resumed"], resumed["session"]["sourceSnapshotId"]) == (200, True, snapshot)
        for session in (ids["runs"], resumed["session"]["id"]):
            assert call("POST", f"{BASE}/sessions/{session}/fs/mkdir", {"path": "kept"})[0] == 400  # it is there
        for name in ids:
            assert call("DELETE", f"{BASE}/{name}?deleteOrphanSnapshots=true")[0] == 200
    finally:
        daemon.stop()
        daemon.remove()


def documented():
    text = (ROOT / "docs" / "migrate-from-vercel.md").read_text()
    return re.findall(r"^```js run\n(.*?)^```$", text, re.M | re.S)


@needs_npm
def test_what_the_page_for_movers_shows_runs(project, environment):
    for number, code in enumerate(documented()):
        (project / f"page-{number}.mjs").write_text(code)
    outputs = run_all(project, environment, *[[f"page-{number}.mjs"] for number in range(len(documented()))])
    for code, printed in zip(documented(), outputs, strict=True):
        for promise in re.findall(r"// prints (.+)$", code, re.M):
            assert promise in printed, printed


class TheirCommand:
    def __init__(self, project, environment):
        self.project = project
        self.env = {**environment, "NODE_OPTIONS": "--import cloche/vercel", "VERCEL_TELEMETRY_DISABLED": "1", "SANDBOX_SKIP_VERSION_CHECK": "1", "CI": "1"}
        self.words = ("node", "node_modules/sandbox/bin/sandbox.mjs")

    def __call__(self, *words):
        return run(*self.words, *words, cwd=self.project, env=self.env)

    def start(self, *words, **more):
        """As a person at a terminal does."""
        env = {**self.env, "TERM": "xterm"}
        del env["CI"]
        return subprocess.Popen([*self.words, *words], cwd=self.project, env=env, **more)


@needs_npm
def test_their_command_makes_uses_and_removes_a_sandbox(project, environment, tmp_path):
    sandbox = TheirCommand(project, environment)
    assert "by-command" in sandbox("create", "--name", "by-command")
    try:
        (tmp_path / "file").write_text("carried\n")
        sandbox("cp", str(tmp_path / "file"), "by-command:/vercel/sandbox/file")
        assert "carried" in sandbox("exec", "by-command", "--", "cat", "/vercel/sandbox/file")
        terminal = Terminal(sandbox, "connect", "by-command", rows=31, cols=97)
        terminal.expect("$", 60)  # a prompt: who types before it is heard by nobody
        terminal.type("stty size; cat file\n")
        terminal.expect("31 97")
        terminal.expect("carried")
        terminal.type("exit 7\n")
        assert terminal.finish() == 7
    finally:
        sandbox("rm", "by-command", "--delete-orphan-snapshots")
