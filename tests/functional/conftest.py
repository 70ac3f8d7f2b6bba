# SPDX-License-Identifier: Apache-2.0
"""Fixtures of the functional suite: the command line on the session's daemon, and what tests there make."""

import contextlib
import tempfile
import uuid

import pytest
from cloche import errors
from harness.cli import Cli
from harness.cluster import Database
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


@pytest.fixture
def volume(client):
    """A function that makes volumes; all that are left are removed at the end."""
    made = []

    def make(**fields):
        made.append(client.create_volume("v-" + uuid.uuid4().hex[:12], **fields)["name"])
        return made[-1]

    yield make
    for name in made:
        with contextlib.suppress(errors.NotFound):
            client.delete_volume(name)


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


@pytest.fixture(scope="module")
def database():
    """A PostgreSQL of the module's own, with a database "one" for a cluster."""
    d = Database()
    d.make("one")
    yield d
    d.close()
