# SPDX-License-Identifier: Apache-2.0
"""Examples of files and of what has changed in them."""

import io
import json
import socket
import tarfile
import uuid

from contract.description import OPERATIONS


def apply_changes(api, box):
    made = api("fork_sandbox", id=box.id, body={"memory": False})[1]["sandboxes"][0]["id"]

    def write(word):
        assert api("create_exec", id=made, body={"shell": f"echo {word} > a"})[1]["exec"]["exit_code"] == 0

    write("fork")
    status, done = api("apply_changes", id=box.id, body={"from": made})
    assert (status, done) == (200, {"applied": True, "changes": 1, "conflicts": [], "conflict_count": 0})
    write("again")
    assert box.run("echo own > a").exit_code == 0
    status, done = api("apply_changes", id=box.id, body={"from": made})
    assert (status, done["applied"], [c["path"] for c in done["conflicts"]]) == (200, False, ["/home/user/a"])
    api("delete_sandbox", id=made)


def get_diff(api, box):
    made = api("create_snapshot", id=box.id, body={})[1]
    box.run("echo a > a; chmod 700 .")
    status, diff = api("get_diff", query=f"from={made['id']}&to={box.id}&patch=true")
    assert (status, [c["kind"] for c in diff["changes"]]) == (200, ["modified", "added"])
    api("delete_snapshot", snapshot=made["id"])


def put(api, box, path, data=b"12345", **fields):
    query = f"path={path}" + "".join(f"&{k}={v}" for k, v in fields.items())
    return api("write_file", id=box.id, query=query, body=data)


def read_file(api, box):
    put(api, box, "read-me")
    assert api("read_file", id=box.id, query="path=read-me&offset=1&length=3") == (200, b"234")
    assert api("read_file", id=box.id, query="path=read-me", method="HEAD") == (200, b"")


def write_file(api, box):
    status, entry = put(api, box, "deep/w", mode="0600", parents=1)
    assert (status, entry["mode"], entry["size"]) == (200, "0600", 5)
    assert put(api, box, "deep/w", append="true")[1]["size"] == 10
    assert put(api, box, f"new-{uuid.uuid4().hex}", exclusive=1, user="root")[0] == 201


def remove_file(api, box):
    put(api, box, "gone")
    assert api("remove_file", id=box.id, query="path=gone")[1] == {"path": "gone"}
    assert api("remove_file", id=box.id, query="path=gone&missing_ok=1&recursive=1")[0] == 200


def stat_file(api, box):
    api("make_symlink", id=box.id, body={"path": f"l-{uuid.uuid4().hex}", "target": "x"})
    assert api("stat_file", id=box.id, query="path=/")[1]["type"] == "directory"
    assert api("stat_file", id=box.id, query="path=/bin")[1].get("target")
    assert api("stat_file", id=box.id, query="path=/bin&follow=1")[1]["type"] == "directory"


def file_exists(api, box):
    assert api("file_exists", id=box.id, query="path=/tmp")[1] == {"exists": True, "type": "directory"}
    assert api("file_exists", id=box.id, query="path=/none&follow=1")[1] == {"exists": False}


def list_files(api, box):
    put(api, box, "dir/one", parents=1)
    _, listed = api("list_files", id=box.id, query="path=dir&recursive=1&depth=2&limit=5")
    assert [e["path"] for e in listed["entries"]] == ["one"] and not listed["truncated"]
    _, listed = api("list_files", id=box.id, query="path=/usr/bin&limit=2")
    assert len(listed["entries"]) == 2 and listed["truncated"]
    api("make_directory", id=box.id, body={"path": "empty", "parents": True})
    assert api("list_files", id=box.id, query="path=empty")[1] == {"entries": [], "truncated": False}


def make_directory(api, box):
    name = f"d-{uuid.uuid4().hex}"
    assert api("make_directory", id=box.id, body={"path": name + "/x", "parents": True, "mode": "0700"})[0] == 200


def move_file(api, box):
    put(api, box, "from")
    to = f"moved-{uuid.uuid4().hex}"
    assert api("move_file", id=box.id, body={"path": "from", "to": to, "exclusive": True})[1] == {"path": "from"}


def copy_file(api, box):
    put(api, box, "tree/leaf", parents=1)
    to = f"copies/{uuid.uuid4().hex}"
    body = {"path": "tree", "to": to, "recursive": True, "parents": True, "user": "user"}
    assert api("copy_file", id=box.id, body=body)[0] == 200


def chmod_file(api, box):
    put(api, box, "modes")
    assert api("chmod_file", id=box.id, body={"path": "modes", "mode": "755", "recursive": False})[0] == 200


def chown_file(api, box):
    put(api, box, "owned")
    body = {"path": "/home/user/owned", "owner": "root:root", "user": "root"}
    assert api("chown_file", id=box.id, body=body)[0] == 200


def make_symlink(api, box):
    assert api("make_symlink", id=box.id, body={"path": f"l-{uuid.uuid4().hex}", "target": "/x y"})[0] == 200


def read_tar(api, box):
    put(api, box, "packed/file", parents=1)
    _, data = api("read_tar", id=box.id, query="path=packed")
    assert "file" in [m.name.removeprefix("./") for m in tarfile.open(fileobj=io.BytesIO(data)).getmembers()]
    assert api("read_tar", id=box.id, query="path=packed&compress=gzip")[1][:2] == b"\x1f\x8b"
    assert api("read_tar", id=box.id, query="path=packed&compress=zstd")[1][:4] == b"\x28\xb5\x2f\xfd"


def write_tar(api, box):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        info = tarfile.TarInfo("inside")
        info.size = 3
        tar.addfile(info, io.BytesIO(b"abc"))
    _, reply = api("write_tar", id=box.id, query="path=unpacked&parents=1", body=out.getvalue())
    assert reply == {"entries": 1, "bytes": 3}


def watch_files(api, box):
    """An endless stream: read up to the first events, by hand."""
    op = OPERATIONS["watch_files"]
    target = op.target(id=box.id).replace("path=x", "path=/tmp&recursive=1")
    with socket.create_connection(("127.0.0.1", api.daemon.port), timeout=60) as s:
        s.sendall(f"GET {target} HTTP/1.0\r\nHost: localhost\r\nX-API-Key: {api.daemon.key}\r\n\r\n".encode())
        stream = s.makefile("rb")
        while stream.readline() != b"\r\n":
            pass
        ready = stream.readline()
        put(api, box, "/tmp/seen")
        event = stream.readline()
    op.check(200, "application/x-ndjson", ready + event)
    assert json.loads(ready)["type"] == "ready"
