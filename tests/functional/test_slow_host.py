# SPDX-License-Identifier: Apache-2.0
"""A host on which things take their time: its disk stands still, CRIU does, a control group cannot be removed. No part of the daemon
dies by it, every request is answered as on any other day, and nothing stays behind.

What stands still does so for longer than the broker waits for a killed process (2 s), which is when its timers come due."""

import contextlib
import fcntl
import os
import shutil
import signal
import subprocess
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from cloche import Client, errors
from harness.daemon import ENGINE, IS_SANITIZED, Daemon, call, children_of, read_text, wait_for

STILL_S = 3.5
FIFREEZE, FITHAW = 0xC0045877, 0xC0045878

pytestmark = pytest.mark.skipif(ENGINE != "jail", reason="a jail's layers and control groups")
needs_criu = pytest.mark.skipif(IS_SANITIZED or shutil.which("criu", path="/usr/sbin:/usr/bin") is None, reason="no criu, or an agent that maps terabytes")


@pytest.fixture(scope="module")
def own():
    daemon = Daemon("--pool-max", "0").start()
    yield daemon
    assert daemon.stop() == 0
    daemon.remove()


@pytest.fixture
def steady(own):
    """Fails unless broker and gateway are the same processes at the end, and have nothing to tell of events at a wrong time."""
    before = {"broker": own.broker_pid, "gateway": own.gateway_pid}
    told = len(own.log())
    yield own
    log = own.log()[told:]
    assert "child_died" not in log and "jail.unexpected" not in log, log[-8000:]
    assert {"broker": own.broker_pid, "gateway": own.gateway_pid} == before, log[-8000:]


@pytest.fixture
def api(steady):
    with Client(steady.url, steady.key) as api:
        yield api


@contextlib.contextmanager
def still_disk(daemon):
    """The layers' filesystem takes no write until the end of the block, or for STILL_S at most: the broker itself may wait for it."""
    fd = os.open(daemon.data / "layers", os.O_RDONLY | os.O_DIRECTORY)
    done = threading.Event()

    def thaw():
        done.wait(STILL_S)
        fcntl.ioctl(fd, FITHAW, 0)

    fcntl.ioctl(fd, FIFREEZE, 0)
    thread = threading.Thread(target=thaw)
    thread.start()
    try:
        yield
    finally:
        thread.join()
        os.close(fd)


def groups_of(id):
    return [Path(top) for top, dirs, _ in os.walk("/sys/fs/cgroup") if os.path.basename(top) == id]


def left_of(daemon, id):
    places = [daemon.data / "layers" / id, daemon.run / "sandboxes" / id]
    return [str(p) for p in places if p.exists()] + [str(p) for p in groups_of(id)]


def check_gone(daemon, *ids):
    for id in ids:
        wait_for(lambda: not left_of(daemon, id), what=f"nothing of {id}")


def test_on_a_disk_that_stands_still_deletes_and_creates_are_late_and_right(steady, api):
    doomed = [api.create() for _ in range(4)]
    staying = api.create(persistent=True)
    staying.run("echo kept > a")
    with ThreadPoolExecutor(8) as pool:
        with still_disk(steady):
            deletes = [pool.submit(sandbox.delete) for sandbox in doomed]
            creates = [pool.submit(api.create) for _ in range(2)]
        for d in deletes:
            d.result()
        made = [c.result() for c in creates]
    assert [m.run("echo yes").stdout for m in made] == ["yes\n"] * 2
    assert staying.run("cat a").stdout == "kept\n"
    for sandbox in [*made, staying]:
        sandbox.delete()
    check_gone(steady, *[s.id for s in [*doomed, *made, staying]])


def test_what_writes_when_the_disk_stands_still_is_killed_late_and_wholly(steady, api):
    """A killed process in the middle of a write ends when the disk goes on: the first process of its sandbox waits for it."""
    doomed = [api.create() for _ in range(2)]
    for sandbox in doomed:
        sandbox.start("while :; do echo x >> a; sync a; done")
        wait_for(lambda: sandbox.run("cat a 2>/dev/null | head -c 1").stdout == "x", what="its first write")
    with ThreadPoolExecutor(4) as pool, still_disk(steady):
        deletes = [pool.submit(sandbox.delete) for sandbox in doomed]
    for d in deletes:
        d.result()
    check_gone(steady, *[s.id for s in doomed])


def test_stops_resumes_and_snapshots_on_a_disk_that_stands_still_lose_nothing(steady, api):
    sandbox = api.create(persistent=True)
    sandbox.run("echo kept > a")
    with ThreadPoolExecutor(4) as pool, still_disk(steady):
        taken = pool.submit(sandbox.snapshot)
    snapshot = taken.result()["id"]
    with ThreadPoolExecutor(4) as pool, still_disk(steady):
        stopped = pool.submit(sandbox.stop)
    stopped.result()
    with ThreadPoolExecutor(4) as pool, still_disk(steady):
        resumed = pool.submit(sandbox.resume)
        copied = pool.submit(api.create, snapshot=snapshot)
    resumed.result()
    copy = copied.result()
    assert sandbox.run("cat a").stdout == copy.run("cat a").stdout == "kept\n"
    for one in (sandbox, copy):
        one.delete()
    api.delete_snapshot(snapshot)
    check_gone(steady, sandbox.id, copy.id, snapshot)


def test_a_control_group_that_cannot_be_removed_yet_is_removed_later(steady, api):
    """A process of ours is in the sandbox's groups, in a write that no signal ends."""
    sandbox = api.create()
    groups = [g for g in groups_of(sandbox.id) if (g / "cgroup.procs").exists()]
    inner = [g / "user" if (g / "user").is_dir() else g for g in groups]
    path = steady.data / "layers" / f"{sandbox.id}.hold"
    with ThreadPoolExecutor(2) as pool, still_disk(steady):
        holder = subprocess.Popen(["dd", "if=/dev/zero", f"of={path}", "count=1"], stderr=subprocess.DEVNULL)
        wait_for(lambda: read_text(f"/proc/{holder.pid}/stat").split()[2:3] == ["D"], what="a process that cannot be ended")
        for group in inner:
            (group / "cgroup.procs").write_text(str(holder.pid))
        deleted = pool.submit(sandbox.delete)
    deleted.result()
    holder.wait()
    path.unlink(missing_ok=True)
    check_gone(steady, sandbox.id)


def criu_of(daemon):
    """CRIU's own process, once it is one: a child of the broker."""
    for pid in children_of(daemon.broker_pid):
        if read_text(f"/proc/{pid}/comm").strip() == "criu":
            return pid
    return None


@contextlib.contextmanager
def still_criu(daemon, begin):
    """Begins something that needs CRIU, which stands still meanwhile; gives what was begun."""
    with ThreadPoolExecutor(1) as pool:
        begun = pool.submit(begin)
        pid = wait_for(lambda: criu_of(daemon), what="CRIU")
        os.kill(pid, signal.SIGSTOP)
        try:
            yield begun
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)


@needs_criu
def test_a_sandbox_is_deleted_while_criu_stands_still_in_it(steady, api):
    sandbox = api.create()
    with still_criu(steady, lambda: sandbox.snapshot(memory=True)) as taken:
        sandbox.delete()
        with pytest.raises(errors.ClocheError) as e:
            taken.result()
    assert e.value.code in ("gone", "not_found", "conflict"), e.value
    check_gone(steady, sandbox.id)


@needs_criu
def test_a_memory_that_is_saved_slowly_is_saved(steady, api):
    sandbox = api.create()
    sandbox.run("echo 1 > a")
    with still_criu(steady, lambda: sandbox.snapshot(memory=True)) as taken:
        threading.Event().wait(STILL_S)
    snapshot = taken.result()["id"]
    with still_criu(steady, lambda: api.create(snapshot=snapshot)) as created:
        threading.Event().wait(STILL_S)
    copy = created.result()
    assert copy.run("cat a").stdout == sandbox.run("cat a").stdout == "1\n"
    for one in (sandbox, copy):
        one.delete()
    api.delete_snapshot(snapshot)
    check_gone(steady, sandbox.id, copy.id, snapshot)


def test_the_broker_serves_on_after_all_of_this(steady, api):
    assert call(steady, "GET", "/v1/health")[0] == 200
    sandbox = api.create()
    assert sandbox.run("echo yes").stdout == "yes\n"
    sandbox.delete()
    check_gone(steady, sandbox.id)
