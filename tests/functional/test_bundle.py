# SPDX-License-Identifier: Apache-2.0
"""A snapshot as one file: out, and in again; whatever is torn, foreign or hostile leaves nothing."""

import hashlib
import json
import struct
import uuid

import pytest
from cloche import errors
from harness.daemon import wait_for
from harness.trees import CHANGE, MAKE, run_inside, walk

MAGIC = b"cloche bundle 1\n"


def text(data):
    return struct.pack("<I", len(data)) + data


def record(kind, payload):
    return struct.pack("<IB", len(payload) + 1, kind) + payload


def entry(path, mode=0o100644, size=0, target=b""):
    seen = struct.pack("<BIQQ", 0, 0, 0, 0)
    return record(2, text(path) + seen + struct.pack("<IIIQQ", mode, 0, 0, size, 0) + text(target) + b"\0")


def bundle(*records, about=None):
    about = {"format": 1, "template": "host", "image": None} if about is None else about
    body = MAGIC + record(1, text(json.dumps(about).encode())) + b"".join(records)
    return body + record(6, text(hashlib.sha256(body).digest()))


@pytest.fixture
def name(client):
    made = f"im-{uuid.uuid4().hex[:12]}"
    yield made
    try:
        client.delete_snapshot(made)
    except errors.NotFound:
        pass


def test_what_is_exported_and_imported_is_the_same(client, make_sandbox, name):
    seed = uuid.uuid4().int & 0xFFFFFF
    source = make_sandbox()
    run_inside(source, MAKE, seed)
    run_inside(source, CHANGE, seed + 1)
    source.run("sudo rm /etc/issue; sudo rm -r /usr/share/common-licenses")
    first, before = source.snapshot()["id"], walk(source)
    packed = b"".join(client.export_snapshot(first))
    made = client.import_snapshot(name, packed)
    copy = make_sandbox(snapshot=name)
    assert (made["name"], made["state"]) == (name, "ready")
    assert walk(copy) == before, f"seed {seed}"
    assert client.diff(first, name)["changes"] == [], f"seed {seed}"
    assert copy.run("test -e /etc/issue || test -e /usr/share/common-licenses").exit_code == 1
    with pytest.raises(errors.Conflict, match="exists already"):
        client.import_snapshot(name, packed)
    client.delete_snapshot(first)


def test_torn_foreign_and_hostile_bundles_are_refused_by_name(client, sandbox, name):
    good = bundle(entry(b"/srv/a", size=3), record(4, struct.pack("<Q", 0) + text(b"abc")))
    flipped = bytearray(good)
    flipped[good.index(b"abc")] ^= 1
    host = {"format": 1, "template": "host", "image": None}
    cases = [
        (b"", "no bundle"),
        (b"PK\x03\x04" + bytes(100), "no bundle"),
        (good[:-1], "torn"),
        (good[:-40], "torn"),
        (good + b"x", "torn"),
        (bytes(flipped), "hash does not fit"),
        (bundle(entry(b"/srv/../etc/shadow")), "torn"),
        (bundle(entry(b"srv/a")), "torn"),
        (bundle(entry(b"/dev/sda", mode=0o060600)), "torn"),
        (bundle(record(4, struct.pack("<Q", 0) + text(b"abc"))), "torn"),
        (bundle(entry(b"/srv/a", size=1), record(4, struct.pack("<Q", 0) + text(b"abc"))), "torn"),
        (bundle(entry(b"/bin/a")), "put in place"),  # through a link of the template
        (bundle(about={**host, "format": 2}), "no bundle"),
        (bundle(about={**host, "template": "nowhere", "image": "0" * 64}), "not here"),
        (bundle(about={**host, "memory": True}), "no bundle"),
        (MAGIC + struct.pack("<I", 0xFFFFFFFF) + bytes(50), "no bundle"),
    ]
    before = {s["id"] for s in client.snapshots()}
    for data, why in cases:
        with pytest.raises(errors.ClocheError, match=why):
            client.import_snapshot(name, data)
    assert {s["id"] for s in client.snapshots()} == before
    wait_for(lambda: [s.id for s in client.list(state="running")] == [sandbox.id], 10, "no sandbox of an import")
    assert client.import_snapshot(name, good)["name"] == name  # the pattern of all of these is sound


def test_a_bundle_larger_than_its_disk_is_refused(client, name):
    chunk = bytes(range(256)) * 256
    data = [record(4, struct.pack("<Q", i * 65536) + text(chunk)) for i in range(200)]
    small = {"format": 1, "template": "host", "image": None, "disk_mib": 8}
    with pytest.raises(errors.ClocheError, match="(?i)space|disk|quota"):
        client.import_snapshot(name, bundle(entry(b"/srv/a", size=200 * 65536), *data, about=small))


def test_the_command_line_exports_and_imports(cli, client, sandbox, name, tmp_path):
    sandbox.run("echo kept > a")
    snapshot = sandbox.snapshot()["id"]
    path = tmp_path / "one.cloche"
    cli.ok("snapshot", "export", "--output", str(path), snapshot)
    assert path.read_bytes().startswith(MAGIC)
    assert cli.ok("snapshot", "import", "--name", name, str(path)).startswith("sn_")
    with client.create(snapshot=name) as copy:
        assert copy.run("cat a").stdout == "kept\n"
    client.delete_snapshot(snapshot)
