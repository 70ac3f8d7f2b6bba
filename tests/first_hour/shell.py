# SPDX-License-Identifier: Apache-2.0
"""One person's terminal, in which sample after sample is typed: what one exports is there for the next, and the directory it goes to until the end of the
page. Each page begins in the checkout."""

import os
import shutil
import subprocess
from pathlib import Path

# The last line of each: what is there for the next one.
KEEP = "trap 'export -p >\"$STATE\"; pwd >\"$PLACE\"' EXIT"
CALL_S = 600  # a sample that builds a template may wait for another build before it
# Programs in the words of Vercel's client are started as the page says.
NODE = {"docs/migrate-from-vercel.md": "node --import cloche/vercel"}


class Shell:
    def __init__(self, checkout, notes):
        """`notes` is a directory for what is remembered between two samples."""
        self.checkout, self.state, self.place = checkout, notes / "state", notes / "place"
        self.state.write_text("")
        self.begin_page()

    def begin_page(self):
        self.place.write_text(f"{self.checkout}\n")

    def run(self, text):
        """Bash reads it; gives the status and what was printed, errors last."""
        script = f'export STATE={self.state} PLACE={self.place}; . "$STATE"; cd "$(cat "$PLACE")"\n{KEEP}\n{text}'
        own = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}  # where this suite has the SDK from
        done = subprocess.run(["bash", "-euo", "pipefail", "-c", script], env=own, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=CALL_S)
        return done.returncode, done.stdout, done.stderr

    def type(self, page, sample):
        """What is wrong with a sample, or None."""
        if sample.language == "sh":
            status, said, errors = self.run(as_root(sample.code))
        else:
            name = {"python": "sample.py", "js": "sample.mjs"}[sample.language]
            (Path(self.place.read_text().strip()) / name).write_text(sample.code)
            status, said, errors = self.run(f"{'python' if sample.language == 'python' else NODE.get(page, 'node')} {name}")
        missing = sample.broken_promises(said)
        if status or missing:
            return f"{sample.place}: status {status}, not printed: {missing}\n{said[-3000:]}\n{errors[-3000:]}"
        return None


def as_root(code):
    """The pages say that root leaves out `sudo`; where there is none, that is how it is."""
    return code if shutil.which("sudo") or os.getuid() else code.replace("sudo ", "")
