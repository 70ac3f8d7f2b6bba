# SPDX-License-Identifier: Apache-2.0
"""A guest that turns on its host: it floods, stops answering or dies. Frames that lie are the unit tests' part, which
speak for the agent themselves."""

import os
import signal
import threading

import pytest
from cloche import errors
from harness import audit
from harness.daemon import PATIENCE, memory_kib, wait_for

# Single bytes on both streams, each a frame of its own, for as long as it is let.
DRIP = ["python3", "-c", "import os\nwhile True:\n os.write(1, b'x')\n os.write(2, b'y')"]


def written(execs):
    return sum(e.refresh().raw["stdout_bytes"] for e in execs)


@pytest.mark.parametrize("flood", [DRIP, ["/tmp/probe", "flood", "1000000"]], ids=["tiny", "large"])
def test_G04_a_guest_that_floods_starves_no_neighbour(make_sandbox, probe_in, daemon, flood):
    loud, neighbour = make_sandbox(), make_sandbox()
    probe_in(loud)
    base = memory_kib(daemon.gateway_pid)
    execs = [loud.start(flood) for _ in range(6)]
    seen = wait_for(lambda: written(execs), 30, "the flood")
    for i in range(10):
        assert neighbour.run(["echo", str(i)], timeout=60 * PATIENCE).stdout == f"{i}\n"
        neighbour.files.write("x", str(i).encode())
        assert neighbour.files.read("x") == str(i).encode()
    assert loud.run(["echo", "also here"], timeout=60 * PATIENCE).stdout == "also here\n"
    assert not any(e.refresh().is_over for e in execs), "the flood ended: nothing was shown"
    wait_for(lambda: written(execs) > seen, 30, "more of the flood")
    assert memory_kib(daemon.gateway_pid) < base + 48 * 1024
    for e in execs:
        assert e.kill().cause == "killed"


@pytest.fixture
def agent_pid(sandbox):
    """The sandbox's first process, as the host sees it; goes on at the end in any case."""
    def is_first(pid):
        with open(f"/proc/{pid}/status") as f:
            return any(line.startswith("NSpid:") and line.split()[-1] == "1" for line in f)

    pid = next(p for p in audit.processes_of_cgroups({sandbox.id}) if is_first(p))
    yield pid
    if pid in audit.processes_of_cgroups({sandbox.id}):
        os.kill(pid, signal.SIGCONT)


@pytest.mark.slow
def test_G05_an_agent_that_stands_still_fails_its_own_calls_only(sandbox, make_sandbox, agent_pid, daemon):
    neighbour = make_sandbox()
    base = memory_kib(daemon.gateway_pid)
    os.kill(agent_pid, signal.SIGSTOP)
    outcome = []

    def call_it():
        try:
            outcome.append(sandbox.run(["true"], timeout=5))
        except errors.ClocheError as e:
            outcome.append(e)

    threads = [threading.Thread(target=call_it) for _ in range(20)]
    for t in threads:
        t.start()
    while any(t.is_alive() for t in threads):
        assert neighbour.run(["echo", "fine"]).stdout == "fine\n"
        threads[0].join(0.2)
    assert len(outcome) == 20
    assert {getattr(o, "code", "a result") for o in outcome} == {"unavailable"}
    assert memory_kib(daemon.gateway_pid) < base + 16 * 1024
    os.kill(agent_pid, signal.SIGCONT)

    def answers():
        try:
            return sandbox.run(["echo", "again"]).stdout == "again\n"
        except errors.Unavailable:
            return False

    wait_for(answers, 60, "the agent")


@pytest.mark.slow
def test_G05_a_sandbox_whose_agent_stands_still_can_be_deleted(make_sandbox):
    sandbox = make_sandbox()
    for pid in audit.processes_of_cgroups({sandbox.id}):
        os.kill(pid, signal.SIGSTOP)
    assert sandbox.delete().ended["cause"] == "deleted"
    assert audit.processes_of_cgroups({sandbox.id}) == set()


def test_G05_an_agent_that_dies_ends_its_sandbox_with_the_cause(sandbox, make_sandbox, agent_pid):
    neighbour = make_sandbox()
    waiting = sandbox.start(["sleep", "1000"])
    os.kill(agent_pid, signal.SIGKILL)
    info = wait_for(lambda: sandbox.refresh() if sandbox.refresh().ended else None, 30, "the end")
    assert info.ended["cause"] in ("guest_crash", "killed")
    with pytest.raises(errors.ClocheError) as e:
        sandbox.run(["true"])
    assert e.value.status in (404, 409, 410)
    try:
        assert waiting.refresh().is_over
    except errors.NotFound:
        pass
    assert neighbour.run(["echo", "fine"]).stdout == "fine\n"
