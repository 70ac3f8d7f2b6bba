# SPDX-License-Identifier: Apache-2.0
"""Saved memory on disk, and harm to it."""

import os

PAGES = {"jail": "pages-1.img", "vm": "ram"}


def damage(daemon, snapshot, engine):
    """Turns one bit of what a snapshot has saved of memory."""
    path = daemon.data / "layers" / snapshot / "memory" / PAGES[engine]
    with open(path, "r+b", buffering=0) as pages:
        at = os.lseek(pages.fileno(), 0, os.SEEK_DATA)
        bits = os.pread(pages.fileno(), 1, at)[0]
        os.pwrite(pages.fileno(), bytes([bits ^ 1]), at)
