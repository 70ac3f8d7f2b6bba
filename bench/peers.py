# SPDX-License-Identifier: Apache-2.0
"""Those we are measured beside, all of them Debian's packages: a bare process, bubblewrap, gVisor's runsc, and a Jupyter
kernel. An absent one is None."""

from __future__ import annotations

import functools
import importlib.util
import os
import shutil
import subprocess
import warnings
from typing import Callable, List, Optional

from measure import timed

PYTHON = "/usr/bin/python3"
TRUE = "/usr/bin/true"
BWRAP = ["bwrap", "--unshare-all", "--die-with-parent", "--ro-bind", "/usr", "/usr", "--symlink", "usr/lib", "/lib", "--symlink", "usr/bin", "/bin"]
BWRAP += ["--symlink", "usr/lib64", "/lib64"] if os.path.exists("/lib64") else []
BWRAP += ["--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp"]
# ptrace works on every host; the cgroups of some test machines runsc does not know.
RUNSC = ["runsc", "--network=none", "--ignore-cgroups", "--platform=ptrace", "do"]


def spawn(argv: List[str]) -> None:
    """As cheap as a process can be started from here."""
    pid = os.posix_spawn(argv[0], argv, os.environ, file_actions=[(os.POSIX_SPAWN_OPEN, 1, "/dev/null", os.O_WRONLY, 0)])
    if os.waitpid(pid, 0)[1] != 0:
        raise SystemExit(f"bench: {' '.join(argv)} failed")


@functools.lru_cache(maxsize=None)
def works(tool: str) -> bool:
    """Whether the tool is there and can run anything at all on this machine."""
    prefix = {"bwrap": BWRAP, "runsc": RUNSC}[tool]
    if not shutil.which(tool):
        return False
    r = subprocess.run([*prefix, TRUE], capture_output=True, text=True, timeout=60)
    if r.returncode != 0:
        print(f"bench: {tool} is installed and does not run here: {r.stderr.strip().splitlines()[-1:]}")
    return r.returncode == 0


def full(argv: List[str]) -> List[str]:
    return [shutil.which(argv[0]) or argv[0], *argv[1:]]


def bare(*words: str) -> Callable[[], float]:
    return lambda: timed(lambda: spawn(list(words)))


def bwrap(*words: str) -> Optional[Callable[[], float]]:
    return bare(*full(BWRAP), *words) if works("bwrap") else None


def runsc(*words: str) -> Optional[Callable[[], float]]:
    return bare(*full(RUNSC), *words) if works("runsc") else None


class Jupyter:
    """A kernel of its own, through jupyter_client as notebooks and most code interpreters use it."""

    def __init__(self) -> None:
        from jupyter_client import KernelManager

        os.environ["PYDEVD_DISABLE_FILE_VALIDATION"] = "1"  # it warns of what concerns debuggers only
        self.manager = KernelManager(kernel_name="python3")
        self.manager.start_kernel(stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.client = self.manager.client()
        self.client.start_channels()
        self.client.wait_for_ready(timeout=60)

    @staticmethod
    def is_there() -> bool:
        return all(importlib.util.find_spec(name) for name in ("ipykernel", "jupyter_client"))

    def run(self, code: str) -> None:
        """Until the reply is there and the kernel says that all output was sent."""
        id = self.client.execute(code)
        while True:
            message = self.client.get_iopub_msg(timeout=60)
            if message["parent_header"].get("msg_id") == id and message["content"].get("execution_state") == "idle":
                break
        while self.client.get_shell_msg(timeout=60)["parent_header"].get("msg_id") != id:
            pass

    def close(self) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self.client.stop_channels()
            self.manager.shutdown_kernel(now=True)


def jupyter_start(code: str) -> Optional[Callable[[], float]]:
    """A kernel from nothing to the end of its first code."""
    if not Jupyter.is_there():
        return None

    def once() -> float:
        kernels: List[Jupyter] = []

        def begin() -> None:
            kernels.append(Jupyter())
            kernels[0].run(code)

        took = timed(begin)
        kernels[0].close()
        return took

    return once
