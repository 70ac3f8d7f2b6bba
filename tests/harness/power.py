# SPDX-License-Identifier: Apache-2.0
"""A disk that can lose its power: what was written and not flushed is gone.

An image file is served by a FUSE filesystem of our own, and a loop device lies over it. Blocks that are written stay in the server's memory; an
fsync, which the loop device makes of each flush of its disk, brings them to the platter. An image of the platter is what the disk would hold if
the power were cut at that moment: the kernel's caches, those of the filesystem on the disk, and the disk's own are lost.

    page cache -> ext4 -> loop device -> FUSE file -> the server's memory -> (flush) -> platter
"""

import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

from harness.daemon import wait_for

MIB = 1 << 20
SERVER = Path(__file__).with_name("power_server.py")
NAME = "disk"


def run(*argv):
    return subprocess.run(argv, check=True, stdout=subprocess.PIPE, text=True).stdout.strip()


class Disk:
    """An ext4 on such a disk, mounted at .place."""

    def __init__(self, mib=4096):
        self.dir = Path(tempfile.mkdtemp(prefix="cloche-power-", dir="/var/tmp"))
        self.place, self.served, self.platter = self.dir / "place", self.dir / "served", self.dir / "platter"
        self.place.mkdir()
        self.served.mkdir()
        with open(self.platter, "wb") as f:
            f.truncate(mib * MIB)
        run("mkfs.ext4", "-q", "-E", "nodiscard", str(self.platter))
        self.server = subprocess.Popen(
            [sys.executable, str(SERVER), str(self.served), str(self.platter)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert self.server.stdout.readline() == "ready\n"
        self.loop = run("losetup", "--find", "--show", str(self.served / NAME))
        run("mount", "-t", "ext4", self.loop, str(self.place))
        self.images = 0

    def cut(self):
        """An image of what would be left if the power were lost now."""
        self.images += 1
        image = self.dir / f"image-{self.images}"
        self.server.stdin.write(f"{image}\n")
        self.server.stdin.flush()
        self.server.send_signal(signal.SIGUSR1)
        assert self.server.stdout.readline() == "copied\n"
        return image

    def take_down(self):
        if self.server:
            wait_for(lambda: subprocess.run(["umount", str(self.place)], stderr=subprocess.DEVNULL).returncode == 0, what="the end of all use")
            run("losetup", "--detach", self.loop)
            wait_for(lambda: subprocess.run(["umount", str(self.served)], stderr=subprocess.DEVNULL).returncode == 0, what="the loop device's end")
            self.server.wait(60)
            self.server = None

    def put_up(self, image):
        """The machine has its power back, with this on its disk."""
        run("mount", "-t", "ext4", "-o", "loop", str(image), str(self.place))

    def put_down(self):
        wait_for(lambda: subprocess.run(["umount", str(self.place)], stderr=subprocess.DEVNULL).returncode == 0, what="the end of all use")

    def remove(self):
        subprocess.run(["umount", "-l", str(self.place)], stderr=subprocess.DEVNULL)
        if self.server:
            subprocess.run(["losetup", "--detach", self.loop])
            subprocess.run(["umount", "-l", str(self.served)])
            self.server.kill()
            self.server.wait()
        shutil.rmtree(self.dir, ignore_errors=True)

