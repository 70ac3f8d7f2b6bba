# SPDX-License-Identifier: Apache-2.0
"""Every end has a cause, with the figure that decided it, in the API, the log and the SDK; and last words stay."""

import contextlib
import os
import pathlib
import shlex
import signal

import pytest
from cloche import errors
from harness import audit
from harness.daemon import PATIENCE, wait_for

EAT = ["python3", "-c", "b = [bytearray(8 << 20) for _ in range(128)]"]  # by pieces: a kernel of its own refuses one that is larger than all it has
SHARE = "import os, time\ninput('ready')\nfor _ in range(8): os.fork() or [bytearray(8 << 20), time.sleep(1000)]\ntime.sleep(1000)"
FORKS = ["python3", "-c", "import os, time\nwhile True:\n    if os.fork() == 0: time.sleep(1000)"]


def end_of(sandbox):
    return wait_for(lambda: sandbox.refresh() if sandbox.refresh().state in ("stopped", "failed") else None, 20, "the end").ended


def test_memory_that_ran_out_is_told_and_the_sandbox_lives_on(make_sandbox, daemon):
    sandbox = make_sandbox(limits={"memory_mib": 128})
    r = sandbox.run(f"echo last words; exec {shlex.join(EAT)}")
    assert r.cause == "oom" and r.stdout == "last words\n"
    detail = r.exec.ended["detail"]
    assert detail["limit_bytes"] == 128 << 20
    assert detail["kills"] >= 1 and detail["peak_bytes"] >= 48 << 20 and detail["victim"] == "command"
    with pytest.raises(errors.OutOfMemory) as e:
        sandbox.run(EAT).check()
    assert e.value.detail["limit_bytes"] == 128 << 20 and "128 MiB" in str(e.value)
    assert "exec.oom" in daemon.log()
    assert sandbox.run("echo alive").check().stdout == "alive\n"


def squeeze_agent(sandbox):
    """Leaves too little memory to the agent's group, the sandbox's own included where they are one. Gives the limit."""
    for one in map(pathlib.Path, audit.cgroup_dirs({sandbox.id})):
        if (one / "memory.limit_in_bytes").exists():
            for name in ("memory.limit_in_bytes", "memory.memsw.limit_in_bytes"):
                if (one / name).exists():
                    (one / name).write_text(str(32 << 20))
            return 32 << 20
        if (one / "init" / "memory.max").exists():
            (one / "init" / "memory.max").write_text("65536")
            return 65536
    pytest.skip("this host has no limit of memory")


@pytest.mark.jail("a vm's kernel spares its init; test_vm_ends.py ends one")
def test_memory_that_ran_out_for_the_agent_ends_the_sandbox_and_is_told(make_sandbox, daemon):
    sandbox = make_sandbox(limits={"memory_mib": 64})
    running = sandbox.start(["python3", "-c", SHARE], open_stdin=True)
    wait_for(lambda: b"ready" in b"".join(x.data for x in running.output(follow=False)), 20, "its first word")
    agent, *others = sorted(audit.processes_of_cgroups({sandbox.id}))
    for pid, score in [(agent, 1000), *[(pid, 0) for pid in others]]:
        pathlib.Path(f"/proc/{pid}/oom_score_adj").write_text(str(score))  # else the kernel takes the largest one
    limit = squeeze_agent(sandbox)
    with contextlib.suppress(errors.ClocheError):
        running.write_stdin("go\n")
    ended = end_of(sandbox)
    assert (sandbox.info.state, ended["cause"]) == ("failed", "oom")
    assert ended["detail"]["victim"] == "agent" and ended["detail"]["kills"] >= 1 and "ran out" in ended["message"]
    assert ended["detail"]["limit_bytes"] == limit and ended["detail"]["peak_bytes"] > 0
    assert "sandbox.oom" in daemon.log()
    with pytest.raises(errors.Gone) as gone:
        sandbox.run("true")
    assert "oom" in str(gone.value)
    with pytest.raises(errors.OutOfMemory) as failed:
        raise errors.of_exec(running.refresh())
    assert failed.value.detail["victim"] == "agent"


def test_a_pids_limit_that_was_met_is_the_cause_of_what_failed(make_sandbox):
    sandbox = make_sandbox(limits={"pids": 20})
    r = sandbox.run(FORKS, timeout=20 * PATIENCE)
    assert (r.cause, r.exec.ended["detail"]["limit"]) == ("pids", 20)
    with pytest.raises(errors.OutOfProcesses):
        r.check()


def test_a_full_disk_is_the_cause_of_what_failed(make_sandbox):
    sandbox = make_sandbox(limits={"disk_mib": 32})
    if "disk_limit" in sandbox.info.isolation["gaps"]:
        pytest.skip("this host has no disk limit")
    r = sandbox.run("head -c 100M /dev/urandom > big")
    assert r.cause == "disk_full"
    detail = r.exec.ended["detail"]
    assert detail["limit_bytes"] == 32 << 20 and detail["used_bytes"] > 24 << 20
    with pytest.raises(errors.OutOfDisk):
        r.check()
    assert sandbox.run("rm big; true").cause == "exited"


def test_a_plain_failure_is_no_limit(make_sandbox):
    sandbox = make_sandbox()
    r = sandbox.run("exit 7")
    assert (r.cause, r.exec.ended["detail"]) == ("exited", {"exit_code": 7})
    r = sandbox.run("kill -SEGV $$")
    assert (r.cause, r.exec.ended["detail"]) == ("exited", {"signal": 11})
    with pytest.raises(errors.ExecFailed):
        r.check()


def test_timeout_and_kill_have_their_figures(make_sandbox):
    sandbox = make_sandbox()
    r = sandbox.run("sleep 1000", timeout=0.2)
    assert r.exec.ended["detail"] == {"timeout_ms": 200}
    with pytest.raises(errors.ExecTimedOut):
        r.check()
    e = sandbox.start("sleep 1000")
    assert e.kill().ended["detail"] == {"signal": 9, "by": "call"}


def test_the_end_of_a_sandbox_is_the_end_of_its_execs_and_their_output_stays(make_sandbox, client):
    sandbox = make_sandbox()
    e = sandbox.start("echo last words; sleep 1000")
    next(x for x in e.output() if x.type == "stdout")
    sandbox.update(timeout=0.05)
    ended = end_of(sandbox)
    assert (ended["cause"], ended["detail"]) == ("timeout", {"timeout_ms": 50})
    assert e.refresh().ended["cause"] == "timeout"
    assert b"".join(x.data for x in e.output() if x.type == "stdout") == b"last words\n"
    assert [x.id for x in client.get(sandbox.id).execs()] == [e.id]


def test_a_guest_that_is_killed_is_told_with_its_signal(make_sandbox):
    sandbox = make_sandbox()
    os.kill(min(audit.processes_of_cgroups({sandbox.id})), signal.SIGKILL)
    ended = end_of(sandbox)
    assert (ended["cause"], ended["detail"]) == ("guest_crash", {"signal": 9})
    with pytest.raises(errors.Gone) as e:
        sandbox.run("true")
    assert "guest_crash" in str(e.value)


def test_a_delete_takes_output_with_it(make_sandbox):
    sandbox = make_sandbox()
    e = sandbox.start("echo x")
    e.wait(60)
    assert sandbox.delete().ended["cause"] == "deleted"
    with pytest.raises(errors.NotFound):
        e.refresh()
