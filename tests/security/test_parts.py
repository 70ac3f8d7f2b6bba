# SPDX-License-Identifier: Apache-2.0
"""The daemon's own processes: what each has is what SECURITY.md says, as the kernel tells it."""

import os
import re
import signal
import subprocess

import pytest
from cloche import Client
from harness import audit
from harness.daemon import ENGINE, ROOT, Daemon, children_of, read_text, wait_for

NAMES = (
    "CHOWN DAC_OVERRIDE DAC_READ_SEARCH FOWNER FSETID KILL SETGID SETUID SETPCAP LINUX_IMMUTABLE NET_BIND_SERVICE NET_BROADCAST NET_ADMIN "
    "NET_RAW IPC_LOCK IPC_OWNER SYS_MODULE SYS_RAWIO SYS_CHROOT SYS_PTRACE SYS_PACCT SYS_ADMIN SYS_BOOT SYS_NICE SYS_RESOURCE SYS_TIME "
    "SYS_TTY_CONFIG MKNOD LEASE AUDIT_WRITE AUDIT_CONTROL SETFCAP MAC_OVERRIDE MAC_ADMIN SYSLOG WAKE_ALARM BLOCK_SUSPEND AUDIT_READ PERFMON "
    "BPF CHECKPOINT_RESTORE"
).split()
NAMESPACES = ("user", "pid", "mnt", "net", "ipc", "uts", "cgroup")


def rows(title):
    """A table of SECURITY.md, by process."""
    text = (ROOT / "SECURITY.md").read_text()
    table = text.partition(f"| {title} | user |")[2].partition("\n\n")[0].splitlines()[2:]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in table]
    return {row[0]: dict(zip(("user", "caps", "seccomp", "no_new_privs", "namespaces"), row[1:])) for row in cells}


def mask(words):
    names = re.findall(r"[A-Z][A-Z_]+", words)
    assert words == "none" or names, words
    return sum(1 << NAMES.index(name) for name in names)


def status(pid):
    return dict(line.split(":\t", 1) for line in read_text(f"/proc/{pid}/status").splitlines() if ":\t" in line)


def own_namespaces(pid):
    return {n for n in NAMESPACES if os.readlink(f"/proc/{pid}/ns/{n}") != os.readlink(f"/proc/self/ns/{n}")}


def user_kind(uids):
    real, effective, saved, _ = (int(u) for u in uids.split())
    assert real == effective == saved
    return "root" if real == 0 else "nobody" if real == 65534 else "of no account" if real >= 0x30000000 - 65536 else "cloche"


def named(parent, comm):
    return next((p for p in children_of(parent) if read_text(f"/proc/{p}/comm").strip() == comm), None)


def parts_of(daemon):
    launcher, broker = daemon.process.pid, daemon.broker_pid
    return {
        "launcher": launcher,
        "starter of the launcher": named(launcher, "cloche-starter"),
        "gateway": named(launcher, "cloche-gateway"),
        "wall": named(launcher, "cloche-wall"),
        "dialer": named(launcher, "cloche-dialer"),
        "broker": broker,
        "starter of the broker": named(broker, "cloche-starter"),
        "spawner": named(broker, "cloche-spawner"),
        "zygote": named(broker, "python3"),
    }


@pytest.fixture
def own():
    daemon = Daemon("--pool-min", "0", "--pool-max", "0")
    daemon.start()
    yield daemon
    daemon.stop()
    daemon.remove()


def check(name, pid, said):
    """A process against its row."""
    is_so = status(pid)
    at_most = int(status(os.getpid())["CapBnd"], 16)  # what this host gives to root
    caps = mask(said["caps"]) & (at_most if is_so["Uid"].startswith("0\t") else -1)
    found = {
        "user": user_kind(is_so["Uid"]),
        "seccomp": {"0": "no", "2": "yes"}[is_so["Seccomp"]],
        "no_new_privs": {"0": "no", "1": "yes"}[is_so["NoNewPrivs"]],
        "namespaces": own_namespaces(pid),
    }
    wanted = {key: said[key] for key in ("user", "seccomp", "no_new_privs")} | {"namespaces": set(re.findall(r"[a-z]+", said["namespaces"])) - {"host", "s", "the"}}
    assert (name, found) == (name, wanted)
    for kind in ("CapPrm", "CapEff", "CapBnd"):
        assert (name, kind, f"{int(is_so[kind], 16):x}") == (name, kind, f"{caps:x}")


def test_H01_each_part_has_what_SECURITY_says_and_nothing_else(own):
    wait_for(lambda: all(parts_of(own).values()), what="all parts")
    table = rows("process")
    for name, pid in parts_of(own).items():
        check(name, pid, table.pop(name))
    assert not table, f"SECURITY.md has rows that no process was looked at for: {list(table)}"


@pytest.mark.vm
def test_H01_what_is_around_a_sandbox_has_what_SECURITY_says_and_nothing_else(sandbox):
    names = {"qemu-system-": "QEMU of a vm", "cloche-vmm": "cloche-vmm of a vm", "memfd:cloche-": "agent of a jail", "cloche-standby": "agent of a jail"}
    table, found = rows("process around a sandbox"), set()
    for pid in audit.processes_of_cgroups({sandbox.id}):
        comm = read_text(f"/proc/{pid}/comm").strip()
        name = next((row for begin, row in names.items() if comm.startswith(begin)), None)
        if name:  # else it is what runs inside: an interpreter
            check(name, pid, table[name])
            found.add(name)
    assert found == {row for row in table if row.endswith(f"of a {ENGINE}")}


def test_H03_who_kills_a_starter_costs_a_restart_and_no_sandbox(own):
    with Client(own.url, own.key) as client:
        sandbox = client.create(engine=ENGINE)
        broker = own.broker_pid
        os.kill(named(broker, "cloche-starter"), signal.SIGKILL)
        own.await_successors({"broker": broker})
        assert wait_for(lambda: sandbox.run(["echo", "here"]).stdout == "here\n", what="the sandbox")
        other = client.create(engine=ENGINE)
        assert other.run(["echo", "new"]).stdout == "new\n"
        other.delete()
        sandbox.delete()


def test_H03_a_daemon_whose_own_starter_is_killed_ends_and_says_so():
    daemon = Daemon(rm=False)
    daemon.start()
    os.kill(named(daemon.process.pid, "cloche-starter"), signal.SIGKILL)
    assert daemon.process.wait(60) != 0
    assert "starts the daemon's parts has died" in daemon.log()
    sweep = [daemon.program, "serve", "--sweep", "--data", daemon.data, "--run", daemon.run, "--listen", "none"]
    subprocess.run(sweep, check=True, timeout=120, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    daemon.remove()
