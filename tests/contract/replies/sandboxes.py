# SPDX-License-Identifier: Apache-2.0
"""Examples of sandboxes, what they start from, what is kept of them, and their network."""

import hashlib
import io
import json
import tarfile
import uuid

from contract.description import OPERATIONS, mistakes


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


def upload_build_files(api, box):
    status, told = api("upload_build_files", body=bytes(1024))
    assert status == 201 and told["files"] == hashlib.sha256(bytes(1024)).hexdigest()
    body = {"name": "contract-docker", "dockerfile": "FROM nothing-of-the-kind\nCOPY . /\n", "files": told["files"], "build_args": {}, "target": "x"}
    assert not mistakes(OPERATIONS["create_build"].body_types["application/json"]["schema"], body)
    status, said = api("create_build", body=body)
    assert (status, said["error"]["field"]) == (400, "dockerfile")


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


def pull_template(api, box):
    """From a registry that nobody has opened; tests/functional/test_template_pull.py has those that are."""
    name, body = f"t-{uuid.uuid4().hex[:8]}", {"ref": "127.0.0.1:1/team/app:1", "replace": True}
    assert not mistakes(OPERATIONS["pull_template"].body_types["application/json"]["schema"], body)
    status, said = api("pull_template", template=name, body=body)
    assert (status, said["error"]["code"]) == (422, "source_failed")
    status, events = api("pull_template", template=name, body=body, headers={"Accept": "application/x-ndjson"})
    assert status == 200 and json.loads(events.splitlines()[0])["phase"] == "fetching"
    assert json.loads(events.splitlines()[-1])["error"]["code"] == "source_failed"
    assert api("pull_template", template=name, body={"ref": "app"})[0] == 400
    assert api("get_template", template=name)[0] == 404


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


def create_batch(api, box):
    body = {"count": 2, "tags": {"a": "b"}, "timeout_ms": 60000, "wait_ms": 1000}
    assert not mistakes(OPERATIONS["create_batch"].body_types["application/json"]["schema"], body)
    status, data = api("create_batch", body=body)
    lines = [json.loads(line) for line in data.splitlines()]
    assert (status, sorted(line["type"] for line in lines)) == (200, ["batch", "ended", "sandbox", "sandbox"])
    assert api("create_batch", body={**body, "name": "one"})[0] == 400
    batch = lines[0]["batch_id"]
    assert api("delete_batch", batch=batch)[1] == {"batch_id": batch, "deleted": 2}
    assert api("delete_batch", batch=batch)[0] == 404


delete_batch = create_batch


def get_result(api, box):
    made = api("create_sandbox", body={"results": ["a", "b"], "timeout_ms": 60000})[1]
    assert api("get_result", id=made["id"], query="path=a")[0] == 409
    api("write_file", id=made["id"], query="path=a", body=b"kept")
    api("delete_sandbox", id=made["id"])
    assert [one["state"] for one in api("get_sandbox", id=made["id"])[1]["results"]] == ["kept", "missing"]
    assert api("get_result", id=made["id"], query="path=a") == (200, b"kept")
    assert api("get_result", id=made["id"], query="path=b")[0] == 404
    api("delete_sandbox", id=made["id"])


def list_creates(api, box):
    assert api("list_creates") == (200, {"waiting": 0, "creates": []})


def create_reservation(api, box):
    body = {"count": 2, "duration_ms": 60000, "template": "host", "limits": {"memory_mib": 72}, "tags": {"a": "b"}}
    assert not mistakes(OPERATIONS["create_reservation"].body_types["application/json"]["schema"], body)
    status, made = api("create_reservation", body=body)
    assert (status, made["count"], made["left"], made["template"], made["limits"]["memory_mib"]) == (201, 2, 2, "host", 72)
    assert api("get_reservation", reservation=made["id"])[1]["expires_us"] == made["expires_us"]
    assert made["id"] in [one["id"] for one in api("list_reservations")[1]["reservations"]]
    assert api("create_reservation", body={**body, "name": "one"})[0] == 400
    assert api("delete_reservation", reservation=made["id"])[1] == {"id": made["id"]}
    assert api("delete_reservation", reservation=made["id"])[0] == 404


list_reservations = get_reservation = delete_reservation = create_reservation


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
