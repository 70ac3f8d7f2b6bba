# SPDX-License-Identifier: Apache-2.0
"""Programs of earlier releases, built from git's history into CACHE/COMMIT-RECIPE, once for all checkouts on a machine.

As quickly as can be: without optimisation, tests, the dashboard's pages and the documents, which an upgrade has nothing to do with.
"""

import fcntl
import hashlib
import os
import shutil
import subprocess
from pathlib import Path

from harness.daemon import ROOT

CACHE = Path("/var/cache/cloche-test/releases")
TABLE = ROOT / "tests/upgrade/releases"
PARTS = ["meson.build", "meson_options.txt", "src", "tools", "kernels", "guest", "packaging", "api"]
PROGRAMS = ["cloche", "cloche-agent", "cloche-vmm", "kernels-beside"]
# Stands in for tools that make C of pages: a table with one empty file.
NO_PAGES = r"""#!/usr/bin/env python3
import os, sys

TABLES = {"pages-files.c": "page_files", "docs-files.c": "doc_files", "notices-files.c": "notice_files"}
for path in sys.argv[1:]:
    name = os.path.basename(path)
    if os.path.isdir(path) or not os.path.isdir(os.path.dirname(path) or "."):
        continue
    with open(path, "w") as f:
        if name in TABLES:
            f.write('#include "pages/pages.h"\n')
            f.write('const struct page_file %s[] = {{"/index.html", "text/html", (const unsigned char *)"", 0, 0}};\n' % TABLES[name])
            f.write("const size_t n_%s = 1;\n" % TABLES[name])
"""


class Missing(Exception):
    """What this checkout lacks to build a release."""


def releases():
    """{name: (commit, when)} of the table."""
    rows = [line.split() for line in TABLE.read_text().splitlines() if line and not line.startswith("#")]
    return {name: (commit, when) for name, commit, when in rows}


def run(words, **options):
    done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **options)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(map(str, words))} failed:\n{done.stdout.decode(errors='replace')[-4000:]}")


def _unpack(commit, source):
    if subprocess.run(["git", "-C", ROOT, "cat-file", "-e", f"{commit}^{{commit}}"], stderr=subprocess.DEVNULL).returncode != 0:
        raise Missing(f"this checkout has no history back to {commit[:12]} (git fetch --unshallow brings it)")
    source.mkdir(parents=True)
    with subprocess.Popen(["git", "-C", ROOT, "archive", commit, *PARTS], stdout=subprocess.PIPE) as archive:
        run(["tar", "-x", "-C", source], stdin=archive.stdout)
    for tool in ("build-web", "build-docs", "build-notices"):
        (source / "tools" / tool).write_text(NO_PAGES)
        (source / "tools" / tool).chmod(0o755)


def build(name):
    """The directory with the programs of that release."""
    commit, _ = releases()[name]
    recipe = hashlib.sha256(Path(__file__).read_bytes()).hexdigest()[:8]
    place = CACHE / f"{commit}-{recipe}"
    done = place / "done"
    place.parent.mkdir(parents=True, exist_ok=True)
    with open(place.parent / f"{place.name}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not done.exists():
            shutil.rmtree(place, ignore_errors=True)
            _unpack(commit, place / "source")
            options = ["-Dtests=false", "-Doptimization=0", "-Ddebug=false", "-Dwerror=false"]
            run(["meson", "setup", place / "build", place / "source", *options], env={**os.environ, "CFLAGS": "-w"})
            run(["ninja", "-C", place / "build", *PROGRAMS])
            done.touch()
    return Path(place / "build")
