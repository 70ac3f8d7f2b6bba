# SPDX-License-Identifier: Apache-2.0
"""What more cores give: a run on some of them, and where its CPU time goes."""

from __future__ import annotations

import os
import time
from contextlib import contextmanager
from pathlib import Path
from typing import Dict, Iterator, Tuple

from daemon import Daemon, parts, read_text

TICKS = os.sysconf("SC_CLK_TCK")


@contextmanager
def on_cpus(n: int) -> Iterator[None]:
    """This process, and all that it starts meanwhile."""
    all_of_them = os.sched_getaffinity(0)
    os.sched_setaffinity(0, sorted(all_of_them)[:n])
    try:
        yield
    finally:
        os.sched_setaffinity(0, all_of_them)


def cpus(n: int) -> str:
    return f"{n} CPU" + ("s" if n > 1 else "")


def machine_s() -> float:
    """CPU time of all that runs on the machine, since its start."""
    user, nice, system, _, _, irq, softirq = (int(n) for n in Path("/proc/stat").read_text().split(None, 8)[1:8])
    return (user + nice + system + irq + softirq) / TICKS


def thread_times(daemon: Daemon) -> Dict[str, Tuple[str, float]]:
    """Name and CPU time of each thread of the daemon, by its directory in /proc."""
    times = {}
    for pid in parts(daemon):
        for thread in Path(f"/proc/{pid}/task").glob("*"):
            if spent := read_text(f"{thread}/schedstat").split():
                times[str(thread)] = (read_text(f"{thread}/comm").strip(), int(spent[0]) / 1e9)
    return times


class Spent:
    """CPU time from here to stop(): of the daemon with its sandboxes, which is the machine's less the client's, and of the daemon's busiest thread."""

    def __init__(self, daemon: Daemon) -> None:
        self.daemon, self.threads, self.before = daemon, thread_times(daemon), machine_s() - time.process_time()

    def stop(self) -> None:
        self.all_s = machine_s() - time.process_time() - self.before
        now = thread_times(self.daemon)
        self.busiest_s, self.busiest = max((s - self.threads.get(thread, ("", 0))[1], name) for thread, (name, s) in now.items())
