# SPDX-License-Identifier: Apache-2.0
"""Every route times every wrong credential (T06): another project's key, a key that may only read, one that has expired, one that is revoked while the call is
open, another project's cursor. The last column is the control: the same call with the rightful key gets none of these refusals. matrix.py has the rows.

Two projects have the same things, and a third world is of ids that nobody has: what is another's is answered as what is not there."""

import base64
import contextlib
import http.client
import itertools
import json
import re
import socket
import time

import pytest
from harness.daemon import PATIENCE, Daemon, call, wait_for
from harness.mcp import Session
from harness.running import running
from security import matrix
from security.matrix import ROWS, VERCEL, request

END_S = 10 * PATIENCE  # "never" to a test; it takes half a second
SETTLE_S = 0.5  # a request that is refused has been answered by then; one that stays open shows nothing to wait for
ROUTES = matrix.routes()
SCOPES = ("read", "write", "admin")
SHARED = {"secret_name", "secret", "project", "template_name", "open_template_name", "their_name", "drive"}  # words of a world that are no random ids
SET_UP = """
set -e
echo x >/tmp/here; cp /tmp/here /tmp/there; truncate -s 1G /tmp/big; chmod 666 /tmp/*
mkdir -p /template/bin /template/etc /template/tmp /template/root /template/home/user; chmod 1777 /template/tmp; chown 1000:1000 /template/home/user
cp /bin/busybox /template/bin/; for i in sh true sleep; do ln -s busybox /template/bin/$i; done
printf 'root:x:0:0::/root:/bin/sh\\nuser:x:1000:1000::/home/user:/bin/sh\\n' >/template/etc/passwd
"""


class World:
    """What a project has, by the words of matrix.py, and its keys by scope."""

    def __init__(self, daemon, name):
        self.daemon, self.name = daemon, name
        self.project = self.id_of("project", "POST", "/v1/projects", {"name": name}, daemon.key)
        self.keys = {scope: self.make_key(scope)["secret"] for scope in SCOPES}
        self.ids = {"project": self.project, "secret": self.keys["write"], "template_name": f"{name}-sealed", "open_template_name": f"{name}-open",
                    "their_name": f"{name}-theirs"}
        self.make()

    def ask(self, method, path, body=None, key=None, **headers):
        status, reply = call(self.daemon, method, path, body, key or self.keys["admin"], headers)
        assert status < 300, (method, path, status, reply)
        return reply

    def id_of(self, kind, *request):
        reply = self.ask(*request)
        return reply.get(kind, reply)["id"]

    def make_key(self, scope, **more):
        return self.ask("POST", "/v1/keys", {"name": scope, "scope": scope, "project": self.project, **more}, self.daemon.key)

    def make(self):
        ids = self.ids
        ids["sandbox"] = self.id_of("sandbox", "POST", "/v1/sandboxes", {"name": f"{self.name}-native", "network": matrix.POLICY})
        base = f"/v1/sandboxes/{ids['sandbox']}"
        self.ask("POST", f"{base}/execs", {"shell": SET_UP, "user": "root"})
        server = "import socket, time; s = socket.create_server(('', 3000)); c = [s.accept() for _ in range(9)]; time.sleep(1000)"
        self.ask("POST", f"{base}/execs", {"argv": ["python3", "-c", server], "detached": True})
        ids["exec"] = self.id_of("exec", "POST", f"{base}/execs", {"argv": ["/bin/sh"], "open_stdin": True, "pty": {"rows": 24, "cols": 80}, "detached": True})
        ids["context"] = self.id_of("context", "POST", f"{base}/contexts", {"language": "python"})
        self.ask("POST", f"{base}/ports", {"port": 3000})
        ids["snapshot"] = [self.id_of("snapshot", "POST", f"{base}/snapshots", {"memory": False}) for _ in range(2)][0]
        ids["template"] = [self.id_of("template", "POST", "/v1/templates", {"from": ids["sandbox"], "name": ids[name], "tree": True})
                           for name in ("template_name", "open_template_name")][0]
        ids["volume"] = self.ask("POST", "/v1/volumes", {"name": f"{self.name}-volume", "size_mib": 16})["id"]
        ids["batch"] = self.ask("POST", "/v1/sandboxes", {"tags": {"batch": f"bt_{self.name}"}})["tags"]["batch"]
        ids["reservation"] = self.ask("POST", "/v1/pool", {"count": 9, "limits": {"memory_mib": 77}, "duration_ms": 600000})["id"]  # of a size that nobody creates
        ids["ended"] = self.id_of("sandbox", "POST", "/v1/sandboxes", {"results": ["kept"]})
        self.ask("POST", f"/v1/sandboxes/{ids['ended']}/execs", {"shell": "echo x >kept"})
        self.ask("DELETE", f"/v1/sandboxes/{ids['ended']}")
        ids["build"] = self.id_of("build", "POST", "/v1/builds", {"recipe": f'name = "{self.name}-build"\nfrom = "{ids["template_name"]}"\n'})
        ids["webhook"] = self.id_of("webhook", "POST", "/v1/webhooks", {"url": "https://example.com/hook"})
        ids["secret_name"] = self.ask("PUT", f"/v1/secrets/{self.name.upper()}", {"value": "theirs"})["name"]
        ids["open_secret"] = self.ask("PUT", f"/v1/secrets/{self.name.upper()}-OPEN", {"value": "theirs"})["id"]
        ids["key"] = self.make_key("read")["key"]["id"]
        self.make_foreign()

    def make_foreign(self):
        """What clients of the other wires have."""
        ids = self.ids
        ids["open_sandbox"] = [self.ask("POST", "/v2/sandboxes", {"templateID": "base"})["sandboxID"] for _ in range(2)][0]
        ids["open_volume"] = self.ask("POST", "/volumes", {"name": f"{self.name}-open"})["volumeID"]
        asked = self.ask("POST", "/v3/templates", {"name": f"{self.name}-e2b"})
        ids["open_template"], ids["open_build"] = asked["templateID"], asked["buildID"]
        made = self.ask("POST", VERCEL, {"name": ids["their_name"], "persistent": True})
        ids["session"] = made["session"]["id"]
        ids["command"] = self.id_of("command", "POST", f"{VERCEL}/sessions/{ids['session']}/cmd", {"command": "sleep", "args": ["1000"]})
        self.ask("POST", f"{VERCEL}/sessions/{ids['session']}/cmd", {"command": "truncate", "args": ["-s", "1G", "/tmp/big"]})
        two = self.id_of("session", "POST", VERCEL, {"name": f"{self.name}-second", "persistent": True})
        ids["still"] = self.id_of("snapshot", "POST", f"{VERCEL}/sessions/{two}/snapshot", {})
        three = self.id_of("session", "POST", VERCEL, {"name": f"{self.name}-third", "persistent": True})
        self.ask("POST", f"{VERCEL}/sessions/{three}/snapshot", {})
        self.ask("POST", f"/v1/sandboxes/sb_{ids['open_sandbox']}/execs", {"shell": SET_UP, "user": "root"})
        self.tokens = self.tokens_of(self.keys["admin"])
        ids["open_context"] = self.ask("POST", "/contexts", {}, **self.shown(self.tokens["sandbox"], "49999"))["id"]
        ids["parcel"] = self.parcel_of(self.keys["admin"])
        ids["mcp"] = self.open_mcp(self.keys["admin"])
        ids["drive"] = f"{self.name}-drive"
        for name in (ids["drive"], f"{self.name}-more"):
            self.ask("POST", f"{VERCEL}/drives/{name}", {})

    def tokens_of(self, key):
        """What opens the insides of a sandbox and a volume, as a key is told it; "" if it is not."""
        status, sandbox = call(self.daemon, "GET", f"/sandboxes/{self.ids['open_sandbox']}", key=key)
        assert status == 200
        status, volume = call(self.daemon, "GET", f"/volumes/{self.ids['open_volume']}", key=key)
        return {"sandbox": sandbox.get("envdAccessToken", ""), "volume": volume["token"] if status == 200 else ""}

    def parcel_of(self, key):
        return self.ask("GET", f"/templates/x/files/{'0a' * 32}", key=key)["url"].rpartition("/")[2]

    def shown(self, token, port="49983"):
        return {"E2b-Sandbox-Id": self.ids["open_sandbox"], "E2b-Sandbox-Port": port, "X-Access-Token": token}

    def open_mcp(self, key):
        conn = http.client.HTTPConnection("127.0.0.1", self.daemon.port, timeout=60)
        params = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
        start = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}
        conn.request("POST", "/mcp", json.dumps(start), {"Content-Type": "application/json", "Authorization": f"Bearer {key}"})
        reply = conn.getresponse()
        reply.read()
        conn.close()
        return reply.getheader("Mcp-Session-Id")

    def ghost(self):
        """The same words for what nobody has."""
        return {word: f"{value}-none" if word in SHARED else re.sub(r"[a-z0-9]{26}", lambda m: m.group()[::-1], value) for word, value in self.ids.items()}

    def __contains__(self, text):
        """Whether the text tells an id of ours."""
        return any(value in text for word, value in self.ids.items() if word not in SHARED)


@pytest.fixture(scope="module")
def site():
    """A daemon of its own: its counts by route show that no route was left out."""
    with running(Daemon("--pool-min", "0", "--pool-max", "1", "--preview-domain", "matrix.test", "--identity-issuer", "https://matrix.test")) as daemon:
        yield daemon


@pytest.fixture(scope="module")
def worlds(site):
    return World(site, "mine"), World(site, "other")


ADDRESSES = (f"127.1.{a}.{b}" for a, b in itertools.product(range(1, 250), range(1, 250)))  # who is refused often is slowed down, by its address


def letter(route, key="", tokens=None):
    """The fields that let in: a key, or the tokens of a sandbox and a volume."""
    if not route.is_inside:
        return {"Authorization": f"Bearer {key}"}
    if route.path.startswith("/volumecontent"):
        return {"Authorization": f"Bearer {tokens['volume']}"}
    return {} if route.path.startswith("/templatefiles") else {"X-Access-Token": tokens["sandbox"]}


def read(reply, conn):
    """The body, or as much as comes of one that does not end."""
    data = b""
    if reply.chunked and reply.status < 300 and conn.sock:
        conn.sock.settimeout(0.5)
    with contextlib.suppress(TimeoutError):
        while part := reply.read1(65536):
            data += part
    return data


def answer(daemon, asked, fields):
    """(status, text) of a call. Of a stream whose error comes in its last message, the status is that error's."""
    method, path, own, data = asked
    conn = http.client.HTTPConnection("127.0.0.1", daemon.port, timeout=60 * PATIENCE, source_address=(next(ADDRESSES), 0))
    try:
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            conn.request(method, path, data, {**own, **fields})
        reply = conn.getresponse()
        if reply.status == 101:
            return 101, ""
        text = read(reply, conn).decode("latin-1")
    finally:
        conn.close()
    status = reply.status
    if reply.getheader("Content-Type") == "application/connect+json" and '"error"' in text:
        status = {"unauthenticated": 401, "not_found": 404}.get(re.search(r'"code":"(\w+)"', text).group(1), 400)
    return status, text + str(reply.getheader("X-Next-Token") or "")


def plain(text, ids):
    """Without what differs from call to call."""
    text = re.sub(r"req_\w+", "", text)
    for value in ids.values():
        text = text.replace(value, "ID")
    return text


def names_ids(route, row):
    words = set(re.findall(r"<(\w+)>", matrix.path_of(route) + json.dumps(str(row.body)) + row.query + str(row.fields)))
    return bool(words - {"secret"})


def has_failed(status):
    """501 is what this daemon is not set up for: no login provider."""
    return status >= 500 and status != 501


def check(wrong):
    assert not wrong, "\n".join(wrong)


def test_every_route_has_a_row_and_every_row_is_of_a_route():
    assert {route.name for route in ROUTES} == set(ROWS) and len(ROUTES) == len(ROWS)


def test_T06_what_is_another_projects_is_not_there(site, worlds):
    mine, other = worlds
    ghost, wrong = mine.ghost(), []
    for route in sorted(ROUTES, key=lambda route: route.method != "DELETE"):  # what a call makes is no other's by then
        row = ROWS[route.name]
        fields = letter(route, other.keys["admin"], other.tokens)
        status, text = answer(site, request(route, row, ghost if route.path.startswith("/templatefiles") else mine.ids), fields)
        if row.is_operators or route.is_inside or names_ids(route, row):
            expected = 403 if row.is_operators else row.refusal
            if status != expected:
                wrong.append(f"{route.name}: {status}, not {expected}: {text[:200]}")
        elif has_failed(status) or text in mine:
            wrong.append(f"{route.name}: {status} {text[:300]}")
        if not route.is_inside and row.refusal >= 400 and names_ids(route, row):
            unknown = answer(site, request(route, row, ghost), fields)
            if (unknown[0], plain(unknown[1], ghost)) != (status, plain(text, mine.ids)):
                wrong.append(f"{route.name}: {text[:200]} is not what an unknown id gets: {unknown[1][:200]}")
    check(wrong)
    base = f"/v1/sandboxes/{mine.ids['sandbox']}"
    assert mine.ask("GET", base)["state"] == "running"


def test_T06_a_key_that_may_only_read_changes_nothing_and_learns_no_token(site, worlds):
    mine, wrong = worlds[0], []
    learnt = mine.tokens_of(mine.keys["read"])
    for route in ROUTES:
        row = ROWS[route.name]
        if route.path.startswith("/templatefiles") or route.name == "GET /health":
            continue
        status, text = answer(site, request(route, row, mine.ids), letter(route, mine.keys["read"], learnt))
        refusal = 401 if route.is_inside else 403
        if (route.is_inside or route.scope in ("write", "admin")) != (status == refusal) and not row.is_operators:
            wrong.append(f"{route.name}: {status} {text[:200]}")
    check(wrong)


@pytest.fixture(scope="module")
def expired(worlds):
    """A key that was good for two seconds, and what it was given in that time."""
    mine = worlds[0]
    key = mine.make_key("admin", expires_in_ms=2000)["secret"]
    given = {**mine.tokens_of(key), "parcel": mine.parcel_of(key)}
    assert given["sandbox"] != mine.tokens["sandbox"] and given["volume"] != mine.tokens["volume"]
    wait_for(lambda: call(mine.daemon, "GET", "/v1/quota", key=key)[0] == 401, what="the key's end")
    return key, given


def test_T06_a_key_that_has_expired_opens_nothing_and_neither_do_its_tokens(site, worlds, expired):
    key, given = expired
    wrong = []
    for route in ROUTES:
        row = ROWS[route.name]
        status, text = answer(site, request(route, row, {**worlds[0].ids, "secret": key, "parcel": given["parcel"]}), letter(route, key, given))
        if status != (row.refusal if route.is_inside else 401):
            wrong.append(f"{route.name}: {status} {text[:200]}")
    check(wrong)


class Open:
    """A request that is under way: all of it was sent, or its head."""

    def __init__(self, daemon, name, asked, fields):
        method, path, own, data = asked
        fields = {"Host": "localhost", "Connection": "close", **own, **fields}
        if data is not None and "Content-Length" not in fields:
            fields["Content-Length"] = str(len(data))
        head = "".join(f"{k}: {v}\r\n" for k, v in fields.items())
        self.name, self.seen = name, b""
        self.sock = socket.create_connection(("127.0.0.1", daemon.port), timeout=END_S)
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)  # what is large does not end by itself
        self.sock.sendall(f"{method} {path} HTTP/1.1\r\n{head}\r\n".encode() + (data or b""))

    def is_open(self, reads=True):
        self.sock.settimeout(0.02)
        try:
            while reads or not self.seen:
                data = self.sock.recv(4096)
                self.seen += data[:200]
                if not data:
                    return False
        except TimeoutError:
            pass
        except OSError:
            return False
        return not re.match(rb"HTTP/1.1 [45]", self.seen)

    def close(self):
        self.sock.close()


def opened(daemon, world, key):
    """All that can be held open with a key and the tokens it was given: what streams, and what waits for its body."""
    tokens = world.tokens_of(key)
    ids = {**world.ids, "mcp": world.open_mcp(key), "parcel": world.parcel_of(key)}
    for route in ROUTES:
        row = ROWS[route.name]
        if row.is_operators:
            continue
        fields = letter(route, key, tokens)
        if row.opens:
            yield Open(daemon, route.name, request(route, row.opens, ids), fields)
        if route.body != "none" and not route.is_inside and not route.path.startswith("/v1/login/oidc/"):  # refused at once: there is no provider
            method, path, own, _ = request(route, row, ids)
            yield Open(daemon, f"{route.name}, its body", (method, path, {**own, "Content-Length": "100"}, None), fields)


def test_T06_what_is_open_by_a_key_or_its_tokens_ends_when_it_is_revoked(site, worlds):
    mine = worlds[0]
    keys = [mine.make_key("admin") for _ in range(2)]
    with contextlib.ExitStack() as stack:
        cut, kept = ([stack.enter_context(contextlib.closing(one)) for one in opened(site, mine, key["secret"])] for key in keys)
        time.sleep(SETTLE_S)
        check([f"{one.name} does not stay open: {one.seen[:300]}" for one in cut + kept if not one.is_open(reads=False)])
        mine.ask("DELETE", f"/v1/keys/{keys[0]['key']['id']}")
        deadline = time.monotonic() + END_S
        while cut and time.monotonic() < deadline:
            cut = [one for one in cut if one.is_open()]
        check([f"{one.name} goes on" for one in cut])
        check([f"{one.name} has ended with another's key: {one.seen[:300]}" for one in kept if not one.is_open(reads=False)])
        mine.ask("DELETE", f"/v1/keys/{keys[1]['key']['id']}")


def page_end(text):
    """The cursor that a page tells, as any of the wires does."""
    found = re.search(r'"(?:next_cursor|next)":"([^"]+)"', text) or re.search(r"\]([\w.-]+)$", text)
    return found and found.group(1)


def unknown_like(cursor):
    """A cursor of the same kind with an id that nobody has: two letters are swapped."""
    def swapped(text):
        return text[:-2] + text[:-3:-1]
    with contextlib.suppress(ValueError):
        text = base64.urlsafe_b64decode(cursor + "==").decode()
        if re.fullmatch(r"[a-z]+_\w{26}", text):
            return base64.urlsafe_b64encode(swapped(text).encode()).decode().rstrip("=")
    return swapped(cursor)


def test_T06_another_projects_cursor_tells_nothing(site, worlds):
    mine, other = worlds
    wrong = []
    for route in ROUTES:
        row = ROWS[route.name]
        if not row.cursor or "{" in route.path:  # of what is in a sandbox there is no page for others
            continue
        method, path, own, _ = request(route, row, mine.ids)
        path += f"{'&' if '?' in path else '?'}limit="
        cursor = "1" if row.cursor == "after" else page_end(answer(site, (method, f"{path}1", own, None), letter(route, mine.keys["admin"]))[1])
        if not cursor:
            wrong.append(f"{route.name}: a page tells no cursor")
            continue
        asked = [(method, f"{path}100&{row.cursor}={c}", own, None) for c in (cursor, cursor if row.cursor == "after" else unknown_like(cursor))]
        theirs, unknown = (answer(site, one, letter(route, other.keys["admin"])) for one in asked)
        if has_failed(theirs[0]) or theirs[1] in mine or (theirs[0], plain(theirs[1], {})) != (unknown[0], plain(unknown[1], {})):
            wrong.append(f"{route.name}: {theirs} is not {unknown}")
    check(wrong)


@pytest.fixture(scope="module")
def rightful(site, worlds):
    """What each route has answered to the rightful key. Each call says in its User-Agent which route it is about."""
    mine, answers = worlds[0], {}
    for route in sorted(ROUTES, key=lambda route: ROWS[route.name].rank):
        row = ROWS[route.name]
        fields = letter(route, site.key if row.is_operators else mine.keys["admin"], mine.tokens)
        ids = {**mine.ids, "mcp": mine.open_mcp(mine.keys["admin"])} if route.path == "/mcp" else mine.ids  # it ends with who has held it
        answers[route.name] = answer(site, request(route, row, ids), {**fields, "User-Agent": agent_of(route)})
    return answers


def agent_of(route):
    return f"matrix/{ROUTES.index(route)}"


def test_T06_the_rightful_key_is_refused_nowhere(rightful):
    wrong = []
    for route in ROUTES:
        row, (status, text) = ROWS[route.name], rightful[route.name]
        if status in {401, 403, row.refusal if row.refusal >= 400 else 404} or has_failed(status):
            wrong.append(f"{route.name}: {status} {text[:200]}")
    check(wrong)


def logged(daemon):
    """All entries of both logs, by who has called."""
    by_agent = {}
    for query in ("all=1", "all=1&audit=1"):
        status, text = call(daemon, "GET", f"/v1/events?{query}")
        assert status == 200
        for line in text.splitlines():
            entry = json.loads(line)
            by_agent.setdefault(entry.get("agent"), []).append(entry)
    return by_agent


def settled(daemon):
    """Both logs, once all that was asked for before is in them: the audit log is written a little later."""
    agent = f"matrix/settled-{time.monotonic_ns()}"
    call(daemon, "POST", "/v1/webhooks", {"url": "bad"}, headers={"User-Agent": agent})
    return wait_for(lambda: agent in (found := logged(daemon)) and found, what="the audit log")


def lacks(route, entries):
    """What the entries of one call do not tell of it; "" if they tell all."""
    is_read = route.name in matrix.READS or (route.method == "GET" and route.name not in matrix.OPENS)
    of_kind = [e for e in entries if (e["type"] == "api.read") == is_read]
    whole = [e for e in of_kind if e["key_id"] and e["request_id"] and e["from"].startswith("127.1.")]
    if not whole:
        return f"is not told as a {'read' if is_read else 'write'} with key, request and address"
    if route.is_of_sandbox and not any(e["sandbox_id"] for e in whole):
        return "is told without its sandbox"
    return ""


def test_every_write_and_every_read_of_content_is_told_with_who_and_from_where(site, rightful):
    names = {route.name for route in ROUTES}
    assert matrix.UNTOLD | matrix.READS | matrix.OPENS <= names, (matrix.UNTOLD | matrix.READS | matrix.OPENS) - names
    by_agent, wrong = settled(site), []
    for route in ROUTES:
        entries = [e for e in by_agent.get(agent_of(route), []) if e["project_id"] != "prj_builds"]  # what helps with a volume is nobody's
        what = lacks(route, entries)
        if route.name in matrix.UNTOLD:
            what = entries and "neither writes nor gives content, and is told"
        if what:
            wrong.append(f"{route.name}, which has got {rightful[route.name][0]}, {what}: {entries}")
    check(wrong)


def test_every_tool_of_mcp_is_told_with_who_where_and_in_which_sandbox(site, worlds):
    mine, wrong = worlds[1], []
    key = mine.make_key("write")
    with Session(site.url, key["secret"]) as session:
        assert {tool["name"] for tool in session.request("tools/list")["tools"]} == set(matrix.TOOLS)
        ids = {}
        for tool, arguments in matrix.TOOLS.items():
            session.http.headers["User-Agent"] = f"matrix/{tool}"
            result = session.call(tool, **json.loads(matrix.named(json.dumps(arguments), ids)))
            assert not result["isError"], (tool, result)
            if tool == "create_sandbox":
                ids["sandbox"] = re.search(r"sb_\w{26}", json.dumps(result)).group()
    by_agent = settled(site)
    for tool in matrix.TOOLS:
        is_read = tool in matrix.TOOLS_THAT_READ
        entries = by_agent.get(f"matrix/{tool}", [])
        if not any(e["key_id"] == key["key"]["id"] and e["from"] == "127.0.0.1" and (tool == "list_sandboxes" or e["sandbox_id"])
                   and (e["type"] == "api.read") == is_read for e in entries):
            wrong.append(f"{tool}: {entries}")
    check(wrong)


def test_the_daemon_has_no_route_that_was_not_tried(site, worlds):
    text = call(site, "GET", "/metrics")[1].decode()
    counted = set(re.findall(r'cloche_http_requests_total\{method="(\w+)",route="(/[^"]*)"', text))
    assert counted == {(route.method, route.path) for route in ROUTES}


def test_T06_a_terminal_of_vercels_wire_ends_with_the_key_that_asked_for_its_token(site, worlds):
    other = worlds[1]
    keys = [other.make_key("write") for _ in range(2)]
    given = [other.ask("POST", f"{VERCEL}/sessions/{other.ids['session']}/interactive", {}, key["secret"]) for key in keys]
    asked = [("GET", f"/{one['url'].split('/', 3)[3]}?token={one['token']}", matrix.WEBSOCKET, None) for one in given]
    mine, kept = (Open(site, "terminal", one, {}) for one in asked)
    with contextlib.closing(mine), contextlib.closing(kept):
        wait_for(lambda: mine.is_open() and kept.is_open() and b" 101 " in mine.seen and b" 101 " in kept.seen)
        other.ask("DELETE", f"/v1/keys/{keys[0]['key']['id']}")
        wait_for(lambda: not mine.is_open(), what="the terminal's end")
        assert kept.is_open(), kept.seen
        assert answer(site, asked[0], {})[0] == 401
