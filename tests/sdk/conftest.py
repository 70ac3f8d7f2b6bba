# SPDX-License-Identifier: Apache-2.0
"""Fixtures of the SDK suite: the packages as their users install them."""

import os
import shutil
from pathlib import Path

import pytest
from harness.npm import NPM, run

HERE = Path(__file__).parent
ADAPTERS = HERE / "adapters"


def pytest_collection_modifyitems(items):
    """With vms for sandboxes there is the table of calls; the rest says nothing of engines."""
    if os.environ.get("CLOCHE_ENGINE") == "vm":
        items[:] = [item for item in items if HERE not in item.path.parents or item.path.name == "test_parity.py"]


@pytest.fixture(scope="session")
def typescript_project(typescript_package, tmp_path_factory):
    """A project that has installed the package, and nothing else."""
    path = tmp_path_factory.mktemp("project")
    (path / "package.json").write_text('{"private": true, "type": "module"}\n')
    run(*NPM, "install", str(typescript_package), cwd=path)
    return path


@pytest.fixture(scope="session")
def adapters_project(typescript_package, tmp_path_factory):
    """A project with the agent frameworks and the packed SDK."""
    path = tmp_path_factory.mktemp("adapters")
    shutil.copytree(ADAPTERS, path, dirs_exist_ok=True, ignore=shutil.ignore_patterns("node_modules"))
    run(*NPM, "ci", cwd=path)
    run(*NPM, "install", "--no-save", str(typescript_package), cwd=path)
    return path
