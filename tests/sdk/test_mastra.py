# SPDX-License-Identifier: Apache-2.0
"""Mastra with the SDK's workspace: its agents, with a model that follows a script. It brings a Node of its own and some 300 MB, so that
this runs by `make test-mastra` only; what needs no Mastra is in test_adapters.py."""

import os
import shutil
from pathlib import Path

import pytest
from harness.npm import NPM, run

HERE = Path(__file__).parent / "mastra"

pytestmark = pytest.mark.skipif(not os.environ.get("CLOCHE_TEST_MASTRA"), reason="it is run by make test-mastra")


@pytest.fixture(scope="module")
def project(typescript_package, tmp_path_factory):
    path = tmp_path_factory.mktemp("mastra")
    shutil.copytree(HERE, path, dirs_exist_ok=True, ignore=shutil.ignore_patterns("node_modules"))
    # Not `ci`: npm leaves packages of other systems out of the lock, and then misses them there.
    run(*NPM, "install", "--no-save", "--engine-strict=false", str(typescript_package), cwd=path)
    return path


def test_mastra_s_agents_work_in_a_sandbox(project, environment):
    run("node_modules/.bin/node", "--test", "workspace.test.mjs", cwd=project, env=environment)


def test_mastra_s_own_provider_of_e2b_s_sandboxes_works(project, environment, e2b_settings):
    run("node_modules/.bin/node", "--test", "e2b.test.mjs", cwd=project, env={**environment, **e2b_settings})


def test_the_providers_have_the_types_that_mastra_asks_for(project):
    rules = ["--noEmit", "--strict", "--skipLibCheck", "--module", "nodenext", "--target", "es2022", "--types", "node"]
    run("node_modules/.bin/node", "node_modules/typescript/bin/tsc", *rules, "types.mts", cwd=project)
