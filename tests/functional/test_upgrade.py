# SPDX-License-Identifier: Apache-2.0
"""An upgrade from each release of tests/upgrade/releases, under load: what the old program has left goes on under the new one.

The old programs are built from git's history (harness/release.py). Each test here looks at one thing that was there before.
"""

import contextlib
import json
import os
import shutil
import signal
import sqlite3
import subprocess
import threading

import pytest
from cloche import Client, errors
from harness import audit, release
from harness.daemon import BUILD, ENGINE, IS_SANITIZED, Daemon, call, children_of, wait_for

HAS_CRIU = shutil.which("criu", path="/usr/sbin:/usr/bin") is not None
NEEDS_CRIU = pytest.mark.skipif(not HAS_CRIU, reason="no criu")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.jail("sandboxes of an older release are jails here: an emulated machine takes minutes"),
    pytest.mark.skipif(ENGINE != "jail" or IS_SANITIZED, reason="on the plain build"),
]
# A root of some 2 MB.
TREE = """
set -e
mkdir -p /template/bin /template/etc
cp /bin/busybox /template/bin/
for i in sh bash cat; do ln -s busybox /template/bin/$i; done
echo of a template > /template/etc/mark
printf 'root:x:0:0::/root:/bin/sh\\nuser:x:1000:1000::/home/user:/bin/sh\\n' > /template/etc/passwd
"""
COUNT = "i=0; while :; do i=$((i+1)); echo $i; sleep 0.02; done"
LOAD = 2  # clients that go on meanwhile


def chosen():
    everything = os.environ.get("CLOCHE_TEST_UPGRADE")
    return [name for name, (_, when) in release.releases().items() if everything or when == "all"]


def value(sandbox, code, **more):
    result = sandbox.run_code(code, **more)
    assert result.error is None, result.error
    return result.results[-1].text if result.results else None


class Load:
    """Clients that create, run and delete all the time, and try again what a restart cut."""

    def __init__(self, daemon):
        self.daemon, self.over, self.done, self.faults = daemon, threading.Event(), 0, []
        self.threads = [threading.Thread(target=self._run) for _ in range(LOAD)]
        for t in self.threads:
            t.start()

    def _run(self):
        with Client(self.daemon.url, self.daemon.key) as client:
            while not self.over.is_set():
                try:
                    self._once(client)
                    self.done += 1
                except (errors.ConnectionFailed, errors.Unavailable, errors.NoCapacity):
                    self.over.wait(0.05)
                except Exception as e:
                    self.faults.append(repr(e))
                    return

    @staticmethod
    def _once(client):
        sandbox = client.create(tags={"load": "1"})
        out = sandbox.run("echo one; echo two").stdout
        assert out == "one\ntwo\n", out
        sandbox.delete()

    def go_on(self, n):
        """Until so many more rounds were made."""
        until = self.done + n
        wait_for(lambda: self.faults or self.done >= until, 60, "the load's next rounds")
        assert not self.faults, self.faults

    def end(self):
        self.over.set()
        for t in self.threads:
            t.join()


class World:
    """What the old program is left with, and what was known of it then."""

    def __init__(self, client):
        self.client, self.known = client, {}

    def make(self):
        client, known = self.client, self.known
        running = client.create(name="running", tags={"of": "old"}, env={"WHO": "me"})
        known["id"] = running.id
        value(running, "x = 41\nimport os")
        known["python"] = value(running, "os.getpid()")
        running.run_code("y=42", language="bash")
        running.files.write("mark", b"written before")
        counting, waiting = running.start(COUNT), running.start(["cat"], open_stdin=True)
        known["counting"], known["waiting"] = counting.id, waiting.id
        wait_for(lambda: self.numbers(counting), 30, "output")
        known["pid"] = running.run("pgrep -o -f 'while :'").stdout
        known["init"] = running.run("stat -c %Y /proc/1; cat /proc/sys/kernel/random/boot_id").stdout
        known["port"] = call_ok(client, "POST", f"/v1/sandboxes/{running.id}/ports", {"port": 8000})["token"]

        stopped = client.create(name="stopped", persistent=True)
        stopped.files.write("mark", b"kept")
        stopped.stop()

        frozen = client.create(name="frozen")
        value(frozen, "z = 43")
        frozen.pause(to="memory")

        known["walled"] = client.create(name="walled", network={"allow": ["example.com"]}).id

        source = client.create(name="source")
        source.files.write("mark", b"in a snapshot")
        value(source, "m = 44")
        known["files"] = source.snapshot(name="files")["id"]
        source.run(TREE, user="root")
        client.create_template("made", source, tree=True)
        if HAS_CRIU:
            known["memory"] = source.snapshot(name="memory", memory=True)["id"]
            disk = client.create(name="disk")
            value(disk, "d = 45")
            known["disk_count"] = disk.start(COUNT).id
            wait_for(lambda: self.numbers(disk.exec(known["disk_count"])), 30, "output")
            disk.pause(to="disk")
        try:
            client.create_volume("vol")
            holder = client.create(name="holder", volumes={"/data": "vol"})
            holder.files.write("/data/note", b"on a volume")
            known["volume"] = True
        except errors.NotFound:
            known["volume"] = False  # the release has none
        known["key"] = client.create_key("second", scope="read")["secret"]
        known["webhook"] = client.create_webhook("https://hooks.example.com/x")["webhook"]["id"]

    @staticmethod
    def numbers(e):
        """What a counting exec has printed, from its first byte on."""
        data = b""
        for event in e.output(follow=False):
            assert event.type != "gap", "output was lost"
            data += event.data if event.type == "stdout" else b""
        return [int(n) for n in data.split(b"\n")[:-1]]


def call_ok(client, method, path, body=None):
    status, reply = call(client.daemon, method, path, body)
    assert status < 300, (path, status, reply)
    return reply


def look_ahead(daemon):
    """What the new program says of the upgrade, while the old one runs: (exit status, its findings)."""
    words = [BUILD / "cloche", "doctor", "--upgrade", "--json", "--data", daemon.data, "--run", daemon.run]
    done = subprocess.run(words, capture_output=True, timeout=60)
    assert done.returncode in (0, 1), done.stderr
    return done.returncode, json.loads(done.stdout)


def end_old(daemon, is_killed):
    if not is_killed:
        assert daemon.stop() == 0
        return
    parts = children_of(daemon.process.pid)
    for pid in [daemon.process.pid, *parts]:
        os.kill(pid, signal.SIGKILL)
    daemon.process.wait()
    wait_for(lambda: not any(os.path.exists(f"/proc/{pid}") for pid in parts), 30, "the end of all parts")


@pytest.fixture(scope="module", params=chosen())
def upgraded(request):
    """(world, daemon): the new program, over what the release has left."""
    try:
        programs = release.build(request.param)
    except release.Missing as e:
        pytest.skip(str(e))
    daemon = Daemon("--default-memory", "128MiB", "--pool-max", "2", rm=False)
    daemon.program = programs / "cloche"
    load = None
    try:
        daemon.start()
        with Client(daemon.url, daemon.key) as client:
            client.daemon = daemon
            world = World(client)
            world.make()
            load = Load(daemon)
            load.go_on(3)
            world.known["doctor"] = look_ahead(daemon)
            end_old(daemon, is_killed=request.param != "0.1.0")
            daemon.program = BUILD / "cloche"
            daemon.start()
            load.go_on(3)
            load.end()
            yield world, daemon
            for one in client.list():
                one.delete()
            for snapshot in list(client.snapshots()):
                client.delete_snapshot(snapshot["id"])
            client.delete_template("made")
            if world.known["volume"]:
                client.delete_volume("vol")
    finally:
        if load:
            load.end()
        ids = daemon.ids()
        status, log = daemon.stop(), daemon.log()
        sweep = [BUILD / "cloche", "serve", "--sweep", "--data", daemon.data, "--run", daemon.run, "--listen", "none"]
        subprocess.run(sweep, check=True, capture_output=True, timeout=60)
        left = audit.left_after_stop(daemon, ids)
        daemon.remove()
    assert (status, left) == (0, []), log[-4000:]


def test_sandboxes_that_ran_run_on_with_their_files_and_processes(upgraded):
    world, _ = upgraded
    running = world.client.get("running")
    assert (running.id, running.info.state, running.info.tags) == (world.known["id"], "running", {"of": "old"})
    assert running.files.read("mark") == b"written before"
    assert running.run("pgrep -o -f 'while :'").stdout == world.known["pid"]
    assert running.run("stat -c %Y /proc/1; cat /proc/sys/kernel/random/boot_id").stdout == world.known["init"]
    assert running.run("echo $WHO").stdout == "me\n"
    assert world.client.get("walled").info.state == "running"


def test_that_nothing_would_be_lost_was_told_before(upgraded):
    status, found = upgraded[0].known["doctor"]
    assert (status, found["lost"]) == (0, [])
    assert found["sandboxes"] >= 4 and found["snapshots"] >= (3 if HAS_CRIU else 1)
    assert found["memories"] == (2 if HAS_CRIU else 0)


def test_no_sandbox_was_ended_by_the_upgrade(upgraded):
    world, daemon = upgraded
    status, log = call(daemon, "GET", "/v1/events?all=1&type=sandbox.ended")
    assert status == 200 and b"guest_crash" not in log
    assert "sandbox.not_adopted" not in daemon.log()


def test_interpreters_keep_their_variables(upgraded):
    world, _ = upgraded
    running = world.client.get("running")
    assert value(running, "x + 1") == "42"
    assert value(running, "os.getpid()") == world.known["python"]
    assert running.run_code("echo $y", language="bash").stdout == "42\n"


def test_output_of_what_runs_has_no_gap(upgraded):
    world, _ = upgraded
    counting = world.client.get("running").exec(world.known["counting"])
    last = world.numbers(counting)[-1]
    numbers = wait_for(lambda: (n := world.numbers(counting)) and n[-1] > last + 10 and n, 30, "further output")
    assert numbers == list(range(1, len(numbers) + 1))


def test_an_exec_takes_input_and_ends_as_it_would_have(upgraded):
    world, _ = upgraded
    waiting = world.client.get("running").exec(world.known["waiting"])
    waiting.write_stdin(b"through\n", eof=True)
    assert waiting.wait(60).exit_code == 0
    assert b"".join(e.data for e in waiting.output()) == b"through\n"


def test_what_was_stopped_or_paused_goes_on(upgraded):
    world, _ = upgraded
    stopped, frozen = world.client.get("stopped"), world.client.get("frozen")
    assert (stopped.info.state, frozen.info.state) == ("stopped", "paused")
    stopped.resume()
    assert stopped.files.read("mark") == b"kept"
    frozen.resume()
    assert value(frozen, "z") == "43"


@NEEDS_CRIU
def test_what_was_paused_to_disk_goes_on_with_its_programs(upgraded):
    world, _ = upgraded
    disk = world.client.get("disk")
    assert disk.info.state == "paused"
    disk.resume()
    assert value(disk, "d") == "45"
    counting = disk.exec(world.known["disk_count"])
    last = world.numbers(counting)[-1]
    numbers = wait_for(lambda: (n := world.numbers(counting)) and n[-1] > last + 10 and n, 30, "further output")
    assert numbers == list(range(1, len(numbers) + 1))


def test_snapshots_of_files_and_templates_are_started_from(upgraded):
    world, _ = upgraded
    with world.client.create(snapshot="files") as copy, world.client.create(template="made") as other:
        assert copy.files.read("mark") == b"in a snapshot"
        assert other.run("cat /etc/mark").stdout == "of a template\n"


@NEEDS_CRIU
def test_snapshots_with_memory_are_started_from_and_their_copies_saved_again(upgraded):
    world, _ = upgraded
    with world.client.create(snapshot="memory") as copy:
        assert value(copy, "m") == "44"
        assert copy.run("sudo id -u").stdout == "0\n"  # by the agent's own program
        again = copy.snapshot(memory=True)["id"]
        with world.client.create(snapshot=again) as second:
            assert value(second, "m + 1") == "45"


@NEEDS_CRIU
def test_a_sandbox_that_was_adopted_is_forked_with_its_memory(upgraded):
    world, _ = upgraded
    source = world.client.get("source")
    (fork,) = source.fork(1)
    with fork:
        assert value(fork, "m") == "44"
    saved = source.snapshot(memory=True)["id"]
    with world.client.create(snapshot=saved) as copy:
        assert value(copy, "m") == "44"


def test_keys_webhooks_ports_and_volumes_are_there(upgraded):
    world, daemon = upgraded
    known = world.known
    assert call(daemon, "GET", "/v1/sandboxes", key=known["key"])[0] == 200
    assert call(daemon, "POST", "/v1/sandboxes", {}, key=known["key"])[0] == 403
    assert known["webhook"] in [w["id"] for w in call_ok(world.client, "GET", "/v1/webhooks")["webhooks"]]
    assert [p["port"] for p in call_ok(world.client, "GET", f"/v1/sandboxes/{known['id']}/ports")["ports"]] == [8000]
    if known["volume"]:
        assert world.client.get("holder").files.read("/data/note") == b"on a volume"
        with world.client.create(volumes={"/v": "vol"}) as other:
            assert other.files.read("/v/note") == b"on a volume"


def test_what_an_older_agent_does_not_know_is_an_error_and_the_sandbox_goes_on(upgraded):
    world, daemon = upgraded
    running = world.client.get("running")
    stat = call_ok(world.client, "GET", f"/v1/sandboxes/{running.id}/files/stat?path=mark")
    status, reply = call(daemon, "PUT", f"/v1/sandboxes/{running.id}/files?path=mark&if_mtime_us={stat['mtime_us']}", b"changed")
    if status != 200:  # releases before 0.1.0
        assert reply["error"]["code"] == "guest_error" and "older cloche" in reply["error"]["message"], reply
    assert running.run("echo on").stdout == "on\n"
    counting = running.exec(world.known["counting"])
    assert (numbers := world.numbers(counting)) == list(range(1, len(numbers) + 1))


@pytest.fixture(scope="module", params=[*chosen(), "this one"])
def program(request):
    if request.param == "this one":
        return BUILD / "cloche"
    try:
        return release.build(request.param) / "cloche"
    except release.Missing as e:
        pytest.skip(str(e))


def refused(daemon):
    with pytest.raises(RuntimeError) as e:
        daemon.start()
    return str(e.value)


def test_a_program_refuses_what_a_later_one_has_written_and_touches_nothing(program):
    daemon = Daemon("--plain-storage", "--pool-max", "0", rm=False).start()
    state = daemon.data / "gateway" / "state.db"
    try:
        with Client(daemon.url, daemon.key) as client:
            sandbox = client.create(name="left")
        assert daemon.stop() == 0
        daemon.program = program
        record = daemon.run / "sandboxes" / sandbox.id / "record"
        good = record.read_bytes()
        record.write_bytes(good[:4] + (99).to_bytes(4, "little") + good[8:])
        assert f"the record of '{sandbox.id}'" in refused(daemon)
        record.write_bytes(good)
        with contextlib.closing(sqlite3.connect(state)) as db:
            (version,) = db.execute("PRAGMA user_version").fetchone()
            db.execute("PRAGMA user_version = 999")
        why = refused(daemon)  # an early release does so for the record, before it looks at the database
        assert "has schema version 999, this cloche knows up to" in why or f"the record of '{sandbox.id}'" in why
        with contextlib.closing(sqlite3.connect(state)) as db:
            assert db.execute("PRAGMA user_version").fetchone() == (999,)
            assert db.execute("SELECT count(*) FROM sandboxes").fetchone() == (1,)
            db.execute(f"PRAGMA user_version = {version}")
        daemon.program = BUILD / "cloche"
        daemon.start()
        with Client(daemon.url, daemon.key) as client:
            assert client.get("left").run("echo on").stdout == "on\n"
            client.get("left").delete()
    finally:
        ids = daemon.ids()
        status = daemon.stop()
        left = audit.left_after_stop(daemon, ids)
        daemon.remove()
    assert (status, left) == (0, [])


def test_what_would_be_lost_is_told_by_name_and_the_daemon_goes_on():
    daemon = Daemon("--pool-max", "0", rm=False).start()
    try:
        with Client(daemon.url, daemon.key) as client:
            sandbox = client.create(name="left")
            snapshot = sandbox.snapshot()["id"]
            assert look_ahead(daemon) == (0, look_ahead(daemon)[1] | {"sandboxes": 1, "snapshots": 1, "memories": 0, "lost": []})
            later = [daemon.run / "sandboxes" / sandbox.id / "record", daemon.data / "layers" / snapshot / "manifest"]
            good = [path.read_bytes() for path in later]
            for path, data in zip(later, good):
                path.write_bytes(data[:4] + (99).to_bytes(4, "little") + data[8:])
            status, found = look_ahead(daemon)
            assert (status, [(lost["kind"], lost["id"]) for lost in found["lost"]]) == (1, [("sandbox", sandbox.id), ("snapshot", snapshot)])
            assert "version 99" in found["lost"][0]["why"]
            for path, data in zip(later, good):
                path.write_bytes(data)
            assert sandbox.run("echo on").stdout == "on\n"
            sandbox.delete()
            client.delete_snapshot(snapshot)
    finally:
        ids = daemon.ids()
        status = daemon.stop()
        left = audit.left_after_stop(daemon, ids)
        daemon.remove()
    assert (status, left) == (0, [])
