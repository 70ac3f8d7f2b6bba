# SPDX-License-Identifier: Apache-2.0
"""Metering: what is charged is what the kernel counted, once, whatever is killed in between."""

import contextlib
import csv
import io
import os
import shutil
import signal
import sqlite3
from pathlib import Path

import pytest
from cloche import Client
from cloche.errors import Forbidden, InvalidField, NotFound
from harness import audit
from harness.daemon import IS_SANITIZED, Daemon, call, read_text, wait_for
from harness.running import running

# What the end of a sandbox itself takes comes behind the last look at its meters.
END_NS = 50_000_000 if IS_SANITIZED else 10_000_000
BURN = "import time\nt = time.process_time()\nwhile time.process_time() - t < 0.3: pass"
PRICES = ["--price-cpu-hour", "3600", "--price-create", "0.01", "--currency", "USD"]


@pytest.fixture(scope="module")
def metered():
    """A daemon that reads often and has prices: (daemon, client). Without spares, since what those used is nobody's."""
    with running(Daemon("--default-memory", "128MiB", "--usage-period", "200ms", "--pool-max", "0", *PRICES)) as daemon, Client(daemon.url, daemon.key) as client:
        yield daemon, client


@pytest.fixture
def box(metered):
    daemon, client = metered
    with client.create() as sandbox:
        yield sandbox


def counted_ns(sandbox_id):
    """The kernel's own count of what ran for the user."""
    for top in audit.cgroup_dirs({sandbox_id}):
        if text := read_text(Path(top) / "user" / "cpuacct.usage"):
            return int(text)
        for line in read_text(Path(top) / "user" / "cpu.stat").splitlines():
            if line.startswith("usage_usec"):
                return int(line.split()[1]) * 1000
    raise AssertionError("no cgroup counts its CPU")


def row_of(client, sandbox_id):
    rows = [r for r in client.usage(group_by="sandbox") if r["sandbox_id"] == sandbox_id]
    return rows[0] if rows else None


def test_what_is_charged_is_what_the_kernel_counted(metered, box):
    _, client = metered
    box.run(["python3", "-c", BURN])
    before = counted_ns(box.id)
    live = box.usage()
    after = counted_ns(box.id)
    assert 300_000_000 <= before <= live["usage"]["cpu_ns"] <= after
    assert live["now"]["memory_peak_bytes"] > 0 and live["usage"]["execs"] == 1
    box.delete()
    row = row_of(client, box.id)
    assert after <= row["cpu_ns"] <= after + END_NS
    assert row["memory_mib_ms"] == row["running_ms"] * 128
    assert 0 < row["memory_used_mib_ms"] <= row["memory_mib_ms"]
    assert (row["execs"], row["creates"]) == (1, 1)
    assert abs(float(row["cost"]) - (row["cpu_ns"] / 1e9 + 0.01)) < 1e-6


def test_what_a_spare_used_before_it_was_claimed_is_nobodys(client):
    wait_for(lambda: client.health()["pool"]["ready"], 30, "a spare")
    with client.create() as sandbox:
        counted = counted_ns(sandbox.id)
        assert sandbox.usage()["usage"]["cpu_ns"] < counted / 2
        sandbox.run(["python3", "-c", BURN])
    assert row_of(client, sandbox.id)["cpu_ns"] >= 300_000_000


def test_waiting_costs_no_active_cpu(metered, box):
    box.start(["sleep", "1000"])
    idle = wait_for(lambda: u if (u := box.usage()["usage"])["execs"] and box.usage()["now"]["pids"] else None)
    later = wait_for(lambda: u if (u := box.usage()["usage"])["running_ms"] > idle["running_ms"] + 700 else None)
    assert later["cpu_ns"] - idle["cpu_ns"] < 10_000_000  # what starting `sleep` still took
    last = wait_for(lambda: u if (u := box.usage()["usage"])["running_ms"] > later["running_ms"] + 700 else None)
    assert last["cpu_ns"] == later["cpu_ns"]
    assert last["memory_mib_ms"] > later["memory_mib_ms"]


@pytest.mark.parametrize("names", [["gateway"], ["broker"]])
def test_after_a_kill_usage_goes_on_where_it_was(metered, names):
    daemon, client = metered
    box = client.create()
    box.run(["python3", "-c", BURN])
    told = wait_for(lambda: row_of(client, box.id))
    daemon.kill_parts(*names)
    again = box.usage()["usage"]
    assert all(again[k] >= told[k] for k in again if k != "cost")
    box.run(["python3", "-c", BURN])
    last = counted_ns(box.id)
    box.delete()
    row = row_of(client, box.id)
    assert last <= row["cpu_ns"] <= last + END_NS
    assert (row["creates"], row["execs"]) == (1, 2)


def test_the_books_of_one_that_died_while_nobody_looked_are_closed_exactly(metered):
    daemon, client = metered
    box = client.create()
    box.run(["python3", "-c", BURN])
    pids = audit.processes_of_cgroups({box.id})
    counted = counted_ns(box.id)
    os.kill(min(pids), signal.SIGKILL)
    daemon.kill_parts("gateway", "broker")
    wait_for(lambda: box.refresh().ended, 15, "the end")
    row = wait_for(lambda: r if (r := row_of(client, box.id))["cpu_ns"] >= counted else None)
    assert counted <= row["cpu_ns"] <= counted + END_NS


def test_an_end_is_charged_once(metered):
    daemon, client = metered
    box = client.create()
    box.run("true")
    box.delete()
    row = row_of(client, box.id)
    daemon.kill_parts("gateway")
    assert row_of(client, box.id) == row
    assert box.usage()["usage"] == {k: row[k] for k in box.usage()["usage"]}
    assert box.usage()["now"] is None


def test_the_account_of_a_sandbox_outlives_its_record(metered):
    daemon, client = metered
    box = client.create()
    box.run("true")
    box.delete()
    told = box.usage()
    box.delete()  # of one that has ended: it is forgotten
    with pytest.raises(NotFound):
        box.refresh()
    for names in ([], ["gateway"]):
        daemon.kill_parts(*names)
        status, now = call(daemon, "GET", f"/v1/sandboxes/{box.id}/usage")
        assert (status, now["state"], now["now"]) == (200, None, None)
        assert {**now, "state": told["state"], "at_us": told["at_us"]} == told
    client.create_project("account")
    other = client.create_key("account", project="account")["secret"]
    assert call(daemon, "GET", f"/v1/sandboxes/{box.id}/usage", key=other)[0] == 404


def test_an_account_is_there_as_soon_as_its_sandbox_is(metered, tmp_path):
    daemon, client = metered
    with client.create() as box:
        os.kill(daemon.gateway_pid, signal.SIGSTOP)  # it holds the lock: what it would leave is looked at
        try:
            for file in ("state.db", "state.db-wal"):
                shutil.copy(daemon.data / "gateway" / file, tmp_path)
        finally:
            os.kill(daemon.gateway_pid, signal.SIGCONT)
        with contextlib.closing(sqlite3.connect(tmp_path / "state.db")) as db:
            assert db.execute("SELECT creates FROM meters WHERE sandbox_id = ?", [box.id]).fetchall() == [(1,)]


def test_calls_of_code_are_counted_whoever_is_killed(metered):
    daemon, client = metered
    box = client.create()
    box.run_code("1")
    for count in (2, 3):
        box.run_code("1")
        daemon.kill_parts("gateway")
        assert box.usage()["usage"]["calls"] == count
    box.run_code("1")
    box.delete()
    assert box.usage()["usage"]["calls"] == row_of(client, box.id)["calls"] == 4


@pytest.mark.parametrize("names", [[], ["gateway"], ["broker"]])
def test_a_stopped_one_pays_for_its_disk_alone_and_its_runs_add_up(metered, names):
    daemon, client = metered
    box = client.create(persistent=True)
    box.run(["sh", "-c", "head -c 3000000 /dev/urandom > big; sync"])
    box.run(["python3", "-c", BURN])
    first = counted_ns(box.id)
    box.stop()
    if names:
        daemon.kill_parts(*names)
    stopped = box.usage()["usage"]
    assert first <= stopped["cpu_ns"] <= first + END_NS
    wait_for(lambda: box.usage()["usage"]["disk_mib_ms"] > stopped["disk_mib_ms"], 10, "a charge for its disk")
    assert {**box.usage()["usage"], "disk_mib_ms": 0, "cost": 0} == {**stopped, "disk_mib_ms": 0, "cost": 0}
    box.resume()
    box.run("true")
    second = counted_ns(box.id)
    assert second < first
    box.delete()
    row = row_of(client, box.id)
    assert first + second <= row["cpu_ns"] <= first + second + 2 * END_NS
    assert (row["creates"], row["execs"]) == (1, 3)


def test_one_that_is_paused_holds_its_memory_and_no_cpu(metered, box):
    box.start(["python3", "-c", "while True: pass"])
    wait_for(lambda: box.usage()["usage"]["cpu_ns"] > 50_000_000)
    box.pause(to="memory")
    before = box.usage()["usage"]
    after = wait_for(lambda: u if (u := box.usage()["usage"])["running_ms"] > before["running_ms"] + 300 else None)
    assert after["cpu_ns"] == before["cpu_ns"]  # it was answered when all stood still
    assert after["memory_mib_ms"] - before["memory_mib_ms"] == (after["running_ms"] - before["running_ms"]) * 128


def test_projects_and_days_are_the_sums_of_their_sandboxes(metered):
    _, client = metered
    for _ in range(3):
        with client.create() as sandbox:
            sandbox.run("true")
    sandboxes = client.usage(group_by="sandbox")
    (project,) = [r for r in client.usage() if r["project"] == "default"]
    days = client.usage(group_by="day")
    for name in ("running_ms", "cpu_ns", "memory_mib_ms", "execs", "creates"):
        assert sum(r[name] for r in sandboxes) == project[name] == sum(r[name] for r in days), name


def test_sandboxes_and_all_else_with_an_account_come_in_pages(metered, box):
    daemon, client = metered
    for _ in range(3):
        client.create().delete()
    snapshots = []
    for name in "ab":
        box.run(f"head -c 1000000 /dev/urandom > {name}")
        snapshots.append(box.snapshot()["id"])
    volumes = [client.create_volume(f"paged-{i}", size_mib=16)["id"] for i in range(2)]
    with client.create(volumes={f"/v{i}": v for i, v in enumerate(volumes)}) as sandbox:
        sandbox.run("head -c 1000000 /dev/urandom | tee /v0/a > /v1/a", user="root")
    wait_for(lambda: {*snapshots, *volumes} < {r["sandbox_id"] for r in client.usage(group_by="sandbox")}, 30, "rows of all")
    seen, cursor = [], ""
    while cursor is not None:
        _, page = call(daemon, "GET", f"/v1/usage?group_by=sandbox&limit=1{cursor}")
        seen += [r["sandbox_id"] for r in page["rows"]]
        cursor = page["next_cursor"] and f"&cursor={page['next_cursor']}"
    assert seen == sorted(set(seen)) == [r["sandbox_id"] for r in client.usage(group_by="sandbox")]
    for volume in volumes:
        client.delete_volume(volume)
    for snapshot in snapshots:
        client.delete_snapshot(snapshot)


def test_csv_has_the_same_rows(metered):
    daemon, client = metered
    client.create().delete()
    _, text = call(daemon, "GET", "/v1/usage?group_by=day", headers={"Accept": "text/csv"})
    rows = list(csv.DictReader(io.StringIO(text.decode())))
    assert [{k: str(v) for k, v in r.items()} | {"currency": "USD"} for r in client.usage(group_by="day")] == rows


def test_a_project_sees_only_its_own_usage(metered):
    daemon, client = metered
    client.create().delete()
    project = client.create_project("meter-other")
    secret = client.create_key("other", scope="admin", project=project["id"])["secret"]
    with Client(daemon.url, secret) as other:
        assert other.usage() == [] and other.usage(group_by="sandbox") == []
        other.create().delete()
        (row,) = other.usage()
        assert (row["project_id"], row["creates"]) == (project["id"], 1)
        assert other.usage(project=project["id"]) == [row]
        for name in ("default", "no-such-project"):
            with pytest.raises(Forbidden):
                other.usage(project=name)
        mine = client.create()
        with pytest.raises(NotFound):
            other.get(mine.id).usage()
        mine.delete()
    reader = client.create_key("reader", scope="read")["secret"]
    with Client(daemon.url, reader) as plain:
        assert {r["project"] for r in plain.usage()} == {"default"}
    assert {r["project"] for r in client.usage()} >= {"default", "meter-other"}


@pytest.mark.parametrize(
    "field, query",
    [("from", "from=2026-02-30"), ("to", "to=today"), ("from", "from=2026-02-02&to=2026-02-01"), ("from", "from=2020-01-01&to=2026-01-01"),
     ("group_by", "group_by=hour"), ("cursor", "cursor=abc&group_by=sandbox"), ("cursor", "cursor=abc"), ("limit", "limit=0")],
)
def test_a_bad_question_is_named(metered, field, query):
    daemon, _ = metered
    status, body = call(daemon, "GET", f"/v1/usage?{query}")
    assert (status, body["error"]["field"]) == (400, field)


def test_days_of_the_sdk_may_be_dates(client):
    with pytest.raises(InvalidField):
        client.usage(start="2026-13-01")
