# SPDX-License-Identifier: Apache-2.0
"""Sandboxes as objects: names, tags, lists, changes; and what their limits look like from inside."""

import re
import uuid

import pytest
import yaml
from cloche import Sandbox, errors
from harness.daemon import ROOT

API = yaml.safe_load((ROOT / "api" / "openapi.yaml").read_text())


def test_a_new_sandbox_runs_and_tells_what_it_is(sandbox, engine, template):
    info = sandbox.info
    assert re.fullmatch(API["components"]["schemas"]["Sandbox"]["properties"]["id"]["pattern"], info.id)
    assert info.state == "running"
    assert info.template == (template or "host")
    assert info.isolation["engine"] == engine
    assert info.ended is None
    assert info.expires_us > info.created_us


def test_isolation_names_its_walls(sandbox):
    walls = set(sandbox.info.isolation["walls"])
    assert {"user_namespace", "seccomp", "no_new_privs"} <= walls or len(walls) >= 10
    assert not walls & set(sandbox.info.isolation["gaps"])


@pytest.mark.neutral
def test_a_sandbox_is_found_by_id_and_by_name(client, make_sandbox):
    name = f"t-{uuid.uuid4().hex[:12]}"
    sandbox = make_sandbox(name=name)
    assert client.get(name).id == client.get(sandbox.id).id == sandbox.id
    assert Sandbox.attach(name, client=client).run("hostname").stdout.strip() in (name, sandbox.id)


def test_a_name_is_unique_among_the_living_and_free_after(client, make_sandbox):
    name = f"t-{uuid.uuid4().hex[:12]}"
    first = make_sandbox(name=name)
    with pytest.raises(errors.Conflict):
        make_sandbox(name=name)
    first.delete()
    assert make_sandbox(name=name).id != first.id


@pytest.mark.neutral
def test_tags_are_kept_filtered_by_and_changed(client, make_sandbox):
    mark = uuid.uuid4().hex
    one = make_sandbox(tags={"mark": mark, "n": "1"})
    two = make_sandbox(tags={"mark": mark, "n": "2"})
    make_sandbox(tags={"mark": "other"})
    assert [s.id for s in client.list(tag=f"mark:{mark}")] == [two.id, one.id]
    one.update(tags={"mark": "moved"})
    assert one.refresh().tags == {"mark": "moved"}
    assert [s.id for s in client.list(tag=f"mark:{mark}")] == [two.id]


@pytest.mark.parametrize("tag", ["a'b", "a%", "_", 'a"b', "a;--", "ü", "a b", "a:b:c"])
def test_odd_tags_are_only_text(client, make_sandbox, tag):
    sandbox = make_sandbox(tags={"k": tag})
    make_sandbox(tags={"k": "axb"})
    assert [s.id for s in client.list(tag=f"k:{tag}")] == [sandbox.id]


def test_a_list_comes_in_pages_newest_first(client, make_sandbox):
    mark = uuid.uuid4().hex
    made = [make_sandbox(tags={"mark": mark}).id for _ in range(7)]
    for size in (1, 3, 7, 100):
        assert [s.id for s in client.list(tag=f"mark:{mark}", page_size=size)] == made[::-1]


def test_a_page_goes_on_where_the_last_ended_though_some_are_gone(client, make_sandbox):
    mark = uuid.uuid4().hex
    made = [make_sandbox(tags={"mark": mark}) for _ in range(5)]
    pages = client.list(tag=f"mark:{mark}", page_size=2)
    seen = [next(pages).id, next(pages).id]
    made[3].delete()
    seen += [s.id for s in pages]
    assert seen == [made[k].id for k in (4, 3, 2, 1, 0)]


def test_ended_sandboxes_are_listed_only_when_asked_for(client, make_sandbox):
    mark = uuid.uuid4().hex
    sandbox = make_sandbox(tags={"mark": mark})
    sandbox.delete()
    assert not list(client.list(tag=f"mark:{mark}"))
    assert [s.id for s in client.list(tag=f"mark:{mark}", state="stopped")] == [sandbox.id]


@pytest.mark.neutral
def test_two_sandboxes_do_not_see_each_other(make_sandbox):
    a, b = make_sandbox(), make_sandbox()
    a.files.write("/tmp/secret", b"of a")
    a.start(["sleep", "1000"])
    assert not b.files.exists("/tmp/secret")
    assert "sleep" not in b.run("cat /proc/[0-9]*/comm").stdout.split()
    assert a.run("hostname").stdout != b.run("hostname").stdout


def test_a_sandbox_has_nothing_of_the_hosts_own_places(sandbox):
    r = sandbox.run("ls -A /root /home /opt /srv /mnt /media 2>/dev/null", user="root")
    names = {w for w in r.stdout.split() if not w.endswith(":")}
    assert names <= {"user", ".bashrc", ".profile", ".bash_logout", "cloche"}
    assert "admin.key" not in sandbox.run("find / -xdev -name admin.key", user="root").stdout


def test_limits_are_what_is_seen_inside(make_sandbox, engine):
    sandbox = make_sandbox(limits={"vcpus": 1, "memory_mib": 200, "pids": 50, "open_files": 300})
    assert sandbox.run(["nproc"]).stdout.strip() == "1"
    meminfo = dict(re.findall(r"^(\w+):\s+(\d+)", sandbox.run(["cat", "/proc/meminfo"]).stdout, re.M))
    assert int(meminfo["MemTotal"]) in {"jail": [200 * 1024], "vm": range(150 * 1024, 200 * 1024)}[engine]  # a kernel of its own takes its part
    assert int(meminfo["MemAvailable"]) <= int(meminfo["MemTotal"])
    assert sandbox.run("grep -c ^processor /proc/cpuinfo").stdout.strip() == "1"
    assert sandbox.run("ulimit -n").stdout.strip() == "300"
    assert sandbox.run(["python3", "-c", "import os; print(len(os.sched_getaffinity(0)))"]).stdout == "1\n"


@pytest.mark.jail("a machine keeps the memory that it booted with; test_vm.py changes what can be")
def test_limits_can_be_changed_while_it_runs(make_sandbox):
    sandbox = make_sandbox(limits={"memory_mib": 64, "pids": 20})
    eat = ["python3", "-c", "b = bytearray(100 << 20); print(len(b))"]
    assert sandbox.run(eat).exit_code != 0
    info = sandbox.update(limits={"memory_mib": 256})
    assert (info.limits["memory_mib"], info.limits["pids"]) == (256, 20)
    assert sandbox.run(eat).exit_code == 0


def test_a_grade_that_this_host_cannot_give_is_refused_with_a_reason(client, engine):
    if engine == "vm":
        pytest.skip("the vm engine may give it")
    with pytest.raises(errors.Unsupported) as e:
        client.create(engine=engine, min_grade="hardware")
    assert "hardware" in str(e.value)


def test_an_engine_that_this_host_lacks_is_refused_with_a_reason(client):
    if any(e["engine"] == "vm" for e in client.health()["engines"]):
        pytest.skip("this host has both engines")
    with pytest.raises((errors.Unsupported, errors.InvalidField)):
        client.create(engine="vm")


def test_health_counts_the_living(client, make_sandbox):
    before = client.health()["sandboxes"]
    make_sandbox()
    after = client.health()
    assert after["sandboxes"] == before + 1
    assert after["status"] == "ok" and after["ready"] is True
    assert after["host"]["cpus"] >= 1


def test_a_refused_create_leaves_nothing(client):
    before = client.health()["sandboxes"]
    for bad in ({"limits": {"memory_mib": 1}}, {"template": "no-such-template"}, {"name": "UPPER"}):
        with pytest.raises(errors.ClocheError):
            client.create(**bad)
    assert client.health()["sandboxes"] == before


def test_the_environment_of_a_sandbox_is_told_by_name_only(client, make_sandbox):
    sandbox = make_sandbox(env={"TOKEN": "s3cr3t-canary"})
    assert "s3cr3t-canary" not in str(client.get(sandbox.id).info.raw)
    assert sandbox.run("echo $TOKEN").stdout == "s3cr3t-canary\n"


def test_what_cannot_be_changed_while_it_runs_is_refused_and_changed_at_rest(make_sandbox):
    sandbox = make_sandbox(persistent=True, limits={"open_files": 100})
    with pytest.raises(errors.InvalidField) as e:
        sandbox.update(limits={"open_files": 200})
    assert e.value.field == "limits.open_files" and "stopped" in e.value.hint
    sandbox.stop()
    sandbox.update(limits={"open_files": 200})
    assert sandbox.run("ulimit -n").stdout == "200\n"


@pytest.mark.parametrize("field", ["vcpus", "memory_mib", "disk_mib", "inodes", "pids", "open_files"])
def test_one_range_is_told_for_a_limit_whatever_is_wrong_with_it(client, field):
    told = set()
    for value in (0, -1, 2**40, 2**62):
        with pytest.raises(errors.InvalidField) as e:
            client.create(limits={field: value})
        assert e.value.field == f"limits.{field}"
        told.add(str(e.value))
    assert len(told) == 1
