# SPDX-License-Identifier: Apache-2.0
"""E2B's wire as bytes: status codes and bodies that its clients decide by. tests/compat drives the clients themselves."""

import base64
import gzip
import hashlib
import http.client
import json
import re
import shutil
from unittest.mock import ANY
from urllib.parse import quote

import pytest
from cloche import errors
from harness.daemon import Daemon


def ask(daemon, method, path, body=None, headers=None, key=None, raw=False):
    """Status, fields and body, the latter parsed where it is JSON."""
    connection = http.client.HTTPConnection("127.0.0.1", daemon.port, timeout=60)
    fields = {"X-API-Key": daemon.key if key is None else key, **(headers or {})}
    data = body if isinstance(body, (bytes, type(None))) else json.dumps(body).encode()
    if data is not None:
        fields.setdefault("Content-Type", "application/json")
    try:
        connection.request(method, path, data, {name: value for name, value in fields.items() if value})
        reply = connection.getresponse()
        text = reply.read()
        is_json = not raw and reply.headers.get("Content-Type", "").startswith("application/json")
        return reply.status, reply.headers, json.loads(text) if is_json else text
    finally:
        connection.close()


def test_a_sandbox_is_killed_once(daemon, client):
    sandbox = client.create()
    path = f"/sandboxes/{sandbox.id.removeprefix('sb_')}"
    status, fields, body = ask(daemon, "DELETE", path)
    assert (status, body) == (204, b"")
    status, fields, body = ask(daemon, "DELETE", path)
    assert (status, body["code"]) == (404, 404)
    assert "not found" in body["message"]
    with pytest.raises(errors.Gone):
        sandbox.run("true")


def test_without_a_key_the_control_plane_says_so_in_its_own_words(daemon):
    status, _, body = ask(daemon, "DELETE", "/sandboxes/" + "a" * 26, key="")
    assert status == body["code"] and status in (401, 429)  # the second where many were refused just before
    assert sorted(body) == ["code", "message"]


class Wire:
    """A sandbox made by E2B's wire, and what its SDKs would send to it."""

    def __init__(self, daemon, path="/v2/sandboxes", **body):
        self.daemon = daemon
        status, _, made = ask(daemon, "POST", path, {"templateID": "base", **body})
        assert status == 201, made
        self.id, self.token = made["sandboxID"], made.get("envdAccessToken")
        self.made = made

    def __enter__(self):
        return self

    def __exit__(self, *_):
        ask(self.daemon, "DELETE", f"/sandboxes/{self.id}")

    def fields(self, **more):
        named = {"E2b-Sandbox-Id": self.id, "E2b-Sandbox-Port": "49983", "X-API-Key": None}
        return {**named, **({"X-Access-Token": self.token} if self.token else {}), **more}

    def call(self, method, message, **more):
        """A unary RPC: status and reply."""
        status, _, body = ask(self.daemon, "POST", f"/{method}", message, self.fields(**more))
        return status, body

    def stream(self, method, message, envelope=None, **more):
        """A streaming RPC: its messages, and the last one's content."""
        text = json.dumps(message).encode()
        data = envelope if envelope is not None else b"\0" + len(text).to_bytes(4, "big") + text
        fields = self.fields(**{"Content-Type": "application/connect+json", **more})
        status, headers, body = ask(self.daemon, "POST", f"/{method}", data, fields)
        assert status == 200 and headers["Content-Type"] == "application/connect+json"
        messages, at = [], 0
        while at < len(body):
            flags, size = body[at], int.from_bytes(body[at + 1:at + 5], "big")
            content = json.loads(body[at + 5:at + 5 + size])
            at += 5 + size
            if flags == 2:
                assert at == len(body)
                return messages, content
            messages.append(content["event"])
        raise AssertionError("the stream has no end")

    def run(self, command, **more):
        return self.stream("process.Process/Start", {"process": {"cmd": "/bin/bash", "args": ["-c", command]}, "stdin": False}, **more)


@pytest.fixture
def wire(daemon):
    with Wire(daemon) as wire:
        yield wire


def text_of(messages, stream):
    return b"".join(base64.b64decode(m["data"][stream]) for m in messages if stream in m.get("data", {})).decode()


def test_a_create_needs_no_more_than_a_template_and_tells_what_clients_need(daemon, wire):
    assert re.fullmatch("[a-z0-9]+", wire.id) and wire.token
    assert {"templateID", "sandboxID", "clientID", "envdVersion"} <= set(wire.made)
    status, _, info = ask(daemon, "GET", f"/sandboxes/{wire.id}")
    assert status == 200 and info["state"] == "running"
    assert {"startedAt", "endAt", "cpuCount", "memoryMB", "diskSizeMB", "envdVersion", "lifecycle"} <= set(info)


def test_both_generations_list_what_runs(daemon):
    with Wire(daemon, "/sandboxes", metadata={"k 1": "v&=1"}, secure=True) as mine, Wire(daemon):
        for path in ("/sandboxes", "/v2/sandboxes"):
            status, fields, rows = ask(daemon, "GET", path + "?metadata=k%2525201%3Dv%252526%25253D1")
            assert status == 200 and [r["sandboxID"] for r in rows] == [mine.id]
            assert rows[0]["metadata"] == {"k 1": "v&=1"}
        status, fields, rows = ask(daemon, "GET", "/v2/sandboxes?limit=1&order=asc")
        assert len(rows) == 1 and fields["X-Next-Token"]


@pytest.mark.parametrize("body, status", [
    ({}, 400), ({"templateID": "nothing-of-that-name"}, 404), ({"templateID": "base", "timeout": 0}, 400),
    ({"templateID": "base", "network": {"denyOut": ["x"]}}, 400), ({"templateID": "base", "envVars": {"A": 1}}, 400),
    ({"templateID": "base", "autoPauseMemory": False}, 400), ({"templateID": 5}, 400),
])
def test_a_wrong_create_is_refused_with_a_number_and_words(daemon, body, status):
    got, _, reply = ask(daemon, "POST", "/v2/sandboxes", body)
    assert (got, reply["code"]) == (status, status) and reply["message"]


def test_a_command_tells_its_start_output_and_end(wire):
    messages, end = wire.run("echo out; echo err >&2; echo $E2B_SANDBOX_ID; exit 3")
    assert end == {} and messages[0]["start"]["pid"] > 0
    assert text_of(messages, "stdout") == f"out\n{wire.id}\n" and text_of(messages, "stderr") == "err\n"
    assert messages[-1] == {"end": {"exitCode": 3, "exited": True, "status": "exit status 3", "error": "exit status 3"}}


def test_a_command_that_is_killed_or_late_says_so(wire):
    messages, _ = wire.run("kill -9 $$")
    assert messages[-1]["end"] == {"exitCode": -1, "status": "signal: killed", "error": "signal: killed"}
    messages, end = wire.run("sleep 100", **{"Connect-Timeout-Ms": "200"})
    assert end["error"]["code"] == "deadline_exceeded"


@pytest.mark.parametrize("message, more, code", [
    ({"process": {"cmd": "/bin/true", "cwd": "/nowhere"}}, {}, "invalid_argument"),
    ({"process": {"cmd": "/no/such/program"}}, {}, "invalid_argument"),
    ({"process": {}}, {}, "invalid_argument"),
    ({"process": {"cmd": "/bin/true"}}, {"Authorization": "Basic bm9ib2R5LWhlcmU6"}, "unauthenticated"),
])
def test_what_cannot_start_ends_its_stream_with_a_reason(wire, message, more, code):
    messages, end = wire.stream("process.Process/Start", message, **more)
    assert messages == [] and end["error"]["code"] == code


@pytest.mark.parametrize("envelope", [
    b"", b"\0", b"\0\0\0\0\5{}", b"\1\0\0\0\2{}", b"\2\0\0\0\2{}", b"\0\xff\xff\xff\xff", b"\0\0\0\0\2{}\0\0\0\0\2{}", b"\0\0\0\0\1{",
    b"\0\0\0\0\4\xff\xff\xff\xff", b'\0\0\0\0\x14{"process": ' + b"[" * 8 + b"]",
])
def test_a_broken_envelope_ends_the_stream_and_nothing_else(wire, envelope):
    messages, end = wire.stream("process.Process/Start", None, envelope)
    assert messages == [] and end["error"]["code"] in ("invalid_argument", "resource_exhausted")
    assert text_of(wire.run("echo fine")[0], "stdout") == "fine\n"


def test_files_are_written_read_listed_moved_and_removed(daemon, wire):
    form = (b'--b\r\nContent-Disposition: form-data; name="file"; filename="d/one.txt"\r\n\r\n1\r\n'
            b'--b\r\nContent-Disposition: form-data; name="file"; filename="/srv/x/two.txt"\r\n\r\n2\r\n--b--\r\n')
    fields = wire.fields(**{"Content-Type": "multipart/form-data; boundary=b", "X-Metadata-Author": "me"})
    status, _, made = ask(daemon, "POST", "/files", form, fields)
    assert status == 200
    assert [(f["path"], f["metadata"]) for f in made] == [("/home/user/d/one.txt", {"author": "me"}), ("/srv/x/two.txt", {"author": "me"})]
    raw = {"Content-Type": "application/octet-stream", "Content-Encoding": "gzip"}
    status, _, made = ask(daemon, "POST", "/files?path=d/three", gzip.compress(b"3" * 100000), wire.fields(**raw))
    assert (status, made) == (200, [{"name": "three", "type": "file", "path": "/home/user/d/three"}])
    assert ask(daemon, "GET", "/files?path=~/d/three", headers=wire.fields())[2] == b"3" * 100000
    status, listed = wire.call("filesystem.Filesystem/ListDir", {"path": "d"})
    assert [(e["name"], e["owner"], e["type"]) for e in listed["entries"]] == [
        ("one.txt", "user", "FILE_TYPE_FILE"), ("three", "user", "FILE_TYPE_FILE")]
    status, moved = wire.call("filesystem.Filesystem/Move", {"source": "d/one.txt", "destination": "e/one.txt"})
    assert moved["entry"]["path"] == "/home/user/e/one.txt" and moved["entry"]["metadata"] == {"author": "me"}
    assert wire.call("filesystem.Filesystem/Stat", {"path": "d/one.txt"}) == (404, {"code": "not_found", "message": ANY})
    assert wire.call("filesystem.Filesystem/MakeDir", {"path": "d"})[1]["code"] == "already_exists"
    assert wire.call("filesystem.Filesystem/Remove", {"path": "d"}) == (200, {})
    assert ask(daemon, "GET", "/files?path=d/three", headers=wire.fields())[0] == 404
    assert ask(daemon, "GET", "/files?path=e", headers=wire.fields())[0] == 400


def test_a_link_tells_where_it_leads(wire):
    wire.run("mkdir -p a && echo x > a/file && ln -s a/file link && ln -s nowhere broken")
    entry = wire.call("filesystem.Filesystem/Stat", {"path": "link"})[1]["entry"]
    assert (entry["type"], entry["symlinkTarget"], entry["permissions"]) == ("FILE_TYPE_FILE", "/home/user/a/file", "Lrwxrwxrwx")


def test_a_watcher_has_seen_what_was_done_before_it_is_asked(daemon, wire):
    wire.call("filesystem.Filesystem/MakeDir", {"path": "w"})
    watcher = wire.call("filesystem.Filesystem/CreateWatcher", {"path": "w", "recursive": True})[1]
    for name in ("one", "two"):
        ask(daemon, "POST", f"/files?path=w/{name}", b"x", wire.fields(**{"Content-Type": "application/octet-stream"}))
        events = wire.call("filesystem.Filesystem/GetWatcherEvents", watcher)[1]["events"]
        assert [(e["name"], e["type"]) for e in events] == [
            (name, "EVENT_TYPE_CREATE"), (name, "EVENT_TYPE_CHMOD"), (name, "EVENT_TYPE_WRITE")]
    assert wire.call("filesystem.Filesystem/RemoveWatcher", watcher) == (200, {})
    assert wire.call("filesystem.Filesystem/GetWatcherEvents", watcher)[0] == 404
    assert wire.call("filesystem.Filesystem/CreateWatcher", {"path": "missing"})[1]["code"] == "not_found"


def signed(wire, path, op, expiration=None):
    words = f"{path}:{op}::{wire.token}" + (f":{expiration}" if expiration else "")
    text = base64.b64encode(hashlib.sha256(words.encode()).digest()).decode().rstrip("=")
    return f"/files?path={path}&signature=v1_{quote(text, safe='')}" + (f"&signature_expiration={expiration}" if expiration else "")


def test_a_signed_url_opens_one_path_for_one_operation(daemon, wire):
    nobody = {"X-API-Key": None, "Content-Type": "application/octet-stream"}
    assert ask(daemon, "POST", signed(wire, "s.txt", "write"), b"signed", nobody)[0] == 200
    assert ask(daemon, "GET", signed(wire, "s.txt", "read"), headers=nobody)[2] == b"signed"
    for url in (signed(wire, "s.txt", "write"), signed(wire, "s.txt", "read").replace("s.txt", "t.txt"), "/files?path=s.txt&signature=v1_x"):
        assert ask(daemon, "GET", url, headers=nobody)[0] == 401
    status, _, body = ask(daemon, "GET", signed(wire, "s.txt", "read", 1), headers=nobody)
    assert (status, body) == (401, {"code": 401, "message": "signature is already expired"})


INSIDE = ["process.Process/List", "process.Process/SendInput", "process.Process/CloseStdin", "process.Process/SendSignal", "process.Process/Update",
          "filesystem.Filesystem/Stat", "filesystem.Filesystem/ListDir", "filesystem.Filesystem/MakeDir", "filesystem.Filesystem/Move",
          "filesystem.Filesystem/Remove", "filesystem.Filesystem/CreateWatcher", "filesystem.Filesystem/GetWatcherEvents",
          "filesystem.Filesystem/RemoveWatcher"]
STREAMS = ["process.Process/Start", "process.Process/Connect", "process.Process/StreamInput", "filesystem.Filesystem/WatchDir"]


@pytest.fixture(scope="module")
def pair(daemon):
    with Wire(daemon) as one, Wire(daemon) as other:
        yield one, other


@pytest.mark.parametrize("method", INSIDE + STREAMS)
def test_no_token_another_sandboxes_token_and_a_key_open_nothing_inside(daemon, pair, method):
    one, other = pair
    for token, key in ((None, None), (other.token, None), ("", None), (None, daemon.key)):
        fields = {"X-Access-Token": token, "X-API-Key": key}
        if method in STREAMS:
            messages, end = one.stream(method, {}, **fields)
            assert messages == [] and end["error"]["code"] == "unauthenticated"
        else:
            status, body = one.call(method, {}, **fields)
            assert (status, body["code"]) == (401, "unauthenticated")
    for path in ("/files?path=x", "/files?path=x&signature=v1_" + "a" * 43):
        assert ask(daemon, "GET", path, headers=one.fields(**{"X-Access-Token": other.token}))[0] == 401


def test_a_sandbox_of_the_native_api_opens_to_who_connects_with_a_key(daemon, client):
    with client.create() as sandbox:
        wire = Wire.__new__(Wire)
        wire.daemon, wire.id, wire.token = daemon, sandbox.id.removeprefix("sb_"), None
        assert wire.call("process.Process/List", {})[0] == 401
        status, _, made = ask(daemon, "POST", f"/v2/sandboxes/{wire.id}/connect", {})
        wire.token = made["envdAccessToken"]
        assert (status, wire.call("process.Process/List", {})) == (200, (200, {"processes": []}))


def test_whoever_is_gone_is_told_as_their_own_proxy_would(daemon):
    with Wire(daemon) as wire:
        assert ask(daemon, "GET", "/health", headers=wire.fields())[0] == 204
    status, _, body = ask(daemon, "GET", "/health", headers=wire.fields())
    assert (status, body) == (502, {"sandboxId": wire.id, "message": "The sandbox was not found", "code": 502})


def test_a_pause_is_seen_and_a_connect_wakes(daemon, wire):
    assert ask(daemon, "POST", f"/sandboxes/{wire.id}/pause")[0] == 204
    assert ask(daemon, "POST", f"/sandboxes/{wire.id}/pause", {})[0] == 409
    assert ask(daemon, "GET", "/health", headers=wire.fields())[0] == 502
    assert ask(daemon, "GET", f"/sandboxes/{wire.id}")[2]["state"] == "paused"
    assert ask(daemon, "POST", f"/v2/sandboxes/{wire.id}/connect", {"timeout": 60})[0] == 201
    assert ask(daemon, "POST", f"/v2/sandboxes/{wire.id}/connect", {"timeout": 60})[0] == 200
    assert text_of(wire.run("echo back")[0], "stdout") == "back\n"


def code(wire, body=None, path="/execute", method="POST", **more):
    """The interpreter's reply: lines of JSON, one JSON, or text."""
    fields = {**wire.fields(**more), "E2b-Sandbox-Port": "49999"}
    if path != "/execute":  # as E2B's clients do
        fields["X-Access-Token"] = None
    status, headers, text = ask(wire.daemon, method, path, body, {**fields, "Accept": "x"}, raw=True)
    assert text.isascii()
    if status != 200:
        return status, text.decode()
    return status, [json.loads(line) for line in text.decode().splitlines()]


def kinds(lines):
    return [line["type"] for line in lines]


def test_code_keeps_its_state_and_tells_what_it_prints_shows_and_how_often_it_ran(wire):
    assert kinds(code(wire, {"code": "x = 'ö'"})[1]) == ["number_of_executions", "end_of_execution"]
    status, lines = code(wire, {"code": "print('a'); x"})
    assert [{k: v for k, v in line.items() if k != "timestamp"} for line in lines] == [
        {"type": "stdout", "text": "a\n"}, {"type": "result", "is_main_result": True, "text": "ö"},
        {"type": "number_of_executions", "execution_count": 2}, {"type": "end_of_execution"}]


def test_an_error_of_the_code_is_an_event_with_its_traceback(wire):
    error = next(line for line in code(wire, {"code": "nothing_of_that_name"})[1] if line["type"] == "error")
    assert error["name"] == "NameError" and "nothing_of_that_name" in error["value"] and "Traceback" in error["traceback"]


def test_variables_of_one_run_are_gone_in_the_next(daemon):
    with Wire(daemon, envVars={"OF_SANDBOX": "first"}) as wire:
        env = {"env_vars": {"OF_SANDBOX": "it's \"mine\"", "OF_RUN": "ö"}}
        for language, show in (("python", "import os; print(os.environ.get('OF_SANDBOX'), os.environ.get('OF_RUN', ''))"),
                               ("bash", 'echo "$OF_SANDBOX" "$OF_RUN"')):
            printed = ["".join(line["text"] for line in code(wire, {"code": show, "language": language, **e})[1] if line["type"] == "stdout")
                       for e in (env, {"env_vars": None})]
            assert printed == ["it's \"mine\" ö\n", "first \n"]


@pytest.mark.parametrize("language, program, show, shown, printing", [
    ("r", "Rscript", "paste(Sys.getenv('OF_SANDBOX'), Sys.getenv('OF_RUN'))", '[1] "{} {}"', "cat('a\\n')"),
    ("java", "jshell", 'System.getProperty("OF_SANDBOX") + "," + System.getProperty("OF_RUN", "")', "{},{}", 'System.out.println("a")')])
def test_r_and_java_have_results_output_and_variables_of_one_run(daemon, language, program, show, shown, printing):
    if not shutil.which(program):
        pytest.skip(f"this host has no {program}")
    with Wire(daemon, envVars={"OF_SANDBOX": "first"}) as wire:
        env = {"env_vars": {"OF_SANDBOX": "it's", "OF_RUN": "ö"}}
        results = [line["text"] for e in (env, {}) for line in code(wire, {"code": show, "language": language.upper(), **e})[1] if line["type"] == "result"]
        assert results == [shown.format("it's", "ö"), shown.format("first", "")]
        printed = [line["text"] for line in code(wire, {"code": printing, "language": language})[1] if line["type"] == "stdout"]
        assert printed == (["a", "\n"] if language == "java" else ["a\n"])
        made = code(wire, {"language": language}, "/contexts")[1][0]
        assert made["language"] == language


def test_contexts_are_made_listed_restarted_and_removed(wire):
    made = code(wire, {"cwd": "/tmp", "language": "Python"}, "/contexts")[1][0]
    assert made == {"id": ANY, "language": "python", "cwd": "/tmp"}
    listed = code(wire, path="/contexts", method="GET")[1][0]
    assert [c["language"] for c in listed[:2]] == ["python", "javascript"] and listed[-1] == made
    run = {"context_id": made["id"]}
    code(wire, {"code": "x = 1", **run})
    assert any(line.get("text") == "/tmp\n" for line in code(wire, {"code": "import os; print(os.getcwd())", **run})[1])
    assert code(wire, None, f"/contexts/{made['id']}/restart") == (200, [None])
    assert "error" in kinds(code(wire, {"code": "x", **run})[1])
    assert code(wire, None, f"/contexts/{made['id']}", "DELETE") == (200, [None])
    assert code(wire, {"code": "x", **run}) == (404, f"Context {made['id']} not found")


@pytest.mark.parametrize("body, status", [
    ({"code": "1", "language": "cobol"}, 500), ({"code": "1", "language": "python", "context_id": "python"}, 400), ({}, 400), ({"code": 5}, 400)])
def test_what_is_no_run_is_refused_in_plain_text(wire, body, status):
    got, text = code(wire, body)
    assert got == status and text and not text.startswith("{")


def test_ports_that_are_closed_keep_the_interpreter_closed(daemon):
    with Wire(daemon, network={"allowPublicTraffic": False}) as wire:
        traffic = wire.made["trafficAccessToken"]
        for token, status in ((None, 403), ("x", 403), (traffic, 200)):
            assert code(wire, {"code": "1"}, **{"E2B-Traffic-Access-Token": token})[0] == status
        assert text_of(wire.run("echo envd is not")[0], "stdout") == "envd is not\n"


@pytest.fixture(scope="module")
def named():
    """A daemon whose sandboxes have names below a domain."""
    daemon = Daemon("--preview-domain", "box.test", "--pool-max", "0").start()
    try:
        yield daemon
    finally:
        daemon.stop()
        daemon.remove()


def test_by_name_ports_lead_to_envd_and_to_servers_inside(named):
    mask = {"allowPublicTraffic": False, "maskRequestHost": "app.example:${PORT}"}
    with Wire(named) as wire, Wire(named, network=mask) as closed:
        assert wire.made["domain"] == f"box.test:{named.port}"
        for one in (wire, closed):
            serve = ("from http.server import *\nclass H(BaseHTTPRequestHandler):\n def do_GET(self):\n  self.send_response(200); self.end_headers()\n"
                     "  self.wfile.write((self.headers['Host'] + str(self.headers['E2B-Traffic-Access-Token'])).encode())\n"
                     "s = HTTPServer(('127.0.0.1', 8000), H); print('up', flush=True)\nif not __import__('os').fork(): s.serve_forever()")
            fields = one.fields(**{"Content-Type": "application/octet-stream"})
            assert ask(named, "POST", "/files?path=serve.py", serve.encode(), fields)[0] == 200
            one.run("python3 serve.py > log 2>&1 < /dev/null; cat log")

        def visit(one, port, path="/", **more):
            return ask(named, "GET", path, headers={"Host": f"{port}-{one.id}.box.test:{named.port}", "X-API-Key": None, **more})

        assert visit(wire, 49983, "/health")[0] == 204
        assert visit(wire, 8000)[::2] == (200, b"localhost:8000None")
        assert visit(closed, 8000)[0] == 403
        token = {"E2B-Traffic-Access-Token": closed.made["trafficAccessToken"]}
        assert visit(closed, 8000, **token)[::2] == (200, b"app.example:8000None")
        assert visit(closed, 8000, **{"E2B-Traffic-Access-Token": "x" * 26})[0] == 403
    assert visit(wire, 8000)[::2] == (502, {"sandboxId": wire.id, "message": "The sandbox was not found", "code": 502})
