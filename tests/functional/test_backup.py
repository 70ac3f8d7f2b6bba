# SPDX-License-Identifier: Apache-2.0
"""Backups: what was kept when one was made comes back, whoever wrote meanwhile and whoever was killed."""

import hashlib
import json
import os
import shutil
import signal
import subprocess
import threading
from contextlib import contextmanager

import pytest
from cloche import Client
from harness import audit
from harness.cli import CLOCHE, Cli
from harness.daemon import IS_SANITIZED, Daemon, call, connection_to, wait_for

pytestmark = pytest.mark.jail("a vm's disk is a file in its layer, as all else")

# Everything in a tree that a copy must keep: kinds, modes, owners, times, links, extended attributes, holes, content.
DESCRIBE = r"""
import hashlib, os, stat
for top, dirs, files in os.walk("/home/user/tree"):
    dirs.sort()
    for name in sorted(dirs + files):
        path = os.path.join(top, name)
        s = os.lstat(path)
        what = os.readlink(path) if stat.S_ISLNK(s.st_mode) else hashlib.sha256(open(path, "rb").read()).hexdigest() if stat.S_ISREG(s.st_mode) else ""
        attrs = {a: os.getxattr(path, a, follow_symlinks=False) for a in os.listxattr(path, follow_symlinks=False) if a.startswith("user.")}
        holes = s.st_blocks * 512 < s.st_size // 2
        print(path, oct(s.st_mode), s.st_uid, s.st_gid, s.st_nlink, s.st_mtime_ns, s.st_size, holes, attrs, what)
"""
MAKE_TREE = r"""
import os
os.makedirs("/home/user/tree/deep/er"); os.chdir("/home/user/tree")
open("plain", "w").write("text"); os.chmod("plain", 0o640); os.utime("plain", ns=(1, 123456789123456789))
os.link("plain", "deep/hard"); os.symlink("/etc/shadow", "leads-out"); os.symlink("../..", "deep/up")
os.mkfifo("pipe"); open("set-uid", "w").write("x"); os.chmod("set-uid", 0o4755)
f = open("sparse", "wb"); f.seek(64 << 20); f.write(b"end"); f.close()
os.setxattr("deep/er", "user.note", b"kept"); open("name with\nnewline \xff", "w").write("odd")
open("noise", "wb").write(os.urandom(3 << 20))
os.remove("/etc/motd") if os.path.exists("/etc/motd") else None
"""


MAKE_TEMPLATE = r"""
set -e
mkdir -p /template/bin /template/etc
cp /bin/busybox /template/bin/
for i in sh bash cat; do ln -s busybox /template/bin/$i; done
echo made > /template/etc/mark
printf 'root:x:0:0::/root:/bin/sh\nuser:x:1000:1000::/home/user:/bin/sh\n' > /template/etc/passwd
for i in $(ldd /opt/cloche/bin/sudo 2>/dev/null | grep -o "/[^ ]*"); do cp --parents -L $i /template; done
"""


class Host:
    """A daemon on a data directory that may be lost, and backups of it."""

    def __init__(self, *options):
        self.daemon = Daemon("--pool-max", "0", *options)  # stops what is persistent when it ends
        self.place = self.daemon.dir / "backups"

    def start(self):
        self.daemon.start()
        self.client = Client(self.daemon.url, self.daemon.key, timeout=60)
        self.cli = Cli(self.daemon)
        return self

    def stop(self):
        self.client.close()
        ids = self.daemon.ids()
        assert self.daemon.stop() == 0
        assert audit.left_after_stop(self.daemon, ids) == []

    def backup(self, place=None, *words):
        status, out, err = self.cli("backup", "--json", *words, str(place or self.place), timeout=300)
        assert status == 0, err
        return json.loads(out)

    def restore(self, place=None, *words):
        return self.cli("restore", "--json", "--data", str(self.daemon.data), "--run", str(self.daemon.run), *words, str(place or self.place), timeout=300)

    def lose_all_and_restore(self, *words):
        self.stop()
        shutil.rmtree(self.daemon.data)
        status, out, err = self.restore(None, *words)
        assert status == 0, err
        self.start()
        return json.loads(out)

    def frozen(self):
        """What is left of a backup in the data directory."""
        places = ("layers/backup", "templates/backup")
        return [p for p in places if (self.daemon.data / p).exists()] + os.listdir(self.daemon.data / "gateway" / "backup")

    def await_release(self):
        wait_for(lambda: not self.frozen(), what=f"the end of what was frozen: {self.frozen()}")


@contextmanager
def a_host(*options):
    host = Host(*options).start()
    try:
        yield host
    finally:
        if host.daemon.process.poll() is None:
            for one in host.client.list():
                one.delete()
            host.stop()
        host.daemon.remove()


@pytest.fixture
def host():
    with a_host() as host:
        yield host


def python(sandbox, code):
    result = sandbox.run(["python3", "-c", code])
    assert result.exit_code == 0, result.stderr
    return result.stdout


class Writers:
    """Guests that write numbered lines, and clients that put files and note what was acknowledged."""

    LINES = "i=0; while :; do i=$((i+1)); echo $i >> {0}/lines; echo $i > {0}/last.new; mv {0}/last.new {0}/last; done"

    def __init__(self, host, sandboxes, places):
        self.host, self.sandboxes, self.stop = host, sandboxes, threading.Event()
        self.execs = [s.start(self.LINES.format(place)) for s, place in zip(sandboxes, places)]
        self.acknowledged, self.failure = {s.id: 0 for s in sandboxes}, None
        self.threads = [threading.Thread(target=self._put, args=(s.id,)) for s in sandboxes]
        for t in self.threads:
            t.start()

    def _put(self, id):
        try:
            with Client(self.host.daemon.url, self.host.daemon.key, timeout=60) as client:
                sandbox, n = client.get(id), 0
                while not self.stop.is_set():
                    sandbox.files.write(f"/home/user/put-{n}", f"{n}\n" * 100)
                    self.acknowledged[id] = n = n + 1
        except Exception as e:  # told by the test's own thread
            self.failure = e

    def end(self):
        self.stop.set()
        for t in self.threads:
            t.join()
        assert self.failure is None, self.failure


def check_lines(sandbox, place):
    """What a program wrote in order is there from its beginning to one point, and no further."""
    lines = sandbox.run(f"cat {place}/lines").stdout.split("\n")
    assert [int(n) for n in lines[:-1]] == list(range(1, len(lines))) and lines[-1] == ""
    last = int(sandbox.run(f"cat {place}/last").stdout or "0")
    assert len(lines) - 2 <= last <= len(lines) - 1
    return len(lines) - 1


def test_all_that_was_kept_comes_back_though_everybody_wrote_meanwhile(host):
    client, daemon = host.client, host.daemon
    project = call(daemon, "POST", "/v1/projects", {"name": "acme"})[1]
    key = call(daemon, "POST", "/v1/keys", {"name": "ci", "scope": "write", "project": "acme"})[1]
    revoked = call(daemon, "POST", "/v1/keys", {"name": "old"})[1]
    assert call(daemon, "DELETE", f"/v1/keys/{revoked['key']['id']}")[0] == 200
    assert call(daemon, "PUT", f"/v1/projects/{project['id']}/quota", {"sandboxes": 7})[0] == 200
    client.create_volume("data", size_mib=64)
    still = client.create(name="still", persistent=True, env={"A": "1"}, tags={"of": "test"})
    python(still, MAKE_TREE)
    tree = python(still, DESCRIBE)
    said = still.run("echo said; echo more >&2")
    saved = still.snapshot("saved")
    assert still.run(["sh", "-c", MAKE_TEMPLATE], user="root").exit_code == 0
    client.create_template("made", still, tree=True)
    still.stop()
    fork = client.create(name="fork", persistent=True, snapshot="saved")
    fork.files.write("/home/user/own", b"of the fork")
    busy = client.create(name="busy", persistent=True)
    in_volume = client.create(name="in-volume", persistent=True, volumes={"/data": "data"})
    client.create(name="passing")  # not persistent: not in a backup
    writers = Writers(host, [busy, in_volume], ["/home/user", "/data"])
    wait_for(lambda: min(writers.acknowledged.values()) > 3, what="writers")
    first = host.backup()
    acknowledged = dict(writers.acknowledged)
    wait_for(lambda: all(writers.acknowledged[i] > n for i, n in acknowledged.items()), what="more that is written")
    before = dict(writers.acknowledged)
    second = host.backup()
    assert writers.failure is None
    after = dict(writers.acknowledged)
    wait_for(lambda: all(writers.acknowledged[i] > n for i, n in after.items()), what="writers that go on")
    writers.end()
    host.await_release()
    assert (first["sandboxes"], first["volumes"], first["snapshots"], first["sandboxes_left_out"]) == (4, 1, 1, 1)
    assert first["templates"] == 1
    assert second["written_bytes"] < first["written_bytes"] / 4, (first, second)

    got = host.lose_all_and_restore()
    assert {k: got[k] for k in ("id", "sandboxes", "volumes", "snapshots", "templates")} == {k: second[k] for k in ("id", "sandboxes", "volumes", "snapshots", "templates")}
    client = host.client
    states = {s.name: s.info for s in client.list()}
    assert {n: i.state for n, i in states.items()} == {"still": "stopped", "fork": "stopped", "busy": "stopped", "in-volume": "stopped"}
    ended = states["busy"].raw["ended"]
    assert ended["cause"] == "host_restart"
    still = client.get("still")
    assert still.info.raw["tags"] == {"of": "test"} and still.info.raw["env_names"] == ["A"]
    kept = call(host.daemon, "GET", f"/v1/sandboxes/{still.id}/execs/{said.exec.id}/output")[1]
    assert b"said" in kept and b"more" in kept
    still.resume()
    assert python(still, DESCRIBE) == tree
    fork = client.get("fork")
    fork.resume()
    assert python(fork, DESCRIBE) == tree and fork.files.read("/home/user/own") == b"of the fork"
    for name, place in (("busy", "/home/user"), ("in-volume", "/data")):
        sandbox = client.get(name)
        sandbox.resume()
        assert check_lines(sandbox, place) > 0
        for n in range(before[sandbox.id]):
            assert sandbox.files.read(f"/home/user/put-{n}") == f"{n}\n".encode() * 100, n
    assert [s["id"] for s in client.snapshots()] == [saved["id"]]
    again = client.create(snapshot="saved")
    assert python(again, DESCRIBE) == tree
    with client.create(template="made") as made:
        assert made.run("cat /etc/mark").stdout == "made\n"
    assert call(host.daemon, "GET", "/v1/sandboxes", key=key["secret"])[0] == 200
    assert call(host.daemon, "GET", "/v1/sandboxes", key=revoked["secret"])[0] == 401
    assert call(host.daemon, "GET", f"/v1/projects/{project['id']}/quota")[1]["limits"]["sandboxes"] == 7
    # The volume's limit is one again.
    full = client.get("in-volume").run("head -c 100000000 /dev/zero > /data/too-much; sync")
    assert "quota" in full.stderr.lower() or "space" in full.stderr.lower()
    # The record goes on, and is whole.
    assert host.cli("events", "verify")[0] == 0
    # And the next backup copies what it must.
    assert host.backup()["sandboxes"] == 4


@pytest.mark.slow
def test_what_has_not_changed_is_not_read_again(host):
    sandboxes = [host.client.create(persistent=True) for _ in range(3)]
    for s in sandboxes:
        s.run("head -c 20000000 /dev/urandom > big")
        s.stop()
    first, second = host.backup(), host.backup()
    assert first["read_bytes"] > 60e6 and second["read_bytes"] < 10e6 and second["bytes"] >= 60e6, (first, second)
    sandboxes[0].resume()
    sandboxes[0].run("printf more >> big")
    third = host.backup()
    assert 20e6 < third["read_bytes"] < 40e6 and third["written_bytes"] < 12e6, third
    host.backup(None, "--keep", "1")
    listed = json.loads(host.cli.ok("backup", "--json", "--list", str(host.place)))
    assert len(listed) == 1
    assert host.cli("backup", "--verify", str(host.place))[0] == 0
    host.lose_all_and_restore()
    assert [s.run("wc -c < big").stdout.strip() for s in map(host.client.get, [s.id for s in sandboxes])] == ["20000004", "20000000", "20000000"]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["snapshot", "fork"])
def test_what_was_copied_from_something_after_its_backup_is_in_the_next_one(host, kind):
    """The copy's stream refers to what it was copied from, whose stream is that of the backup before."""
    kept = host.client.create(name="kept", persistent=True)
    kept.run("head -c 5000000 /dev/urandom > big")
    kept.stop()
    host.backup()
    kept.snapshot("late")
    if kind == "fork":
        host.client.create(name="late", persistent=True, snapshot="late").stop()
    second = host.backup()
    assert second["read_bytes"] < 5e6, "what has not changed was read again"
    host.lose_all_and_restore()
    late = host.client.create(snapshot="late") if kind == "snapshot" else host.client.get("late")
    if kind == "fork":
        late.resume()
    kept = host.client.get("kept")
    kept.resume()
    assert late.run("sha256sum big").stdout == kept.run("sha256sum big").stdout != ""


@pytest.mark.slow
def test_a_fork_takes_no_more_room_after_a_restore_and_has_as_much_left(host):
    parent = host.client.create(persistent=True, limits={"disk_mib": 100})
    parent.run("head -c 60000000 /dev/urandom > big")
    parent.snapshot("base")
    forks = [host.client.create(persistent=True, snapshot="base") for _ in range(4)]
    for f in [parent, *forks]:
        f.stop()
    assert host.backup()["written_bytes"] < 100e6
    host.lose_all_and_restore()
    host.client.get(forks[0].id).resume()
    used = sum(v.f_blocks - v.f_bfree for v in [os.statvfs(host.daemon.data / "layers")]) * os.statvfs(host.daemon.data / "layers").f_frsize
    assert used < 200e6, used
    for f in forks:
        f = host.client.get(f.id)
        f.resume()
        assert f.run("head -c 20000000 /dev/zero > more").exit_code == 0
        assert f.run("head -c 40000000 /dev/zero > too-much").exit_code != 0
        digest = f.run("sha256sum < big").stdout
        assert digest == host.client.get(forks[0].id).run("sha256sum < big").stdout


def test_one_file_holds_a_backup(host):
    sandbox = host.client.create(name="one", persistent=True)
    sandbox.files.write("note", b"kept")
    file = host.daemon.dir / "all.tar"
    host.backup(file)
    assert file.stat().st_mode & 0o777 == 0o600
    assert host.cli("backup", "--verify", str(file))[0] == 0
    assert subprocess.run(["tar", "tf", file], capture_output=True, check=True).stdout.count(b"backups/") == 1
    assert "exists" in host.cli("backup", str(file))[2]
    host.stop()
    shutil.rmtree(host.daemon.data)
    assert host.restore(file)[0] == 0
    host.start()
    assert host.client.get("one").files.read("note") == b"kept"


@pytest.mark.skipif(shutil.which("criu", path="/usr/sbin:/usr/bin") is None, reason="no criu")
@pytest.mark.skipif(IS_SANITIZED, reason="a sanitized agent maps terabytes")
def test_what_was_paused_on_disk_goes_on_where_it_was(host):
    sandbox = host.client.create(name="asleep", template="host")
    sandbox.run_code("n = 41")
    sandbox.pause(to="disk")
    assert host.backup()["sandboxes_left_out"] == 0
    got = host.lose_all_and_restore()
    assert got["memory_snapshots"] == 1
    assert host.client.get("asleep").run_code("n + 1").text == "42"


def make_much(host, n=3, mib=32):
    """So much that a backup takes a while."""
    for i in range(n):
        s = host.client.create(persistent=True)
        assert s.run(f"head -c {mib << 20} /dev/urandom > big && echo {i} > mark").exit_code == 0
        s.stop()


def chunks(host):
    return len(list((host.place / "chunks").glob("??/*"))) if host.place.exists() else 0


@pytest.mark.slow
@pytest.mark.parametrize("who", ["cli", "gateway", "broker"])
def test_a_kill_in_the_middle_leaves_nothing_and_no_half_backup(host, who):
    make_much(host)
    for at in (0, 5, 25):  # pieces that are copied when it comes
        had = chunks(host)
        p = host.cli.start("backup", str(host.place))
        wait_for(lambda: p.poll() is not None or chunks(host) >= had + at and (at or host.frozen()), what="a backup in the middle")
        if who == "cli":
            p.kill()
        else:
            os.kill(getattr(host.daemon, f"{who}_pid"), signal.SIGKILL)
        _, said = p.communicate(timeout=120)
        if who != "cli":
            wait_for(lambda: call(host.daemon, "GET", "/v1/health")[1].get("ready"), what="the next one")
            assert p.returncode in (0, 125), said
            assert p.returncode == 0 or said.startswith(b"cloche: ")
        host.await_release()
    status, out, err = host.cli("backup", "--json", "--list", str(host.place))
    whole = len(json.loads(out)) if status == 0 else 0
    assert status == 0 or "no whole backup" in err
    host.backup()
    assert len(json.loads(host.cli.ok("backup", "--json", "--verify", str(host.place)))) == whole + 1
    host.lose_all_and_restore()
    assert sorted(s.run("cat mark; wc -c < big").stdout for s in map(host.client.get, [s.id for s in host.client.list()])) == [f"{i}\n{32 << 20}\n" for i in range(3)]


def test_what_a_start_cannot_remove_yet_is_removed_later(host):
    """A copy that is still read cannot be removed, and on a busy host a reader that was killed is long in going."""
    make_much(host, n=1)
    backup = host.cli.start("backup", str(host.place))
    copy = wait_for(lambda: chunks(host) and next((host.daemon.data / "layers" / "backup").glob("*/files"), None), what="a copy that is read")
    read, write = os.pipe()
    reader = subprocess.Popen(["btrfs", "send", "-q", copy], stdout=write)
    os.close(write)
    try:
        assert os.read(read, 1)  # of the rest no byte fits into the pipe
        os.kill(host.daemon.broker_pid, signal.SIGKILL)
        backup.communicate(timeout=120)
        wait_for(lambda: "backup.leftover" in host.daemon.log(), what="a start that has tried")
        assert host.frozen() == ["layers/backup"]
    finally:
        reader.kill()
        reader.wait()
        os.close(read)
    host.await_release()


@pytest.mark.slow
def test_deletes_and_rollbacks_meanwhile_are_no_business_of_the_backups(host):
    """What is frozen stays while its original goes; who deletes waits for nobody."""
    sandboxes = [host.client.create(persistent=True) for _ in range(4)]
    for i, s in enumerate(sandboxes):
        s.run(f"head -c 20000000 /dev/urandom > big; echo {i} > mark")
        s.snapshot(f"s{i}")
    host.client.create_volume("gone")
    conn = connection_to(host.daemon, 60)
    conn.request("POST", "/v1/backups", headers={"Authorization": f"Bearer {host.daemon.key}"})
    frozen = json.loads(conn.getresponse().readline())["backup"]
    assert frozen["layers"] == 9
    sandboxes[0].delete()
    host.client.delete_volume("gone")
    assert call(host.daemon, "DELETE", "/v1/snapshots/s1")[0] == 200
    sandboxes[2].rollback("s2")
    sandboxes[3].run("rm big; head -c 50000000 /dev/urandom > other")
    place = host.daemon.data / "layers" / "backup"
    assert len(os.listdir(place)) == 9 and (place / sandboxes[0].id / "files" / "keeper").exists()
    conn.close()
    host.await_release()
    assert host.backup()["sandboxes"] == 3


def test_a_sandbox_can_fill_its_disk_anew_while_a_backup_is_made(host):
    sandbox = host.client.create(persistent=True, limits={"disk_mib": 100})
    assert sandbox.run("head -c 80000000 /dev/urandom > big; sync").exit_code == 0
    conn = connection_to(host.daemon, 60)
    conn.request("POST", "/v1/backups", headers={"Authorization": f"Bearer {host.daemon.key}"})
    conn.getresponse().readline()
    assert sandbox.run("rm big && head -c 80000000 /dev/urandom > big").exit_code == 0
    conn.close()
    host.await_release()


def test_the_next_one_waits_for_the_end_of_the_last(host):
    """What was frozen goes in the background, which takes a while on a busy disk."""
    for _ in range(5):
        host.client.create(persistent=True).run("head -c 1000000 /dev/urandom > big")
    for _ in range(6):
        conn = connection_to(host.daemon, 60)
        conn.request("POST", "/v1/backups", headers={"Authorization": f"Bearer {host.daemon.key}"})
        assert json.loads(conn.getresponse().readline())["type"] == "frozen"
        conn.close()
    host.await_release()


def test_there_is_one_at_a_time_and_only_for_those_who_rule_the_host(host):
    conn = connection_to(host.daemon, 60)
    conn.request("POST", "/v1/backups", headers={"Authorization": f"Bearer {host.daemon.key}"})
    conn.getresponse().readline()
    status, reply = call(host.daemon, "POST", "/v1/backups")
    assert (status, reply["error"]["code"]) == (409, "conflict")
    assert "being made already" in host.cli("backup", str(host.place))[2]
    conn.close()
    host.await_release()
    call(host.daemon, "POST", "/v1/projects", {"name": "other"})
    key = call(host.daemon, "POST", "/v1/keys", {"name": "k", "scope": "admin", "project": "other"})[1]["secret"]
    assert call(host.daemon, "POST", "/v1/backups", key=key)[0] == 403


@pytest.mark.slow
def test_a_restore_refuses_what_it_cannot_do_well_and_touches_nothing(host):
    sandbox = host.client.create(persistent=True)
    sandbox.run("head -c 5000000 /dev/urandom > big")
    host.backup()
    data, old = host.daemon.data, host.daemon.dir / "old"
    status, _, err = host.restore()
    assert status == 125 and "a daemon runs" in err
    host.stop()
    status, _, err = host.restore()
    assert status == 125 and "is in use" in err
    data.rename(old)

    manifest = next((host.place / "backups").iterdir())
    text = manifest.read_text()
    def rewrite(text):
        for one in (host.place / "backups").iterdir():
            one.unlink()
        name = manifest.name[:17] + hashlib.sha256(text.encode()).hexdigest() + ".json"
        (host.place / "backups" / name).write_text(text)

    rewrite(text.replace('"format":1', '"format":2'))
    assert "format 2" in host.restore()[2] and not data.exists()
    rewrite(text.replace('"path":"admin.key"', '"path":"../admin.key"'))
    assert "leads out" in host.restore()[2] and not data.exists()
    rewrite(text.replace('"arch":"', '"arch":"z'))
    assert "kind" in host.restore()[2] and not data.exists()
    manifest.write_text(text.replace('"format":1', '"format": 1'))
    assert "damaged" in host.restore()[2] and not data.exists()
    rewrite(text)
    largest = max((host.place / "chunks").glob("??/*"), key=lambda p: p.stat().st_size)
    whole = largest.read_bytes()
    largest.write_bytes(whole[:-100] + bytes(100))
    assert "damaged" in host.restore()[2] and not data.exists()
    assert "damaged" in host.cli("backup", "--verify", str(host.place))[2]
    largest.unlink()
    assert "missing" in host.restore()[2] and not data.exists()
    largest.write_bytes(whole)
    assert host.restore()[0] == 0

    # One that was interrupted is no data directory.
    (data / "restore.unfinished").touch()
    with pytest.raises(RuntimeError, match="was not finished"):
        host.daemon.start()
    assert "empty it" in host.restore()[2]
    (data / "restore.unfinished").unlink()
    host.start()
    assert host.client.get(sandbox.id).run("wc -c < big").stdout == "5000000\n"


def test_a_place_with_other_files_and_the_data_directory_itself_are_refused(host):
    other = host.daemon.dir / "other"
    other.mkdir()
    (other / "thesis").touch()
    assert "holds other files" in host.cli("backup", str(other))[2]
    assert "data directory itself" in host.cli("backup", str(host.daemon.data / "here"))[2]
    assert "no backup" in host.cli("backup", "--verify", str(host.place))[2]
    host.await_release()


def test_plain_storage_is_refused_with_its_reason(short_path):
    with a_host("--plain-storage") as host:
        status, _, err = host.cli("backup", os.path.join(short_path, "b"))
        assert status == 125 and "plain storage" in err


def test_a_backup_is_roots_alone(host):
    host.backup()
    assert host.place.stat().st_mode & 0o777 == 0o700
    p = subprocess.run(["setpriv", "--reuid", "65534", "--clear-groups", CLOCHE, "backup", "/var/tmp/none"], capture_output=True, text=True)
    assert p.returncode == 125 and "only root" in p.stderr


def test_a_template_over_one_that_was_deleted_comes_back(host):
    """Its image needs that of the other one, which is in no list any more."""
    with host.client.create() as sandbox:
        assert sandbox.run(["sh", "-c", MAKE_TEMPLATE], user="root").exit_code == 0
        host.client.create_template("lower", sandbox, tree=True)
    with host.client.create(template="lower") as sandbox:
        assert sandbox.run("echo over > /etc/over", user="root").exit_code == 0
        upper = host.client.create_template("upper", sandbox)
    assert upper["shared_bytes"] > upper["bytes"]
    host.client.delete_template("lower")
    wait_for(lambda: list(host.daemon.data.glob("templates/*.base")), what="the image to be kept")
    assert host.backup()["templates"] == 2
    host.lose_all_and_restore()
    with host.client.create(template="upper") as sandbox:
        assert sandbox.run("cat /etc/mark /etc/over").stdout == "made\nover\n"
    wait_for(lambda: list(host.daemon.data.glob("templates/*.base")), what="the image to be hidden again")
    host.client.delete_template("upper")
    wait_for(lambda: not list(host.daemon.data.glob("templates/*/image.erofs")), what="both to be removed")
