# SPDX-License-Identifier: Apache-2.0
"""State files: each file that the daemon keeps is emptied, cut, filled with garbage and removed. The next daemon goes on and tells what is
lost, or refuses to start and names the file. It never crashes, fails requests or loses something without a word."""

import json
import os
import subprocess

import pytest
from cloche import Client, ClocheError
from harness import audit
from harness.daemon import IS_SANITIZED, Daemon, call, read_text, wait_for
from harness.oci import busybox_layer

pytestmark = pytest.mark.slow  # daemons are stopped and started

GARBAGE = b"garbage "
DAMAGES = ["empty", "half", "garbage", "gone"]


def damage(path, how):
    """Odd lengths: a cut seldom falls between two entries."""
    size = min(path.stat().st_size, 1 << 20)
    if how == "gone":
        path.unlink()
    elif how == "garbage":
        with open(path, "r+b") as f:
            f.write((GARBAGE * (size // len(GARBAGE) + 1))[:size])
    else:
        os.truncate(path, 0 if how == "empty" else max(size // 2 - 1, 1))


# Where each is, and the log's event that tells of its loss: one for all damages, or one for each. NONE: nothing is lost.
NONE = ""
RECORD = "sandbox.not_adopted"
LOSSES = {
    "gateway/jots": "crash_counters.damaged",
    "gateway/spool/{exec}": NONE,  # whoever reads it is told of a gap, see below
    "admin.key": ["daemon.key_empty", "key.file_unknown", "key.file_unknown", NONE],  # an operator may put it away
    "reserve": NONE,  # it holds nothing
    "layers/{kept}/keeper": ["keeper.damaged", "keeper.damaged", "keeper.damaged", "sandbox.files_lost"],
    "layers/{volume}/keeper": "keeper.damaged",
    "layers/{snapshot}/manifest": "snapshot.damaged",
    "layers/{memory}/memory/manifest": "sandbox.not_revived",  # when it is resumed
    "templates/{image}/keeper": "keeper.damaged",
    "templates/{image}/image.erofs": ["template.damaged", "template.damaged", "sandbox.failed", "template.damaged"],
    "../run/finals": "finals.damaged",
    "../run/sandboxes/{hurt}/record": [RECORD, RECORD, RECORD, "sandbox.found_dead"],
}


def end_of(daemon):
    """Ends it with all that it has left, and looks at the host."""
    if daemon.process.poll() is not None:
        daemon.start()
    daemon.stop()
    daemon.options.append("--rm")
    daemon.start()
    ids = daemon.ids()
    status = daemon.stop()
    found = audit.left_after_stop(daemon, ids)
    daemon.check_parts()
    daemon.remove()
    assert (status, found) == (0, [])


@pytest.fixture
def left():
    """A stopped daemon that has kept one of everything: (daemon, key, {what: id})."""
    daemon = Daemon("--pool-max", "0", rm=False).start()
    ids = {}
    try:
        key = daemon.key
        with Client(daemon.url, key) as client:
            runs, hurt = client.create(name="runs"), client.create(name="hurt")
            ids["exec"] = runs.run("echo kept").exec.id
            kept = client.create(name="kept", persistent=True)
            kept.files.write("mark", b"1")
            ids.update(runs=runs.id, hurt=hurt.id, kept=kept.id, volume=client.create_volume("volume")["id"], snapshot=kept.snapshot("snapshot")["id"])
            kept.stop()
            client.import_template("template", busybox_layer().bytes())
            ids["image"] = client.template("template")["digest"].removeprefix("sha256:")
            if not IS_SANITIZED:
                rests = client.create(name="rests", persistent=True)
                rests.pause()
                ids["memory"] = next((daemon.data / "layers").glob("sn_*/memory")).parent.name
        assert daemon.stop() == 0
        yield daemon, key, ids
    finally:
        end_of(daemon)


@pytest.mark.parametrize("how", DAMAGES)
def test_what_is_lost_is_told_and_the_daemon_goes_on(left, how):
    daemon, key, ids = left
    expected = {}
    for place, words in LOSSES.items():
        if "{memory}" in place and "memory" not in ids:
            continue
        path = daemon.data / place.format(**ids)
        damage(path, how)
        word = words if isinstance(words, str) else words[DAMAGES.index(how)]
        expected[place] = word
    since = len(daemon.log())
    daemon.start()
    with Client(daemon.url, key) as client:
        for path in ("sandboxes", "volumes", "snapshots", "templates", "keys", "usage", "health", "ready"):
            assert call(daemon, "GET", f"/v1/{path}", key=key)[0] == 200, path
        assert client.get("runs").run("echo still").stdout == "still\n"
        assert client.create(name="new").run("echo new").stdout == "new\n"
        output = call(daemon, "GET", f"/v1/sandboxes/{ids['runs']}/execs/{ids['exec']}/output", key=key)[1]
        assert json.loads(output.splitlines()[0]) == {"type": "gap", "seq": 1, "lost_bytes": 5, "lost_events": 1}
        assert client.get(ids["hurt"]).info.raw["ended"]["cause"] == "guest_crash"
        if how != "gone":  # without its mark it is no kept layer
            client.get("kept").resume()
            assert client.get("kept").files.read("mark") == b"1"
        for use in (
            lambda: client.get("rests").resume(),  # also where there is none
            lambda: client.create(template="template").run("true"),
            lambda: client.create(snapshot="snapshot"),
        ):
            with pytest.raises(ClocheError) as e:
                use()
            assert e.value.status != 500
        for secret in ("", "clo_", read_text(daemon.data / "admin.key").strip()):
            assert call(daemon, "GET", "/v1/sandboxes", key="", headers={"Authorization": f"Bearer {secret}"})[0] == 401
    events = {json.loads(line)["event"] for line in daemon.log()[since:].splitlines() if line.startswith("{")}
    assert {place: word for place, word in expected.items() if word and word not in events} == {}


REFUSALS = {
    ("gateway/state.db", "empty"): "the database '{path}' is damaged: it is empty",
    ("gateway/state.db", "half"): "the database '/state.db' is damaged",
    ("gateway/state.db", "garbage"): "the database '/state.db' is damaged",
    ("gateway/state.db", "gone"): "sandboxes run, and the database is new: there is no '{path}'",
    ("wall.key", "empty"): "the key '{path}' is damaged",
    ("wall.key", "half"): "the key '{path}' is damaged",
    ("secrets.key", "empty"): "the key file '{path}', line 1: there is no key in it",
    ("secrets.key", "half"): "the key file '{path}', line 1: a key is 64",
    ("audit.key", "empty"): "the key file '{path}', line 1: there is no key in it",
    ("audit.key", "garbage"): "the key file '{path}', line 1: a key is 64",
}
HINTS = {"secrets.key": "the values of secrets", "audit.key": "exports that were sealed before"}  # what is lost without it


def test_what_cannot_be_done_without_is_refused_by_name_again_and_again(left):
    """A supervisor starts the daemon anew at once: the second try must not do what the first has refused to."""
    daemon, key, ids = left
    for (place, how), words in REFUSALS.items():
        path = daemon.data / place
        good, owner = path.read_bytes(), path.stat()
        damage(path, how)
        for _ in range(2):
            since = len(daemon.log())
            with pytest.raises(RuntimeError):
                daemon.start()
            told = [line for line in daemon.log()[since:].splitlines() if not line.startswith("{")]
            assert words.format(path=path) in told[0] and told[1].startswith("  hint: ") and HINTS.get(place, "") in told[1] and len(told) == 2, (place, how)
        path.write_bytes(good)
        path.chmod(owner.st_mode & 0o777)
        os.chown(path, owner.st_uid, owner.st_gid)
    daemon.start()
    assert daemon.key == key
    with Client(daemon.url, key) as client:
        assert client.get("runs").run("echo still").stdout == "still\n"
        client.get("kept").resume()
        assert client.get("kept").files.read("mark") == b"1"


def test_layers_that_are_damaged_are_refused_and_layers_that_are_gone_are_told():
    daemon = Daemon("--pool-max", "0", rm=False).start()
    try:
        with Client(daemon.url, daemon.key) as client:
            client.create(name="kept", persistent=True).stop()
        assert daemon.stop() == 0
        layers = daemon.data / "layers.btrfs"
        if not layers.exists():
            pytest.skip("DATA lies on btrfs itself")
        wait_for(lambda: not subprocess.check_output(["losetup", "-j", layers]), what="layers that nobody writes to")
        for how in ("garbage", "empty"):
            damage(layers, how)
            with pytest.raises(RuntimeError) as e:
                daemon.start()
            assert f"cannot mount '{layers}'" in str(e.value) and "btrfs check --readonly" in str(e.value)
        damage(layers, "gone")
        since = len(daemon.log())
        daemon.start()
        assert '"event":"sandbox.files_lost"' in daemon.log()[since:]
        with Client(daemon.url, daemon.key) as client:
            assert client.create().run("echo new").stdout == "new\n"
    finally:
        end_of(daemon)
