# SPDX-License-Identifier: Apache-2.0
"""The disk below the data directory fills up, by somebody else or by sandboxes: nothing that was answered is lost, nothing new begins, and with room all goes on."""

import os
import signal
import subprocess
from pathlib import Path

import pytest
from cloche import Client, errors
from harness import audit
from harness.daemon import IS_SANITIZED, Daemon, call, read_text, wait_for
from harness.oci import busybox_layer
from harness.running import running
from harness.small_disk import DISK, MIB, Disk

BODY = os.urandom(8 * MIB)


@pytest.fixture
def small():
    """A daemon on a small disk: (daemon, disk, client)."""
    daemon = Daemon("--pool-max", "0", "--no-zygotes", "--default-memory", "128MiB", rm=True)
    disk = Disk(daemon)
    ids, status = set(), None
    try:
        daemon.start()
        with Client(daemon.url, daemon.key) as client:
            yield daemon, disk, client
        ids = daemon.ids()
    finally:
        disk.empty()
        status = daemon.stop() if daemon.process else None
        disk.remove()
        found, log = audit.left_after_stop(daemon, ids), daemon.log()
        daemon.remove()
    assert (status, found) == (0, []), log[-4000:]


def health(daemon):
    return call(daemon, "GET", "/v1/health")[1]


def await_state(daemon, state):
    return wait_for(lambda: h if (h := health(daemon)).get("disk", {}).get("state") == state else None, what=f"a disk that is {state}")


def await_problem(daemon, code):
    def found():
        told = health(daemon)
        return told if any(p["code"] == code for p in told["problems"]) else None

    return wait_for(found, what=f"the problem {code}")


def is_read_only(daemon):
    return any(line.split()[1] == str(daemon.data / "layers") and "ro" in line.split()[3].split(",") for line in read_text("/proc/mounts").splitlines())


def told(client):
    return [e["data"]["state"] for e in client.events(all=True) if e["type"] == "host.disk"]


def refused(fn):
    with pytest.raises(errors.HostDiskFull, match="the host's disk is full") as caught:
        fn()
    assert caught.value.hint


def test_a_disk_that_others_fill_costs_nothing_that_was_answered(small):
    daemon, disk, client = small
    kept = client.create(name="kept", persistent=True)
    plain = client.create()
    saved = kept.snapshot("before")["id"]
    client.create_volume("files", size_mib=256)
    running = plain.start("read x; echo got $x", open_stdin=True)
    for i in range(4):
        plain.files.write(f"early-{i}", BODY)
        kept.files.write(f"early-{i}", BODY)
    disk.fill()
    assert disk.free < MIB
    await_state(daemon, "full")
    state = await_problem(daemon, "host_disk_full")
    assert (state["status"], state["ready"]) == ("degraded", False)
    # Inside, what the layers have is still theirs; each write that ends well is there.
    assert plain.run("head -c 32M /dev/urandom > inside && sha256sum < inside > sum && sync").exit_code == 0
    refused(client.create)
    refused(lambda: kept.snapshot("during"))
    refused(lambda: client.create_volume("more", size_mib=64))
    refused(lambda: plain.files.write("late", BODY))
    refused(lambda: kept.rollback(saved))
    subprocess.run(["sync", "-f", daemon.data / "layers"], check=True)
    assert not is_read_only(daemon)
    assert plain.files.read("early-3") == BODY
    running.write_stdin(b"it\n", eof=True)
    assert running.wait(60).exit_code == 0
    kept.stop()
    refused(kept.resume)
    disk.empty()
    await_state(daemon, "ok")
    wait_for(lambda: health(daemon)["status"] == "ok", what="a daemon without problems")
    kept.resume()
    assert [kept.files.read(f"early-{i}") == BODY for i in range(4)] == [True] * 4
    assert plain.run("sha256sum < inside | cmp - sum").exit_code == 0
    kept.rollback(saved)
    with client.create(volumes={"/data": "files"}) as other:
        assert other.run("echo fine > /data/x && cat /data/x").stdout == "fine\n"
    wait_for(lambda: told(client) == ["full", "ok"], what="events that tell")
    kept.delete()
    plain.delete()


@pytest.mark.slow
def test_sandboxes_that_fill_the_disk_leave_the_reserve_and_get_an_error_inside(small):
    daemon, disk, client = small
    reserve = health(daemon)["disk"]["reserve_mib"] * MIB
    assert reserve > 50 * MIB
    boxes = [client.create(limits={"disk_mib": 2048}) for _ in range(2)]
    greedy = [b.start("head -c 1900M /dev/zero > big", timeout=500) for b in boxes]
    assert all(g.wait(500).exit_code == 1 for g in greedy)
    await_state(daemon, "full")
    assert disk.free + os.stat(daemon.data / "reserve").st_blocks * 512 >= reserve and not is_read_only(daemon)
    refused(client.create)
    for b in boxes:  # what runs goes on, and can make room by itself
        assert b.run("rm big").exit_code == 0
    await_state(daemon, "ok")
    with client.create() as another:
        assert another.run("echo fine").stdout == "fine\n"
    for b in boxes:
        b.delete()


def test_layers_grow_ahead_of_their_use(small):
    daemon, disk, client = small
    first = health(daemon)["disk"]["layers_mib"]
    image = daemon.data / "layers.btrfs"
    assert first < DISK // MIB // 2
    with client.create(limits={"disk_mib": 2048}) as box:
        assert box.run("head -c 700M /dev/zero > big", timeout=500).exit_code == 0
        grown = wait_for(lambda: n if (n := health(daemon)["disk"]["layers_mib"]) > first else None, what="layers that grow")
        assert os.stat(image).st_blocks * 512 >= grown * MIB


def bytes_in_memory(daemon):
    """Of the layers: written by sandboxes, and not on disk yet."""
    device = next(line.split()[0] for line in read_text("/proc/mounts").splitlines() if line.split()[1] == str(daemon.data / "layers"))
    (fs,) = Path("/sys/fs/btrfs").glob(f"*/devices/{Path(device).name}")
    return int((fs.parents[1] / "allocation/data/bytes_may_use").read_text())


def test_layers_grow_for_what_is_still_in_memory():
    """What is written has its room at once, though statfs() calls it free until it is on disk, half a minute later."""
    with running(Daemon("--pool-max", "0", "--no-zygotes")) as daemon, Client(daemon.url, daemon.key) as client:
        with client.create(limits={"memory_mib": 2048, "disk_mib": 4096}) as box:
            left = []
            for i in range(5):  # a busy host may be about to write all out
                before = health(daemon)["disk"]
                used = before["layers_mib"] - before["layers_free_mib"]
                assert box.run(f"head -c 256M /dev/zero > f{i}", timeout=500).exit_code == 0
                wait_for(lambda: (now := health(daemon)["disk"])["layers_mib"] - now["layers_free_mib"] >= used + 240, what="a figure that has it")
                left.append(bytes_in_memory(daemon))
            assert max(left) > 64 * MIB, f"it was counted only when it was on disk: {left}"


@pytest.mark.slow
def test_images_are_made_above_the_reserve_and_halves_of_them_are_removed(small):
    daemon, disk, client = small
    templates = daemon.data / "templates"
    before = set(os.listdir(templates))
    box = client.create(limits={"disk_mib": 1024})
    assert box.run("mkdir /template && head -c 120M /dev/urandom > /template/big && sync", user="root", timeout=500).exit_code == 0
    reserve, held = health(daemon)["disk"]["reserve_mib"] * MIB, os.stat(daemon.data / "reserve").st_blocks * 512
    disk.fill(leave=reserve * 9 // 8 - held + 80 * MIB)
    with pytest.raises(errors.HostDiskFull, match="no room for the image") as caught:
        client.create_template("made", box, tree=True)
    assert caught.value.hint
    assert told(client) == [], "the reserve was touched"
    wait_for(lambda: set(os.listdir(templates)) == before, what="the half of an image to be removed")
    disk.fill()
    await_state(daemon, "full")
    refused(lambda: client.import_template("imported", busybox_layer().bytes()))
    refused(lambda: client.start_build('name = "built"\nfrom = "debian:bookworm"\n'))
    refused(lambda: client.create_template("made", box, tree=True))
    assert set(os.listdir(templates)) == before and [t["name"] for t in client.templates()] == ["host"]
    disk.empty()
    await_state(daemon, "ok")
    client.import_template("imported", busybox_layer().bytes())
    with client.create(template="imported") as imported:
        assert imported.run("echo fine").stdout == "fine\n"
    box.delete()


@pytest.mark.parametrize("way", ["kill", "stop"])
def test_a_daemon_starts_on_a_full_disk_or_says_what_to_do_and_loses_nothing(way):
    daemon = Daemon("--pool-max", "0", "--no-zygotes", "--default-memory", "128MiB", rm=False)
    disk = Disk(daemon)
    try:
        daemon.start()
        with Client(daemon.url, daemon.key) as client:
            kept = client.create(name="kept", persistent=True)
            kept.files.write("file", BODY)
            kept.stop()
        disk.fill()
        await_state(daemon, "full")
        if way == "kill":
            os.kill(daemon.process.pid, signal.SIGKILL)
            daemon.process.wait()
        else:
            assert daemon.stop() == 0
        try:
            daemon.start()
        except RuntimeError:
            assert "make room" in daemon.log() and "btrfs-progs" not in daemon.log()
            disk.empty()
            daemon.start()
        disk.empty()
        await_state(daemon, "ok")
        with Client(daemon.url, daemon.key) as client:
            kept = client.get("kept")
            kept.resume()
            assert kept.files.read("file") == BODY
            kept.delete()
    finally:
        disk.empty()
        daemon.stop()
        subprocess.run([daemon.program, "serve", "--sweep", "--data", daemon.data, "--run", daemon.run], check=False, timeout=120)
        disk.remove()
        daemon.remove()


def test_a_filesystem_that_gave_up_is_told_and_mounted_anew_at_the_next_start():
    daemon = Daemon("--pool-max", "0", "--no-zygotes", "--default-memory", "128MiB", rm=False)
    disk = Disk(daemon)
    try:
        daemon.start()
        layers = daemon.data / "layers"
        with Client(daemon.url, daemon.key) as client:
            kept = client.create(name="kept", persistent=True)
            kept.files.write("file", BODY)
            kept.stop()
            alive = client.create()
            # As after an abort: nothing below it takes a write any more.
            wait_for(lambda: subprocess.run(["mount", "-o", "remount,ro", layers]).returncode == 0, what="layers that nobody writes to")
            await_state(daemon, "read_only")
            state = await_problem(daemon, "layers_read_only")
            assert (state["status"], state["ready"]) == ("degraded", False)
            with pytest.raises(errors.Unavailable, match="failed") as caught:
                client.create()
            assert "restart the daemon" in caught.value.hint
            said = subprocess.run([daemon.program, "doctor", "--json", "--url", daemon.url, "--key-file", daemon.data / "admin.key"], capture_output=True, text=True).stdout
            assert "layers_read_only" in said
            metrics = call(daemon, "GET", "/metrics")[1].decode()
            assert 'cloche_disk_state{state="read_only"} 1' in metrics
            wait_for(lambda: told(client) == ["read_only"], what="events that tell")
        daemon.stop()
        daemon.start()
        assert health(daemon)["disk"]["state"] == "ok"
        with Client(daemon.url, daemon.key) as client:
            with pytest.raises((errors.Gone, errors.NotFound)):
                client.get(alive.id).run("true")
            kept = client.get("kept")
            kept.resume()
            assert kept.files.read("file") == BODY
            kept.delete()
    finally:
        daemon.stop()
        subprocess.run([daemon.program, "serve", "--sweep", "--data", daemon.data, "--run", daemon.run], check=False, timeout=120)
        disk.remove()
        daemon.remove()


@pytest.mark.skipif(IS_SANITIZED, reason="the figures are those of a plain build")
def test_a_layers_file_of_an_older_release_is_brought_under_the_rule():
    """It was sparse and as large as the disk, with discards on."""
    daemon = Daemon("--pool-max", "0", "--no-zygotes", "--default-memory", "128MiB")
    disk = Disk(daemon)
    image = daemon.data / "layers.btrfs"
    try:
        image.touch()
        os.truncate(image, 1536 * MIB)
        subprocess.run(["mkfs.btrfs", "-q", "-K", "-m", "single", image], check=True)
        daemon.start()
        wait_for(lambda: os.stat(image).st_blocks * 512 >= health(daemon)["disk"]["layers_mib"] * MIB, what="a file that is allocated")
        wait_for(lambda: health(daemon)["disk"]["layers_mib"] < 1536, what="a filesystem that is smaller")
        with Client(daemon.url, daemon.key) as client, client.create() as box:
            disk.fill()
            await_state(daemon, "full")
            assert box.run("head -c 64M /dev/urandom > f && sync").exit_code == 0
            subprocess.run(["sync", "-f", daemon.data / "layers"], check=True)
            assert not is_read_only(daemon)
            disk.empty()
    finally:
        disk.empty()
        daemon.stop()
        disk.remove()
        daemon.remove()
