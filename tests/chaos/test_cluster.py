# SPDX-License-Identifier: Apache-2.0
"""A cluster on a bad day: nodes, their database and the network between them break in random order while clients ask any node for anything. Nothing acknowledged is
lost, no name is two sandboxes', no limit is exceeded, every end has a cause, every second is charged once, and nothing is left on the host.

CLOCHE_CLUSTER_MINUTES says how long (`make chaos-cluster MINUTES=10`), CLOCHE_CLUSTER_NODES how many, CLOCHE_CHAOS_SEED what is chosen, CLOCHE_CLUSTER_FAULTS which
faults come (all, without it).
"""

import os
import time

import pytest
from harness.daemon import BUILD

from chaos.cluster_check import Checker
from chaos.cluster_history import History, charged_wrong, doubled, lost, twice
from chaos.cluster_load import Load
from chaos.cluster_site import Site
from chaos.run import SEED

MINUTES = float(os.environ.get("CLOCHE_CLUSTER_MINUTES", "1.5"))
NODES = int(os.environ.get("CLOCHE_CLUSTER_NODES", "3"))
CHOSEN = os.environ.get("CLOCHE_CLUSTER_FAULTS", "").split()
FAULTS_IN_A_ROW = 4  # between two looks at the whole
CLIENTS = 4


@pytest.fixture
def site():
    s = Site(NODES, SEED)
    yield s
    s.close()


def expect_nothing(found, history, told):
    assert not found, "\n".join([f"seed {SEED}, after {len(told)} faults:", *found[:30], "the faults:", *told[-20:], "the last calls:", history.tail()])


@pytest.mark.skipif(not (BUILD / "cloche-cluster").exists(), reason="built without libpq")
def test_a_cluster_whose_parts_break_in_any_order_keeps_what_it_has_promised(site):
    history, told = History(), []
    load = Load(site, history, SEED, CLIENTS)
    checker = Checker(site, load, history)
    chosen = [f for f in Site.FAULTS if not CHOSEN or f.__name__ in CHOSEN]
    began = time.monotonic()
    until = began + MINUTES * 60
    try:
        while time.monotonic() < until:
            for _ in range(FAULTS_IN_A_ROW):
                told.append(f"{time.monotonic():.3f} {site.strike(site.draw(chosen))}")
                print(told[-1], flush=True)
                site.pause(0.2, 1.5)
            load.hold()
            expect_nothing(checker.check(), history, told)
            load.go_on()
    finally:
        load.end()
    left = checker.empty()
    print(f"{sum(site.n_faults.values())} faults {dict(site.n_faults)}; {len(history.made)} sandboxes; {dict(history.counts)}")
    expect_nothing(left, history, told)
    assert len(history.made) > 10, history.counts


class TestOfTheChecker:
    """It finds what it is there for."""

    def made(self, history, sandbox_id="sb_a", name=None):
        history.created({"id": sandbox_id}, name, "key", 1.0)
        return history.made.values()

    def test_a_name_that_two_sandboxes_had_at_a_time_is_found_and_one_that_was_handed_on_is_not(self):
        assert doubled([(1, 2, "a"), (3, 4, "b"), (5, 6, "a")])
        assert not doubled([(1, 2, "a"), (3, 4, "a"), (5, 6, "b"), (7, 8, "b")])
        assert not doubled([(1, 4, "a"), (2, 3, "b"), (2, 5, "a")])  # calls that overlap say nothing of an order
        assert twice([("n", "a"), ("n", "b")]) and not twice([("n", "a"), ("n", "a"), ("m", "b"), (None, "c"), (None, "d")])

    def test_a_create_that_is_lost_and_one_that_ended_by_nobody_are_found(self):
        history = History()
        made = self.made(history)

        def found(state, allowed=False):
            return lost(made, lambda m: state, lambda m, cause: allowed)

        assert found(None) and not found({"state": "running"})
        assert found({"state": "stopped", "ended": {"cause": "killed"}}) and found({"state": "stopped", "ended": None}, allowed=True)
        assert not found({"state": "stopped", "ended": {"cause": "node_lost"}}, allowed=True)
        history.deleted("sb_a", 2.0, True)
        assert found({"state": "running"}) and not found(None) and not found({"state": "stopped", "ended": {"cause": "deleted"}})

    def test_a_second_that_is_charged_twice_or_never_lived_is_found(self):
        lives = {"a": (5, 10)}
        assert not charged_wrong([("n0", "a", 8)], lives, 1)
        assert charged_wrong([("n0", "a", 8), ("n1", "a", 1)], lives, 1) and charged_wrong([("n0", "a", 12)], lives, 1) and charged_wrong([("n0", "a", 3)], lives, 1)
