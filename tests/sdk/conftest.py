# SPDX-License-Identifier: Apache-2.0
"""Fixtures of the SDK suite: the packages as their users install them."""

import pytest
from harness.npm import NPM, run


@pytest.fixture(scope="session")
def typescript_project(typescript_package, tmp_path_factory):
    """A project that has installed the package, and nothing else."""
    path = tmp_path_factory.mktemp("project")
    (path / "package.json").write_text('{"private": true, "type": "module"}\n')
    run(*NPM, "install", str(typescript_package), cwd=path)
    return path
