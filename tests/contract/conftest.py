# SPDX-License-Identifier: Apache-2.0
"""A client that believes nothing: every reply is held against the description."""

import http.client
import json

import pytest
from contract.description import OPERATIONS


class Checked:
    def __init__(self, daemon):
        self.daemon = daemon

    def __call__(self, operation, *, query="", body=None, headers=None, key=None, method=None, **ids):
        """One call: (status, JSON or bytes). key: None = the admin's, "" = none."""
        op = OPERATIONS[operation]
        target = op.target(**ids)
        if query:
            target = target.partition("?")[0] + "?" + query
        sent = dict(headers or {})
        secret = self.daemon.key if key is None else key
        if secret:
            sent.setdefault("Authorization", f"Bearer {secret}")
        if body is not None and not isinstance(body, bytes):
            body = json.dumps(body).encode()
        if body is not None:
            sent.setdefault("Content-Type", "application/json" if op.has_json_body else "application/octet-stream")
        source = None if secret else ("127.0.0.2", 0)  # strangers who are slowed down are no others' neighbours
        conn = http.client.HTTPConnection("127.0.0.1", self.daemon.port, timeout=60, source_address=source)
        try:
            try:
                conn.request(method or op.method, target, body=body, headers=sent)
            except (BrokenPipeError, ConnectionResetError):
                pass  # refused before it had all: the answer is there
            reply = conn.getresponse()
            data = reply.read()
        finally:
            conn.close()
        kind = reply.getheader("Content-Type")
        assert reply.getheader("X-Request-Id", "").startswith("req_")
        if method != "HEAD":
            op.check(reply.status, kind, data)
        if reply.status == 401:
            assert reply.getheader("WWW-Authenticate")
        if reply.status >= 400 and method != "HEAD":
            print(operation, reply.status, data.decode(errors="replace"))  # for whoever did not expect it
            assert json.loads(data)["error"]["request_id"] == reply.getheader("X-Request-Id")
        return reply.status, json.loads(data) if (kind or "").startswith("application/json") and data else data


@pytest.fixture(scope="session")
def api(daemon):
    return Checked(daemon)


@pytest.fixture(scope="module")
def ended(client, daemon):
    """A sandbox that has ended and is remembered."""
    sandbox = client.create()
    sandbox.delete()
    yield sandbox
    sandbox.delete()
