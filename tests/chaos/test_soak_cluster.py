# SPDX-License-Identifier: Apache-2.0
"""An ordinary day of a cluster, shortened: three projects at work on three nodes, each call at another one, and beside them a disk of one node that is slow or full, a greedy
neighbour, kills, a member that stands still, a database that is away, and an upgrade of one node after the other. Nothing acknowledged is lost, no quota is exceeded, nothing is
left, nothing crashes.

CLOCHE_SOAK_MINUTES says how long (`make soak MINUTES=30`), CLOCHE_CHAOS_SEED what is chosen, CLOCHE_SOAK_CLUSTER_PHASES which troubles come. Without a length a few come, once.
"""

import contextlib
import itertools
import os
import random
import shutil
import signal
import time
from collections import Counter

import pytest
from harness import audit
from harness.cluster import Database
from harness.daemon import BUILD, children_of, wait_for
from harness.whole_node import cluster_of, reached, without

from chaos.host import ALIVE
from chaos.model import ask, expect
from chaos.projects import Projects, View, make_project
from chaos.run import SEED, SETTLED, sweep
from chaos.trouble import disk_of_its_own, filled, frozen, greedy

pytestmark = [pytest.mark.slow, pytest.mark.skipif(not (BUILD / "cloche-cluster").exists(), reason="built without libpq")]

MINUTES = float(os.environ.get("CLOCHE_SOAK_MINUTES", "0"))
NODES, PROJECTS = ("a", "b", "c"), ("one", "two", "three")
DISK_BYTES = 8 << 30
LEFT_BYTES = 48 << 20  # on a full disk: less than the daemon keeps for itself
WORKERS = 2  # of each project
SANDBOXES_MOST = 8  # of a project: what its workers and their shared names need, and a few whose create got no answer
FREEZES = 3  # of one phase
PATIENT_S = 5  # how long trouble lasts


class Balanced(View):
    """A project's calls, each at the next node, as a balancer hands them out."""

    def __init__(self, nodes, key):
        super().__init__(nodes[0].daemon, key)
        self.ports = itertools.cycle([n.daemon.port for n in nodes])

    @property
    def port(self):
        return next(self.ports)


class Day:
    def __init__(self, database, nodes):
        self.database, self.nodes, self.rng, self.phases = database, nodes, random.Random(f"{SEED}/cluster"), Counter()
        self.load = Projects({name: self.project(name) for name in PROJECTS}, SEED, WORKERS)
        for load in self.load.loads:
            load.has_internet = False
        self.greedy = self.project("greedy")

    def project(self, name):
        """A project with a limit, which all nodes know."""
        first = self.nodes[0]
        view = Balanced(self.nodes, make_project(first.daemon, name).key)
        project = next(p for p in first.ok("GET", "/v1/projects")["projects"] if p["name"] == name)
        first.ok("PUT", f"/v1/projects/{project['id']}/quota", {"sandboxes": SANDBOXES_MOST})
        for n in self.nodes:
            wait_for(lambda n=n: n.call("GET", "/v1/quota", key=view.key)[1].get("project", {}).get("limits", {}).get("sandboxes") == SANDBOXES_MOST, what=f"{n.name} knows the limit")
        return view

    def await_all(self):
        for n in self.nodes:
            n.await_state("held")
        key = self.nodes[0].daemon.key
        for here, there in itertools.permutations(self.nodes, 2):
            wait_for(lambda here=here, there=there: reached(here, there, key), what=f"{here.name} reaches {there.name}")

    def any(self):
        return self.rng.choice(self.nodes)

    def calm(self):
        time.sleep(PATIENT_S)

    def slow_disk(self):
        for _ in range(FREEZES):
            with frozen(self.any().daemon):
                time.sleep(self.rng.uniform(0.5, 3.5))

    def full_disk(self):
        node = self.any()
        with filled(node.data, LEFT_BYTES):
            time.sleep(PATIENT_S)
        view = View(node.daemon, self.greedy.key)
        wait_for(lambda: ask(view, "POST", "/v1/run", {"command": "true"})[0] == 200, what="room for new work")

    def neighbour(self):
        with greedy(self.greedy):
            time.sleep(PATIENT_S)

    def pid(self, node, part):
        return next((p for p in children_of(node.daemon.process.pid) if audit.comm_of(p) == f"cloche-{part}"), None)

    def kill(self):
        for part in ("gateway", "broker", "member"):
            node = self.any()
            os.kill(wait_for(lambda: self.pid(node, part), what=part), signal.SIGKILL)
            wait_for(lambda: ask(View(node.daemon, self.greedy.key), "GET", "/v1/sandboxes")[0] == 200, what="an answer")

    def member_stands_still(self):
        node = self.any()
        pid = wait_for(lambda: self.pid(node, "member"), what="a member")
        os.kill(pid, signal.SIGSTOP)
        time.sleep(PATIENT_S)
        with contextlib.suppress(ProcessLookupError):  # the watchdog was faster
            os.kill(pid, signal.SIGCONT)

    def no_database(self):
        with without(self.database, *self.nodes):
            time.sleep(PATIENT_S)

    def upgrade(self):
        """One node after the other, as the guide says; the others serve meanwhile."""
        for n in self.nodes:
            assert n.daemon.stop() == 0
            n.daemon.check_parts()
            n.daemon.start()
            n.await_state("held")

    def look(self):
        """With nobody at work: all nodes have each other, and every promise holds."""
        self.await_all()
        wait_for(lambda: all(s["state"] in SETTLED for s in self.load.listing()), what="settled states")
        self.load.settle(None)
        for load in self.load.loads:
            alive = [s["id"] for s in load.listing() if s["state"] in ALIVE]
            expect(len(alive) <= SANDBOXES_MOST, "more than the project's limit:", alive)
        wait_for(lambda: not self.strays(), what=f"only what is listed, on every node: {self.strays()}")
        for n in self.nodes:
            n.daemon.check_parts()

    def strays(self):
        """What runs on a node and is in no list, or the other way round."""
        listed = {s["id"] for s in self.load.listing() if s["state"] in ALIVE and s["paused_to"] != "disk"}
        return listed ^ {i for n in self.nodes for i in os.listdir(n.run / "sandboxes")}

    def go_through(self, name):
        self.phases[name] += 1
        getattr(self, name)()
        self.load.hold()
        self.look()
        self.load.go_on()

    def finish(self):
        wait_for(lambda: not self.load.has_unfinished(), 300, "the end of every exec")
        self.load.delete_all()
        wait_for(lambda: not self.load.listing() and not self.strays(), what="nothing, on every node")


FEW = "full_disk,kill,upgrade"
ALL = f"slow_disk,neighbour,member_stands_still,no_database,{FEW}"
PHASES = os.environ.get("CLOCHE_SOAK_CLUSTER_PHASES", ALL if MINUTES else FEW).split(",")


@contextlib.contextmanager
def disk_of(daemon):
    with disk_of_its_own(daemon.data, DISK_BYTES):
        try:
            yield
        finally:
            sweep(daemon)  # what a failed day has left


@pytest.fixture
def day():
    database = Database()
    try:
        database.make("one")
        with cluster_of(database, *NODES, options=lambda name: ("--default-memory", "128MiB"), rm=False, around=disk_of) as nodes:
            yield Day(database, nodes)
    finally:
        database.close()


def test_an_ordinary_day_of_a_cluster_loses_nothing_leaves_nothing_and_crashes_nothing(day, capsys):
    until = time.monotonic() + MINUTES * 60
    day.load.start()
    try:
        todo = list(PHASES)
        while todo or time.monotonic() < until:
            day.go_through(todo.pop(0) if todo else day.rng.choice([*PHASES, "calm"]))
        day.load.end()
        day.finish()
    except BaseException:
        for n in day.nodes:
            shutil.copy(n.daemon.log_path, BUILD / f"soak-{SEED}-{n.name}.log")
        print(f"seed {SEED}, phases {dict(day.phases)}; the daemons' logs are kept as {BUILD}/soak-{SEED}-*.log")
        raise
    finally:
        day.load.end()
    answers, steps = (sum(getattr(w, n) for w in day.load.workers) for n in ("answers", "steps"))
    with capsys.disabled():
        print(f"\nseed {SEED}: phases {dict(day.phases)}, {steps} steps, {answers} answers")
