# SPDX-License-Identifier: Apache-2.0
"""Who attacks /mcp: without a key, from a web page, with another's session, with more sessions than it may have, with odd messages."""

import http.client
import json

import pytest
from harness.cli import Cli
from harness.mcp import META, MODERN, Http, Session, Stateless, Stdio, call


def status_of(daemon, **headers):
    """Of a ping with these headers."""
    connection = http.client.HTTPConnection("127.0.0.1", daemon.port, timeout=60)
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "ping"})
    connection.putrequest("POST", "/mcp", skip_host=True)
    for name, value in {"Host": f"127.0.0.1:{daemon.port}", "Content-Type": "application/json", "Content-Length": str(len(body)),
                        "Authorization": f"Bearer {daemon.key}", **headers}.items():
        if value is not None:
            connection.putheader(name, value)
    connection.endheaders(body.encode())
    status = connection.getresponse().status
    connection.close()
    return status


def test_A23_mcp_answers_no_stranger_and_no_web_page(daemon, project_keys):
    assert status_of(daemon) == 200
    for wrong in (None, "Bearer clo_" + "0" * 40):
        assert status_of(daemon, Authorization=wrong) in (401, 429)  # the second where many were refused just before
    assert status_of(daemon, Authorization=f"Bearer {project_keys['read']}") == 403
    assert status_of(daemon, Origin="https://evil.example") == 403
    assert status_of(daemon, Origin="null") == 403
    assert status_of(daemon, Host="evil.example") in (400, 403, 421)  # a name that was made to point here


def test_A23_a_session_is_of_no_use_to_another_key(daemon, project_keys):
    with Session(daemon.url, project_keys["write"]) as mine:
        call(mine, "run_code", code="secret = 1")
        own = mine.call("exec", command="true")["structuredContent"]["sandbox_id"]
        for key in (project_keys["admin"], project_keys["other"]):
            with Http(daemon.url, key) as thief:
                for method in ("tools/list", "tools/call"):
                    assert thief.post({"id": 1, "method": method, "params": {"name": "run_code"}}, **{"Mcp-Session-Id": mine.id}).status_code == 404
                assert thief.http.delete(thief.url, headers={"Mcp-Session-Id": mine.id}).status_code == 404
                assert thief.http.get(thief.url, headers={"Mcp-Session-Id": mine.id, "Cloche-Hold-Session": "1"}).status_code == 404
        with Session(daemon.url, project_keys["other"]) as stranger:
            assert "no sandbox" in call(stranger, "run_code", code="secret", sandbox_id=own, error=True)
            assert "no sandbox" in call(stranger, "close_sandbox", sandbox_id=own, error=True)
            assert own not in call(stranger, "list_sandboxes")
        assert call(mine, "run_code", code="secret") == "1\n"


def test_A23_sessions_of_a_key_are_bounded_and_those_with_a_sandbox_stay(daemon, project_keys):
    with Session(daemon.url, project_keys["write"]) as first, Http(daemon.url, project_keys["write"]) as http:
        call(first, "run_code", code="x = 1")
        ids = {http.post({"id": 0, "method": "initialize"}).headers["Mcp-Session-Id"] for _ in range(100)}
        assert len(ids) == 100
        assert call(first, "run_code", code="x") == "1\n"
        alive = [id for id in ids if http.post({"id": 1, "method": "ping"}, **{"Mcp-Session-Id": id}).status_code == 200]
        assert 0 < len(alive) < 64
        for id in alive:
            http.http.delete(http.url, headers={"Mcp-Session-Id": id})


ODD = [b"", b"{", b"[]", b"[1]", b'[{"jsonrpc":"2.0","id":1,"method":"ping"}]', b"null", b'"x"', b"{}", b'{"jsonrpc":"1.0","id":1,"method":"ping"}',
       b'{"jsonrpc":"2.0","id":null,"method":"ping"}', b'{"jsonrpc":"2.0","id":{},"method":"ping"}', b'{"jsonrpc":"2.0","id":1.5,"method":"ping"}',
       b'{"jsonrpc":"2.0","id":1,"method":1}', b'{"jsonrpc":"2.0","id":1,"method":"ping","params":[]}', b'{"jsonrpc":"2.0","id":1,"method":"ping","id":2}',
       b'{"jsonrpc":"2.0","id":1,"method":"tools/call"}', b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"run_code","arguments":[]}}',
       b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"run_code","_meta":3}}', b'{"jsonrpc":"2.0","id":1,"method":"a\\u0000b"}',
       b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"_meta":{"progressToken":{}}}}', b'{"jsonrpc":"2.0","id":"' + b"i" * 5000 + b'","method":"ping"}',
       b'{"a":' * 100 + b"1" + b"}" * 100, b'{"jsonrpc":"2.0","id":1,"method":"\xff"}']


def test_A23_odd_messages_are_refused_and_the_server_goes_on(daemon):
    with Session(daemon.url, daemon.key) as session:
        for body in ODD:
            reply = session.http.post(session.url, content=body, headers={"Content-Type": "application/json"})
            assert reply.status_code == 400 or "error" in reply.json(), (body, reply.text)
        assert session.http.post(session.url, content=b"x" * (5 << 20), headers={"Content-Type": "application/json"}).status_code == 413
        assert session.request("ping") == {}


def test_A23_odd_lines_on_stdin_are_answered_and_the_next_one_is_heard(daemon):
    with Stdio(Cli(daemon)) as peer:
        for line in ODD:
            if line and b"tools/call" not in line and b"\xff" not in line:
                peer.process.stdin.write(line.decode() + "\n")
                peer.process.stdin.flush()
                assert peer.read()["error"]["code"] in (-32700, -32600, -32602), line
        assert peer.request("ping") == {}


@pytest.mark.parametrize("wrong", ["MCP-Protocol-Version", "Mcp-Method", "Mcp-Name"])
def test_A23_headers_that_say_another_thing_than_the_body_are_refused(daemon, wrong):
    params = {"name": "list_sandboxes", "_meta": META}
    good = {"MCP-Protocol-Version": MODERN, "Mcp-Method": "tools/call", "Mcp-Name": "list_sandboxes"}
    with Stateless(daemon.url, daemon.key) as peer:
        message = {"id": 1, "method": "tools/call", "params": params}
        assert peer.post(message, **good).status_code == 200
        for value in ("other", None):
            headers = {k: v for k, v in {**good, wrong: value}.items() if v}
            reply = peer.post(message, **headers)
            assert (reply.status_code, reply.json()["error"]["code"]) == (400, -32020)
        other = {**params, "_meta": {**META, "io.modelcontextprotocol/protocolVersion": "2199-01-01"}}
        reply = peer.post({**message, "params": other}, **{**good, "MCP-Protocol-Version": "2199-01-01"})
        assert (reply.status_code, reply.json()["error"]["data"]["supported"]) == (400, [MODERN])
