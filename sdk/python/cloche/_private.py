# SPDX-License-Identifier: Apache-2.0
"""Where the daemon is when nobody says: CLOCHE_URL, then the local socket, and then one of our own.

A private daemon is started where a `cloche` program is at hand (CLOCHE_PROGRAM, or in PATH) and this process may run it. All
clients of the process share it, and it ends with the process, however that ends: it holds the other end of a pipe that only this
process has open. Its files are in a directory of its own, which is deleted; where a process was killed, by the next one.
"""

from __future__ import annotations

import atexit
import glob
import os
import select
import shutil
import socket
import subprocess
import tempfile
import threading
from typing import List, Optional, Tuple

from . import errors
from ._protocol import DEFAULT_SOCKET, Endpoint

PLACE = "/var/tmp/cloche-private-"  # then the process's id, and something that is new
READY_S = 60
STOP_S = 60


def locate() -> Tuple[Endpoint, Optional[str]]:
    """The endpoint, and the key for it where that is ours to know."""
    if os.environ.get("CLOCHE_URL") or os.path.exists(DEFAULT_SOCKET):
        return Endpoint.default(), None
    program = os.environ.get("CLOCHE_PROGRAM") or shutil.which("cloche")
    if program is None or os.geteuid() != 0:
        return Endpoint.default(), None
    with _lock:
        if not _running:
            _running.append(PrivateDaemon(program))
        return _running[0].endpoint, None


class PrivateDaemon:
    def __init__(self, program: str) -> None:
        self._owner = os.getpid()
        sweep()
        self._dir = tempfile.mkdtemp(prefix=f"{os.path.basename(PLACE)}{self._owner}-", dir=os.path.dirname(PLACE))
        self.endpoint = Endpoint("unix", path=f"{self._dir}/run/cloche.sock")
        try:
            self._process = self._start(program)
        except BaseException:
            shutil.rmtree(self._dir, ignore_errors=True)
            raise
        atexit.register(self.stop)

    def _start(self, program: str) -> "subprocess.Popen[bytes]":
        os.chmod(self._dir, 0o755)  # its gateway is another user
        ready, told = os.pipe()
        life, self._life = os.pipe()
        argv = [program, "serve", "--data", f"{self._dir}/data", "--run", f"{self._dir}/run", "--listen", "none"]
        argv += ["--rm", "--ready-fd", str(told), "--life-fd", str(life)]
        with open(f"{self._dir}/log", "wb") as log:
            process = subprocess.Popen(
                argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log, pass_fds=[told, life], start_new_session=True
            )
        os.close(told)
        os.close(life)
        with os.fdopen(ready, "rb") as f:
            word = f.readline() if select.select([f], [], [], READY_S)[0] else b""
        if word != b"ready\n":
            os.close(self._life)
            process.wait()
            with open(f"{self._dir}/log", errors="replace") as said:
                words = said.read().strip().splitlines() or ["it said nothing"]
            raise errors.ConnectionFailed(f"a private daemon ({program}) did not start: {words[-1]}")
        return process

    def stop(self) -> None:
        if os.getpid() != self._owner:
            return  # a fork of the process that it belongs to
        os.close(self._life)
        try:
            self._process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        shutil.rmtree(self._dir, ignore_errors=True)


def sweep() -> None:
    """Deletes what processes left that were killed."""
    for path in glob.glob(PLACE + "*"):
        owner = path[len(PLACE) :].partition("-")[0]
        if not os.path.exists(f"/proc/{owner}") and not _answers(f"{path}/run/cloche.sock"):
            shutil.rmtree(path, ignore_errors=True)


def _answers(path: str) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as s:
        return s.connect_ex(path) == 0


_lock = threading.Lock()
_running: List[PrivateDaemon] = []
