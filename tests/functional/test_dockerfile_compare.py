# SPDX-License-Identifier: Apache-2.0
"""Dockerfiles as people write them, by cloche and by buildah: the same files, modes, owners and config."""

import os

import pytest
from cloche import Client
from harness.daemon import Daemon, free_port
from harness.dockerfiles import CASES, FEW, Buildah, comparable, push_bases, walk_export, write_context
from harness.registry import Registry
from harness.running import running


@pytest.fixture(scope="module")
def registry(tmp_path_factory):
    registry = Registry("127.0.0.1", free_port())
    push_bases(registry, tmp_path_factory.mktemp("bases"))
    yield registry
    registry.close()


@pytest.fixture(scope="module")
def buildah(registry, tmp_path_factory):
    return Buildah(registry, tmp_path_factory.mktemp("buildah"))


@pytest.fixture(scope="module")
def client(registry):
    with running(Daemon("--pool-max", "0", "--network-may-open", "127.0.0.1/32", "--registry-default", f"{registry.at}/library")) as daemon:
        with Client(daemon.url, daemon.key) as client:
            yield client


@pytest.mark.parametrize("name", CASES if os.environ.get("CLOCHE_TEST_DOCKERFILES") else FEW)
def test_a_dockerfile_becomes_what_buildah_makes_of_it(client, buildah, tmp_path, name):
    text, files = CASES[name]
    context = tmp_path / name
    write_context(context, text, files)
    client.build_template(dockerfile=text, name="compared", context=str(context) if files is not None else None)
    with client.export_template("compared") as archive:
        ours, our_config = walk_export(b"".join(archive))
    client.delete_template("compared")
    theirs, their_config = buildah.build(context)
    assert comparable(our_config) == comparable(their_config)
    assert {k: (ours.get(k), theirs.get(k)) for k in {*ours, *theirs} if ours.get(k) != theirs.get(k)} == {}  # (ours, theirs)
