# SPDX-License-Identifier: Apache-2.0
"""Operation: state that is damaged, gone or of another version is refused with a clear word, and nothing is destroyed."""

import configparser
import contextlib
import os
import shutil
import socket
import sqlite3
import subprocess

import pytest
from cloche import Client, ClocheError
from harness import audit
from harness.daemon import BUILD, ROOT, Daemon, wait_for

pytestmark = pytest.mark.slow  # daemons are stopped and started, time and again


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
    why = refused(daemon)
    assert "has version 99, this cloche knows" in why and "start the cloche that made it" in why
    record.write_bytes(good)


def test_O07_a_database_that_another_process_holds_is_refused(left):
    daemon, _ = left
    with contextlib.closing(sqlite3.connect(daemon.data / "gateway" / "state.db", isolation_level=None)) as other:
        other.execute("PRAGMA locking_mode = EXCLUSIVE")
        other.execute("BEGIN EXCLUSIVE")
        assert "in use by another process" in refused(daemon)
        other.execute("ROLLBACK")


def test_O07_a_database_that_cannot_be_written_is_refused(left):
    daemon, _ = left
    state = daemon.data / "gateway" / "state.db"
    owner = state.stat()
    os.chown(state, 0, 0)
    state.chmod(0o444)
    assert "cannot open the database '/state.db': Permission denied" in refused(daemon)
    os.chown(state, owner.st_uid, owner.st_gid)
    state.chmod(owner.st_mode & 0o777)


def test_O07_a_garbage_log_of_the_database_is_refused_with_what_to_do(left):
    daemon, _ = left
    state = daemon.data / "gateway" / "state.db"
    wal = state.parent / "state.db-wal"
    owner = state.stat()
    wal.write_bytes(b"garbage " * 1000)
    os.chown(wal, owner.st_uid, owner.st_gid)
    told = refused(daemon)
    assert "log '/state.db-wal' is damaged" in told and f"in '{state.parent}'" in told and "move it away" in told
    assert wal.read_bytes() == b"garbage " * 1000
    wal.unlink()


def test_O07_a_log_of_the_database_that_is_not_ours_to_write_is_refused(left):
    """It would be ready, and every write fail."""
    daemon, _ = left
    wal = daemon.data / "gateway" / "state.db-wal"
    wal.write_bytes(bytes(4096))
    assert "cannot open '/state.db-wal': Permission denied" in refused(daemon)
    wal.unlink()


def test_O07_a_log_of_the_database_that_was_never_synced_is_fine(left):
    """What a lost write leaves behind a file's end is zeros, and nothing was promised of it."""
    daemon, _ = left
    wal = daemon.data / "gateway" / "state.db-wal"
    owner = (wal.parent / "state.db").stat()
    wal.write_bytes(bytes(4096))
    os.chown(wal, owner.st_uid, owner.st_gid)
    daemon.start()
    with Client(daemon.url, daemon.key) as client:
        assert client.get("left").files.read("mark") == b"1"
    assert daemon.stop() == 0


@pytest.mark.parametrize("damage", [b"", b"half of the key!", bytes(32), b"garbage" * 100], ids=["empty", "half", "zeros", "long"])
def test_O07_a_damaged_key_of_the_wall_is_named_with_what_to_do(left, damage):
    daemon, _ = left
    key = daemon.data / "wall.key"
    good = key.read_bytes()
    key.write_bytes(damage)
    told = refused(daemon)
    assert f"the key '{key}' is damaged" in told and "restore it from a backup, or remove it" in told
    assert key.read_bytes() == damage
    key.write_bytes(good)


@pytest.fixture
def narrow():
    """A daemon whose database and output have 8 MiB of room: (daemon, client)."""
    daemon = Daemon("--plain-storage", "--pool-max", "0")
    daemon.start().stop()
    place = daemon.data / "gateway"
    owner = place.stat()
    shutil.rmtree(place)
    place.mkdir()
    options = f"size=8m,uid={owner.st_uid},gid={owner.st_gid},mode=0700"
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "cloche-test", place], check=True)
    (daemon.data / "admin.key").unlink(missing_ok=True)
    ids = set()
    try:
        daemon.start()
        with Client(daemon.url, daemon.key) as client:
            yield daemon, client
        ids = daemon.ids()
    finally:
        status = daemon.stop()
        subprocess.run(["umount", place], check=True)
    found = audit.left_after_stop(daemon, ids)
    log = daemon.log()
    daemon.remove()
    assert (status, found) == (0, []), log[-4000:]


def fill(path):
    with open(path, "wb", buffering=0) as f, contextlib.suppress(OSError):
        while True:
            f.write(b"\0" * 4096)


def test_O07_without_room_for_the_database_calls_are_refused_and_nothing_is_lost(narrow):
    daemon, client = narrow
    sandbox = client.create(name="before")
    running = sandbox.start("read x; echo got $x", open_stdin=True)
    gateway = daemon.gateway_pid
    filler = daemon.data / "gateway" / "filler"
    fill(filler)
    with pytest.raises(ClocheError) as refusal:
        for i in range(100):
            client.create(name=f"none-{i}")
    assert (refusal.value.status, "database" in str(refusal.value)) == (507, True), refusal.value
    names = {s.info.name for s in client.list()}
    assert "before" in names and daemon.gateway_pid == gateway
    filler.unlink()
    assert client.create(name="after").info.state == "running"
    running.write_stdin(b"it\n", eof=True)
    assert running.wait(60).exit_code == 0
    assert b"".join(x.data for x in running.output()) == b"got it\n"
    assert {s.info.name for s in client.list()} == names | {"after"}
    daemon.kill_parts("gateway")
    assert {s.info.name for s in client.list()} == names | {"after"}


def copy_program(target):
    """The program as another installation has it: other files at another place, and another agent by its bytes, so that its
    templates are others too."""
    target.mkdir()
    for name in ("cloche", "cloche-agent"):
        shutil.copy2(BUILD / name, target / name)
    with open(target / "cloche-agent", "ab") as f:
        f.write(b"of another build")
    shutil.copytree(BUILD / "kernels-beside", target / "kernels-beside")
    return target / "cloche"


def test_a_program_without_the_drivers_of_its_interpreters_does_not_start(tmp_path):
    program = copy_program(tmp_path / "copied")
    shutil.rmtree(program.parent / "kernels-beside")
    data = tmp_path / "data"
    argv = [program, "serve", "--data", data, "--run", tmp_path / "run", "--listen", "none"]
    done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
    assert done.returncode != 0
    assert "drivers of the interpreters" in done.stderr and "copy the folder kernels-beside" in done.stderr
    assert not data.exists()  # nothing was made before that


@pytest.mark.parametrize("how", ["stopped", "killed"])
def test_O05_a_program_at_another_place_takes_over_what_runs(how):
    """An upgrade: the agents of before go on inside, under the daemon of now."""
    daemon = Daemon("--plain-storage", rm=False)
    daemon.program = copy_program(daemon.dir / "old")
    daemon.start()
    try:
        with Client(daemon.url, daemon.key) as client:
            sandbox = client.create(name="stays")
            assert sandbox.run_code("x = 41").error is None
            e = sandbox.start("i=0; while [ ! -e done ]; do echo line $i; i=$((i+1)); sleep 0.01; done")
            wait_for(lambda: sum(len(x.data) for x in e.output(follow=False)) > 100, 30, "output")
        if how == "killed":
            daemon.process.kill()
            daemon.process.wait()
        else:
            assert daemon.stop() == 0
        shutil.rmtree(daemon.dir / "old")
        daemon.program = BUILD / "cloche"
        daemon.options.append("--rm")
        daemon.start()
        with Client(daemon.url, daemon.key) as client:
            again = client.get("stays")
            assert (again.id, again.info.state) == (sandbox.id, "running")
            again.files.write("done", b"")
            e = again.exec(e.id)
            assert e.wait(60).exit_code == 0
            lines = b"".join(x.data for x in e.output() if x.type == "stdout").decode().splitlines()
            assert lines == [f"line {i}" for i in range(len(lines))]
            assert again.run_code("x + 1").text == "42"
            assert client.create().run("true").exit_code == 0
    finally:
        ids = daemon.ids()
        status = daemon.stop()
        found = audit.left_after_stop(daemon, ids)
        daemon.remove()
    assert (status, found) == (0, [])


def read_unit(path):
    """A unit as {section: {name: value}}."""
    unit = configparser.ConfigParser(strict=False, interpolation=None, comment_prefixes="#")
    unit.optionxform = str
    assert unit.read(path)
    return unit


@contextlib.contextmanager
def notified(path):
    """A socket as systemd gives one to a unit of Type=notify."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as s:
        s.bind(str(path))
        s.settimeout(60)
        yield s


def test_O05_a_restart_by_systemd_ends_no_sandbox(tmp_path, monkeypatch):
    """As systemd does it by what the unit says: only the main process is asked to end, and cgroups and kills inside are not its business."""
    whole = read_unit(BUILD / "cloche.service")
    unit = whole["Service"]
    wanted = {"Type": "notify", "KillMode": "process", "OOMPolicy": "continue", "Restart": "on-failure", "WatchdogSec": "60"}
    assert {name: unit[name] for name in wanted} == wanted
    home = read_unit(ROOT / "packaging/systemd/cloche-sandboxes.service")["Service"]
    wanted = {"ExitType": "cgroup", "Delegate": "yes", "OOMPolicy": "continue", "TasksMax": "infinity"}
    assert {name: home[name] for name in wanted} == wanted
    assert "cloche-sandboxes.service" in whole["Unit"]["Requires"] and "cloche-sandboxes.service" in whole["Unit"]["After"]
    assert unit["ExecStart"].endswith("/cloche serve") and "ExecStop" not in unit and "RuntimeDirectory" not in unit
    daemon = Daemon("--plain-storage", "--pool-max", "0", rm=False)
    monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
    with notified(tmp_path / "notify") as s:
        try:
            daemon.start()
            wait_for(lambda: s.recv(1000) == b"READY=1", what="readiness")
            with Client(daemon.url, daemon.key) as client:
                sandbox = client.create(name="stays")
                e = sandbox.start("while [ ! -e done ]; do sleep 0.01; done; echo $$")
                pids = wait_for(lambda: audit.processes_of_cgroups({sandbox.id}), 10, "processes")
            assert daemon.stop() == 0
            agent = min(pids)
            assert os.path.exists(f"/proc/{agent}")
            daemon.options.append("--rm")
            daemon.start()
            wait_for(lambda: s.recv(1000) == b"READY=1", what="readiness")
            with Client(daemon.url, daemon.key) as client:
                again = client.get("stays")
                assert agent in audit.processes_of_cgroups({again.id})
                again.files.write("done", b"")
                assert again.exec(e.id).wait(60).exit_code == 0
        finally:
            ids = daemon.ids()
            status = daemon.stop()
            found = audit.left_after_stop(daemon, ids)
            daemon.remove()
    assert (status, found) == (0, [])
