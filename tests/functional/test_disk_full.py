# SPDX-License-Identifier: Apache-2.0
"""Snapshots and pauses on a disk without room for them: told as that, the sandbox goes on, nothing is left, and with room they work."""

import os
import shutil
import subprocess

import pytest
from cloche import Client, errors
from harness import audit
from harness.daemon import IS_SANITIZED, Daemon, call, wait_for

DISK = 512 << 20
FULL = 64 << 20  # with less nothing new begins
ENOUGH_TO_BEGIN = 72 << 20  # a snapshot is begun with 64 MiB and more
HELD = 96 << 20
NO_MEMORY = IS_SANITIZED or shutil.which("criu", path="/usr/sbin:/usr/bin") is None


@pytest.fixture(scope="module")
def small():
    """A daemon whose layers are on a btrfs of their own: (daemon, client)."""
    daemon = Daemon("--pool-max", "0", "--no-zygotes")
    layers, disk = daemon.data / "layers", daemon.dir / "disk"
    layers.mkdir(parents=True)
    disk.touch()
    os.truncate(disk, DISK)
    subprocess.run(["mkfs.btrfs", "-q", "-K", "--mixed", "-m", "single", "-d", "single", disk], check=True)
    subprocess.run(["mount", "-o", "loop,noatime", disk, layers], check=True)
    ids, status = set(), None
    try:
        daemon.start()
        with Client(daemon.url, daemon.key) as client:
            yield daemon, client
        ids = daemon.ids()
    finally:
        status = daemon.stop()
        if os.path.ismount(layers):
            subprocess.run(["umount", layers], check=True)
        found, log = audit.left_after_stop(daemon, ids), daemon.log()
        daemon.remove()
    assert (status, found) == (0, []), log[-4000:]


@pytest.fixture
def filled(small):
    """A function that leaves so many bytes free, or all (None); all are at the end."""
    layers = small[0].data / "layers"
    ballast = layers / "ballast"

    def fill(free):
        ballast.unlink(missing_ok=True)
        subprocess.run(["sync", "-f", layers], check=True)
        with open(ballast, "wb") as f:
            while free is not None and (more := shutil.disk_usage(layers).free - free) > 1 << 20:
                os.posix_fallocate(f.fileno(), f.seek(0, os.SEEK_END), more)
                subprocess.run(["sync", "-f", layers], check=True)
        state = "full" if free is not None and free < FULL else "ok"
        wait_for(lambda: call(small[0], "GET", "/v1/health")[1]["disk"]["state"] == state, what=f"a disk that is {state}")

    yield fill
    ballast.unlink(missing_ok=True)


def halves(daemon):
    return [n for n in os.listdir(daemon.data / "layers") if n.startswith(("sn_", "roll_"))]


def value(sandbox, code):
    result = sandbox.run_code(code)
    assert result.error is None, result.error
    return result.text


def check_unharmed(daemon, client, sandbox):
    wait_for(lambda: sandbox.refresh().state == "running", 10, "the sandbox")
    assert list(client.snapshots()) == []
    wait_for(lambda: halves(daemon) == [], 10, "nothing left on the disk")


def test_a_snapshot_without_room_is_refused_and_the_sandbox_goes_on(small, filled):
    daemon, client = small
    with client.create() as sandbox:
        running = sandbox.start("echo a > a; read x; echo got $x", open_stdin=True)
        filled(30 << 20)
        for refused in (lambda: sandbox.snapshot("none"), lambda: sandbox.fork(2, memory=False)):
            with pytest.raises(errors.DiskFull, match="the host's disk is full"):
                refused()
        check_unharmed(daemon, client, sandbox)
        running.write_stdin(b"it\n", eof=True)
        assert running.wait(60).exit_code == 0
        filled(None)
        saved = sandbox.snapshot("none")["id"]
        sandbox.run("echo b > a")
        sandbox.rollback(saved)
        assert sandbox.run("cat a").stdout == "a\n"
    client.delete_snapshot(saved)


@pytest.mark.parametrize("verb", ["snapshot", "pause"])
@pytest.mark.skipif(NO_MEMORY, reason="no criu, or a sanitized agent, which maps terabytes")
def test_a_disk_that_fills_up_while_memory_is_saved_is_told_and_costs_nothing(small, filled, verb):
    daemon, client = small
    acts = {"snapshot": lambda s: s.snapshot(memory=True), "pause": lambda s: s.pause(to="disk")}
    with client.create(limits={"memory_mib": 512}) as sandbox:
        value(sandbox, f"import os; x = bytearray(os.urandom({HELD})); y = hash(bytes(x))")
        running = sandbox.start("read x; echo got $x", open_stdin=True)
        filled(ENOUGH_TO_BEGIN)
        with pytest.raises(errors.DiskFull, match="host's disk"):
            acts[verb](sandbox)
        check_unharmed(daemon, client, sandbox)
        if verb == "pause":  # where it may choose, it stays in memory
            assert sandbox.pause().paused_to == "memory"
            sandbox.resume()
        filled(None)
        made = acts[verb](sandbox)
        assert value(sandbox, "hash(bytes(x)) == y") == "True"  # resumes one that is paused
        running.write_stdin(b"it\n", eof=True)
        assert running.wait(60).exit_code == 0
        if verb == "snapshot":
            client.delete_snapshot(made["id"])
        wait_for(lambda: halves(daemon) == [], 10, "nothing left on the disk")
