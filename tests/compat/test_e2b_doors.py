# SPDX-License-Identifier: Apache-2.0
"""Who may do what by E2B's wire: a walk over every route of its face, as its own table names them."""

import http.client
import json
import re

import pytest
from harness.daemon import ROOT, Daemon

models = pytest.importorskip("e2b.api.client.models")
connect_code = pytest.importorskip("connectrpc.code")

TABLE = ROOT / "src" / "compat" / "e2b" / "routes.c"
UNKNOWN = "a" * 26
INTERPRETER = ("/execute", "/contexts")


def routes():
    """(method, path, scope) of each row; those of a sandbox's inside have none."""
    text = TABLE.read_text()
    words = dict(re.findall(r'^#define (\w+) +"(.*)"$', text, re.M))
    rows = re.findall(r"\{HTTP_(\w+), +([^,]+), +\w+, +HTTP_BODY_\w+, (?:SCOPE_)?(\w+)", text)
    return [(method, "".join(literal or words[name] for literal, name in re.findall(r'"([^"]*)"|(\w+)', path)), scope.lower())
            for method, path, scope in rows]


PLANE = [row for row in routes() if row[2] != "0"]
# What opens a volume's files is the volume's own token: security/test_volumes.py; what takes a build's files is below.
INSIDE = [row for row in routes() if row[2] == "0" and row[1] != "/health" and not row[1].startswith(("/volumecontent/", "/templatefiles/"))]
OF_A_SANDBOX = [row for row in PLANE if "/sandboxes/{id}" in row[1]]


def ids_of(row):
    return f"{row[0]} {row[1]}"


def ask(daemon, method, path, body=None, client="127.0.0.1", **fields):
    """(status, text with a character for each byte, content type); client is the address that the call comes from."""
    conn = http.client.HTTPConnection("127.0.0.1", daemon.port, timeout=60, source_address=(client, 0))
    try:
        data = json.dumps(body).encode() if isinstance(body, dict) else body
        conn.request(method, path, data, {"Content-Type": "application/json", **{k.replace("_", "-"): v for k, v in fields.items() if v is not None}})
        reply = conn.getresponse()
        return reply.status, reply.read().decode("latin-1"), reply.getheader("Content-Type")
    finally:
        conn.close()


def on_plane(daemon, row, key, sandbox=UNKNOWN):
    method, path, _ = row
    path = re.sub(r"\{\w+\}", sandbox, path)
    return ask(daemon, method, path, None if method == "GET" else {}, X_API_Key=key)


def says(reply, *statuses):
    """It is an error that E2B's clients of the control plane can read."""
    status, text, kind = reply
    body = json.loads(text)
    assert kind == "application/json" and sorted(body) == ["code", "message"] and body["message"]
    assert body["code"] == status and status in statuses, text


def test_the_table_of_routes_is_read_whole():
    assert len(routes()) == TABLE.read_text().count("{HTTP_") >= 45
    assert len(PLANE) >= 21 and len(INSIDE) >= 23


@pytest.fixture(scope="module")
def refusing():
    """A daemon of its own: failed tries are counted per caller, and would lock out other tests."""
    daemon = Daemon("--pool-max", "0").start()
    try:
        yield daemon
    finally:
        daemon.stop()
        daemon.remove()


def test_without_a_key_or_with_a_wrong_one_nothing_is_told(refusing):
    statuses = set()
    for row in PLANE:
        for key in (None, "", f"e2b_{'0' * 40}", "Bearer x"):
            reply = on_plane(refusing, row, key)
            says(reply, 401, 429)
            statuses.add(reply[0])
    assert 401 in statuses


@pytest.mark.parametrize("row", [r for r in PLANE if r[2] == "write"], ids=ids_of)
def test_a_key_that_may_only_read_changes_nothing(daemon, project_keys, row):
    says(on_plane(daemon, row, project_keys["read"]), 403)


@pytest.fixture(scope="module")
def theirs(daemon):
    """A sandbox of the project default whose ports are closed, and its tokens."""
    status, text, _ = ask(daemon, "POST", "/v2/sandboxes", {"templateID": "base", "network": {"allowPublicTraffic": False}}, X_API_Key=daemon.key)
    assert status == 201, text
    made = json.loads(text)
    yield made
    assert ask(daemon, "DELETE", f"/sandboxes/{made['sandboxID']}", {}, X_API_Key=daemon.key)[0] == 204


@pytest.mark.parametrize("row", OF_A_SANDBOX, ids=ids_of)
def test_anothers_sandbox_is_answered_as_one_that_does_not_exist(daemon, project_keys, theirs, row):
    replies = [on_plane(daemon, row, project_keys["other"], sandbox) for sandbox in (theirs["sandboxID"], UNKNOWN)]
    for reply in replies:
        says(reply, 404, 400)  # 400: what a body lacks is told before its sandbox is looked for
    assert replies[0][1].replace(theirs["sandboxID"], "ID") == replies[1][1].replace(UNKNOWN, "ID")
    assert ask(daemon, "GET", f"/sandboxes/{theirs['sandboxID']}", X_API_Key=daemon.key)[0] == 200


def test_lists_hold_only_what_is_the_projects_own(daemon, project_keys, theirs):
    for path in ("/sandboxes", "/v2/sandboxes", "/snapshots"):
        assert json.loads(ask(daemon, "GET", path, X_API_Key=project_keys["other"])[1]) == []
    assert theirs["sandboxID"] in ask(daemon, "GET", "/v2/sandboxes", X_API_Key=daemon.key)[1]


def knock(daemon, row, sandbox, **fields):
    """One call to a sandbox's inside, in the framing of its kind."""
    method, path, _ = row
    port = "49999" if path.startswith(INTERPRETER) else "49983"
    is_stream = path.endswith(("/Start", "/Connect", "/StreamInput", "/WatchDir"))
    message = b'{"path": "/proc/nowhere"}'  # whoever is let in makes, watches and starts nothing
    body = None if method == "GET" else b"\0\0\0\0" + bytes([len(message)]) + message if is_stream else message
    kind = "application/connect+json" if is_stream else "application/json"
    path = re.sub(r"\{\w+\}", "python", path) + ("?path=x" if path == "/files" else "")
    return ask(daemon, method, path, body, **{"Content_Type": kind, "E2b_Sandbox_Id": sandbox, "E2b_Sandbox_Port": port, **fields})


def is_refused(row, reply):
    """In the words of its kind: an envelope that ends, an RPC's word, files' number, the interpreter's text."""
    status, text, kind = reply
    if kind == "application/connect+json":
        return status == 200 and text[0] == "\2" and json.loads(text[5:])["error"]["code"] == "unauthenticated"
    if row[1].startswith(INTERPRETER):
        return status in (401, 403) and not text.startswith("{")
    return status == 401 and json.loads(text)["code"] == (401 if row[1] == "/files" else "unauthenticated")


@pytest.mark.parametrize("row", INSIDE, ids=ids_of)
def test_nothing_but_its_own_tokens_opens_a_sandboxes_inside(daemon, project_keys, theirs, row):
    sandbox, token, traffic = theirs["sandboxID"], theirs["envdAccessToken"], theirs["trafficAccessToken"]
    wrong = [{}, {"X_API_Key": daemon.key}, {"X_API_Key": project_keys["other"]}, {"X_Access_Token": ""}, {"X_Access_Token": daemon.key},
             {"X_Access_Token": traffic, "E2B_Traffic_Access_Token": token}, {"X_Access_Token": token[:-1], "E2B_Traffic_Access_Token": traffic[:-1]}]
    for fields in wrong:
        reply = knock(daemon, row, sandbox, **fields)
        assert is_refused(row, reply), reply
    reply = knock(daemon, row, sandbox, X_Access_Token=token, E2B_Traffic_Access_Token=traffic)
    assert not is_refused(row, reply), reply  # the door is there


@pytest.fixture
def make(daemon):
    """Makes a sandbox whose ports are open to all; secured or not."""
    made = []

    def one(is_secured):
        status, text, _ = ask(daemon, "POST", "/sandboxes", {"templateID": "base", "secure": is_secured}, X_API_Key=daemon.key)
        assert status == 201, text
        made.append(json.loads(text))
        return made[-1]

    yield one
    for sandbox in made:
        ask(daemon, "DELETE", f"/sandboxes/{sandbox['sandboxID']}", {}, X_API_Key=daemon.key)


CODE = [row for row in INSIDE if row[1].startswith(INTERPRETER)]


@pytest.mark.parametrize("row", CODE, ids=ids_of)
def test_who_knows_only_the_id_of_a_secured_sandbox_runs_no_code_there(daemon, make, row):
    secured, open_to_all = make(True)["sandboxID"], make(False)["sandboxID"]
    assert is_refused(row, knock(daemon, row, secured, client="127.0.0.2"))
    assert is_refused(row, knock(daemon, row, secured, client="127.0.0.2", X_Access_Token="x", X_API_Key=daemon.key))
    assert not is_refused(row, knock(daemon, row, open_to_all, client="127.0.0.2"))  # the call is one that would do


def test_the_network_that_has_shown_the_token_may_use_contexts_without_it(daemon, make):
    made = make(True)
    run, contexts = ("POST", "/execute", "0"), ("GET", "/contexts", "0")

    def is_open(row, client, **fields):
        return not is_refused(row, knock(daemon, row, made["sandboxID"], client=client, **fields))

    assert not is_open(contexts, "127.0.0.2")
    assert is_open(run, "127.0.0.2", X_Access_Token=made["envdAccessToken"])
    assert is_open(contexts, "127.0.0.2") and not is_open(run, "127.0.0.2")
    assert not is_open(contexts, "127.0.0.3")
    assert ask(daemon, "GET", f"/sandboxes/{made['sandboxID']}", client="127.0.0.3", X_API_Key=daemon.key)[0] == 200
    assert is_open(contexts, "127.0.0.3") and not is_open(run, "127.0.0.3")


def test_files_for_a_build_come_in_once_by_their_token_and_are_their_projects_alone(daemon, project_keys):
    link = f"/templates/any/files/{'0a' * 32}"

    def asked(key):
        status, text, _ = ask(daemon, "GET", link, X_API_Key=key)
        assert status == 201, text
        return json.loads(text)

    told = asked(daemon.key)
    path = told["url"].removeprefix(daemon.url)
    assert not told["present"] and path.startswith("/templatefiles/")
    for wrong in (f"{path}x", path[:-1], "/templatefiles/x"):
        says(ask(daemon, "PUT", wrong, b"x", X_API_Key=daemon.key), 404)
    assert ask(daemon, "PUT", path, b"x")[0] == 200
    says(ask(daemon, "PUT", path, b"y"), 404)
    assert asked(daemon.key)["present"] and not asked(project_keys["other"])["present"]
    says(ask(daemon, "GET", f"/templates/any/files/..%2F{'0a' * 31}", X_API_Key=daemon.key), 400)


# What the router, the parsers of bodies and the handlers refuse: a method, a type, a target, a body, an id.
WRONG = {
    "not JSON": lambda method, path: (method, path, b"{", {}),
    "no object": lambda method, path: (method, path, b"[]", {}),
    "another type": lambda method, path: (method, path, b"x", {"Content_Type": "text/plain"}),
    "another coding": lambda method, path: (method, path, b"x", {"Content_Encoding": "br"}),
    "another method": lambda method, path: ("PUT" if method != "PUT" else "PATCH", path, b"{}", {}),
    "a longer path": lambda method, path: (method, f"{path}/nothing/of/that", b"{}", {}),
    "a broken path": lambda method, path: (method, f"{path}/%zz", b"{}", {}),
    "a broken query": lambda method, path: (method, f"{path}?%zz=1", b"{}", {}),
    "too large": lambda method, path: (method, path, b" " * 5_000_000, {}),
    "an odd id": lambda method, path: (method, path, b"{}", {}),
}


def is_readable(path, reply):
    """By the parsers of E2B's own Python client, where it has one for this."""
    status, text, kind = reply
    if status < 400 and kind == "application/connect+json":
        text, kind = json.dumps(json.loads(text[5:])["error"]), "application/json"
    elif status < 400:
        return True
    if path.startswith(INTERPRETER):
        return bool(text) and kind.startswith("text/plain")
    if kind != "application/json":
        return False
    body = json.loads(text)
    if path.startswith(("/process.", "/filesystem.")):
        return body["code"] in [one.value for one in connect_code.Code] and bool(body["message"])
    error = models.Error.from_dict(dict(body))
    return isinstance(error.code, int) and error.message == body["message"] != ""


@pytest.mark.parametrize("wrong", WRONG)
def test_whatever_is_wrong_is_told_in_a_form_that_the_client_reads(daemon, theirs, wrong):
    unread = []
    for method, path, _ in routes()[::9 if wrong == "too large" else 1]:
        fields = {"X_API_Key": daemon.key, "X_Access_Token": theirs["envdAccessToken"], "E2b_Sandbox_Id": theirs["sandboxID"],
                  "E2b_Sandbox_Port": "49999" if path.startswith(INTERPRETER) else "49983", "E2B_Traffic_Access_Token": theirs["trafficAccessToken"]}
        asked = WRONG[wrong](method, re.sub(r"\{\w+\}", "~odd~", path))
        if path.endswith(("/contexts", "/CreateWatcher")) and method == "POST" and wrong in ("no object", "an odd id"):
            continue  # nothing is wrong with that: it makes one
        try:
            reply = ask(daemon, asked[0], asked[1], None if asked[0] == "GET" and wrong == "an odd id" else asked[2], **{**fields, **asked[3]})
        except (BrokenPipeError, ConnectionResetError):
            continue  # it was told before all was sent
        if not is_readable(path, reply):
            unread.append((method, path, reply))
    assert not unread


def test_a_client_that_asks_for_what_nobody_has_is_told_so_in_its_form(daemon):
    for path in ("/iam/tokens", "/nodes", "/nothing?x=1", "/%zz"):
        for fields in ({"User_Agent": "e2b-python-sdk/2.63.0", "X_API_Key": daemon.key}, {"X_API_Key": f"e2b_{daemon.key.removeprefix('clo_')}"}):
            says(ask(daemon, "GET", path, **fields), 404, 400)
    status, text, _ = ask(daemon, "GET", "/nothing", X_API_Key=daemon.key)
    assert status == 404 and json.loads(text)["error"]["code"] == "not_found"  # anybody else is told in cloche's
