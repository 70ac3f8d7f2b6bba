# SPDX-License-Identifier: Apache-2.0
"""A small disk of its own for a daemon's data, to be filled."""

import contextlib
import os
import shutil
import subprocess

from harness.daemon import wait_for

MIB = 1 << 20
DISK = 2048 * MIB


class Disk:
    """A small ext4 on loop, where a daemon has its data."""

    def __init__(self, daemon, size=DISK):
        self.image, self.path = daemon.dir / "disk", daemon.data
        self.path.mkdir(parents=True)
        self.image.touch()
        os.truncate(self.image, size)
        subprocess.run(["mkfs.ext4", "-q", "-F", "-m", "0", "-E", "lazy_itable_init=1", self.image], check=True)
        subprocess.run(["mount", "-o", "loop", self.image, self.path], check=True)

    @property
    def filler(self):
        return self.path / "filler"

    @property
    def free(self):
        return shutil.disk_usage(self.path).free

    def fill(self, leave=0):
        """As somebody else of this host would."""
        with open(self.filler, "ab") as f, contextlib.suppress(OSError):
            while (more := self.free - leave) > 0:
                os.posix_fallocate(f.fileno(), f.seek(0, os.SEEK_END), min(more, 64 * MIB) if more > MIB else more)

    def empty(self):
        self.filler.unlink(missing_ok=True)

    def remove(self):
        """The layers on it may take a moment to go."""
        layers = self.path / "layers"
        if os.path.ismount(layers):  # of a daemon that failed
            subprocess.run(["umount", "-l", layers], check=True)
        wait_for(lambda: subprocess.run(["umount", self.path], capture_output=True).returncode == 0, what="a disk that nobody uses")
