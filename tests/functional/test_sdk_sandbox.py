# SPDX-License-Identifier: Apache-2.0
"""What the Python SDK gives and takes beside the wire: results as JSON, options, snapshots as objects."""

import json
import re

import pytest


def test_a_result_is_json_as_a_person_expects_it(sandbox):
    told = json.loads(json.dumps(sandbox.run("echo out; echo err >&2; exit 3").to_dict()))
    assert (told["exit_code"], told["stdout"], told["stderr"], told["stdout_truncated"]) == (3, "out\n", "err\n", False)
    told = json.loads(json.dumps(sandbox.run_code("print('a')\n6 * 7").to_dict()))
    assert (told["status"], told["text"], told["stdout"], told["error"]) == ("ok", "42", "a\n", None)
    assert sandbox.run_code("1/0").to_dict()["error"]["name"] == "ZeroDivisionError"


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"memoryy": 512}, "no option 'memoryy'; did you mean 'memory'?"),
        ({"vcpus": 2}, "write limits={'vcpus': 2}"),
        ({"zzz": 1}, "a sandbox has no option 'zzz'"),
    ],
)
def test_an_option_that_does_not_exist_is_refused_with_the_one_that_was_meant(client, fields, words):
    with pytest.raises(TypeError, match=re.escape(words)):
        client.create(**fields)


def test_an_option_of_fork_that_does_not_exist_is_refused_with_the_one_that_was_meant(sandbox):
    with pytest.raises(TypeError, match=re.escape("fork() has no option 'timeouts'; did you mean 'timeout'?")):
        sandbox.fork(1, timeouts=5)


def test_memory_as_a_number_is_its_limit_in_mib(make_sandbox):
    assert make_sandbox(memory=96).info.limits["memory_mib"] == 96


def test_a_snapshot_is_an_object_that_others_start_from(make_sandbox, client):
    source = make_sandbox()
    source.run("echo x > a")
    saved = source.snapshot()
    try:
        assert (saved.id, saved["id"], saved.sandbox_id) == (saved.id, saved.id, source.id)
        assert make_sandbox(snapshot=saved).run("cat a").stdout == "x\n"
        assert [s.id for s in source.snapshots()] == [saved.id]
        assert source.diff(saved)["changes"] == []
    finally:
        client.delete_snapshot(saved.id)
