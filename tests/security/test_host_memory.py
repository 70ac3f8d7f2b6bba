# SPDX-License-Identifier: Apache-2.0
"""R23: the host's memory runs out, here that of a small group which stands for it. Sandboxes die first, the daemon stays."""

import contextlib
import os
import subprocess
import sys
import uuid
from pathlib import Path

import pytest
from cloche import Client
from harness import audit
from harness.daemon import IS_SANITIZED, Daemon

MIB = 1 << 20
TREE = Path("/sys/fs/cgroup/memory")
pytestmark = [
    pytest.mark.skipif(not (TREE / "memory.limit_in_bytes").exists(), reason="no memory tree in which any group may hold processes"),
    pytest.mark.skipif(IS_SANITIZED, reason="a sanitized daemon is larger than the group that stands for the host"),
]
# Many that are small each: without a word to the kernel, the largest process goes, and that is not one of these.
CROWD = """
import os, time
for _ in range(40):
    there, here = os.pipe()
    if os.fork() == 0:
        b = bytearray(4 << 20)
        os.write(here, b"x")
        time.sleep(1000)
    os.close(here)
    if not os.read(there, 1):
        break  # it was killed
"""
STAND_IN = "import time\nb = bytearray(24 << 20)\nprint('ready', flush=True)\ntime.sleep(1000)"


def set_limit(group, limit):
    for name in ("memory.limit_in_bytes", "memory.memsw.limit_in_bytes"):
        if (group / name).exists():
            (group / name).write_text(str(limit))


def score_of(pid):
    return int(Path(f"/proc/{pid}/oom_score_adj").read_text())


def dies_beside_a_crowd(score):
    """Does the largest process die when a crowd of that score takes all memory?"""
    group = TREE / f"cloche-test-{uuid.uuid4().hex[:8]}"
    group.mkdir()
    started = []

    def join(own_score):
        def run():
            (group / "cgroup.procs").write_text(str(os.getpid()))
            Path("/proc/self/oom_score_adj").write_text(str(own_score))
        return run

    def start(code, own_score):
        started.append(subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, preexec_fn=join(own_score), start_new_session=True))
        return started[-1]

    try:
        stand_in = start(STAND_IN, 0)
        assert stand_in.stdout.readline() == b"ready\n"
        set_limit(group, 72 * MIB)
        start(CROWD, score).wait(60)  # its first process has that score too
        return stand_in.poll() is not None
    finally:
        for one in started:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(one.pid, 9)
            one.wait()
        while (group / "cgroup.procs").read_text():
            pass
        group.rmdir()


def test_R23_who_dies_is_decided_by_the_score_that_sandboxes_have(make_sandbox, daemon):
    sandbox = make_sandbox()
    sandbox.start(["sleep", "1000"])
    scores = {score_of(pid) for pid in audit.processes_of_cgroups({sandbox.id})}
    assert scores == {500} and all(score_of(pid) < 500 for pid in (daemon.process.pid, daemon.gateway_pid, daemon.broker_pid, daemon.wall_pid))


def test_R23_beside_such_a_crowd_the_largest_process_stays_and_without_the_score_it_dies():
    assert dies_beside_a_crowd(0)
    assert not dies_beside_a_crowd(500)


def test_R23_when_memory_of_all_runs_out_the_daemon_is_not_what_dies():
    daemon = Daemon("--pool-max", "0").start()
    parts = [daemon.process.pid, daemon.gateway_pid, daemon.broker_pid, daemon.wall_pid]
    try:
        with Client(daemon.url, daemon.key) as client:
            sandbox = client.create(limits={"memory_mib": 1024, "pids": 100})
            (group,) = [Path(one).parent for one in audit.cgroup_dirs({sandbox.id}) if one.startswith(f"{TREE}/")]
            for pid in parts:
                (group / "cgroup.procs").write_text(str(pid))
            set_limit(group, int((group / "memory.usage_in_bytes").read_text()) + 48 * MIB)
            crowd = sandbox.start(["python3", "-c", CROWD])
            assert crowd.wait(60).is_over
            info = sandbox.run(["python3", "-c", "b = bytearray(512 << 20)"], timeout=60)
            assert (info.signal, info.cause) == (9, "oom")
            crowd.kill()
            assert sandbox.run("echo alive").stdout == "alive\n"
            assert parts == [daemon.process.pid, daemon.gateway_pid, daemon.broker_pid, daemon.wall_pid]
    finally:
        for pid in parts:
            with contextlib.suppress(OSError):
                (TREE / "cgroup.procs").write_text(str(pid))
        ids = daemon.ids()
        status = daemon.stop()
        found = audit.left_after_stop(daemon, ids)
        daemon.remove()
    assert (status, found) == (0, [])
