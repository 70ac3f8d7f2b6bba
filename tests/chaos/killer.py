# SPDX-License-Identifier: Apache-2.0
"""kill -9 of any process of a daemon, at a moment that a seed decides."""

import contextlib
import os
import random
import re
import signal
import time

from harness.daemon import call, read_text, wait_for

from . import host
from .model import NO_ANSWER

BACK_S = 60
# How often each comes, of all.
TARGETS = {"gateway": 5, "broker": 5, "both": 3, "again": 4, "launcher": 3, "all": 2, "spawner": 3, "starter": 2, "zygote": 2, "dialer": 2, "wall": 3, "standby": 2, "agent": 1}


def _pids_inside(pid):
    """Its number in each pid namespace that it is in."""
    found = re.search(r"^NSpid:(.*)$", read_text(f"/proc/{pid}/status"), re.M)
    return found.group(1).split() if found else []


class Killer:
    def __init__(self, daemon, load, mark, top, seed):
        self.daemon, self.load, self.mark, self.top = daemon, load, mark, top
        self.rng = random.Random(f"{seed}/killer")

    def _pids(self, *names):
        """Those of the daemon itself, not of a sandbox that is being made and has not another name yet."""
        ours = {p: n for p, n in host.marked(self.mark).items() if len(_pids_inside(p)) == 1}
        return [pid for pid, name in ours.items() if not names or name in names]

    def _kill(self, pids):
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def strike(self):
        """Waits for a random moment, kills, and says what; the daemon answers again afterwards."""
        target = self.rng.choices(list(TARGETS), list(TARGETS.values()))[0]
        time.sleep(self.rng.expovariate(1 / 0.15))
        getattr(self, f"_{target}", lambda: self._kill(self._pids(f"cloche-{target}")))()
        if self.daemon.process.poll() is not None:
            self._start_again()
        wait_for(self._answers, BACK_S, "an answer")
        return target

    def _answers(self):
        with contextlib.suppress(*NO_ANSWER):
            return call(self.daemon, "GET", "/v1/health")[0] == 200
        return False

    def _start_again(self):
        """As an init system does: at once, and again where what was left has not gone yet."""
        deadline = time.monotonic() + BACK_S
        while True:
            try:
                return self.daemon.start()
            except RuntimeError:
                if time.monotonic() >= deadline:
                    raise

    def _both(self):
        self._kill(self._pids("cloche-gateway", "cloche-broker"))

    def _again(self):
        """The successor dies as well, while it takes over."""
        for _ in range(self.rng.randint(2, 4)):
            name = self.rng.choice(("gateway", "broker"))
            self._kill(self._pids(f"cloche-{name}"))
            time.sleep(self.rng.uniform(0, 0.15))

    def _launcher(self):
        self.daemon.process.kill()
        self.daemon.process.wait()

    def _all(self):
        self._kill(sorted(self._pids(), reverse=self.rng.random() < 0.5))
        self.daemon.process.wait()

    def _starter(self):
        """The broker's or the launcher's own. A launcher without one ends, so that it is started again."""
        pid = self.rng.choice(sorted(self._pids("cloche-starter")) or [None])
        if pid is None:
            return
        is_launchers = f"PPid:\t{self.daemon.process.pid}\n" in read_text(f"/proc/{pid}/status")
        self._kill([pid])
        if is_launchers:
            self.daemon.process.wait(BACK_S)

    def _zygote(self):
        groups = host.cgroup_members(self.top)
        self._kill({p for name, pids in groups.items() if name.startswith("zygote") for p in pids})

    def _standby(self):
        """It may be an exec by the time that it is killed."""
        for box in self.load.boxes:
            pids = [p for p in host.cgroup_members(self.top).get(box.id, ()) if "standby" in read_text(f"/proc/{p}/comm")]
            if pids:
                box.shake()
                return self._kill(pids[:1])
        return None

    def _agent(self):
        boxes = [b for b in self.load.boxes if "running" in b.states]
        if not boxes:
            return
        box = self.rng.choice(boxes)
        agents = [p for p in host.cgroup_members(self.top).get(box.id, ()) if "cloche-ag" in read_text(f"/proc/{p}/comm")]
        box.is_victim = True
        box.rest()
        self._kill(agents[:1])
