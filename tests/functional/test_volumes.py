# SPDX-License-Identifier: Apache-2.0
"""Volumes: files that outlive sandboxes, who may have them, and what they are charged for."""

import contextlib
import sqlite3
import subprocess

import pytest
from cloche import Client, errors
from harness.daemon import Daemon, wait_for
from harness.schema import go_back

pytestmark = pytest.mark.jail("a vm has no volumes")


def put(sandbox, path, text):
    assert sandbox.run(["sh", "-c", f"printf %s {text} > {path}"]).exit_code == 0


def test_what_one_sandbox_leaves_in_a_volume_the_next_one_finds(client, volume):
    name = volume()
    with client.create(volumes={"/data": name}) as first:
        put(first, "/data/note", "kept")
        assert first.info.raw["volumes"] == [{"volume_id": client.volume(name)["id"], "name": name, "path": "/data", "read_only": False}]
    with client.create(volumes={"/srv/deep/place": name}) as second:
        assert second.files.read_text("/srv/deep/place/note") == "kept"
        assert second.run("stat -c %U:%a /srv/deep/place").stdout == "user:755\n"


def test_two_that_run_see_each_others_files_and_one_that_only_reads_cannot_write(client, volume):
    name = volume()
    with client.create(volumes={"/v": name}) as a, client.create(volumes={"/v": {"volume": name, "read_only": True}}) as b:
        put(a, "/v/x", "1")
        assert b.run("cat /v/x").stdout == "1"
        assert "Read-only" in b.run("sudo sh -c 'echo 2 > /v/x'").stderr
        assert sorted(client.volume(name)["sandbox_ids"]) == sorted([a.id, b.id])


def test_of_a_volume_with_one_writer_a_second_is_refused_until_the_first_has_ended(client, volume):
    name = volume(one_writer=True)
    with client.create(volumes={"/v": name}) as writer:
        with pytest.raises(errors.Conflict, match=writer.id):
            client.create(volumes={"/v": name})
        with client.create(volumes={"/v": {"volume": name, "read_only": True}}) as reader:
            assert reader.run("ls /v").exit_code == 0
    with client.create(volumes={"/v": name}) as writer:
        put(writer, "/v/x", "1")


def test_one_that_is_in_use_stays_and_one_that_is_not_goes_with_its_files(client, volume):
    name = volume()
    with client.create(volumes={"/v": name}) as sandbox:
        with pytest.raises(errors.Conflict, match=sandbox.id):
            client.delete_volume(name)
    client.delete_volume(name)
    assert name not in [one["name"] for one in client.volumes()]
    with pytest.raises(errors.InvalidField, match="no volume"):
        client.create(volumes={"/v": name})


def test_a_persistent_one_has_its_volume_again_and_says_so_when_it_is_gone(client, volume):
    name = volume()
    sandbox = client.create(persistent=True, volumes={"/v": name})
    try:
        put(sandbox, "/v/x", "1")
        sandbox.stop()
        with client.create(volumes={"/v": name}) as other:
            put(other, "/v/x", "2")
        assert sandbox.run("cat /v/x").stdout == "2"
        sandbox.stop()
        client.delete_volume(name)
        with pytest.raises(errors.NotFound, match="is gone"):
            sandbox.run("true")
    finally:
        sandbox.delete()


def test_snapshots_and_forks_leave_a_volume_alone(client, volume):
    name = volume()
    with client.create(volumes={"/v": name}) as sandbox:
        put(sandbox, "/v/x", "1")
        [fork] = sandbox.fork(1, memory=False)
        with fork:
            put(fork, "/v/x", "2")
        assert sandbox.run("cat /v/x").stdout == "2"
        with pytest.raises(errors.Unsupported, match="has volumes"):
            sandbox.snapshot(memory=True)
        taken = sandbox.snapshot()
        try:
            with client.create(snapshot=taken["id"]) as copy:
                assert copy.run("ls /v").stdout == ""
        finally:
            client.delete_snapshot(taken["id"])


@pytest.mark.parametrize("path", ["/", "relative", "/etc", "/etc/x", "/usr/local/x", "/proc/1", "/dev/x", "/a/../etc", "/a//b", "/a/", "/opt"])
def test_a_place_that_is_none_is_refused_by_name(client, volume, path):
    with pytest.raises(errors.InvalidField, match="volumes"):
        client.create(volumes={path: volume()})


def test_two_in_one_place_five_at_once_and_a_name_that_is_taken_are_refused(client, volume):
    name, other = volume(), volume()
    with pytest.raises(errors.InvalidField, match="one place"):
        client.create(volumes={"/v": name, "/v/w": other})
    with pytest.raises(errors.InvalidField, match="volumes"):
        client.create(volumes={f"/v{i}": name for i in range(5)})
    with pytest.raises(errors.Conflict):
        client.create_volume(name)
    with pytest.raises(errors.InvalidField, match="name"):
        client.create_volume("../x")


def test_a_vm_is_refused_with_the_reason(client, volume):
    with pytest.raises(errors.ClocheError) as refused:
        client.create(engine="vm", volumes={"/v": volume()})
    assert refused.value.code in ("unsupported", "unavailable")


def test_one_is_there_after_any_kill_and_what_nobody_recorded_goes():
    daemon = Daemon("--pool-max", "0", rm=False).start()
    try:
        with Client(daemon.url, daemon.key) as client:
            volume = client.create_volume("data", size_mib=16)
            sandbox = client.create(volumes={"/v": "data"})
            put(sandbox, "/v/x", "1")
            layers = daemon.data / "layers"
            for half in (".new", ".gone"):
                subprocess.run(["btrfs", "-q", "subvolume", "create", str(layers / (volume["id"] + half))], check=True)
            daemon.kill_parts("gateway")
            assert sandbox.run("cat /v/x").stdout == "1"
            with pytest.raises(errors.Conflict):
                client.delete_volume("data")
            daemon.kill_parts("broker")
            wait_for(lambda: [p.name for p in layers.glob("vo_*")] == [volume["id"]])
            assert sandbox.run("cat /v/x").stdout == "1"
            after = client.volume("data")
            assert (after["id"], after["state"], after["sandbox_ids"]) == (volume["id"], "ready", [sandbox.id])
            with pytest.raises(errors.Conflict):  # the broker's own word, of one that it adopted
                client.delete_volume("data")
            sandbox.delete()
            client.delete_volume("data")
            wait_for(lambda: not list(layers.glob("vo_*")))
            assert "broker.refused" not in daemon.log()
    finally:
        daemon.stop()
        daemon.remove()


def make_old(state):
    """Puts the volumes where a cloche of schema version 12 had them: into the table of faces, one JSON text each."""
    fields = "'project_id', project_id, 'key_id', key_id, 'name', name, 'bytes', bytes, 'has_one_writer', json(CASE WHEN has_one_writer THEN 'true' ELSE 'false' END)"
    with contextlib.closing(sqlite3.connect(state)) as db, db:
        db.execute(f"INSERT INTO faces SELECT id, 'volume', created_us, json_object({fields}) FROM volumes")
        go_back(db, 12)


def test_one_of_an_older_cloche_is_there_after_an_upgrade_with_its_files():
    daemon = Daemon("--pool-max", "0", rm=False).start()
    try:
        with Client(daemon.url, daemon.key) as client:
            before = [client.create_volume("data", size_mib=16), client.create_volume("single", one_writer=True)]
            with client.create(volumes={"/v": "data"}) as sandbox:
                put(sandbox, "/v/x", "1")
        assert daemon.stop() == 0
        make_old(daemon.data / "gateway" / "state.db")
        daemon.start()
        with Client(daemon.url, daemon.key) as client:
            assert [{**client.volume(v["name"]), "used_bytes": 0} for v in before] == [{**v, "used_bytes": 0} for v in before]
            with client.create(volumes={"/v": "data"}) as sandbox:
                assert sandbox.run("cat /v/x").stdout == "1"
            for v in before:
                client.delete_volume(v["name"])
        assert "volume.orphaned" not in daemon.log()
    finally:
        daemon.stop()
        daemon.remove()
