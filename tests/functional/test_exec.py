# SPDX-License-Identifier: Apache-2.0
"""A command in a sandbox: what goes in, what comes out, how it ended."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from cloche import errors
from harness.daemon import call, wait_for

pytestmark = pytest.mark.neutral


def test_the_exit_code_is_the_commands_own(sandbox):
    assert sandbox.run("exit 3").exit_code == 3
    assert sandbox.run(["true"]).exit_code == 0
    assert sandbox.run(["false"]).exit_code == 1


@pytest.mark.vm
def test_stdout_and_stderr_are_kept_apart(sandbox):
    r = sandbox.run("echo out; echo err >&2")
    assert (r.stdout, r.stderr) == ("out\n", "err\n")


def test_an_argv_is_seen_by_no_shell(sandbox):
    assert sandbox.run(["printf", "%s|", "$HOME", "*", "a b", "", ";"]).stdout == "$HOME|*|a b||;|"


def test_a_line_is_run_by_the_shell(sandbox):
    assert sandbox.run("printf '%s' \"$((6*7))\" | tr 4 5").stdout == "52"


def test_the_default_user_and_home_are_those_of_user(sandbox):
    r = sandbox.run('id -u; id -g; id -un; pwd; echo "$HOME $USER $LOGNAME $LANG"')
    assert r.stdout == "1000\n1000\nuser\n/home/user\n/home/user user user C.UTF-8\n"


def test_a_command_runs_as_the_user_asked_for(sandbox):
    assert sandbox.run('id -u; echo "$HOME"', user="root").stdout == "0\n/root\n"
    assert sandbox.run(["id", "-u"], user="1000").stdout == "1000\n"
    assert sandbox.run(["id", "-u"], user="12345").stdout == "12345\n"


def test_a_command_runs_in_the_directory_asked_for(sandbox):
    assert sandbox.run(["pwd"], cwd="/tmp").stdout == "/tmp\n"


def test_the_environment_is_added_to_the_defaults(make_sandbox):
    sandbox = make_sandbox(env={"FROM_SANDBOX": "1", "BOTH": "sandbox"})
    r = sandbox.run('echo "$FROM_SANDBOX $BOTH $FROM_EXEC"; command -v ls', env={"BOTH": "exec", "FROM_EXEC": "ä=\n"})
    assert r.stdout.startswith("1 exec ä=\n")
    assert r.stdout.rstrip().endswith("/ls")


def test_an_environment_value_may_hold_any_text(sandbox):
    value = 'a"b\\c\n\t=$`ü🎈'
    assert sandbox.run(["printenv", "X"], env={"X": value}).stdout == value + "\n"


def test_a_missing_program_is_a_typed_error(sandbox):
    with pytest.raises(errors.ClocheError) as e:
        sandbox.run(["/no/such/program"])
    assert e.value.code in ("file_not_found", "invalid_field")
    assert "/no/such/program" in e.value.message or e.value.field == "argv"


def test_a_missing_directory_is_a_typed_error(sandbox):
    with pytest.raises(errors.ClocheError) as e:
        sandbox.run(["true"], cwd="/no/such/dir")
    assert e.value.code in ("file_not_found", "invalid_field")
    assert "cwd" in (e.value.field or e.value.message) or "/no/such/dir" in e.value.message


def test_a_directory_that_is_a_file_is_a_typed_error(sandbox):
    with pytest.raises(errors.ClocheError) as e:
        sandbox.run(["true"], cwd="/etc/passwd")
    assert e.value.code in ("file_invalid", "invalid_field", "file_not_found")


def test_a_missing_user_is_a_typed_error(sandbox):
    with pytest.raises(errors.ClocheError) as e:
        sandbox.run(["true"], user="nobody-of-that-name")
    assert e.value.code in ("invalid_field", "not_found", "file_not_found")
    assert e.value.field == "user" or "nobody-of-that-name" in e.value.message


def test_a_program_that_may_not_be_run_is_a_typed_error(sandbox):
    sandbox.files.write("plain.txt", b"not a program", mode=0o644)
    with pytest.raises(errors.ClocheError) as e:
        sandbox.run(["/home/user/plain.txt"])
    assert e.value.code in ("file_denied", "file_invalid")


def test_every_byte_of_binary_output_comes_through(sandbox):
    every = bytes(range(256)) * 5
    r = sandbox.run(["python3", "-c", "import sys; sys.stdout.buffer.write(bytes(range(256))*5)"])
    assert r.stdout_bytes == every


def test_utf8_that_is_cut_between_two_writes_stays_text(sandbox):
    code = "import os,time\nfor b in 'aü🎈z'.encode(): os.write(1, bytes([b]))"
    got = []
    r = sandbox.run(["python3", "-c", code], on_stdout=got.append)
    assert r.exit_code == 0
    assert "".join(got) == "aü🎈z"


def test_invalid_utf8_comes_through_a_stream_exactly(sandbox):
    got = []
    sandbox.run(["printf", r"\377\376ok\303\050\355\240\200\000end"], on_stdout=got.append, text=False)
    assert b"".join(got) == b"\xff\xfeok\xc3\x28\xed\xa0\x80\x00end"


def test_text_stdin_is_given_and_closed(sandbox):
    assert sandbox.run(["cat"], stdin="hä\n").stdout == "hä\n"
    assert sandbox.run(["wc", "-c"], stdin=b"\x00\xff\x00").stdout.strip() == "3"


def test_without_stdin_a_reader_sees_the_end_at_once(sandbox):
    assert sandbox.run(["cat"]).stdout == ""


def test_a_large_stdin_passes_whole(sandbox):
    data = bytes(i % 251 for i in range(700_000))
    assert sandbox.run(["cat"], stdin=data).stdout_bytes == data


def test_callbacks_get_output_while_the_command_runs(sandbox):
    sandbox.run(["mkfifo", "/tmp/gate"])
    seen = []

    def open_the_gate(data):
        seen.append(data)
        if len(seen) == 1:
            sandbox.run("echo go > /tmp/gate")

    r = sandbox.run("echo first; read x < /tmp/gate; echo $x", on_stdout=open_the_gate, timeout=30)
    assert (r.exit_code, "".join(seen)) == (0, "first\ngo\n")


def test_a_sync_exec_with_more_output_than_it_carries_says_so(sandbox):
    r = sandbox.run("head -c 6000000 /dev/zero | tr '\\0' x; echo END")
    assert r.stdout_truncated
    assert r.stdout.endswith("xEND\n")
    assert not r.stderr_truncated


def test_an_exec_tells_its_usage_and_times(sandbox):
    raw = sandbox.run("python3 -c 'sum(range(3000000))'").exec.raw
    assert raw["started_us"] >= raw["created_us"] > 0
    assert raw["ended_us"] >= raw["started_us"]
    assert raw["usage"]


def test_execs_are_listed_newest_first_and_can_be_forgotten(sandbox):
    first = sandbox.run(["true"]).exec.id
    second = sandbox.run(["true"]).exec.id
    assert [e.id for e in sandbox.execs()] == [second, first]
    sandbox.exec(first).delete()
    assert [e.id for e in sandbox.execs()] == [second]
    with pytest.raises(errors.NotFound):
        sandbox.exec(first)


@pytest.mark.vm
def test_many_execs_at_once_in_one_sandbox_do_not_mix(sandbox):
    with ThreadPoolExecutor(20) as pool:
        results = list(pool.map(lambda i: sandbox.run(f"for k in 1 2 3; do echo {i}; done"), range(40)))
    assert [r.stdout for r in results] == [f"{i}\n" * 3 for i in range(40)]


def test_many_sandboxes_run_commands_at_once(client, engine, template):
    many = 8 if engine == "vm" else 50

    def one(i):
        with client.create(engine=engine, template=template) as sandbox:
            return sandbox.run(f"echo {i}; hostname").stdout.split()[0]

    with ThreadPoolExecutor(many) as pool:
        assert list(pool.map(one, range(many))) == [str(i) for i in range(many)]


@pytest.mark.parametrize("field, wish", [("cwd", {"cwd": "/none"}), ("user", {"user": "nobody-here"})])
def test_an_exec_that_never_ran_names_the_field(client, daemon, sandbox, field, wish):
    status, reply = call(daemon, "POST", f"/v1/sandboxes/{sandbox.id}/execs", {"argv": ["true"], **wish})
    ended = wait_for(lambda: [e for e in call(daemon, "GET", f"/v1/sandboxes/{sandbox.id}/execs")[1]["execs"] if e["error"]], what="the exec to fail")
    assert ended[0]["error"]["field"] == field and status in (201, 202, 404, 400, 403), reply
