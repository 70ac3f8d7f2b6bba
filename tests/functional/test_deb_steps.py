# SPDX-License-Identifier: Apache-2.0
"""What `make deb` says while it works, with stand-ins for what makes and judges the package; tests/package has the real one."""

import os
import shutil
import subprocess

import pytest
from harness.daemon import ROOT

MAKER = """#!/bin/sh
echo '   debian/rules override_dh_auto_configure'
echo 'dh_auto_configure -- -Dtests=false'
echo '   dh_auto_build'
for i in 1 2 3 4; do echo "[$i/4] Compiling C object"; done
echo '   dh_auto_install'
{end}
"""
MADE = "touch ../cloche_9.9_$(dpkg --print-architecture).deb ../cloche_9.9_any.changes"


@pytest.fixture
def tree(tmp_path):
    """A tree with a package to make; what makes it ends as the test says."""
    for name in ("tools", "packaging/debian", "bin"):
        (tmp_path / name).mkdir(parents=True)
    shutil.copy(ROOT / "tools" / "deb", tmp_path / "tools" / "deb")
    (tmp_path / "packaging/debian/changelog").write_text("cloche (9.9) unstable; urgency=low\n\n  * x\n\n -- x <x@example.com>  Tue, 17 Nov 2026 00:00:00 +0000\n")
    for name in ("tools/install-deps", "bin/lintian", "bin/dpkg-buildpackage"):
        (tmp_path / name).write_text("#!/bin/sh\n")
        (tmp_path / name).chmod(0o755)
    for words in (["init", "-q"], ["add", "-A"]):
        subprocess.run(["git", *words], cwd=tmp_path, check=True)

    def make(end):
        (tmp_path / "bin/dpkg-buildpackage").write_text(MAKER.format(end=end))
        env = {**os.environ, "PATH": f"{tmp_path}/bin:{os.environ['PATH']}"}
        return subprocess.run(["tools/deb"], cwd=tmp_path, env=env, capture_output=True, text=True, timeout=60)

    return make


def test_each_step_is_told_and_where_the_package_is(tree):
    done = tree(MADE)
    lines = done.stdout.splitlines()
    assert done.returncode == 0, done.stderr
    assert [line.split()[1] for line in lines if line.startswith("deb: ") and "/6" in line] == [f"{n}/6" for n in range(1, 7)]
    assert "deb:     50 % of 4 files" in lines
    assert lines[-2] == "deb: install it with"
    assert lines[-1].startswith("  sudo apt-get install ./build/deb/cloche_9.9_") and any("build/deb/cloche_9.9_" in line for line in lines[:-1])


def test_a_build_that_fails_shows_its_last_words(tree):
    done = tree("echo 'main.c:1: error: no'; exit 2")
    assert done.returncode == 1 and "main.c:1: error: no" in done.stderr and "build/deb/build.log" in done.stderr
