# SPDX-License-Identifier: Apache-2.0
"""The TypeScript SDK in a project of its own."""

import shutil
from pathlib import Path

import pytest
from harness.npm import NPM, run

TYPESCRIPT = Path(__file__).parents[2] / "sdk" / "typescript"

pytestmark = pytest.mark.skipif(not shutil.which("npm"), reason="this host has no npm")


@pytest.fixture(scope="module")
def project(typescript_package, tmp_path_factory):
    """A project that has installed the package, and nothing else."""
    path = tmp_path_factory.mktemp("project")
    (path / "package.json").write_text('{"private": true, "type": "module"}\n')
    run(*NPM, "install", str(typescript_package), cwd=path)
    shutil.copytree(TYPESCRIPT / "test", path / "test")
    return path


def test_the_package_does_in_a_project_what_it_promises(project, environment):
    tests = sorted(str(p.relative_to(project)) for p in (project / "test").glob("*.test.mjs"))
    run("node", "--test", *tests, cwd=project, env=environment)


def test_the_package_needs_no_other_package(project):
    assert sorted(p.name for p in (project / "node_modules").iterdir() if not p.name.startswith(".")) == ["cloche"]


def snippets():
    readme = (TYPESCRIPT / "README.md").read_text()
    return [part.partition("```")[0] for part in readme.split("```js\n")[1:]]


@pytest.mark.parametrize("number", range(len(snippets())))
def test_what_the_readme_shows_runs(project, environment, number):
    (project / "snippet.mjs").write_text(snippets()[number])
    assert run("node", "snippet.mjs", cwd=project, env=environment).strip()
