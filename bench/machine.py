# SPDX-License-Identifier: Apache-2.0
"""The machine that the figures are of."""

from __future__ import annotations

import datetime
import os
import platform
import re
import subprocess
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
