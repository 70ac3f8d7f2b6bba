# SPDX-License-Identifier: Apache-2.0
"""The vendors' packages, which are installed once for all suites."""

import shutil
from pathlib import Path

import pytest
from harness.npm import NPM, made_once, run


@pytest.fixture(scope="session")
def project(typescript_package, tmp_path_factory):
    """A project with their packages, our shim and the programs that use them."""

    def make(path):
        shutil.copytree(Path(__file__).parent, path, dirs_exist_ok=True, ignore=shutil.ignore_patterns("node_modules", "*.py", "__pycache__"))
        run(*NPM, "ci", cwd=path)
        run(*NPM, "install", "--no-save", str(typescript_package), cwd=path)

    return made_once(tmp_path_factory, "compat", make)
