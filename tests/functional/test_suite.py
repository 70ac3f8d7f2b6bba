# SPDX-License-Identifier: Apache-2.0
"""The suites' own promises: a crash fails the test that it happens in and no other, a test that fails once is tried once more, and a pytest that dies leaves
no test behind that nobody has run."""

import os
import subprocess
import sys

import pytest
from harness.daemon import BUILD, PATIENCE, ROOT

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

# A line as the loop writes it (tests/unit/test-loop.c), with more CPU time than the slowest host takes for 50 ms of work.
LONG_TURNS = """
import json
import pytest

def tell(daemon):
    turn = {"level": "warn", "program": "gateway", "event": "loop.long_turn", "cpu_us": 10**9, "callback": "http/server.c:on_io"}
    with open(daemon.log_path, "a") as log:
        log.write(json.dumps(turn, separators=(",", ":")) + "\\n")

def test_one(daemon):
    tell(daemon)

@pytest.mark.turns
def test_one_that_is_the_subject(daemon):
    tell(daemon)

def test_two(daemon):
    tell(daemon)
    tell(daemon)

def test_none(daemon):
    pass
"""

# pytest's own fault, while it writes a failure down.
DIES = """
import pathlib

def die(times):
    seen = pathlib.Path(__file__).with_name("died")
    with seen.open("a") as file:
        file.write(".")
    return seen.stat().st_size <= times
"""
CONFTEST_DIES = """
def pytest_runtest_makereport(item, call):
    if call.when == "call" and item.name == "test_dies":
        if item.module.die(item.module.TIMES):
            {how}
"""
INTERNAL = 'raise SystemError("AST constructor recursion depth mismatch")'
KILLED = "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"


@pytest.fixture
def suite(tmp_path):
    """A function that writes a test file into a suite of its own, with the conftest of all suites."""
    (tmp_path / "conftest.py").symlink_to(ROOT / "tests" / "conftest.py")
    (tmp_path / "suite").mkdir()

    def write(text):
        (tmp_path / "suite" / "test_it.py").write_text(text)
        return tmp_path / "suite"

    return write


def run_suite(path):
    """(tests that failed or had an error, all that pytest said)."""
    env = {**os.environ, "CLOCHE_FAILED_TESTS": ""}
    argv = [sys.executable, "-m", "pytest", "-q", "-c", ROOT / "tests" / "pytest.ini", "--rootdir", path.parent, "-o", f"pythonpath={ROOT / 'tests'}", path]
    said = subprocess.run(argv, capture_output=True, text=True, cwd=path.parent, env=env, timeout=300).stdout
    return {line.split(" - ")[0] for line in said.splitlines() if line.startswith(("FAILED", "ERROR"))}, said


@pytest.mark.slow
@pytest.mark.parametrize("part", ["broker", "gateway"])
def test_a_crash_fails_the_test_it_happens_in_and_the_next_has_a_new_daemon(suite, part):
    failed, said = run_suite(suite(CRASHES.format(part=part)))
    assert failed == {"FAILED suite/test_it.py::test_crash", "ERROR suite/test_it.py::test_crash"}, said
    assert f"crashed: {part}" in said and "daemon.child_died" in said
    assert "2 passed, 1 failed" in said or "1 failed, 2 passed" in said, said


@pytest.mark.slow
@pytest.mark.skipif(PATIENCE > 1, reason="turns are judged where nothing is slow by itself")
def test_long_turns_of_a_loop_fail_the_test_they_happen_in(suite):
    failed, said = run_suite(suite(LONG_TURNS))
    assert failed == {"ERROR suite/test_it.py::test_one_that_is_the_subject", "ERROR suite/test_it.py::test_two"}, said
    assert "a turn of an event loop took over" in said and "callback=http/server.c:on_io" in said and "4 passed, 2 errors" in said, said


def run_all(path, *words):
    """What the runner says of a suite, and its exit status."""
    env = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST_")}  # it is nobody's worker
    done = subprocess.run([sys.executable, RUN_TESTS, "--build", BUILD, "--path", path, "--", *words], capture_output=True, text=True, env=env, timeout=300)
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


def dying_suite(suite, how, times):
    """Three files; in the second pytest itself dies so many times, each time in the same test."""
    path = suite("def test_first():\n    pass\n\ndef test_fails():\n    assert False, 'as it should'\n")
    (path / "conftest.py").write_text(CONFTEST_DIES.format(how=how))
    (path / "test_jt.py").write_text(f"{DIES}\nTIMES = {times}\n\ndef test_before():\n    pass\n\ndef test_dies():\n    pass\n\ndef test_after():\n    pass\n")
    (path / "test_kt.py").write_text("def test_last():\n    pass\n")
    return path


@pytest.mark.slow
@pytest.mark.parametrize("workers", ["0", "2"])
@pytest.mark.parametrize("how", [INTERNAL, KILLED], ids=["internal", "killed"])
def test_what_a_pytest_that_died_has_not_run_another_runs(suite, how, workers):
    lines, status = run_all(dying_suite(suite, how, times=1), "--numprocesses", workers, "--dist", "loadfile")
    assert lines[-1] == "5 passed, 1 failed, 0 skipped" and status == 1, lines
    told = lines[lines.index("Unsteady (failed, then passed alone; repair these first):"):]
    assert any("plain/test_jt::test_dies" in line for line in told), lines
    assert [line for line in told if line.startswith("  plain/")][-1] == "  plain/test_it::test_fails", lines


@pytest.mark.slow
def test_a_test_in_which_pytest_dies_each_time_has_failed_and_no_other(suite):
    lines, status = run_all(dying_suite(suite, INTERNAL, times=9))
    assert lines[-1] == "4 passed, 2 failed, 0 skipped" and status == 1, lines
    told = lines[lines.index("Failed:"):]
    assert "  plain/test_jt::test_dies" in told and any("recursion depth mismatch" in line for line in told), lines
