# SPDX-License-Identifier: Apache-2.0
"""The SDKs' tools for agent frameworks, in the real frameworks at pinned versions, with models that follow a script."""

import shutil
from pathlib import Path

import pytest
from harness.cli import CLOCHE
from harness.npm import NPM, run

HERE = Path(__file__).parent / "adapters"

pytestmark = pytest.mark.skipif(not shutil.which("npm"), reason="this host has no npm")


@pytest.fixture(scope="module")
def project(typescript_package, tmp_path_factory):
    """A project with the frameworks and the packed SDK."""
    path = tmp_path_factory.mktemp("adapters")
    shutil.copytree(HERE, path, dirs_exist_ok=True, ignore=shutil.ignore_patterns("node_modules"))
    run(*NPM, "ci", cwd=path)
    run(*NPM, "install", "--no-save", str(typescript_package), cwd=path)
    return path


@pytest.mark.parametrize("framework", ["ai-sdk", "anthropic", "anthropic-toolset", "openai-agents", "openai-sandbox", "sandbox-session"])
def test_a_framework_s_model_runs_code_in_a_sandbox(project, environment, framework):
    run("node", "--test", f"{framework}.test.mjs", cwd=project, env=environment)


def test_the_official_mcp_client_lists_and_calls_tools(project, environment):
    run("node", "--test", "mcp.test.mjs", cwd=project, env={**environment, "CLOCHE": CLOCHE})
