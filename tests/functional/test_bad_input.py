# SPDX-License-Identifier: Apache-2.0
"""Every field is checked, and the error names it; nothing half-made stays."""

import socket

import pytest
from cloche import errors
from harness.daemon import call

BIG = 10**30
NOT_TEXT = [1, 1.5, True, [], {}]
NOT_BOOL = [0, 1, "true", [], {}]
NOT_NUMBER = ["1", True, [], {}, "x"]
NOT_COUNT = [*NOT_NUMBER, 1.5, -1, BIG, -BIG]
NOT_OBJECT = [1, "x", True, []]

CREATE = {
    "name": [*NOT_TEXT, "", "UPPER", "-a", "a-", "a_b", "a/b", "..", "a" * 64, "ä", "a\n", "a\0b", "a b", "%2e", "a,b=c"],
    "group": [*NOT_TEXT, "", "UPPER", "-a", "a-", "a_b", "a" * 64, "ä", "a\0b", "a b"],
    "alias": [*NOT_TEXT, "", "a", "a" * 64, "a\0b"],
    "template": [*NOT_TEXT, "", "no-such-template", "../host", "x" * 65, "a\0b"],
    "tags": [*NOT_OBJECT, {"": "x"}, {"a": 1}, {"a": None}, {"a": "x" * 257}, {f"t{i}": "" for i in range(33)}, {"a": "x\0"}],
    "env": [*NOT_OBJECT, {"": "x"}, {"A=B": "x"}, {"A": 1}, {"A": "x\0y"}, {"A\0": "x"}, {"A": "x" * 300_000},
            {f"V{i}": "" for i in range(1025)}],
    "timeout_ms": [*NOT_COUNT, 0],
    "on_node_loss": [*NOT_TEXT, "", "later", "restore"],
    "engine": [*NOT_TEXT, "", "qemu", "JAIL"],
    "min_grade": [*NOT_TEXT, "", "strong"],
    "language": [*NOT_TEXT, "", "cobol", "Python"],
    "limits": NOT_OBJECT,
    "limits.vcpus": [*NOT_NUMBER, 0, -1, 0.001, 1e308, BIG, 100_000],
    "limits.memory_mib": [*NOT_COUNT, 0, 1, 2**63],
    "limits.disk_mib": [*NOT_COUNT, 0, 2**63],
    "limits.inodes": [*NOT_COUNT, 0, 2**63],
    "limits.pids": [*NOT_COUNT, 0, 2**32],
    "limits.open_files": [*NOT_COUNT, 0, 2**32],
    "limits.gpus": [1],
    "nonsense": [1, "x", {}],
}
EXEC = {
    "argv": [1, "x", True, {}, [], [1], ["a", None], [""], ["a\0b"], ["x"] * 5000, ["x" * 300_000], ["a", ["b"]]],
    "shell": [*NOT_TEXT, "", "a\0b", "x" * 70_000],
    "cwd": [*NOT_TEXT, "", "a\0b", "/" + "x" * 5000],
    "env": CREATE["env"],
    "user": [*NOT_TEXT, "", "a\0b", "x" * 65, "a:b", "../etc", "a\nb", "-1", "99999999999"],
    "stdin": [*NOT_TEXT],
    "stdin_base64": [*NOT_TEXT, "not base64!", "A", "AAA=="],
    "open_stdin": NOT_BOOL,
    "pty": [1, "x", True, [], {"rows": 0}, {"cols": 0}, {"rows": 1001}, {"rows": "24"}, {"rows": 1.5}, {"depth": 1}],
    "timeout_ms": [*NOT_COUNT],
    "detached": NOT_BOOL,
    "kill_on_disconnect": NOT_BOOL,
    "nonsense": [1],
}
RUN = {
    **{k: v for k, v in CREATE.items() if k != "timeout_ms"},
    "command": EXEC["shell"],
    "argv": EXEC["argv"],
    "language": [*NOT_TEXT, "", "cobol"],
    "args": [1, "x", {}, [1], ["a\0b"]],
    "cwd": EXEC["cwd"],
    "user": EXEC["user"],
    "stdin_base64": EXEC["stdin_base64"],
    "timeout_ms": EXEC["timeout_ms"],
    "files": [1, "x", {}, [1], [{}], [{"path": 1, "text": ""}], [{"path": "", "text": ""}], [{"path": "a"}],
              [{"path": "a", "text": "", "base64": ""}], [{"path": "a", "base64": "!"}], [{"path": "a\0", "text": ""}],
              [{"path": "a", "text": "", "mode": "9"}], [{"path": "a", "text": "", "odd": 1}],
              [{"path": str(i), "text": ""} for i in range(101)]],
}


RESERVE = {
    **{k: v for k, v in CREATE.items() if k not in ("name", "alias", "group")},
    "count": [*NOT_COUNT, 0, 10001],
    "duration_ms": [*NOT_COUNT, 0, 999, 86_400_001],
    "name": ["a"],
    "persistent": [True],
    "snapshot": ["none"],
    "volumes": [1, [{"volume": "none", "path": "/a"}]],
    "wait_ms": [1],
}


def rows(table):
    return [(field, i, value) for field, values in table.items() for i, value in enumerate(values)]


def with_field(base, field, value):
    top, _, below = field.partition(".")
    return {**base, top: {below: value} if below else value}


def check(status, body, field, value=None):
    assert status == 400, (status, body)
    error = body["error"]
    if isinstance(value, dict) and any("\0" in key for key in value):  # no name to give: it is the name that is bad
        assert error["code"] == "bad_request" and "line 1" in error["message"], error
        return
    assert error["code"] == "invalid_field", error
    top = field.partition(".")[0]
    named = error.get("field", "")
    assert named == field or named.startswith((field + ".", field + "[", top + ".")), error
    assert error["message"] and error["request_id"]


def id_of(row):
    text = repr(row[2])
    return f"{row[0]}-{row[1]}-{text if len(text) < 24 else text[:10] + '…'}".encode("ascii", "replace").decode()


@pytest.mark.parametrize("row", rows(CREATE), ids=id_of)
def test_a_create_names_the_bad_field(daemon, row):
    field, _, value = row
    status, body = call(daemon, "POST", "/v1/sandboxes", with_field({}, field, value))
    if status == 201:
        call(daemon, "DELETE", f"/v1/sandboxes/{body['id']}")
    check(status, body, field, value)


@pytest.mark.parametrize("row", rows(RESERVE), ids=id_of)
def test_a_reservation_names_the_bad_field(daemon, row):
    field, _, value = row
    check(*call(daemon, "POST", "/v1/pool", with_field({"count": 1}, field, value)), field, value)
    assert call(daemon, "GET", "/v1/pool")[1] == {"reservations": []}


def test_a_reservation_without_a_number_is_refused(daemon):
    check(*call(daemon, "POST", "/v1/pool", {}), "count")


@pytest.fixture(scope="module")
def place(client, daemon):
    with client.create() as sandbox:
        yield sandbox


@pytest.mark.parametrize("row", rows(EXEC), ids=id_of)
def test_an_exec_names_the_bad_field(daemon, place, row):
    field, _, value = row
    base = {} if field in ("argv", "shell") else {"argv": ["true"]}
    status, body = call(daemon, "POST", f"/v1/sandboxes/{place.id}/execs", with_field(base, field, value))
    if field == "user" and status == 404:
        return  # well formed, but nobody's name
    check(status, body, field, value)


@pytest.mark.parametrize("row", rows(RUN), ids=id_of)
def test_a_run_names_the_bad_field(daemon, row):
    field, _, value = row
    base = {} if field in ("argv", "command") else {"code": "1"} if field in ("language", "args") else {"command": "true"}
    status, body = call(daemon, "POST", "/v1/run", with_field(base, field, value))
    check(status, body, field, value)


@pytest.mark.parametrize("body", [{}, {"argv": ["a"], "shell": "b"}, {"cwd": "/"}, {"stdin": "a", "stdin_base64": "YQ==", "argv": ["a"]},
                                  {"argv": ["a"], "detached": True, "kill_on_disconnect": True}])
def test_fields_that_exclude_or_need_each_other_are_refused(daemon, place, body):
    status, reply = call(daemon, "POST", f"/v1/sandboxes/{place.id}/execs", body)
    assert (status, reply["error"]["code"]) == (400, "invalid_field")


@pytest.mark.parametrize("query, field", [
    ("limit=0", "limit"), ("limit=101", "limit"), ("limit=x", "limit"), ("limit=-1", "limit"), ("limit=1&limit=2", "limit"),
    ("limit=99999999999999999999", "limit"), ("limit=1.0", "limit"), ("limit=%31%00", "limit"), ("limit=", "limit"),
    ("cursor=nonsense", "cursor"), ("cursor=%00", "cursor"), ("tag=novalue", "tag"), ("state=odd", "state"), ("odd=1", "odd"),
    ("LIMIT=1", "LIMIT"),
])
def test_a_list_names_the_bad_parameter(daemon, query, field):
    status, body = call(daemon, "GET", f"/v1/sandboxes?{query}")
    assert status == 400
    assert body["error"].get("field") == field or body["error"]["code"] == "bad_request"


@pytest.mark.parametrize("query, field", [
    ("", "path"), ("path=", "path"), ("path=a&offset=-1", "offset"), ("path=a&offset=x", "offset"),
    ("path=a&length=-1", "length"), ("path=a&odd=1", "odd"), ("path=a&user=", "user"), ("path=" + "x" * 4097, "path"),
    ("path=a&offset=99999999999999999999", "offset"),
])
def test_a_file_read_names_the_bad_parameter(daemon, place, query, field):
    status, body = call(daemon, "GET", f"/v1/sandboxes/{place.id}/files?{query}")
    assert (status, body["error"].get("field")) == (400, field)


@pytest.mark.parametrize("query, field", [
    ("path=a&mode=9", "mode"), ("path=a&mode=77777", "mode"), ("path=a&append=maybe", "append"), ("path=a&parents=2", "parents"),
    ("path=a&exclusive=x", "exclusive"), ("path=a&mode=rwx", "mode"), ("path=a&append=1&exclusive=1&odd=", "odd"),
])
def test_a_file_write_names_the_bad_parameter(daemon, place, query, field):
    status, body = call(daemon, "PUT", f"/v1/sandboxes/{place.id}/files?{query}", b"x", headers={"Content-Type": "application/octet-stream"})
    assert (status, body["error"].get("field")) == (400, field)


@pytest.mark.parametrize("op, body, field", [
    ("mkdir", {}, "path"), ("mkdir", {"path": 1}, "path"), ("mkdir", {"path": "a", "mode": 493}, "mode"), ("mkdir", {"path": "a", "odd": 1}, "odd"),
    ("move", {"path": "a"}, "to"), ("move", {"to": "a"}, "path"), ("copy", {"path": "a", "to": 1}, "to"),
    ("copy", {"path": "a", "to": "b", "recursive": "yes"}, "recursive"), ("chmod", {"path": "a"}, "mode"),
    ("chmod", {"path": "a", "mode": "xyz"}, "mode"), ("chown", {"path": "a"}, "owner"), ("chown", {"path": "a", "owner": ""}, "owner"),
    ("symlink", {"path": "a"}, "target"), ("symlink", {"path": "a", "target": ""}, "target"), ("mkdir", {"path": "a", "user": 1}, "user"),
])
def test_a_file_operation_names_the_bad_field(daemon, place, op, body, field):
    status, reply = call(daemon, "POST", f"/v1/sandboxes/{place.id}/files/{op}", body)
    assert (status, reply["error"].get("field")) == (400, field)


BAD_JSON = {
    "empty": b"", "not-json": b"hello", "array": b"[]", "string": b'"x"', "null": b"null", "number": b"1", "cut": b'{"a":', "trailing": b"{} x",
    "two": b"{}{}", "duplicate": b'{"name":"a","name":"b"}', "deep-array": b"[" * 100_000, "deep-object": b'{"a":' * 100_000,
    "bad-utf8": b'{"name":"\xff"}', "overlong": b'{"name":"\xc0\xaf"}', "lone-surrogate": b'{"name":"\\ud800"}', "bom": b"\xef\xbb\xbf{}",
    "nan": b'{"timeout_ms":NaN}', "infinity": b'{"timeout_ms":Infinity}', "huge-number": b'{"timeout_ms":1e400}', "minus-zero": b'{"timeout_ms":-0}',
    "leading-zero": b'{"timeout_ms":01}', "plus": b'{"timeout_ms":+1}', "hex": b'{"timeout_ms":0x1}', "single-quotes": b"{'a':1}",
    "comment": b"{/*x*/}", "trailing-comma": b'{"name":"a",}', "nul": b'{"name":"a\x00"}', "escaped-nul": b'{"name":"a\\u0000"}',
    "control": b'{"name":"a\x01"}', "utf16": '{"name":"a"}'.encode("utf-16"), "long-number": b'{"timeout_ms":' + b"9" * 5000 + b"}",
    "nul-key": b'{"na\\u0000me":"a"}',
}


@pytest.mark.parametrize("name", sorted(BAD_JSON))
def test_a_body_that_is_no_json_object_of_ours_is_refused(daemon, place, name):
    status, body = call(daemon, "POST", f"/v1/sandboxes/{place.id}/execs", BAD_JSON[name])
    assert status == 400
    assert body["error"]["code"] in ("bad_request", "invalid_field")


def test_a_body_of_another_media_type_is_refused(daemon):
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data"):
        status, body = call(daemon, "POST", "/v1/sandboxes", b"{}", headers={"Content-Type": kind})
        assert (status, body["error"]["code"]) == (415, "unsupported_media_type")


def test_a_body_larger_than_a_route_takes_is_refused(daemon):
    status, body = call(daemon, "POST", "/v1/sandboxes", b'{"name":"' + b"a" * (2 << 20) + b'"}')
    assert (status, body["error"]["code"]) == (413, "too_large")


def test_a_client_that_sends_all_of_a_refused_body_first_reads_why(daemon):
    """Most clients do so, and a connection that is reset meanwhile takes the reply away."""
    body = b"a" * (4 << 20)
    with socket.create_connection(("127.0.0.1", daemon.port), timeout=60) as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 16384)  # so that it is not all on its way at once
        head = f"POST /v1/sandboxes HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {daemon.key}\r\nContent-Type: application/json\r\n"
        client.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        assert client.recv(64).startswith(b"HTTP/1.1 413 ")


def test_a_client_that_never_ends_a_refused_body_is_cut_off(daemon):
    with socket.create_connection(("127.0.0.1", daemon.port), timeout=60) as client:
        head = f"POST /v1/sandboxes HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {daemon.key}\r\nContent-Type: application/json\r\n"
        client.sendall(f"{head}Content-Length: {1 << 40}\r\n\r\n".encode())
        with pytest.raises(ConnectionError):
            for _ in range(256):
                client.sendall(b"a" * (1 << 20))


@pytest.mark.parametrize("name", ["..", "../x", "a/../b", "x" * 300, "-rf", "a,b", "%", "\n", "a\r\nb", "\0", "sb_", "ä", "sb_" + "A" * 26])
def test_an_id_that_cannot_be_is_never_more_than_not_found(client, name):
    with pytest.raises((errors.NotFound, errors.BadRequest, errors.InvalidField)):
        client.get(name)


def test_null_counts_as_absent(daemon):
    status, body = call(daemon, "POST", "/v1/run", {"command": "echo 1", "cwd": None, "env": None, "limits": None})
    assert (status, body["stdout"]) == (200, "1\n")
