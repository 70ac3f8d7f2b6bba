# SPDX-License-Identifier: Apache-2.0
"""E2B's wire: their published clients for JavaScript, pinned, with three variables set."""

import os
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from harness.daemon import Daemon
from harness.npm import run

SUITES = sorted(p.name for p in (Path(__file__).parent / "e2b").glob("*.test.mjs"))

needs_npm = pytest.mark.skipif(not shutil.which("npm"), reason="this host has no npm")


@pytest.fixture(scope="module")
def settings():
    """A user's, for a daemon whose sandboxes have names."""
    daemon = Daemon("--preview-domain", "box.test").start()
    try:
        yield {**os.environ, "E2B_API_URL": daemon.url, "E2B_SANDBOX_URL": daemon.url, "E2B_API_KEY": f"e2b_{daemon.key.removeprefix('clo_')}"}
    finally:
        daemon.stop()
        daemon.remove()


@needs_npm
def test_their_clients_find_what_they_expect(project, settings):
    with ThreadPoolExecutor(3) as pool:  # they wait more than they work
        list(pool.map(lambda suite: run("node", "--test", f"e2b/{suite}", cwd=project, env=settings), SUITES))
