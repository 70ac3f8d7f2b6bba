# SPDX-License-Identifier: Apache-2.0
"""MCP as its messages are, for tests that look at the wire: over HTTP in both eras, and over `cloche mcp`."""

import http.client
import itertools
import json
import subprocess

import httpx

MODERN = "2026-07-28"
LEGACY = "2025-11-25"
META = {"io.modelcontextprotocol/protocolVersion": MODERN, "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"}}


class Peer:
    """What all have: requests by method, calls by tool."""

    def request(self, method, **params):
        reply = self.send(method, params)
        assert "error" not in reply, reply
        return reply["result"]

    def error(self, method, **params):
        return self.send(method, params)["error"]["code"]

    def call(self, tool, **arguments):
        return self.request("tools/call", name=tool, arguments=arguments)


def call(peer, tool, error=False, **arguments):
    """The text of a call's result."""
    result = peer.call(tool, **arguments)
    assert result["isError"] == error, result
    return "".join(block.get("text", "") for block in result["content"])


class Http(Peer):
    def __init__(self, url, key, query=""):
        self.url, self.key = url + "/mcp" + query, key
        self.parked = []
        self.http = httpx.Client(headers={"Authorization": f"Bearer {key}", "Accept": "application/json, text/event-stream"}, timeout=60)
        self.ids = itertools.count(1)

    def post(self, message, **headers):
        return self.http.post(self.url, json={"jsonrpc": "2.0", **message}, headers=headers)

    def again(self):
        """Another of the same."""
        return type(self)(self.url[: -len("/mcp")], self.key)

    def begin(self, method, params):
        """A request that nobody waits for, on a connection of its own; its id."""
        body, url = self.body(method, params), httpx.URL(self.url)
        connection = http.client.HTTPConnection(url.host, url.port, timeout=60)
        headers = {**self.http.headers, "Content-Type": "application/json", **self.headers(method, params)}
        connection.request("POST", url.raw_path.decode(), json.dumps({"jsonrpc": "2.0", **body}), headers)
        self.parked.append(connection)
        return body["id"]

    def drop(self):
        """Closes what begin() opened."""
        while self.parked:
            self.parked.pop().close()

    def send(self, method, params):
        return self.post(self.body(method, params), **self.headers(method, params)).json()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.drop()
        self.http.close()


class Session(Http):
    """The older era: initialize, then a session id with everything."""

    def __enter__(self):
        reply = self.post({"id": 0, "method": "initialize",
                           "params": {"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}})
        assert reply.status_code == 200, reply.text
        self.id = self.http.headers["Mcp-Session-Id"] = reply.headers["Mcp-Session-Id"]
        self.initialized = reply.json()["result"]
        assert self.post({"method": "notifications/initialized"}).status_code == 202
        return self

    def __exit__(self, *_):
        self.end()
        super().__exit__()

    def end(self):
        return self.http.delete(self.url).status_code

    def headers(self, method, params):
        return {}

    def body(self, method, params):
        return {"id": next(self.ids), "method": method, "params": params}

    def notify(self, method, **params):
        assert self.post({"method": method, "params": params}).status_code == 202


class Stateless(Http):
    """The newer era: each request says all there is to know."""

    def headers(self, method, params):
        return {"MCP-Protocol-Version": MODERN, "Mcp-Method": method, **({"Mcp-Name": params["name"]} if method == "tools/call" else {})}

    def body(self, method, params):
        return {"id": next(self.ids), "method": method, "params": {**params, "_meta": {**META, **params.get("_meta", {})}}}


class Stdio(Peer):
    """A client of `cloche mcp`."""

    def __init__(self, cli, *words, modern=False):
        self.cli, self.words, self.meta = cli, words, META if modern else None
        self.ids = itertools.count(1)

    def __enter__(self):
        self.process = self.cli.start("mcp", *self.words, stdin=subprocess.PIPE, text=True)
        if not self.meta:
            self.initialized = self.request("initialize", protocolVersion=LEGACY, capabilities={}, clientInfo={"name": "t", "version": "1"})
            self.notify("notifications/initialized")
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        self.status = self.process.wait(60)
        self.process.stdout.close()
        self.process.stderr.close()

    def write(self, message):
        self.process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        self.process.stdin.flush()

    def read(self):
        return json.loads(self.process.stdout.readline())

    def notify(self, method, **params):
        self.write({"method": method, "params": params})

    def begin(self, method, params):
        id = next(self.ids)
        self.write({"id": id, "method": method, "params": {**params, **({"_meta": self.meta} if self.meta else {})}})
        return id

    def send(self, method, params):
        id = self.begin(method, params)
        reply = self.read()
        assert reply["id"] == id, reply
        return reply
