# SPDX-License-Identifier: Apache-2.0
"""E2B's wire: their published clients for JavaScript, pinned, with three variables set; and the page that says which."""

import os
import re
import shutil
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from harness.daemon import BUILD, ROOT, Daemon
from harness.npm import run
from harness.oci import Tar, busybox_layer, docker_save
from harness.samples import samples_of

PAGE = ROOT / "docs" / "migrate-from-e2b.md"
SHELL = Tar().add("bin/bash", b'#!/bin/sh\nexec /bin/sh "$@"\n', mode=0o755)  # busybox has none
SUITES = sorted(p.name for p in (Path(__file__).parent / "e2b").glob("*.test.mjs"))

needs_npm = pytest.mark.skipif(not shutil.which("npm"), reason="this host has no npm")


@pytest.fixture(scope="module")
def named():
    """A daemon whose sandboxes have names, and readings at once."""
    daemon = Daemon("--preview-domain", "box.test", "--usage-period", "100ms").start()
    try:
        yield daemon
    finally:
        daemon.stop()
        daemon.remove()


@pytest.fixture
def settings(named):
    return {**os.environ, "E2B_API_URL": named.url, "E2B_SANDBOX_URL": named.url, "E2B_VOLUME_API_URL": named.url, "E2B_API_KEY": f"e2b_{named.key.removeprefix('clo_')}"}


@needs_npm
def test_their_clients_find_what_they_expect(project, settings):
    with ThreadPoolExecutor(3) as pool:  # they wait more than they work
        list(pool.map(lambda suite: run("node", "--test", f"e2b/{suite}", cwd=project, env=settings), SUITES))


def shown(language, number=0):
    """A block of the page by its language."""
    return [sample.code for sample in samples_of("docs/migrate-from-e2b.md") if sample.language == language][number]


@needs_npm
@pytest.mark.parametrize("language, interpreter, name", [("python", sys.executable, "page.py"), ("js", "node", "page.mjs")], ids=["python", "js"])
def test_what_the_page_for_movers_shows_runs(project, named, language, interpreter, name):
    if language == "python":
        pytest.importorskip("e2b_code_interpreter")
    (project / name).write_text(shown(language))
    variables = shown("sh").replace("http://127.0.0.1:7070", named.url)
    assert variables.count(named.url) == 2
    env = {k: v for k, v in os.environ.items() if not k.startswith("E2B_")}
    printed = run("sh", "-euc", f'{variables}exec "$@"', "sh", interpreter, name, cwd=project, env={**env, "CLOCHE_API_KEY": named.key})
    promises = re.findall(r"(?:#|//) prints (.+)$", shown(language), re.M)
    assert promises
    for promise in promises:
        assert promise in printed.splitlines(), printed


def test_templates_that_the_page_names_can_be_built_and_one_s_own_is_imported_and_built_on(named, tmp_path):
    commands = re.findall(r"cloche template build (?:--shared )?([\w-]+)", PAGE.read_text())
    assert commands and all((ROOT / "guest" / "templates" / f"{name}.toml").exists() for name in commands)
    interpreter = pytest.importorskip("e2b_code_interpreter")
    (tmp_path / "image").write_bytes(docker_save([busybox_layer().bytes(), SHELL.bytes()]))
    (tmp_path / "docker").write_text("#!/bin/sh\nexec cat image\n")  # as `docker save` would write it
    (tmp_path / "docker").chmod(0o755)
    command = re.search(r"`(docker save [^`]*)`", PAGE.read_text()).group(1)
    env = {**os.environ, "PATH": f"{tmp_path}:{BUILD}:{os.environ['PATH']}", "CLOCHE_URL": named.url, "CLOCHE_API_KEY": named.key}
    run("sh", "-euc", command, cwd=tmp_path, env=env)
    settings = {"api_url": named.url, "sandbox_url": named.url, "api_key": f"e2b_{named.key.removeprefix('clo_')}"}
    sandbox = interpreter.Sandbox.create("my-template", **settings)
    try:
        assert sandbox.files.read("/etc/mark") == "lowest\n"
        error = sandbox.run_code("1").error  # there is no Python in it
        assert error.name == "ContextFailed" and "python" in error.value.lower(), error
    finally:
        sandbox.kill()
    (tmp_path / "build.py").write_text(shown("python", 1))
    variables = {"E2B_API_URL": named.url, "E2B_SANDBOX_URL": named.url, "E2B_API_KEY": settings["api_key"]}
    assert run(sys.executable, "build.py", cwd=tmp_path, env={**os.environ, **variables}).splitlines()[-1] == "True"
    sandbox = interpreter.Sandbox.create("mine:v1", **settings)
    try:
        assert sandbox.files.read("built.txt") == "built\n"
    finally:
        sandbox.kill()
