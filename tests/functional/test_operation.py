# SPDX-License-Identifier: Apache-2.0
"""Operation: state that is damaged, gone or of another version is refused with a clear word, and nothing is destroyed."""

import os

import pytest
from cloche import Client
from harness import audit
from harness.daemon import Daemon


@pytest.fixture
def left():
    """A stopped daemon that has left a sandbox running: (daemon, the sandbox's id)."""
    daemon = Daemon("--plain-storage", "--pool-max", "0", rm=False).start()
    try:
        with Client(daemon.url, daemon.key) as client:
            sandbox = client.create(name="left")
            sandbox.files.write("mark", b"1")
        assert daemon.stop() == 0
        yield daemon, sandbox.id
        assert audit.processes_of_cgroups({sandbox.id}), "it was ended"
        daemon.start()
        with Client(daemon.url, daemon.key) as client:
            assert client.get("left").files.read("mark") == b"1"
            client.get("left").delete()
    finally:
        ids = daemon.ids()
        status = daemon.stop()
        found = audit.left_after_stop(daemon, ids)
        daemon.remove()
    assert (status, found) == (0, [])


def refused(daemon):
    with pytest.raises(RuntimeError) as e:
        daemon.start()
    return str(e.value)


def put_back(state, good):
    """The file as it was, whatever a refused start has put beside it."""
    for name in os.listdir(state.parent):
        if name.startswith("state.db") and name != "state.db":
            (state.parent / name).unlink()
    state.write_bytes(good)
    owner = state.parent.stat()
    os.chown(state, owner.st_uid, owner.st_gid)


@pytest.mark.parametrize("damage", ["garbage", "torn"])
def test_O07_a_damaged_database_is_refused_and_nothing_is_destroyed(left, damage):
    daemon, _ = left
    state = daemon.data / "gateway" / "state.db"
    good = state.read_bytes()
    bad = b"no database" * 1000 if damage == "garbage" else good[:4096] + b"\xff" * (len(good) - 4096)
    state.write_bytes(bad)
    assert "the database" in refused(daemon)
    assert state.read_bytes() == bad
    put_back(state, good)


def test_O07_a_database_that_is_gone_ends_no_running_sandbox(left):
    daemon, _ = left
    state = daemon.data / "gateway" / "state.db"
    good, key = state.read_bytes(), (daemon.data / "admin.key").read_text()
    state.unlink()
    assert "the database is new" in refused(daemon)
    put_back(state, good)
    (daemon.data / "admin.key").write_text(key)


def test_O05_a_record_of_another_version_is_refused_and_its_sandbox_lives(left):
    daemon, sandbox_id = left
    record = daemon.run / "sandboxes" / sandbox_id / "record"
    good = record.read_bytes()
    record.write_bytes(good[:4] + (99).to_bytes(4, "little") + good[8:])
    assert "another cloche" in refused(daemon)
    record.write_bytes(good)
