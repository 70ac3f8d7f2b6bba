# SPDX-License-Identifier: Apache-2.0
"""Snapshots and rollbacks while broker and gateway are killed: what was told is there, what was not told leaves nothing."""

import contextlib
import random
import re
import threading
import uuid

import pytest
from chaos.faults import DEATH, Fault, injected
from cloche import Client, errors
from harness.daemon import Daemon, call, wait_for


@pytest.fixture(scope="module")
def own():
    daemon = Daemon("--pool-max", "0", rm=False).start()
    yield daemon
    for sandbox in call(daemon, "GET", "/v1/sandboxes")[1]["sandboxes"]:
        call(daemon, "DELETE", f"/v1/sandboxes/{sandbox['id']}")
    assert daemon.stop() == 0
    daemon.remove()


def on_disk(daemon):
    return sorted(p.name for p in (daemon.data / "layers").iterdir() if re.match("sn_|roll_|seal_", p.name))


def test_a_kill_at_any_moment_leaves_whole_snapshots_or_none(own):
    rng = random.Random(seed := uuid.uuid4().int & 0xFFFFFF)
    with Client(own.url, own.key) as client:
        sandbox = client.create(persistent=True)
        told = []
        for turn in range(4):
            sandbox.run(f"for i in $(seq 300); do echo {turn} > f$i; done")
            begun = threading.Event()

            def take():
                begun.set()
                with contextlib.suppress(errors.ClocheError):
                    told.append(sandbox.snapshot()["id"])

            thread = threading.Thread(target=take)
            thread.start()
            begun.wait()
            threading.Event().wait(rng.uniform(0, 0.03))  # anywhere in it
            own.kill_parts(*rng.choice([("broker",), ("gateway",), ("broker", "gateway")]))
            thread.join()
            sandbox.refresh()
            assert sandbox.run("cat f300").stdout == f"{turn}\n", f"seed {seed}"  # it is not left frozen
            known = [s["id"] for s in client.snapshots()]
            assert set(told) <= set(known), f"seed {seed}"
            wait_for(lambda: on_disk(own) == sorted(s["id"] for s in client.snapshots()), 10, "nothing but what is known")
            assert all(s["state"] == "ready" for s in client.snapshots())
        for one in list(client.snapshots()):
            client.delete_snapshot(one["id"])
        wait_for(lambda: on_disk(own) == [], 10, "nothing left")
        sandbox.delete()


@pytest.mark.parametrize("persistent", [False, True])
def test_a_rollback_that_is_cut_short_is_gone_on_with(own, persistent):
    rng = random.Random(seed := uuid.uuid4().int & 0xFFFFFF)
    with Client(own.url, own.key) as client:
        sandbox = client.create(persistent=persistent)
        sandbox.run("echo 1 > a")
        snapshot = sandbox.snapshot()["id"]
        for _ in range(2):
            sandbox.run("echo 2 > a")

            def roll():
                with contextlib.suppress(errors.ClocheError):
                    sandbox.rollback(snapshot)

            thread = threading.Thread(target=roll)
            thread.start()
            threading.Event().wait(rng.uniform(0, 0.03))
            own.kill_parts("gateway")
            thread.join()

            def answers():
                try:
                    sandbox.refresh()
                    if sandbox.info.state in ("stopped", "failed"):
                        sandbox.resume()
                    return sandbox.run("cat a").stdout in ("1\n", "2\n")
                except errors.ClocheError as e:
                    assert not isinstance(e, errors.NotFound), f"seed {seed}"
                    return False

            wait_for(answers, 20, f"the sandbox, with the old files or the new ones (seed {seed})")
            sandbox.rollback(snapshot)
            assert sandbox.run("cat a").stdout == "1\n"
        sandbox.delete()
        client.delete_snapshot(snapshot)
        wait_for(lambda: on_disk(own) == [], 10, "nothing left")


def test_a_copy_made_ahead_is_taken_once_and_goes_with_its_broker_or_its_snapshot(own):
    def number(*names):
        """Of a subvolume; None: there is none."""
        path = own.data.joinpath("layers", *names)
        return path.stat().st_dev if path.exists() else None

    def start_from_spare():
        ahead = wait_for(lambda: number(snapshot, "spare", "files"), 20, "a copy made ahead")
        copy = client.create(snapshot=snapshot)
        taken = number(copy.id)
        assert copy.run("cat a; echo 2 > a").stdout == "1\n"
        copy.delete()
        return taken == ahead  # it may have been made and not known of yet

    with Client(own.url, own.key) as client:
        source = client.create(persistent=True)
        source.run("echo 1 > a")
        snapshot = source.snapshot()["id"]
        client.create(snapshot=snapshot).delete()
        for _ in range(2):
            wait_for(start_from_spare, 30, "a start from what was made ahead")
        wait_for(lambda: number(snapshot, "spare", "files"), 20, "the next one")
        own.kill_parts("broker")
        assert source.run("cat a").stdout == "1\n"
        assert number(snapshot, "spare", "files") is None  # nobody would know whether it is whole
        client.create(snapshot=snapshot).delete()
        source.run("echo 3 > a")
        source.rollback(snapshot)
        assert source.run("cat a").stdout == "1\n"
        wait_for(start_from_spare, 30, "a start from what was made ahead")
        client.delete_snapshot(snapshot)
        wait_for(lambda: on_disk(own) == [], 20, "nothing left")
        source.delete()


def test_a_broker_that_dies_in_a_fork_leaves_no_snapshot_of_it(own):
    with Client(own.url, own.key) as client:
        sandbox = client.create()
        wait_for(lambda: len([*(own.data / "layers").glob("sb_*")]) == 1, 10, "the layers of those before removed, which takes clones, too")
        dies = Fault("broker", "clone", 1, DEATH)  # which would start a copy: what takes the snapshot is a clone3
        with injected([own.broker_pid], dies) as has_come, pytest.raises(errors.ClocheError):
            sandbox.fork(2, memory=False)
        assert has_come()
        wait_for(lambda: call(own, "GET", "/v1/health")[0] == 200, 30, "an answer")
        wait_for(lambda: list(client.snapshots()) == [] and on_disk(own) == [], 10, "nothing left of the fork")
        sandbox.delete()


@pytest.mark.parametrize("part", ["gateway", "broker"])
def test_a_kill_in_a_diff_an_apply_or_an_import_leaves_the_files_or_their_changes(own, part):
    rng = random.Random(seed := uuid.uuid4().int & 0xFFFFFF)
    with Client(own.url, own.key) as client:
        sandbox = client.create()
        sandbox.run("for i in $(seq 100); do echo 1 > f$i; done")
        saved = sandbox.snapshot()["id"]
        packed = b"".join(client.export_snapshot(saved))
        (fork,) = sandbox.fork(1, memory=False)
        fork.run("for i in $(seq 100); do echo 2 > f$i; done")
        for act in (lambda: fork.diff(saved), lambda: sandbox.apply(fork), lambda: client.import_snapshot("again", packed)):

            def run():
                with contextlib.suppress(errors.ClocheError):
                    act()

            thread = threading.Thread(target=run)
            thread.start()
            threading.Event().wait(rng.uniform(0, 0.08))  # anywhere in it
            own.kill_parts(part)
            thread.join()
            for one in (sandbox, fork):
                one.refresh()
            assert set(sandbox.run("cat f*").stdout.split()) <= {"1", "2"}, f"seed {seed}"  # each file is whole
            alive = {s.id for s in (sandbox, fork)}
            wait_for(lambda: {s.id for s in client.list(state="running")} == alive, 20, "no sandbox but the two")
            left = {saved, fork.info.snapshot_id}
            for one in client.snapshots():
                assert one["state"] == "ready", f"seed {seed}"
                if one["name"] == "again":
                    left.add(one["id"])
            wait_for(lambda: set(on_disk(own)) == {s["id"] for s in client.snapshots()} == left, 20, "nothing but what is known")
        sandbox.apply(fork, on_conflict="theirs")  # what was cut short is gone on with
        assert set(sandbox.run("cat f*").stdout.split()) == {"2"}
        assert sandbox.run("ls -d /.cloche.new /usr/.cloche.new").exit_code != 0
        for one in (fork, sandbox):
            one.delete()
        for one in list(client.snapshots()):
            client.delete_snapshot(one["id"])
        wait_for(lambda: on_disk(own) == [], 10, "nothing left")
