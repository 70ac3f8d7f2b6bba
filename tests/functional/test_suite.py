# SPDX-License-Identifier: Apache-2.0
"""The suites' own promises: a crash fails the test that it happens in and no other, and a test that fails once is tried once more."""

import os
import subprocess
import sys

import pytest
from harness.daemon import BUILD, ROOT

RUN_TESTS = ROOT / "tools" / "run-tests.py"

CRASHES = """
import os, signal
from harness.daemon import wait_for

def test_before(daemon, client):
    assert client.run(code="print(1)")

def test_crash(daemon, client):
    os.kill(daemon.{part}_pid, signal.SIGSEGV)
    wait_for(lambda: False, what="something that never comes")

def test_after(daemon, client):
    assert client.run(code="print(1)")
"""

UNSTEADY = """
import os, pathlib

def test_steady():
    pass

def test_unsteady():
    seen = pathlib.Path(__file__).with_name("seen")
    is_first = not seen.exists()
    seen.touch()
    assert not is_first, "fails the first time"
"""
BROKEN = """
def test_broken():
    assert False, "fails each time"
"""


@pytest.fixture
def suite(tmp_path):
    """A function that writes a test file into a suite of its own, with the conftest of all suites."""
    (tmp_path / "conftest.py").symlink_to(ROOT / "tests" / "conftest.py")
    (tmp_path / "suite").mkdir()

    def write(text):
        (tmp_path / "suite" / "test_it.py").write_text(text)
        return tmp_path / "suite"

    return write


@pytest.mark.slow
@pytest.mark.parametrize("part", ["broker", "gateway"])
def test_a_crash_fails_the_test_it_happens_in_and_the_next_has_a_new_daemon(suite, part):
    path = suite(CRASHES.format(part=part))
    env = {**os.environ, "CLOCHE_FAILED_TESTS": ""}
    argv = [sys.executable, "-m", "pytest", "-q", "-c", ROOT / "tests" / "pytest.ini", "--rootdir", path.parent, "-o", f"pythonpath={ROOT / 'tests'}", path]
    done = subprocess.run(argv, capture_output=True, text=True, cwd=path.parent, env=env, timeout=300)
    failed = {line.split(" - ")[0] for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))}
    assert failed == {"FAILED suite/test_it.py::test_crash", "ERROR suite/test_it.py::test_crash"}, done.stdout
    assert f"crashed: {part}" in done.stdout and "daemon.child_died" in done.stdout
    assert "2 passed, 1 failed" in done.stdout or "1 failed, 2 passed" in done.stdout, done.stdout


def run_all(path):
    """What the runner says of a suite, and its exit status."""
    env = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST_")}  # it is nobody's worker
    done = subprocess.run([sys.executable, RUN_TESTS, "--build", BUILD, "--path", path], capture_output=True, text=True, env=env, timeout=300)
    return done.stdout.splitlines(), done.returncode


@pytest.mark.slow
def test_what_fails_once_is_tried_alone_at_the_end_and_listed_as_unsteady(suite):
    lines, status = run_all(suite(UNSTEADY))
    assert lines[-1] == "2 passed, 0 failed, 0 skipped" and status == 0, lines
    assert any("test_it::test_unsteady" in line for line in lines[lines.index("Unsteady (failed, then passed alone; repair these first):"):]), lines


@pytest.mark.slow
def test_what_fails_twice_has_failed(suite):
    lines, status = run_all(suite(UNSTEADY + BROKEN))
    assert lines[-1] == "2 passed, 1 failed, 0 skipped" and status == 1, lines
