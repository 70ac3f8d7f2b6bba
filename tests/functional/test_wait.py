# SPDX-License-Identifier: Apache-2.0
"""Creates that wait for room: in turns, told of their place, and without a trace when their client leaves."""

import http.client
import json
import threading
import uuid
from concurrent.futures import ThreadPoolExecutor

import pytest
from cloche import Client, errors
from harness.cli import Cli, Terminal
from harness.daemon import Daemon, LEAST_S, PATIENCE, call, wait_for
from harness.running import running

LONG_S = 60  # what waits is served long before, or the test fails
LONG_MS = LONG_S * 1000


@pytest.fixture(scope="module")
def own():
    """A daemon that is full with four sandboxes: (daemon, client of an admin)."""
    with running(Daemon("--default-memory", "64MiB", "--sandboxes-max", "4", "--pool-max", "0")) as daemon, Client(daemon.url, daemon.key) as client:
        yield daemon, client


class Tenant:
    def __init__(self, daemon, admin, name):
        self.daemon, self.project = daemon, admin.create_project(name)["id"]
        self.key = admin.create_key(name, scope="admin", project=self.project)["secret"]
        self.client = Client(daemon.url, self.key)
        self.limit = lambda **limits: admin.set_quota(project=self.project, **limits)

    def create(self, **body):
        return call(self.daemon, "POST", "/v1/sandboxes", body, key=self.key, timeout=LONG_S)

    def queued(self):
        return [e["data"] for e in self.client.events(type="create.queued")]

    def await_queued(self, count):
        wait_for(lambda: len(self.queued()) >= count, what=f"{count} creates that wait")

    def end(self):
        for sandbox in self.client.list():
            sandbox.delete()
        self.client.close()


@pytest.fixture
def tenant_of(own, request):
    made = []

    def make(name="a"):
        made.append(Tenant(*own, f"{request.node.name[-40:].replace('[', '-').replace(']', '')}-{name}"))
        return made[-1]

    yield make
    [t.end() for t in made]


def test_a_create_waits_until_its_project_has_room(tenant_of):
    tenant = tenant_of()
    tenant.limit(sandboxes=1)
    first = tenant.client.create()
    with ThreadPoolExecutor(1) as pool:
        second = pool.submit(lambda: tenant.client.create(wait=LONG_S))
        tenant.await_queued(1)
        assert tenant.queued()[0] == {"position": 1, "waiting": 1, "why": "quota_exceeded", "wait_ms": LONG_MS}
        assert not second.done()
        first.delete()
        assert second.result().info.state == "running"


def test_a_wait_that_is_over_tells_why_and_where_it_stood(tenant_of):
    tenant = tenant_of()
    tenant.limit(sandboxes=1)
    tenant.client.create()
    with pytest.raises(errors.QuotaError) as caught:
        tenant.client.create(wait=0.05)
    assert (caught.value.what, caught.value.queue_position, caught.value.queue_waiting) == ("sandboxes", 1, 1)
    assert len(list(tenant.client.list())) == 1


def test_without_a_wait_a_full_host_refuses_as_ever(tenant_of):
    tenant = tenant_of()
    for _ in range(4):
        tenant.client.create()
    with pytest.raises(errors.NoCapacity) as caught:
        tenant.client.create()
    assert caught.value.queue_position is None and tenant.queued() == []


def test_a_run_waits_too(tenant_of):
    tenant = tenant_of()
    tenant.limit(sandboxes=1)
    first = tenant.client.create()
    with ThreadPoolExecutor(1) as pool:
        result = pool.submit(lambda: tenant.client.run("echo waited", wait=LONG_S))
        tenant.await_queued(1)
        first.delete()
        assert result.result().stdout == "waited\n"


@pytest.mark.parametrize(
    "body, code",
    [
        ({"limits": {"memory_mib": 4096}}, "quota_exceeded"),
        ({"limits": {"memory_mib": -1}}, "invalid_field"),
        ({"template": "nope"}, "invalid_field"),
        ({"wait_ms": 3_600_001}, "invalid_field"),
    ],
)
def test_what_waiting_cannot_help_is_refused_at_once_also_behind_others(tenant_of, body, code):
    tenant = tenant_of()
    tenant.limit(sandboxes=1, memory_mib=1024)
    first = tenant.client.create()
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(lambda: tenant.client.create(wait=LONG_S))
        tenant.await_queued(1)
        status, reply = tenant.create(**{"wait_ms": LONG_MS, **body})
        assert (reply["error"]["code"], "queue" in reply["error"]) == (code, False), status
        assert len(tenant.queued()) == 1
        first.delete()
        waiting.result()


def test_a_raised_quota_lets_those_who_wait_in(tenant_of):
    tenant = tenant_of()
    tenant.limit(sandboxes=1)
    tenant.client.create()
    with ThreadPoolExecutor(1) as pool:
        second = pool.submit(lambda: tenant.client.create(wait=LONG_S))
        tenant.await_queued(1)
        tenant.limit(sandboxes=2)
        assert second.result().info.state == "running"


def test_R16_of_a_full_host_a_greedy_project_does_not_keep_another_out(tenant_of):
    greedy, other = tenant_of("greedy"), tenant_of("other")
    held = [greedy.client.create() for _ in range(4)]
    order, lock = [], threading.Lock()

    def wait(tenant, name):
        sandbox = tenant.client.create(wait=LONG_S)
        with lock:
            order.append(name)
        sandbox.delete()

    with ThreadPoolExecutor(24) as pool:
        waits = [pool.submit(wait, greedy, "greedy") for _ in range(20)]
        greedy.await_queued(20)
        waits.append(pool.submit(wait, other, "other"))
        other.await_queued(1)
        assert other.queued()[0]["position"] == 1 and other.queued()[0]["waiting"] == 1  # and no word of the other project's
        held[0].delete()
        [w.result() for w in waits]
    assert order.index("other") <= 4 and len(order) == 21


def test_R16_a_create_that_does_not_wait_takes_nothing_from_those_who_do(tenant_of):
    patient, hasty = tenant_of("patient"), tenant_of("hasty")
    held = [hasty.client.create() for _ in range(4)]
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(lambda: patient.client.create(wait=LONG_S))
        patient.await_queued(1)
        stop, took = threading.Event(), []

        def hammer():
            while not stop.is_set():
                if hasty.create()[0] == 201:
                    took.append(1)
                    return

        threads = [threading.Thread(target=hammer) for _ in range(4)]
        [t.start() for t in threads]
        held[0].delete()
        made = waiting.result(timeout=LEAST_S * PATIENCE)
        stop.set()
        [t.join() for t in threads]
    assert made.info.state == "running" and took == []


def begin_wait(tenant, headers=None):
    """A create that waits, on a connection of its own."""
    conn = http.client.HTTPConnection("127.0.0.1", tenant.daemon.port, timeout=LONG_S)
    conn.request("POST", "/v1/sandboxes", json.dumps({"wait_ms": LONG_MS}), {"Authorization": f"Bearer {tenant.key}", "Content-Type": "application/json", **(headers or {})})
    return conn


def test_a_client_that_leaves_waits_no_longer(tenant_of):
    tenant = tenant_of()
    tenant.limit(sandboxes=1)
    first = tenant.client.create()
    gone = begin_wait(tenant)
    tenant.await_queued(1)
    with ThreadPoolExecutor(1) as pool:
        second = pool.submit(lambda: tenant.client.create(wait=LONG_S))
        tenant.await_queued(2)
        assert tenant.queued()[1]["position"] == 2
        gone.sock.close()
        gone.close()
        first.delete()
        made = second.result()
    assert [s.id for s in tenant.client.list()] == [made.id]


def test_A13_creates_with_one_key_that_wait_make_one_sandbox(tenant_of):
    tenant = tenant_of()
    tenant.limit(sandboxes=1)
    first = tenant.client.create()
    headers = {"Idempotency-Key": uuid.uuid4().hex}
    waits = [begin_wait(tenant, headers) for _ in range(3)]
    tenant.await_queued(3)
    first.delete()
    replies = [json.load(w.getresponse()) for w in waits]
    assert len({r["id"] for r in replies}) == 1 and {r["state"] for r in replies} == {"running"}
    [w.close() for w in waits]


@pytest.mark.parametrize("parts", [("gateway",), ("gateway", "broker")])
def test_after_a_kill_nothing_of_a_wait_is_left_and_its_key_makes_one(own, tenant_of, parts):
    daemon, _ = own
    tenant = tenant_of()
    tenant.limit(sandboxes=1)
    first = tenant.client.create()
    headers = {"Idempotency-Key": uuid.uuid4().hex}
    waiting = begin_wait(tenant, headers)
    tenant.await_queued(1)
    daemon.kill_parts(*parts)
    with pytest.raises((http.client.HTTPException, OSError)):
        waiting.getresponse()
    waiting.close()
    assert [s.id for s in tenant.client.list()] == [first.id]
    again = begin_wait(tenant, headers)
    tenant.await_queued(2)
    first.delete()
    made = json.load(again.getresponse())
    again.close()
    assert [s.id for s in tenant.client.list()] == [made["id"]]


def line_of(tenant, query=""):
    status, reply = call(tenant.daemon, "GET", f"/v1/creates{query}", key=tenant.key)
    assert status == 200, reply
    return reply


def test_where_a_create_stands_is_told_to_its_project_alone(tenant_of):
    tenant, other = tenant_of(), tenant_of("other")
    tenant.limit(sandboxes=1)
    first = tenant.client.create()
    mine = [begin_wait(tenant, {"X-Request-Id": name}) for name in ("one", "two", "x" * 65)]  # the last is none: it gets a fresh one
    tenant.await_queued(3)
    reply = line_of(tenant)
    assert reply["waiting"] == 3 and [c["position"] for c in reply["creates"]] == [1, 2, 3]
    assert [c["request_id"] for c in reply["creates"]][:2] == ["one", "two"] and reply["creates"][2]["request_id"].startswith("req_")
    assert {(c["why"], c["batch_id"]) for c in reply["creates"]} == {("quota_exceeded", None)}
    assert all(0 < c["left_ms"] <= LONG_MS and c["waited_ms"] < LONG_MS and "sandboxes" in c["message"] for c in reply["creates"])
    assert [c["position"] for c in line_of(tenant, "?request=two")["creates"]] == [2] and line_of(tenant, "?request=nobody")["creates"] == []
    assert len(line_of(tenant, "?limit=1")["creates"]) == 1 and line_of(tenant, "?limit=1")["waiting"] == 3
    assert line_of(other) == {"waiting": 0, "creates": []}
    assert call(tenant.daemon, "GET", "/v1/creates?limit=0", key=tenant.key)[0] == 400
    assert tenant.client.waiting_creates()[0]["request_id"] == "one"
    first.delete()
    [w.getresponse().read() for w in mine[:1]]
    wait_for(lambda: [c["request_id"] for c in line_of(tenant)["creates"]][:1] == ["two"], what="the next one to be first")
    [w.close() for w in mine]


def test_who_waits_at_a_terminal_is_told_its_place(tenant_of):
    tenant = tenant_of()
    tenant.limit(sandboxes=1)
    first = tenant.client.create()
    cli = Cli(tenant.daemon)
    cli.env["CLOCHE_API_KEY"] = tenant.key
    terminal = Terminal(cli, "create", "--wait", "5m")
    terminal.expect("creating the sandbox, ")
    terminal.expect("number 1 of 1 that wait for room")
    assert "quota_exceeded" in cli.ok("pool", "waiting")
    first.delete()
    terminal.expect("sb_")
    assert terminal.finish() == 0


WIRES = {
    "e2b": ("/v2/sandboxes", {"templateID": "base"}, 201, 429),
    "e2b-v1": ("/sandboxes", {"templateID": "base"}, 201, 429),
    "vercel": ("/vercel/api/v2/sandboxes", {"persistent": False}, 200, 429),
}


@pytest.mark.parametrize("wire", WIRES)
def test_creates_of_other_wires_wait_too(tenant_of, wire):
    path, body, made, _ = WIRES[wire]
    tenant = tenant_of()
    tenant.limit(sandboxes=1)
    first = tenant.client.create()
    with ThreadPoolExecutor(1) as pool:
        second = pool.submit(lambda: call(tenant.daemon, "POST", path, body, headers={"Cloche-Wait-Ms": str(LONG_MS)}, key=tenant.key))
        tenant.await_queued(1)
        assert tenant.queued()[0]["wait_ms"] == LONG_MS and not second.done()
        first.delete()
        status, reply = second.result()
    assert status == made, reply
    assert len(list(tenant.client.list())) == 1


@pytest.mark.parametrize("wire", WIRES)
def test_creates_of_other_wires_are_refused_when_their_wait_is_over(tenant_of, wire):
    path, body, _, refused = WIRES[wire]
    tenant = tenant_of()
    tenant.limit(sandboxes=1)
    tenant.client.create()
    for wait, status in (("0", refused), ("50", refused), ("soon", 400), ("-1", 400), ("3600001", 400)):
        told, reply = call(tenant.daemon, "POST", path, body, headers={"Cloche-Wait-Ms": wait}, key=tenant.key)
        assert told == status, (wait, reply)
    assert [q["wait_ms"] for q in tenant.queued()] == [50]
    assert len(list(tenant.client.list())) == 1


def test_without_a_header_the_setting_says_how_long_other_wires_wait():
    with running(Daemon("--default-memory", "64MiB", "--sandboxes-max", "1", "--pool-max", "0", "--compat-wait", "70ms")) as daemon, Client(daemon.url, daemon.key) as client:
        client.create()
        for path, body, _, _ in WIRES.values():
            status, reply = call(daemon, "POST", path, body)
            assert status in (429, 503), reply
        assert [e["data"]["wait_ms"] for e in client.events(type="create.queued")] == [70] * 3


def test_a_daemon_that_stops_refuses_those_who_wait():
    with running(Daemon("--default-memory", "64MiB", "--sandboxes-max", "1", "--pool-max", "0")) as daemon, Client(daemon.url, daemon.key) as client:
        client.create()
        with ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(lambda: call(daemon, "POST", "/v1/sandboxes", {"wait_ms": LONG_MS}, timeout=LONG_S))
            wait_for(lambda: list(client.events(type="create.queued")), what="a create that waits")
            daemon.stop()
            status, reply = waiting.result()
            assert (status, reply["error"]["code"]) == (503, "unavailable")
