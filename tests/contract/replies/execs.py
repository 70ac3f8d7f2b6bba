# SPDX-License-Identifier: Apache-2.0
"""Examples of execs, code and ports."""

import base64
import json
import os
import socket
import uuid

from contract.description import OPERATIONS, TEXT, mistakes


def exec_of(api, box, **fields):
    """A detached exec's id."""
    status, reply = api("create_exec", id=box.id, body={"detached": True, **fields})
    assert status == 202
    return reply["exec"]["id"]


def create_exec(api, box):
    body = {"argv": ["cat"], "cwd": "/tmp", "env": {"A": "1"}, "user": "root", "stdin": "hé", "timeout_ms": 20000}
    _, result = api("create_exec", id=box.id, body=body)
    assert (result["stdout"], result["exec"]["exit_code"]) == ("hé", 0)
    _, result = api("create_exec", id=box.id, body={"argv": ["cat"], "stdin_base64": "/wA="})
    assert base64.b64decode(result["stdout_base64"]) == b"\xff\x00"
    for kind in ("application/x-ndjson", "text/event-stream"):
        status, data = api("create_exec", id=box.id, body={"shell": "echo a; echo b >&2"}, headers={"Accept": kind})
        assert status == 200 and b'"exited"' in data
    exec_of(api, box, argv=["true"], open_stdin=True, pty={"rows": 10, "cols": 10})


def list_execs(api, box):
    exec_of(api, box, argv=["true"])
    assert len(api("list_execs", id=box.id, query="limit=1")[1]["execs"]) == 1


def get_exec(api, box):
    exec_id = exec_of(api, box, argv=["/no/such/program"])
    api("wait_exec", id=box.id, exec_id=exec_id)
    _, failed = api("get_exec", id=box.id, exec_id=exec_id)
    assert (failed["state"], failed["error"]["code"]) == ("failed", "file_not_found")


def delete_exec(api, box):
    exec_id = exec_of(api, box, argv=["sleep", "1000"])
    assert api("delete_exec", id=box.id, exec_id=exec_id)[1]["id"] == exec_id
    assert api("get_exec", id=box.id, exec_id=exec_id)[0] == 404


def get_exec_output(api, box):
    exec_id = exec_of(api, box, shell="echo a; printf '\\377'; exit 3")
    _, data = api("get_exec_output", id=box.id, exec_id=exec_id, query="follow=1&after=0")
    last = json.loads(data.splitlines()[-1])
    assert (last["type"], last["exec"]["exit_code"]) == ("exited", 3)
    headers = {"Accept": "text/event-stream", "Last-Event-ID": "1"}
    _, data = api("get_exec_output", id=box.id, exec_id=exec_id, headers=headers)
    assert b"id: 1\n" not in data and b"event: exited" in data
    assert api("get_exec_output", id=box.id, exec_id=exec_id, query="follow", method="HEAD") == (200, b"")


def wait_exec(api, box):
    exec_id = exec_of(api, box, argv=["sleep", "1000"])
    assert api("wait_exec", id=box.id, exec_id=exec_id, query="timeout_ms=50")[1]["state"] in ("starting", "running")
    api("signal_exec", id=box.id, exec_id=exec_id, body={"signal": 9, "tree": True})
    assert api("wait_exec", id=box.id, exec_id=exec_id)[1]["cause"] == "killed"


def write_exec_stdin(api, box):
    exec_id = exec_of(api, box, argv=["cat"], open_stdin=True)
    assert api("write_exec_stdin", id=box.id, exec_id=exec_id, body=b"ab")[1] == {"bytes": 2}
    assert api("write_exec_stdin", id=box.id, exec_id=exec_id, body=b"c", query="eof=1")[1] == {"bytes": 1}
    _, data = api("get_exec_output", id=box.id, exec_id=exec_id, query="follow=1")
    assert "".join(json.loads(line).get("text", "") for line in data.splitlines()) == "abc"


def signal_exec(api, box):
    exec_id = exec_of(api, box, argv=["sleep", "1000"])
    assert api("signal_exec", id=box.id, exec_id=exec_id, body={"signal": "SIGTERM"})[0] == 200
    assert api("wait_exec", id=box.id, exec_id=exec_id)[1]["signal"] == 15


def resize_exec(api, box):
    exec_id = exec_of(api, box, shell="read x", pty={})
    assert api("resize_exec", id=box.id, exec_id=exec_id, body={"rows": 30, "cols": 90})[0] == 200
    api("delete_exec", id=box.id, exec_id=exec_id)


def upgrade(api, target):
    """A WebSocket: (socket, its stream behind the head of the answer)."""
    s = socket.create_connection(("127.0.0.1", api.daemon.port), timeout=60)
    s.sendall(
        f"GET {target} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {api.daemon.key}\r\n"
        "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
        f"Sec-WebSocket-Key: {base64.b64encode(os.urandom(16)).decode()}\r\n\r\n".encode()
    )
    stream = s.makefile("rb")
    assert stream.readline().startswith(b"HTTP/1.1 101")
    while stream.readline() != b"\r\n":
        pass
    return s, stream


def attach_exec(api, box):
    exec_id = exec_of(api, box, shell="echo out; exit 4")
    s, stream = upgrade(api, OPERATIONS["attach_exec"].target(id=box.id, exec_id=exec_id))
    with s, stream:
        frames = list(frames_of(stream))
    texts = [json.loads(data) for op, data in frames if op == 1]
    assert b"".join(data for op, data in frames if op == 2) == b"out\n"
    assert texts[-1]["exited"]["exit_code"] == 4
    for text in texts:
        assert not mistakes(TEXT["components"]["schemas"]["AttachEvent"], text)


def connect_port(api, box):
    s, stream = upgrade(api, OPERATIONS["connect_port"].target(id=box.id, port="9"))
    with s, stream:
        op, reason = list(frames_of(stream))[-1]
    assert op == 8 and reason[:2] == (1013).to_bytes(2, "big") and b"nothing listens" in reason


def frames_of(stream):
    """A server's frames up to its close: (opcode, payload)."""
    while True:
        head = stream.read(2)
        op, size = head[0] & 15, head[1]
        if size >= 126:
            size = int.from_bytes(stream.read(2 if size == 126 else 8), "big")
        yield op, stream.read(size)
        if op == 8:
            return


def run_code(api, box):
    body = {"code": "print('hi')\n6*7", "language": "python", "timeout_ms": 20000, "on_busy": "queue", "kill_on_disconnect": True}
    assert not mistakes(TEXT["components"]["schemas"]["CodeRun"], body)
    _, result = api("run_code", id=box.id, body=body)
    assert (result["status"], result["stdout"], result["results"][0]["data"]["text/plain"]) == ("ok", "hi\n", "42")
    for accept in ("application/x-ndjson", "text/event-stream"):
        _, data = api("run_code", id=box.id, body={"code": "print('hi')\n1/0"}, headers={"Accept": accept})
        assert b"ZeroDivisionError" in data
    assert api("run_code", id=box.id, body={"code": "import os; os._exit(3)"})[1]["status"] == "died"


def context_of(api, box):
    return api("create_context", id=box.id, body={"name": f"c-{uuid.uuid4().hex[:8]}"})[1]["name"]


def create_context(api, box):
    body = {"name": "all", "language": "python", "cwd": "/tmp", "env": {"A": "1"}, "user": "root"}
    assert not mistakes(TEXT["components"]["schemas"]["ContextCreate"], body)
    status, made = api("create_context", id=box.id, body=body)
    assert (status, made["name"], made["cwd"], made["user"]) == (201, "all", "/tmp", "root")
    assert api("create_context", id=box.id)[0] == 201
    assert api("create_context", id=box.id, body={"name": "all"})[0] == 409


def list_contexts(api, box):
    name = context_of(api, box)
    assert name in [c["name"] for c in api("list_contexts", id=box.id)[1]["contexts"]]


def get_context(api, box):
    name = context_of(api, box)
    _, one = api("get_context", id=box.id, context_id=name)
    assert api("get_context", id=box.id, context_id=one["id"])[1]["name"] == name


def delete_context(api, box):
    name = context_of(api, box)
    assert api("delete_context", id=box.id, context_id=name)[0] == 200
    assert api("get_context", id=box.id, context_id=name)[0] == 404


def restart_context(api, box):
    assert api("restart_context", id=box.id, context_id=context_of(api, box))[1]["starts"] == 2


def create_port(api, box):
    body = {"port": 3000, "expires_in_ms": 60000, "public": False}
    assert not mistakes(OPERATIONS["create_port"].body_types["application/json"]["schema"], body)
    status, port = api("create_port", id=box.id, body=body)
    assert status == 201 and port["token"] in port["url"]
    assert api("create_port", id=box.id, body={"port": 3000, "public": True})[1]["expires_us"] is None


def list_ports(api, box):
    api("create_port", id=box.id, body={"port": 3001})
    assert 3001 in [p["port"] for p in api("list_ports", id=box.id)[1]["ports"]]


def delete_port(api, box):
    api("create_port", id=box.id, body={"port": 3002})
    assert api("delete_port", id=box.id, port="3002")[0] == 200
    assert api("delete_port", id=box.id, port="3002")[0] == 404


def interrupt_context(api, box):
    assert api("interrupt_context", id=box.id, context_id=context_of(api, box))[0] == 200


def run(api, box):
    _, result = api("run", body={"code": "print(6*7)", "language": "python"})
    assert (result["stdout"], result["status"]) == ("42\n", "ok")
    _, data = api("run", body={"code": "6*7"}, headers={"Accept": "application/x-ndjson"})
    assert [json.loads(line)["type"] for line in data.splitlines()] == ["started", "result", "done"]
    _, result = api("run", body={"argv": ["echo", "42"]})
    assert result["stdout"] == "42\n"
    assert api("get_sandbox", id=result["sandbox_id"])[1].get("state") == "stopped"
    body = {
        "command": "cat f; cat", "files": [{"path": "f", "text": "file "}, {"path": "g", "base64": "AA==", "mode": "0600"}],
        "stdin": "in", "cwd": "/home/user", "user": "user", "env": {"A": "1"}, "limits": {"pids": 64}, "tags": {}, "timeout_ms": 20000,
    }
    assert not mistakes(TEXT["components"]["schemas"]["Run"], body)
    _, data = api("run", body=body, headers={"Accept": "application/x-ndjson"})
    assert "".join(json.loads(line).get("text", "") for line in data.splitlines()) == "file in"
