# SPDX-License-Identifier: Apache-2.0
"""A sandbox that uses up all it can: it meets its own limit, the answer says so, and neighbours and daemon go on."""

import subprocess
import threading

import pytest
from cloche import errors
from harness.daemon import PATIENCE, memory_kib, wait_for


@pytest.fixture
def small(make_sandbox, probe_in):
    sandbox = make_sandbox(limits={"memory_mib": 128, "pids": 40, "open_files": 128, "disk_mib": 64, "vcpus": 0.5})
    return probe_in(sandbox)


@pytest.fixture
def neighbour(make_sandbox):
    """Another sandbox, which must answer during and after."""
    sandbox = make_sandbox()
    yield sandbox
    assert sandbox.run("echo fine", timeout=30 * PATIENCE).stdout == "fine\n"


@pytest.mark.parametrize("how", ["forks", "vforks", "threads"])
def test_R01_a_bomb_ends_at_the_pid_limit_and_the_sandbox_lives(small, neighbour, how, user):
    found = small(how, 500, user=user)
    name = {"forks": "fork", "vforks": "vfork", "threads": "pthread_create"}[how]
    assert found[name]["errno"] == "EAGAIN"
    count = found[{"forks": "forked", "vforks": "vforked", "threads": "threads"}[how]]["ret"]
    assert 20 <= count < 40
    assert small.sandbox.run(["true"]).exit_code == 0


def test_R01_a_fork_bomb_that_never_ends_can_be_killed(small, neighbour):
    e = small.sandbox.start(["python3", "-c", "import os\nwhile True:\n try: os.fork()\n except OSError: pass"])
    wait_for(lambda: neighbour.run(["true"]).exit_code == 0, 30, "the neighbour")
    info = e.kill()
    assert info.cause == "killed"
    assert small.sandbox.run("echo alive", timeout=30 * PATIENCE).stdout == "alive\n"


def test_R02_memory_ends_at_the_limit_with_its_cause(small, neighbour, daemon):
    r = small.run("memory", "anonymous", 500)
    assert (r.signal, r.cause) == (9, "oom")
    assert small.sandbox.run("echo alive").stdout == "alive\n"
    assert daemon.process.poll() is None


@pytest.mark.parametrize("route", ["memfd", "shm", "pipes", "sockets", "watches", "epolls", "sysv", "tables"])
def test_R03_memory_by_another_route_ends_at_the_same_limit(small, neighbour, route):
    """Either the kernel kills for memory, or the route's own bound says no below the limit."""
    r = small.run("memory", route, 400)
    if r.signal == 9:
        assert r.cause == "oom"
    else:
        assert '"errno":"E' in r.stdout, r.stdout
        assert any(e in r.stdout for e in ("ENOSPC", "ENOMEM", "EMFILE", "EPERM", "EINVAL", "ENFILE"))
    assert small.sandbox.run("rm -f /dev/shm/probe; echo alive").stdout == "alive\n"


def test_R03_names_that_the_kernel_remembers_are_the_sandboxes_own_memory(small, neighbour):
    r = small.run("memory", "names", 200, timeout=120 * PATIENCE)
    assert r.cause == "oom" or '"ate"' in r.stdout
    assert small.sandbox.run("echo alive").stdout == "alive\n"


def test_R04_memory_cannot_be_locked_past_the_limit_nor_hidden(small, engine):
    found = small("lock")
    assert found["mlock"]["errno"] in ("ENOMEM", "EPERM", "EAGAIN")
    assert found["hugetlb"]["errno"] in ("ENOMEM", "EPERM", "EINVAL")
    if engine == "jail":  # what a vm's kernel hides is in the machine's own memory
        assert found["memfd_secret"]["errno"] == "ENOSYS"


def needs_disk_limit(sandbox):
    if "disk_limit" in sandbox.info.isolation["gaps"]:
        pytest.skip("this host gives no disk limit")


def taken_mib(directory):
    """What all files below it take of the host's disk."""
    return int(subprocess.run(["du", "-sxm", directory], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout.split()[0])


@pytest.mark.parametrize("place", ["/tmp/big", "/home/user/big", "/var/tmp/big"])
def test_R05_a_full_disk_ends_at_the_limit(small, neighbour, place, daemon):
    needs_disk_limit(small.sandbox)
    taken = taken_mib(daemon.dir)
    found = small("fill", place, 400)
    assert found["write"]["errno"] in ("ENOSPC", "EDQUOT")
    assert found["filled"]["ret"] <= 64
    assert taken_mib(daemon.dir) < taken + 1024
    small.sandbox.files.remove(place)
    assert small.sandbox.run("echo x > /tmp/again && cat /tmp/again").stdout == "x\n"


def test_R06_inodes_end_at_a_limit(make_sandbox, probe_in, neighbour):
    sandbox = make_sandbox(limits={"disk_mib": 16, "inodes": 2000})
    gaps = sandbox.info.isolation["gaps"]
    if "disk_limit" in gaps and "inode_limit" in gaps:
        pytest.skip("this host gives neither a disk nor an inode limit")
    probe = probe_in(sandbox)
    sandbox.run(["mkdir", "/tmp/many"])
    found = probe("inodes", "/tmp/many", 200_000, timeout=120 * PATIENCE)
    assert found["create"]["errno"] in ("ENOSPC", "EDQUOT")


def test_R06_a_directory_of_many_files_is_deleted_while_others_work(make_sandbox, neighbour):
    sandbox = make_sandbox()
    sandbox.run("mkdir m; cd m; seq 20000 | xargs touch", timeout=60 * PATIENCE)
    sandbox.delete()
    assert neighbour.run(["true"], timeout=30 * PATIENCE).exit_code == 0


def test_R07_open_files_end_at_the_limit(small):
    found = small("open-files", 100_000)
    assert found["open"]["errno"] == "EMFILE"
    assert 100 <= found["opened"]["ret"] < 128


def test_R07_the_limit_cannot_be_raised(small, user):
    r = small.sandbox.run("ulimit -n 100000; ulimit -Hn", user=user)
    assert r.stdout.strip() == "128"


def test_R08_an_output_flood_with_nobody_reading_leaves_the_daemons_memory_flat(small, neighbour, daemon):
    base = memory_kib(daemon.gateway_pid)
    e = small.sandbox.start(["/tmp/probe", "flood", "200"])
    info = e.wait(120 * PATIENCE)
    assert info.exit_code == 0
    assert info.raw["stdout_bytes"] == 200 << 20
    assert memory_kib(daemon.gateway_pid) < base + 32 * 1024


def test_R09_a_stream_without_newlines_arrives_exactly(small):
    seen = 0
    with small.sandbox.stream(["/tmp/probe", "flood", "8"]) as events:
        for event in events:
            seen += event.lost_bytes
            expected = bytes((seen + i) % 251 for i in range(min(len(event.data), 64)))
            # The pattern restarts each 251 * 256 bytes, which 251 divides: it is one long run.
            assert event.data[:64] == expected
            seen += len(event.data)
    assert seen == 8 << 20


def test_R10_the_cpu_quota_holds_for_many_processes(small, neighbour):
    """By the host's count: the kernel of a vm counts time that its machine was not given as well."""
    before = small.sandbox.usage()["usage"]
    assert small.run("spin", 8, 2).exit_code == 0
    after = small.sandbox.usage()["usage"]
    wall_ms, cpu_ms = after["running_ms"] - before["running_ms"], (after["cpu_ns"] - before["cpu_ns"]) / 1e6
    assert 0 < cpu_ms < wall_ms * 0.75


def test_R11_a_deaf_process_is_killed_at_its_deadline(small):
    r = small.run("stubborn", timeout=0.5 * PATIENCE)
    assert (r.signal, r.cause) == (9, "timeout")


def test_R13_a_storm_of_syncs_is_the_sandboxes_own(small, neighbour, control, daemon, tmp_path):
    """It writes and waits for the disk without end; what it makes the host write is its own file, and others go on."""
    assert control("storm", tmp_path / "storm", 1)["storm"]["ret"] == 1
    e = small.sandbox.start(["/tmp/probe", "storm", "/tmp/storm", "1000000"])
    for i in range(5):
        assert neighbour.run(f"echo {i} > f && sync f && cat f", timeout=60 * PATIENCE).stdout == f"{i}\n"
    assert not e.refresh().is_over
    assert e.kill().cause == "killed"
    if "disk_limit" not in small.sandbox.info.isolation["gaps"]:
        assert small.sandbox.usage()["now"]["disk_bytes"] <= 64 << 20


@pytest.mark.parametrize("kind, most", [("timers", 8192), ("signals", 8192), ("queues", 16)])
def test_R19_objects_of_the_kernel_are_bounded(small, neighbour, control, kind, most):
    outside = control("objects", kind, 8)
    inside = small("objects", kind, 1_000_000)
    if outside[kind]["errno"]:
        pytest.skip(f"this host's kernel gives no {kind}: {outside[kind]['errno']}")
    assert outside["made"]["ret"] == 8
    assert inside[kind]["errno"] in ("EAGAIN", "EMFILE", "ENOSPC", "ENOMEM", "ENOSYS", "EACCES", "EPERM"), inside
    assert inside["made"]["ret"] <= most


@pytest.mark.parametrize("kind", ["", "orphans"])
def test_R12_zombies_and_orphans_are_bounded_and_reaped(small, kind):
    found = small("zombies", 30, *([kind] if kind else []))
    assert found["made"]["ret"] == 30
    wait_for(lambda: small.sandbox.run("cat /proc/[0-9]*/stat | grep -c ' Z ' || true").stdout.strip() == "0", 15, "the reaping")
    for _ in range(3):
        assert small("zombies", 30, "orphans")["made"]["ret"] == 30


def test_R15_many_short_execs_leak_nothing(small):
    for _ in range(100):
        assert small.sandbox.run(["true"]).exit_code == 0


def test_R18_stdin_that_nobody_reads_is_not_buffered(small, daemon):
    base = memory_kib(daemon.gateway_pid)
    e = small.sandbox.start(["sleep", "1000"], open_stdin=True)
    sent = [0]

    def endless():
        while True:
            sent[0] += 1
            yield b"x" * 65536

    def write():
        try:
            e.write_stdin(endless())
        except errors.ClocheError:
            pass

    thread = threading.Thread(target=write, daemon=True)
    thread.start()
    stuck_at = -1
    while stuck_at != sent[0]:
        stuck_at = sent[0]
        thread.join(0.5)
    assert stuck_at * 65536 < 64 << 20
    assert memory_kib(daemon.gateway_pid) < base + 32 * 1024
    e.kill()
    thread.join(30 * PATIENCE)
    assert not thread.is_alive()


def test_R24_huge_listings_are_capped_and_a_watch_that_nobody_reads_is_bounded(make_sandbox, neighbour, daemon):
    sandbox = make_sandbox(limits={"inodes": 100_000})
    sandbox.run("mkdir m", timeout=30 * PATIENCE)
    base = memory_kib(daemon.gateway_pid)
    watch = sandbox.files.watch("m")
    sandbox.run("cd m; seq 12000 | xargs touch; seq 12000 | xargs touch", timeout=60 * PATIENCE).check()
    entries = [sandbox.files.list(path, recursive=True, limit=10_000) for path in ("m", "/")]
    assert [len(found) for found in entries] == [10_000, 10_000]
    assert len(sandbox.files.list("m")) == 1000
    with pytest.raises(errors.InvalidField):
        sandbox.files.list("m", limit=10_001)
    assert memory_kib(daemon.gateway_pid) < base + 48 * 1024
    assert next(iter(watch))
    watch.close()
