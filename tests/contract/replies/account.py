# SPDX-License-Identifier: Apache-2.0
"""Examples of what belongs to the daemon or to a project: keys, quotas, logins, usage, events."""

import json
import uuid
from contextlib import closing

from contract.description import OPERATIONS
from harness.daemon import Daemon, connection_to, wait_for
from harness.running import running


def get_health(api, box):
    assert api("get_health")[1]["status"] == "ok"
    assert set(api("get_health", key="")[1]) == {"status", "ready", "version"}


def get_ready(api, box):
    assert api("get_ready")[1] == api("get_ready", key="")[1] == {"ready": True}


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


def list_nodes(api, box):
    """On a machine that is alone; tests/functional/test_cluster_nodes.py has clusters."""
    _, told = api("list_nodes")
    assert told == {"cluster": None, "as_of_us": None, "nodes": []}


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
