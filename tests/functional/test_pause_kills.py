# SPDX-License-Identifier: Apache-2.0
"""Pauses to disk and resumes while broker, gateway or CRIU are killed: the sandbox runs or rests, and has all that it had."""

import contextlib
import os
import random
import shutil
import signal
import threading
import uuid

import pytest
from cloche import Client, errors
from harness import audit
from harness.daemon import IS_SANITIZED, Daemon, children_of, wait_for

pytestmark = [
    pytest.mark.skipif(shutil.which("criu", path="/usr/sbin:/usr/bin") is None, reason="no criu"),
    pytest.mark.skipif(IS_SANITIZED, reason="a sanitized agent maps terabytes"),
]

COUNT = "i=0; while :; do i=$((i+1)); echo $i; sleep 0.01; done"
TURNS = int(os.environ.get("CLOCHE_PAUSE_KILLS", "1"))  # `make test-memory` has more
START_S = 30  # START_US of src/sandbox/code/interpreter.c
PARTS = [("broker",), ("gateway",), ("broker", "gateway")]


@pytest.fixture(scope="module")
def own():
    daemon = Daemon("--pool-max", "0", rm=False).start()
    with Client(daemon.url, daemon.key) as client:
        yield daemon, client
        for one in client.list():
            one.delete()
        ids = daemon.ids()
    status = daemon.stop()
    left = audit.left_after_stop(daemon, ids)
    layers = [p.name for p in (daemon.data / "layers").glob("*")]  # with an image of its own the stop has unmounted and removed it
    daemon.remove()
    assert (status, left, layers) == (0, [], [])


def quietly(fn):
    with contextlib.suppress(errors.ClocheError):
        fn()


def is_answered(fn):
    """Whether it went well; an error is none."""
    with contextlib.suppress(errors.Unavailable):
        return fn()


def find_wall(daemon):
    return next(p for p in children_of(daemon.process.pid) if audit.comm_of(p) == "cloche-wall")


def during(fn, seconds, kill):
    """Calls kill() that long after fn() was begun, and waits for fn()."""
    thread = threading.Thread(target=quietly, args=(fn,))
    thread.start()
    threading.Event().wait(seconds)
    kill()
    thread.join()


def look(client, sandbox):
    """Its state, once it is one that stays."""
    settled = ("running", "paused", "stopped", "failed")
    return wait_for(lambda: (s := client.get(sandbox.id).info.state) in settled and s, 30, "a state that stays")


def check(client, sandbox, counting, seed):
    result = sandbox.run_code("x")  # whichever it is, that lets it run
    assert result.error is None and result.results[-1].text == "[1, 2, 3]", f"seed {seed}"
    assert counting.refresh().state == "running", f"seed {seed}"
    wait_for(lambda: not list(client.snapshots(sandbox=sandbox.id)), 20, "nothing but it")


@pytest.mark.parametrize("verb", ["pause", "resume"])
def test_a_kill_at_any_moment_loses_nothing(own, verb):
    daemon, client = own
    rng = random.Random(seed := uuid.uuid4().int & 0xFFFFFF)
    sandbox = client.create(persistent=bool(seed & 1))
    sandbox.run_code("x = [1, 2, 3]")
    counting = sandbox.start(COUNT)
    for _ in range(TURNS):
        if verb == "resume":
            sandbox.pause(to="disk")
        parts = rng.choice(PARTS)
        during(getattr(sandbox, verb), rng.uniform(0, 0.4), lambda: daemon.kill_parts(*parts))
        assert look(client, sandbox) in ("running", "paused"), f"seed {seed}"
        check(client, sandbox, counting, seed)
    sandbox.delete()


def test_an_interpreter_at_rest_outlasts_the_time_that_a_start_may_take(own):
    """A gateway that was started anew awaits the interpreters that it knows of, and those of a sandbox on disk cannot answer."""
    daemon, client = own
    sandbox = client.create()
    sandbox.run_code("x = 41")
    sandbox.pause(to="disk")
    daemon.kill_parts("gateway")
    threading.Event().wait(START_S + 2)
    result = sandbox.run_code("x + 1")
    assert (result.error, result.results[-1].text, result.restarted) == (None, "42", False)
    sandbox.delete()


def test_a_resume_that_failed_behind_its_agents_first_word_can_be_tried_again(own):
    """The next copy begins where the first one did: nothing of that one may have been taken."""
    daemon, client = own
    sandbox = client.create(network={"allow": ["allowed.test"]})
    sandbox.run_code("x = [1, 2, 3]")
    counting = sandbox.start(COUNT)
    n_failed = 0
    for _ in range(40):
        sandbox.pause(to="disk")
        thread = threading.Thread(target=quietly, args=(sandbox.resume,))
        thread.start()
        while thread.is_alive():  # so that the policy cannot be brought to it
            with contextlib.suppress(ProcessLookupError, IndexError, StopIteration):
                os.kill(find_wall(daemon), signal.SIGKILL)
            thread.join(0.02)
        n_failed += look(client, sandbox) == "paused"
        wait_for(lambda: is_answered(sandbox.resume), 30, "a resume")
        check(client, sandbox, counting, "none")
        if n_failed == 3:
            break
    else:
        pytest.fail("the resume was always faster")
    numbers = [int(line) for event in counting.output(follow=False) if event.type == "stdout" for line in event.data.split()]
    assert all(n <= m for n, m in zip(numbers, numbers[1:])), "a number came again"
    sandbox.delete()


def kill_behind_the_record(daemon, sandbox, thread):
    """Whether gateway and broker were killed between the record of the copy and the end of the resume."""
    record, pids = daemon.run / "sandboxes" / sandbox.id / "record", {"gateway": daemon.gateway_pid, "broker": daemon.broker_pid}
    thread.start()
    while thread.is_alive():
        if record.exists():
            for pid in pids.values():
                with contextlib.suppress(ProcessLookupError):  # one goes when the other does
                    os.kill(pid, signal.SIGKILL)
            thread.join()
            daemon.await_successors(pids)
            return True
    return False


def test_a_copy_that_lost_its_broker_before_it_served_is_reached_by_the_next(own):
    daemon, client = own
    sandbox = client.create()
    sandbox.run_code("x = [1, 2, 3]")
    counting = sandbox.start(COUNT)
    n_killed = 0
    for _ in range(20):
        sandbox.pause(to="disk")
        n_killed += kill_behind_the_record(daemon, sandbox, threading.Thread(target=quietly, args=(sandbox.resume,)))
        check(client, sandbox, counting, "none")
        if n_killed == 3:
            break
    else:
        pytest.fail("the resume was always faster")
    assert "cannot connect to the agent" not in daemon.log()
    sandbox.delete()


def find_criu(daemon):
    names = {pid: audit.comm_of(pid) for pid in children_of(daemon.broker_pid)}
    return next((pid for pid, name in names.items() if name == "criu"), None)


def test_a_criu_that_is_killed_in_a_resume_costs_that_try_alone(own):
    daemon, client = own
    sandbox = client.create()
    sandbox.run_code("x = [1, 2, 3]")
    counting = sandbox.start(COUNT)
    sandbox.pause(to="disk")
    thread = threading.Thread(target=quietly, args=(sandbox.resume,))
    thread.start()
    with contextlib.suppress(ProcessLookupError):
        os.kill(wait_for(lambda: find_criu(daemon), what="CRIU"), signal.SIGKILL)
    thread.join()
    assert look(client, sandbox) in ("running", "paused")
    check(client, sandbox, counting, "none")
    sandbox.delete()


def kill_criu_behind_its_first_process(daemon, thread):
    """Whether it was killed after it had made the first process of the copy, which is a child of the broker's, and before it was done."""
    while thread.is_alive():
        found = sorted(pid for pid in children_of(daemon.broker_pid) if audit.comm_of(pid) == "criu")
        if len(found) > 1:
            with contextlib.suppress(ProcessLookupError):
                os.kill(found[0], signal.SIGKILL)
                return True
    return False


def test_what_a_killed_criu_has_begun_is_reaped(own):
    daemon, client = own
    sandbox = client.create()
    sandbox.run_code("x = [1, 2, 3]")
    counting = sandbox.start(COUNT)
    for _ in range(20):
        sandbox.pause(to="disk")
        thread = threading.Thread(target=quietly, args=(sandbox.resume,))
        thread.start()
        was_killed = kill_criu_behind_its_first_process(daemon, thread)
        thread.join()
        look(client, sandbox)
        check(client, sandbox, counting, "none")
        if was_killed:
            break
    else:
        pytest.fail("CRIU was always faster")
    wait_for(lambda: not [p for p in children_of(daemon.broker_pid) if audit.is_zombie(p)], what="no dead child of the broker's")
    sandbox.delete()


def test_a_criu_that_is_killed_in_a_pause_leaves_one_clear_state(own):
    """A part of it is inside of the sandbox's processes then: they may not outlive it. What is told is true."""
    daemon, client = own
    sandbox = client.create()
    sandbox.run_code("x = [1, 2, 3]")
    thread = threading.Thread(target=quietly, args=(lambda: sandbox.pause(to="disk"),))
    thread.start()
    with contextlib.suppress(ProcessLookupError):
        os.kill(wait_for(lambda: find_criu(daemon), what="CRIU"), signal.SIGKILL)
    thread.join()
    state = look(client, sandbox)
    if state in ("running", "paused"):
        assert sandbox.run("echo on").stdout == "on\n"
    sandbox.delete()
    wait_for(lambda: not list(client.snapshots(sandbox=sandbox.id)), 20, "nothing of it")
