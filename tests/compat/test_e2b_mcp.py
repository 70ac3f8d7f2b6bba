# SPDX-License-Identifier: Apache-2.0
"""E2B's option `mcp` of a create: their client starts the gateway of the template `mcp-gateway`, here the same program over this host's own."""

import http.client
import json
import re
import tomllib

import pytest
from harness.daemon import ROOT, Daemon

e2b = pytest.importorskip("e2b")
RECIPE = tomllib.loads((ROOT / "guest/templates/mcp-gateway.toml").read_text())
PROGRAM = "/usr/local/bin/mcp-gateway"
# A server of stdio: says who it is, and ends when it is told to.
SERVER = r"""
import json, os, sys
name = sys.argv[1]
for line in sys.stdin:
    m = json.loads(line)
    if m["method"] == "initialize":
        result = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": {"name": name, "version": "1"}}
    elif m["method"] == "tools/list":
        result = {"tools": [{"name": f"{name}_who", "inputSchema": {"type": "object"}}]}
    elif m["method"] == "tools/call":
        if m["params"]["arguments"].get("end"):
            os._exit(1)
        print("not JSON", flush=True)
        said = f"{name} {os.getuid()} {os.environ.get('A')} {os.environ.get('GATEWAY_ACCESS_TOKEN')} {m['params']['arguments'].get('word')}"
        result = {"content": [{"type": "text", "text": said}]}
    else:
        continue
    print(json.dumps({"jsonrpc": "2.0", "id": m["id"], "result": result}), flush=True)
"""


@pytest.fixture(scope="module")
def settings():
    daemon = Daemon("--preview-domain", "box.test").start()
    settings = {"api_url": daemon.url, "sandbox_url": daemon.url, "api_key": f"e2b_{daemon.key.removeprefix('clo_')}"}
    try:
        box = e2b.Sandbox.create(**settings)
        box.files.write(PROGRAM, RECIPE["files"][PROGRAM], user="root")
        box.files.write("/opt/server.py", SERVER, user="root")
        box.commands.run(f"chmod 755 {PROGRAM}", user="root")
        settings["template"] = box.create_snapshot().snapshot_id
        box.kill()
        yield settings
    finally:
        daemon.stop()
        daemon.remove()


def keys(settings):
    return {name: value for name, value in settings.items() if name != "template"}


def ask(settings, box, method, token, params=None, verb="POST", number=1):
    """(status, body) of a request to the gateway by the port's name."""
    conn = http.client.HTTPConnection(settings["api_url"].removeprefix("http://"), timeout=60)
    body = json.dumps({"jsonrpc": "2.0", "method": method, "params": params or {}, **({"id": number} if number else {})})
    headers = {"Host": re.sub(r"^https?://|/.*$", "", box.get_mcp_url()), "Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
    conn.request(verb, "/mcp", body if verb == "POST" else None, {**headers, **({"Authorization": f"Bearer {token}"} if token else {})})
    reply = conn.getresponse()
    text = reply.read()
    conn.close()
    return reply.status, json.loads(text) if text else None


def test_their_client_starts_servers_and_their_tools_are_called_with_its_token(settings):
    mcp = {f"stdio/{name}": {"runCmd": f"python3 /opt/server.py {name}", "installCmd": "touch ~/installed", "envs": {"A": f"a {name}"}} for name in ("one", "two")}
    box = e2b.Sandbox.create(mcp=mcp, domain="box.test", **settings)
    try:
        token = box.get_mcp_token()
        assert e2b.Sandbox.connect(box.sandbox_id, domain="box.test", **keys(settings)).get_mcp_token() == token
        status, said = ask(settings, box, "initialize", token, {"protocolVersion": "2025-11-25"})
        assert status == 200 and said["result"]["protocolVersion"] == "2025-11-25" and "tools" in said["result"]["capabilities"]
        assert ask(settings, box, "notifications/initialized", token, number=None) == (202, None)
        assert [t["name"] for t in ask(settings, box, "tools/list", token)[1]["result"]["tools"]] == ["one_who", "two_who"]
        status, said = ask(settings, box, "tools/call", token, {"name": "two_who", "arguments": {"word": "é"}})
        assert said["result"]["content"][0]["text"] == "two 1000 a two None é"
        assert box.files.exists("/home/user/installed")
        for wrong in (None, "x", token + "x"):
            assert ask(settings, box, "tools/list", wrong)[0] == 401
        assert ask(settings, box, "", token, verb="GET")[0] == 405 and ask(settings, box, "", token, verb="DELETE")[0] == 200
        assert ask(settings, box, "resources/list", token)[1]["error"]["code"] == -32601
        assert "no tool 'none'" in ask(settings, box, "tools/call", token, {"name": "none"})[1]["error"]["message"]
        ended = ask(settings, box, "tools/call", token, {"name": "one_who", "arguments": {"end": True}})[1]["error"]["message"]
        assert "stdio/one has ended" in ended
        assert "two 1000" in json.dumps(ask(settings, box, "tools/call", token, {"name": "two_who", "arguments": {}})[1])
        assert box.commands.run("cat /etc/mcp-gateway/.token; id -u", user="root").stdout == f"{token}0\n"
        with pytest.raises(e2b.CommandExitException):
            box.commands.run("cat /etc/mcp-gateway/.token")
    finally:
        box.kill()


@pytest.mark.parametrize("mcp, why", [
    ({"airtable": {"airtableApiKey": "x", "nodeenv": "y"}}, "airtable: is an image of Docker's catalogue, which a sandbox cannot run"),
    ({"stdio/x": {}}, "stdio/x: runCmd must be a command"),
    ({"stdio/../x": {"runCmd": "true"}}, "is an image"),
    ({"stdio/x": {"runCmd": "true"}}, "stdio/x: the server stdio/x has ended"),
    ({"stdio/x": {"runCmd": "true", "installCmd": "echo why >&2; exit 3"}}, r"stdio/x: `echo why >&2; exit 3` failed \(3\): why"),
    ({"stdio/x": {"runCmd": "python3 /opt/server.py a"}, "stdio/y": {"runCmd": "python3 /opt/server.py a"}}, "stdio/y: its tool 'a_who' is stdio/x's, too"),
    ({"filesystem": {}}, "filesystem: paths must be a list"),
], ids=lambda value: next(iter(value)) if isinstance(value, dict) else "")
def test_what_cannot_run_is_refused_by_name_and_its_sandbox_is_gone(settings, mcp, why):
    with pytest.raises(e2b.SandboxException, match=f"Failed to start MCP gateway: mcp-gateway: .*{why}"):
        e2b.Sandbox.create(mcp=mcp, **settings)
    assert not e2b.Sandbox.list(**keys(settings)).next_items()
