# SPDX-License-Identifier: Apache-2.0
"""Fixtures of the functional suite: the command line on the session's daemon."""

import tempfile

import pytest
from harness.cli import Cli
from harness.sources import Sources


@pytest.fixture
def cli(daemon):
    return Cli(daemon)


@pytest.fixture
def box(cli):
    """A sandbox's id, for commands that need one."""
    id = cli.ok("create").strip()
    yield id
    cli("rm", "-f", id)


@pytest.fixture(scope="session")
def sources(internet, tmp_path_factory):
    """Servers of repositories, archives and packages, in the internet of the test's own."""
    sources = Sources(tmp_path_factory.mktemp("sources")).start(internet)
    yield sources
    sources.close()


@pytest.fixture
def short_path():
    """An empty directory on disk, with room in its path for the names of sockets."""
    with tempfile.TemporaryDirectory(prefix="cloche-test-", dir="/var/tmp") as path:
        yield path
