# SPDX-License-Identifier: Apache-2.0
"""Sandboxes that are ready before they are asked for: alike to their users, nobody's until then, and none left."""

import os
import signal
import time
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


RULES = {"allow": ["allowed.test"]}
# When its process began, by the host's clock since its boot; and what it was told to trust.
BEGAN = """
import os
ticks = int(open("/proc/self/stat").read().rpartition(")")[2].split()[19])
ticks / os.sysconf("SC_CLK_TCK"), os.environ.get("SSL_CERT_FILE")
"""


def spares_with_doors(client):
    """Once somebody has asked for one, they are kept like those without."""
    before = client.health()["pool"]["target"]
    with client.create(network=RULES):
        pass
    wait_for(lambda: client.health()["pool"]["target"] > before, 30, "a wish for spares with doors")
    full_pool(client)


def test_a_create_with_a_policy_gets_a_spare_whose_interpreter_runs_already(own):
    _, client = own
    full_pool(client)
    spares_with_doors(client)
    now = time.clock_gettime(time.CLOCK_BOOTTIME)
    with client.create(network=RULES) as sandbox:
        began, trusted = eval(sandbox.run_code(BEGAN).text)
        assert began < now and trusted
        assert "does not let it reach denied.test" in sandbox.run(["curl", "-sS", "https://denied.test/"]).stdout
    with client.create() as plain:  # and who has none is not given such a one
        assert eval(plain.run_code(BEGAN).text)[1] is None


def test_a_spare_with_a_door_outlives_the_wall_that_served_it(own):
    daemon, client = own
    full_pool(client)
    spares_with_doors(client)
    pid = daemon.wall_pid
    os.kill(pid, signal.SIGKILL)
    wait_for(lambda: daemon.wall_pid != pid, 30, "a new wall")
    wait_for(lambda: client.health()["status"] == "ok", 30, "a wall that answers")
    with client.create(network=RULES) as sandbox:
        assert "does not let it reach denied.test" in sandbox.run(["curl", "-sS", "https://denied.test/"]).stdout


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
