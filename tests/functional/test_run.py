# SPDX-License-Identifier: Apache-2.0
"""POST /v1/run: one call, a fresh sandbox, a result, nothing left."""

import json
import socket

import pytest
from cloche import errors
from cloche._protocol import request
from harness.daemon import wait_for


@pytest.mark.parametrize("language, program, code, out", [
    ("python", "python3", "print(6*7)", "42\n"),
    ("bash", "bash", "echo $((6*7))", "42\n"),
    ("javascript", "node", "console.log(6*7)", "42\n"),
    ("r", "Rscript", "cat(6*7, fill = TRUE)", "42\n"),
    ("java", "jshell", "System.out.println(6*7);", "42\n"),
])
def test_code_runs_in_its_language(client, sandbox, language, program, code, out):
    if sandbox.run(["which", program]).exit_code != 0:
        pytest.skip(f"the template has no {program}")
    r = client.run(code=code, language=language)
    assert (r.stdout, r.status, r.context.language) == (out, "ok", language)


def test_code_gives_its_value_or_its_error(client):
    assert client.run(code="x = 6\nx * 7").text == "42"
    r = client.run(code="1/0")
    assert (r.status, r.error.name) == ("error", "ZeroDivisionError")
    r = client.run(code="import sys; sys.exit(3)")
    assert (r.status, r.exit_code) == ("exit", 3)


def test_files_env_user_and_cwd_reach_the_code(client):
    code = "import os; os.environ['A'], os.getuid(), os.getcwd(), open('f').read()"
    r = client.run(code=code, env={"A": "1"}, user="root", cwd="/tmp", files=[{"path": "/tmp/f", "text": "t"}])
    assert r.text == "('1', 0, '/tmp', 't')"


def test_code_that_is_over_its_time_is_told(client):
    r = client.run(code="while True: pass", timeout=0.5)
    assert (r.status, r.cause) == ("error", "timeout")


def test_code_can_be_streamed(client):
    got = []
    r = client.run(code="print('a'); 6*7", on_stdout=got.append)
    assert ("".join(got), r.text) == ("a\n", "42")


def test_the_language_is_python_unless_told(client):
    assert client.run(code="print(6*7)").stdout == "42\n"


def test_a_line_and_an_argv_run_too(client):
    assert client.run("echo $((1+1)); exit 3").exit_code == 3
    assert client.run(["printf", "%s", "$HOME"]).stdout == "$HOME"


def test_nothing_is_left_after_the_answer(client):
    before = client.health()["sandboxes"]
    client.run("sleep 1000 & true")
    assert client.health()["sandboxes"] == before


def test_files_are_there_before_the_command(client):
    files = [{"path": "data.txt", "text": "b\na\n"}, {"path": "deep/er/x.sh", "base64": "ZWNobyB4Cg==", "mode": "0755"}]
    assert client.run("sort data.txt; deep/er/x.sh", files=files).stdout == "a\nb\nx\n"


def test_stdin_env_user_and_cwd_reach_the_command(client):
    r = client.run("cat; echo $A; id -u; pwd", stdin="in\n", env={"A": "1"}, user="root", cwd="/tmp")
    assert r.stdout == "in\n1\n0\n/tmp\n"


def test_a_timeout_ends_it_with_its_cause(client):
    r = client.run("echo begun; sleep 1000", timeout=1)
    assert (r.stdout, r.cause) == ("begun\n", "timeout")


def test_output_can_be_streamed(client):
    got = []
    r = client.run("echo a; echo b >&2", on_stdout=got.append)
    assert ("".join(got), r.stderr, r.exit_code) == ("a\n", "b\n", 0)


@pytest.mark.parametrize("what", [{"command": "echo up; sleep 1000"}, {"code": "print('up', flush=True)\nwhile True: pass"}])
def test_a_client_that_leaves_ends_it(client, daemon, what):
    before = client.health()["sandboxes"]
    body = json.dumps(what).encode()
    head = f"POST /v1/run HTTP/1.1\r\nHost: localhost\r\nX-API-Key: {daemon.key}\r\nAccept: application/x-ndjson\r\n"
    head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    with socket.create_connection(("127.0.0.1", daemon.port), timeout=60) as s:
        s.sendall(head.encode() + body)
        seen = b""
        while b"up" not in seen:
            seen += s.recv(4096)
        assert client.health()["sandboxes"] == before + 1
    wait_for(lambda: client.health()["sandboxes"] == before, 20, "the end of the sandbox")


@pytest.mark.parametrize("fields", [{}, {"command": "a", "code": "b"}, {"argv": ["a"], "code": "b"}, {"command": "a", "argv": ["b"]}])
def test_exactly_one_thing_is_run(client, fields):
    with pytest.raises((errors.InvalidField, errors.BadRequest)):
        client.call(request("POST", ["run"], body=fields))


def test_a_program_that_does_not_exist_is_a_typed_error_and_leaves_nothing(client):
    before = client.health()["sandboxes"]
    with pytest.raises(errors.ClocheError) as e:
        client.run(["/no/such/program"])
    assert e.value.code in ("file_not_found", "invalid_field")
    wait_for(lambda: client.health()["sandboxes"] == before, 20, "the end of the sandbox")


@pytest.mark.parametrize("what, last", [({"command": "echo"}, b'"exited"'), ({"code": "1"}, b'"done"')])
def test_a_client_that_leaves_with_its_result_before_the_end_harms_nobody(client, daemon, what, last):
    gateway = daemon.gateway_pid
    body = json.dumps(what).encode()
    head = f"POST /v1/run HTTP/1.1\r\nHost: localhost\r\nX-API-Key: {daemon.key}\r\nAccept: application/x-ndjson\r\n"
    head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    for _ in range(5):
        with socket.create_connection(("127.0.0.1", daemon.port), timeout=60) as s:
            s.sendall(head.encode() + body)
            seen = b""
            while last not in seen:
                seen += s.recv(4096)
    wait_for(lambda: client.health()["sandboxes"] == 0, 20, "the end of the sandboxes")
    assert daemon.gateway_pid == gateway
