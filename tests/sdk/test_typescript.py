# SPDX-License-Identifier: Apache-2.0
"""The TypeScript SDK as its users get it: built, packed, and installed in a project of its own."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

SDK = Path(__file__).parents[2] / "sdk" / "typescript"
NPM = ["npm", "--no-audit", "--no-fund", "--no-update-notifier", "--loglevel=error"]

pytestmark = pytest.mark.skipif(not shutil.which("npm"), reason="this host has no npm")


def run(*words, cwd, env=None):
    done = subprocess.run(words, cwd=cwd, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300)
    assert done.returncode == 0, f"{' '.join(words)} failed:\n{done.stdout[-6000:]}"
    return done.stdout


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """A project that has installed the package, and nothing else."""
    copy = tmp_path_factory.mktemp("sdk")
    shutil.copytree(SDK, copy, dirs_exist_ok=True, ignore=shutil.ignore_patterns("node_modules", "dist"))
    run(*NPM, "ci", cwd=copy)
    run(*NPM, "pack", cwd=copy)
    (package,) = copy.glob("cloche-*.tgz")
    path = tmp_path_factory.mktemp("project")
    (path / "package.json").write_text('{"private": true, "type": "module"}\n')
    run(*NPM, "install", str(package), cwd=path)
    shutil.copytree(SDK / "test", path / "test")
    return path


@pytest.fixture
def environment(daemon):
    return {**os.environ, "CLOCHE_URL": daemon.url, "CLOCHE_API_KEY": daemon.key}


def test_the_package_does_in_a_project_what_it_promises(project, environment):
    tests = sorted(str(p.relative_to(project)) for p in (project / "test").glob("*.test.mjs"))
    out = run("node", "--test", *tests, cwd=project, env=environment)
    assert "# fail 0" in out or "ℹ fail 0" in out, out[-4000:]


def test_the_package_needs_no_other_package(project):
    assert sorted(p.name for p in (project / "node_modules").iterdir() if not p.name.startswith(".")) == ["cloche"]


def snippets():
    readme = (SDK / "README.md").read_text()
    return [part.partition("```")[0] for part in readme.split("```js\n")[1:]]


@pytest.mark.parametrize("number", range(len(snippets())))
def test_what_the_readme_shows_runs(project, environment, number):
    (project / "snippet.mjs").write_text(snippets()[number])
    assert run("node", "snippet.mjs", cwd=project, env=environment).strip()
