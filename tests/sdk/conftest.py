# SPDX-License-Identifier: Apache-2.0
"""Fixtures of the SDK suite: the packages as their users install them."""

import os
import shutil
from pathlib import Path

import pytest
from harness.npm import NPM, run

TYPESCRIPT = Path(__file__).parents[2] / "sdk" / "typescript"

@pytest.fixture(scope="session")
def typescript_package(tmp_path_factory):
    """The tarball that would be published."""
    copy = tmp_path_factory.mktemp("sdk")
    shutil.copytree(TYPESCRIPT, copy, dirs_exist_ok=True, ignore=shutil.ignore_patterns("node_modules", "dist"))
    run(*NPM, "ci", cwd=copy)
    run(*NPM, "pack", cwd=copy)
    (package,) = copy.glob("cloche-*.tgz")
    return package


@pytest.fixture
def environment(daemon):
    return {**os.environ, "CLOCHE_URL": daemon.url, "CLOCHE_API_KEY": daemon.key}
