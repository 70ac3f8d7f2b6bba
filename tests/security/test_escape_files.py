# SPDX-License-Identifier: Apache-2.0
"""What must not be possible from inside by way of files: /proc, /sys, /dev, the shared lower layer, paths given to the API."""

import hashlib
import os
import re
import shutil
import stat
import subprocess
import threading
from pathlib import Path

import pytest
from cloche import errors
from harness import audit
from harness.daemon import BUILD, ENGINE, children_of, read_text, wait_for
from harness.vm import of_a_shared_kernel, vmm_of

WRITABLE_SYSCTLS = [
    "/proc/sys/kernel/core_pattern", "/proc/sys/kernel/modprobe", "/proc/sys/kernel/hostname", "/proc/sys/vm/overcommit_memory",
    "/proc/sys/vm/drop_caches", "/proc/sys/kernel/panic", "/proc/sys/fs/suid_dumpable", "/proc/sys/kernel/ns_last_pid",
]
SECRETS = [
    "/proc/kcore", "/proc/kallsyms", "/proc/keys", "/proc/timer_list", "/proc/sched_debug", "/proc/kmsg", "/proc/bus/pci", "/proc/kpageflags",
    "/proc/slabinfo", "/proc/vmallocinfo", "/proc/iomem", "/proc/ioports", "/proc/modules", "/proc/cmdline", "/proc/config.gz", "/proc/diskstats",
    "/proc/interrupts", "/proc/partitions", "/proc/locks", "/proc/scsi", "/proc/acpi", "/proc/pressure",
    "/sys/firmware", "/sys/kernel/debug", "/sys/kernel/tracing", "/sys/kernel/security", "/sys/class/net", "/sys/block", "/sys/module", "/sys/fs/cgroup",
    "/sys/devices/virtual/dmi", "/sys/power",
]
DEVICES = [
    "mem", "kmem", "port", "kmsg", "fuse", "kvm", "net/tun", "loop-control", "loop0", "vsock", "vhost-net", "vhost-vsock", "userfaultfd", "sda",
    "vda", "dm-0", "mapper/control", "console", "tty0", "tty1", "ttyS0", "hda", "nvme0n1", "btrfs-control", "snapshot", "autofs", "cuse", "uinput",
]
DEV = {"null", "zero", "full", "random", "urandom", "tty", "ptmx", "pts", "shm", "fd", "stdin", "stdout", "stderr", "mqueue", "core"}


def test_E01_kernel_settings_cannot_be_opened_for_writing(probe, user, control):
    assert control("write-open", *WRITABLE_SYSCTLS)["write_open:/proc/sys/kernel/core_pattern"]["errno"] == ""
    found = probe("write-open", *WRITABLE_SYSCTLS, user=user)
    assert {r["errno"] for r in found.values()} <= {"EROFS", "EACCES", "ENOENT"}
    assert len(found) == len(WRITABLE_SYSCTLS)


def test_E01_the_system_request_key_is_out_of_reach(probe, user):
    assert probe("write-open", "/proc/sysrq-trigger", user=user)["write_open:/proc/sysrq-trigger"]["errno"] in ("EROFS", "EACCES", "ENOENT")


@of_a_shared_kernel
def test_E02_what_tells_of_the_host_is_empty_or_absent(probe, user):
    found = probe("read", *SECRETS, user=user)
    told = {n: r["ret"] for n, r in found.items() if r["ret"] > 0}
    assert told == {}
    assert {r["errno"] for r in found.values()} <= {"", "ENOENT", "EACCES", "EPERM", "EAGAIN"}


def test_E03_no_magic_link_leads_out(probe, user, canaries, control):
    path = str(canaries.files[0])
    walk = control("walk", path)
    assert any(n == "found" for n in walk), "the control did not find the canary either"
    for f in canaries.files:
        found = probe("walk", str(f), user=user)
        assert "found" not in found
        assert found["walked"]["ret"] > 60


@of_a_shared_kernel
def test_E15_there_is_no_cgroup_file_system_to_write_to(probe, user, sandbox):
    names = ["release_agent", "notify_on_release", "cgroup.procs", "tasks", "devices.allow", "memory.limit_in_bytes", "pids.max", "memory.max"]
    names += ["cpu.shares", "cpu.weight", "cpu.idle"]
    paths = [f"/sys/fs/cgroup/{sub}{n}" for sub in ("", "cpu/", "memory/", "pids/", "devices/", "unified/") for n in names]
    found = probe("write-open", *paths, user=user)
    assert {r["errno"] for r in found.values()} <= {"ENOENT", "EROFS", "EACCES", "ENOTDIR"}
    kinds = {line.partition(" - ")[2].split()[0] for line in sandbox.run(["cat", "/proc/self/mountinfo"]).stdout.splitlines()}
    assert not kinds & {"cgroup", "cgroup2", "sysfs", "debugfs", "tracefs", "securityfs", "bpf", "fuse"}


def test_E16_no_device_but_the_listed_ones_can_be_opened(probe, user, sandbox):
    found = probe("write-open", *[f"/dev/{d}" for d in DEVICES], user=user)
    assert {r["errno"] for r in found.values()} <= {"ENOENT", "EPERM", "ENXIO"}
    assert set(sandbox.run(["ls", "/dev"]).stdout.split()) <= DEV


@of_a_shared_kernel
def test_E16_E27_no_device_node_can_be_made(probe, user, control, tmp_path):
    outside = control("mknod", tmp_path)
    assert outside["mknodat:char"]["errno"] == outside["mknodat:block"]["errno"] == ""
    for directory in ("/tmp", "/dev/shm", "/home/user"):
        found = probe("mknod", directory, user=user)
        got = {n.partition(":")[2]: r["errno"] for n, r in found.items()}
        assert got == {"char": "EPERM", "block": "EPERM", "whiteout": "EPERM", "fifo": ""}


def test_E18_no_socket_of_the_host_lies_about(probe, user, canaries):
    r = probe.run("find", "socket", "/", user=user)
    paths = [line for line in r.stdout.splitlines() if '"found"' in line]
    assert str(canaries.socket_path) not in r.stdout
    assert len(paths) <= 1 and all("sudo" in p or "cloche" in p for p in paths)


def test_E21_the_agents_program_cannot_be_written(probe, user):
    found = probe("ptrace", 1, user=user)
    assert found["proc_exe_write"]["errno"] == "EACCES"


OVERWRITE = """
import os, time
print('up', flush=True)
opened = set()
while not os.path.exists('/tmp/stop'):
    for pid in filter(str.isdigit, os.listdir('/proc')):
        if int(pid) == os.getpid():
            continue
        for name in ('/proc/%s/exe' % pid, '/proc/%s/map_files' % pid):
            try:
                link = os.readlink(name)
                fd = os.open(name, os.O_WRONLY)
                opened.add(link)
                os.close(fd)
            except OSError:
                pass
print(sorted(opened))
"""


def test_E21_no_exec_gives_a_moment_to_overwrite_the_agents_program(sandbox):
    """CVE-2019-5736: whoever starts programs inside is itself a program inside for a moment."""
    programs = [BUILD / "cloche", BUILD / "cloche-agent"]
    before = manifest(programs)
    attack = sandbox.start(["python3", "-c", OVERWRITE], user="root")
    next(e for e in attack.output() if e.type == "stdout")
    for i in range(60):
        assert sandbox.run(["/bin/true"], user=("user", "root")[i % 2]).exit_code == 0
        sandbox.files.stat("/tmp")
    sandbox.files.write("/tmp/stop", b"")
    assert attack.wait(60).exit_code == 0
    opened = b"".join(e.data for e in attack.output() if e.type == "stdout").decode().splitlines()[-1]
    assert "agent" not in opened and "memfd" not in opened and "cloche" not in opened
    assert manifest(programs) == before


@pytest.mark.parametrize("cwd", ["/proc/self/fd/7", "/proc/1/cwd", "/proc/1/root", "../../..", "/proc/self/fd/3", "loop/x", "/nowhere"])
def test_E20_a_directory_given_to_the_api_stays_inside(sandbox, canaries, cwd):
    sandbox.run("ln -sfn loop loop")
    for user in ("user", "root"):
        try:
            r = sandbox.run(["sh", "-c", "pwd; ls -a; ls -a ../../../../.. ; cat ../../../../../root/cloche-canary-*"], cwd=cwd, user=user)
        except errors.ClocheError as e:
            assert 400 <= e.status < 500
        else:
            assert canaries.token not in r.stdout
            assert canaries.files[0].name not in r.stdout


def test_E20_a_deleted_directory_is_a_typed_error(sandbox):
    sandbox.run(["mkdir", "gone"])
    sandbox.files.remove("gone", recursive=True)
    with pytest.raises(errors.ClocheError) as e:
        sandbox.run(["true"], cwd="gone")
    assert 400 <= e.value.status < 500


EVIL = r"""
#include <stdio.h>
#include <unistd.h>
__attribute__((constructor)) static void run(void)
{
	char ns[64] = {0};
	FILE *f = fopen("/tmp/marker", "a");
	if (f && readlink("/proc/self/ns/user", ns, sizeof(ns) - 1) > 0)
		fprintf(f, "%d %s\n", (int)getuid(), ns);
}
"""


def test_E22_planted_libraries_run_only_inside(sandbox, tmp_path, engine):
    if not shutil.which("cc"):
        pytest.skip("no compiler on this host")
    (tmp_path / "evil.c").write_text(EVIL)
    subprocess.run(["cc", "-shared", "-fPIC", "-o", tmp_path / "evil.so", tmp_path / "evil.c"], check=True)
    sandbox.files.write("/usr/lib/evil.so", (tmp_path / "evil.so").read_bytes(), mode=0o755, user="root")
    sandbox.run("touch /tmp/marker; chmod 666 /tmp/marker; cp /usr/lib/evil.so /usr/lib/libnss_files.so.2; echo '/usr/lib/evil.so' > /etc/ld.so.preload", user="root")
    sandbox.files.write("/tmp/marker", b"", user="root", mode=0o666)
    f = sandbox.files
    f.write("a", b"1", mode=0o600)
    f.copy("a", "b")
    f.move("b", "c")
    f.chown("/home/user/c", "user:user", user="root")
    f.list("/"), f.stat("a"), f.mkdir("d"), f.symlink("l", "a"), f.remove("c")
    f.tar_in("d", b"".join(f.tar_out("d", compress="gzip")), compress="gzip")
    with f.watch("d") as watch:
        next(watch)
    assert f.read("/tmp/marker") == b""
    sandbox.run(["true"])
    lines = f.read_text("/tmp/marker").split("\n")
    assert lines[0].startswith("1000 user:[")
    if engine == "jail":  # each kernel's first namespace has the same number
        assert os.readlink("/proc/self/ns/user") not in "".join(lines)


def test_E23_a_path_that_changes_under_the_file_api_stays_inside(sandbox, probe, canaries):
    sandbox.run("mkdir d; ln -s /etc evil; echo inside > d/x")
    swapping = sandbox.start(["/tmp/probe", "swap", "d", "evil", "6"])
    hits = []

    def attack():
        while not swapping.refresh().is_over:
            for call in (lambda: sandbox.files.read("d/passwd"), lambda: sandbox.files.write("d/x", b"x"), lambda: sandbox.files.read("d/x"),
                         lambda: sandbox.files.read(f"d/{canaries.files[1].name}")):
                try:
                    result = call()
                    if isinstance(result, bytes) and canaries.token.encode() in result:
                        hits.append(result)
                except errors.ClocheError as e:
                    if e.status >= 500:
                        hits.append(e)

    threads = [threading.Thread(target=attack) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join(60)
    assert hits == []
    assert not Path("/etc/x").exists()


ODD = ["fifo", "sock", "/dev/zero", "/dev/full", "/dev/tty", "/dev/ptmx", "/proc/kmsg", "/proc/kcore", "loop/x", "tree", "a/" * 2050 + "x"]


def test_E24_odd_files_end_every_file_call_and_hold_up_nobody(sandbox, make_sandbox):
    neighbour = make_sandbox()
    sandbox.run("mkfifo fifo; ln -s loop loop; mkdir tree; ln -s . tree/self; mkfifo tree/fifo; python3 -c \"import socket; socket.socket(socket.AF_UNIX).bind('sock')\"")
    f = sandbox.files
    calls = {
        "read": lambda p: told.append(f.read(p, length=10)), "append": lambda p: f.append(p, b"x"), "copy": lambda p: f.copy(p, "copied", recursive=True),
        "stat": f.stat, "list": lambda p: f.list(p, depth=8), "tar": lambda p: b"".join(f.tar_out(p)),
    }
    answers, told = {}, []
    for path in ODD:
        for name, one in calls.items():
            if (name, path) == ("append", "/dev/full"):
                continue
            try:
                one(path)
                answers[name, path[:20]] = 200
            except errors.ClocheError as e:
                answers[name, path[:20]] = e.status
            f.remove("copied", recursive=True, missing_ok=True) if name == "copy" else None
        assert neighbour.run(["true"]).exit_code == 0
    assert {a: s for a, s in answers.items() if not 200 <= s < 500} == {}
    assert b"".join(told) == b"", "what is masked must be empty"
    assert {a for a, s in answers.items() if s == 200 and a[0] in ("read", "append")} <= {("read", "/proc/kmsg"), ("read", "/proc/kcore")}


def test_E24_a_file_that_grows_while_it_is_read_ends(sandbox):
    growing = sandbox.start("while :; do head -c 1000000 /dev/zero >> big; [ $(stat -c %s big) -lt 40000000 ] || : > big; done")
    wait_for(lambda: sandbox.run("[ -s big ]").exit_code == 0, 10, "the file")
    for _ in range(5):
        try:
            assert len(sandbox.files.read("big")) <= 1 << 30
        except errors.ClocheError as e:
            assert e.status < 500
    assert not growing.refresh().is_over
    growing.kill()


def sample_of_usr():
    return [p for p in ("/usr/bin/env", "/usr/bin/sort", "/usr/bin/id") if os.path.exists(p)]


def manifest(paths):
    out = {}
    for path in map(Path, paths):
        st = path.stat()
        out[str(path)] = (hashlib.sha256(path.read_bytes()).hexdigest(), st.st_mtime_ns, st.st_mode, st.st_uid, st.st_size, st.st_nlink)
    return out


@of_a_shared_kernel
def test_E35_the_lower_layer_cannot_be_changed_by_a_user(probe, make_sandbox):
    victim = sample_of_usr()[0]
    before = manifest(sample_of_usr())
    found = probe("tamper", victim, user="user")
    wanted = {
        "open_ro": "", "map_shared_of_ro": "EACCES", "fallocate_ro": "EBADF", "ftruncate_ro": "EINVAL", "ficlone": "EPERM", "ficlonerange": "EPERM",
        "fideduperange": "EPERM", "setflags": "EPERM", "setflags_high": "EPERM", "open_rw": "EACCES", "truncate": "EACCES", "utimensat": "EACCES",
        "chmod": "EPERM", "unlink": "EACCES", "xattr_trusted": "EPERM", "nameless_link": "EEXIST",
    }
    assert {n: found[n]["errno"] for n in wanted} == wanted
    assert manifest(sample_of_usr()) == before


@of_a_shared_kernel
def test_E35_what_root_changes_is_the_sandboxes_own_copy(probe, make_sandbox):
    victim = sample_of_usr()[1]
    before = manifest(sample_of_usr())
    found = probe("tamper", victim, user="root")
    assert {found[n]["errno"] for n in ("ficlone", "ficlonerange", "fideduperange", "setflags", "setflags_high")} == {"EPERM"}
    assert found["map_shared_of_ro"]["errno"] == "EACCES"
    assert manifest(sample_of_usr()) == before
    digest = make_sandbox().run(["sha256sum", victim]).stdout.split()[0]
    assert digest == before[victim][0]


def modes_of(pid, paths):
    """How the process has these files open: a set of access modes."""
    wanted = {(st.st_dev, st.st_ino) for st in map(os.stat, paths)}
    found = set()
    for fd in os.listdir(f"/proc/{pid}/fd"):
        st = os.stat(f"/proc/{pid}/fd/{fd}")
        if (st.st_dev, st.st_ino) in wanted:
            found.add(int(re.search(r"^flags:\s+(\d+)", read_text(f"/proc/{pid}/fdinfo/{fd}"), re.M)[1], 8) & os.O_ACCMODE)
    return found


@pytest.mark.skipif(ENGINE != "vm", reason="a jail has no disks")
def test_E35_a_vms_process_can_read_its_templates_disk_and_write_to_its_own_alone(daemon, sandbox):
    machine = children_of(vmm_of(sandbox))[0]
    assert modes_of(machine, (daemon.data / "templates").glob("*/image.erofs")) == {os.O_RDONLY}
    assert modes_of(machine, (daemon.data / "layers" / sandbox.id).rglob("disk")) == {os.O_RDWR}


def test_E27_overlay_attributes_have_no_effect(sandbox, canaries):
    sandbox.run("mkdir o; setfattr -n user.overlay.redirect -v /root o; setfattr -n user.overlay.opaque -v y o; ls -a o", user="root")
    r = sandbox.run("python3 -c \"import os\nos.makedirs('p/q', exist_ok=True)\nfor n in ('redirect','opaque','metacopy','origin'):\n try: os.setxattr('p/q', 'user.overlay.'+n, b'/root')\n except OSError as e: print(n, e.errno)\"; ls -a p/q", user="root")
    assert canaries.files[0].name not in r.stdout


def test_E28_files_of_a_layer_are_closed_to_the_hosts_other_users(daemon, sandbox):
    """A layer's files carry ids from 0 and may be set-uid: nobody else on the host may get at them."""
    sandbox.run("cp /usr/bin/id /home/user/su; chown root /home/user/su; chmod 6755 /home/user/su", user="root")
    for directory in (daemon.data / "layers", daemon.data / "templates", daemon.run / "sandboxes"):
        if directory.exists():
            assert stat.S_IMODE(directory.stat().st_mode) & 0o007 == 0 or stat.S_IMODE(daemon.data.stat().st_mode) & 0o007 == 0
    code = f"import os, sys\nfor top, d, f in os.walk('{daemon.data}'):\n if 'su' in f: sys.exit(7)"
    other = subprocess.run(["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "/usr/bin/python3", "-c", code])
    assert other.returncode == 0


def test_E30_two_sandboxes_have_no_uid_in_common(make_sandbox):
    a, b = make_sandbox(), make_sandbox()
    for s in (a, b):
        s.start(["sleep", "1000"])
        s.start(["sleep", "1000"], user="root")

    def uids(sandbox):
        found = set()
        for pid in audit.processes_of_cgroups({sandbox.id}):
            found.update(re.search(r"^Uid:\s+(.*)$", read_text(f"/proc/{pid}/status"), re.M).group(1).split())
        return found

    assert uids(a) and uids(b) and not uids(a) & uids(b)
    assert min(map(int, uids(a) | uids(b))) >= 65536


def test_E40_a_crash_leaves_no_core(sandbox):
    r = sandbox.run("ulimit -c unlimited; cd /tmp; sh -c 'kill -SEGV $$'; ls /tmp", user="root")
    assert "core" not in r.stdout


def test_E44_E51_nothing_inside_names_a_place_of_the_host(sandbox, daemon):
    r = sandbox.run("cat /proc/self/mountinfo /proc/mounts /proc/self/cgroup /proc/1/cgroup; tr '\\0' '\\n' < /proc/1/environ; cat /proc/1/cmdline; env", user="root")
    for word in (str(daemon.dir), "layers.btrfs", "/var/lib", daemon.key, "upperdir=/var", "cloche-test-"):
        assert word not in r.stdout
    assert not re.search(r"sb_[a-z0-9]{26}.*(upper|work)", r.stdout)


def test_E52_shared_memory_and_queues_are_its_own(make_sandbox):
    a, b = make_sandbox(), make_sandbox()
    a.run("echo token > /dev/shm/x; ipcmk -M 1000 >/dev/null")
    assert b.run("ls /dev/shm; ipcs -m | grep -c 0x || true").stdout.split()[-1] == "0"


def test_E41_nothing_outlives_its_sandbox(make_sandbox, engine, probe_in, daemon):
    with make_sandbox() as sandbox:
        probe = probe_in(sandbox)
        for who in ("user", "root"):
            assert probe("outlive", 4, user=who)["left"]["ret"] == 4
        there = {"jail": 6, "vm": 2}[engine]  # of a vm the host sees no more than QEMU and its parent
        wait_for(lambda: len(audit.processes_of_cgroups({sandbox.id})) >= there, 10, "the processes")
        sandbox.delete()
        assert audit.processes_of_cgroups({sandbox.id}) == set()
        assert audit.cgroup_dirs({sandbox.id}) == set()
    names = [p for p in Path("/proc").glob("[0-9]*") if read_text(p / "cmdline").startswith("/tmp/probe\0outlive")]
    assert names == []
