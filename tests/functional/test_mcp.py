# SPDX-License-Identifier: Apache-2.0
"""MCP: the tools, sessions and both eras of the protocol, at /mcp and over `cloche mcp`."""

import base64
import json
import signal
import uuid

import httpx
import pytest
from cloche import Client
from harness.cli import Cli
from harness.daemon import Daemon, wait_for
from harness.mcp import MODERN, Session, Stateless, Stdio, call
from harness.running import running

TOOLS = ["run_code", "exec", "read_file", "write_file", "list_files", "create_sandbox", "list_sandboxes", "fork_sandbox",
         "snapshot_sandbox", "open_port", "close_sandbox"]


@pytest.fixture
def session(daemon):
    with Session(daemon.url, daemon.key) as session:
        yield session


@pytest.fixture
def stateless(daemon):
    with Stateless(daemon.url, daemon.key) as stateless:
        yield stateless


@pytest.fixture(params=["http", "stdio"])
def either(request, daemon):
    with Session(daemon.url, daemon.key) if request.param == "http" else Stdio(Cli(daemon)) as either:
        yield either


def test_tools_are_listed_in_a_stable_order_with_schemas(either):
    tools = either.request("tools/list")["tools"]
    assert [tool["name"] for tool in tools] == TOOLS
    assert all(tool["inputSchema"]["type"] == "object" and tool["description"] for tool in tools)
    assert tools == either.request("tools/list")["tools"]


def test_a_command_that_fails_for_what_the_sandbox_lacks_says_what_to_do(either):
    assert "Hint: a sandbox has no network unless it is given one" in call(either, "exec", command="curl -sS https://example.com/", error=True)
    said = either.call("exec", command="no-such-program")["structuredContent"]
    assert said["hint"].startswith("the sandbox has no program 'no-such-program'")


def test_a_session_keeps_its_sandbox_and_its_state(either):
    assert call(either, "run_code", code="x = 41; print('hello')") == "hello\n"
    assert call(either, "run_code", code="x + 1") == "42\n"
    assert call(either, "exec", command="echo out; echo err >&2; pwd > where; exit 3", error=True) == "out\nerr\n[exit code 3]\n"
    assert call(either, "read_file", path="where").startswith("/")


def test_an_error_of_the_code_is_a_tool_error_with_its_traceback(either):
    assert "ZeroDivisionError" in call(either, "run_code", code="1/0", error=True)


def test_pictures_are_image_blocks(session):
    png = base64.b64encode(b"\x89PNG\r\n\x1a\n" + bytes(20)).decode()
    code = f"import base64\nclass P:\n    def _repr_png_(self): return base64.b64decode('{png}')\nP()"
    blocks = session.call("run_code", code=code)["content"]
    assert [(b["mimeType"], b["data"]) for b in blocks if b["type"] == "image"] == [("image/png", png)]
    call(session, "write_file", path="p.png", content_base64=png)
    assert session.call("read_file", path="p.png")["content"] == [{"type": "image", "data": png, "mimeType": "image/png"}]


def test_files_are_written_read_in_parts_and_listed(session):
    call(session, "write_file", path="d/a.txt", content="héllo")
    call(session, "write_file", path="d/a.txt", content=" more", append=True)
    assert call(session, "read_file", path="d/a.txt") == "héllo more"
    assert call(session, "read_file", path="d/a.txt", offset=7, length=4) == "more"
    assert [e["name"] for e in session.call("list_files", path="d")["structuredContent"]["entries"]] == ["a.txt"]
    call(session, "write_file", path="d/raw", content_base64="/wA=")
    assert call(session, "read_file", path="d/raw") == "/wA="


def test_mistakes_are_told_with_the_field_and_a_hint(session):
    assert "code: " in call(session, "run_code", error=True)
    assert "lang: " in call(session, "run_code", code="1", lang="python", error=True)
    assert "list_sandboxes" in call(session, "exec", command="true", sandbox_id="sb_none", error=True)
    assert session.call("read_file", path="nothing")["structuredContent"]["error"] == "file_not_found"


def test_an_unknown_tool_and_an_unknown_method_are_protocol_errors(session):
    assert session.error("tools/call", name="nonsense") == -32602
    assert session.error("resources/list") == -32601


def test_without_a_session_a_sandbox_is_made_and_named(stateless, client):
    found = stateless.request("server/discover")
    assert found["supportedVersions"] == [MODERN] and found["resultType"] == "complete" and found["ttlMs"] > 0
    assert "create_sandbox" in call(stateless, "run_code", code="1", error=True)
    made = stateless.call("create_sandbox")["structuredContent"]["sandbox_id"]
    assert call(stateless, "run_code", code="x = 5", sandbox_id=made) == ""
    assert call(stateless, "run_code", code="x", sandbox_id=made) == "5\n"
    assert client.get(made).info.raw["idle_timeout_ms"] > 0
    assert made in call(stateless, "list_sandboxes")
    assert made in call(stateless, "close_sandbox", sandbox_id=made)
    assert stateless.call("exec", command="true", sandbox_id=made)["isError"]


def test_a_fork_goes_on_from_what_a_sandbox_is_and_a_snapshot_from_what_it_was(session, client):
    call(session, "write_file", path="/tmp/state", content="1")
    fork = session.call("fork_sandbox", count=2, memory=False)["structuredContent"]["sandbox_ids"]
    name = f"mcp-{uuid.uuid4().hex[:8]}"
    snapshot = session.call("snapshot_sandbox", name=name)["structuredContent"]["snapshot_id"]
    call(session, "write_file", path="/tmp/state", content="2")
    assert [call(session, "read_file", path="/tmp/state", sandbox_id=id) for id in fork] == ["1", "1"]
    made = session.call("create_sandbox", snapshot=snapshot)["structuredContent"]["sandbox_id"]
    assert call(session, "read_file", path="/tmp/state", sandbox_id=made) == "1"
    client.delete_snapshot(snapshot)
    assert session.end() == 204  # and with it all that was made in it
    wait_for(lambda: not [s for s in client.list() if s.id in (made, *fork) and s.info.state == "running"], what="their end")


def test_a_port_has_a_url_that_leads_to_it(session):
    call(session, "run_code", language="bash", code="mkdir -p site; echo it works > site/index.html; cd site; python3 -m http.server 8000 >/dev/null 2>&1 &")
    call(session, "exec", command="until python3 -c 'import socket; socket.create_connection((\"127.0.0.1\", 8000))' 2>/dev/null; do :; done")
    opened = session.call("open_port", port=8000)["structuredContent"]
    assert httpx.get(opened["port"]["url"]).text == "it works\n"
    listed = session.call("list_sandboxes")["structuredContent"]["sandboxes"]
    (mine,) = [s for s in listed if s["sandbox_id"] == opened["sandbox_id"]]
    assert [p["port"] for p in mine["ports"]] == [8000] and opened["port"]["token"] not in json.dumps(listed)


def progress(lines):
    """Messages of an event stream."""
    return [json.loads(line[6:]) for line in lines if line.startswith("data: ")]


def test_progress_tells_output_as_it_comes(stateless):
    made = stateless.call("create_sandbox")["structuredContent"]["sandbox_id"]
    params = {"name": "exec", "arguments": {"command": "echo one; read x < /tmp/go; echo two", "sandbox_id": made}, "_meta": {"progressToken": "p"}}
    call(stateless, "exec", command="mkfifo /tmp/go", sandbox_id=made)
    messages = []
    with stateless.http.stream("POST", stateless.url, json={"jsonrpc": "2.0", **stateless.body("tools/call", params)},
                               headers=stateless.headers("tools/call", params)) as reply:
        assert reply.headers["content-type"] == "text/event-stream"
        for line in reply.iter_lines():
            messages += progress([line])
            if len(messages) == 1 and line:  # the command waits for us: what was told came before its end
                assert messages[0]["params"] == {"progressToken": "p", "progress": 1, "message": "one\n"}
                call(Stateless(stateless.url[:-4], stateless.key), "exec", command="echo > /tmp/go", sandbox_id=made)
                messages.append(None)
    assert messages[-1]["result"]["structuredContent"]["stdout"] == "one\ntwo\n"
    call(stateless, "close_sandbox", sandbox_id=made)


def is_running(client, sandbox, word):
    return word in client.get(sandbox).run("cat /proc/*/cmdline 2>/dev/null | tr '\\0' ' '").stdout


def test_a_call_that_is_called_off_ends_in_the_sandbox(either, client):
    """By a notification; over stdio that is all there is."""
    id = either.call("exec", command="true")["structuredContent"]["sandbox_id"]
    request = either.begin("tools/call", {"name": "exec", "arguments": {"command": "sleep 7654"}})
    wait_for(lambda: is_running(client, id, "sleep 7654"), what="the command")
    either.notify("notifications/cancelled", requestId=request)
    wait_for(lambda: not is_running(client, id, "sleep 7654"), what="its end")
    assert call(either, "exec", command="echo alive") == "alive\n"


def test_a_client_that_closes_its_stream_has_called_its_call_off(stateless, client):
    made = stateless.call("create_sandbox")["structuredContent"]["sandbox_id"]
    other = stateless.again()
    other.begin("tools/call", {"name": "run_code", "arguments": {"code": "import time; time.sleep(7654)", "sandbox_id": made}})
    wait_for(lambda: [c.state for c in client.get(made).contexts.list()] == ["busy"], what="the code")
    other.drop()
    wait_for(lambda: [c.state for c in client.get(made).contexts.list()] != ["busy"], what="its end")
    call(stateless, "close_sandbox", sandbox_id=made)


def test_a_session_s_end_deletes_its_sandbox_and_its_id_is_gone(session, client):
    id = session.call("exec", command="true")["structuredContent"]["sandbox_id"]
    assert session.end() == 204
    wait_for(lambda: client.get(id).info.state in ("stopped", "stopping"), what="its end")
    assert session.post({"id": 1, "method": "tools/list"}).status_code == 404
    assert session.post({"id": 1, "method": "tools/list"}, **{"Mcp-Session-Id": "mcp_" + "a" * 26}).status_code == 404


@pytest.mark.parametrize("how", ["eof", "kill"])
def test_cloche_mcp_takes_its_sandbox_along_however_it_ends(daemon, client, how):
    with Stdio(Cli(daemon)) as peer:
        id = peer.call("exec", command="true")["structuredContent"]["sandbox_id"]
        assert client.get(id).info.state == "running"
        if how == "kill":
            peer.process.send_signal(signal.SIGKILL)
    assert peer.status == (0 if how == "eof" else -signal.SIGKILL)
    wait_for(lambda: client.get(id).info.state in ("stopped", "stopping"), what="its end")


def test_stdio_speaks_the_newer_era_with_a_sandbox_of_its_own(daemon):
    with Stdio(Cli(daemon), modern=True) as peer:
        assert peer.request("server/discover")["supportedVersions"] == [MODERN]
        assert call(peer, "run_code", code="x = 1") == ""
        assert call(peer, "run_code", code="x + 1") == "2\n"
        assert peer.error("no/such") == -32601


def test_the_options_of_cloche_mcp_and_the_query_of_the_url_say_what_sandboxes_are(daemon, client, sandbox):
    with Stdio(Cli(daemon), "--env", "WORD=said", "--memory", "200m", "--tag", "a=b") as peer:
        result = peer.call("exec", command="echo $WORD")["structuredContent"]
        info = client.get(result["sandbox_id"]).info
        assert (result["stdout"], info.limits["memory_mib"], info.tags["a"]) == ("said\n", 200, "b")
    with Session(daemon.url, daemon.key, f"?sandbox={sandbox.id}") as session:
        assert session.call("exec", command="true")["structuredContent"]["sandbox_id"] == sandbox.id
    assert sandbox.run("true").exit_code == 0  # a given one stays
    code, _, err = Cli(daemon).bytes("mcp", "--package", "pip:numpy")
    assert code != 0 and b"template" in err


def test_a_sandbox_that_ended_is_told_and_then_replaced(session, client):
    call(session, "run_code", code="x = 1")
    first = session.call("exec", command="true")["structuredContent"]["sandbox_id"]
    client.get(first).delete()
    assert first in call(session, "run_code", code="x", error=True)
    assert "NameError" in call(session, "run_code", code="x", error=True)


def test_calls_at_once_share_the_sandbox_that_the_first_one_makes(daemon):
    with Stdio(Cli(daemon)) as peer:
        requests = {peer.begin("tools/call", {"name": "exec", "arguments": {"command": f"echo {i}"}}): i for i in range(8)}
        replies = [peer.read() for _ in requests]
        assert {r["id"]: r["result"]["structuredContent"]["stdout"] for r in replies} == {id: f"{i}\n" for id, i in requests.items()}
        assert len({r["result"]["structuredContent"]["sandbox_id"] for r in replies}) == 1


@pytest.fixture
def own():
    """A daemon of this test's own."""
    with running(Daemon()) as daemon:
        yield daemon


def test_a_killed_gateway_loses_no_session_and_leaves_no_sandbox_for_ever(own):
    with Session(own.url, own.key) as session, Stdio(Cli(own)) as stdio, Client(own.url, own.key) as client:
        call(session, "run_code", code="x = 41")
        call(stdio, "run_code", code="x = 42")
        own.kill_parts("gateway")
        assert call(session, "run_code", code="x") == "41\n"
        assert call(stdio, "run_code", code="x") == "42\n"
        assert all(s.info.raw["idle_timeout_ms"] > 0 for s in client.list())  # should nobody come back
