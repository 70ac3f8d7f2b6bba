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


def test_a_broker_that_dies_in_a_fork_leaves_no_snapshot_of_it(own):
    with Client(own.url, own.key) as client:
        sandbox = client.create()
        dies = Fault("broker", "clone3", 2, DEATH)  # the first one's child takes the snapshot, this one would start a copy
        with injected([own.broker_pid], dies) as has_come, pytest.raises(errors.ClocheError):
            sandbox.fork(2, memory=False)
        assert has_come()
        wait_for(lambda: call(own, "GET", "/v1/health")[0] == 200, 30, "an answer")
        wait_for(lambda: list(client.snapshots()) == [] and on_disk(own) == [], 10, "nothing left of the fork")
        sandbox.delete()
