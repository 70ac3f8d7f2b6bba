# SPDX-License-Identifier: Apache-2.0
"""Every route of the daemon, and how it is called: the rows of the matrix in test_matrix.py.

The routes themselves are read from the program's tables (each `struct http_route` array in src). ROWS says how each of them is called so that it finds what it
looks for: a word in angle brackets stands for an id of the world that the test has made. A route without a row fails the test."""

import json
import re
from dataclasses import dataclass, field

from harness.daemon import ROOT

ROUTE = re.compile(r'\{HTTP_(\w+),\s*((?:"[^"]*"|\w+|\s)+),\s*(\w+),\s*HTTP_BODY_(\w+),\s*(\w+)')
WEBSOCKET = {"Upgrade": "websocket", "Connection": "Upgrade", "Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA=="}
LONG = ["sleep", "1000"]
VERCEL = "/vercel/api/v2/sandboxes"


@dataclass(frozen=True)
class Route:
    method: str
    path: str
    body: str  # none, json, stream, coded
    scope: str  # "", read, write, admin

    @property
    def name(self):
        return f"{self.method} {self.path}"

    @property
    def wire(self):
        return "vercel" if self.path.startswith("/vercel/") else "native" if self.path.startswith(("/v1/", "/metrics", "/mcp", "/.well-known")) else "e2b"

    @property
    def is_of_sandbox(self):
        """It is about one sandbox, which is there."""
        return re.match(r"/v1/sandboxes/\{id\}|(/v2)?/sandboxes/\{id\}|.*\{session_id\}|/(process|filesystem)\.|/files$|/execute|/contexts", self.path) is not None

    @property
    def is_inside(self):
        """A sandbox's own token lets in, and no key."""
        return self.wire == "e2b" and not self.scope


def routes():
    """All rows of all tables, in the order of the files."""
    found = []
    for file in sorted((ROOT / "src").rglob("*.c")):
        text = file.read_text()
        if not re.search(r"static const struct http_route \w+\[\]", text):
            continue
        macros = {}

        def expand(words):
            return "".join(w.strip('"') if w.startswith('"') else macros[w] for w in re.findall(r'"[^"]*"|\w+', words))

        for name, words in re.findall(r'#define (\w+)\s+(.*".*)', text):
            macros[name] = expand(words)
        rows = [Route(method, expand(words), body.lower(), scope.removeprefix("SCOPE_").lower().replace("0", ""))
                for method, words, _, body, scope in ROUTE.findall(text)]
        assert len(rows) == text.count("{HTTP_"), file
        found += rows
    return found


@dataclass(frozen=True)
class Row:
    body: object = None
    query: str = ""
    fields: dict = field(default_factory=dict)
    is_operators: bool = False  # only for the operator, an admin of the project default: others get 403
    refusal: int = 404  # of an id that is not the caller's
    cursor: str = ""  # the parameter of a list that goes on from a page before
    opens: object = None  # None: it answers at once. Else what differs where it stays open: a Row
    is_stream: bool = False  # a Connect stream
    rank: int = 0  # of the calls with the rightful key, in their order: those that end something come last


def upload(query="", **fields):
    """A body that does not end."""
    return Row(query=query, fields={"Transfer-Encoding": "chunked", **fields})


def inside(body=None, **more):
    """Of envd or of the interpreter: whose token it is, is asked before what is named."""
    return Row(body=body, refusal=401, **more)


PARAMS = {  # by the path's beginning: the word of each {param}
    "/v1/": {"id": "<sandbox>", "exec_id": "<exec>", "context_id": "<context>", "port": "3000", "snapshot": "<snapshot>", "volume": "<volume>", "batch": "<batch>", "reservation": "<reservation>",
             "template": "<template>", "build_id": "<build>", "webhook_id": "<webhook>", "secret": "<secret_name>", "key_id": "<key>", "project_id": "<project>"},
    "/v1/sandboxes/{id}/results": {"id": "<ended>"},
    "/vercel/": {"name": "<their_name>", "session_id": "<session>", "command_id": "<command>", "snapshot_id": "<still>", "drive": "<drive>"},
    "/volume": {"id": "<open_volume>"},
    "/templatefiles": {"token": "<parcel>"},
    "/contexts": {"context_id": "<open_context>"},
    "/templates": {"id": "<open_template_name>", "alias": "<template_name>", "hash": "0a" * 32, "build_id": "<open_build>", "tag": "default"},
    "/secrets": {"secret_id": "<open_secret>"},
    "/v2/templates/{id}/builds": {"id": "<open_template>", "build_id": "<open_build>"},
    "/v2/templates": {"id": "<open_template_name>"},
    "": {"id": "<open_sandbox>"},
}
MCP = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "exec", "arguments": {"command": "sleep 1000"}}}
HOLD = {"Mcp-Session-Id": "<mcp>", "Cloche-Hold-Session": "1"}
POLICY = {"allow": ["api.example.com"], "identity": {"audiences": ["matrix"]}}

NATIVE = {
    "GET /v1/health": Row(),
    "GET /v1/ready": Row(),
    "GET /v1/figures": Row(),
    "GET /v1/doctor": Row(is_operators=True),
    "GET /v1/settings": Row(is_operators=True),
    "GET /v1/nodes": Row(is_operators=True),
    "GET /v1/login": Row(),
    "POST /v1/login": Row({"key": "<secret>"}, fields={"X-Cloche-Dashboard": "1"}),
    "DELETE /v1/login": Row(fields={"X-Cloche-Dashboard": "1"}),
    "PATCH /v1/login": Row({"project": "default"}, fields={"X-Cloche-Dashboard": "1"}),
    "POST /v1/login/links": Row(),
    "GET /v1/login/oidc/start": Row(),
    "GET /v1/login/oidc/callback": Row(),
    "POST /v1/login/oidc/logout": Row(),
    "POST /v1/login/device": Row(),
    "POST /v1/login/device/poll": Row({"device": "a"}),
    "POST /v1/sandboxes": Row({"snapshot": "<snapshot>"}, refusal=400),
    "POST /v1/sandboxes:batch": Row({"count": 1, "snapshot": "<snapshot>"}, refusal=400),
    "DELETE /v1/batches/{batch}": Row(rank=9),
    "GET /v1/creates": Row(),
    "POST /v1/pool": Row({"count": 1, "duration_ms": 600000}),
    "GET /v1/pool": Row(),
    "GET /v1/pool/{reservation}": Row(),
    "DELETE /v1/pool/{reservation}": Row(rank=9),
    "GET /v1/sandboxes/{id}/results": Row(query="path=kept"),
    "GET /v1/sandboxes": Row(cursor="cursor"),
    "GET /v1/sandboxes/{id}": Row(),
    "PATCH /v1/sandboxes/{id}": Row({"timeout_ms": 3600000}),
    "DELETE /v1/sandboxes/{id}": Row(rank=9),
    "POST /v1/sandboxes/{id}/pause": Row({}, rank=6),
    "POST /v1/sandboxes/{id}/resume": Row({}, rank=7),
    "POST /v1/sandboxes/{id}/stop": Row(rank=8),
    "POST /v1/sandboxes/{id}/extend": Row({"ms": 1000}),
    "POST /v1/sandboxes/{id}/snapshots": Row({"memory": False}),
    "POST /v1/sandboxes/{id}/fork": Row({"memory": False}),
    "POST /v1/sandboxes/{id}/rollback": Row({"snapshot": "<snapshot>"}, rank=5),
    "GET /v1/sandboxes/{id}/tree": Row(),
    "GET /v1/snapshots": Row(cursor="cursor"),
    "GET /v1/snapshots/{snapshot}": Row(),
    "PATCH /v1/snapshots/{snapshot}": Row({"expires_in_ms": 0}),
    "DELETE /v1/snapshots/{snapshot}": Row(rank=8),
    "GET /v1/snapshots/{snapshot}/archive": Row(),
    "PUT /v1/snapshots/{snapshot}/archive": Row(b"none", opens=upload()),
    "GET /v1/snapshots/{snapshot}/tree": Row(),
    "GET /v1/volumes": Row(),
    "POST /v1/volumes": Row({"name": "matrix-new", "size_mib": 16}),
    "GET /v1/volumes/{volume}": Row(),
    "DELETE /v1/volumes/{volume}": Row(rank=8),
    "GET /v1/diff": Row(query="from=<snapshot>&to=<sandbox>"),
    "POST /v1/sandboxes/{id}/apply": Row({"from": "<snapshot>"}),
    "GET /v1/sandboxes/{id}/usage": Row(),
    "GET /v1/sandboxes/{id}/usage/samples": Row(),
    "GET /v1/sandboxes/{id}/network": Row(),
    "PUT /v1/sandboxes/{id}/network": Row({"policy": POLICY}),
    "POST /v1/sandboxes/{id}/network/allow": Row({"host": "api.example.com", "port": 443}),
    "POST /v1/sandboxes/{id}/network/explain": Row({"url": "https://api.example.com/"}),
    "GET /v1/sandboxes/{id}/network/decisions": Row(cursor="cursor"),
    "GET /v1/sandboxes/{id}/network/suggestion": Row(),
    "POST /v1/sandboxes/{id}/execs": Row({"argv": ["true"]}, opens=Row({"argv": LONG})),
    "GET /v1/sandboxes/{id}/execs": Row(),
    "GET /v1/sandboxes/{id}/execs/{exec_id}": Row(),
    "DELETE /v1/sandboxes/{id}/execs/{exec_id}": Row(rank=4),
    "GET /v1/sandboxes/{id}/execs/{exec_id}/output": Row(opens=Row(query="follow=true")),
    "GET /v1/sandboxes/{id}/execs/{exec_id}/wait": Row(query="timeout_ms=1", opens=Row()),
    "POST /v1/sandboxes/{id}/execs/{exec_id}/stdin": Row(b"true\n", opens=upload()),
    "POST /v1/sandboxes/{id}/execs/{exec_id}/signal": Row({"signal": "CONT"}),
    "POST /v1/sandboxes/{id}/execs/{exec_id}/resize": Row({"rows": 24, "cols": 80}),
    "GET /v1/sandboxes/{id}/execs/{exec_id}/attach": Row(opens=Row(fields=WEBSOCKET)),
    "POST /v1/sandboxes/{id}/code": Row({"code": "1"}, opens=Row({"code": "import time; time.sleep(1000)", "context": "<context>"})),
    "POST /v1/sandboxes/{id}/contexts": Row({"language": "python"}),
    "GET /v1/sandboxes/{id}/contexts": Row(),
    "GET /v1/sandboxes/{id}/contexts/{context_id}": Row(),
    "DELETE /v1/sandboxes/{id}/contexts/{context_id}": Row(rank=4),
    "POST /v1/sandboxes/{id}/contexts/{context_id}/restart": Row(),
    "POST /v1/sandboxes/{id}/contexts/{context_id}/interrupt": Row(),
    "GET /v1/sandboxes/{id}/ports": Row(),
    "POST /v1/sandboxes/{id}/ports": Row({"port": 3001}),
    "GET /v1/sandboxes/{id}/ports/{port}/tcp": Row(opens=Row(fields=WEBSOCKET)),
    "DELETE /v1/sandboxes/{id}/ports/{port}": Row(rank=4),
    "GET /v1/sandboxes/{id}/files": Row(query="path=/tmp/here", opens=Row(query="path=/tmp/big")),
    "PUT /v1/sandboxes/{id}/files": Row(b"x", query="path=/tmp/new", opens=upload("path=/tmp/up")),
    "DELETE /v1/sandboxes/{id}/files": Row(query="path=/tmp/here", rank=4),
    "GET /v1/sandboxes/{id}/files/stat": Row(query="path=/tmp/here"),
    "GET /v1/sandboxes/{id}/files/exists": Row(query="path=/tmp/here"),
    "GET /v1/sandboxes/{id}/files/list": Row(query="path=/tmp"),
    "POST /v1/sandboxes/{id}/files/mkdir": Row({"path": "/tmp/made"}),
    "POST /v1/sandboxes/{id}/files/move": Row({"path": "/tmp/there", "to": "/tmp/there"}),
    "POST /v1/sandboxes/{id}/files/copy": Row({"path": "/tmp/here", "to": "/tmp/copy"}),
    "POST /v1/sandboxes/{id}/files/chmod": Row({"path": "/tmp/here", "mode": "0644", "user": "root"}),
    "POST /v1/sandboxes/{id}/files/chown": Row({"path": "/tmp/here", "owner": "user:user", "user": "root"}),
    "POST /v1/sandboxes/{id}/files/symlink": Row({"path": "/tmp/link", "target": "here"}),
    "GET /v1/sandboxes/{id}/files/tar": Row(query="path=/tmp/here", opens=Row(query="path=/tmp/big")),
    "PUT /v1/sandboxes/{id}/files/tar": Row(bytes(1024), query="path=/tmp", opens=upload("path=/tmp")),
    "GET /v1/sandboxes/{id}/files/watch": Row(query="path=/tmp", opens=Row(query="path=/tmp")),
    "POST /v1/run": Row({"argv": ["true"], "snapshot": "<snapshot>"}, refusal=400, opens=Row({"argv": LONG})),
    "GET /v1/templates": Row(),
    "POST /v1/templates": Row({"from": "<sandbox>", "name": "matrix-sealed", "tree": True}),
    "GET /v1/templates/{template}": Row(),
    "DELETE /v1/templates/{template}": Row(rank=8),
    "GET /v1/templates/{template}/archive": Row(),
    "PUT /v1/templates/{template}/archive": Row(b"none", opens=upload()),
    "POST /v1/templates/{template}/pull": Row({"ref": "127.0.0.1:9/team/app:1"}, refusal=403),
    "GET /v1/builds": Row(),
    "PUT /v1/builds/files": Row(b"none", opens=upload()),
    "POST /v1/builds": Row({"recipe": 'name = "matrix-build"\nfrom = "<template_name>"\n'}, refusal=202),  # it fails when it begins
    "GET /v1/builds/{build_id}": Row(),
    "DELETE /v1/builds/{build_id}": Row(rank=4),
    "GET /v1/builds/{build_id}/events": Row(),
    "POST /v1/backups": Row(is_operators=True),
    "GET /v1/usage": Row(query="group_by=sandbox", cursor="cursor"),
    "GET /v1/history": Row(query="scope=sandbox&id=<sandbox>"),
    "GET /v1/history/running": Row(query="at_us=9000000000000000", cursor="cursor"),
    "GET /metrics": Row(is_operators=True),
    "GET /v1/events": Row(cursor="after", opens=Row(query="follow=true")),
    "GET /v1/events/head": Row(),
    "GET /v1/events/seals": Row(),
    "GET /v1/quota": Row(),
    "GET /v1/projects/{project_id}/quota": Row(is_operators=True),
    "PUT /v1/projects/{project_id}/quota": Row({}, is_operators=True),
    "GET /v1/keys/{key_id}/quota": Row(),
    "PUT /v1/keys/{key_id}/quota": Row({}),
    "GET /v1/secrets": Row(),
    "GET /v1/secrets/{secret}": Row(),
    "PUT /v1/secrets/{secret}": Row({"value": "matrix"}, refusal=201),  # a name that another project has is free in one's own
    "DELETE /v1/secrets/{secret}": Row(rank=8),
    "GET /.well-known/openid-configuration": Row(),
    "GET /.well-known/jwks.json": Row(),
    "GET /v1/authority": Row(),
    "GET /v1/identity": Row(),
    "POST /v1/identity/rotate": Row({}, is_operators=True),
    "POST /v1/sandboxes/{id}/identity-token": Row({"audience": "matrix"}),
    "GET /v1/webhooks": Row(),
    "POST /v1/webhooks": Row({"url": "https://example.com/new"}),
    "GET /v1/webhooks/{webhook_id}": Row(),
    "PATCH /v1/webhooks/{webhook_id}": Row({"types": "sandbox.ended"}),
    "DELETE /v1/webhooks/{webhook_id}": Row(rank=8),
    "GET /v1/keys": Row(),
    "POST /v1/keys": Row({"name": "matrix"}),
    "DELETE /v1/keys/{key_id}": Row(rank=8),
    "GET /v1/projects": Row(is_operators=True),
    "POST /v1/projects": Row({"name": "matrix-more"}, is_operators=True),
    "DELETE /v1/projects/{project_id}": Row(is_operators=True, rank=9),
    "POST /mcp": Row({"jsonrpc": "2.0", "id": 1, "method": "ping"}, fields={"Mcp-Session-Id": "<mcp>"}, opens=Row(MCP, fields={"Mcp-Session-Id": "<mcp>"})),
    "GET /mcp": Row(fields=HOLD, opens=Row(fields=HOLD)),
    "DELETE /mcp": Row(fields={"Mcp-Session-Id": "<mcp>"}, rank=4),
}

PROCESS = {"process": {"selector": {"pid": 1}}}
FILE = {"path": "/tmp/here"}
E2B = {
    "POST /sandboxes": Row({"templateID": "<template_name>"}),
    "POST /v2/sandboxes": Row({"templateID": "<template_name>"}),
    "GET /sandboxes": Row(),
    "GET /v2/sandboxes": Row(cursor="nextToken"),
    "GET /sandboxes/{id}": Row(),
    "DELETE /sandboxes/{id}": Row({}, rank=9),
    "POST /sandboxes/{id}/connect": Row({"timeout": 600}),
    "POST /v2/sandboxes/{id}/connect": Row({"timeout": 600}),
    "POST /sandboxes/{id}/resume": Row({"timeout": 600}, rank=7),
    "POST /sandboxes/{id}/pause": Row({}, rank=6),
    "POST /sandboxes/{id}/timeout": Row({"timeout": 600}),
    "POST /sandboxes/{id}/refreshes": Row({"duration": 60}),
    "PUT /sandboxes/{id}/network": Row({"allowOut": ["1.1.1.1"]}),
    "GET /sandboxes/metrics": Row(query="sandbox_ids=none"),
    "GET /sandboxes/{id}/logs": Row(),
    "GET /v2/sandboxes/{id}/logs": Row(),
    "GET /sandboxes/{id}/metrics": Row(),
    "POST /sandboxes/{id}/snapshots": Row({}, rank=-1),
    "POST /sandboxes/{id}/fork": Row({}, rank=-1),
    "GET /snapshots": Row(cursor="nextToken"),
    "GET /templates": Row(),
    "GET /v2/templates": Row(),
    "GET /default-templates": Row(),
    "PATCH /templates/{id}": Row({}),
    "PATCH /v2/templates/{id}": Row({}),
    "GET /templates/aliases/{alias}": Row(),
    "DELETE /templates/tags": Row({"name": "<template_name>", "tags": ["t"]}, rank=4),
    "DELETE /templates/{id}": Row({}, rank=9),
    "POST /v3/templates": Row({"name": "matrix-e2b"}),
    "POST /v2/templates": Row({"alias": "matrix-e2b"}),
    "GET /templates/{id}/files/{hash}": Row(refusal=201),  # a link of the caller's own, whatever the template
    "PUT /templatefiles/{token}": Row(b"x", refusal=404, opens=upload()),
    "POST /v2/templates/{id}/builds/{build_id}": Row({"fromTemplate": "<template_name>"}, refusal=400),  # an id is a wish, and nobody's
    "GET /templates/{id}/builds/{build_id}/status": Row(),
    "GET /templates/{id}/tags": Row(),
    "GET /templates/{id}/tags/count": Row(),
    "GET /templates/{id}/tags/exists": Row(query="tag=t"),
    "GET /templates/{id}/tags/groups": Row(),
    "GET /templates/{id}/tags/{tag}/assignments": Row(),
    "POST /templates/tags": Row({"target": "<template_name>", "tags": ["t"]}),
    "POST /secrets": Row({"name": "MATRIX-E2B", "value": "x"}),
    "GET /secrets": Row(),
    "GET /secrets/{secret_id}": Row(),
    "POST /secrets/{secret_id}": Row({"value": "x"}),
    "DELETE /secrets/{secret_id}": Row({}, rank=9),
    "POST /volumes": Row({"name": "matrix-e2b"}),
    "GET /volumes": Row(),
    "GET /volumes/{id}": Row(),
    "DELETE /volumes/{id}": Row({}, rank=9),
    "GET /volumecontent/{id}/dir": inside(query="path=/"),
    "POST /volumecontent/{id}/dir": inside({}, query="path=/made"),
    "GET /volumecontent/{id}/path": inside(query="path=/"),
    "PATCH /volumecontent/{id}/path": inside({"mode": 493}, query="path=/made", rank=1),
    "DELETE /volumecontent/{id}/path": inside({}, query="path=/made", rank=4),
    "GET /volumecontent/{id}/file": inside(query="path=/file", rank=1),
    "PUT /volumecontent/{id}/file": inside(b"x", query="path=/file", opens=upload("path=/up")),
    "POST /process.Process/Start": inside({"process": {"cmd": "true", "args": []}}, is_stream=True,
                                          opens=Row({"process": {"cmd": "sleep", "args": ["1000"]}}, is_stream=True)),
    "POST /process.Process/Connect": inside(PROCESS, is_stream=True),
    "POST /process.Process/List": inside({}),
    "POST /process.Process/SendInput": inside({**PROCESS, "input": {"stdin": ""}}),
    "POST /process.Process/StreamInput": inside({"start": PROCESS}, is_stream=True),
    "POST /process.Process/CloseStdin": inside(PROCESS),
    "POST /process.Process/SendSignal": inside({**PROCESS, "signal": "SIGNAL_SIGTERM"}),
    "POST /process.Process/Update": inside(PROCESS),
    "POST /filesystem.Filesystem/Stat": inside(FILE),
    "POST /filesystem.Filesystem/ListDir": inside({"path": "/tmp"}),
    "POST /filesystem.Filesystem/MakeDir": inside({"path": "/tmp/matrix"}),
    "POST /filesystem.Filesystem/Move": inside({"source": "/tmp/here", "destination": "/tmp/here"}),
    "POST /filesystem.Filesystem/Remove": inside({"path": "/tmp/matrix"}, rank=4),
    "POST /filesystem.Filesystem/WatchDir": inside({"path": "/tmp/nowhere"}, is_stream=True, opens=Row({"path": "/tmp"}, is_stream=True)),
    "POST /filesystem.Filesystem/CreateWatcher": inside({"path": "/tmp"}),
    "POST /filesystem.Filesystem/GetWatcherEvents": inside({"watcherId": "none"}),
    "POST /filesystem.Filesystem/RemoveWatcher": inside({"watcherId": "none"}),
    "GET /files": inside(query="path=/tmp/here", opens=Row(query="path=/tmp/big")),
    "POST /files": inside(b"x", query="path=/tmp/new", fields={"Content-Type": "application/octet-stream"},
                          opens=upload("path=/tmp/up", **{"Content-Type": "application/octet-stream"})),
    "GET /health": Row(refusal=204),  # whether it runs is told to who knows its id
    "POST /execute": inside({"code": "1"}, opens=Row({"code": "import time; time.sleep(1000)"})),
    "POST /contexts": inside({}),
    "GET /contexts": inside(),
    "POST /contexts/{context_id}/restart": inside({}),
    "DELETE /contexts/{context_id}": inside({}, rank=4),
}

SESSION = f"{VERCEL}/sessions/{{session_id}}"
THEIRS = {
    "POST /vercel/api/v3/sandboxes": Row({"source": {"type": "snapshot", "snapshotId": "<still>"}, "persistent": False}, refusal=410),
    f"POST {VERCEL}": Row({"source": {"type": "snapshot", "snapshotId": "<still>"}, "persistent": False}, refusal=410),
    f"GET {VERCEL}": Row(cursor="cursor"),
    f"GET {VERCEL}/sessions": Row(cursor="cursor"),
    f"GET {SESSION}": Row(),
    f"POST {SESSION}/cmd": Row({"command": "true"}, opens=Row({"command": "sleep", "args": ["1000"], "wait": True})),
    f"GET {SESSION}/cmd": Row(),
    f"GET {SESSION}/cmd/{{command_id}}": Row(opens=Row(query="wait=true")),
    f"GET {SESSION}/cmd/{{command_id}}/logs": Row(opens=Row()),
    f"POST {SESSION}/cmd/{{command_id}}/kill": Row({"signal": 15}, rank=4),
    f"POST {SESSION}/cmd/{{command_id}}/stdin": Row({}),
    f"POST {SESSION}/fs/write": Row(b"none", fields={"Content-Type": "application/gzip", "X-Cwd": "/tmp"},
                                    opens=upload(**{"Content-Type": "application/gzip", "X-Cwd": "/tmp"})),
    f"POST {SESSION}/fs/read": Row({"path": "/etc/hostname"}, opens=Row({"path": "/tmp/big"})),
    f"POST {SESSION}/fs/mkdir": Row({"path": "/tmp/matrix"}),
    f"POST {SESSION}/stop": Row({}, rank=7),
    f"POST {SESSION}/extend-timeout": Row({"duration": 1000}),
    f"POST {SESSION}/network-policy": Row({"mode": "deny-all"}),
    f"POST {SESSION}/snapshot": Row({}, rank=6),
    f"POST {SESSION}/interactive": Row({}),
    f"GET {VERCEL}/snapshots": Row(cursor="cursor"),
    f"GET {VERCEL}/snapshots/tree": Row(query="snapshotId=<still>"),
    f"GET {VERCEL}/snapshots/{{snapshot_id}}": Row(),
    f"DELETE {VERCEL}/snapshots/{{snapshot_id}}": Row(rank=9),
    f"GET {VERCEL}/drives": Row(cursor="cursor"),
    f"POST {VERCEL}/drives/{{drive}}": Row({}, refusal=201),  # one of the caller's own of that name
    f"GET {VERCEL}/drives/{{drive}}": Row(),
    f"POST {VERCEL}/drives/{{drive}}/fork": Row({"name": "fork-of-matrix"}, refusal=201),  # likewise
    f"DELETE {VERCEL}/drives/{{drive}}": Row(rank=9),
    f"GET {VERCEL}/{{name}}": Row(),
    f"PATCH {VERCEL}/{{name}}": Row({"timeout": 600000}),
    f"DELETE {VERCEL}/{{name}}": Row(rank=9),
    f"POST {VERCEL}/{{name}}/fork": Row({}, rank=5),
}
ROWS = {**NATIVE, **E2B, **THEIRS}

# Some reads of content are a POST, and some GETs open a way to write. All other GETs that are told give out content.
READS = {"POST /process.Process/Connect", f"POST {SESSION}/fs/read"}
OPENS = {"GET /v1/sandboxes/{id}/execs/{exec_id}/attach", "GET /v1/sandboxes/{id}/ports/{port}/tcp", "GET /templates/{id}/files/{hash}", "GET /volumes/{id}"}

# Those that neither change something nor give out what is in a sandbox, a volume, an archive or a log: no log tells who has called them. Each has to be named here,
# so a new route is told until somebody decides otherwise.
UNTOLD = set("""
GET /v1/health, GET /v1/ready, GET /v1/figures, GET /v1/doctor, GET /v1/settings, GET /v1/nodes, GET /metrics, GET /v1/usage, GET /v1/history, GET /v1/history/running,
GET /v1/events, GET /v1/events/head, GET /v1/events/seals, GET /v1/quota, GET /v1/projects/{project_id}/quota, GET /v1/keys/{key_id}/quota,
GET /v1/login, GET /v1/login/oidc/start, GET /v1/login/oidc/callback,
GET /v1/creates, GET /v1/pool, GET /v1/pool/{reservation}, GET /v1/sandboxes, GET /v1/sandboxes/{id}, GET /v1/sandboxes/{id}/tree, GET /v1/sandboxes/{id}/usage, GET /v1/sandboxes/{id}/usage/samples,
GET /v1/sandboxes/{id}/network, GET /v1/sandboxes/{id}/network/decisions, GET /v1/sandboxes/{id}/network/suggestion, POST /v1/sandboxes/{id}/network/explain,
GET /v1/sandboxes/{id}/execs, GET /v1/sandboxes/{id}/execs/{exec_id}, GET /v1/sandboxes/{id}/execs/{exec_id}/wait,
GET /v1/sandboxes/{id}/contexts, GET /v1/sandboxes/{id}/contexts/{context_id}, GET /v1/sandboxes/{id}/ports,
GET /v1/sandboxes/{id}/files/stat, GET /v1/sandboxes/{id}/files/exists, GET /v1/sandboxes/{id}/files/list, GET /v1/sandboxes/{id}/files/watch,
GET /v1/snapshots, GET /v1/snapshots/{snapshot}, GET /v1/snapshots/{snapshot}/tree, GET /v1/volumes, GET /v1/volumes/{volume},
GET /v1/templates, GET /v1/templates/{template}, GET /v1/builds, GET /v1/builds/{build_id}, GET /v1/secrets, GET /v1/secrets/{secret},
GET /.well-known/openid-configuration, GET /.well-known/jwks.json, GET /v1/authority, GET /v1/identity, GET /v1/webhooks, GET /v1/webhooks/{webhook_id}, GET /v1/keys, GET /v1/projects,
GET /mcp, POST /mcp,
GET /sandboxes, GET /v2/sandboxes, GET /sandboxes/metrics, GET /sandboxes/{id}, GET /sandboxes/{id}/metrics, GET /snapshots,
GET /templates, GET /v2/templates, GET /default-templates, GET /templates/aliases/{alias}, GET /templates/{id}/tags, GET /templates/{id}/tags/count,
GET /templates/{id}/tags/exists, GET /templates/{id}/tags/groups, GET /templates/{id}/tags/{tag}/assignments, GET /secrets, GET /secrets/{secret_id}, GET /volumes,
GET /volumecontent/{id}/dir, GET /volumecontent/{id}/path, GET /health, GET /contexts,
POST /process.Process/List, POST /filesystem.Filesystem/Stat, POST /filesystem.Filesystem/ListDir, POST /filesystem.Filesystem/WatchDir,
POST /filesystem.Filesystem/CreateWatcher, POST /filesystem.Filesystem/GetWatcherEvents, POST /filesystem.Filesystem/RemoveWatcher,
GET /vercel/api/v2/sandboxes, GET /vercel/api/v2/sandboxes/sessions, GET /vercel/api/v2/sandboxes/sessions/{session_id},
GET /vercel/api/v2/sandboxes/sessions/{session_id}/cmd, GET /vercel/api/v2/sandboxes/sessions/{session_id}/cmd/{command_id},
GET /vercel/api/v2/sandboxes/snapshots, GET /vercel/api/v2/sandboxes/snapshots/tree, GET /vercel/api/v2/sandboxes/snapshots/{snapshot_id},
GET /vercel/api/v2/sandboxes/drives, GET /vercel/api/v2/sandboxes/drives/{drive}, GET /vercel/api/v2/sandboxes/{name}
""".replace("\n", " ").strip().split(", "))

TOOLS = {  # every tool of MCP and how it is called, in an order that works; all of them are told
    "create_sandbox": {}, "list_sandboxes": {}, "exec": {"command": "true"}, "run_code": {"code": "1"}, "write_file": {"path": "/tmp/here", "content": "x"},
    "read_file": {"path": "/tmp/here"}, "list_files": {"path": "/tmp"}, "open_port": {"port": 3000}, "snapshot_sandbox": {}, "fork_sandbox": {"memory": False},
    "close_sandbox": {"sandbox_id": "<sandbox>"},
}
TOOLS_THAT_READ = {"list_sandboxes", "read_file", "list_files"}


def named(text, world):
    """Words in angle brackets are ids of that world."""
    return re.sub(r"<(\w+)>", lambda m: world[m.group(1)], text)


def path_of(route):
    """With a word for each {param}."""
    words = next(words for start, words in PARAMS.items() if route.path.startswith(start))
    if route.method == "PUT" and route.path.endswith("/archive") or route.path.endswith("/pull"):  # the name of what is to be made, of the caller's own
        words = {"snapshot": "matrix-import", "template": "matrix-import"}
    return re.sub(r"\{(\w+)\}", lambda m: words[m.group(1)], route.path)


def request(route, row, world):
    """(method, target, fields, data) of a call about that world; without what lets in."""
    path = named(path_of(route) + (f"?{row.query}" if row.query else ""), world)
    fields = {k: named(v, world) for k, v in row.fields.items()}
    data = row.body
    if isinstance(data, dict):
        data = named(json.dumps(data), world).encode()
        fields.setdefault("Content-Type", "application/connect+json" if row.is_stream else "application/json")
        if row.is_stream:
            data = b"\0" + len(data).to_bytes(4, "big") + data
    elif data is not None:
        fields.setdefault("Content-Type", "application/octet-stream")
    if route.is_inside and not route.path.startswith(("/volumecontent", "/templatefiles")):
        port = "49999" if route.path.startswith(("/execute", "/contexts")) else "49983"
        fields |= {"E2b-Sandbox-Id": world["open_sandbox"], "E2b-Sandbox-Port": port}
    return route.method, path, fields, data
