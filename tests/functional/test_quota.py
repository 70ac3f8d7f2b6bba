# SPDX-License-Identifier: Apache-2.0
"""Quotas and budgets: exact under parallel calls and across restarts, and refusals that say what to do."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from cloche import Client
from cloche.errors import BudgetError, Forbidden, InvalidField, NotFound, QuotaError
from harness.daemon import Daemon, call, wait_for
from harness.running import running


@pytest.fixture(scope="module")
def own():
    """A daemon of this file's own: (daemon, client of an admin)."""
    with running(Daemon("--default-memory", "64MiB", "--usage-period", "100ms", "--price-cpu-hour", "3600", "--price-create", "0.01")) as daemon, Client(daemon.url, daemon.key) as client:
        yield daemon, client


@pytest.fixture
def tenant(own, request):
    """A fresh project with a quota of its own: a function that sets it, and its client."""
    daemon, admin = own
    project = admin.create_project(request.node.name[-60:])["id"]
    made = admin.create_key("tenant", scope="admin", project=project)
    with Client(daemon.url, made["secret"]) as client:
        client.project, client.key = project, made["key"]["id"]
        client.limit = lambda **limits: admin.set_quota(project=project, **limits)
        yield client
        for sandbox in client.list():
            sandbox.delete()


def try_create(client, **fields):
    try:
        return client.create(**fields)
    except QuotaError as e:
        return e


def test_of_many_parallel_creates_exactly_the_quota_succeed(tenant):
    tenant.limit(sandboxes=3)
    with ThreadPoolExecutor(16) as pool:
        results = list(pool.map(lambda _: try_create(tenant), range(24)))
    refused = [r for r in results if isinstance(r, QuotaError)]
    assert len(refused) == 21
    assert {(e.what, e.limit, e.current, e.retry_after, e.status) for e in refused} == {("sandboxes", 3, 3, None, 429)}
    assert tenant.quota()["current"]["sandboxes"] == 3


def test_what_ends_makes_room_once(tenant):
    tenant.limit(sandboxes=1)
    for _ in range(3):
        sandbox = tenant.create()
        assert isinstance(try_create(tenant), QuotaError)
        sandbox.delete()
        assert tenant.quota()["current"] == {**tenant.quota()["current"], "sandboxes": 0, "vcpus": 0, "memory_mib": 0, "disk_mib": 0}


def test_after_a_kill_the_living_hold_what_they_held(own, tenant):
    daemon, _ = own
    tenant.limit(sandboxes=2)
    kept = tenant.create()
    tenant.create().delete()
    before = tenant.quota()["current"]
    daemon.kill_parts("gateway")
    after = tenant.quota()
    assert {**after["current"], "budget": 0} == {**before, "budget": 0} and after["limits"]["sandboxes"] == 2
    tenant.create()
    assert isinstance(try_create(tenant), QuotaError)
    kept.delete()
    tenant.create()


@pytest.mark.parametrize("what, limit, asked", [("vcpus", 0.5, {"vcpus": 0.3}), ("memory_mib", 100, {"memory_mib": 64}), ("disk_mib", 150, {"disk_mib": 100})])
def test_sums_of_limits_are_bounded(tenant, what, limit, asked):
    tenant.limit(**{what: limit})
    sandbox = tenant.create(limits=asked)
    error = try_create(tenant, limits=asked)
    assert (error.what, error.limit, error.current) == (what, limit, asked[what])
    with pytest.raises(QuotaError):
        sandbox.update(limits={what: limit * 2})
    sandbox.update(limits={what: limit})
    assert tenant.quota()["current"][what] == limit
    sandbox.update(limits=asked)
    assert tenant.quota()["current"][what] == asked[what]


def test_a_create_storm_is_slowed_down_and_told_when_to_come_back(own, tenant):
    """R16"""
    tenant.limit(creates_per_minute=2)
    tenant.create()
    tenant.create().delete()
    daemon, _ = own
    error = try_create(tenant)
    assert (error.what, error.limit) == ("creates_per_minute", 2)
    assert 0 < error.retry_after <= 30
    with pytest.raises(QuotaError):
        tenant.run("true")
    tenant.limit(creates_per_minute=1000000)
    wait_for(lambda: not isinstance(try_create(tenant), QuotaError))


def test_a_keys_quota_holds_beside_its_projects(own, tenant):
    daemon, _ = own
    tenant.limit(sandboxes=2)
    made = tenant.create_key("small", scope="write")
    tenant.set_quota(key=made["key"]["id"], sandboxes=1)
    with Client(daemon.url, made["secret"]) as small:
        small.create()
        assert try_create(small).limit == 1
        tenant.create()
        assert (try_create(tenant).limit, try_create(small).limit) == (2, 2)
    assert tenant.quota(key=made["key"]["id"])["current"]["sandboxes"] == 1


def test_a_project_cannot_raise_its_own_quota(own, tenant):
    tenant.limit(sandboxes=1)
    for set_it in (lambda: tenant.set_quota(project=tenant.project, sandboxes=9), lambda: tenant.set_quota(project="default")):
        with pytest.raises(Forbidden):
            set_it()
    assert tenant.quota(project=tenant.project)["limits"]["sandboxes"] == 1
    for name in ("default", "no-such"):
        with pytest.raises(Forbidden):
            tenant.quota(project=name)
    _, admin = own
    theirs = admin.keys()[0]["id"]
    with pytest.raises(NotFound):
        tenant.quota(key=theirs)
    with pytest.raises(NotFound):
        tenant.set_quota(key=theirs, sandboxes=0)


def test_a_stopped_one_holds_its_disk_alone_and_its_resume_is_admitted(own, tenant):
    daemon, _ = own
    tenant.limit(sandboxes=1)
    box = tenant.create(persistent=True, limits={"disk_mib": 100})
    box.stop()
    at_rest = {"sandboxes": 0, "vcpus": 0, "memory_mib": 0, "disk_mib": 100}
    assert tenant.quota()["current"] == {**tenant.quota()["current"], **at_rest}
    daemon.kill_parts("gateway")
    assert tenant.quota()["current"] == {**tenant.quota()["current"], **at_rest}
    other = tenant.create()
    with pytest.raises(QuotaError) as e:
        box.resume()
    assert (e.value.what, e.value.limit, e.value.current) == ("sandboxes", 1, 1)
    other.delete()
    box.resume()
    assert tenant.quota()["current"]["sandboxes"] == 1
    box.delete()
    assert tenant.quota()["current"] == {**tenant.quota()["current"], **at_rest, "disk_mib": 0}


def test_a_change_of_a_quota_is_in_the_event_log(tenant):
    tenant.limit(sandboxes=7)
    (event,) = [e for e in tenant.events(type="quota.changed") if e["data"]["quota"]["limits"]["sandboxes"] == 7]
    assert event["data"]["quota"]["project_id"] == tenant.project


def test_a_spent_budget_refuses_creates_with_402(own, tenant):
    daemon, _ = own
    tenant.limit(budget="0.025")
    fields = {"limits": {"vcpus": 0.01}}  # at most 0.01 of a CPU second a second, at a price of 1
    tenant.create(**fields).delete()
    error = try_create(tenant, **fields)
    assert isinstance(error, BudgetError) and error.status == 402
    assert (error.what, error.limit) == ("budget", "0.025") and error.current.startswith("0.01")
    assert 0 < error.retry_after <= 31 * 86400
    tenant.limit(budget="100")
    tenant.create(**fields)


def test_a_budget_ends_sandboxes_before_it_is_passed(tenant):
    tenant.limit(budget="2.5")
    sandbox = tenant.create(limits={"vcpus": 1})
    sandbox.start(["python3", "-c", "while True: pass"])
    info = wait_for(lambda: sandbox.refresh() if sandbox.refresh().ended else None, 20, "the end")
    assert info.ended["cause"] == "policy" and "budget" in info.ended["message"]
    assert (info.ended["detail"]["what"], info.ended["detail"]["limit"]) == ("budget", "2.50")
    spent = float(wait_for(lambda: tenant.usage())[0]["cost"])
    assert 0.5 < spent <= 2.5
    assert isinstance(try_create(tenant), BudgetError)


@pytest.mark.parametrize(
    "field, body",
    [("sandboxes", {"sandboxes": -1}), ("sandboxes", {"sandboxes": "many"}), ("vcpus", {"vcpus": "1"}), ("memory_mib", {"memory_mib": 1.5}),
     ("budget", {"budget": 5}), ("budget", {"budget": "1e3"}), ("budget", {"budget": "0.0000000001"}), ("nonsense", {"nonsense": 1})],
)
def test_a_bad_limit_is_named(own, field, body):
    daemon, _ = own
    status, reply = call(daemon, "PUT", "/v1/projects/default/quota", body)
    assert (status, reply["error"]["field"]) == (400, field)


def test_a_sandbox_stays_below_the_ceilings_of_its_project(tenant):
    tenant.limit(max_limits={"vcpus": 0.5, "memory_mib": 48, "pids": 40}, max_timeout_ms=60000)
    told = tenant.quota()
    assert told["max_limits"] == {"vcpus": 0.5, "memory_mib": 48, "disk_mib": None, "inodes": None, "pids": 40, "open_files": None, "output_mib": None, "execs": None}
    assert told["max_timeout_ms"] == 60000
    for fields, field, asked, ceiling in (
        ({"limits": {"memory_mib": 64}}, "limits.memory_mib", "64", "48"),
        ({"limits": {"vcpus": 0.75}}, "limits.vcpus", "0.75", "0.5"),
        ({"limits": {"pids": 41}}, "limits.pids", "41", "40"),
        ({"timeout": 61}, "timeout_ms", "61000", "60000"),
    ):
        with pytest.raises(InvalidField, match=f"{field}: {asked} is asked for, .* up to {ceiling}"):
            tenant.create(**fields)
    sandbox = tenant.create()  # a default that is higher comes down
    assert [sandbox.info.limits[x] for x in ("vcpus", "memory_mib", "pids")] == [0.5, 48, 40]
    with pytest.raises(InvalidField, match="64 is asked for"):
        sandbox.update(limits={"memory_mib": 64})
    with pytest.raises(InvalidField, match="60000"):
        sandbox.extend(60)
    assert sandbox.update(limits={"memory_mib": 40}).limits["memory_mib"] == 40


def test_a_ceiling_that_came_down_holds_at_the_next_resume(own, tenant):
    daemon, _ = own
    sandbox = tenant.create(name="big", persistent=True, limits={"memory_mib": 96})
    sandbox.stop()
    tenant.limit(max_limits={"memory_mib": 64})
    daemon.kill_parts("gateway")  # it is kept
    with pytest.raises(InvalidField, match="limits.memory_mib: 96 is asked for"):
        sandbox.resume()
    sandbox.update(limits={"memory_mib": 64})
    assert sandbox.resume().state == "running"


def test_ceilings_of_a_key_hold_beside_those_of_its_project(tenant):
    tenant.limit(max_limits={"memory_mib": 64})
    tenant.set_quota(key=tenant.key, max_limits={"memory_mib": 32})
    with pytest.raises(InvalidField, match="of this key may have up to 32"):
        tenant.create(limits={"memory_mib": 48})
    for bad in ({"memory_mib": 0}, {"memory_mib": "much"}, {"vcpus": -1}, {"nonsense": 1}):
        with pytest.raises(InvalidField, match="max_limits"):
            tenant.set_quota(key=tenant.key, max_limits=bad)


def test_a_ceiling_holds_for_output_and_execs_that_are_kept(tenant):
    tenant.limit(max_limits={"output_mib": 2, "execs": 3})
    for name, value in (("output_mib", 3), ("execs", 4)):
        with pytest.raises(InvalidField, match=f"limits.{name}"):
            tenant.create(limits={name: value})
    with tenant.create() as box:
        assert {name: box.info.limits[name] for name in ("output_mib", "execs")} == {"output_mib": 2, "execs": 3}
        for _ in range(5):
            box.run("true")
        assert len(box.execs()) == 3
        with pytest.raises(InvalidField, match="limits.execs"):
            box.update(limits={"execs": 4})
