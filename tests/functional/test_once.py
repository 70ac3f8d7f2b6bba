# SPDX-License-Identifier: Apache-2.0
"""Idempotency keys: one effect, whoever asks how often, at the same time or after a restart."""

import http.client
import itertools
import os
import signal
import threading
import uuid

import pytest
from cloche import errors
from harness.daemon import Daemon, call, wait_for


def key_of():
    return {"Idempotency-Key": uuid.uuid4().hex}


def create(daemon, headers, **body):
    return call(daemon, "POST", "/v1/sandboxes", body, headers=headers)


def test_A13_many_calls_with_one_key_make_one_sandbox(daemon, client):
    headers, replies = key_of(), []
    threads = [threading.Thread(target=lambda: replies.append(create(daemon, headers, tags={"a": "b"}))) for _ in range(20)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    status, first = create(daemon, headers, tags={"a": "b"})
    try:
        assert {s for s, _ in replies} == {201} and status == 201
        assert {b["id"] for _, b in replies} == {first["id"]}
        assert first["created"] is True and first["state"] == "running"
    finally:
        client.get(first["id"]).delete()


def test_A13_one_key_with_another_request_is_refused(daemon, client, sandbox):
    headers = key_of()
    _, made = create(daemon, headers, tags={"a": "b"})
    try:
        for status, body in (
            create(daemon, headers, tags={"a": "c"}),
            call(daemon, "POST", f"/v1/sandboxes/{sandbox.id}/execs", {"shell": "true"}, headers=headers),
        ):
            assert (status, body["error"]["code"], body["error"]["field"]) == (409, "conflict", "Idempotency-Key")
        other = key_of()
        assert create(daemon, headers, tags={"a": "b"})[1]["id"] == made["id"]
        assert client.create(idempotency_key=other["Idempotency-Key"]).delete().state == "stopped"
    finally:
        client.get(made["id"]).delete()


def test_A13_keys_of_projects_do_not_meet(daemon, project_keys, client):
    headers = key_of()
    one = create(daemon, headers)[1]
    two = call(daemon, "POST", "/v1/sandboxes", {}, headers=headers, key=project_keys["other"])[1]
    try:
        assert one["id"] != two["id"]
    finally:
        client.get(one["id"]).delete()
        call(daemon, "DELETE", f"/v1/sandboxes/{two['id']}", key=project_keys["other"])


def test_A13_an_exec_runs_once_and_its_result_is_told_again(daemon, sandbox):
    headers = key_of()
    body = {"shell": "echo run >> /tmp/runs; cat; wc -l < /tmp/runs", "stdin": "in\n"}
    path = f"/v1/sandboxes/{sandbox.id}/execs"
    first = call(daemon, "POST", path, body, headers=headers)
    again = call(daemon, "POST", path, body, headers=headers)
    assert first == again
    assert first[1]["stdout"] == "in\n1\n"
    headers = key_of()
    body = {"shell": "echo run >> /tmp/detached; sleep 1000", "detached": True}
    ids = {call(daemon, "POST", path, body, headers=headers)[1]["exec"]["id"] for _ in range(5)}
    assert len(ids) == 1
    wait_for(lambda: sandbox.files.exists("/tmp/detached"), what="the run")
    assert sandbox.run("cat /tmp/detached").stdout == "run\n"


def test_A13_a_key_survives_a_kill_of_the_gateway():
    daemon = Daemon("--plain-storage", "--pool-max", "0").start()
    try:
        headers = key_of()
        _, made = create(daemon, headers, tags={"a": "b"})
        pid = daemon.gateway_pid
        os.kill(pid, signal.SIGKILL)
        wait_for(lambda: daemon._part("gateway") not in (None, pid), 30, "a new gateway")
        assert create(daemon, headers, tags={"a": "b"})[1]["id"] == made["id"]
    finally:
        status = daemon.stop()
        daemon.remove()
    assert status == 0


def test_a_create_that_failed_leaves_its_key_free(daemon, client):
    headers = key_of()
    assert create(daemon, headers, limits={"memory_mib": 1})[0] == 400
    status, made = create(daemon, headers, limits={"memory_mib": 64})
    assert status == 201
    client.get(made["id"]).delete()


@pytest.mark.parametrize("forgotten", [False, True])
def test_a_key_whose_sandbox_has_ended_says_so_once_and_is_free(daemon, client, forgotten):
    headers = key_of()
    _, made = create(daemon, headers)
    for _ in range(1 + forgotten):
        client.get(made["id"]).delete()
    status, told = create(daemon, headers)
    assert (status, told["error"]["code"], told["error"]["field"]) == (410, "gone", "Idempotency-Key")
    assert made["id"] in told["error"]["message"]
    status, again = create(daemon, headers)
    try:
        assert (status, again["state"], again["created"]) == (201, "running", True)
        assert again["id"] != made["id"]
        assert create(daemon, headers)[1]["id"] == again["id"]
    finally:
        client.get(again["id"]).delete()


def test_a_key_starts_what_it_made_and_was_put_to_rest(daemon, client):
    headers = key_of()
    body = {"name": f"once-{uuid.uuid4().hex[:8]}", "persistent": True}
    _, made = create(daemon, headers, **body)
    sandbox = client.get(made["id"])
    try:
        for rest in (sandbox.stop, sandbox.pause):
            rest()
            status, again = create(daemon, headers, **body)
            assert (status, again["id"], again["state"]) == (201, made["id"], "running")
            assert (again["created"], again["resumed"]) == (True, True)
            assert sandbox.run("echo here").stdout == "here\n"
    finally:
        sandbox.delete()


def test_a_key_whose_sandbox_is_ending_waits_for_that():
    """The name is its own: no retry is told that it is taken, nor gets what is on its way out."""
    daemon = Daemon("--plain-storage", "--pool-max", "0").start()
    try:
        body = {"name": "mine", "tags": {"a": "b"}}
        for _ in range(20):
            headers, replies = key_of(), []
            _, made = create(daemon, headers, **body)
            ending = threading.Thread(target=call, args=(daemon, "DELETE", f"/v1/sandboxes/{made['id']}"))
            retries = [threading.Thread(target=lambda: replies.append(create(daemon, headers, **body))) for _ in range(4)]
            [t.start() for t in (ending, *retries)]
            [t.join() for t in (ending, *retries)]
            assert len(replies) == 4
            for status, reply in replies:
                assert status in (201, 410), reply
                assert status == 410 or reply["state"] == "running", reply
            for sandbox in call(daemon, "GET", "/v1/sandboxes?state=running")[1]["sandboxes"]:
                call(daemon, "DELETE", f"/v1/sandboxes/{sandbox['id']}")
    finally:
        status = daemon.stop()
        daemon.remove()
    assert status == 0


class Retries:
    """A client that sends its create again with the same key until it is answered, and then uses what it got."""

    BROKEN = (OSError, http.client.HTTPException)

    def __init__(self, daemon, over):
        self.daemon, self.over = daemon, over
        self.made, self.faults = {}, []

    def ask(self, *args, **more):
        """Until the daemon is there to answer."""
        while True:
            try:
                status, body = call(self.daemon, *args, timeout=60.0, **more)
            except self.BROKEN:
                continue
            if status != 503:
                return status, body

    def use(self, name, body, tries):
        """One key: the caller hears some of its answers, and asks once more as if it had not."""
        headers = key_of()
        for _ in range(tries):
            status, made = self.ask("POST", "/v1/sandboxes", body, headers=headers)
            if status not in (200, 201) or made["state"] != "running":
                self.faults.append(("create", name, status, made))
                return
            status, ran = self.ask("POST", f"/v1/sandboxes/{made['id']}/execs", {"argv": ["echo", "here"]})
            if status != 200 or ran["stdout"] != "here\n":
                self.faults.append(("exec", name, status, ran))
                return
            self.made.setdefault(name, set()).add(made["id"])

    def run(self, worker, body):
        for n in itertools.count():
            if self.over.is_set():
                return
            name = f"w{worker}-{n}"
            self.use(name, {**body, "name": name}, tries=3)
            for id in self.made.get(name, ()):
                if n % 2:  # the rest is there at the end, to be counted
                    self.ask("DELETE", f"/v1/sandboxes/{id}")
            if self.faults:
                return


def test_A13_while_the_broker_dies_every_answer_to_a_key_is_a_sandbox_that_runs():
    daemon = Daemon("--pool-max", "2").start()
    over = threading.Event()
    clients = Retries(daemon, over)
    bodies = [{}, {"get_or_create": True}, {"tags": {"a": "b"}}, {"persistent": True}]
    workers = [threading.Thread(target=clients.run, args=(i, body)) for i, body in enumerate(bodies)]
    try:
        [t.start() for t in workers]
        for n in range(12):
            answered = len(clients.made) + 2  # some are under way whenever it dies
            wait_for(lambda: len(clients.made) >= answered or clients.faults, what="creates")
            if clients.faults:
                break
            daemon.kill_parts("gateway" if n % 4 == 3 else "broker")
        over.set()
        [t.join(300) for t in workers]
        assert not clients.faults, clients.faults
        assert not any(t.is_alive() for t in workers)
        assert all(len(ids) == 1 for ids in clients.made.values()), clients.made
        status, listed = call(daemon, "GET", "/v1/sandboxes?limit=100&state=running")
        names = [s["name"] for s in listed["sandboxes"]]
        assert sorted(names) == sorted(name for name in clients.made if int(name.partition("-")[2]) % 2 == 0)
    finally:
        over.set()
        status = daemon.stop()
        daemon.remove()
    assert status == 0


@pytest.mark.parametrize("key", ["", "x" * 256, "a b"])
def test_a_bad_key_is_named(daemon, key):
    status, body = create(daemon, {"Idempotency-Key": key})
    assert (status, body["error"]["field"]) == (400, "Idempotency-Key")


def test_a_key_has_no_meaning_for_run(daemon):
    status, body = call(daemon, "POST", "/v1/run", {"command": "true"}, headers=key_of())
    assert (status, body["error"]["field"]) == (400, "Idempotency-Key")


def test_the_sdk_sends_a_create_with_a_key_again(client):
    key = uuid.uuid4().hex
    with client.create(idempotency_key=key) as one:
        assert client.create(idempotency_key=key).id == one.id
        with pytest.raises(errors.Conflict):
            client.create(idempotency_key=key, tags={"x": "y"})
