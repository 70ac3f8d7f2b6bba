# SPDX-License-Identifier: Apache-2.0
"""A server that ends a kept connection where a request is on its way: the request is sent once more if nobody can
tell, and never if it may have arrived."""

import json

import pytest
from harness.daemon import PATIENCE

POLICY = {"rules": [{"match": {"domains": ["allowed.test"], "methods": ["GET", "HEAD", "POST", "PUT", "DELETE"]}, "action": "allow"}]}

# Sends the requests METHOD:PATH[:BODY] on one connection, and prints their statuses; 0: none came.
SAY = """if 1:
    import http.client, sys
    kind = http.client.HTTPSConnection if sys.argv[1] == "https" else http.client.HTTPConnection
    c, statuses = kind("allowed.test", timeout=60), []
    c.connect()
    c.auto_open = 0
    for word in sys.argv[2:]:
        method, path, body = (word + "::").split(":")[:3]
        try:
            c.request(method, path, body.encode() or None)
            reply = c.getresponse()
            reply.read()
            statuses.append(reply.status)
        except (OSError, http.client.HTTPException):
            statuses.append(0)
    print(statuses)
"""


def say(box, scheme, *words):
    done = box.sandbox.run(["python3", "-S", "-c", SAY, scheme, *words], timeout=30 * PATIENCE)
    assert done.exit_code == 0, done.stderr
    return json.loads(done.stdout)


def arrived(internet, path):
    return [e["method"] for e in internet.seen("request", path=path)]


@pytest.mark.parametrize("scheme", ["http", "https"])
@pytest.mark.parametrize("end", ["close", "reset"])
def test_a_request_that_may_be_sent_twice_is_where_a_kept_connection_ends(walled, internet, scheme, end):
    box = walled(POLICY)
    path = f"/fickle/{scheme}/{end}"
    for method in ("GET", "HEAD", "DELETE"):
        assert say(box, scheme, "GET:/first", f"{method}:{path}") == [200, 200]
    assert arrived(internet, path) == ["GET", "GET", "HEAD", "HEAD", "DELETE", "DELETE"]


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_a_request_that_may_have_arrived_is_not_sent_again(walled, internet, scheme):
    box = walled(POLICY)
    for request in ("POST", "POST::body", "PUT::body"):
        method, _, body = request.partition("::")
        path = f"/fickle/{scheme}/{method}{len(body)}"
        assert say(box, scheme, "GET:/first", f"{method}:{path}:{body}") == [200, 502]
        assert arrived(internet, path) == [method]


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_what_a_new_connection_ends_with_is_told_and_not_tried_again(walled, internet, scheme):
    box = walled(POLICY)
    path = f"/fickle/{scheme}/never"
    assert say(box, scheme, f"GET:{path}") == [502]
    assert arrived(internet, path) == ["GET"]
    assert say(box, scheme, "GET:/first", f"GET:{path}") == [200, 502]  # once more, and no third time
    assert arrived(internet, path) == ["GET"] * 3


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_a_request_whose_reply_has_begun_is_not_sent_again(walled, internet, scheme):
    box = walled(POLICY)
    path = f"/fickle/{scheme}/half"
    assert say(box, scheme, "GET:/first", f"GET:{path}") == [200, 502]
    assert arrived(internet, path) == ["GET"]


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_a_connection_that_has_ended_already_is_not_used_again(walled, internet, scheme):
    box = walled(POLICY)
    path = f"/posted/{scheme}"
    assert say(box, scheme, "GET:/fickle/bye", f"POST:{path}:body") == [200, 200]
    assert [e["body"] for e in internet.seen("request", path=path)] == ["body"]
