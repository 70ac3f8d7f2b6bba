# SPDX-License-Identifier: Apache-2.0
"""A project that searches for what is another's."""

import json
from urllib.parse import urlencode

import pytest
from cloche import Client
from harness.daemon import call, wait_for


def find(daemon, key, **query):
    status, data = call(daemon, "GET", "/v1/events?" + urlencode(query), key=key)
    assert status == 200, data
    return data.decode()


@pytest.fixture(scope="module")
def marked(daemon):
    """What an admin of `default` has done, for itself and for another project: {word: value} to search by, and the other's key."""
    mark = "marked-9f41"
    with Client(daemon.url, daemon.key) as client:
        client.create_project(mark)
        theirs = client.create_key("theirs", scope="admin", project=mark)["secret"]
        key = client.create_key(mark, scope="admin")
        with Client(daemon.url, key["secret"]) as admin, admin.create() as box:
            box.files.write(f"/tmp/{mark}", b"1")
            made = admin.create_key("for them", project=mark)["key"]["id"]  # told in their log, with the id of a key of ours
            wait_for(lambda: mark in find(daemon, daemon.key, audit=1, text=mark), 10, "the audit log")
            entry = json.loads(find(daemon, daemon.key, audit=1, text=f"/tmp/{mark}", newest=1).splitlines()[0])
            yield {"who": mark, "text": f"/tmp/{mark}", "request": entry["request_id"], "sandbox": box.id, "address": entry["from"]}, theirs, made
        client.revoke_key(key["key"]["id"])
        client.revoke_key(made, project=mark)
        client.delete_project(mark)


@pytest.mark.parametrize("audit", [0, 1])
@pytest.mark.parametrize("newest", [0, 1])
def test_T16_no_search_finds_what_is_another_projects(daemon, marked, audit, newest):
    words, theirs, _ = marked
    way = {"audit": audit, "newest": newest}
    for query in ({"text": words["text"]}, {"text": words["request"]}, {"text": words["sandbox"]}, {"sandbox_id": words["sandbox"]}, {"since": 1, "text": words["sandbox"]}):
        assert find(daemon, theirs, **query, **way) == ""
    for query in ({"address": words["address"]}, {"address": "0.0.0.0/0"}, {"since": 1}, {"until": 2**31}, {"text": "a"}):
        found = [json.loads(line) for line in find(daemon, theirs, **query, **way).splitlines()]
        assert len({e["project_id"] for e in found}) <= 1 and words["sandbox"] not in json.dumps(found)
    for more in ({"before": 2**62, "newest": 1}, {"after": 0}):
        assert words["sandbox"] not in find(daemon, theirs, **{**way, **more}, since=1)
    # The positive control: to whom it belongs, the same words find it.
    for query in ({"text": words["sandbox"]}, {"who": words["who"]}, {"address": words["address"], "text": words["sandbox"]}):
        assert words["sandbox"] in find(daemon, daemon.key, **query, **way)


def test_T16_the_name_of_anothers_key_finds_nothing_even_where_that_key_worked_for_both(daemon, marked):
    words, theirs, made = marked
    assert find(daemon, theirs, who=words["who"]) == ""
    (entry,) = [json.loads(line) for line in find(daemon, theirs, text=made).splitlines()]
    assert made in find(daemon, theirs, who=entry["key_id"])  # by its id, which the entry tells
    assert made in find(daemon, daemon.key, who=words["who"], all=1)  # the positive control
    for query in ({"all": 1, "who": words["who"]}, {"all": 1, "text": "a", "newest": 1}):
        assert call(daemon, "GET", "/v1/events?" + urlencode(query), key=theirs)[0] == 403
