# SPDX-License-Identifier: Apache-2.0
"""E2B's wire: their published clients for JavaScript, pinned, with three variables set; and the page that says which."""

import os
import re
import shutil
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from harness.daemon import ROOT, Daemon
from harness.npm import run

PAGE = ROOT / "docs" / "migrate-from-e2b.md"
SUITES = sorted(p.name for p in (Path(__file__).parent / "e2b").glob("*.test.mjs"))

needs_npm = pytest.mark.skipif(not shutil.which("npm"), reason="this host has no npm")


@pytest.fixture(scope="module")
def named():
    """A daemon whose sandboxes have names."""
    daemon = Daemon("--preview-domain", "box.test").start()
    try:
        yield daemon
    finally:
        daemon.stop()
        daemon.remove()


@pytest.fixture
def settings(named):
    return {**os.environ, "E2B_API_URL": named.url, "E2B_SANDBOX_URL": named.url, "E2B_API_KEY": f"e2b_{named.key.removeprefix('clo_')}"}


@needs_npm
def test_their_clients_find_what_they_expect(project, settings):
    with ThreadPoolExecutor(3) as pool:  # they wait more than they work
        list(pool.map(lambda suite: run("node", "--test", f"e2b/{suite}", cwd=project, env=settings), SUITES))


def shown(language):
    """The page's first block of a language."""
    return re.search(rf"^```{language}\n(.*?)^```$", PAGE.read_text(), re.M | re.S).group(1)


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
