# SPDX-License-Identifier: Apache-2.0
"""The machine that the figures are of."""

from __future__ import annotations

import datetime
import os
import platform
import re
import subprocess
import time
from pathlib import Path
from typing import Dict, Tuple

PACKAGES = ("python3", "bubblewrap", "runsc", "mitmproxy", "python3-jupyter-client", "python3-ipykernel")


def cpu_model() -> str:
    text = Path("/proc/cpuinfo").read_text()
    match = re.search(r"^(?:model name|Model)\s*:\s*(.+)$", text, re.M)
    if match:
        return match.group(1)
    part = re.search(r"^CPU part\s*:\s*(.+)$", text, re.M)  # arm64 tells numbers only
    return f"{platform.machine()} CPU, part {part.group(1)}" if part else platform.machine()


def versions() -> Dict[str, str]:
    found = {}
    for name in PACKAGES:
        r = subprocess.run(["dpkg-query", "-W", "-f", "${Version}", name], capture_output=True, text=True)
        found[name] = r.stdout if r.returncode == 0 and r.stdout else "absent"
    return found


def describe(build: str) -> Dict[str, object]:
    r = subprocess.run([f"{build}/cloche", "version"], capture_output=True, text=True, env={**os.environ, "CLOCHE_URL": "unix:/nowhere"})
    options = subprocess.run(["meson", "introspect", "--buildoptions", build], capture_output=True, text=True).stdout
    kind = re.search(r'"name": "buildtype", "value": "(\w+)"', options)
    return {
        "cpu": cpu_model(),
        "cores": os.cpu_count(),
        "memory_mib": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") >> 20,
        "arch": platform.machine(),
        "kernel": platform.release(),
        "load": os.getloadavg()[0],
        "date": datetime.date.today().isoformat(),
        "cloche": r.stdout.split("\n")[0].strip(),
        "buildtype": kind.group(1) if kind else "unknown",
        "packages": versions(),
    }


def is_busy(described: Dict[str, object]) -> bool:
    """Whether it had so much to do before the run that the figures are poor."""
    return described["load"] > described["cores"] / 2


class Stolen:
    """The part of the CPU time since then that a hypervisor gave to somebody else, as figures of a virtual machine depend on it."""

    def __init__(self) -> None:
        self.before = self._read()

    @staticmethod
    def _read() -> Tuple[int, int]:
        times = [int(n) for n in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
        return times[7], sum(times)

    def percent(self) -> float:
        stolen, total = (now - before for now, before in zip(self._read(), self.before))
        return 100 * stolen / max(total, 1)


ACCOUNTS = Path("/sys/fs/cgroup/cpuacct")


class Account:
    """CPU time of this process and of all that it starts from now on, daemons and sandboxes too. It is a control group of the v1 tree `cpuacct`; a host
    without that tree has no account."""

    WAIT_S = 10

    def __init__(self) -> None:
        self._group = ACCOUNTS / f"cloche-bench-{os.getpid()}"
        self.is_there = (ACCOUNTS / "cpuacct.usage").exists()
        if self.is_there:
            self._home = re.search(r"^\d+:(?:\w+,)*cpuacct(?:,\w+)*:/(.*)$", Path("/proc/self/cgroup").read_text(), re.M).group(1)
            self._group.mkdir()
            (self._group / "cgroup.procs").write_text(str(os.getpid()))

    def used_ms(self) -> float:
        return int((self._group / "cpuacct.usage").read_text()) / 1e6

    def close(self) -> None:
        """When all that was started has ended."""
        if not self.is_there:
            return
        (ACCOUNTS / self._home / "cgroup.procs").write_text(str(os.getpid()))
        deadline = time.monotonic() + self.WAIT_S  # the last may still be ending
        for path, _names, _files in os.walk(self._group, topdown=False):
            while True:
                try:
                    os.rmdir(path)
                    break
                except OSError as error:
                    if time.monotonic() > deadline:
                        print(f"bench: {path} stays: {error}")
                        break
                    time.sleep(0.01)
