# SPDX-License-Identifier: Apache-2.0
"""An ordinary day, shortened: three projects at work, and beside them a slow disk, a full disk, a greedy neighbour, kills, new settings and an
upgrade. Nothing acknowledged is lost, nothing is left, nothing crashes.

CLOCHE_SOAK_MINUTES says how long (`make soak MINUTES=30`), CLOCHE_CHAOS_SEED what is chosen, CLOCHE_SOAK_PHASES which troubles come, CLOCHE_SOAK_CYCLES how often a sandbox is made, used
and deleted in the test of cycles.
"""

import os
import random
import shutil
import signal
import threading
import time
from collections import Counter
from contextlib import ExitStack, suppress

import pytest
from harness import release
from harness.daemon import BUILD, memory_kib, wait_for

from chaos.model import ask
from chaos.projects import Projects, make_project
from chaos.run import SEED, Run
from chaos.trouble import disk_of_its_own, filled, frozen, greedy

MINUTES = float(os.environ.get("CLOCHE_SOAK_MINUTES", "5"))
CYCLES = int(os.environ.get("CLOCHE_SOAK_CYCLES", "600"))
DISK_BYTES = 8 << 30
RELEASE = "0.1.0"
LEFT_BYTES = 48 << 20  # on a full disk: less than the daemon keeps for itself
WORKERS = 2  # of each project
FREEZES, KILLS = 3, 3  # of one phase
PATIENT_S = 5  # how long trouble lasts


class Soak(Run):
    """A run whose data lie on a disk of their own, used by three projects."""

    def __init__(self, monkeypatch):
        self.rng, self.disk = random.Random(f"{SEED}/soak"), ExitStack()
        self.phases, self.flooded = Counter(), 0
        super().__init__(monkeypatch)
        self.greedy = make_project(self.daemon, "greedy")
        self.host.views.append(self.greedy)

    def prepare(self):
        """It begins with the program of the last release, where this checkout can build it."""
        self.disk.enter_context(disk_of_its_own(self.daemon.data, DISK_BYTES))
        with suppress(release.Missing):
            self.daemon.program = release.build(RELEASE) / "cloche"
            self.daemon.may_crash = True  # faults of that program are not this one's

    def make_load(self):
        return Projects({name: make_project(self.daemon, name) for name in ("one", "two", "three")}, SEED, WORKERS)

    def release(self):
        self.disk.close()

    def _hook(self):
        return None  # a webhook is told of one project

    def look_at_hook(self):
        pass

    def calm(self):
        time.sleep(PATIENT_S)

    def slow_disk(self):
        for _ in range(FREEZES):
            with frozen(self.daemon):
                time.sleep(self.rng.uniform(0.5, 3.5))
            time.sleep(self.rng.uniform(0, 1))

    def full_disk(self):
        with filled(self.daemon.data, LEFT_BYTES):
            time.sleep(PATIENT_S)
        wait_for(lambda: ask(self.load.views[0], "POST", "/v1/run", {"command": "true"})[0] == 200, 60, "room for new work")

    def neighbour(self):
        with greedy(self.greedy) as made:
            time.sleep(PATIENT_S)
        self.flooded += len(made)

    def kill(self):
        for _ in range(KILLS):
            self.kills[self.killer.strike()] += 1

    def reload(self):
        self.daemon.process.send_signal(signal.SIGHUP)
        time.sleep(PATIENT_S / 2)

    def restart(self):
        assert self.daemon.stop() == 0
        self.daemon.start()

    def upgrade(self):
        """Behind a while with calm load. What the last release does wrong is no fault of this one: sandboxes that it broke are let alone."""
        time.sleep(PATIENT_S)
        self.load.hold()
        self.load.let_broken_alone()
        assert self.daemon.stop() == 0
        self.daemon.check_parts()
        self.daemon.program, self.daemon.may_crash, self.load.is_calm = BUILD / "cloche", False, False
        self.daemon.start()
        self.host.know_parts()

    def go_through(self, name):
        """One phase, and a look at every promise behind it."""
        self.phases[name] += 1
        getattr(self, name)()
        self.load.hold()
        self.look()
        self.load.go_on()


# Each comes at least once, however short the run is, behind the upgrade from the last release.
PHASES = os.environ.get("CLOCHE_SOAK_PHASES", "slow_disk,full_disk,kill,neighbour,restart,reload,calm").split(",")


@pytest.fixture
def soak(monkeypatch):
    soak = Soak(monkeypatch)
    yield soak
    soak.close()


@pytest.mark.slow
def test_an_ordinary_day_loses_nothing_leaves_nothing_and_crashes_nothing(soak, capsys):
    until = time.monotonic() + MINUTES * 60
    soak.load.is_calm = True
    soak.load.start()
    try:
        todo = ["upgrade", *PHASES]
        while todo or time.monotonic() < until:
            soak.go_through(todo.pop(0) if todo else soak.rng.choice(PHASES))
        soak.load.end()
        soak.finish()
    except BaseException:
        kept = BUILD / f"soak-{SEED}.log"
        shutil.copy(soak.daemon.log_path, kept)
        print(f"seed {SEED}, phases {dict(soak.phases)}, kills {dict(soak.kills)}; the daemon's log is kept as {kept}")
        raise
    answers, steps = (sum(getattr(w, n) for w in soak.load.workers) for n in ("answers", "steps"))
    with capsys.disabled():
        print(f"\nseed {SEED}: phases {dict(soak.phases)}, kills {dict(soak.kills)}, {soak.flooded} sandboxes of a greedy neighbour")
        print(f"{steps} steps, {answers} answers, {soak.log.place} events, {soak.reconciled} accounts reconciled")


def cycle(client, n, failures):
    try:
        for _ in range(n):
            with client.create() as sandbox:
                assert sandbox.run(["echo", "here"]).stdout == "here\n"
    except Exception as e:  # told by the test
        failures.append(e)


@pytest.mark.slow
def test_sandboxes_made_used_and_deleted_leave_memory_and_descriptors_as_they_were(client, daemon, capsys):
    """The first tenth fills caches and heaps; what comes after it adds nothing that grows with the number of cycles."""
    def figures():
        pids = {"gateway": daemon.gateway_pid, "broker": daemon.broker_pid}
        return {name: (memory_kib(pid), len(os.listdir(f"/proc/{pid}/fd"))) for name, pid in pids.items()}, pids

    def run(n):
        failures = []
        threads = [threading.Thread(target=cycle, args=(client, n // 4, failures)) for _ in range(4)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        assert not failures, failures

    run(CYCLES // 10)
    before, pids = figures()
    run(CYCLES - CYCLES // 10)
    few = {name: fds + 8 for name, (_, fds) in before.items()}  # what is still being removed or made ahead has some
    wait_for(lambda: all(figures()[0][name][1] <= most for name, most in few.items()), 30, f"no more descriptors than {few}")
    after, pids_after = figures()
    assert pids == pids_after
    with capsys.disabled():
        print(f"\n{CYCLES} cycles, (RSS in KiB, open descriptors): {before} then {after}")
    for name, (rss, _) in before.items():
        assert after[name][0] <= rss * 1.25 + 16 * 1024, (name, before, after)
