# SPDX-License-Identifier: Apache-2.0
"""Who may do what: a matrix over every route of api/openapi.yaml."""

import base64
import re
import stat

import pytest
import yaml
from cloche import Client, errors
from harness.cli import Cli
from harness.daemon import ROOT, Daemon, call, wait_for

API = yaml.safe_load((ROOT / "api" / "openapi.yaml").read_text())
METHODS = ("get", "put", "post", "patch", "delete")
ROUTES = [
    (method.upper(), path, op)
    for path, item in API["paths"].items() for method, op in item.items() if method in METHODS
]
OPEN = ("/v1/health", "/v1/ready", "/v1/login", "/v1/login/oidc/start", "/v1/login/oidc/callback", "/v1/login/oidc/logout", "/v1/login/device",
        "/v1/login/device/poll", "/.well-known/openid-configuration", "/.well-known/jwks.json", "/v1/authority")
PRIVATE = [(m, p) for m, p, op in ROUTES if p not in OPEN]
ADMIN = ("/v1/keys", "/v1/projects", "/v1/doctor", "/v1/settings", "/v1/nodes", "/v1/backups", "/v1/identity/rotate")
KINDS = {"id": "sb", "exec_id": "ex", "key_id": "key", "context_id": "ctx", "project_id": "prj", "secret": "se", "webhook_id": "wh", "template": "tpl",
         "build_id": "bld", "snapshot": "sn", "volume": "vo", "batch": "bt", "reservation": "rs"}
UNKNOWN = {"{%s}" % name: f"{kind}_" + "a" * 26 for name, kind in KINDS.items()} | {"{port}": "3000"}


def scope_of(method, path):
    if path.startswith(ADMIN):
        return "admin"
    if path == "/v1/login/links":
        return "read"  # it hands on what the key may do, and no more
    return "read" if method == "GET" and not path.endswith("/attach") else "write"


def filled(path, **ids):
    for word, value in {**UNKNOWN, **ids}.items():
        path = path.replace(word if word.startswith("{") else "{%s}" % word, value)
    return path + ("?path=x" if "/files" in path else "")


def body_of(method, path):
    if method not in ("POST", "PATCH") or path.endswith("/stdin"):
        return b"" if method in ("PUT", "POST") else None
    return {}


def ids_of(row):
    return f"{row[0]} {row[1]}"


@pytest.fixture(scope="module")
def refusing():
    """A daemon of its own: failed tries are counted per caller, and would lock out other tests."""
    yield from own_daemon()


@pytest.fixture(scope="module")
def guarded():
    """Another one, whose count of failed tries begins at none."""
    yield from own_daemon()


def own_daemon():
    daemon = Daemon().start()
    try:
        yield daemon
    finally:
        status = daemon.stop()
        daemon.remove()
    assert status == 0


@pytest.mark.parametrize("row", PRIVATE, ids=ids_of)
def test_without_a_key_nothing_is_told(refusing, row):
    method, path = row
    status, body = call(refusing, method, filled(path), body_of(method, path), key="")
    assert (status, body["error"]["code"]) in ((401, "unauthenticated"), (429, "limit_exceeded"))


@pytest.mark.parametrize("row", PRIVATE, ids=ids_of)
def test_a_key_of_too_small_a_scope_is_refused(daemon, project_keys, row):
    method, path = row
    needed = scope_of(method, path)
    for scope in {"read": [], "write": ["read"], "admin": ["read", "write"]}[needed]:
        status, body = call(daemon, method, filled(path), body_of(method, path), key=project_keys[scope])
        assert (status, body["error"]["code"]) == (403, "forbidden")


@pytest.fixture(scope="module")
def theirs(client, daemon):
    """A sandbox and exec of the project default."""
    with client.create(name="of-default") as sandbox:
        sandbox.files.write("x", b"secret")
        e = sandbox.start("echo up; exec sleep 1000")
        next(x for x in e.output() if x.type == "stdout")
        wait_for(lambda: sandbox.run("cat /proc/[0-9]*/comm | grep -qx sleep").exit_code == 0, 10, "the exec")
        yield sandbox, e
        e.kill()


SANDBOX_ROUTES = [r for r in PRIVATE if "{id}" in r[1]]


@pytest.mark.parametrize("row", SANDBOX_ROUTES, ids=ids_of)
def test_anothers_sandbox_is_answered_as_one_that_does_not_exist(daemon, project_keys, theirs, row):
    method, path = row
    sandbox, e = theirs
    answers = []
    for ids in ({"id": sandbox.id, "exec_id": e.id}, {"id": "sb_" + "b" * 26, "exec_id": e.id}):
        status, body = call(daemon, method, filled(path, **ids), body_of(method, path), key=project_keys["other"])
        text = re.sub(r"req_\w+", "REQ", str(body)).replace(ids["id"], "ID")
        answers.append((status, text))
    assert answers[0] == answers[1]
    assert answers[0][0] in (404, 400)
    by_name = call(daemon, method, filled(path, id="of-default", exec_id=e.id), body_of(method, path), key=project_keys["other"])
    assert by_name[0] == answers[0][0]


def test_lists_hold_only_what_is_the_projects_own(daemon, project_keys, theirs):
    status, body = call(daemon, "GET", "/v1/sandboxes", key=project_keys["other"])
    assert (status, body["sandboxes"]) == (200, [])


def test_two_projects_may_use_the_same_name(daemon, project_keys, theirs):
    with Client(daemon.url, project_keys["other"]) as other, other.create(name="of-default") as mine:
        assert mine.id != theirs[0].id
        assert mine.run("cat x || echo none").stdout == "none\n"


def test_a_read_key_can_read(daemon, project_keys, theirs):
    sandbox, e = theirs
    for path in (f"/v1/sandboxes/{sandbox.id}", "/v1/sandboxes", f"/v1/sandboxes/{sandbox.id}/files?path=x", f"/v1/sandboxes/{sandbox.id}/execs/{e.id}"):
        assert call(daemon, "GET", path, key=project_keys["read"])[0] == 200


@pytest.mark.parametrize("path", [
    "/v1//sandboxes", "/v1/./sandboxes", "/v1/x/../sandboxes", "/v1/%73andboxes", "/v1/sandboxes/", "/V1/sandboxes",
    "/v1/sandboxes%2f", "/v1/health/../sandboxes", "/v1/health/%2e%2e/sandboxes", "/v1/health;/sandboxes", "/v1/health/sandboxes",
])
def test_another_spelling_of_a_path_opens_nothing(daemon, project_keys, path):
    """Without a key or with a small one, no spelling is answered with more than the canonical one."""
    for key in ("", project_keys["read"]):
        status, _ = call(daemon, "POST", path, {}, key=key)
        assert status in (400, 401, 403, 404, 405, 429)


@pytest.mark.parametrize("header", ["X-HTTP-Method-Override", "X-Method-Override", "X-HTTP-Method", "X-Original-URL", "X-Rewrite-URL"])
def test_no_header_changes_method_or_path(daemon, project_keys, theirs, header):
    value = "DELETE" if "URL" not in header else "/v1/keys"
    status, body = call(daemon, "GET", f"/v1/sandboxes/{theirs[0].id}", key=project_keys["read"], headers={header: value})
    assert (status, body["state"]) == (200, "running")


def test_a_revoked_key_opens_nothing_at_once(daemon, client):
    made = client.create_key("short-lived", scope="write")
    with Client(daemon.url, made["secret"]) as short:
        assert list(short.list()) is not None
        client.revoke_key(made["key"]["id"])
        with pytest.raises((errors.Unauthenticated, errors.LimitReached)):  # the second where many were refused just before
            list(short.list())
    with pytest.raises(errors.ClocheError):
        client.revoke_key("key_" + "a" * 26)


def test_T05_health_tells_a_tenant_nothing_of_others(daemon, project_keys):
    (_, theirs), (_, operators) = (call(daemon, "GET", "/v1/health", key=project_keys[k]) for k in ("other", "read"))
    assert set(theirs) == {"status", "ready", "version", "uptime_ms", "engines", "default_engine"}
    assert {"sandboxes", "pool", "host", "disk", "problems"} <= set(operators)


def test_T05_figures_and_the_log_s_ends_tell_a_tenant_no_count_of_all_projects(daemon, project_keys):
    (_, theirs), (_, operators) = (call(daemon, "GET", "/v1/figures", key=project_keys[k]) for k in ("other", "read"))
    assert theirs["pool"] is None and operators["pool"] is not None
    _, ends = call(daemon, "GET", "/v1/events/head", key=project_keys["other"])
    assert ends["count"] == len(call(daemon, "GET", "/v1/events", key=project_keys["other"])[1].splitlines())
    (refused, _), (status, of_all) = (call(daemon, "GET", "/v1/events/head?all=1", key=project_keys[k]) for k in ("other", "admin"))
    assert (refused, status) == (403, 200) and of_all["count"] > ends["count"]


def test_T05_a_cursor_made_of_a_foreign_id_tells_not_whether_it_lives(daemon, project_keys, sandbox):
    def page(id_):
        cursor = base64.urlsafe_b64encode(id_.encode()).decode().rstrip("=")
        return call(daemon, "GET", f"/v1/sandboxes?limit=1&cursor={cursor}", key=project_keys["other"])

    with Client(daemon.url, project_keys["other"]) as other:
        made = [other.create(template="host") for _ in range(2)]
        try:
            status, listing = page(made[1].id)
            assert status == 200 and [s["id"] for s in listing["sandboxes"]] == [made[0].id]  # it is how a cursor is made
            assert page(sandbox.id) == page("sb_" + "a" * 26)
        finally:
            for one in made:
                one.delete()


def test_a_prefix_is_only_decoration(daemon, project_keys):
    digits = project_keys["read"][4:]
    for key in (f"clo_{digits}", f"e2b_{digits}"):
        assert call(daemon, "GET", "/v1/sandboxes", key=key)[0] == 200
        assert call(daemon, "GET", "/v1/sandboxes", key="", headers={"X-API-Key": key})[0] == 200


def test_secrets_are_shown_once_and_never_stored(daemon, client, project_keys):
    listed = str(client.keys())
    stored = b"".join(p.read_bytes() for p in (daemon.data / "gateway").glob("state.db*"))
    log = daemon.log()
    for secret in [*project_keys.values(), daemon.key]:
        assert secret[4:] not in listed
        assert secret[4:].encode() not in stored
        assert secret[4:] not in log
    assert stat.S_IMODE((daemon.data / "admin.key").stat().st_mode) == 0o600


def test_environment_values_and_host_paths_are_in_no_log_or_error(daemon, sandbox):
    sandbox.run("true", env={"SECRET": "canary-5f2a"})
    for bad in ("/no/such", "/etc/shadow"):
        with pytest.raises(errors.ClocheError) as e:
            sandbox.files.read(bad)
        assert str(daemon.dir) not in str(e.value)
    assert "canary-5f2a" not in daemon.log()


def test_a_project_is_removed_with_its_keys_once_it_is_empty(daemon, client, cli):
    project = client.create_project("leaves")
    key = client.create_key("of-it", project="leaves", scope="admin")
    client.set_quota(project="leaves", sandboxes=5)
    client.set_quota(project="leaves", key=key["key"]["id"], sandboxes=5)
    with Client(daemon.url, key["secret"]) as own:
        own.create_webhook("https://example.com/hook")
        own.set_secret("THEIRS", "value")
        sandbox, volume = own.create(), own.create_volume("kept", size_mib=16)
        status, _, err = cli("project", "rm", "leaves")
        assert status == 125
        assert "the project 'leaves' still has 1 sandbox, 1 volume\n  hint: remove them first, with a key of that project: 'cloche rm --all'" in err
        sandbox.delete()
        own.delete_volume(volume["id"])
        assert cli.ok("project", "rm", "leaves") == ""
        with pytest.raises(errors.Unauthenticated):
            own.keys()
    assert project["id"] not in [p["id"] for p in client.projects()]
    assert client.create_project("leaves")["id"] != project["id"]
    client.delete_project("leaves")
    assert "project.removed" in cli.ok("events", "--all", "--type", "project.removed")
    assert project["id"] in cli.ok("usage")


def test_a_second_project_of_a_name_is_refused_with_what_to_do(client):
    client.create_project("once-only")
    with pytest.raises(errors.Conflict) as e:
        client.create_project("once-only")
    client.delete_project("once-only")
    assert "a project named 'once-only' exists already" in str(e.value) and "another name" in e.value.hint


def test_the_project_default_cannot_be_removed(cli):
    status, _, err = cli("project", "rm", "default")
    assert status == 125 and "the project 'default' is the operator's own, and stays" in err


def test_an_admin_of_another_project_cannot_reach_keys_and_projects_of_all(daemon, client):
    project = client.create_project("admins-of-their-own")
    theirs = client.create_key("boss", scope="admin", project=project["id"])["secret"]
    assert call(daemon, "GET", "/v1/projects", key=theirs)[0] == 403
    assert call(daemon, "POST", "/v1/projects", {"name": "more"}, key=theirs)[0] == 403
    assert call(daemon, "DELETE", f"/v1/projects/{project['id']}", key=theirs)[0] == 403
    status, body = call(daemon, "GET", "/v1/keys", key=theirs)
    assert status == 200 and {k["project_id"] for k in body["keys"]} == {project["id"]}
    assert call(daemon, "GET", "/v1/keys?project=default", key=theirs)[0] in (403, 404)


BAD_KEYS = {
    "garbage": {"Authorization": "Bearer nonsense"},
    "wrong": {"Authorization": "Bearer clo_" + "0" * 40},
    "basic": {"Authorization": "Basic dXNlcjpwYXNz"},
    "no-scheme": {"Authorization": "clo_" + "0" * 40},
    "empty": {"Authorization": "Bearer "},
    "long": {"Authorization": "Bearer clo_" + "0" * 4000},
    "upper": None,
    "two-different": None,
}


@pytest.mark.parametrize("name", sorted(BAD_KEYS))
def test_a_bad_key_is_refused(guarded, name):
    headers = BAD_KEYS[name]
    if name == "upper":
        headers = {"Authorization": f"Bearer {guarded.key.upper()}"}
    if name == "two-different":
        headers = {"Authorization": "Bearer clo_" + "0" * 40, "X-API-Key": guarded.key}
    status, body = call(guarded, "GET", "/v1/sandboxes", key="", headers=headers)
    assert (status, body["error"]["code"]) in ((401, "unauthenticated"), (400, "bad_request"))


def test_a_key_in_the_query_is_refused(guarded):
    assert call(guarded, "GET", f"/v1/sandboxes?api_key={guarded.key}", key="")[0] in (400, 401)


def test_health_without_a_key_tells_little_and_with_a_bad_one_nothing(guarded):
    status, body = call(guarded, "GET", "/v1/health", key="")
    assert status == 200 and set(body) == {"status", "ready", "version"}
    assert call(guarded, "GET", "/v1/health", key="clo_" + "1" * 40)[0] == 401


def test_guessing_is_slowed_and_a_good_key_still_works(guarded):
    statuses = [call(guarded, "GET", "/v1/sandboxes", key=f"clo_{i:040x}")[0] for i in range(40)]
    assert statuses[-1] == 429
    assert call(guarded, "GET", "/v1/sandboxes")[0] == 200


def find_key(client, made):
    return next(k for k in client.keys() if k["id"] == made["key"]["id"])


def test_a_key_tells_when_it_was_last_used_also_after_a_restart():
    own = Daemon("--pool-max", "0", rm=False).start()
    try:
        with Client(own.url, own.key) as client:
            made = client.create_key("seldom", scope="read")
            assert "used_us" not in find_key(client, made)
            assert "never" in Cli(own).ok("key", "ls")
            with Client(own.url, made["secret"]) as seldom:
                assert list(seldom.list()) == []
            used = find_key(client, made)["used_us"]
            assert used >= made["key"]["created_us"]
        own.stop()
        own.start()
        with Client(own.url, own.key) as client:
            assert find_key(client, made)["used_us"] == used
    finally:
        own.stop()
        own.remove()
