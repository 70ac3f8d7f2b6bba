# SPDX-License-Identifier: Apache-2.0
"""What tools/run-tests.py has to know of a pytest that may die before it has told: a plugin that names each test as it begins, ends and fails, and leaves
out those that another pytest has had before. Files of the environment say where: CLOCHE_PROGRESS, CLOCHE_FAILED_TESTS and CLOCHE_LEFT_OUT, with a line for a test."""

import os
from pathlib import Path


def line_of(nodeid):
    return nodeid.replace("\n", " ")


def append(variable, text):
    path = os.environ.get(variable)
    if path and "PYTEST_XDIST_WORKER" not in os.environ:  # its master tells
        with open(path, "a") as file:
            file.write(text + "\n")


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
