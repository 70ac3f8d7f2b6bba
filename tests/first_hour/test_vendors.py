# SPDX-License-Identifier: Apache-2.0
"""The vendors' published clients, and the frameworks that bring them along, on the daemon of `make up`. Their settings are what a reader of
docs/migrate-from-e2b.md and docs/migrate-from-vercel.md has typed, and nothing else. What they must do is told where they are tried on daemons of tests."""

import os
from types import SimpleNamespace

import pytest
from compat.conftest import project  # noqa: F401
from compat.test_frameworks import (  # noqa: F401
    frameworks,
    swept,
    test_a_framework_s_agent_works_here_without_knowing,
    test_openai_s_agents_work_in_python_s_client_of_e2b,
)
from compat.test_readmes import test_e2b_s_programs_print_what_their_pages_say  # noqa: F401
from compat.test_readmes_vercel import image, page, test_its_example_of_an_image_starts_from_it, test_its_examples_of_users_do_what_it_says  # noqa: F401
from compat.test_vercel import test_their_client_finds_what_it_expects  # noqa: F401
from compat.test_vercel_python import *  # noqa: F403
from conftest import typescript_package  # noqa: F401
from harness.daemon import ROOT
from harness.npm import run
from harness.samples import typed_samples
from sdk.test_frameworks import test_langchain_s_suite_passes_with_its_backend_for_e2b  # noqa: F401
from sdk.test_mastra import project as mastra_project  # noqa: F401
from sdk.test_rollouts import check, harbor  # noqa: F401

pytestmark = pytest.mark.usefixtures("built")
PAGES = ["docs/migrate-from-e2b.md", "docs/migrate-from-vercel.md"]
# Those of tests/compat/e2b that need no domain, and no readings within a second.
SUITES = ["code", "commands", "files", "readme", "volumes"]


@pytest.fixture(autouse=True)
def host_is_left_as_it_was():
    """That is said of daemons of tests: this one has a pool, and their programs leave sandboxes to timeouts."""


@pytest.fixture(scope="session")
def typed(shell, settled, built):
    """What the shell's programs find in their environment after both pages."""
    for name in PAGES:
        shell.begin_page()
        wrong = [shell.type(name, sample) for sample in typed_samples(name)]
        assert not any(wrong), wrong
    status, said, errors = shell.run("env -0")
    assert status == 0, errors
    there = dict(line.split("=", 1) for line in said.split("\0") if "=" in line)
    return {name: value for name, value in there.items() if os.environ.get(name) != value}


@pytest.fixture(scope="session")
def e2b_settings(typed):
    """One address, under the two names that E2B's clients have for it, and one key."""
    found = {name: value for name, value in typed.items() if name.startswith("E2B_")}
    assert sorted(found) == ["E2B_API_KEY", "E2B_API_URL", "E2B_SANDBOX_URL"] and found["E2B_API_URL"] == found["E2B_SANDBOX_URL"]
    return found


@pytest.fixture(scope="session")
def settings(e2b_settings):
    return e2b_settings


@pytest.fixture(scope="session")
def environment(typed):
    """An address and a key."""
    found = {name: value for name, value in typed.items() if name.startswith("CLOCHE_")}
    assert sorted(found) == ["CLOCHE_API_KEY", "CLOCHE_URL"]
    return {**os.environ, **found}


@pytest.fixture(scope="session")
def daemon(environment):
    """What Vercel's client for Python is told of it."""
    return SimpleNamespace(url=environment["CLOCHE_URL"], key=environment["CLOCHE_API_KEY"])


@pytest.mark.parametrize("suite", SUITES)
def test_e2b_s_clients_for_javascript_find_what_they_expect(project, e2b_settings, suite):
    volumes = {"E2B_VOLUME_API_URL": e2b_settings["E2B_API_URL"]} if suite == "volumes" else {}  # as the page says
    run("node", "--test", f"e2b/{suite}.test.mjs", cwd=project, env={**os.environ, **e2b_settings, **volumes})


def test_mastra_s_provider_of_e2b_s_sandboxes_works(mastra_project, e2b_settings):
    run("node_modules/.bin/node", "--test", "e2b.test.mjs", cwd=mastra_project, env={**os.environ, **e2b_settings})


def test_harbor_s_environment_of_e2b_s_scores_a_task_of_an_image_and_of_a_dockerfile(harbor, environment, e2b_settings, tmp_path):
    own = {"PYTHONPATH": str(ROOT / "sdk" / "python"), "PYTHONDONTWRITEBYTECODE": "1", "HOME": str(tmp_path), "ROLLOUT_BASH": "python"}
    said = check({**environment, **e2b_settings, **own}, "harbor", "-k", "e2b", python=harbor)
    assert "2 passed" in said
