# SPDX-License-Identifier: Apache-2.0
"""Idempotency keys: one effect, whoever asks how often, at the same time or after a restart."""

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
    assert create(daemon, headers, limits={"memory_mib": 64})[1]["state"] == "stopped"  # still what it made
    client.get(made["id"]).delete()
    assert create(daemon, headers, limits={"memory_mib": 64})[0] == 410


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
