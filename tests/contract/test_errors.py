# SPDX-License-Identifier: Apache-2.0
"""Every operation's errors: the right status and code, in the described form, with the field to blame."""

import uuid

import pytest
from contract.description import OPERATIONS
from harness.daemon import call

ALL = list(OPERATIONS)
JSON = [name for name, op in OPERATIONS.items() if op.has_json_body]
BODIES = [name for name, op in OPERATIONS.items() if op.body_types]
IN_SANDBOX = [name for name, op in OPERATIONS.items() if "{id}" in op.path]
OF_EXEC = [name for name, op in OPERATIONS.items() if "{exec_id}" in op.path]
OF_CONTEXT = [name for name, op in OPERATIONS.items() if "{context_id}" in op.path]
NEEDS_LIFE = [n for n in IN_SANDBOX if "410" in OPERATIONS[n].text["responses"] and n not in OF_EXEC]
LEAST = {  # bodies that a reader accepts, so that what comes after it is reached
    "create_exec": {"argv": ["true"]}, "signal_exec": {"signal": 9}, "resize_exec": {"rows": 1, "cols": 1}, "update_sandbox": {"tags": {}},
    "make_directory": {"path": "a"}, "move_file": {"path": "a", "to": "b"}, "copy_file": {"path": "a", "to": "b"},
    "chmod_file": {"path": "a", "mode": "0600"}, "chown_file": {"path": "a", "owner": "user"}, "make_symlink": {"path": "a", "target": "b"},
    "create_batch": {"count": 1}, "create_reservation": {"count": 1}, "set_project_quota": {}, "set_key_quota": {}, "create_key": {"name": "a"}, "create_login": {"key": "nobody"}, "update_login": {"project": "a"}, "poll_device_login": {"device": "a"}, "create_project": {"name": "a"}, "run": {"command": "true"}, "create_sandbox": {},
    "run_code": {"code": "1"}, "create_context": {}, "create_port": {"port": 3000}, "extend_sandbox": {"ms": 1}, "pause_sandbox": {}, "resume_sandbox": {}, "set_network": {"policy": "deny-all"}, "allow_network": {"host": "example.com"}, "explain_network": {"url": "https://example.com/"}, "update_webhook": {"types": "policy"}, "put_secret": {"value": "x"}, "rotate_identity": {}, "create_identity_token": {"audience": "a"}, "create_template": {"from": "nobody", "name": "t"}, "pull_template": {"ref": "127.0.0.1:1/a"}, "create_build": {"recipe": 'name = "t"\nfrom = "nobody"\n'}, "create_webhook": {"url": "https://example.com/", "types": "policy"},
    "create_volume": {"name": "v"}, "create_snapshot": {}, "update_snapshot": {}, "fork_sandbox": {"memory": False}, "roll_back_sandbox": {"snapshot": "nobody"}, "apply_changes": {"from": "nobody"},
}


@pytest.fixture(scope="module")
def box(client, daemon):
    """One sandbox for all: what is refused changes nothing in it."""
    with client.create() as sandbox:
        yield sandbox


def body_of(name):
    return LEAST.get(name, b"x" if OPERATIONS[name].body_types else None)


def error(answer):
    status, body = answer
    return status, body["error"]["code"], body["error"].get("field")


@pytest.mark.parametrize("name", [n for n in ALL if n != "finish_provider_login"])  # providers add what they like
def test_an_unknown_query_parameter_is_named(api, box, name):
    query = OPERATIONS[name].target().partition("?")[2]
    query = f"{query}&no_such=1" if query else "no_such=1"
    assert error(api(name, id=box.id, query=query, body=body_of(name))) == (400, "invalid_field", "no_such")


@pytest.mark.parametrize("name", [n for n in ALL if OPERATIONS[n].scope])
def test_without_a_key_nobody_gets_in(api, name):
    status, code, _ = error(api(name, body=body_of(name), key=""))
    assert (status, code) in ((401, "unauthenticated"), (429, "limit_exceeded"))


@pytest.mark.parametrize("name", [n for n in ALL if OPERATIONS[n].scope in ("write", "admin")])
def test_a_read_key_writes_nothing(api, project_keys, name):
    status, body = api(name, body=body_of(name), key=project_keys["read"])
    assert (status, body["error"]["code"]) == (403, "forbidden")
    assert OPERATIONS[name].scope in body["error"]["message"] and body["error"]["hint"]


@pytest.mark.parametrize("name", IN_SANDBOX)
def test_an_unknown_sandbox_is_not_found(api, name):
    assert error(api(name, body=body_of(name)))[:2] == (404, "not_found")


@pytest.mark.parametrize("name", OF_EXEC)
def test_an_unknown_exec_is_not_found(api, box, name):
    assert error(api(name, id=box.id, body=body_of(name)))[:2] == (404, "not_found")


@pytest.mark.parametrize("name", OF_CONTEXT)
def test_an_unknown_context_is_not_found(api, box, name):
    assert error(api(name, id=box.id, body=body_of(name)))[:2] == (404, "not_found")


@pytest.mark.parametrize("name", NEEDS_LIFE)
def test_in_a_sandbox_that_has_ended_it_is_gone(api, ended, name):
    assert error(api(name, id=ended.id, body=body_of(name)))[:2] == (410, "gone")


@pytest.mark.parametrize("name", JSON)
def test_an_unknown_field_is_named(api, box, name):
    body = {**(LEAST[name]), "no_such": 1}
    status, code, field = error(api(name, id=box.id, exec_id=exec_in(api, box, name), body=body))
    assert (status, code, field) == (400, "invalid_field", "no_such")


def exec_in(api, box, name):
    """An exec's id where the operation is about one."""
    if "{exec_id}" not in OPERATIONS[name].path:
        return ""
    return api("create_exec", id=box.id, body={"argv": ["true"], "detached": True})[1]["exec"]["id"]


@pytest.mark.parametrize("name", JSON)
@pytest.mark.parametrize("text", [b"[]", b"{", b'{"a":1,"a":2}', b'{"a":"\xff"}'], ids=["array", "cut", "twice", "not-utf8"])
def test_a_body_that_is_no_object_is_a_bad_request(api, box, name, text):
    assert error(api(name, id=box.id, exec_id=exec_in(api, box, name), body=text))[:2] == (400, "bad_request")


@pytest.mark.parametrize("name", JSON)
def test_another_media_type_is_refused(api, box, name):
    answer = api(name, id=box.id, body=b"{}", headers={"Content-Type": "text/plain"})
    assert error(answer)[:2] == (415, "unsupported_media_type")


@pytest.mark.parametrize("name", BODIES)
def test_a_compressed_body_is_refused(api, box, name):
    answer = api(name, id=box.id, body=b"{}", headers={"Content-Encoding": "gzip"})
    assert error(answer)[:2] == (415, "unsupported_media_type")


@pytest.mark.parametrize("name", JSON)
def test_a_body_that_is_too_large_is_refused(api, box, name):
    body = b'{"a":"' + b"x" * (4 << 20) + b'"}'
    assert error(api(name, id=box.id, body=body))[:2] == (413, "too_large")


@pytest.mark.parametrize("name", [n for n in ALL if not OPERATIONS[n].body_types])
def test_a_body_where_none_is_taken_is_refused(api, box, name):
    assert error(api(name, id=box.id, body=b"x"))[:2] == (400, "bad_request")


@pytest.mark.parametrize("name", ["create_exec", "run_code", "run", "get_exec_output", "watch_files"])
def test_a_type_that_cannot_be_given_is_refused(api, box, name):
    exec_id = exec_in(api, box, name)
    answer = api(name, id=box.id, exec_id=exec_id, body=LEAST.get(name), headers={"Accept": "image/png, text/html;q=0.9"})
    assert error(answer)[:2] == (406, "not_acceptable")


@pytest.mark.parametrize("name", [n for n in ALL if OPERATIONS[n].needs_path and n != "get_result"])
@pytest.mark.parametrize("query, field", [("user=user", "path"), ("path=", "path"), ("path=" + "x" * 4096, "path"), ("path=a&user=", "user")],
                         ids=["none", "empty", "long", "user"])
def test_a_path_that_cannot_be_is_named(api, box, name, query, field):
    assert error(api(name, id=box.id, query=query, body=body_of(name))) == (400, "invalid_field", field)


CASES = {  # name: (operation, query, body, status, code)
    "missing-file": ("read_file", "path=none", None, 404, "file_not_found"),
    "directory-read": ("read_file", "path=/tmp", None, 400, "file_invalid"),
    "denied-read": ("read_file", "path=/etc/shadow", None, 403, "file_denied"),
    "denied-write": ("write_file", "path=/etc/x", b"x", 403, "file_denied"),
    "exclusive": ("write_file", "path=/etc/passwd&exclusive=1", b"x", 409, "file_exists"),
    "changed": ("write_file", "path=/home/user/.bashrc&if_mtime_us=1", b"x", 409, "file_changed"),
    "changed-and-exclusive": ("write_file", "path=x&if_mtime_us=1&exclusive=1", b"x", 400, "invalid_field"),
    "mkdir-exists": ("make_directory", "", {"path": "/tmp"}, 409, "file_exists"),
    "tar-of-nothing": ("read_tar", "path=none", None, 404, "file_not_found"),
    "tar-garbage": ("write_tar", "path=/tmp", b"x" * 1024, 400, "file_invalid"),
    "compress": ("read_tar", "path=/tmp&compress=lzma", None, 400, "invalid_field"),
    "watch-nothing": ("watch_files", "path=none", None, 404, "file_not_found"),
    "list-a-file": ("list_files", "path=/etc/passwd", None, 400, "file_invalid"),
    "no-program": ("create_exec", "", {"argv": ["/none"]}, 404, "file_not_found"),
    "no-user": ("read_file", "path=x&user=nobody-here", None, 404, "file_not_found"),
    "no-vm": ("create_sandbox", "", {"engine": "vm"}, 501, "unsupported"),
    "no-hardware": ("create_sandbox", "", {"min_grade": "hardware"}, 501, "unsupported"),
    "no-template": ("create_sandbox", "", {"template": "none"}, 400, "invalid_field"),
    "too-much-memory": ("create_sandbox", "", {"limits": {"memory_mib": 1 << 24}}, 400, "invalid_field"),
    "bad-cursor": ("list_sandboxes", "cursor=c2I", None, 400, "invalid_field"),
    "foreign-project": ("list_keys", "project=none", None, 404, "not_found"),
    "code-no-context": ("run_code", "", {"code": "1", "context": "none"}, 404, "not_found"),
    "code-no-language": ("run_code", "", {"code": "1", "language": "cobol"}, 400, "invalid_field"),
    "code-bad-cwd": ("run_code", "", {"code": "1", "language": "bash", "cwd": "/none"}, 404, "file_not_found"),
    "context-name-kept": ("create_context", "", {"name": "python"}, 400, "invalid_field"),
    "run-nothing": ("run", "", {"argv": ["/none"]}, 404, "file_not_found"),
    "run-bad-file": ("run", "", {"command": "true", "files": [{"path": "/etc/x", "text": ""}]}, 403, "file_denied"),
}


@pytest.mark.parametrize("case", CASES)
def test_a_mistake_gets_its_own_code(api, box, case):
    name, query, body, status, code = CASES[case]
    assert error(api(name, id=box.id, query=query, body=body))[:2] == (status, code)


def test_a_name_is_taken_once(api):
    name = f"c-{uuid.uuid4().hex[:8]}"
    _, made = api("create_sandbox", body={"name": name})
    assert error(api("create_sandbox", body={"name": name}))[:2] == (409, "conflict")
    api("delete_sandbox", id=made["id"])


def test_what_an_exec_was_not_started_for_is_a_conflict(api, box):
    exec_id = api("create_exec", id=box.id, body={"argv": ["sleep", "1000"], "detached": True})[1]["exec"]["id"]
    assert error(api("resize_exec", id=box.id, exec_id=exec_id, body={"rows": 1, "cols": 1}))[:2] == (409, "conflict")
    assert error(api("write_exec_stdin", id=box.id, exec_id=exec_id, body=b"x"))[:2] == (409, "conflict")
    api("delete_exec", id=box.id, exec_id=exec_id)


def test_a_full_disk_says_so(api):
    _, made = api("create_sandbox", body={"limits": {"disk_mib": 32}})
    if "disk_limit" in made["isolation"]["gaps"]:
        api("delete_sandbox", id=made["id"])
        pytest.skip("this host gives no disk limit")
    assert error(api("write_file", id=made["id"], query="path=big", body=b"x" * (64 << 20)))[:2] == (507, "disk_full")
    api("delete_sandbox", id=made["id"])


def test_an_unknown_path_is_refused_before_it_is_looked_up(api):
    assert call(api.daemon, "GET", "/v1/none", key="")[0] in (401, 429)
    assert call(api.daemon, "GET", "/v1/none")[0] == 404
    assert call(api.daemon, "PUT", "/v1/sandboxes", b"")[0] == 405
