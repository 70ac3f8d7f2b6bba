# SPDX-License-Identifier: Apache-2.0
"""A zygote runs a template's code outside every sandbox and reaches into each: what it is, what its forks are, and what
a hostile one can do."""

import ctypes
import errno
import json
import os
import secrets
import uuid
from pathlib import Path

import pytest
from harness import audit, zygote
from harness.daemon import read_text

pytestmark = pytest.mark.jail("forks of an interpreter of the host's are a jail's way to start one")

CANARY = f"canary-{secrets.token_hex(16)}"
CAPS_OF_ZYGOTE = 1 << 21 | 1 << 18  # SYS_ADMIN, SYS_CHROOT
WALLS = """
import json, os, stat
names = ("Umask", "Uid", "Gid", "Groups", "Threads", "TracerPid", "SigBlk", "SigIgn", "CapInh", "CapPrm", "CapEff", "CapAmb", "NoNewPrivs",
         "Seccomp", "Cpus_allowed", "PPid")
status = dict(l.split(":", 1) for l in open("/proc/self/status").read().splitlines())
print(json.dumps({
    "status": {n: status[n].strip() for n in names},
    "bounding": int(status["CapBnd"], 16),
    "namespaces": {n: os.readlink(f"/proc/self/ns/{n}") for n in os.listdir("/proc/self/ns")},
    "limits": open("/proc/self/limits").read(),
    "cgroup": open("/proc/self/cgroup").read(),
    "oom": open("/proc/self/oom_score_adj").read(),
    "root": os.stat("/").st_ino,
    "dumpable": os.stat("/proc/self/mem").st_uid,
    "fds": sorted(stat.S_IFMT(os.fstat(int(n)).st_mode) for n in os.listdir("/proc/self/fd") if os.path.exists(f"/proc/self/fd/{n}")),
    "variables": sorted(os.environ),
    "mounts": open("/proc/self/mountinfo").read(),
}))
"""
CALLS = """
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
def attempt(name, *args):
    ctypes.set_errno(0)
    getattr(libc, name)(*args)
    print(name, ctypes.get_errno())
for kind in ("net", "mnt", "user", "pid"):
    attempt("setns", os.open(f"/proc/self/ns/{kind}", os.O_RDONLY), 0)
attempt("unshare", 0x10000000)
attempt("unshare", 0x20000)
attempt("mount", b"x", b"/tmp", b"tmpfs", 0, None)
attempt("setresuid", 0, 0, 0)
attempt("sethostname", b"x", 1)
"""
# A module of the template that misbehaves in the forks of the first requests, each in its own way, and then no more.
EVIL = """
import os
from cloche_kernel import zygote
Z = zygote.Zygote
give_up, enter, go_inside, call = Z._give_up, Z._enter, Z._go_inside, zygote._call
number = 0
def become(self, data, fds, original=Z._become_kernel):
    global number
    number = zygote.REQUEST.unpack_from(data)[0]
    original(self, data, fds)
def evil_call(name, *args):
    if (number, name) == (1, "capset"): return
    if number == 2 and args[:1] == (zygote.PR_SET_SECCOMP,): return
    if number == 4 and args[-1:] == (zygote.CLONE_NEWIPC,): return
    call(name, *args)
def evil_go_inside(self, fds):
    go_inside(self, fds[:7] if number == 5 else fds)
def evil_give_up(self, open_files, code, n):
    self._capabilities *= number != 3
    give_up(self, open_files * (1 + (number == 6)), code, n)
    if number == 7:
        import _thread, time
        _thread.start_new_thread(time.sleep, (60,))
def evil_enter(self, tag):
    if number == 8:
        os.closerange = lambda *args: None
    enter(self, tag)
Z._become_kernel, Z._give_up, Z._enter, Z._go_inside, zygote._call = become, evil_give_up, evil_enter, evil_go_inside, evil_call
"""
REFUSALS = {
    1: "its CapPrm is", 2: "it lacks a filter", 3: "its CapBnd is", 4: "its ns/ipc is another", 5: "it is in 0 of",
    6: "it may open", 7: "its Threads is", 8: "fds",
}  # fmt: skip


@pytest.fixture(scope="module")
def warm():
    os.environ["CLOCHE_TEST_CANARY"] = CANARY
    try:
        with zygote.daemon_with_zygote() as both:
            yield both
    finally:
        del os.environ["CLOCHE_TEST_CANARY"]


@pytest.fixture
def sandbox(warm):
    with warm[1].create(engine="jail") as sandbox:
        yield sandbox


def walls_of(sandbox, context):
    return json.loads(sandbox.run_code(WALLS, context=context).stdout)


def test_a_fork_stands_behind_the_walls_of_an_interpreter_that_was_started_inside(sandbox):
    sandbox.contexts.create("fresh", language="python", user="user")  # who is named is no fork
    assert zygote.is_fork(sandbox, "python") and not zygote.is_fork(sandbox, "fresh")
    forked, fresh = walls_of(sandbox, "python"), walls_of(sandbox, "fresh")
    assert forked.pop("bounding") & ~fresh.pop("bounding") == 0
    assert forked == fresh


def test_E06_E07_a_fork_can_join_no_namespace_and_mount_nothing(sandbox):
    assert zygote.is_fork(sandbox)
    lines = sandbox.run_code(CALLS).stdout.split("\n")[:-1]
    assert len(lines) == 9 and all(line.endswith(" 1") for line in lines), lines


def memory_holds(pid, words):
    """Which of the words are anywhere in that process's memory."""
    found = set()
    with open(f"/proc/{pid}/mem", "rb", 0) as memory:
        for line in read_text(f"/proc/{pid}/maps").splitlines():
            bounds, rights = line.split()[:2]
            start, end = (int(n, 16) for n in bounds.split("-"))
            if "r" not in rights or "[v" in line or end - start > 1 << 30:  # a sanitizer's shadow
                continue
            memory.seek(start)
            try:
                data = memory.read(end - start)
            except OSError:
                continue
            found |= {w for w in words if w.encode() in data}
    return found


def test_E19_E44_nothing_of_the_brokers_is_in_a_zygote_or_its_fork(warm, sandbox):
    daemon, _ = warm
    assert zygote.is_fork(sandbox)
    pid = zygote.pid_of(daemon)
    fork = next(p for p in audit.processes_of_cgroups({sandbox.id}) if read_text(f"/proc/{p}/comm").strip() == "python3")
    words = {CANARY, daemon.key, str(daemon.data), str(daemon.run)}
    assert CANARY in memory_holds(daemon.broker_pid, words)  # the control
    assert memory_holds(pid, words) == memory_holds(fork, words) == set()
    fds = {n: os.readlink(f"/proc/{pid}/fd/{n}") for n in os.listdir(f"/proc/{pid}/fd")}
    assert fds.pop("3").startswith("socket:")
    assert fds.pop("4", "pipe:").startswith("pipe:")  # from its standby
    assert fds == {"0": "/dev/null", "1": "/dev/null", "2": "/dev/null"}


def shares_memory(a, b):
    """kcmp(KCMP_VM)"""
    r = ctypes.CDLL(None, use_errno=True).syscall({"x86_64": 312, "aarch64": 272}[os.uname().machine], a, b, 1, 0, 0)
    if r < 0 and ctypes.get_errno() == errno.ENOSYS:
        pytest.skip("this kernel has no kcmp()")
    return r == 0


def test_S13_a_fork_shares_its_memory_with_no_process(warm, sandbox):
    daemon, _ = warm
    assert zygote.is_fork(sandbox)
    fork = next(p for p in audit.processes_of_cgroups({sandbox.id}) if read_text(f"/proc/{p}/comm").strip() == "python3")
    others = {int(p) for p in os.listdir("/proc") if p.isdigit() and read_text(f"/proc/{p}/comm").strip() == "python3"} - {fork}
    assert zygote.pid_of(daemon) in others
    assert shares_memory(fork, fork)  # the control
    assert not any(shares_memory(fork, p) for p in others)


def test_a_zygote_is_nobody_on_the_host_and_has_two_capabilities_over_its_own_namespace(warm):
    daemon, _ = warm
    pid = zygote.pid_of(daemon)
    status = dict(line.split(":", 1) for line in read_text(f"/proc/{pid}/status").splitlines())
    assert len(set(status["Uid"].split())) == 1 and int(status["Uid"].split()[0]) >= 0x2FFF0000
    assert [int(status[f"Cap{n}"], 16) for n in ("Inh", "Prm", "Eff", "Bnd", "Amb")] == [CAPS_OF_ZYGOTE] * 5
    assert (status["NoNewPrivs"].strip(), status["Seccomp"].strip()) == ("1", "2")
    for name in ("user", "mnt", "net", "ipc", "uts", "cgroup"):
        assert os.readlink(f"/proc/{pid}/ns/{name}") != os.readlink(f"/proc/self/ns/{name}")
    assert not any(line.split()[1] == "0" for line in read_text(f"/proc/{pid}/uid_map").splitlines())
    top = f"/proc/{pid}/root"
    assert os.listdir(f"{top}/proc") == os.listdir(f"{top}/sys") == []
    assert not os.path.exists(f"{top}{daemon.dir}")


@pytest.fixture
def module():
    """A function that puts a module where templates find it; it is gone afterwards."""
    made = []

    def make(text):
        version = os.path.basename(os.path.realpath("/usr/bin/python3"))
        place = Path(f"/usr/local/lib/{version}/dist-packages")
        if not place.is_dir():
            pytest.skip("this Python has no place for the host's own packages")
        path = place / f"cloche_test_{uuid.uuid4().hex}.py"
        path.write_text(text)
        made.append(path)
        return path.stem

    yield make
    for path in made:
        path.unlink()


def test_a_fork_that_keeps_anything_is_killed_and_the_call_runs_all_the_same(module):
    with zygote.daemon_with_zygote("--warm-modules", module(EVIL)) as (daemon, client), client.create(engine="jail") as sandbox:
        for number in REFUSALS:
            sandbox.contexts.create(f"c{number}", language="python")
            assert not zygote.is_fork(sandbox, f"c{number}"), REFUSALS[number]
        told = [line for line in daemon.log().splitlines() if "context.no_fork" in line]
        for line, reason in zip(told, REFUSALS.values()):
            assert reason in line
        assert len(told) == len(REFUSALS)
        assert zygote.is_fork(sandbox)  # the control: one that behaves is let in
        assert sandbox.run(["sh", "-c", "grep -l python3 /proc/[0-9]*/comm | wc -l"]).stdout == f"{len(REFUSALS) + 1}\n"


@pytest.mark.parametrize("evil", ["self._broker.send(b'garbage')", "os._exit(3)", "self._answer(77, 0)", "os.close(3)"])
def test_a_zygote_that_talks_nonsense_or_dies_costs_warm_starts_and_nothing_else(module, evil):
    text = f"import os\nfrom cloche_kernel import zygote\ndef become(self, data, fds):\n    {evil}\nzygote.Zygote._become_kernel = become\n"
    with zygote.daemon_with_zygote("--warm-modules", module(text)) as (daemon, client), client.create(engine="jail") as sandbox:
        for _ in range(2):
            assert not zygote.is_fork(sandbox)
            sandbox.contexts.restart("python")


def test_a_zygote_that_holds_a_dead_child_inside_cannot_keep_a_sandbox_from_ending(module):
    text = "from cloche_kernel import zygote\n"
    text += "class S:\n    signal = staticmethod(lambda *a: None)\n    SIGCHLD, SIG_IGN, SIG_DFL = 17, 1, 0\nzygote._signal = S\n"
    with zygote.daemon_with_zygote("--warm-modules", module(text)) as (daemon, client):
        with client.create(engine="jail") as sandbox:
            assert zygote.is_fork(sandbox)
        assert "a sandbox cannot end" in daemon.log()
