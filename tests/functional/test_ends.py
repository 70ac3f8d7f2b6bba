# SPDX-License-Identifier: Apache-2.0
"""How commands and sandboxes end: timeouts, signals, whole trees, deletes at bad moments."""

import contextlib
import os
import threading
import time
from pathlib import Path

import pytest
from cloche import errors
from harness import audit
from harness.daemon import PATIENCE, wait_for

TREE = """
import os, signal, sys, time
def leaf():
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    open("/tmp/leaf-%d" % os.getpid(), "w").close()
    time.sleep(1000)
for _ in range(3):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            os.setsid()
            leaf()
        os._exit(0)
while len([n for n in os.listdir("/tmp") if n.startswith("leaf-")]) < 3:
    time.sleep(0.01)
print("grown", flush=True)
time.sleep(1000)
"""


def sleepers(sandbox):
    """How many processes of TREE live inside; zombies have no command line."""
    return int(sandbox.run("grep -la '^[i]mport.*, time$' /proc/[0-9]*/cmdline | wc -l").stdout)


def test_a_timeout_ends_the_command_with_its_cause(sandbox):
    r = sandbox.run(["sleep", "1000"], timeout=0.3)
    assert (r.exit_code, r.signal, r.cause) == (None, 15, "timeout")


def test_a_timeout_lets_the_command_clean_up(sandbox):
    r = sandbox.run("trap 'echo bye; exit 4' TERM; while :; do sleep 0.05; done", timeout=0.5 * PATIENCE)
    assert (r.stdout, r.exit_code, r.cause) == ("bye\n", 4, "timeout")


@pytest.mark.slow
def test_a_command_that_ignores_term_is_killed_after_the_grace(sandbox):
    for timeout in (0.3, 3, 30):  # as long as it takes to come to the trap
        r = sandbox.run("trap '' TERM; echo deaf; while :; do sleep 0.05; done", timeout=timeout)
        if r.stdout:
            break
    assert (r.signal, r.cause) == (9, "timeout")


def test_a_stopped_command_is_ended_by_its_timeout(sandbox):
    r = sandbox.run("kill -STOP $$", timeout=0.5)
    assert r.cause == "timeout"
    assert r.signal in (9, 15)


@pytest.mark.slow
def test_a_timeout_takes_daemons_of_two_forks_too(sandbox):
    r = sandbox.run(["python3", "-c", TREE], timeout=3 * PATIENCE)
    assert r.cause == "timeout"
    assert r.stdout == "grown\n"
    wait_for(lambda: sleepers(sandbox) == 0, 15, "the end of all descendants")


def test_kill_takes_the_whole_tree(sandbox):
    e = sandbox.start(["python3", "-c", TREE])
    next(x for x in e.output() if x.type == "stdout")
    assert sleepers(sandbox) == 4
    info = e.kill()
    assert (info.signal, info.cause) == (9, "killed")
    wait_for(lambda: sleepers(sandbox) == 0, 15, "the end of all descendants")


def test_deleting_an_exec_takes_its_tree(sandbox):
    e = sandbox.start(["python3", "-c", TREE])
    next(x for x in e.output() if x.type == "stdout")
    e.delete()
    wait_for(lambda: sleepers(sandbox) == 0, 15, "the end of all descendants")


@pytest.mark.parametrize("signal", ["INT", "SIGINT", 2])
def test_a_signal_reaches_the_command(sandbox, signal):
    e = sandbox.start("trap 'echo caught; exit 5' INT; echo set; while :; do sleep 0.05; done")
    events = e.output()
    next(x for x in events if x.type == "stdout")
    e.signal(signal)
    assert e.wait(60).exit_code == 5


def test_death_by_signal_tells_the_signal(sandbox):
    r = sandbox.run("kill -SEGV $$")
    assert (r.exit_code, r.signal) == (None, 11)


@pytest.mark.parametrize("signal", ["NOPE", "", 0, 65, -1, 1.5, None, True, "SIGSIGINT"])
def test_a_signal_that_does_not_exist_is_refused(sandbox, signal):
    e = sandbox.start(["sleep", "1000"])
    with pytest.raises(errors.InvalidField) as error:
        e.signal(signal)
    assert error.value.field == "signal"
    e.kill()


def test_a_signal_to_what_is_over_is_refused(sandbox):
    e = sandbox.start(["true"])
    e.wait(60)
    with pytest.raises((errors.Gone, errors.Conflict)):
        e.signal("TERM")


def test_deleting_a_sandbox_ends_the_call_that_waits_in_it(make_sandbox):
    sandbox = make_sandbox()
    result = []

    def run():
        try:
            result.append(sandbox.run(["sleep", "1000"]))
        except errors.ClocheError as e:
            result.append(e)

    thread = threading.Thread(target=run)
    thread.start()
    wait_for(lambda: sandbox.execs(), 10, "the exec")
    assert sandbox.delete().ended["cause"] == "deleted"
    thread.join(30)
    assert not thread.is_alive()
    outcome = result[0]
    assert getattr(outcome, "code", None) == "gone" or outcome.cause in ("deleted", "killed")


def test_a_second_delete_forgets_and_a_third_finds_nothing(client, engine, template):
    sandbox = client.create(engine=engine, template=template)
    assert sandbox.delete().state == "stopped"
    assert client.get(sandbox.id).info.ended["cause"] == "deleted"
    sandbox.delete()
    with pytest.raises(errors.NotFound):
        client.get(sandbox.id)
    assert (sandbox.delete().id, sandbox.stop().id) == (sandbox.id, sandbox.id)  # as a `finally` wants it


def test_deletes_at_the_same_time_all_get_an_answer(make_sandbox):
    sandbox = make_sandbox()
    answers = []

    def delete():
        try:
            answers.append(sandbox.delete().state)
        except errors.NotFound:
            answers.append("forgotten")

    threads = [threading.Thread(target=delete) for _ in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join(30)
    assert len(answers) == 8
    assert "stopped" in answers


def test_an_exec_in_a_deleted_sandbox_is_gone(make_sandbox):
    sandbox = make_sandbox()
    sandbox.delete()
    with pytest.raises(errors.Gone):
        sandbox.run(["true"])


def test_a_sandbox_ends_when_its_lifetime_is_over(client, make_sandbox):
    sandbox = make_sandbox(timeout=PATIENCE)
    with pytest.raises(errors.ClocheError):
        r = sandbox.run(["sleep", "1000"], timeout=60)
        assert r.cause == "timeout"
        raise errors.Gone("it was told as a result")
    info = wait_for(lambda: sandbox.refresh() if sandbox.refresh().ended else None, 15, "the end")
    assert info.ended["cause"] == "timeout"


@pytest.mark.slow
def test_a_lifetime_can_be_prolonged(make_sandbox):
    sandbox = make_sandbox()
    sandbox.update(timeout=3)
    before = sandbox.info.expires_us
    sandbox.update(timeout=60 * PATIENCE)
    assert sandbox.info.expires_us > before
    assert sandbox.info.expires_us > time.time() * 1e6 + 30e6
    assert sandbox.run(["sleep", "3.2"]).exit_code == 0


def test_killing_everything_inside_leaves_the_sandbox_usable(sandbox):
    e = sandbox.start(["sleep", "1000"])
    sandbox.run("kill -9 -1", user="root")
    assert e.wait(60).signal == 9
    assert sandbox.run("echo alive").stdout == "alive\n"


FREEZER = Path("/sys/fs/cgroup/freezer")


@contextlib.contextmanager
def frozen(pid):
    """It gets no CPU meanwhile, as on a busy host. Of this freezer alone even a SIGKILL waits."""
    group = FREEZER / f"cloche-test-{pid}"
    home = FREEZER / next(line.split(":")[2].lstrip("/") for line in Path(f"/proc/{pid}/cgroup").read_text().splitlines() if ":freezer:" in line)
    group.mkdir()
    try:
        (group / "cgroup.procs").write_text(str(pid))
        (group / "freezer.state").write_text("FROZEN")
        wait_for(lambda: (group / "freezer.state").read_text() == "FROZEN\n", what="a process that is frozen")
        yield
    finally:
        (group / "freezer.state").write_text("THAWED")
        with contextlib.suppress(OSError):  # it has died
            (home / "cgroup.procs").write_text(str(pid))
        wait_for(lambda: not (group / "cgroup.procs").read_text(), what="an empty group")
        group.rmdir()


@pytest.mark.jail("processes of a vm are not the host's")
@pytest.mark.skipif(not (FREEZER / "cgroup.procs").exists(), reason="no freezer of cgroup v1, below which a SIGKILL would wait")
def test_what_was_killed_and_has_not_died_yet_runs_no_command(sandbox):
    """The agent forks a child ahead of the next command: on a busy host it may be long dying of a kill of everything."""
    def standbys():
        return [p for p in audit.processes_of_cgroups({sandbox.id}) if audit.comm_of(p) == "cloche-standby"]

    killer = sandbox.start("echo up; read x; kill -9 -1", user="root", open_stdin=True)
    next(x for x in killer.output() if x.type == "stdout")
    (standby,) = wait_for(standbys, what="a child that waits")
    with frozen(standby):
        killer.write_stdin(b"go\n", eof=True)
        killer.wait(60)
        assert os.path.exists(f"/proc/{standby}"), "it has died at once"
        alive = sandbox.start("echo alive")
        wait_for(lambda: alive.refresh().is_over, what="the end of a command that nobody killed")
    assert alive.wait(60).exit_code == 0
