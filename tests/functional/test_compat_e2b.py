# SPDX-License-Identifier: Apache-2.0
"""E2B's wire as bytes: status codes and bodies that its clients decide by. tests/compat drives the clients themselves."""

import http.client
import json

import pytest
from cloche import errors


def ask(daemon, method, path, body=None, headers=None, key=None):
    """Status, fields and body, the latter parsed where it is JSON."""
    connection = http.client.HTTPConnection("127.0.0.1", daemon.port, timeout=30)
    fields = {"X-API-Key": daemon.key if key is None else key, **(headers or {})}
    data = body if isinstance(body, (bytes, type(None))) else json.dumps(body).encode()
    if data is not None:
        fields.setdefault("Content-Type", "application/json")
    try:
        connection.request(method, path, data, {name: value for name, value in fields.items() if value})
        reply = connection.getresponse()
        text = reply.read()
        is_json = reply.headers.get("Content-Type", "").startswith("application/json")
        return reply.status, reply.headers, json.loads(text) if is_json else text
    finally:
        connection.close()


def test_a_sandbox_is_killed_once(daemon, client):
    sandbox = client.create()
    path = f"/sandboxes/{sandbox.id.removeprefix('sb_')}"
    status, fields, body = ask(daemon, "DELETE", path)
    assert (status, body) == (204, b"")
    status, fields, body = ask(daemon, "DELETE", path)
    assert (status, body["code"]) == (404, 404)
    assert "not found" in body["message"]
    with pytest.raises(errors.GoneError):
        sandbox.run("true")


def test_without_a_key_the_control_plane_says_so_in_its_own_words(daemon):
    status, _, body = ask(daemon, "DELETE", "/sandboxes/" + "a" * 26, key="")
    assert (status, body["code"]) == (401, 401)
    assert sorted(body) == ["code", "message"]
