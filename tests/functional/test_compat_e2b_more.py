# SPDX-License-Identifier: Apache-2.0
"""What E2B's command line and dashboard ask for besides sandboxes: logs, lists of templates, tags, metrics of many. Replies are read by the models of its client."""

import json

import pytest
from harness.daemon import Daemon, call, wait_for
from harness.running import running

models = pytest.importorskip("e2b.api.client.models")


@pytest.fixture(scope="module")
def metered():
    with running(Daemon("--pool-max", "0", "--usage-period", "100ms")) as daemon:
        yield daemon


@pytest.fixture(scope="module")
def box(metered):
    status, made = call(metered, "POST", "/v2/sandboxes", {"templateID": "base"}, metered.key)
    assert status == 201
    yield made["sandboxID"]
    call(metered, "DELETE", f"/sandboxes/{made['sandboxID']}", {}, metered.key)


@pytest.fixture
def ask(metered):
    def one(method, path, body=None, key=None):
        return call(metered, method, path, body, key or metered.key)

    return one


def test_a_log_has_what_befell_the_sandbox_also_after_its_end(ask):
    sandbox = ask("POST", "/v2/sandboxes", {"templateID": "base"})[1]["sandboxID"]
    ask("POST", f"/v1/sandboxes/sb_{sandbox}/execs", {"argv": ["true"]})
    ask("DELETE", f"/sandboxes/{sandbox}", {})
    status, reply = ask("GET", f"/sandboxes/{sandbox}/logs")
    logs = models.SandboxLogs.from_dict(reply)
    lines = [json.loads(one.line) for one in logs.logs]
    assert status == 200 and [one["message"] for one in lines][:2] == ["sandbox.created", "sandbox.running"] and all(one["level"] for one in lines)
    assert "exec.started" in [one.message for one in logs.log_entries]
    assert len(ask("GET", f"/sandboxes/{sandbox}/logs?limit=2")[1]["logs"]) == 2
    late = int(logs.logs[-1].timestamp.timestamp() * 1000) + 1
    assert ask("GET", f"/sandboxes/{sandbox}/logs?start={late}")[1] == {"logs": [], "logEntries": []}
    assert ask("GET", f"/sandboxes/{'a' * 26}/logs")[0] == 404 and ask("GET", f"/sandboxes/{sandbox}/logs?limit=0")[0] == 400


def test_a_log_s_entries_are_chosen_and_come_in_either_direction(ask):
    sandbox = ask("POST", "/v2/sandboxes", {"templateID": "base"})[1]["sandboxID"]
    for _ in range(3):
        ask("POST", f"/v1/sandboxes/sb_{sandbox}/execs", {"argv": ["true"]})
    ask("DELETE", f"/sandboxes/{sandbox}", {})

    def entries(query=""):
        status, reply = ask("GET", f"/v2/sandboxes/{sandbox}/logs{query}")
        assert status == 200 and list(reply) == ["logs"], reply
        return [models.SandboxLogEntry.from_dict(one) for one in reply["logs"]]

    whole = entries()
    assert [one.message for one in whole][:2] == ["sandbox.created", "sandbox.running"] and len(whole) >= 8
    assert entries("?direction=forward&limit=2") == whole[:2]
    assert entries("?direction=backward") == whole[::-1] and entries("?direction=backward&limit=3") == whole[:-4:-1]
    middle = int(whole[3].timestamp.timestamp() * 1000)
    assert entries(f"?cursor={middle + 1}") == [one for one in whole if one.timestamp.timestamp() * 1000 >= middle + 1]
    assert entries(f"?cursor={middle}&direction=backward") == [one for one in whole if one.timestamp.timestamp() * 1000 < middle + 1][::-1]
    started = entries("?search=exec.started")
    assert len(started) == 3 and {one.message for one in started} == {"exec.started"} and entries("?search=EXEC") == []
    assert entries("?level=debug") == whole and entries("?level=info&search=exec.started") == started and entries("?level=error") == []
    for wrong, field in (("level=loud", "level"), ("direction=up", "direction"), ("limit=0", "limit"), ("cursor=x", "cursor"), (f"search={'a' * 257}", "search")):
        status, reply = ask("GET", f"/v2/sandboxes/{sandbox}/logs?{wrong}")
        assert status == 400 and field in reply["message"], reply
    assert ask("GET", f"/v2/sandboxes/{'a' * 26}/logs")[0] == 404


def test_metrics_of_many_sandboxes_are_the_newest_of_each(ask, box):
    def newest():
        status, reply = ask("GET", f"/sandboxes/metrics?sandbox_ids={box},{'a' * 26}")
        assert status == 200
        return reply["sandboxes"]

    wait_for(newest, 30, "a reading")
    assert list(newest()) == [box]
    metric = models.SandboxMetric.from_dict(newest()[box])
    assert metric.mem_total > 0 and metric.cpu_count >= 1 and metric.disk_total > 0
    for query in ("", "?sandbox_ids=", "?sandbox_ids=" + ",".join(["a"] * 101)):
        assert ask("GET", f"/sandboxes/metrics{query}")[0] == 400


@pytest.fixture(scope="module")
def template(metered, box):
    tree = "mkdir -p /template/{bin,dev,etc,home,proc,run,sys,tmp,usr,var} && cp /bin/true /template/bin/sh"
    call(metered, "POST", f"/v1/sandboxes/sb_{box}/execs", {"argv": ["bash", "-c", tree], "user": "root"}, metered.key)
    status, made = call(metered, "POST", "/v1/templates", {"from": f"sb_{box}", "name": "app", "tree": True}, metered.key)
    assert status == 201, made
    yield "app"
    call(metered, "DELETE", "/templates/app", {}, metered.key)


def test_templates_are_listed_with_their_size_and_date(ask, template):
    for path in ("/templates", "/v2/templates"):
        (one,) = [models.Template.from_dict(row) for row in ask("GET", path)[1] if row["templateID"] == template]
        assert one.cpu_count >= 1 and one.memory_mb > 0 and one.disk_size_mb > 0 and one.created_at.year > 2000 and one.public is False


def test_a_template_is_published_by_who_may_share_one(ask, template):
    assert ask("GET", "/default-templates") == (200, [])
    assert ask("PATCH", f"/v2/templates/{template}", {"public": True}) == (200, {"names": [template]})
    assert [row["templateID"] for row in ask("GET", "/default-templates")[1]] == [template]
    project = ask("POST", "/v1/projects", {"name": "guest"})[1]["id"]
    guest = ask("POST", "/v1/keys", {"name": "g", "scope": "admin", "project": project})[1]["secret"]
    assert [row["templateID"] for row in ask("GET", "/templates", key=guest)[1]] == [template]
    assert ask("PATCH", f"/v2/templates/{template}", {"public": False}, guest)[0] == 403
    assert ask("PATCH", f"/templates/{template}", {"public": False})[0] == 200
    assert ask("GET", "/templates", key=guest) == (200, []) and ask("PATCH", "/v2/templates/nothing", {"public": True})[0] == 404


def test_tags_are_counted_found_and_grouped(ask, template):
    assert ask("POST", "/templates/tags", {"target": template, "tags": ["v1", "v2"]})[0] == 201
    path = f"/templates/{template}/tags"
    assert ask("GET", f"{path}/count") == (200, {"total": 3})
    for tag, is_there in (("v1", True), ("default", True), ("v3", False)):
        assert ask("GET", f"{path}/exists?tag={tag}") == (200, {"exists": is_there, "normalizedTag": tag})
    assert ask("GET", f"{path}/exists")[0] == 400
    groups = models.TemplateTagGroupsResponse.from_dict(ask("GET", f"{path}/groups?tagsLimit=25&sort=latest_desc")[1])
    assert sorted(one.tag for one in groups.tags) == ["default", "v1", "v2"] and not groups.tags[0].has_more and groups.next_cursor is None
    (given,) = models.TemplateTagAssignmentsResponse.from_dict(ask("GET", f"{path}/v1/assignments")[1]).data
    assert given.build_id == groups.tags[0].assignments[0].build_id
    assert ask("GET", f"{path}/v9/assignments")[0] == 404 and ask("GET", "/templates/nothing/tags/count")[0] == 404
    assert ask("DELETE", "/templates/tags", {"name": template, "tags": ["v1", "v2"]})[0] == 204


def test_who_means_a_template_by_a_name_that_only_its_tags_have_is_told_of_one(ask, template):
    """A build of "job:v1" tells the templateID "job", and E2B's command line deletes and publishes what it was told."""
    calls = (("DELETE", "/templates/", {}), ("PATCH", "/v2/templates/", {"public": True}))
    assert ask("POST", "/templates/tags", {"target": template, "tags": ["v7"]})[0] == 201
    assert ask("DELETE", f"/templates/{template}", {})[0] == 204
    for method, path, body in calls:
        status, reply = ask(method, path + template, body)
        assert status == 404 and f"such as '{template}:v7'" in reply["message"], reply
        status, reply = ask(method, f"{path}nothing", body)
        assert status == 404 and reply["message"] == "template 'nothing' not found", reply
    assert ask("POST", "/templates/tags", {"target": f"{template}:v7", "tags": ["default"]})[0] == 201
    assert ask("DELETE", f"/templates/{template}:v7", {})[0] == 204
