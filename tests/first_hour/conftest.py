# SPDX-License-Identifier: Apache-2.0
"""Fixtures of the first hour. tools/test-first-hour has made a clone and typed `make up` in it; nothing else is there."""

import os
import subprocess
from pathlib import Path

import cloche
import pytest
from first_hour.shell import Shell
from harness.samples import typed_samples

CLONE = Path(os.environ.get("CLOCHE_FIRST_HOUR", "/nonexistent"))
counts = {}  # by page: samples, and those that passed


def pytest_collection_modifyitems(items):
    """In the order of the hour: the pages, then the whole programs."""
    if "CLOCHE_FIRST_HOUR" not in os.environ:
        for item in items:
            if Path(__file__).parent in item.path.parents:
                item.add_marker(pytest.mark.skip(reason="it is run by make test-first-hour"))


def pytest_terminal_summary(terminalreporter):
    for page, (shown, passed) in counts.items():
        terminalreporter.write_line(f"{page:40} {shown:4} samples {passed:4} passed")
    if counts:
        shown, passed = (sum(c[i] for c in counts.values()) for i in (0, 1))
        terminalreporter.write_line(f"{'all':40} {shown:4} samples {passed:4} passed")


@pytest.fixture(scope="session")
def shell(tmp_path_factory):
    """The terminal of the hour."""
    return Shell(CLONE, tmp_path_factory.mktemp("terminal"))


@pytest.fixture(scope="session")
def settled(shell):
    """What the front page sets up, also when it is not among the pages that are asked for."""
    if "README.md" not in counts:
        wrong = [shell.type("README.md", sample) for sample in typed_samples("README.md") if sample.mark == "up"]
        assert not any(wrong), wrong


def cloche_(*words, timeout=1800):
    done = subprocess.run([CLONE / "build" / "cloche", *words], capture_output=True, text=True, timeout=timeout)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="session")
def built():
    """What `make up` has begun in the background, at its end."""
    for name in ("universal", "kernel", "node22"):
        cloche_("template", "build", "--shared", name)


@pytest.fixture(scope="session")
def client():
    with cloche.Client("unix:/run/cloche/cloche.sock") as client:
        yield client


@pytest.fixture(scope="session")
def environment():
    """Of programs that use the daemon as its users' do."""
    key = Path("/var/lib/cloche/admin.key").read_text().strip()
    own = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}  # where this suite has the SDK from
    return {**own, "CLOCHE_URL": "http://127.0.0.1:7070", "CLOCHE_API_KEY": key, "PATH": f"{CLONE / 'build'}:{os.environ['PATH']}"}
