# SPDX-License-Identifier: Apache-2.0
"""Machines that were saved, and go on as copies."""

import contextlib
import threading
import time

import pytest
from cloche import Client, errors

from harness.daemon import wait_for
from harness.running import running
from harness.vm import CLIENT_S, make_template, need_vms, vm_daemon

LIMITS = {"memory_mib": 192, "disk_mib": 32, "pids": 64}


@pytest.fixture(scope="module")
def daemon():
    need_vms()
    with running(vm_daemon()) as daemon:
        yield daemon


@pytest.fixture(scope="module")
def client(daemon):
    with Client(daemon.url, daemon.key, timeout=CLIENT_S) as client:
        make_template(client, "tiny")
        yield client


@pytest.fixture(scope="module")
def machine(client):
    with client.create(engine="vm", template="tiny", limits=LIMITS, timeout=600) as sandbox:
        yield sandbox


def identity_of(sandbox):
    """What two copies of one machine must not have in common."""
    command = "hostname; cat /etc/machine-id; head -c 16 /dev/urandom | od -An -x; cat /proc/sys/kernel/random/uuid"
    return sandbox.run(command).stdout.splitlines()


def count_of(sandbox):
    """What its program has written last; it may be about to."""
    return int(wait_for(lambda: sandbox.run("cat /dev/shm/count").stdout.strip(), 60, "a count"))


def test_copies_of_a_machine_go_on_where_it_was_saved_and_differ_in_what_must(machine):
    counting = machine.start("i=0; while true; do i=$((i+1)); echo $i; echo $i > /dev/shm/count; sleep 0.05; done")
    output = (e.data for e in counting.output() if e.type == "stdout")
    assert next(output).startswith(b"1\n")
    machine.run("echo written > /home/user/file; date > /dev/shm/memory")
    before = count_of(machine)
    forks = machine.fork(2)
    try:
        own = machine.run("cat /home/user/file /dev/shm/memory").stdout
        identities = [identity_of(s) for s in (machine, *forks)]
        assert all(len(set(column)) == 3 for column in zip(*identities, strict=True)), identities
        for fork in forks:
            assert fork.info.isolation["engine"] == "vm"
            assert fork.run("cat /home/user/file /dev/shm/memory").stdout == own
            assert abs(int(fork.run("date +%s").stdout) - time.time()) < 60
            first = count_of(fork)
            assert first >= before
            wait_for(lambda fork=fork, first=first: count_of(fork) > first, 60, "its program to go on")
        forks[0].run("echo changed > /home/user/file; echo changed > /dev/shm/memory")
        forks += forks[0].fork(1)  # of a copy: only what it has changed is saved
        assert forks[2].run("cat /home/user/file /dev/shm/memory").stdout == "changed\nchanged\n"
        assert forks[1].run("cat /home/user/file /dev/shm/memory").stdout == own
    finally:
        for fork in forks:
            fork.delete()
    assert machine.exec(counting.id).info.state == "running"
    counting.kill()
    told = b"".join([b"1\n", *output]).split()
    assert [int(n) for n in told] == list(range(1, len(told) + 1)), "a stream of the source was torn"


def test_a_machine_is_saved_with_memory_and_by_its_files_and_goes_back_to_these(client, machine):
    machine.run("echo one > /dev/shm/memory")
    saved = machine.snapshot(memory=True)
    assert saved["memory"] and saved["memory_bytes"] > 0 and saved["engine"] == "vm"
    with pytest.raises(errors.ClocheError) as other:
        client.create(snapshot=saved["id"], engine="jail")
    assert other.value.field == "engine"
    with pytest.raises(errors.ClocheError) as larger:
        client.create(snapshot=saved["id"], limits={"memory_mib": 256})
    assert larger.value.field == "limits.memory_mib"
    with client.create(snapshot=saved["id"], timeout=600) as copy:
        client.delete_snapshot(saved["id"])
        assert copy.run("cat /dev/shm/memory; echo not yet on disk > /home/user/file").stdout == "one\n"
        files = copy.snapshot()
        assert not files["memory"]
        copy.run("rm /home/user/file")
        copy.rollback(files["id"])
        assert copy.run("cat /home/user/file").stdout == "not yet on disk\n"
        assert copy.run("cat /dev/shm/memory").exit_code != 0
    client.delete_snapshot(files["id"])


@pytest.mark.parametrize("part", ["broker", "gateway"])
def test_a_machine_outlives_whoever_is_killed_while_it_is_saved(daemon, client, machine, part):
    machine.run("echo before > /dev/shm/kill")
    alive = {s.id for s in client.list()}

    def fork():
        with Client(daemon.url, daemon.key, timeout=CLIENT_S) as other, contextlib.suppress(errors.ClocheError):
            for made in other.get(machine.id).fork(1):
                made.delete()

    thread = threading.Thread(target=fork)
    thread.start()
    wait_for(lambda: list((daemon.data / "layers").glob("sn_*")) or not thread.is_alive(), 60, "the save to begin")
    daemon.kill_parts(part)
    thread.join()
    wait_for(lambda: machine.run("cat /dev/shm/kill").stdout == "before\n", 60, "the machine")
    for left in client.list():
        if left.id not in alive:
            left.delete()
    wait_for(lambda: not list((daemon.data / "layers").glob("sn_*")), 60, "what was being saved to go")
