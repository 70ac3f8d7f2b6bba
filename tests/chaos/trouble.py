# SPDX-License-Identifier: Apache-2.0
"""What an ordinary day does to a host: a disk that is slow for a while, a disk that is full for a while, a neighbour who wants everything."""

import contextlib
import fcntl
import os
import shutil
import subprocess
import threading

from harness.audit import drop_copies
from harness.daemon import call, wait_for

from .model import NO_ANSWER, ask

FIFREEZE, FITHAW = 0xC0045877, 0xC0045878
FLOOD_THREADS = 16
BALLAST = "ballast"  # a file in the data directory that nobody of the daemon's has made


@contextlib.contextmanager
def frozen(daemon):
    """Until the end of this, whatever writes to the layers' filesystem waits."""
    layers = os.open(f"/proc/{daemon.broker_pid}/root{daemon.data / 'layers'}", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.ioctl(layers, FIFREEZE, 0)
        try:
            yield
        finally:
            fcntl.ioctl(layers, FITHAW, 0)
    finally:
        os.close(layers)


@contextlib.contextmanager
def filled(directory, free):
    """Until the end of this, the filesystem of the directory has so many bytes left, taken by somebody else."""
    ballast = directory / BALLAST
    try:
        with open(ballast, "wb") as f:
            with contextlib.suppress(OSError):  # somebody was faster
                while (more := shutil.disk_usage(directory).free - free) > 1 << 20:
                    os.posix_fallocate(f.fileno(), f.seek(0, os.SEEK_END), more)
        yield
    finally:
        ballast.unlink(missing_ok=True)


@contextlib.contextmanager
def disk_of_its_own(directory, size):
    """A filesystem of that size in a file, mounted at the directory."""
    directory.mkdir(parents=True, exist_ok=True)
    image = directory.with_name(f"{directory.name}.img")
    with open(image, "wb") as f:
        os.truncate(f.fileno(), size)
    subprocess.run(["mkfs.ext4", "-q", "-m", "0", "-E", "lazy_itable_init=1", image], check=True)
    subprocess.run(["mount", "-o", "loop", image, directory], check=True)
    try:
        os.chmod(directory, 0o755)
        yield
    finally:
        for path in directory.iterdir():
            drop_copies(path)
        # A loop device over one of its files goes a moment after its mount does.
        wait_for(lambda: subprocess.run(["umount", directory], stderr=subprocess.DEVNULL).returncode == 0, what=f"an end of all use of {directory}")
        drop_copies(directory)
        directory.mkdir(exist_ok=True)
        image.unlink()


def _flood(view, is_over, counts):
    """Creates, floods its output, deletes, and begins again; takes every refusal and every lost connection for an answer."""
    while not is_over.is_set():
        with contextlib.suppress(*NO_ANSWER):
            status, info = call(view, "POST", "/v1/sandboxes", {"timeout_ms": 60_000})
            if status != 201:
                is_over.wait(0.05)
                continue
            counts.append(info["id"])
            call(view, "POST", f"/v1/sandboxes/{info['id']}/execs", {"argv": ["sh", "-c", "yes | head -c 2000000"]})
            call(view, "DELETE", f"/v1/sandboxes/{info['id']}")


def _has_deleted_all(view):
    """Those whose create or delete got no answer, too."""
    status, page = ask(view, "GET", "/v1/sandboxes?limit=100")
    if status != 200:
        return False
    for s in page["sandboxes"]:
        ask(view, "DELETE", f"/v1/sandboxes/{s['id']}")
    return not page["sandboxes"]


@contextlib.contextmanager
def greedy(view):
    """Until the end of this, the view's project asks for as much as it can get. Gives the list of what it was given."""
    is_over, made = threading.Event(), []
    threads = [threading.Thread(target=_flood, args=(view, is_over, made)) for _ in range(FLOOD_THREADS)]
    for t in threads:
        t.start()
    try:
        yield made
    finally:
        is_over.set()
        for t in threads:
            t.join()
        wait_for(lambda: _has_deleted_all(view), what="an end of all that the neighbour made")
