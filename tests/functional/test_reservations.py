# SPDX-License-Identifier: Apache-2.0
"""Creates that are announced: made ahead for their project alone, within its quota and the host's room, and gone when nobody comes."""

import json
import os
import subprocess
import time

import pytest
from cloche import Client, errors
from harness.cli import CLOCHE
from harness.daemon import Daemon, call, wait_for
from harness.running import running

SIZE = {"memory_mib": 48}  # that nothing else in here has
OPTIONS = ("--pool-min", "0", "--pool-reserve", "6", "--sandboxes-max", "10", "--default-memory", "64MiB")


@pytest.fixture(scope="module")
def own():
    with running(Daemon(*OPTIONS)) as daemon, Client(daemon.url, daemon.key) as client:
        yield daemon, client


class Tenant:
    def __init__(self, daemon, admin, name):
        self.daemon, self.admin = daemon, admin
        self.project = admin.create_project(name)["id"]
        self.key = admin.create_key(name, scope="admin", project=self.project)["secret"]
        self.client = Client(daemon.url, self.key)

    def hits(self):
        return self.admin.health()["pool"]["hits"]

    def await_ready(self, reservation, count):
        return wait_for(lambda: (one := self.client.reservation(reservation["id"]))["ready"] == count and one, 30, f"{count} spares")

    def end(self):
        for one in self.client.reservations():
            self.client.release(one["id"])
        for sandbox in self.client.list():
            sandbox.delete()
        self.client.close()


@pytest.fixture
def tenant(own, request):
    made = []

    def make(name="a"):
        made.append(Tenant(*own, f"{request.node.name[-50:]}-{name}"))
        return made[-1]

    yield make
    [one.end() for one in made]


def only_learnt_ones(daemon, admin):
    """Spares that the pool keeps by itself, for what other tests have created."""
    wait_for(lambda: len(daemon.spares()) <= admin.health()["pool"]["target"], 30, "the end of spares that were announced")


def test_announced_creates_find_their_sandboxes_ready_and_use_them_up(own, tenant):
    a = tenant()
    made = a.client.reserve(4, limits=SIZE, duration=120)
    assert (made["count"], made["left"], made["target"], made["limited_by"]) == (4, 4, 4, None)
    a.await_ready(made, 4)
    assert not list(a.client.list()) and a.client.quota()["current"]["sandboxes"] == 0
    before = a.hits()
    boxes = [a.client.create(limits=SIZE) for _ in range(3)]
    assert a.hits() == before + 3
    assert [box.run("echo here").stdout for box in boxes] == ["here\n"] * 3
    assert a.client.reservation(made["id"])["left"] == 1
    a.client.create(limits=SIZE)
    with pytest.raises(errors.NotFound):
        a.client.reservation(made["id"])
    told = [(e["type"], e["data"].get("why")) for e in a.client.events(type="pool")]
    assert told == [("pool.reserved", None), ("pool.released", "used")]


def test_no_other_project_gets_what_is_made_ahead_for_one(own, tenant):
    a, b = tenant("a"), tenant("b")
    made = a.client.reserve(2, limits=SIZE)
    a.await_ready(made, 2)
    before = b.hits()
    b.client.create(limits=SIZE)
    assert b.hits() == before
    assert a.client.reservation(made["id"])["ready"] == 2
    with pytest.raises(errors.NotFound):
        b.client.reservation(made["id"])
    with pytest.raises(errors.NotFound):
        b.client.release(made["id"])
    assert not b.client.reservations()
    a.client.create(limits=SIZE)  # control: its own gets one
    assert b.hits() == before + 1


def test_another_size_does_not_use_it_up(own, tenant):
    a = tenant()
    made = a.client.reserve(1, limits=SIZE)
    a.await_ready(made, 1)
    a.client.create()
    assert a.client.reservation(made["id"])["left"] == 1


def test_never_more_is_ahead_than_the_quota_leaves(own, tenant):
    a = tenant()
    own[1].set_quota(project=a.project, sandboxes=3)
    a.client.create()
    made = a.client.reserve(6, limits=SIZE)
    assert (made["target"], made["limited_by"]) == (2, "quota")
    a.await_ready(made, 2)
    second = a.client.reserve(6, limits={"memory_mib": 40})
    assert (second["target"], second["limited_by"]) == (0, "quota")  # what one has ahead counts for the other
    own[1].set_quota(project=a.project, sandboxes=4)
    a.client.create()  # one is alive more: what is ahead stays
    assert a.client.reservation(made["id"])["target"] == 2


def test_projects_share_the_room_in_equal_parts(own, tenant):
    a, b = tenant("a"), tenant("b")
    first = a.client.reserve(6, limits=SIZE)
    a.await_ready(first, 6)
    second = b.client.reserve(6, limits=SIZE)
    assert (second["target"], second["limited_by"]) == (3, "pool.reserve")
    b.await_ready(second, 3)
    a.await_ready(first, 3)
    a.client.release(first["id"])
    b.await_ready(second, 6)


def test_sandboxes_that_run_come_before_those_that_are_announced(own, tenant):
    a, b = tenant("a"), tenant("b")
    made = a.client.reserve(6, limits=SIZE)
    a.await_ready(made, 6)
    for _ in range(10):  # as many as the host has
        b.client.create()
    wait_for(lambda: a.client.reservation(made["id"])["target"] == 0, what="room for those that run")
    assert a.client.reservation(made["id"])["limited_by"] == "sandboxes_max"
    b.end()
    a.await_ready(made, 6)


def test_it_ends_by_itself_with_what_nobody_has_taken(own, tenant):
    daemon, admin = own
    a = tenant()
    made = a.client.reserve(3, limits=SIZE, duration=5)
    a.await_ready(made, 3)
    assert 0 < made["expires_us"] - made["created_us"] <= 5_000_000
    wait_for(lambda: not a.client.reservations(), 30, "its time")
    only_learnt_ones(daemon, admin)
    assert [e["data"]["why"] for e in a.client.events(type="pool.released")] == ["expired"]


def test_the_same_key_announces_once(own, tenant):
    a = tenant()
    body = {"count": 2, "limits": SIZE}
    headers = {"Idempotency-Key": "once"}
    replies = [call(own[0], "POST", "/v1/pool", body, key=a.key, headers=headers) for _ in range(2)]
    assert [status for status, _ in replies] == [201, 201]
    assert replies[0][1]["id"] == replies[1][1]["id"] and len(a.client.reservations()) == 1
    status, other = call(own[0], "POST", "/v1/pool", {**body, "count": 3}, key=a.key, headers=headers)
    assert (status, other["error"]["code"]) == (409, "conflict")


def test_a_spare_with_rules_is_made_for_creates_that_have_rules(own, tenant):
    a = tenant()
    rules = {"allow": ["allowed.test"]}
    made = a.client.reserve(1, limits=SIZE, network=rules)
    a.await_ready(made, 1)
    before, now = a.hits(), time.clock_gettime(time.CLOCK_BOOTTIME)
    box = a.client.create(limits=SIZE, network=rules)
    assert a.hits() == before + 1
    began = "import os; int(open('/proc/self/stat').read().rpartition(')')[2].split()[19]) / os.sysconf('SC_CLK_TCK')"
    assert float(box.run_code(began).text) < now
    assert "does not let it reach denied.test" in box.run(["curl", "-sS", "https://denied.test/"]).stdout


def test_a_project_has_so_many_and_no_more(own, tenant):
    a = tenant()
    for i in range(8):
        a.client.reserve(1, limits={"memory_mib": 32 + i})
    with pytest.raises(errors.LimitReached) as refused:
        a.client.reserve(1, limits=SIZE)
    assert "8 reservations" in str(refused.value)


def test_a_project_that_is_removed_takes_them_with_it(own, tenant):
    daemon, admin = own
    a = Tenant(daemon, admin, "leaves")
    a.await_ready(a.client.reserve(2, limits=SIZE), 2)
    admin.delete_project(a.project)
    only_learnt_ones(daemon, admin)
    a.client.close()


def test_the_command_line_reserves_lists_and_removes(own, tenant):
    a = tenant()

    def cloche(*words):
        env = {**os.environ, "CLOCHE_URL": own[0].url, "CLOCHE_API_KEY": a.key}
        return subprocess.run([CLOCHE, "pool", *words], env=env, capture_output=True, text=True, check=False)

    made = cloche("reserve", "--count", "2", "--memory", "48m", "--for", "5m")
    assert made.returncode == 0, made.stderr
    reservation = made.stdout.strip()
    a.await_ready({"id": reservation}, 2)
    assert reservation in cloche("ls").stdout
    assert json.loads(cloche("inspect", "--json", reservation).stdout)["ready"] == 2
    assert cloche("rm", reservation).stdout.strip() == reservation
    assert "--count" in cloche("reserve").stderr


def test_a_daemon_that_makes_none_ahead_says_so():
    with running(Daemon("--pool-reserve", "0")) as daemon:
        status, body = call(daemon, "POST", "/v1/pool", {"count": 1})
    assert (status, body["error"]["code"]) == (501, "unsupported")
    assert "pool.reserve" in body["error"]["hint"]
