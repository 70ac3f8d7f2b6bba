# SPDX-License-Identifier: Apache-2.0
"""The TypeScript SDK in runtimes other than Node: by what the web's standards name, in every run; in Bun, Deno and workerd, which are
350 MB, by `make test-runtimes`."""

import os
import shutil
from pathlib import Path

import pytest
from harness.npm import NPM, run

HERE = Path(__file__).parent / "runtimes"

pytestmark = pytest.mark.skipif(not shutil.which("npm"), reason="this host has no npm")
by_its_target = pytest.mark.skipif(not os.environ.get("CLOCHE_TEST_RUNTIMES"), reason="it is run by make test-runtimes")


@pytest.fixture
def env(environment, daemon):
    return {**environment, "CLOCHE_SOCKET": str(daemon.socket)}


def test_without_anything_of_node_s_fetch_does(typescript_project, env):
    shutil.copytree(HERE, typescript_project, dirs_exist_ok=True, ignore=shutil.ignore_patterns("node_modules", "package*.json"))
    assert run("node", "--no-warnings", "--experimental-vm-modules", "edge.mjs", cwd=typescript_project, env=env) == "ok\n"


@pytest.fixture(scope="module")
def project(typescript_package, tmp_path_factory):
    path = tmp_path_factory.mktemp("runtimes")
    shutil.copytree(HERE, path, dirs_exist_ok=True, ignore=shutil.ignore_patterns("node_modules"))
    run(*NPM, "install", "--no-save", str(typescript_package), cwd=path)
    return path


@by_its_target
@pytest.mark.parametrize("words", [["bun"], ["deno", "run", "--allow-all", "--no-lock"]], ids=["bun", "deno"])
def test_a_runtime_does_all_of_it(project, env, words):
    assert run(f"node_modules/.bin/{words[0]}", *words[1:], "main.mjs", cwd=project, env=env) == "ok\n"


@by_its_target
@pytest.mark.parametrize("words", [["bun"], ["deno", "run", "--allow-all", "--no-lock"]], ids=["bun", "deno"])
def test_a_runtime_starts_a_private_daemon_where_there_is_none(project, tmp_path, words):
    from harness.cli import CLOCHE, with_var_tmp

    env = {k: v for k, v in os.environ.items() if not k.startswith("CLOCHE_")}
    env["CLOCHE_PROGRAM"] = CLOCHE
    (project / "private.mjs").write_text('import { Sandbox } from "cloche";\nawait using s = await Sandbox.create();\nconsole.log((await s.run("echo hi")).stdout);')
    assert run(*with_var_tmp(tmp_path), f"node_modules/.bin/{words[0]}", *words[1:], "private.mjs", cwd=project, env=env) == "hi\n\n"
    assert not list(tmp_path.iterdir())


@by_its_target
def test_a_worker_does_all_of_it(project, env):
    """workerd wants to be told each module."""
    package = project / "node_modules" / "cloche" / "dist" / "esm"
    named = {"worker.mjs": "worker.mjs", "smoke.mjs": "smoke.mjs"} | {f"cloche/{p.name}": p.relative_to(project) for p in package.glob("*.js")}
    lines = "".join(f'(name = "{name}", esModule = embed "{path}"),\n        ' for name, path in named.items())
    (project / "worker.capnp").write_text((HERE / "worker.capnp").read_text().replace("MODULES", lines))
    (project / "smoke.mjs").write_text((HERE / "smoke.mjs").read_text().replace('from "cloche"', 'from "cloche/index.js"'))
    assert "[ PASS ]" in run("node_modules/.bin/workerd", "test", "worker.capnp", cwd=project, env=env)
