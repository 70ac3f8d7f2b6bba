# SPDX-License-Identifier: Apache-2.0
"""A process's number is given to another as soon as it is gone: who ends an exec must not meet that one.

The kernel is told from the host which number is next (ns_last_pid of the sandbox's pid namespace), so that what takes days of
forking by chance happens each time.
"""

import contextlib
import subprocess
import threading

import pytest
from cloche import errors
from harness import audit
from harness.daemon import wait_for

pytestmark = pytest.mark.jail("the host sets the next number of a process, which a vm's kernel gives")

SLEEP = "echo $$; exec sleep 1000"
UNTIL_EOF = "echo $$; read line"


@pytest.fixture
def reuse(make_sandbox):
    """(a sandbox, a function that makes the next process in it have this number)"""
    sandbox = make_sandbox()
    agent = min(audit.processes_of_cgroups({sandbox.id}))

    def set_next(pid):
        write = ["nsenter", "-t", str(agent), "-p", "sh", "-c", f"echo {pid - 1} > /proc/sys/kernel/ns_last_pid"]
        if subprocess.run(write, stderr=subprocess.DEVNULL).returncode != 0:
            pytest.skip("this kernel does not let the next number be set")

    return sandbox, set_next


def pid_of(e):
    """The number of its process, inside."""
    return int(wait_for(lambda: b"".join(x.data for x in e.output(follow=False)), 10, "its number"))


def start_as(sandbox, set_next, pid):
    """An exec whose process has this number. The agent forks ahead for the next exec, so it takes some tries."""
    started = []
    for _ in range(8):
        set_next(pid)
        started.append(sandbox.start(SLEEP))
        if pid_of(started[-1]) == pid:
            return started
    raise AssertionError(f"no exec had the number {pid}: {[pid_of(e) for e in started]}")


def test_O08_ending_an_exec_that_is_over_leaves_the_next_of_its_number_alone(reuse):
    sandbox, set_next = reuse
    first = sandbox.start(SLEEP)
    pid = pid_of(first)
    first.kill()
    assert first.wait(60).is_over
    others = start_as(sandbox, set_next, pid)
    for end in (lambda: first.kill(), lambda: first.signal("KILL"), lambda: first.signal("KILL", tree=True), lambda: first.delete()):
        try:
            end()
        except (errors.Conflict, errors.Gone, errors.NotFound):
            pass
        assert sandbox.run("true").exit_code == 0
    assert not any(e.refresh().is_over for e in others)
    sandbox.run(["kill", "-9", str(pid)], user="root")  # the control: by number it is met
    assert others[-1].wait(60).signal == 9


def test_O08_a_signal_that_meets_the_end_of_its_process_hits_no_other(reuse):
    """Execs end by themselves while they are killed, and each successor has the number of the one before."""
    sandbox, set_next = reuse
    bystander = sandbox.start(SLEEP)
    for _ in range(10):
        short = sandbox.start(UNTIL_EOF, open_stdin=True)
        pid = pid_of(short)
        killer = threading.Thread(target=short.kill)
        killer.start()
        with contextlib.suppress(errors.ClocheError):  # it may be over
            short.close_stdin()
        set_next(pid)
        long = sandbox.start(SLEEP)
        killer.join(30)
        assert sandbox.run("true").exit_code == 0
        assert not long.refresh().is_over, (pid, long.info)
        long.kill()
    assert not bystander.refresh().is_over
