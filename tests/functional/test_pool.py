# SPDX-License-Identifier: Apache-2.0
"""Sandboxes that are ready before they are asked for: alike to their users, nobody's until then, and none left."""

import os
import signal
from concurrent.futures import ThreadPoolExecutor

import pytest
from cloche import Client
from harness import audit
from harness.daemon import Daemon, wait_for
from harness.running import running

SELF = """
import os, random, socket, uuid
who = [socket.gethostname(), *(open(f).read().strip() for f in ("/etc/hostname", "/etc/machine-id")),
       random.random(), str(uuid.uuid4()), os.urandom(8).hex()]
who
"""


@pytest.fixture
def own():
    """A daemon of this test's own, as users start it: (daemon, client)."""
    with running(Daemon()) as daemon, Client(daemon.url, daemon.key) as client:
        yield daemon, client


def full_pool(client, at_least=1):
    def look():
        pool = client.health()["pool"]
        return pool if pool["ready"] >= max(at_least, pool["target"]) else None

    return wait_for(look, 30, "a full pool")


def test_a_create_gets_a_spare_that_nobody_saw_before(client):
    before = full_pool(client, 2)
    assert not list(client.list())
    with client.create(tags={"a": "b"}) as sandbox:
        assert client.health()["pool"]["hits"] == before["hits"] + 1
        assert sandbox.info.state == "running"
        assert sandbox.info.tags == {"a": "b"}
        assert [s.id for s in client.list()] == [sandbox.id]
        assert not sandbox.contexts.list()
        assert sandbox.run_code("6 * 7").text == "42"
        assert [c.name for c in sandbox.contexts.list()] == ["python"]
    full_pool(client, 2)


def test_spares_share_no_name_and_no_randomness(client):
    full_pool(client, 2)
    with client.create() as one, client.create() as other:
        a, b = (eval(s.run_code(SELF).text) for s in (one, other))
        assert a[0] == a[1] == one.id.replace("_", "-")
        assert not set(a) & set(b)
        assert one.run(["hostname"]).stdout.strip() == a[0]


def test_the_owners_variables_reach_execs_and_interpreters(client):
    full_pool(client, 2)
    with client.create(env={"TOKEN": "t1"}) as sandbox:
        assert sandbox.run("echo $TOKEN").stdout == "t1\n"
        result = sandbox.run_code("import os; os.environ['TOKEN']")
        assert result.text == "'t1'"
        assert not result.restarted


def test_a_named_sandbox_has_its_name_inside(client):
    full_pool(client, 2)
    with client.create(name="box-7") as sandbox:
        assert sandbox.run(["cat", "/etc/hostname"]).stdout == "box-7\n"


@pytest.mark.parametrize("part", ["gateway", "broker"])
def test_after_a_kill_with_a_full_pool_the_next_start_has_only_its_own(own, part):
    daemon, client = own
    full_pool(client)
    old = daemon.spares()
    pid = getattr(daemon, f"{part}_pid")
    os.kill(pid, signal.SIGKILL)
    wait_for(lambda: daemon._part(part) not in (None, pid), 30, f"a new {part}")
    wait_for(lambda: not audit.cgroup_dirs(old), 30, "the old spares' end")
    full_pool(client)
    assert not old & set(os.listdir(daemon.run / "sandboxes"))


def test_a_daemon_that_stops_for_the_next_leaves_no_spare():
    daemon = Daemon(rm=False).start()
    try:
        with Client(daemon.url, daemon.key) as client:
            full_pool(client)
    finally:
        ids = daemon.ids()
        status = daemon.stop()
        left = audit.left_after_stop(daemon, ids)
        daemon.remove()
    assert status == 0
    assert not left


@pytest.mark.slow
def test_a_hundred_creates_at_once_are_all_served(own):
    daemon, client = own
    full_pool(client)

    def make(i):
        with Client(daemon.url, daemon.key) as mine:
            return mine.create(tags={"i": str(i)})

    with ThreadPoolExecutor(100) as threads:
        made = list(threads.map(make, range(100)))
    assert len({s.id for s in made}) == 100
    assert [s.info.state for s in made] == ["running"] * 100
    assert client.health()["sandboxes"] == 100
    assert made[99].run_code("1").text == "1"
