# SPDX-License-Identifier: Apache-2.0
"""Fixtures of the SDK suite: the packages as their users install them."""

import os
import shutil
import sys
from pathlib import Path

import pytest
from harness.daemon import ROOT
from harness.npm import NPM, made_once, run

HERE = Path(__file__).parent
ADAPTERS = HERE / "adapters"


def pytest_collection_modifyitems(items):
    """With vms for sandboxes there is the table of calls; the rest says nothing of engines."""
    if os.environ.get("CLOCHE_ENGINE") == "vm":
        items[:] = [item for item in items if HERE not in item.path.parents or item.path.name == "test_parity.py"]


# By `make test-sdk-fresh`: programs run where nothing was installed but what the READMEs say.
IS_FRESH = bool(os.environ.get("CLOCHE_TEST_FRESH"))


@pytest.fixture(scope="session")
def fresh(tmp_path_factory):
    """A copy of what a user has who cloned, with a virtualenv beside it, after the commands of the READMEs."""
    path = tmp_path_factory.mktemp("fresh")
    names = run("git", "ls-files", "-z", "sdk", "examples", "tools/sdk-packages", "LICENSE", "Makefile", cwd=ROOT).split("\0")[:-1]
    for name in names:
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, path / name)
    run("git", "init", "--quiet", cwd=path)
    run("git", "add", "--all", cwd=path)
    run("git", "-c", "user.name=t", "-c", "user.email=t@example.com", "commit", "--quiet", "-m", "all", cwd=path)
    run("make", "npm", cwd=path)
    for name in ("podflare", "vercel"):
        run(*NPM, "install", cwd=path / "examples" / name)
    run("/usr/bin/python3", "-m", "venv", str(path / "venv"), cwd=path)
    for words in (["./sdk/python"], ["-r", "requirements.txt"]):
        at = path if words == ["./sdk/python"] else path / "examples" / "podflare"
        run(str(path / "venv/bin/pip"), "--disable-pip-version-check", "--quiet", "install", *words, cwd=at)
    return path


@pytest.fixture(scope="session")
def python(request):
    """The interpreter of users' programs."""
    return str(request.getfixturevalue("fresh") / "venv/bin/python") if IS_FRESH else sys.executable


@pytest.fixture(scope="session")
def typescript_project(typescript_package, tmp_path_factory):
    """A project that has installed the package, and nothing else."""

    def make(path):
        (path / "package.json").write_text('{"private": true, "type": "module"}\n')
        run(*NPM, "install", str(typescript_package), cwd=path)

    return made_once(tmp_path_factory, "project", make)


@pytest.fixture(scope="session")
def adapters_project(typescript_package, tmp_path_factory):
    """A project with the agent frameworks and the packed SDK."""

    def make(path):
        shutil.copytree(ADAPTERS, path, dirs_exist_ok=True, ignore=shutil.ignore_patterns("node_modules"))
        run(*NPM, "ci", cwd=path)
        run(*NPM, "install", "--no-save", str(typescript_package), cwd=path)

    return made_once(tmp_path_factory, "adapters", make)
