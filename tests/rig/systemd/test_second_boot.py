# SPDX-License-Identifier: Apache-2.0
"""Behind a reboot: what must be back is, and a purge leaves nothing. Each test goes on where the one before it ended."""

import subprocess
from pathlib import Path

from rig.systemd.host import HOME, STATE, apt, await_daemon, cloche, files, groups_of, journal, looping, patiently, run, sandbox, show, wait_for


def test_the_host_went_down_in_order():
    said = journal("_PID=1", "-b", "-1", "-u", "cloche.service", "-u", "cloche-sandboxes.service")
    assert "Timed out" not in said and "timed out" not in said and "Failed with result" not in said.rpartition("Stopping")[2], said
    down = journal("_PID=1", "-b", "-1").rpartition("Stopping cloche.service")[2]
    assert "Failed unmounting" not in down and "Failed to unmount" not in down, down


def test_the_daemon_is_back_by_itself():
    await_daemon()
    assert show("cloche-sandboxes.service", "ActiveState") == "active"
    assert cloche("run", "-T", "host", "--", "echo", "it works") == "it works\n"


def test_persistent_state_is_back():
    assert sandbox("lasting")["state"] == "stopped"
    assert cloche("exec", "lasting", "cat", "note") == "kept\n"
    assert all(g.startswith(HOME) for g in groups_of(sandbox("lasting")["id"]).values())
    assert "good" in cloche("snapshot", "ls")
    fresh = cloche("create", "--snapshot", "good").strip()
    assert cloche("exec", fresh, "cat", "note") == "kept\n"
    assert cloche("run", "-T", "host", "--volume", "data:/data", "--", "cat", "/data/note") == "too\n"


def test_a_paused_sandbox_goes_on():
    assert sandbox("asleep")["state"] == "paused"
    patiently("resume", "asleep")
    assert looping(sandbox("asleep")["id"])


def test_what_was_not_persistent_is_gone():
    assert "kept" not in cloche("ps")


def test_a_removal_ends_all():
    ids = cloche("ps", "-q").split()
    assert ids
    apt("remove", "cloche")
    assert [groups_of(i) for i in ids if groups_of(i)] == []
    left = {p.read_text().strip() for p in Path("/proc").glob("[0-9]*/comm")}
    assert not {name for name in left if name.startswith("cloche")}
    assert not Path("/sys/fs/cgroup" + HOME).exists()
    assert "cloche" not in Path("/proc/self/mountinfo").read_text()


def test_a_purge_leaves_nothing():
    apt("purge", "cloche")
    assert files() - set((STATE / "before").read_text().split("\n")) == set()
    assert subprocess.run(["getent", "passwd", "cloche"], capture_output=True).returncode == 2
    assert run("systemctl", "list-units", "--all", "--plain", "--no-legend", "cloche*") == ""
    assert run("losetup", "-a") == ""
    wait_for(lambda: run("systemctl", "list-jobs", "--no-legend") == "", what="a manager at rest")
