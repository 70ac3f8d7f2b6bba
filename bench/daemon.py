# SPDX-License-Identifier: Apache-2.0
"""A daemon for the bench: on directories and a port of its own, gone with all that it made."""

from __future__ import annotations

import functools
import os
import shutil
import socket
import subprocess
import tempfile
import time
from pathlib import Path
from typing import List, Optional, Sequence

from link import Link

READY_S = 60
FULL_POOL_S = 5
PARTS = ("cloche", "cloche-gateway", "cloche-broker", "cloche-wall", "cloche-dialer", "cloche-starter", "cloche-spawner")


@functools.lru_cache(maxsize=None)
def knows(build: str, option: str) -> bool:
    text = subprocess.run([f"{build}/cloche", "serve", "--help"], capture_output=True, text=True).stdout
    return f"--{option} " in text


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Daemon:
    def __init__(
        self, build: str, *, pool: bool, sandboxes_max: int = 1000, options: Sequence[str] = (), kernels: Optional[Path] = None
    ) -> None:
        self.has_pool = pool and knows(build, "pool-max")
        self.dir = Path(tempfile.mkdtemp(prefix="cloche-bench-", dir="/var/tmp"))
        self.dir.chmod(0o755)
        # A tmpfs, as /run is: ext4 looks for an inode that nobody has just deleted, and that takes milliseconds.
        self.run = Path(tempfile.mkdtemp(prefix="cloche-bench-", dir="/dev/shm"))
        self.run.chmod(0o755)
        self.port = free_port()
        argv = [f"{build}/cloche", "serve", "--rm", "--config", "/dev/null", "--data", f"{self.dir}/data", "--run", f"{self.run}"]
        argv += ["--listen", f"127.0.0.1:{self.port}", "--sandboxes-max", str(sandboxes_max), "--log-level", "warn"]
        if not pool and knows(build, "pool-max"):
            argv += ["--pool-min", "0", "--pool-max", "0"]
        argv += options
        if kernels:  # of vms
            (self.dir / "data").mkdir(mode=0o711)
            (self.dir / "data" / "kernels").symlink_to(kernels)
        read, write = os.pipe()
        with open(self.dir / "log", "w") as log:
            self.process = subprocess.Popen([*argv, "--ready-fd", str(write)], pass_fds=[write], stdout=log, stderr=log)
        os.close(write)
        with os.fdopen(read, "rb") as ready:
            if not ready.read(1):
                self.process.wait(READY_S)
                raise SystemExit(f"bench: the daemon did not start:\n{(self.dir / 'log').read_text()}")
        self.control = self.unix()

    @property
    def key(self) -> str:
        return (self.dir / "data" / "admin.key").read_text().strip()

    def unix(self) -> Link:
        return Link(f"{self.run}/cloche.sock")

    def tcp(self) -> Link:
        return Link(("127.0.0.1", self.port), self.key)

    def settle(self) -> None:
        """Waits until the pool is as full as it wants to be, so that its refill is in nobody's figures."""
        deadline = time.monotonic() + FULL_POOL_S
        self.control = self.unix()  # the one before may have been idle for so long that the daemon closed it
        while self.has_pool and time.monotonic() < deadline:
            pool = self.control.call("GET", "/v1/health").get("pool")
            if not pool or pool["ready"] >= pool["target"]:
                return
            time.sleep(0.002)

    def gateway_rss_mib(self) -> float:
        for pid in children_of(self.process.pid):
            if "gateway" in name_of(pid):
                fields = dict(line.split(":", 1) for line in read_text(f"/proc/{pid}/status").splitlines())
                return int(fields["VmRSS"].split()[0]) / 1024
        raise SystemExit("bench: no gateway process")

    def close(self) -> None:
        self.control.close()
        self.process.terminate()
        self.process.wait(120)
        shutil.rmtree(self.dir, ignore_errors=True)
        shutil.rmtree(self.run, ignore_errors=True)


def read_text(path: str) -> str:
    try:
        return Path(path).read_text(errors="replace")
    except OSError:
        return ""


def name_of(pid: int) -> str:
    return read_text(f"/proc/{pid}/comm") + read_text(f"/proc/{pid}/cmdline")


def children_of(pid: int) -> List[int]:
    return [int(p) for t in Path(f"/proc/{pid}/task").glob("*/children") for p in read_text(str(t)).split()]


def parts(daemon: Daemon) -> List[int]:
    """The processes of the daemon itself, without what runs in sandboxes."""
    pids, found = [daemon.process.pid], []
    while pids:
        pid = pids.pop()
        if read_text(f"/proc/{pid}/comm").strip() in PARTS:
            found.append(pid)
            pids += children_of(pid)
    return found
