# SPDX-License-Identifier: Apache-2.0
"""What of a daemon is on the host while sandboxes live: exactly what those need, its spares, and its own processes.

Processes of ours are known by a mark in their environment, those of sandboxes by their cgroup. A daemon that was killed
cleans up behind the next one's first answer, so a look is repeated until nothing is wrong, or for as long as that may take.
"""

import os
import re
import time
from collections import Counter
from pathlib import Path

from harness import audit
from harness.daemon import call, children_of, read_text

SETTLE_S = 60
SPAWNER = "cloche-spawner"  # one that died is made again when it is needed
ALIVE = ("creating", "running", "pausing", "paused", "stopping")


def marked(mark):
    """{pid: name} of the processes that have the mark: ours, and whatever they forked."""
    found = {}
    for proc in Path("/proc").glob("[0-9]*"):
        if mark in read_text(proc / "environ"):
            found[int(proc.name)] = read_text(proc / "comm").strip()
    return found


def cgroup_top(pid):
    """The name of the daemon's own directory in each cgroup tree."""
    for line in read_text(f"/proc/{pid}/cgroup").splitlines():
        for word in line.split("/"):
            if word.startswith("cloche"):
                return word
    return None


def cgroup_members(top):
    """{name: pids}: what lies below the daemon's directory in any tree."""
    found = {}
    for mount in audit._cgroup_mounts():
        for where, _, _ in os.walk(mount / top):
            inside = Path(where).relative_to(mount / top).parts
            if inside:
                pids = read_text(Path(where) / "cgroup.procs").split()
                found.setdefault(inside[0], set()).update(int(p) for p in pids)
    return found


def counted_ns(top, sandbox_id):
    """The kernel's own count of the CPU time that ran for the sandbox's user."""
    for mount in audit._cgroup_mounts():
        user = mount / top / sandbox_id / "user"
        if text := read_text(user / "cpuacct.usage"):
            return int(text)
        if found := re.search(r"^usage_usec (\d+)", read_text(user / "cpu.stat"), re.M):
            return int(found.group(1)) * 1000
    return None


class Host:
    def __init__(self, daemon, mark, top, owners, views):
        """owners: {exec: its sandbox}, which grows. views: the daemon as each project sees it."""
        self.daemon, self.mark, self.top, self.owners, self.views = daemon, mark, top, owners, views
        self.know_parts()
        self.mounts, self.loops = self._mounts(), audit.loop_devices(daemon.dir)

    def know_parts(self):
        """Takes the daemon's processes for what they should be; nobody has disturbed it."""
        self.parts = Counter(marked(self.mark).values())

    def _mounts(self):
        return {m for m in audit._mounts(self.daemon) if "sb_" not in m}

    def wrongs(self, listed):
        """What is there and should not be, or the other way round."""
        pool = call(self.daemon, "GET", "/v1/health")[1]["pool"]
        on_disk = {s["id"] for s in listed if s["paused_to"] == "disk"}
        alive = {s["id"] for s in listed if s["state"] in ALIVE} - on_disk
        kept = {s["id"] for s in listed} - alive - on_disk
        runs = set(os.listdir(self.daemon.run / "sandboxes"))
        spares = runs - alive
        wrong = [f"no run directory: {i}" for i in alive - runs]
        if not len(spares) == pool["ready"] == pool["target"]:
            wrong.append(f"spares: {sorted(spares)}, where the pool has {pool}")
        wrong += self._wrong_groups(alive | spares)
        wrong += self._wrong_processes()
        wrong += self._wrong_files(alive | spares, kept, on_disk)
        wrong += [f"mount: {m}" for m in self._mounts() ^ self.mounts]
        wrong += [f"loop device: {d}" for d in audit.loop_devices(self.daemon.dir) ^ self.loops]
        return wrong

    def _wrong_groups(self, running):
        groups = {n: p for n, p in cgroup_members(self.top).items() if n.startswith("sb_")}
        wrong = [f"cgroup: {n} with {p}" for n, p in groups.items() if n not in running]
        return wrong + [f"no process in {n}" for n in running if not groups.get(n)]

    def _wrong_processes(self):
        ours = marked(self.mark)
        parts = Counter(ours.values())
        is_right = parts[SPAWNER] <= 1 and {**parts, SPAWNER: 0} == {**self.parts, SPAWNER: 0}
        wrong = [] if is_right else [f"processes: {dict(parts)} instead of {dict(self.parts)}"]
        return wrong + [f"zombie: {p} {audit.comm_of(p)}" for parent in ours for p in children_of(parent) if audit.is_zombie(p)]

    def _wrong_files(self, running, kept, on_disk):
        """What is paused on disk has its files in a snapshot, and a persistent one its layer besides."""
        wrong = []
        layers = self.daemon.data / "layers"
        if layers.is_dir():
            names = {n for n in os.listdir(layers) if n.startswith("sb_")}
            wrong += [f"layer: {n}" for n in (names ^ (running | kept)) - on_disk]
        spool = self.daemon.data / "gateway" / "spool"
        return wrong + [f"spool file: {n}" for n in os.listdir(spool) if not self._has_exec(n)]

    def _has_exec(self, name):
        """A spool is named as its exec, which is told of for as long as it has output."""
        path = f"/v1/sandboxes/{self.owners.get(name)}/execs/{name}"
        return name in self.owners and any(call(view, "GET", path)[0] == 200 for view in self.views)

    def look(self, listed):
        deadline = time.monotonic() + SETTLE_S
        while True:
            wrong = self.wrongs(listed())
            if not wrong or time.monotonic() >= deadline:
                return wrong
            time.sleep(0.02)
