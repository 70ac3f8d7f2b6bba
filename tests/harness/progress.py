# SPDX-License-Identifier: Apache-2.0
"""What tools/run-tests.py has to know of a pytest that may die before it has told: a plugin that names each test as it begins, ends and fails, and leaves
out those that another pytest has had before. Files of the environment say where: CLOCHE_PROGRESS, CLOCHE_FAILED_TESTS and CLOCHE_LEFT_OUT, with a line for a test.

CLOCHE_CPU gets a line for each file of tests, with the seconds of CPU time that this process and all below it took meanwhile: its daemons, and the programs that
it has run. What ran in a sandbox that is gone is not in it, since the kernel forgets the times of a pid namespace's processes."""

import os
from pathlib import Path

import pytest


def line_of(nodeid):
    return nodeid.replace("\n", " ")


def append(variable, text):
    path = os.environ.get(variable)
    if path and "PYTEST_XDIST_WORKER" not in os.environ:  # its master tells
        with open(path, "a") as file:
            file.write(text + "\n")


def times_of(pid):
    """(parent, ticks that it and what it has waited for took), or None."""
    try:
        words = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
    except OSError:
        return None
    return int(words[1]), sum(map(int, words[11:15]))


def tree_seconds():
    """Of CPU time, since they began: this process and all below it. Of the dead, those that somebody has waited for."""
    times = {int(pid): found for pid in os.listdir("/proc") if pid.isdigit() and (found := times_of(pid))}
    below, known = {os.getpid()}, 0
    while len(below) > known:
        known = len(below)
        below |= {pid for pid, (parent, _) in times.items() if parent in below}
    return sum(times[pid][1] for pid in below) / os.sysconf("SC_CLK_TCK")


class FileTimes:
    """What each file took; the fixtures of a session count for the file that is the first to need them."""

    file, began = None, 0.0

    def turn_to(self, file):
        place = os.environ.get("CLOCHE_CPU")
        if not place or file == self.file:
            return
        now = tree_seconds()
        if self.file:
            with open(place, "a") as out:
                out.write(f"{self.file} {now - self.began:.2f}\n")
        self.file, self.began = file, now


file_times = FileTimes()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item):
    file_times.turn_to(item.path.stem)


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish():
    file_times.turn_to(None)


def pytest_runtest_logstart(nodeid):
    append("CLOCHE_PROGRESS", f"begun {line_of(nodeid)}")


def pytest_runtest_logfinish(nodeid):
    append("CLOCHE_PROGRESS", f"ended {line_of(nodeid)}")


def pytest_runtest_logreport(report):
    if report.failed:
        append("CLOCHE_FAILED_TESTS", line_of(report.nodeid))


def pytest_collection_modifyitems(config, items):
    path = os.environ.get("CLOCHE_LEFT_OUT")
    names = set(Path(path).read_text().splitlines()) if path and os.path.exists(path) else set()
    left_out = [item for item in items if line_of(item.nodeid) in names]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if line_of(item.nodeid) not in names]
