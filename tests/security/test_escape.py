# SPDX-License-Identifier: Apache-2.0
"""What must not be possible from inside, by system calls: each attempt with its exact errno, and with a control that
shows what the kernel says where the wall is absent."""

import json
import os
import platform
import socket
import subprocess
from pathlib import Path

import pytest
from harness.daemon import read_text
from harness.vm import of_a_shared_kernel

NAMESPACES = ["NEWUSER", "NEWNS", "NEWPID", "NEWNET", "NEWIPC", "NEWUTS", "NEWCGROUP"]


def expect(found, wanted):
    got = {name: (found[name]["errno"] or "success") if name in found else "not tried" for name in wanted}
    assert got == wanted


@of_a_shared_kernel
def test_E06_no_namespace_can_be_made_or_joined(probe, user, control):
    wanted = {f"unshare:{n}": "EPERM" for n in [*NAMESPACES, "NEWTIME"]}
    wanted.update({f"clone:{n}": "EPERM" for n in NAMESPACES})
    wanted.update({f"setns:{n}": "EPERM" for n in ("user", "mnt", "net", "pid")})
    wanted.update({"clone3": "ENOSYS", "thread": "success"})
    found, outside = probe("namespaces", user=user), control("namespaces")
    assert {n for n, r in outside.items() if r["errno"] == "EPERM"} == set()
    expect(found, wanted)


def test_E06_threads_and_children_work_all_the_same(sandbox):
    code = "import threading, subprocess; t = threading.Thread(target=print, args=('t',)); t.start(); t.join(); print(subprocess.run(['true']).returncode)"
    assert sandbox.run(["python3", "-c", code]).stdout == "t\n0\n"


def test_E07_nothing_can_be_mounted_or_unmounted(probe, user, control, sandbox):
    before = sandbox.run(["cat", "/proc/self/mountinfo"]).stdout
    found, outside = probe("mounts", user=user), control("mounts")
    assert outside["mount:tmpfs"]["errno"] == outside["fsopen"]["errno"] == outside["umount2"]["errno"] == ""
    expect(found, {name: "EPERM" for name in found})
    assert len(found) == 13
    assert sandbox.run(["cat", "/proc/self/mountinfo"]).stdout == before


def test_E08_root_cannot_be_changed(probe, user, control):
    assert control("chroot")["chroot"]["errno"] == ""
    expect(probe("chroot", user=user), {"chroot": "EPERM"})


def test_E05_the_agent_can_be_neither_traced_nor_read_nor_signalled(probe, user, control, sandbox, engine):
    outside = control("ptrace")
    for name in ("proc_mem", "process_vm_readv", "pidfd_getfd", "ptrace_seize"):
        assert outside[name]["errno"] == ""
    found = probe("ptrace", 1, user=user)
    if (engine, user) != ("vm", "root"):  # whose machine it is
        expect(found, {"proc_fd": "EACCES"})
    expect(found, {
        "proc_mem": "EACCES", "proc_exe_write": "EACCES", "proc_environ": "EACCES",
        "process_vm_readv": "EPERM", "process_vm_writev": "EPERM", "pidfd_getfd": "EPERM", "ptrace_seize": "EPERM",
    })
    if user == "user":
        expect(found, {"kill_0": "EPERM", "kill_term": "EPERM", "kill_kill": "EPERM", "kill_stop": "EPERM"})
    assert sandbox.run("echo alive").stdout == "alive\n"


def test_E04_a_pid_of_the_host_means_nothing_inside(probe, user, daemon):
    pid = daemon.process.pid
    os.kill(pid, 0)
    expect(probe("pid", pid, user=user), {"kill": "ESRCH", "pidfd_open": "ESRCH"})


@of_a_shared_kernel
def test_E04_only_its_own_processes_are_seen(sandbox, user):
    pids = [int(p) for p in sandbox.run("ls /proc | grep '^[0-9]'", user=user).stdout.split()]
    assert 1 in pids and len(pids) < 12


def test_E04_killing_all_that_can_be_killed_ends_neither_agent_nor_host(probe, user, sandbox, daemon):
    probe.run("kill-all", user=user)
    assert sandbox.run("echo alive").stdout == "alive\n"
    assert daemon.process.poll() is None


@of_a_shared_kernel
def test_E09_keyrings_are_as_if_the_kernel_had_none(probe, user, control):
    if control("keys")["keyctl"]["errno"] == "ENOSYS":
        pytest.skip("this kernel has no keyrings")
    expect(probe("keys", user=user), {"keyctl": "ENOSYS", "add_key": "ENOSYS", "request_key": "ENOSYS"})


DOORS = {
    "bpf": "EPERM", "perf_event_open": "EPERM", "fanotify_init": "EPERM", "io_uring_setup": "ENOSYS", "io_uring_enter": "ENOSYS",
    "io_uring_register": "ENOSYS", "userfaultfd": "ENOSYS", "kexec_load": "EPERM", "kexec_file_load": "EPERM", "reboot": "EPERM", "init_module": "EPERM",
    "finit_module": "EPERM", "delete_module": "EPERM", "swapon": "EPERM", "swapoff": "EPERM", "acct": "EPERM", "quotactl": "EPERM",
    "syslog": "EPERM", "settimeofday": "EPERM", "clock_settime": "EPERM", "adjtimex": "EPERM", "sethostname": "EPERM",
    "setdomainname": "EPERM", "personality": "EPERM", "open_by_handle_at": "EPERM", "name_to_handle_at": "EPERM",
    "memfd_secret": "ENOSYS", "lookup_dcookie": "EPERM",
}


@pytest.mark.parametrize("door", sorted(DOORS))
def test_E10_to_E13_E36_E42_a_door_into_the_kernel_is_closed(doors, door):
    found, outside = doors
    assert found["user"][door]["errno"] == found["root"][door]["errno"] == DOORS[door]
    if outside[door]["errno"] == DOORS[door]:
        pytest.skip(f"this kernel itself says {DOORS[door]}")


@pytest.fixture(scope="module")
def doors(client, daemon, control, probe_in):
    with client.create() as sandbox:
        probe = probe_in(sandbox)
        yield {u: probe("doors", user=u) for u in ("user", "root")}, control("doors")


def test_E11_programs_that_like_io_uring_do_without(sandbox):
    if sandbox.run("command -v node").exit_code != 0:
        pytest.skip("the template has no node")
    code = "require('fs').promises.readFile('/etc/passwd').then(b => console.log(b.length > 0, process.report.getReport().header.nodejsVersion.length > 1))"
    r = sandbox.run(["node", "-e", code], env={"UV_USE_IO_URING": "1"}, timeout=60)
    assert (r.exit_code, r.stdout) == (0, "true true\n"), r.stderr


AUTOLOAD = {
    "socket:SCTP": "EPROTONOSUPPORT", "socket:SCTP-SEQPACKET": "EPERM", "socket:DCCP": "EPERM", "socket:L2TP": "EPROTONOSUPPORT",
    "socket:SMC6": "EPROTONOSUPPORT", "socket:UNASSIGNED": "EPERM", "socket:INET-UNASSIGNED": "EPROTONOSUPPORT",
    "socket:UDPLITE": "EPROTONOSUPPORT", "socket:MPTCP": "EPROTONOSUPPORT", "line_discipline": "EPERM", "mount": "EPERM",
    "exec_unknown_format": "ENOEXEC",
}


@of_a_shared_kernel
def test_E14_no_odd_name_makes_the_kernel_load_a_module(probe, user, control):
    """On a host without modules the errnos alone speak: they are the filter's, where the kernel's own are others."""
    outside = control("autoload")
    expect(outside, {"socket:UNASSIGNED": "EAFNOSUPPORT", "line_discipline": "EINVAL", "mount": "ENODEV"})
    before = {line.split()[0] for line in read_text("/proc/modules").splitlines()}
    found = probe("autoload", user=user)
    expect(found, AUTOLOAD)
    assert found["congestion"]["errno"] in ("ENOENT", "EPERM")
    assert {line.split()[0] for line in read_text("/proc/modules").splitlines()} == before


SOCKETS = {
    "UNIX": "success", "INET": "success", "INET6": "success", "INET-DGRAM": "success", "NETLINK-ROUTE": "success",
    "NETLINK-NETFILTER": "EPERM", "NETLINK-GENERIC": "EPERM", "NETLINK-AUDIT": "EPROTONOSUPPORT", "INET-RAW": "EPERM", "INET6-RAW": "EPERM",
    "INET-RAW-CLOEXEC": "EPERM", "PACKET": "EPERM", "PACKET-DGRAM": "EPERM", "ALG": "EPERM", "VSOCK": "EPERM", "KEY": "EPERM", "RXRPC": "EPERM",
    "XDP": "EPERM", "TIPC": "EPERM", "CAN": "EPERM", "SMC": "EPERM", "BLUETOOTH": "EPERM", "SMC-AS-PROTOCOL": "EPROTONOSUPPORT",
}


@of_a_shared_kernel
def test_E33_only_local_and_internet_sockets_can_be_made(probe, user, control):
    outside = control("sockets")
    for name in ("PACKET", "INET-RAW", "NETLINK-NETFILTER"):
        assert outside[f"socket:{name}"]["errno"] == ""
    assert all(r["errno"] != "EPERM" for r in outside.values())
    found = probe("sockets", user=user)
    expect(found, {f"socket:{n}": e for n, e in SOCKETS.items()})
    expect(found, {"socketpair:UNIX": "success", "socketpair:TIPC": "EPERM"})


@of_a_shared_kernel
def test_E34_pages_cannot_be_spliced(probe, user, control):
    outside = control("splice")
    assert outside["splice"]["errno"] == outside["tee"]["errno"] == outside["vmsplice"]["errno"] == ""
    expect(probe("splice", user=user), {
        "splice": "EINVAL", "tee": "EINVAL", "vmsplice": "ENOSYS", "udp_encap": "ENOPROTOOPT", "tcp_ulp": "ENOPROTOOPT",
        "attach_bpf": "ENOPROTOOPT", "attach_reuseport_cbpf": "ENOPROTOOPT", "attach_reuseport_ebpf": "ENOPROTOOPT", "io_setup": "ENOSYS",
    })


@of_a_shared_kernel
def test_E34_a_file_sent_by_reference_stays_as_it_was(probe, user):
    """sendfile() is let, since what could write into its pages (encapsulation, upper layer protocols) is not."""
    before = Path("/usr/bin/env").read_bytes()
    assert probe("splice", user=user)["sendfile_udp"]["ret"] in (512, -1)
    assert Path("/usr/bin/env").read_bytes() == before


def test_E17_abstract_sockets_of_the_host_are_out_of_reach(probe, user, canaries):
    with socket.socket(socket.AF_UNIX) as s:
        s.connect("\0" + canaries.abstract_name)
    canaries.abstract.accept()[0].close()
    expect(probe("abstract", canaries.abstract_name, user=user), {"connect_abstract": "ECONNREFUSED"})


def test_the_hosts_loopback_is_not_the_sandboxes(sandbox, canaries):
    code = f"import socket; socket.create_connection(('127.0.0.1', {canaries.port}), 2)"
    r = sandbox.run(["python3", "-c", code])
    assert "ConnectionRefusedError" in r.stderr


def test_the_sandbox_has_no_link_but_lo(sandbox, user):
    names = sandbox.run("tail -n +3 /proc/net/dev | cut -d: -f1", user=user).stdout.split()
    assert names == ["lo"]
    code = "import socket; s = socket.socket(); s.settimeout(5); s.connect(('192.0.2.1', 80))"
    assert "unreachable" in sandbox.run(["python3", "-c", code], user=user).stderr


def test_the_network_cannot_be_changed_from_inside(sandbox, user):
    r = sandbox.run("ip link add type veth; ip addr add 10.0.0.1/8 dev lo; ip route add default dev lo", user=user)
    if "not found" in r.stderr:
        pytest.skip("the template has no ip")
    assert r.stderr.count("Operation not permitted") == 3


@of_a_shared_kernel
def test_E31_nothing_can_be_typed_into_a_terminal(probe, user, control):
    assert control("tty")["ioctl:TIOCSTI"]["errno"] in ("", "EIO")
    expect(probe("tty", user=user), {"ptmx": "success", **{f"ioctl:{n}": "EPERM" for n in (
        "TIOCSTI", "TIOCSTI-high", "TIOCLINUX", "TIOCLINUX-high", "TIOCCONS", "FS_IOC_SETFLAGS")}})


FOREIGN = {"x86_64": ("i386", "x32"), "aarch64": ("arm",)}[platform.machine()]


@of_a_shared_kernel
def test_E32_calls_of_another_architecture_kill(probe, user, control):
    if control("foreign")[f"foreign:{FOREIGN[0]}"]["ret"] != 10:
        pytest.skip(f"this kernel has no {FOREIGN[0]} calls")
    found = probe("foreign", user=user)
    assert {n: r["ret"] for n, r in found.items()} == {f"foreign:{n}": 159 for n in FOREIGN}


@of_a_shared_kernel
def test_E28_E29_a_process_has_only_the_listed_capabilities(probe):
    status = {n: r.get("text") for n, r in probe("status", user="user").items()}
    assert {status[c] for c in ("CapInh", "CapPrm", "CapEff", "CapAmb")} == {"0" * 16}
    assert (status["NoNewPrivs"], status["Seccomp"]) == ("1", "2")
    status = {n: r.get("text") for n, r in probe("status", user="root").items()}
    assert (status["CapPrm"], status["CapEff"]) == ("00000000800004fb",) * 2
    assert int(status["CapBnd"], 16) & ~0x800004FB & ~(1 << 19) == 0
    assert (status["NoNewPrivs"], status["Seccomp"]) == ("1", "2")


def test_E28_a_setuid_file_gives_nothing(sandbox, probe):
    sandbox.run("cp /tmp/probe /tmp/su; chmod 6755 /tmp/su", user="root")
    r = sandbox.run(["/tmp/su", "status"], user="user")
    uids = next(json.loads(line)["text"] for line in r.stdout.splitlines() if '"Uid"' in line)
    assert uids.split() == ["1000"] * 4


def test_E10_real_time_and_better_priorities_are_refused(probe, user):
    found = probe("sched", user=user)
    expect(found, {"sched_fifo": "EPERM", "sched_rr": "EPERM", "nice_down": "EACCES", "nice_up": "success"})
    assert found["autogroup_down"]["errno"] in ("EPERM", "ENOENT")  # not every kernel has them


def test_E19_an_exec_inherits_only_its_three_fds(probe, user):
    found = probe("fds", user=user)
    assert set(found) == {"fd:0", "fd:1", "fd:2"}
    assert found["fd:0"]["text"] == "/dev/null"
    assert found["fd:1"]["text"].startswith(("pipe:", "socket:"))


def test_E19_a_terminal_exec_inherits_only_its_terminal(probe):
    found = {n: r["text"] for n, r in probe("fds", pty=True).items()}
    assert set(found) == {"fd:0", "fd:1", "fd:2"}
    assert set(found.values()) == {found["fd:0"]} and found["fd:0"].startswith("/dev/pts/")


@of_a_shared_kernel
def test_E19_E37_later_execs_and_file_operations_are_confined_too(sandbox, probe):
    sandbox.start(["sleep", "1000"])
    watch = sandbox.files.watch("/tmp")
    r = sandbox.run("grep -hE '^(Seccomp|NoNewPrivs):' /proc/[0-9]*/task/*/status | sort | uniq -c", user="root")
    kinds = {tuple(line.split()[1:]) for line in r.stdout.splitlines()}
    assert kinds == {("NoNewPrivs:", "1"), ("Seccomp:", "2")}
    watch.close()
