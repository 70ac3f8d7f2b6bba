# SPDX-License-Identifier: Apache-2.0
"""The SDKs' tools for agent frameworks, in the real frameworks at pinned versions, with models that follow a script."""

import shutil

import pytest
from harness.cli import CLOCHE
from harness.npm import run

pytestmark = pytest.mark.skipif(not shutil.which("npm"), reason="this host has no npm")


@pytest.mark.parametrize("framework", ["ai-sdk", "anthropic", "anthropic-toolset", "mastra", "openai-agents", "openai-sandbox", "sandbox-session"])
def test_a_framework_s_model_runs_code_in_a_sandbox(adapters_project, environment, framework):
    run("node", "--test", f"{framework}.test.mjs", cwd=adapters_project, env=environment)


def test_the_official_mcp_client_lists_and_calls_tools(adapters_project, environment):
    run("node", "--test", "mcp.test.mjs", cwd=adapters_project, env={**environment, "CLOCHE": CLOCHE})


def test_adapters_have_the_types_that_frameworks_ask_for(adapters_project, typescript_package):
    compiler = typescript_package.parent / "node_modules" / "typescript" / "bin" / "tsc"
    rules = ["--noEmit", "--strict", "--skipLibCheck", "--module", "nodenext", "--target", "es2022", "--types", ""]
    run("node", str(compiler), *rules, "types.mts", cwd=adapters_project)
