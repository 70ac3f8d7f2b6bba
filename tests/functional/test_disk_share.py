# SPDX-License-Identifier: Apache-2.0
"""A project has a share of the sandboxes' room: who fills it gets an error inside, and the others keep theirs."""

import os

import pytest
from cloche import Client
from harness.daemon import Daemon, call, wait_for
from harness.small_disk import MIB, Disk

SHARE = 40
MEMORY_MIB = 128
HAS_SIMPLE_QUOTAS = tuple(int(n) for n in os.uname().release.split(".")[:2]) >= (6, 7)


def health(daemon):
    return call(daemon, "GET", "/v1/health")[1]


@pytest.fixture
def shared():
    """A daemon on a small disk whose projects have a share each: (daemon, client of one, client of another)."""
    daemon = Daemon("--pool-max", "0", "--no-zygotes", "--default-memory", f"{MEMORY_MIB}MiB", "--quota-disk-share", str(SHARE))
    disk = Disk(daemon)
    try:
        daemon.start()
        clients, admin = [], Client(daemon.url, daemon.key)
        for name in ("greedy", "modest"):
            admin.create_project(name)
            clients.append(Client(daemon.url, admin.create_key(name, scope="write", project=name)["secret"]))
        yield daemon, *clients
        for client in (*clients, admin):
            client.close()
        assert daemon.stop() == 0
    finally:
        if daemon.process and daemon.process.poll() is None:
            daemon.stop()
        disk.remove()
        daemon.remove()


def fill(box, mib, at="."):
    """How many MiB came to lie there, and what was said."""
    result = box.run(f"cd {at} && head -c {mib}M /dev/zero > big; stat -c %s big 2>/dev/null || echo 0", timeout=500)
    return int(result.stdout) // MIB, result.stderr


@pytest.mark.skipif(not HAS_SIMPLE_QUOTAS, reason="a share needs simple quotas: Linux 6.7")
def test_a_project_that_fills_its_share_leaves_the_others_theirs(shared):
    daemon, greedy, modest = shared
    room = health(daemon)["disk"]["layers_limit_mib"]
    boxes = [greedy.create(limits={"disk_mib": 2048}) for _ in range(2)]
    greedy.create_volume("more", size_mib=2048)
    boxes.append(greedy.create(volumes={"/data": "more"}))
    took = [fill(b, room, at) for b, at in zip(boxes, (".", ".", "/data"), strict=True)]
    # What a sandbox has written and the disk has not yet is at most its memory, and is counted when it is there.
    assert sum(t[0] for t in took) <= room * (SHARE + 5) // 100 + MEMORY_MIB, took
    assert all("quota" in t[1].lower() for t in took), took
    assert health(daemon)["status"] == "ok"
    with modest.create(limits={"disk_mib": 2048}) as other:
        assert fill(other, room * 25 // 100)[0] == room * 25 // 100
    # What it deletes is its own again.
    assert boxes[0].run("rm big").exit_code == 0
    wait_for(lambda: boxes[1].run("head -c 16M /dev/zero > again").exit_code == 0, what="room for its own")
    for b in boxes:
        b.delete()
    greedy.delete_volume("more")
