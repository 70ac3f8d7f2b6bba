# SPDX-License-Identifier: Apache-2.0
"""The package on a host whose init is systemd: installed, used, restarted, killed, upgraded. Each test goes on where the one before it ended, and the last
asks for a reboot, behind which is test_second_boot.py."""

import json
import os
import signal
import subprocess
from pathlib import Path

from rig.systemd.host import DEBS, HOME, STATE, apt, await_daemon, cloche, files, groups_of, journal, looping, patiently, run, sandbox, show, wait_for

LOOP = ["sh", "-c", "while :; do sleep 1; done", "the-loop"]
# An emulated processor without mitigations; and what is of vms, or of a daemon that has only now begun.
NOT_OF_THIS_HOST = {"cpu_flaws", "kvm", "qemu", "guest_kernel", "warm_copies", "kernel_limits"}


def test_an_installed_package_runs_and_is_ready():
    (STATE / "before").write_text("\n".join(files()))
    apt("install", DEBS / "old.deb")
    await_daemon()
    assert show("cloche.service", "SubState", "UnitFileState") == ["running", "enabled"]
    assert show("cloche-sandboxes.service", "ActiveState", "SubState", "Delegate") == ["active", "running", "yes"]
    assert cloche("run", "-T", "host", "--", "echo", "it works") == "it works\n"


def test_systemd_has_nothing_to_say_against_the_units():
    done = subprocess.run(["systemd-analyze", "verify", "cloche.service", "cloche-sandboxes.service"], capture_output=True, text=True)
    assert (done.returncode, [line for line in done.stderr.splitlines() if "cloche" in line]) == (0, [])
    said = journal("_PID=1", "-b", "-u", "cloche.service", "-u", "cloche-sandboxes.service")
    assert "ignoring" not in said and "left-over" not in said, said


def test_doctor_finds_what_a_jail_needs():
    found = json.loads(cloche("doctor", "--json"))
    assert found["jail"] is True
    assert {c["name"] for c in found["checks"] if not c["present"]} <= NOT_OF_THIS_HOST
    assert found["problems"] == []


def test_sandboxes_lie_below_the_unit_that_delegates():
    cloche("create", "-T", "host", "--name", "kept", "--memory", "256m")
    kept = sandbox("kept")
    cloche("exec", "-d", "kept", *LOOP)
    wait_for(lambda: len(groups_of(kept["id"])) >= 2, what="a process inside")
    groups = groups_of(kept["id"])
    assert all(g.startswith(HOME) for g in groups.values()), groups
    assert not list(Path("/sys/fs/cgroup").glob("cloche*"))
    user = Path("/sys/fs/cgroup" + groups[looping(kept["id"])])
    assert (user / "memory.max").read_text() == f"{256 << 20}\n"
    # A manager that reads its units again, and starts and stops others, takes nothing from what it has handed over.
    run("systemctl", "daemon-reload")
    run("systemd-run", "--wait", "--quiet", "-p", "MemoryMax=64M", "-p", "CPUWeight=50", "true")
    assert (user / "memory.max").read_text() == f"{256 << 20}\n"
    assert not [g for g in kept["isolation"]["gaps"] if "limit" in g], kept["isolation"]
    # The daemon's own are in its own unit.
    main = int(show("cloche.service", "MainPID"))
    assert Path(f"/proc/{main}/cgroup").read_text() == "0::/system.slice/cloche.service\n"


def test_memory_is_saved_and_copied_there():
    source = sandbox("kept")
    fork = patiently("fork", "kept").strip()
    groups = wait_for(lambda: groups_of(fork), what="the copy")
    assert all(g.startswith(HOME) for g in groups.values()), groups
    assert looping(fork) != looping(source["id"])
    cloche("rm", fork)
    wait_for(lambda: not groups_of(fork), what="its end")


def test_a_restart_a_stop_and_a_crash_end_no_sandbox():
    kept = sandbox("kept")["id"]
    loop = looping(kept)
    run("systemctl", "restart", "cloche")
    assert looping(kept) == loop
    assert cloche("exec", "kept", "echo", "on") == "on\n"
    run("systemctl", "stop", "cloche")
    assert show("cloche-sandboxes.service", "ActiveState") == "active"
    assert looping(kept) == loop
    run("systemctl", "start", "cloche")
    main = int(show("cloche.service", "MainPID"))
    os.kill(main, signal.SIGKILL)
    wait_for(lambda: int(show("cloche.service", "MainPID")) not in (0, main), what="a new daemon")
    await_daemon()
    assert looping(kept) == loop
    assert cloche("exec", "kept", "echo", "on") == "on\n"


def test_a_reload_takes_over_settings():
    main = show("cloche.service", "MainPID")
    config = Path("/etc/cloche/cloche.toml")
    config.write_text(config.read_text().replace('build = ["python", "universal", "kernel"]', "build = []"))
    run("systemctl", "reload", "cloche")
    wait_for(lambda: "build = []" in cloche("serve", "--print-config"), what="the setting")
    assert show("cloche.service", "MainPID") == main


def test_an_upgrade_ends_no_sandbox():
    kept = sandbox("kept")["id"]
    loop, main, home = looping(kept), show("cloche.service", "MainPID"), show("cloche-sandboxes.service", "InvocationID")
    before = run("dpkg-query", "-W", "-f", "${Version}", "cloche")
    apt("install", DEBS / "next.deb")
    after = run("dpkg-query", "-W", "-f", "${Version}", "cloche")
    run("dpkg", "--compare-versions", after, "gt", before)
    await_daemon()
    assert show("cloche.service", "MainPID") != main, "the upgrade starts the new daemon"
    assert show("cloche-sandboxes.service", "InvocationID") == home, "and lets the sandboxes' unit be"
    assert looping(kept) == loop
    assert cloche("exec", "kept", "echo", "on") == "on\n"
    assert "build = []" in Path("/etc/cloche/cloche.toml").read_text(), "settings that somebody changed stay"


def test_what_must_outlive_a_reboot_is_made():
    cloche("create", "-T", "host", "--name", "lasting", "--persistent")
    cloche("exec", "lasting", "sh", "-c", "echo kept > note")
    cloche("snapshot", "create", "--name", "good", "lasting")
    cloche("volume", "create", "--size", "64m", "data")
    cloche("run", "-T", "host", "--volume", "data:/data", "--", "sh", "-c", "echo too > /data/note")
    cloche("create", "-T", "host", "--name", "asleep", "--persistent")
    cloche("exec", "-d", "asleep", *LOOP)
    patiently("pause", "--to", "disk", "asleep")
    assert sandbox("asleep")["state"] == "paused"
    (STATE / "again").touch()
