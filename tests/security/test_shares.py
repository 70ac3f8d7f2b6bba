# SPDX-License-Identifier: Apache-2.0
"""Tables and slots that all projects share (T07): one project fills each to its refusal or past its bound, and another still gets its own. The list of all of
them, with their shares, is docs/design/tenants.md."""

import contextlib
import http.client
import json
import socket

import pytest
from cloche import Client
from harness.daemon import Daemon, call
from harness.running import running

CHUNKED = "Transfer-Encoding: chunked\r\nContent-Type: application/octet-stream\r\n"


class Project:
    """A project with as many keys as it asks for."""

    def __init__(self, daemon, client, name):
        self.daemon, self.client = daemon, client
        self.id = client.create_project(name)["id"]
        self.key = self.new_key()
        self.open = []

    def new_key(self):
        return self.client.create_key("t07", scope="write", project=self.id)["secret"]

    def hold(self, method, path, fields):
        """A call that stays open: None, or the status of its refusal."""
        sock = socket.create_connection(("127.0.0.1", self.daemon.port))
        self.open.append(sock)
        sock.sendall(f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {self.key}\r\n{fields}\r\n".encode())
        sock.settimeout(1.0)
        with contextlib.suppress(TimeoutError):
            return int(sock.recv(4096).split()[1])

    def close(self):
        for sock in self.open:
            sock.close()


@pytest.fixture(scope="module")
def site():
    with running(Daemon("--pool-max", "0")) as daemon:
        yield daemon


@pytest.fixture
def projects(site, request):
    with Client(site.url, site.key) as client:
        both = [Project(site, client, f"{who}-{abs(hash(request.node.name)) % 10**8}") for who in ("greedy", "modest")]
        yield both
        for one in both:
            one.close()


def take_import(project, i):
    return project.hold("PUT", f"/v1/templates/t07-{i}/archive", CHUNKED)


def take_mcp_session(project, i):
    if i % 64 == 0:
        project.key = project.new_key()  # a key has 64 at most
    conn = http.client.HTTPConnection("127.0.0.1", project.daemon.port)
    params = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    message = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}
    conn.request("POST", "/mcp", json.dumps(message), {"Content-Type": "application/json", "Authorization": f"Bearer {project.key}"})
    reply = conn.getresponse()
    text = reply.read()
    conn.close()
    return None if reply.status == 200 and b"error" not in text[:40] else reply.status


@pytest.mark.parametrize("take, most", [(take_import, 8), (take_mcp_session, 1100)], ids=["imports", "MCP sessions"])
def test_T07_who_fills_a_table_keeps_no_other_project_out(projects, take, most):
    greedy, modest = projects
    refusal = next((status for i in range(most) if (status := take(greedy, i)) is not None), None)
    assert refusal == 429, refusal
    assert take(modest, 0) is None
    assert take(greedy, most) == 429  # it is full all the same


def link(project, number):
    status, reply = call(project.daemon, "GET", f"/templates/any/files/{number:064x}", key=project.key)
    assert status == 201
    return "/templatefiles/" + reply["url"].rpartition("/")[2]


def test_T07_who_asks_for_many_links_ends_no_other_projects(projects):
    greedy, modest = projects
    first, other = link(greedy, 0), link(modest, 0)
    for number in range(1, 300):
        link(greedy, number)
    assert call(modest.daemon, "PUT", other, b"x", key="")[0] == 200
    assert call(greedy.daemon, "PUT", first, b"x", key="")[0] == 404
