# SPDX-License-Identifier: Apache-2.0
"""eve with the SDK's sandbox provider: its own evals, offline, with a model that follows a script. It brings a Node of its own and
some 300 MB, so that this runs by `make test-eve` only."""

import os
import shutil
from pathlib import Path

import pytest
from harness.npm import NPM, run

HERE = Path(__file__).parent / "eve"

pytestmark = pytest.mark.skipif(not os.environ.get("CLOCHE_TEST_EVE"), reason="it is run by make test-eve")


def test_eve_s_evals_pass_in_a_sandbox(typescript_package, client, environment, tmp_path):
    shutil.copytree(HERE, tmp_path, dirs_exist_ok=True, ignore=shutil.ignore_patterns("node_modules", ".eve"))
    # Not `ci`: npm leaves packages of other systems out of the lock, and then misses them there.
    run(*NPM, "install", "--no-save", "--engine-strict=false", str(typescript_package), cwd=tmp_path)
    out = run("node_modules/.bin/node", "node_modules/eve/bin/eve.js", "eval", cwd=tmp_path, env=environment)
    assert "1 passed (1 total)" in out and "Gates: 4 passed" in out, out
    for sandbox in client.list():
        sandbox.delete()  # eve leaves a session's end to its idle time
    for snapshot in client.snapshots():
        client.delete_snapshot(snapshot["id"])
