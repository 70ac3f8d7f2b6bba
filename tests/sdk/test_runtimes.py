# SPDX-License-Identifier: Apache-2.0
"""The TypeScript SDK in runtimes other than this host's Node: by what the web's standards name, in every run; in Node 18 (its first and
its last), Bun, Deno and workerd, which are 550 MB, by `make test-runtimes`."""

import os
import shutil
from pathlib import Path

import pytest
from harness.npm import NPM, run

HERE = Path(__file__).parent / "runtimes"
TYPESCRIPT = Path(__file__).parents[2] / "sdk" / "typescript"
OLD_NODES = {"node-18.0": ["node_modules/node-first/bin/node"], "node-18": ["node_modules/node-last/bin/node"]}
RUNTIMES = {"bun": ["node_modules/.bin/bun"], "deno": ["node_modules/.bin/deno", "run", "--allow-all", "--no-lock"], **OLD_NODES}

pytestmark = pytest.mark.skipif(not shutil.which("npm"), reason="this host has no npm")
by_its_target = pytest.mark.skipif(not os.environ.get("CLOCHE_TEST_RUNTIMES"), reason="it is run by make test-runtimes")


@pytest.fixture
def env(environment, daemon):
    return {**environment, "CLOCHE_SOCKET": str(daemon.socket), "NODE_NO_WARNINGS": "1"}


def test_without_anything_of_node_s_fetch_does(typescript_project, env):
    shutil.copytree(HERE, typescript_project, dirs_exist_ok=True, ignore=shutil.ignore_patterns("node_modules", "package*.json"))
    assert run("node", "--experimental-vm-modules", "edge.mjs", cwd=typescript_project, env=env) == "ok\n"


@pytest.fixture(scope="module")
def project(typescript_package, tmp_path_factory):
    path = tmp_path_factory.mktemp("runtimes")
    shutil.copytree(HERE, path, dirs_exist_ok=True, ignore=shutil.ignore_patterns("node_modules"))
    run(*NPM, "install", "--no-save", str(typescript_package), cwd=path)
    return path


@by_its_target
@pytest.mark.parametrize("name", RUNTIMES)
def test_a_runtime_does_all_of_it(project, env, name):
    assert run(*RUNTIMES[name], "main.mjs", cwd=project, env=env) == "ok\n"


@by_its_target
@pytest.mark.parametrize("name", OLD_NODES)
def test_an_old_node_requires_it(project, env, name):
    assert run(*OLD_NODES[name], "main.cjs", cwd=project, env=env) == "ok\n"


@by_its_target
def test_node_18_passes_the_package_s_own_tests(project, env):
    """Its last: the first has no test runner yet."""
    shutil.copytree(TYPESCRIPT / "test", project / "test")
    run(*OLD_NODES["node-18"], "--test", "test", cwd=project, env=env)


@by_its_target
@pytest.mark.parametrize("name", RUNTIMES)
def test_a_runtime_starts_a_private_daemon_where_there_is_none(project, tmp_path, name):
    from harness.cli import CLOCHE, with_var_tmp

    env = {k: v for k, v in os.environ.items() if not k.startswith("CLOCHE_")}
    env["CLOCHE_PROGRAM"] = CLOCHE
    end = "await s.close();" if name in OLD_NODES else ""  # which cannot read `await using`
    using = "const" if name in OLD_NODES else "await using"
    (project / "private.mjs").write_text(f'import {{ Sandbox }} from "cloche";\n{using} s = await Sandbox.create();\nconsole.log((await s.run("echo hi")).stdout);\n{end}')
    assert run(*with_var_tmp(tmp_path), *RUNTIMES[name], "private.mjs", cwd=project, env=env) == "hi\n\n"
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
