# SPDX-License-Identifier: Apache-2.0
"""Batches: many sandboxes of one spec, told of as they become ready, and whole after a break."""

import http.client
import json
import uuid
from concurrent.futures import ThreadPoolExecutor

import pytest
from cloche import Client, errors
from harness.cli import Cli
from harness.daemon import Daemon, call, wait_for
from harness.running import running

LONG_MS = 60_000  # what waits is served long before, or the test fails


@pytest.fixture(scope="module")
def own():
    """A daemon that is full with four sandboxes: (daemon, client of an admin)."""
    with running(Daemon("--default-memory", "64MiB", "--sandboxes-max", "4")) as daemon, Client(daemon.url, daemon.key) as client:
        yield daemon, client


@pytest.fixture
def client(own):
    _, client = own
    yield client
    for sandbox in client.list():
        sandbox.delete()


class Batch:
    """A request for one, whose lines are read one by one."""

    def __init__(self, daemon, key=None, **body):
        headers = {"Authorization": f"Bearer {daemon.key}", "Content-Type": "application/json", **({"Idempotency-Key": key} if key else {})}
        self.conn = http.client.HTTPConnection("127.0.0.1", daemon.port, timeout=120)
        self.conn.request("POST", "/v1/sandboxes:batch", json.dumps(body), headers)
        self.reply = self.conn.getresponse()
        self.passed = []  # lines of other types that came meanwhile

    def next(self, type):
        """The next line of this type; others are kept for later."""
        for value in self.passed:
            if value["type"] == type:
                self.passed.remove(value)
                return value
        while True:
            line = self.reply.readline()
            assert line, "the list has ended"
            value = json.loads(line) if line.strip() else {}
            if value.get("type") == type:
                return value
            if value:
                self.passed.append(value)

    def rest(self):
        lines = self.passed + [json.loads(line) for line in self.reply.read().splitlines() if line.strip()]
        self.conn.close()
        return lines

    def rest_or_cut(self):
        """Another call with the key may cut this one off."""
        try:
            return self.rest()
        except (http.client.HTTPException, OSError):
            self.conn.close()
            return []

    def leave(self):
        self.reply.close()
        self.conn.close()


def ids_of(lines):
    return {line["index"]: line["sandbox"]["id"] for line in lines if line["type"] == "sandbox"}


def test_the_members_are_told_of_as_they_run_and_found_by_their_tag(own, client):
    batch = Batch(own[0], count=3, tags={"run": "a"})
    first = batch.next("batch")
    assert (first["count"], batch.reply.getheader("Cloche-Batch-Id")) == (3, first["batch_id"])
    lines = batch.rest()
    assert lines[-1] == {"type": "ended", "batch_id": first["batch_id"], "count": 3, "made": 3, "failed": 0}
    assert {line["sandbox"]["state"] for line in lines[:-1]} == {"running"}
    listed = list(client.list(tag=f"batch:{first['batch_id']}"))
    assert {s.info.tags["batch_index"]: s.id for s in listed} == {str(i): id for i, id in ids_of(lines).items()}
    assert {s.info.tags["run"] for s in listed} == {"a"}
    told = [e["type"] for e in client.events(text=first["batch_id"])]
    assert told.count("sandbox.created") == told.count("sandbox.running") == 3


def test_more_than_there_is_room_for_come_as_others_end(client):
    seen = []
    for sandbox in client.create_many(10, wait=60):
        seen.append(int(sandbox.info.tags["batch_index"]))
        assert sandbox.run("echo $((6 * 7))").stdout == "42\n"
        sandbox.delete()
    assert sorted(seen) == list(range(10))


def test_a_batch_that_waits_tells_its_position(own, client):
    batch = Batch(own[0], count=5, wait_ms=LONG_MS)
    made = [batch.next("sandbox") for _ in range(4)]
    queued = batch.next("queued")
    assert (queued["index"], queued["position"], queued["waiting"], queued["why"]) == (4, 1, 1, "no_capacity")
    client.get(made[0]["sandbox"]["id"]).delete()
    lines = batch.rest()
    assert [line["type"] for line in lines] == ["batch", "sandbox", "ended"] and lines[1]["index"] == 4


def test_members_without_room_have_errors_of_their_own_and_the_others_run(client):
    made = []
    with pytest.raises(errors.BatchError) as caught:
        for sandbox in client.create_many(6):
            made.append(sandbox)
    assert len(made) == 4 and sorted(caught.value.failed) == [4, 5]
    assert {type(e) for e in caught.value.failed.values()} == {errors.NoCapacity}
    assert {s.id for s in client.list()} == {s.id for s in made}


@pytest.mark.parametrize(
    "fields, field",
    [({"count": 0}, "count"), ({"count": 1001}, "count"), ({}, "count"), ({"count": 2, "name": "a"}, "name"), ({"count": 2, "persistent": True}, "persistent"),
     ({"count": 2, "tags": {"batch": "bt_mine"}}, "tags"), ({"count": 2, "template": "nope"}, "template"), ({"count": 2, "ports": [80]}, "ports")],
)
def test_what_is_wrong_with_all_is_the_error_of_the_call(own, client, fields, field):
    status, reply = call(own[0], "POST", "/v1/sandboxes:batch", fields)
    assert (status, reply["error"]["code"], reply["error"]["field"]) == (400, "invalid_field", field)
    assert list(client.list()) == []


def test_a_batch_is_deleted_as_a_whole_with_what_it_waits_for(own, client):
    other = client.create()
    batch = Batch(own[0], count=9, wait_ms=LONG_MS)
    id = batch.next("batch")["batch_id"]
    batch.next("queued")
    assert client.delete_batch(id) == {"batch_id": id, "deleted": 3}
    with pytest.raises((http.client.HTTPException, OSError, AssertionError)):
        batch.next("ended")
    assert [s.id for s in client.list()] == [other.id]
    with pytest.raises(errors.NotFound):
        client.delete_batch(id)


def test_no_member_is_begun_for_a_client_that_is_gone(own, client):
    batch = Batch(own[0], count=9, wait_ms=LONG_MS)
    id = batch.next("batch")["batch_id"]
    batch.next("queued")
    batch.leave()
    wait_for(lambda: waiting(own[0]) == 0, what="nobody waits")
    for sandbox in client.list(tag=f"batch:{id}"):
        sandbox.delete()
    assert list(client.list()) == []


def waiting(daemon):
    status, text = call(daemon, "GET", "/metrics")
    assert status == 200
    return next(int(line.split()[1]) for line in text.decode().splitlines() if line.startswith("cloche_creates_waiting "))


def test_A13_the_same_key_gives_the_same_members_and_makes_the_missing_ones(own, client):
    key = uuid.uuid4().hex
    batch = Batch(own[0], key, count=6, wait_ms=LONG_MS)
    id = batch.next("batch")["batch_id"]
    before = ids_of([batch.next("sandbox") for _ in range(4)])
    batch.leave()
    again = Batch(own[0], key, count=6, wait_ms=LONG_MS)
    assert again.next("batch")["batch_id"] == id
    lines = [again.next("sandbox") for _ in range(4)]
    assert ids_of(lines) == before
    for sandbox in client.list():
        sandbox.delete()
    after = ids_of(again.rest())
    assert sorted(after) == [4, 5] and not set(after.values()) & set(before.values())
    last = Batch(own[0], key, count=6, wait_ms=LONG_MS).rest()
    assert ids_of(last) == after
    assert {line["index"]: line["error"]["code"] for line in last if line["type"] == "failed"} == {i: "gone" for i in range(4)}
    status, reply = call(own[0], "POST", "/v1/sandboxes:batch", {"count": 7}, headers={"Idempotency-Key": key})
    assert (status, reply["error"]["code"]) == (409, "conflict")


def test_A13_two_calls_with_one_key_make_the_members_once(own, client):
    key = uuid.uuid4().hex
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: Batch(own[0], key, count=4, wait_ms=LONG_MS).rest_or_cut(), range(4)))
    whole = Batch(own[0], key, count=4, wait_ms=LONG_MS).rest()
    assert {s.id for s in client.list()} == set(ids_of(whole).values()) and len(ids_of(whole)) == 4


@pytest.mark.parametrize("parts", [("gateway",), ("gateway", "broker")])
def test_a_batch_goes_on_after_a_kill_without_a_member_too_many(own, client, parts):
    daemon, _ = own
    seen = {}
    for sandbox in client.create_many(6, wait=60):
        index = int(sandbox.info.tags["batch_index"])
        assert index not in seen
        seen[index] = sandbox.id
        if len(seen) == 3:
            daemon.kill_parts(*parts)
        sandbox.delete()
    assert sorted(seen) == list(range(6)) and list(client.list()) == []


def test_the_command_line_prints_each_id_and_tells_what_failed(own, client):
    cli = Cli(own[0])
    status, out, _ = cli.bytes("create", "--count", "2", "--tag", "a=b")
    assert (status, sorted(out.decode().split())) == (0, sorted(s.id for s in client.list(tag="a:b")))
    status, out, err = cli.bytes("create", "--count", "3")
    assert status != 0 and len(out.split()) == 2 and b"1 of 3 sandboxes of batch bt_" in err
