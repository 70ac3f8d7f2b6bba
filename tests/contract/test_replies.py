# SPDX-License-Identifier: Apache-2.0
"""Every operation succeeds at least once, and its reply has the described form."""

import base64
import io
import json
import os
import socket
import tarfile
import uuid
from contextlib import closing

import pytest
from contract.description import OPERATIONS, TEXT, mistakes
from harness.daemon import Daemon, connection_to, wait_for
from harness.running import running


def exec_of(api, box, **fields):
    """A detached exec's id."""
    status, reply = api("create_exec", id=box.id, body={"detached": True, **fields})
    assert status == 202
    return reply["exec"]["id"]


def get_health(api, box):
    assert api("get_health")[1]["status"] == "ok"
    assert set(api("get_health", key="")[1]) == {"status", "ready", "version"}


def get_ready(api, box):
    assert api("get_ready")[1] == api("get_ready", key="")[1] == {"ready": True}


def create_sandbox(api, box):
    body = {
        "name": f"c-{uuid.uuid4().hex[:8]}", "template": "host", "tags": {"a": "b"}, "env": {"A": "1"}, "timeout_ms": 60000,
        "limits": {"vcpus": 0.5, "memory_mib": 64, "disk_mib": 64, "inodes": 5000, "pids": 32, "open_files": 128, "output_mib": 2, "execs": 10},
        "engine": "auto", "min_grade": "process", "ports": [3000], "language": "bash",
    }
    assert not mistakes(OPERATIONS["create_sandbox"].body_types["application/json"]["schema"], body)
    status, made = api("create_sandbox", body=body)
    assert status == 201
    assert {k: made[k] for k in ("name", "template", "tags", "timeout_ms")} == {
        k: body[k] for k in ("name", "template", "tags", "timeout_ms")
    }
    assert made["limits"] == body["limits"] and made["env_names"] == ["A"]
    assert [p["port"] for p in made["ports"]] == body["ports"]
    assert api("delete_sandbox", id=made["name"])[1]["ended"]["cause"] == "deleted"


def list_sandboxes(api, box):
    mark = uuid.uuid4().hex
    ids = [api("create_sandbox", body={"tags": {"mark": mark}})[1]["id"] for _ in range(2)]
    _, page = api("list_sandboxes", query=f"tag=mark:{mark}&limit=1")
    assert [s["id"] for s in page["sandboxes"]] == ids[1:]
    _, page = api("list_sandboxes", query=f"tag=mark:{mark}&limit=1&cursor={page['next_cursor']}")
    assert [s["id"] for s in page["sandboxes"]] == ids[:1] and page["next_cursor"] is None
    for sandbox_id in ids:
        api("delete_sandbox", id=sandbox_id)
    _, page = api("list_sandboxes", query=f"tag=mark:{mark}&state=stopped")
    assert len(page["sandboxes"]) == 2


def get_sandbox(api, box):
    assert api("get_sandbox", id=box.id)[1]["id"] == box.id
    assert api("get_sandbox", id=box.id, method="HEAD") == (200, b"")


def update_sandbox(api, box):
    body = {"tags": {"x": "y"}, "timeout_ms": 1800000, "limits": {"pids": 300}}
    _, changed = api("update_sandbox", id=box.id, body=body)
    assert (changed["tags"], changed["limits"]["pids"]) == ({"x": "y"}, 300)


def kept_sandbox(api):
    name = f"k-{uuid.uuid4().hex[:8]}"
    body = {"name": name, "persistent": True, "auto_resume": True, "paused_time_counts": True, "idle_timeout_ms": 60000, "on_timeout": "stop", "get_or_create": True}
    assert not mistakes(OPERATIONS["create_sandbox"].body_types["application/json"]["schema"], body)
    status, made = api("create_sandbox", body=body)
    assert (status, made["created"], made["resumed"]) == (201, True, False)
    status, found = api("create_sandbox", body=body)
    assert (status, found["created"], found["id"]) == (200, False, made["id"])
    return made["id"]


def pause_sandbox(api, box):
    _, made = api("create_sandbox")
    paused = api("pause_sandbox", id=made["id"], body={"to": "memory"})[1]
    assert (paused["state"], paused["paused_to"]) == ("paused", "memory")
    assert api("create_exec", id=made["id"], body={"argv": ["true"]})[0] == 409
    assert api("extend_sandbox", id=made["id"], body={"ms": 1})[0] == 409
    assert api("resume_sandbox", id=made["id"])[1]["resumed"] is True
    assert api("resume_sandbox", id=made["id"], body={"memory": True})[1]["resumed"] is False
    assert api("pause_sandbox", id=made["id"], body={"to": "tape"})[0] == 400
    assert api("pause_sandbox", id=made["id"])[1]["state"] == "paused"
    api("delete_sandbox", id=made["id"])
    assert api("pause_sandbox", id=made["id"])[0] == 410


def stop_sandbox(api, box):
    kept = kept_sandbox(api)
    assert api("stop_sandbox", id=kept)[1]["ended"]["cause"] == "stopped"
    _, result = api("create_exec", id=kept, body={"argv": ["true"]})
    assert result["exec"]["exit_code"] == 0
    api("delete_sandbox", id=kept)
    assert api("stop_sandbox", id=kept)[0] == 410


def resume_sandbox(api, box):
    kept = kept_sandbox(api)
    api("stop_sandbox", id=kept)
    _, back = api("resume_sandbox", id=kept)
    assert (back["state"], back["resumed"], back["created"], back["resumes"], back["ended"]) == ("running", True, False, 1, None)
    api("delete_sandbox", id=kept)
    assert api("resume_sandbox", id=kept)[0] == 410


def extend_sandbox(api, box):
    before = api("get_sandbox", id=box.id)[1]["expires_us"]
    assert abs(api("extend_sandbox", id=box.id, body={"ms": 60000})[1]["expires_us"] - before - 60_000_000) < 1_000_000
    assert api("extend_sandbox", id=box.id, body={"ms": 31536000000})[0] == 400


def delete_sandbox(api, box):
    _, made = api("create_sandbox")
    assert api("delete_sandbox", id=made["id"])[1]["state"] == "stopped"
    api("delete_sandbox", id=made["id"])
    assert api("get_sandbox", id=made["id"])[0] == 404


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


def put_secret(api, box):
    status, made = api("put_secret", secret="REPLIES", body={"value": "first"})
    assert (status, made["name"], made["version"], made["locked"]) == (201, "REPLIES", 1, False)
    status, changed = api("put_secret", secret="REPLIES", body={"value": "second"})
    assert (status, changed["version"]) == (200, 2)
    assert api("get_secret", secret="REPLIES")[1] == changed and changed in api("list_secrets")[1]["secrets"]
    assert api("delete_secret", secret="REPLIES", query="force=1")[1] == {"name": "REPLIES"}
    assert api("delete_secret", secret="REPLIES")[0] == 404


def get_identity(api, box):
    """Without an issuer; with one it is create_identity_token()'s."""
    assert [api(name)[0] for name in ("get_identity", "get_discovery", "get_identity_keys")] == [404] * 3
    assert api("rotate_identity", body={})[0] == 404 and api("create_identity_token", id=box.id, body={"audience": "a"})[0] == 501


def create_identity_token(api, box):
    with running(Daemon("--pool-max", "0", "--identity-issuer", "https://cloche.test")) as daemon:
        issuing = type(api)(daemon)
        made = issuing("create_sandbox", body={"template": "host", "network": {"identity": {"audiences": ["a"]}}})[1]["id"]
        assert issuing("create_identity_token", id=made, body={"audience": "a"})[1]["audience"] == "a"
        assert issuing("create_identity_token", id=made, body={"audience": "b"})[0] == 403
        assert issuing("get_network", id=made)[1]["policy"]["identity"] == {"audiences": ["a"]}
        assert len(issuing("get_identity_keys")[1]["keys"]) == len(issuing("get_identity")[1]["keys"]) == 2
        assert len(issuing("rotate_identity", body={"revoke": False})[1]["keys"]) == 3
        assert issuing("get_discovery")[1]["issuer"] == "https://cloche.test"


def get_authority(api, box):
    assert api("get_authority")[0] == api("get_authority", key="")[0] == 404
    with running(Daemon("--pool-max", "0", "--preview-domain", "box.test")) as daemon:
        told = type(api)(daemon)("get_authority", key="")[1]
        assert told["domain"] == "box.test" and told["address"] == f"box.test:{daemon.port}" and told["certificates"].startswith("-----BEGIN CERTIFICATE-----")


def create_webhook(api, box):
    status, made = api("create_webhook", body={"url": "https://example.com/hook", "types": "policy"})  # of which there are none
    assert status == 201 and made["secret"].startswith("whsec_")
    hook_id = made["webhook"]["id"]
    assert api("get_webhook", webhook_id=hook_id)[1] == made["webhook"]
    assert made["webhook"] in api("list_webhooks")[1]["webhooks"]
    status, changed = api("update_webhook", webhook_id=hook_id, body={"url": "https://example.com/there", "types": ""})
    assert (status, changed) == (200, {**made["webhook"], "url": "https://example.com/there", "types": None, "last_seq": changed["last_seq"]})
    assert api("delete_webhook", webhook_id=hook_id)[1] == {"id": hook_id}
    assert api("delete_webhook", webhook_id=hook_id)[0] == 404


def create_build(api, box):
    body = {"recipe": 'name = "t"\nfrom = "nothing-of-the-kind"\n', "shared": True, "fresh": True}
    assert not mistakes(OPERATIONS["create_build"].body_types["application/json"]["schema"], body)
    status, made = api("create_build", body=body)
    assert (status, made["name"]) == (202, "t")
    _, data = api("get_build_events", build_id=made["id"], query="follow=1")
    last = json.loads(data.splitlines()[-1])
    assert (last["type"], last["build"]["state"], last["build"]["error"]["field"]) == ("ended", "failed", "from")
    _, data = api("get_build_events", build_id=made["id"], headers={"Accept": "text/event-stream"})
    assert b"event: ended\n" in data
    assert api("get_build_events", build_id=made["id"], query="follow", method="HEAD") == (200, b"")
    assert api("get_build", build_id=made["id"])[1] == last["build"]
    assert last["build"] in api("list_builds")[1]["builds"]
    assert api("cancel_build", build_id=made["id"]) == (202, last["build"])


list_builds = get_build = get_build_events = cancel_build = create_build


def create_template(api, box):
    api("create_exec", id=box.id, body={"shell": "mkdir -p /template/etc && echo 1 > /template/etc/mark", "user": "root"})
    body = {"from": box.id, "name": f"t-{uuid.uuid4().hex[:8]}", "tree": True, "env": {"A": "1"}, "user": "root", "cwd": "/", "shared": True, "replace": True}
    assert not mistakes(OPERATIONS["create_template"].body_types["application/json"]["schema"], body)
    status, made = api("create_template", body=body)
    assert status == 201 and made["manifest"].pop("sealed")["small"] is False
    assert made["manifest"] == {"env": {"A": "1"}, "user": "root", "cwd": "/"}
    made = api("get_template", template=made["name"])[1]
    assert api("get_template", template=made["name"])[1] == made
    assert api("get_template", template="host")[1]["id"] is None
    assert made in api("list_templates")[1]["templates"]
    assert api("delete_template", template=made["name"])[1] == {"id": made["id"]}
    assert api("delete_template", template=made["name"])[0] == 404


def import_template(api, box):
    name, out = f"t-{uuid.uuid4().hex[:8]}", io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        tar.addfile(tarfile.TarInfo("etc"))
    for accept in ("application/json", "application/x-ndjson"):
        status, made = api("import_template", template=name, query="replace=1", body=out.getvalue(), headers={"Accept": accept})
        assert status == (201 if accept == "application/json" else 200)
    assert json.loads(made.splitlines()[-1])["template"]["name"] == name
    status, archive = api("export_template", template=name)
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        assert status == 200 and "index.json" in tar.getnames()
    assert api("export_template", template=name, method="HEAD") == (200, b"")
    assert api("delete_template", template=name)[0] == 200


def create_snapshot(api, box):
    body = {"name": f"s-{uuid.uuid4().hex[:8]}", "memory": False, "expires_in_ms": 60000, "keep_last": 3}
    assert not mistakes(OPERATIONS["create_snapshot"].body_types["application/json"]["schema"], body)
    status, made = api("create_snapshot", id=box.id, body=body)
    assert (status, made["name"], made["sandbox_id"]) == (201, body["name"], box.id)
    assert api("get_snapshot", snapshot=made["name"])[1] == made
    assert made in api("list_snapshots", query=f"sandbox={box.id}&limit=5")[1]["snapshots"]
    tree = api("get_snapshot_tree", snapshot=made["id"])[1]
    assert tree == api("get_sandbox_tree", id=box.id)[1] and made["id"] in [n["id"] for n in tree["nodes"]]
    changed = api("update_snapshot", snapshot=made["id"], body={"name": "", "expires_in_ms": 0})[1]
    assert changed == {**made, "name": None, "expires_us": None}
    assert api("delete_snapshot", snapshot=made["id"])[1] == {"id": made["id"]}
    assert api("delete_snapshot", snapshot=made["id"])[0] == 404


def roll_back_sandbox(api, box):
    made = api("create_snapshot", id=box.id, body={})[1]
    status, back = api("roll_back_sandbox", id=box.id, body={"snapshot": made["id"]})
    assert (status, back["state"], back["snapshot_id"]) == (200, "running", made["id"])
    api("delete_snapshot", snapshot=made["id"])


def create_volume(api, box):
    body = {"name": f"v-{box.id[3:11]}", "size_mib": 16, "one_writer": True}
    assert not mistakes(OPERATIONS["create_volume"].body_types["application/json"]["schema"], body)
    status, made = api("create_volume", body=body)
    assert (status, made["name"], made["size_mib"], made["state"]) == (201, body["name"], 16, "ready")
    assert api("get_volume", volume=made["name"])[1]["id"] == made["id"]
    assert made["id"] in [one["id"] for one in api("list_volumes")[1]["volumes"]]
    status, sandbox = api("create_sandbox", body={"volumes": [{"volume": made["id"], "path": "/v"}]})
    assert (status, [one["name"] for one in sandbox["volumes"]]) == (201, [made["name"]])
    assert api("delete_volume", volume=made["id"])[0] == 409
    api("delete_sandbox", id=sandbox["id"])
    assert api("delete_volume", volume=made["id"])[1] == {"id": made["id"]}
    assert api("delete_volume", volume=made["id"])[0] == 404


def export_snapshot(api, box):
    made = api("create_snapshot", id=box.id, body={})[1]
    status, data = api("export_snapshot", snapshot=made["id"])
    assert (status, data[:16]) == (200, b"cloche bundle 1\n")
    api("delete_snapshot", snapshot=made["id"])


def import_snapshot(api, box):
    made = api("create_snapshot", id=box.id, body={})[1]
    data = api("export_snapshot", snapshot=made["id"])[1]
    status, copy = api("import_snapshot", snapshot=f"copy-{made['id'][3:11]}", body=data)
    assert (status, copy["state"]) == (201, "ready")
    api("delete_snapshot", snapshot=copy["id"])
    api("delete_snapshot", snapshot=made["id"])


def apply_changes(api, box):
    made = api("fork_sandbox", id=box.id, body={"memory": False})[1]["sandboxes"][0]["id"]

    def write(word):
        assert api("create_exec", id=made, body={"shell": f"echo {word} > a"})[1]["exec"]["exit_code"] == 0

    write("fork")
    status, done = api("apply_changes", id=box.id, body={"from": made})
    assert (status, done) == (200, {"applied": True, "changes": 1, "conflicts": [], "conflict_count": 0})
    write("again")
    assert box.run("echo own > a").exit_code == 0
    status, done = api("apply_changes", id=box.id, body={"from": made})
    assert (status, done["applied"], [c["path"] for c in done["conflicts"]]) == (200, False, ["/home/user/a"])
    api("delete_sandbox", id=made)


def get_diff(api, box):
    made = api("create_snapshot", id=box.id, body={})[1]
    box.run("echo a > a; chmod 700 .")
    status, diff = api("get_diff", query=f"from={made['id']}&to={box.id}&patch=true")
    assert (status, [c["kind"] for c in diff["changes"]]) == (200, ["modified", "added"])
    api("delete_snapshot", snapshot=made["id"])


def fork_sandbox(api, box):
    body = {"count": 2, "memory": False, "tags": {"a": "b"}, "timeout_ms": 60000}
    assert not mistakes(OPERATIONS["fork_sandbox"].body_types["application/json"]["schema"], body)
    status, made = api("fork_sandbox", id=box.id, body=body)
    assert (status, len(made["sandboxes"]), made["failed"]) == (201, 2, [])
    for one in made["sandboxes"]:
        assert one["snapshot_id"] == made["snapshot_id"]
        api("delete_sandbox", id=one["id"])


list_volumes = get_volume = delete_volume = create_volume
list_snapshots = get_snapshot = update_snapshot = delete_snapshot = get_snapshot_tree = get_sandbox_tree = create_snapshot
export_template = import_template
list_templates = get_template = delete_template = create_template
list_secrets = get_secret = delete_secret = put_secret
get_discovery = get_identity_keys = rotate_identity = get_identity
list_webhooks = get_webhook = update_webhook = delete_webhook = create_webhook


def get_metrics(api, box):
    assert b"\ncloche_sandboxes{state=\"running\"} " in api("get_metrics")[1]


def list_events(api, box):
    _, data = api("list_events", query=f"sandbox_id={box.id}&limit=1&type=sandbox.created")
    entry = json.loads(data)
    assert entry["sandbox_id"] == box.id
    headers = {"Accept": "text/event-stream", "Last-Event-ID": str(entry["seq"])}
    _, data = api("list_events", headers=headers)
    assert b"event: sandbox.running" in data and entry["hash"].encode() + b'"}' not in data
    _, data = api("list_events", query="all=1", headers={"Accept": "text/event-stream", "Last-Event-ID": "1"})
    assert entry["hash"].encode() in data and b'"place":' in data and b'"place":1}' not in data  # entries of projects that are gone leave gaps
    assert api("list_events", query="follow", method="HEAD") == (200, b"")


def get_events_head(api, box):
    assert api("get_events_head")[1]["head"]["seq"] > 0
    told = api("get_events_head", query="all=1")[1]
    assert {c["project_id"] for c in told["chains"]} >= {None} and told["former"] is None


def get_event_seals(api, box):
    told = api("get_event_seals")[1]
    assert [json.loads(s["statement"])["audit"] for s in told["seals"]] == [False, True]
    assert told["key"].startswith("-----BEGIN PUBLIC KEY-----")


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


def put(api, box, path, data=b"12345", **fields):
    query = f"path={path}" + "".join(f"&{k}={v}" for k, v in fields.items())
    return api("write_file", id=box.id, query=query, body=data)


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


def read_file(api, box):
    put(api, box, "read-me")
    assert api("read_file", id=box.id, query="path=read-me&offset=1&length=3") == (200, b"234")
    assert api("read_file", id=box.id, query="path=read-me", method="HEAD") == (200, b"")


def write_file(api, box):
    status, entry = put(api, box, "deep/w", mode="0600", parents=1)
    assert (status, entry["mode"], entry["size"]) == (200, "0600", 5)
    assert put(api, box, "deep/w", append="true")[1]["size"] == 10
    assert put(api, box, f"new-{uuid.uuid4().hex}", exclusive=1, user="root")[0] == 201


def remove_file(api, box):
    put(api, box, "gone")
    assert api("remove_file", id=box.id, query="path=gone")[1] == {"path": "gone"}
    assert api("remove_file", id=box.id, query="path=gone&missing_ok=1&recursive=1")[0] == 200


def stat_file(api, box):
    api("make_symlink", id=box.id, body={"path": f"l-{uuid.uuid4().hex}", "target": "x"})
    assert api("stat_file", id=box.id, query="path=/")[1]["type"] == "directory"
    assert api("stat_file", id=box.id, query="path=/bin")[1].get("target")
    assert api("stat_file", id=box.id, query="path=/bin&follow=1")[1]["type"] == "directory"


def file_exists(api, box):
    assert api("file_exists", id=box.id, query="path=/tmp")[1] == {"exists": True, "type": "directory"}
    assert api("file_exists", id=box.id, query="path=/none&follow=1")[1] == {"exists": False}


def list_files(api, box):
    put(api, box, "dir/one", parents=1)
    _, listed = api("list_files", id=box.id, query="path=dir&recursive=1&depth=2&limit=5")
    assert [e["path"] for e in listed["entries"]] == ["one"] and not listed["truncated"]
    _, listed = api("list_files", id=box.id, query="path=/usr/bin&limit=2")
    assert len(listed["entries"]) == 2 and listed["truncated"]
    api("make_directory", id=box.id, body={"path": "empty", "parents": True})
    assert api("list_files", id=box.id, query="path=empty")[1] == {"entries": [], "truncated": False}


def make_directory(api, box):
    name = f"d-{uuid.uuid4().hex}"
    assert api("make_directory", id=box.id, body={"path": name + "/x", "parents": True, "mode": "0700"})[0] == 200


def move_file(api, box):
    put(api, box, "from")
    to = f"moved-{uuid.uuid4().hex}"
    assert api("move_file", id=box.id, body={"path": "from", "to": to, "exclusive": True})[1] == {"path": "from"}


def copy_file(api, box):
    put(api, box, "tree/leaf", parents=1)
    to = f"copies/{uuid.uuid4().hex}"
    body = {"path": "tree", "to": to, "recursive": True, "parents": True, "user": "user"}
    assert api("copy_file", id=box.id, body=body)[0] == 200


def chmod_file(api, box):
    put(api, box, "modes")
    assert api("chmod_file", id=box.id, body={"path": "modes", "mode": "755", "recursive": False})[0] == 200


def chown_file(api, box):
    put(api, box, "owned")
    body = {"path": "/home/user/owned", "owner": "root:root", "user": "root"}
    assert api("chown_file", id=box.id, body=body)[0] == 200


def make_symlink(api, box):
    assert api("make_symlink", id=box.id, body={"path": f"l-{uuid.uuid4().hex}", "target": "/x y"})[0] == 200


def read_tar(api, box):
    put(api, box, "packed/file", parents=1)
    _, data = api("read_tar", id=box.id, query="path=packed")
    assert "file" in [m.name.removeprefix("./") for m in tarfile.open(fileobj=io.BytesIO(data)).getmembers()]
    assert api("read_tar", id=box.id, query="path=packed&compress=gzip")[1][:2] == b"\x1f\x8b"
    assert api("read_tar", id=box.id, query="path=packed&compress=zstd")[1][:4] == b"\x28\xb5\x2f\xfd"


def write_tar(api, box):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        info = tarfile.TarInfo("inside")
        info.size = 3
        tar.addfile(info, io.BytesIO(b"abc"))
    _, reply = api("write_tar", id=box.id, query="path=unpacked&parents=1", body=out.getvalue())
    assert reply == {"entries": 1, "bytes": 3}


def watch_files(api, box):
    """An endless stream: read up to the first events, by hand."""
    op = OPERATIONS["watch_files"]
    target = op.target(id=box.id).replace("path=x", "path=/tmp&recursive=1")
    with socket.create_connection(("127.0.0.1", api.daemon.port), timeout=60) as s:
        s.sendall(f"GET {target} HTTP/1.0\r\nHost: localhost\r\nX-API-Key: {api.daemon.key}\r\n\r\n".encode())
        stream = s.makefile("rb")
        while stream.readline() != b"\r\n":
            pass
        ready = stream.readline()
        put(api, box, "/tmp/seen")
        event = stream.readline()
    op.check(200, "application/x-ndjson", ready + event)
    assert json.loads(ready)["type"] == "ready"


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


def get_network(api, box):
    assert api("get_network", id=box.id)[1]["kind"] == "deny-all"


def set_network(api, box):
    policy = {"deny": ["10.0.0.0/8"], "allow": ["example.com"], "limits": {"connections": 5}}
    assert api("set_network", id=box.id, body={"policy": policy})[1]["in_force"] is True
    assert api("set_network", id=box.id, body={"policy": "deny-all"})[1]["kind"] == "deny-all"
    assert api("set_network", id=box.id, body={"policy": {"allow": ["a b"]}})[0] == 400
    match = {"domains": ["example.com"], "paths": ["/x"], "headers": [{"name": "accept", "value": {"prefix": "text/"}}]}
    proxy = {"url": "socks5://192.0.2.1:1080", "username": "u", "password": "p"}
    respond = {"status": 418, "headers": {"x-a": "b"}, "content_type": "text/plain", "body": "c"}
    actions = ["deny", {"transform": {"headers": {"a": "b"}}}, {"forward": {"url": "https://example.com/a"}}, {"proxy": proxy}, {"respond": respond}]
    rules = [{"match": match, "action": action} for action in actions]
    assert api("set_network", id=box.id, body={"policy": {"rules": rules, "proxy": proxy}})[0] == 200


def allow_network(api, box):
    api("set_network", id=box.id, body={"policy": "deny-all"})
    assert api("allow_network", id=box.id, body={"host": "example.com", "port": 443})[1]["kind"] == "rules"
    assert api("allow_network", id=box.id, body={"host": "a b"})[0] == 400
    api("set_network", id=box.id, body={"policy": "deny-all"})


def list_network_decisions(api, box):
    assert api("list_network_decisions", id=box.id, query="limit=5")[1]["decisions"] == []
    assert api("list_network_decisions", id=box.id, query="cursor=x")[0] == 400


def suggest_network(api, box):
    assert api("suggest_network", id=box.id)[1]["policy"] == {"mode": "enforce", "rules": []}
    assert api("suggest_network", id=box.id, query="after=1")[1]["complete"] is True


def explain_network(api, box):
    assert api("explain_network", id=box.id, body={"url": "https://example.com/"})[1]["allowed"] is False
    assert api("explain_network", id=box.id, body={"url": "nonsense"})[0] == 400


def list_usage_samples(api, box):
    api("get_sandbox_usage", id=box.id)  # reads it
    assert api("list_usage_samples", id=box.id)[1]["samples"][-1]["cpu_ns"] >= 0


def get_sandbox_usage(api, box):
    _, one = api("get_sandbox_usage", id=box.id)
    assert one["sandbox_id"] == box.id and one["now"]["pids"] >= 0 and one["usage"]["creates"] == 1


def get_usage(api, box):
    _, report = api("get_usage", query="group_by=sandbox&limit=1")
    assert len(report["rows"]) == 1
    assert api("get_usage", query="project=default&from=2026-01-01&to=2026-01-02")[1]["rows"] == []
    assert api("get_usage", query="group_by=day")[1]["next_cursor"] is None
    _, text = api("get_usage", headers={"Accept": "text/csv"})
    assert text.startswith(b"project_id,running_ms,cpu_ns,")


def get_history(api, box):
    for query, count in (("range=1h", 360), ("range=24h", 1440), ("range=7d", 1008), ("range=30d&id=default", 4320), ("scope=host", 360), (f"scope=sandbox&id={box.id}", 360)):
        _, told = api("get_history", query=query)
        assert {len(s["values"]) for s in told["series"]} == {told["count"]} == {count}


def list_history_running(api, box):
    _, page = api("list_history_running", query="limit=1")
    assert len(page["sandboxes"]) == 1
    while page["next_cursor"] and page["sandboxes"][-1]["id"] != box.id:
        _, page = api("list_history_running", query=f"limit=1&cursor={page['next_cursor']}")
    assert page["sandboxes"][-1]["id"] == box.id and page["sandboxes"][-1]["ended_us"] is None


LIMITS = {"sandboxes": 1000, "vcpus": 1000.5, "memory_mib": "unlimited", "creates_per_minute": 10000, "budget": "1000000.5"}


def get_quota(api, box):
    _, both = api("get_quota")
    assert both["project"]["current"]["sandboxes"] >= 1 and both["key"]["limits"]["budget"] == "unlimited"


def get_project_quota(api, box):
    assert api("get_project_quota", project_id="default")[1]["key_id"] is None
    assert api("get_project_quota", project_id="no-such")[0] == 404


def set_project_quota(api, box):
    project = api("create_project", body={"name": f"q-{uuid.uuid4().hex[:8]}"})[1]["id"]
    _, quota = api("set_project_quota", project_id=project, body=LIMITS)
    assert quota["limits"] == {**LIMITS, "disk_mib": "unlimited", "budget": "1000000.50"}
    assert api("get_project_quota", project_id=project)[1] == quota
    _, again = api("set_project_quota", project_id=project, body={})
    assert set(again["limits"].values()) == {"unlimited"}


def get_key_quota(api, box):
    key = api("list_keys")[1]["keys"][0]["id"]
    assert api("get_key_quota", key_id=key)[1]["key_id"] == key
    assert api("get_key_quota", key_id="key_none")[0] == 404


def set_key_quota(api, box):
    made = api("create_key", body={"name": "quota"})[1]["key"]["id"]
    _, quota = api("set_key_quota", key_id=made, body={"sandboxes": 0}, query="project=default")
    assert quota["limits"]["sandboxes"] == 0
    api("revoke_key", key_id=made)


def get_figures(api, box):
    box.run("true")
    api("get_sandbox_usage", id=box.id)  # reads it
    _, told = api("get_figures")
    assert box.id in [s["id"] for s in told["sandboxes"]] and told["states"]["running"] >= 1
    assert sum(told["starts"]["counts"]) >= 1


def get_doctor(api, box):
    _, told = api("get_doctor")
    assert told["jail"] and {c["name"]: c["present"] for c in told["checks"]}["root"]


def get_settings(api, box):
    _, told = api("get_settings")
    assert {s["name"]: s["value"] for s in told["settings"]}["data"] == str(api.daemon.data)


def create_backup(api, box):
    with closing(connection_to(api.daemon, 60)) as conn:
        conn.request("POST", "/v1/backups", headers={"Authorization": f"Bearer {api.daemon.key}"})
        reply = conn.getresponse()
        line = reply.readline()
        OPERATIONS["create_backup"].check(reply.status, reply.getheader("Content-Type"), line)
        assert json.loads(line)["backup"]["data_dir"] == str(api.daemon.data)
        assert api("create_backup")[1]["error"]["code"] == "conflict"
    wait_for(lambda: not (api.daemon.data / "layers" / "backup").exists(), what="the end of what was frozen")


def get_login(api, box):
    _, told = api("get_login")
    assert (told["key"]["name"], told["project"]["name"], told["is_host_admin"], told["expires_us"]) == ("admin", "default", True, None)
    assert api("get_login", key="")[1] == {"key": None, "provider": None}
    assert "cannot be reached" in api("get_login", query="problem=unreachable")[1]["problem"]["message"]


def create_login(api, box):
    assert api("create_login", body={"key": api.daemon.key}, key="")[1]["expires_us"] > 0
    assert api("create_login", body={"key": "clo_" + "0" * 40}, key="")[0] in (401, 429)
    assert api("create_login", body={})[0] == 400


def delete_login(api, box):
    assert api("delete_login", key="")[1] == {"key": None, "provider": None}


def update_login(api, box):
    assert api("update_login", body={"project": "default"})[0] == 409  # a key has one project


def start_provider_login(api, box):
    """Without a provider; with one it is tried in tests/functional/test_people.py, as all of these are."""
    assert api("start_provider_login", key="")[0] == 501


def finish_provider_login(api, box):
    assert api("finish_provider_login", query="code=a&state=b", key="")[0] == 501


def end_provider_login(api, box):
    assert api("end_provider_login", body=b"logout_token=x", key="")[0] == 501


def create_device_login(api, box):
    assert api("create_device_login", key="")[0] == 501


def poll_device_login(api, box):
    assert api("poll_device_login", body={"device": "a"}, key="")[0] == 501


def create_login_link(api, box):
    _, made = api("create_login_link")
    assert api("create_login", body={"link": made["link"]}, key="")[1]["key"]["name"] == "admin"
    assert api("create_login", body={"link": made["link"]}, key="")[0] in (401, 429)


def list_keys(api, box):
    assert api("list_keys", query="project=default")[1]["keys"]


def create_key(api, box):
    _, made = api("create_key", body={"name": "contract", "scope": "read", "project": "default"})
    assert api("list_sandboxes", key=made["secret"])[0] == 200
    api("revoke_key", key_id=made["key"]["id"])


def revoke_key(api, box):
    _, made = api("create_key", body={"name": "short"})
    assert made["key"]["scope"] == "write"
    assert api("revoke_key", key_id=made["key"]["id"])[1] == {"id": made["key"]["id"]}
    assert api("revoke_key", key_id=made["key"]["id"])[0] == 404


def list_projects(api, box):
    assert "default" in [p["name"] for p in api("list_projects")[1]["projects"]]


def create_project(api, box):
    name = f"p-{uuid.uuid4().hex[:8]}"
    assert api("create_project", body={"name": name})[1]["name"] == name
    assert api("create_project", body={"name": name})[0] == 409


def delete_project(api, box):
    made = api("create_project", body={"name": f"p-{uuid.uuid4().hex[:8]}"})[1]
    assert api("delete_project", project_id=made["name"])[1] == {"id": made["id"]}
    assert api("delete_project", project_id=made["id"])[0] == 404
    assert api("delete_project", project_id="default")[0] == 409


@pytest.mark.parametrize("operation", OPERATIONS)
def test_an_operation_answers_as_described(api, sandbox, operation):
    assert operation in globals(), "an operation without an example here"
    globals()[operation](api, sandbox)
