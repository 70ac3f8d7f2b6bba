# SPDX-License-Identifier: Apache-2.0
"""strace on running processes."""

import contextlib
import re
import signal
import subprocess
import tempfile
from pathlib import Path

from .daemon import status_value, wait_for

# How often these are called depends on how busy the host is.
WAITS = {"clock_gettime", "epoll_pwait", "epoll_wait", "futex", "poll", "restart_syscall"}


@contextlib.contextmanager
def attached(pids, *words):
    """Gives the path of its output."""
    with tempfile.NamedTemporaryFile(prefix="cloche-strace-", dir="/var/tmp") as out:
        argv = ["strace", "-q", "-o", out.name, *words]
        for pid in pids:
            argv += ["-p", str(pid)]
        process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE)
        try:
            wait_for(lambda: process.poll() is not None or all(status_value(p, "TracerPid") == process.pid for p in pids), 10, "strace")
            yield Path(out.name)
        finally:
            process.send_signal(signal.SIGTERM)
            try:
                process.communicate(timeout=10)
            except subprocess.TimeoutExpired:  # it waits for one that dies in a pid namespace which is ending, and that for it
                process.kill()
                process.communicate()


def count_calls(pid, operation):
    """How many system calls the process and what it forks make during the operation, but for those that wait."""
    with attached([pid], "-f") as out:
        operation()
        lines = out.read_text(errors="replace")
    return sum(name not in WAITS for name in re.findall(r"^(?:\d+ +)?([a-z0-9_]+)\(", lines, re.M))
