# SPDX-License-Identifier: Apache-2.0
"""Machines that look into the disks of others: of what is torn, damaged or in use, and while parts of the daemon are killed."""

import contextlib
import fcntl
import os
import signal
import struct
import threading

import pytest
from cloche import Client, errors

from harness.daemon import ENGINE, children_of, end, wait_for
from harness.running import running
from harness.vm import CLIENT_S, make_template, need_vms, vm_daemon, vmm_of

pytestmark = pytest.mark.skipif(ENGINE != "vm", reason="each of these boots machines: `make test-vm` has the time")

LIMITS = {"memory_mib": 192, "disk_mib": 32, "pids": 64}
SUBVOL_SETFLAGS = 0x4008941A  # of btrfs: 0 is to be written to


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


@pytest.fixture
def machine(client):
    sandbox = client.create(engine="vm", template="tiny", limits=LIMITS, persistent=True, timeout=600)
    yield sandbox
    end(sandbox)


@pytest.fixture
def saved(client, machine):
    snapshot = machine.snapshot()["id"]
    yield snapshot
    client.delete_snapshot(snapshot)


def alive(daemon):
    return set(os.listdir(daemon.run / "sandboxes"))


def layers(daemon):
    return {p.name for p in (daemon.data / "layers").iterdir() if p.name.startswith(("sb_", "sn_", "roll_"))}


def overwrite(files):
    """The beginning of a snapshot's disk, which nothing can be written to before."""
    fd = os.open(files, os.O_RDONLY)
    fcntl.ioctl(fd, SUBVOL_SETFLAGS, struct.pack("Q", 0))
    os.close(fd)
    with open(files / "disk", "r+b") as disk:
        disk.write(os.urandom(64 << 10))


def test_a_machine_that_lost_its_power_is_compared_as_its_journal_has_it(client, machine, saved):
    machine.run("echo kept > note; sync").check()
    os.kill(children_of(vmm_of(machine))[0], signal.SIGKILL)
    wait_for(lambda: client.get(machine.id).info.state in ("stopped", "failed"), 30, "its end")
    assert [(c["path"], c["kind"]) for c in client.diff(saved, machine.id)["changes"]] == [("/home/user/note", "added")]


def test_S20_a_disk_that_is_no_filesystem_costs_the_machine_that_looks_and_nothing_else(client, daemon, machine, saved):
    overwrite(daemon.data / "layers" / saved / "files")
    for ask in (lambda: machine.diff(saved), lambda: b"".join(client.export_snapshot(saved)), lambda: client.create_template("of-noise", saved)):
        with pytest.raises(errors.ClocheError, match="cannot mount the shown0"):
            ask()
    assert machine.run("echo alive").stdout == "alive\n"
    wait_for(lambda: alive(daemon) == {machine.id}, 30, "nothing but the machine")


def test_what_is_of_a_jail_is_not_compared_with_what_is_of_a_vm(client, machine):
    with client.create(engine="jail", template="tiny") as jail, pytest.raises(errors.Conflict, match="of a vm"):
        client.diff(jail.id, machine.id)


def cut_short(daemon, work, part, moment):
    """Does the work and kills the part of the daemon when the machine that the work needs has come so far: none but those from before are left."""
    before, kept = alive(daemon), layers(daemon)

    def try_it():
        with contextlib.suppress(errors.ConnectionFailed, errors.Unavailable, errors.Gone, errors.GuestError):
            work()

    def has_come():
        assert thread.is_alive(), "there was nothing to be cut short"
        others = alive(daemon) - before
        if moment == "unpacks":
            return any((daemon.data / "layers" / other / "root/template.in/bin/busybox").exists() for other in others)
        other = next(iter(others), None)
        if moment == "cloned":
            return other and (daemon.data / "layers" / other / "shown0").exists()
        return other and (daemon.run / "sandboxes" / other / "record").exists()

    thread = threading.Thread(target=try_it)
    thread.start()
    wait_for(has_come, 150, moment)
    daemon.kill_parts(part)
    thread.join()
    wait_for(lambda: alive(daemon) == before, 30, "no machine but those from before")
    wait_for(lambda: layers(daemon) == kept, 30, "no layer but those from before")


KILLS = pytest.mark.parametrize(("part", "moment"), [("broker", "cloned"), ("gateway", "boots")])


@KILLS
def test_S20_a_kill_while_a_machine_looks_leaves_nothing_of_it(daemon, machine, saved, part, moment):
    machine.run("echo 2 > changed").check()
    cut_short(daemon, lambda: machine.diff(saved), part, moment)
    machine.refresh()
    assert [c["path"] for c in machine.diff(saved)["changes"]] == ["/home/user/changed"]


@KILLS
def test_S20_a_kill_within_an_apply_brings_nothing_and_the_next_brings_all(daemon, machine, part, moment):
    machine.run("echo 1 > changed; echo 1 > gone").check()
    (fork,) = machine.fork(1, memory=False)
    with fork:
        fork.run("echo 2 > changed; rm gone; echo 3 > new").check()
        cut_short(daemon, lambda: machine.apply(fork), part, moment)
        machine.refresh()
        assert machine.run("cat changed gone; ls").stdout.split() == ["1", "1", "changed", "gone"]
        assert machine.apply(fork)["conflicts"] == []
        assert machine.run("cat changed new; ls").stdout.split() == ["2", "3", "changed", "new"]


@pytest.mark.parametrize("part", ["broker", "gateway"])
def test_S20_a_kill_within_an_import_leaves_neither_a_machine_nor_a_snapshot(client, daemon, machine, part):
    machine.run("echo 1 > note").check()
    saved = machine.snapshot()["id"]
    try:
        archive = b"".join(client.export_snapshot(saved))
        wait_for(lambda: (alive(daemon), layers(daemon)) == ({machine.id}, {machine.id, saved}), 30, "the end of the machine that exported it")
        before = [s["id"] for s in client.snapshots()]
        cut_short(daemon, lambda: client.import_snapshot("brought", archive), part, "boots")
        assert [s["id"] for s in client.snapshots()] == before
        brought = client.import_snapshot("brought", archive)["id"]
        with client.create(snapshot=brought) as copy:
            assert copy.run("cat note").stdout == "1\n"
        client.delete_snapshot(brought)
    finally:
        client.delete_snapshot(saved)


@pytest.mark.parametrize("moment", ["boots", "unpacks"])
@pytest.mark.parametrize("part", ["broker", "gateway"])
def test_S20_a_kill_while_a_template_is_made_of_a_vm_leaves_nothing_of_it(client, daemon, machine, part, moment):
    machine.run("dd if=/dev/urandom of=bulk bs=1048576 count=16").check()  # so that it is not there at once
    images = set(os.listdir(daemon.data / "templates"))
    cut_short(daemon, lambda: client.create_template("of-killed", machine), part, moment)
    wait_for(lambda: set(os.listdir(daemon.data / "templates")) == images, 30, "no image but those from before")
    assert "of-killed" not in [t["name"] for t in client.templates()]
    client.create_template("of-killed", machine)
    client.delete_template("of-killed")
