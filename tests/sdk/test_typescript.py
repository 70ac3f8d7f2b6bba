# SPDX-License-Identifier: Apache-2.0
"""The TypeScript SDK in a project of its own."""

import shutil
from pathlib import Path

import pytest
from harness.npm import run
from harness.samples import samples_of

TYPESCRIPT = Path(__file__).parents[2] / "sdk" / "typescript"

pytestmark = pytest.mark.skipif(not shutil.which("npm"), reason="this host has no npm")


@pytest.fixture(scope="module")
def project(typescript_project):
    shutil.copytree(TYPESCRIPT / "test", typescript_project / "test")
    return typescript_project


def test_the_package_does_in_a_project_what_it_promises(project, environment):
    tests = sorted(str(p.relative_to(project)) for p in (project / "test").glob("*.test.mjs"))
    run("node", "--test", *tests, cwd=project, env=environment)


def test_the_package_needs_no_other_package(project):
    assert sorted(p.name for p in (project / "node_modules").iterdir() if not p.name.startswith(".")) == ["cloche"]


def snippets():
    return [sample.code for page in ("sdk/typescript/README.md", "docs/guides/secrets.md") for sample in samples_of(page) if sample.language == "js"]


@pytest.mark.parametrize("number", range(len(snippets())))
def test_what_the_documents_show_runs(project, environment, number):
    (project / "snippet.mjs").write_text(snippets()[number])
    assert run("node", "snippet.mjs", cwd=project, env=environment).strip()
