# SPDX-License-Identifier: Apache-2.0
"""A program that configures nothing has a daemon of its own, where a cloche program is at hand, for as long as it runs."""

import contextlib
import glob
import os
import shutil
import signal
import subprocess
import sys

import pytest
from cloche import _private
from cloche._protocol import DEFAULT_SOCKET
from harness.daemon import BUILD, read_text, wait_for

pytestmark = pytest.mark.skipif(os.path.exists(DEFAULT_SOCKET), reason="this host has a daemon at the usual place")

PYTHON = """
import sys
from cloche import Sandbox
with Sandbox() as sandbox:
    print(sandbox.run_code("6 * 7").text, sandbox.client._transport.endpoint, flush=True)
    sys.stdin.read()
"""


def daemons(owner):
    """Ids of processes that serve a private daemon of that process."""
    place = f"{_private.PLACE}{owner.pid}-"
    return [pid for pid in os.listdir("/proc") if pid.isdigit() and place in read_text(f"/proc/{pid}/cmdline")]


@contextlib.contextmanager
def program(*argv, cwd=None):
    env = {k: v for k, v in os.environ.items() if k not in ("CLOCHE_URL", "CLOCHE_API_KEY")}
    env["CLOCHE_PROGRAM"] = str(BUILD / "cloche")
    process = subprocess.Popen(argv, cwd=cwd, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        process.stdin.close()
        process.stdout.close()
        wait_for(lambda: not daemons(process), 60, "an end of the private daemon")


def test_a_program_without_a_daemon_has_one_of_its_own_and_leaves_nothing():
    with program(sys.executable, "-c", PYTHON) as process:
        assert process.stdout.readline().startswith(f"42 unix:{_private.PLACE}{process.pid}-")
        process.stdin.close()
        assert process.wait(60) == 0
    assert not glob.glob(f"{_private.PLACE}{process.pid}-*")


def test_a_private_daemon_ends_even_with_a_program_that_is_killed():
    with program(sys.executable, "-c", PYTHON) as process:
        assert process.stdout.readline().startswith("42 ")
        process.send_signal(signal.SIGKILL)
        process.wait()
        wait_for(lambda: not daemons(process), 60, "an end of the private daemon")
    assert glob.glob(f"{_private.PLACE}{process.pid}-*")
    _private.sweep()
    assert not glob.glob(f"{_private.PLACE}{process.pid}-*")


def test_a_program_that_may_not_run_one_is_told_where_the_daemon_was_looked_for(monkeypatch):
    monkeypatch.delenv("CLOCHE_URL", raising=False)
    monkeypatch.setattr(_private.os, "geteuid", lambda: 1000)
    endpoint, key = _private.locate()
    assert str(endpoint) == f"unix:{DEFAULT_SOCKET}" and key is None


NODE = """
import { Sandbox } from "cloche";
const sandbox = new Sandbox();
console.log((await sandbox.runCode("6 * 7")).text);
await sandbox.close();
for await (const _ of process.stdin);
"""


@pytest.mark.skipif(not shutil.which("npm"), reason="this host has no npm")
def test_a_program_in_node_has_one_too(typescript_project):
    (typescript_project / "program.mjs").write_text(NODE)
    with program("node", "program.mjs", cwd=typescript_project) as process:
        assert process.stdout.readline() == "42\n"
        process.stdin.close()
        assert process.wait(60) == 0
    assert not glob.glob(f"{_private.PLACE}{process.pid}-*")
    with program("node", "program.mjs", cwd=typescript_project) as process:
        assert process.stdout.readline() == "42\n"
    _private.sweep()
    assert not glob.glob(f"{_private.PLACE}{process.pid}-*")
