# SPDX-License-Identifier: Apache-2.0
"""What earlier daemons, crashes and strangers left: a start removes what is a sandbox's of its own, and touches nothing else."""

import os
import subprocess
import uuid
from pathlib import Path

import pytest
from cloche import Client
from harness import audit, strace
from harness.daemon import Daemon, wait_for

DEAD = "sb_" + "a" * 26  # has the form of an id, and no row anywhere


@pytest.fixture
def own():
    """A stopped daemon that has left one sandbox running and one kept."""
    daemon = Daemon("--plain-storage", "--pool-max", "0", rm=False).start()
    try:
        with Client(daemon.url, daemon.key) as client:
            client.create(name="alive").files.write("mark", b"1")
            kept = client.create(name="kept", persistent=True)
            kept.files.write("mark", b"2")
            kept.stop()
        assert daemon.stop() == 0
        yield daemon
    finally:
        ids = daemon.ids() | {DEAD}
        status = daemon.stop()
        found = audit.left_after_stop(daemon, ids)
        daemon.remove()
    assert (status, found) == (0, [])


def put(path, text="theirs"):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def check_usable(daemon):
    with Client(daemon.url, daemon.key) as client:
        assert client.get("alive").files.read("mark") == b"1"
        assert client.get("kept").files.read("mark") == b"2"
        with client.create() as fresh:
            assert fresh.run("echo new").stdout == "new\n"
        for name in ("alive", "kept"):
            client.get(name).delete()


def test_O02_half_made_things_go_and_what_is_not_ours_stays(own):
    (sandbox_id,) = os.listdir(own.run / "sandboxes")
    parents = [Path(one).parent for one in audit.cgroup_dirs({sandbox_id})]  # one in each tree
    layers = own.data / "layers"
    halves = [put(own.run / "sandboxes" / DEAD / "record", "torn").parent, put(layers / DEAD / "upper" / "f").parent.parent]
    halves += [put(own.data / "gateway" / "spool" / f"ex_{'a' * 26}")]
    for parent in parents:
        (parent / DEAD / "user").mkdir(parents=True)
        halves.append(parent / DEAD)
    strangers = [put(layers / "photos" / "f"), put(layers / "sb_short" / "f"), put(own.run / "sandboxes" / "notes.txt"), put(own.data / "backup.tar")]
    foreign = [parent / f"other-{uuid.uuid4().hex[:8]}" for parent in parents] + [parent.parent / f"other-{uuid.uuid4().hex[:8]}" for parent in parents]
    for group in foreign:
        group.mkdir()
    try:
        own.start()
        wait_for(lambda: not [h for h in halves if h.exists()], 20, f"the removal of {halves}")
        assert all(path.read_text() == "theirs" for path in strangers)
        assert all(group.is_dir() for group in foreign)
        check_usable(own)
    finally:
        (own.run / "sandboxes" / "notes.txt").unlink()
        for group in foreign:
            group.rmdir()


def test_O02_groups_of_another_daemon_stay(own):
    other = Daemon("--plain-storage", "--pool-max", "0").start()
    try:
        with Client(other.url, other.key) as client:
            box = client.create()
            own.start()
            assert box.run("echo untouched").stdout == "untouched\n"
            check_usable(own)
            assert own.stop() == 0
            assert box.run("echo untouched").stdout == "untouched\n"
    finally:
        ids = other.ids()
        status = other.stop()
        found = audit.left_after_stop(other, ids)
        other.remove()
    assert (status, found) == (0, [])


@pytest.fixture
def on_btrfs():
    """A daemon whose layers are subvolumes."""
    daemon = Daemon("--pool-max", "0").start()
    try:
        yield daemon
    finally:
        status = daemon.stop()
        daemon.remove()
    assert status == 0


@pytest.mark.jail("one engine's layers are another's")
def test_a_layer_is_removed_aside_where_no_other_waits_for_it(on_btrfs):
    """The kernel locks the directory that a subvolume is removed from, for as long as that takes."""
    layers = on_btrfs.data / "layers"
    with Client(on_btrfs.url, on_btrfs.key) as client:
        sandbox = client.create()
        with strace.attached([on_btrfs.broker_pid], "-f", "-y", "-e", "trace=ioctl") as out:
            sandbox.delete()
            calls = wait_for(lambda: [c for c in out.read_text().splitlines() if "SNAP_DESTROY" in c and c.endswith("= 0")], what="a removal")
    assert all(f"<{layers}/aside." in call for call in calls), calls
    assert not (layers / sandbox.id).exists()
    assert not any(os.listdir(place) for place in layers.glob("aside.*"))


@pytest.mark.jail("one engine's layers are another's")
def test_the_layers_go_though_others_have_copies_of_the_mount():
    """Each process that makes a mount namespace has one, for as long as it stays in its old root."""
    daemon = Daemon("--pool-max", "0", rm=False).start()
    other = None
    try:
        loops = audit.loop_devices(daemon.dir)
        other = subprocess.Popen(["unshare", "--mount", "sh", "-c", "echo here; exec sleep 600"], stdout=subprocess.PIPE)
        assert other.stdout.readline() == b"here\n"
        copies = Path(f"/proc/{other.pid}/mountinfo").read_text()
        assert loops and str(daemon.data / "layers") in copies, "the other has no copy"
        with Client(daemon.url, daemon.key) as client:
            client.create().delete()
        assert daemon.stop() == 0
        assert not audit.loop_devices(daemon.dir)
        daemon.start()  # and the next one has layers
        with Client(daemon.url, daemon.key) as client:
            client.create().delete()
    finally:
        if other:
            other.kill()
            other.wait()
        daemon.stop()
        daemon.remove()


@pytest.mark.jail("one engine's layers are another's")
def test_what_a_crash_left_aside_is_removed_by_the_next_start(on_btrfs):
    layers = on_btrfs.data / "layers"
    left = put(layers / "aside.3" / DEAD / "root" / "f").parent.parent
    on_btrfs.kill_parts("broker")
    wait_for(lambda: not left.exists() and not (layers / DEAD).exists(), what="a start that removes it")
