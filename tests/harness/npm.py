# SPDX-License-Identifier: Apache-2.0
"""npm and what it installs, run as a user would."""

import subprocess

NPM = ["npm", "--no-audit", "--no-fund", "--no-update-notifier", "--loglevel=error"]


def run(*words, cwd, env=None):
    """What it printed; fails with that if it fails."""
    done = subprocess.run(words, cwd=cwd, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300)
    assert done.returncode == 0, f"{' '.join(words)} failed:\n{done.stdout[-6000:]}"
    return done.stdout
