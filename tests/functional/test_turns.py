# SPDX-License-Identifier: Apache-2.0
"""No turn of an event loop is long, whatever one client or guest sends. The test of it is the fixture `turns_are_short`, which looks at the daemon's log after each test."""

import base64
import os

import pytest
from harness.daemon import call

pytestmark = pytest.mark.turns

MIB = 1024 * 1024


@pytest.mark.parametrize("text", ["\x01" * (MIB // 2), "\n" * MIB, "é" * (MIB // 2), "a" * MIB], ids=["escaped", "lines", "accents", "plain"])
def test_stdin_of_the_most_that_a_body_takes_is_read_in_a_short_turn(sandbox, text):
    assert sandbox.run(["wc", "-c"], stdin=text).stdout == f"{len(text.encode())}\n"


def test_binary_stdin_of_the_most_that_a_body_takes_is_read_in_a_short_turn(daemon, sandbox):
    data = base64.b64encode(os.urandom(MIB)).decode()
    status, reply = call(daemon, "POST", f"/v1/sandboxes/{sandbox.id}/execs", {"argv": ["wc", "-c"], "stdin_base64": data})
    assert (status, reply["stdout"]) == (200, f"{MIB}\n")


def test_files_of_the_most_that_a_run_takes_are_read_in_a_short_turn(daemon, engine, template):
    files = [{"path": f"/tmp/{name}", "text": "x\n" * (MIB // 2)} for name in "ab"]
    body = {"argv": ["wc", "-c", "/tmp/a"], "engine": engine, "template": template, "files": files}
    status, reply = call(daemon, "POST", "/v1/run", body, timeout=60)
    assert (status, reply["stdout"]) == (200, f"{MIB} /tmp/a\n")


@pytest.mark.parametrize("value", [0, [], {}, ""], ids=["numbers", "arrays", "objects", "strings"])
def test_a_body_of_a_million_values_is_refused_in_a_short_turn(daemon, sandbox, value):
    status, reply = call(daemon, "POST", f"/v1/sandboxes/{sandbox.id}/execs", {"argv": [value] * (MIB - 16)})
    assert (status, reply["error"]["code"]) == (413, "too_large")
    assert reply["error"]["message"] == "the JSON may have up to 65536 values"


def test_a_sandbox_with_many_files_is_removed_in_short_turns(make_sandbox):
    sandbox = make_sandbox()
    assert sandbox.run_code("for i in range(40000):\n    open(f'/tmp/{i}', 'w').close()").error is None
    sandbox.delete()


@pytest.mark.parametrize("byte", ["\\xff", "\\n"], ids=["binary", "lines"])
def test_the_most_output_of_a_code_call_is_told_in_short_turns(sandbox, byte):
    code = f"import sys\nfor out in sys.stdout, sys.stderr:\n    out.buffer.write(b'{byte}' * {4 * MIB})\nNone"
    result = sandbox.run_code(code)
    assert (len(result.stdout), len(result.stderr)) == (4 * MIB, 4 * MIB)
