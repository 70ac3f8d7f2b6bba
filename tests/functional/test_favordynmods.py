# SPDX-License-Identifier: Apache-2.0
"""The host's cgroup tree has the option favordynmods while a daemon runs, and then again those that it had."""

import contextlib
import ctypes

import pytest
from harness.daemon import Daemon, children_of, read_text
from harness.running import running

FAVOR = "favordynmods"


def options():
    """Of the host's v2 tree; None: there is none."""
    for line in read_text("/proc/self/mountinfo").splitlines():
        mount, _, rest = line.partition(" - ")
        kind, _, given = rest.split(" ", 2)
        if kind == "cgroup2":
            return sorted(given.split(","))
    return None


pytestmark = pytest.mark.skipif(options() is None, reason="this host has no cgroup v2")


@pytest.fixture
def before():
    if FAVOR in options():
        pytest.skip("somebody has turned it on")
    return options()


def daemon(*given):
    d = Daemon(*given, "--pool-max", "0", "--no-zygotes")
    d.favors_moves = True
    return d


def test_it_is_on_while_a_daemon_runs_and_the_other_options_stay(before):
    for _ in range(5):  # a daemon of another test may have it at the same time
        with running(daemon()) as d:
            has_mark, during = (d.run / FAVOR).exists(), options()
        if has_mark and options() == before:
            break
    assert has_mark
    assert during == sorted([*before, FAVOR])
    assert options() == before


@contextlib.contextmanager
def another_option():
    """memory_recursiveprot, which changes nothing where no group protects its memory."""
    libc = ctypes.CDLL(None, use_errno=True)
    place = next(line.split()[4] for line in read_text("/proc/self/mountinfo").splitlines() if " - cgroup2 " in line)
    given = [word for word in options() if word not in ("rw", "ro")]

    def set_options(words):
        ms_remount, ms_relatime = 32, 1 << 21
        assert libc.mount(b"none", place.encode(), None, ms_remount | ms_relatime, ",".join(words).encode()) == 0, ctypes.get_errno()

    if "memory_recursiveprot" in given:
        yield
        return
    set_options([*given, "memory_recursiveprot"])
    try:
        yield
    finally:
        set_options(given)


def test_options_that_somebody_else_has_set_stay(before):
    for _ in range(5):
        with another_option():
            with running(daemon()) as d:
                has_mark, during = (d.run / FAVOR).exists(), options()
            after = options()
        if has_mark and FAVOR not in after:
            break
    assert has_mark and {"memory_recursiveprot", FAVOR} <= set(during)
    assert "memory_recursiveprot" in after and FAVOR not in after


def test_a_broker_that_is_killed_leaves_it_to_the_next_one(before):
    for _ in range(5):
        with running(daemon()) as d:
            d.kill_parts("broker")
            has_mark, during = (d.run / FAVOR).exists(), options()
        if has_mark and options() == before:
            break
    assert has_mark and FAVOR in during and options() == before


def test_a_daemon_that_may_not_leaves_it_alone(before):
    for _ in range(5):
        with running(daemon("--no-favordynmods")) as d:
            has_mark, during = (d.run / FAVOR).exists(), options()
        if during == before:
            break
    assert not has_mark and during == before
