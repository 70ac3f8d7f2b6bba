# SPDX-License-Identifier: Apache-2.0
"""E2B's published client in sandboxes of either engine: what it does inside one is the same."""

import os
from queue import Queue

import pytest

e2b = pytest.importorskip("e2b")
interpreter = pytest.importorskip("e2b_code_interpreter")
ENGINE = os.environ.get("CLOCHE_ENGINE", "jail")


@pytest.fixture
def box(daemon, sandbox):
    """A sandbox of the engine as their client finds it by its id."""
    settings = {"api_url": daemon.url, "sandbox_url": daemon.url, "api_key": f"e2b_{daemon.key.removeprefix('clo_')}"}
    return interpreter.Sandbox.connect(sandbox.id.removeprefix("sb_"), timeout=600, request_timeout=150, **settings)


@pytest.mark.vm
def test_commands_run_take_input_and_end(box):
    assert box.commands.run("whoami; echo $A", envs={"A": "1"}).stdout == "user\n1\n"
    assert (box.commands.run("uname -r").stdout.strip() == os.uname().release) == (ENGINE == "jail")
    handle = box.commands.run("cat", background=True, stdin=True)
    box.commands.send_stdin(handle.pid, "typed")
    box.commands.close_stdin(handle.pid)
    assert handle.wait().stdout == "typed"
    assert box.commands.kill(999999) is False


@pytest.mark.vm
def test_files_are_written_read_and_watched(box):
    box.files.make_dir("w")
    watch = box.files.watch_dir("w")
    assert box.files.write("w/a.txt", "ö").path == "/home/user/w/a.txt"
    assert [e.type.value for e in watch.get_new_events()] == ["create", "chmod", "write"]
    watch.stop()
    assert box.files.read("w/a.txt") == "ö" and [e.name for e in box.files.list("w")] == ["a.txt"]
    assert box.files.get_info("w/a.txt").owner == "user"


@pytest.mark.vm
def test_a_terminal_is_typed_into(box):
    heard = Queue()
    terminal = box.pty.create(e2b.PtySize(rows=24, cols=80), timeout=0)
    box.pty.send_stdin(terminal.pid, b"echo $((40 + 2)); exit 7\n")
    with pytest.raises(e2b.CommandExitException) as ended:
        terminal.wait(on_pty=heard.put)
    assert ended.value.exit_code == 7
    assert b"42" in b"".join(heard.get_nowait() for _ in range(heard.qsize()))


def test_code_keeps_its_state_and_tells_errors(box):
    assert box.run_code("x = 20; x + 1").text == "21"
    assert box.run_code("print(x)").logs.stdout == ["20\n"]
    assert box.run_code("no_such_name").error.name == "NameError"
