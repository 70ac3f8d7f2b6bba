# SPDX-License-Identifier: Apache-2.0
"""The examples of E2B's front pages, as they are in the packages that are installed: with variables set, and nothing else."""

import importlib.metadata
import os
import re
import shutil
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
from harness.daemon import Daemon
from harness.npm import run
from harness.running import running

needs_npm = pytest.mark.skipif(not shutil.which("npm"), reason="this host has no npm")


def blocks(text, *languages):
    """The programs among a page's blocks: those that need no more than variables."""
    found = re.findall(rf"^```(?:{'|'.join(languages)})\n(.*?)^```$", text, re.M | re.S)
    return [block for block in found if re.match(r"(import|from) ", block) and "***" not in block]


def of_npm(project, name):
    return blocks((project / "node_modules" / name / "README.md").read_text(), "ts", "typescript")


def of_pypi(name):
    pytest.importorskip(name.replace("-", "_"))
    meta = importlib.metadata.metadata(name)
    return blocks(meta.get_payload() or meta["Description"], "py", "python")


@pytest.fixture(scope="module")
def settings():
    """The variables of somebody who reads these pages, on a daemon of their own: the programs leave their sandboxes to timeouts."""
    with running(Daemon()) as daemon:
        yield {"E2B_API_URL": daemon.url, "E2B_SANDBOX_URL": daemon.url, "E2B_API_KEY": f"e2b_{daemon.key.removeprefix('clo_')}"}


@needs_npm
def test_e2b_s_programs_print_what_their_pages_say(project, settings):
    programs = [("mjs", "node", block) for name in ("e2b", "@e2b/code-interpreter") for block in of_npm(project, name)]
    programs += [("py", sys.executable, block) for name in ("e2b", "e2b-code-interpreter") for block in of_pypi(name)]
    assert len(programs) >= 6

    def printed(number):
        suffix, interpreter, text = programs[number]
        (project / f"front-{number}.{suffix}").write_text(text)
        return run(interpreter, f"front-{number}.{suffix}", cwd=project, env={**os.environ, **settings})

    with ThreadPoolExecutor(3) as pool:
        for (_, _, text), said in zip(programs, pool.map(printed, range(len(programs))), strict=True):
            promise = re.search(r"(?:print|console\.log)\(.*(?://|#) +(?:outputs )?(.+)$", text, re.M).group(1)
            assert said.strip() == promise, text
