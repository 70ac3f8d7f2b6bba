# SPDX-License-Identifier: Apache-2.0
"""What was used in the past, and what ran then: kept over restarts and kills, and told to nobody else. tests/unit/test-history.c moves the clock."""

import contextlib
import json
import os
import signal
import time

import pytest
from cloche import Client
from cloche.errors import Forbidden, InvalidField, NotFound
from harness import audit
from harness.cli import Cli
from harness.daemon import Daemon, call, wait_for
from harness.running import running

OFTEN = ["--usage-period", "200ms", "--pool-max", "0", "--default-memory", "128MiB"]
BURN = "import time\nt = time.process_time()\nwhile time.process_time() - t < 1: pass"


@pytest.fixture(scope="module")
def read_often():
    """A daemon that takes readings often: (daemon, client)."""
    with running(Daemon(*OFTEN)) as daemon, Client(daemon.url, daemon.key) as client:
        yield daemon, client


@pytest.fixture
def box(read_often):
    with read_often[1].create() as sandbox:
        yield sandbox


def values(told, name):
    """The readings of one figure, without the gaps."""
    return [v for s in told["series"] if s["name"] == name for v in s["values"] if v is not None]


def now_us():
    return time.time_ns() // 1000


def test_a_sandbox_its_project_and_the_host_have_readings_at_every_step(read_often, box):
    _, client = read_often
    box.run(["python3", "-c", BURN])
    wait_for(lambda: max(values(box.history(), "cpu_milli"), default=0) > 20, 30, "its CPU time")
    for span, step_ms in (("1h", 10_000), ("24h", 60_000), ("7d", 600_000), ("30d", 600_000)):
        of_box, of_project, of_host = box.history(span), client.history(span), client.history(span, scope="host")
        assert {of["step_ms"] for of in (of_box, of_project, of_host)} == {step_ms}
        assert of_box["id"] == box.id and of_host["id"] is None
        assert values(of_box, "memory_bytes")[-1] > 0 and max(values(of_box, "cpu_milli")) > 0
        assert max(values(of_project, "sandboxes")) >= 1 and sum(values(of_project, "execs")) >= 1
        assert values(of_host, "host_memory_bytes")[-1] > 64 << 20 and values(of_host, "host_disk_free_bytes")[-1] > 0
        assert of_box["from_us"] + of_box["count"] * step_ms * 1000 > now_us()


def test_an_ended_sandbox_keeps_its_history_also_when_it_is_forgotten(read_often):
    _, client = read_often
    sandbox = client.create()
    wait_for(lambda: values(sandbox.history(), "memory_bytes"), 30, "a reading")
    sandbox.delete()
    with contextlib.suppress(NotFound):
        sandbox.delete()
    assert values(client.history(scope="sandbox", id=sandbox.id), "memory_bytes")


def test_what_ran_at_a_moment_is_told_with_what_it_used(read_often):
    _, client = read_often
    before = now_us()
    with client.create(name="then") as sandbox:
        wait_for(lambda: values(sandbox.history(), "memory_bytes"), 30, "a reading")
        during = now_us()
    after = now_us()
    assert sandbox.id not in [ran["id"] for ran in client.running_at(before)] + [ran["id"] for ran in client.running_at(after)]
    (ran,) = [ran for ran in client.running_at(during) if ran["id"] == sandbox.id]
    assert ran["name"] == "then" and before < ran["began_us"] < during < ran["ended_us"] < after
    assert ran["memory_bytes"] > 0


def test_a_stopped_sandbox_does_not_run_until_it_is_resumed(read_often):
    _, client = read_often
    with client.create(name="rests", persistent=True) as sandbox:
        sandbox.stop()
        between = now_us()
        sandbox.resume()
        assert sandbox.id not in [ran["id"] for ran in client.running_at(between)]
        assert sandbox.id in [ran["id"] for ran in client.running_at(now_us())]


def test_T06_a_tenant_sees_its_own_project_alone(read_often, box):
    daemon, client = read_often
    project = client.create_project("history-tenant")
    key = client.create_key("history-tenant-key", project="history-tenant", scope="admin")
    wait_for(lambda: values(box.history(), "memory_bytes"), 30, "a reading")
    with Client(daemon.url, key["secret"]) as tenant:
        assert tenant.running_at(now_us()) == []
        assert max(values(tenant.history(), "sandboxes"), default=0) == 0
        assert tenant.history(id="history-tenant")["id"] == project["id"]
        for wish in ({"scope": "host"}, {"id": "default"}, {"id": "nobody"}):
            with pytest.raises(Forbidden):
                tenant.history(**wish)
        with pytest.raises(Forbidden):
            tenant.running_at(now_us(), project="default")
        unknown = "sb_" + "a" * 26
        refusals = []
        for one in (box.id, unknown):
            with pytest.raises(NotFound) as refused:
                tenant.history(scope="sandbox", id=one)
            refusals.append(str(refused.value).replace(one, ""))
        assert refusals[0] == refusals[1]
    client.delete_project("history-tenant")


@pytest.mark.parametrize("wish, field", [({"scope": "world"}, "scope"), ({"range": "2h"}, "range"), ({"scope": "sandbox"}, "id"), ({"scope": "host", "id": "x"}, "id")])
def test_a_wish_that_cannot_be_names_its_field(read_often, wish, field):
    with pytest.raises(InvalidField) as refused:
        read_often[1].history(**wish)
    assert refused.value.field == field


def test_a_cursor_that_no_page_told_is_refused(read_often):
    for cursor in ("1", "1.sb_short", "x.sb_" + "a" * 26):
        status, body = call(read_often[0], "GET", f"/v1/history/running?cursor={cursor}")
        assert (status, body["error"]["field"]) == (400, "cursor")


def test_the_command_line_shows_the_past_and_what_ran_then(read_often, box):
    daemon, client = read_often
    cli = Cli(daemon)
    wait_for(lambda: values(box.history(), "memory_bytes"), 30, "a reading")
    head, *rows = cli.ok("history", box.id).splitlines()
    assert head.split() == ["FIGURE", "NOW", "MOST", "COURSE"]
    assert [row.split()[0] for row in rows] == ["cpu", "memory", "disk", "network", "network"] and "█" in rows[1]
    assert cli.ok("history", "--host", "-r", "7d").count("\n") == 16
    assert json.loads(cli.ok("history", "-r", "24h", "--json"))["count"] == 1440
    assert box.id in cli.ok("ps", "--at", "0", "-q").split()
    assert box.id not in cli.ok("ps", "--at", "1h")
    assert cli.ok("ps", "--at", "0").split("\n")[0].split() == ["ID", "NAME", "TEMPLATE", "BEGAN", "ENDED", "CPUS", "MEMORY"]
    for words, complaint in ((("ps", "--at", "noon"), "must be a moment such as"), (("ps", "--at", "1h", "-a"), "leave out"), (("history", "--host", box.id), "give one of")):
        status, out, err = cli(*words)
        assert (status, out) == (125, "") and complaint in err


def execs_of(client):
    return sum(values(client.history(), "execs"))


def test_kills_and_restarts_keep_what_was_written():
    daemon = Daemon(*OFTEN, rm=False).start()
    try:
        with Client(daemon.url, daemon.key) as client:
            sandbox = client.create(name="lives-on")
            began = now_us()
            for n in range(8):  # a reading each; each line is written every six
                sandbox.run("true")
                wait_for(lambda n=n: execs_of(client) > n, 30, "a reading of the exec")
        daemon.kill_parts("gateway")
        with Client(daemon.url, daemon.key) as client:
            assert execs_of(client) >= 2
            assert values(client.history(scope="sandbox", id=sandbox.id), "memory_bytes")
            client.get("lives-on").run("true")
            kept = execs_of(client)
        assert daemon.stop() == 0
        daemon.start()
        with Client(daemon.url, daemon.key) as client:
            assert execs_of(client) >= kept
            assert [ran["ended_us"] for ran in client.running_at(began) if ran["id"] == sandbox.id] == [None]
            client.get("lives-on").delete()
    finally:
        daemon.stop()
        daemon.remove()


def test_what_died_while_nobody_looked_does_not_run():
    daemon = Daemon(*OFTEN, rm=False).start()
    try:
        with Client(daemon.url, daemon.key) as client:
            sandbox = client.create()
            wait_for(lambda: values(sandbox.history(), "memory_bytes"), 30, "a reading")
        assert daemon.stop() == 0
        for pid in audit.processes_of_cgroups({sandbox.id}):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        daemon.start()
        with Client(daemon.url, daemon.key) as client:
            wait_for(lambda: not client.running_at(now_us()), 30, "its end")
    finally:
        daemon.stop()
        daemon.remove()
