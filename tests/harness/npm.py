# SPDX-License-Identifier: Apache-2.0
"""npm and what it installs, run as a user would."""

import fcntl
import os
import subprocess

NPM = ["npm", "--no-audit", "--no-fund", "--no-update-notifier", "--loglevel=error"]


def run(*words, cwd, env=None):
    """What it printed; fails with that if it fails."""
    done = subprocess.run(words, cwd=cwd, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300)
    assert done.returncode == 0, f"{' '.join(words)} failed:\n{done.stdout[-6000:]}"
    return done.stdout


def made_once(tmp_path_factory, name, make):
    """A directory that make(path) fills, once for all workers of a pass: each has a tree of its own, of the same files, which nobody writes into."""
    top = tmp_path_factory.getbasetemp()
    first = (top.parent if "PYTEST_XDIST_WORKER" in os.environ else top) / f"first-{name}"
    with open(f"{first}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not first.exists():
            making = first.with_suffix(f".{os.getpid()}")
            making.mkdir()
            make(making)
            making.rename(first)
    path = tmp_path_factory.mktemp(name)
    run("cp", "--archive", "--link", f"{first}/.", str(path), cwd=path)
    return path
