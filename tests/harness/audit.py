# SPDX-License-Identifier: Apache-2.0
"""What a daemon has on the host: processes, mounts, cgroups, loop devices, files, open fds.

Only objects of the given daemon count, so that other daemons on the machine do not matter. A test
takes a picture before and after; what is in the second and not in the first was left behind. Spares
come and go, so a picture is taken while as many are ready as there should be, and names none.
"""

import os
import time
from pathlib import Path

from .daemon import call, children_of, read_text, status_value

SETTLE_S = 10


def _cgroup_mounts():
    for line in read_text("/proc/self/mountinfo").splitlines():
        left, _, right = line.partition(" - ")
        if right.split()[0] in ("cgroup", "cgroup2"):
            yield Path(left.split()[4])


def cgroup_dirs(ids):
    """Directories in any cgroup tree that bear one of the ids."""
    found = set()
    for mount in _cgroup_mounts():
        for top in mount.glob("cloche*"):
            for one, dirs, _ in os.walk(top):
                found.update(f"{one}/{d}" for d in dirs if d in ids)
    return found


def processes_of_cgroups(ids):
    pids = set()
    for one in cgroup_dirs(ids):
        for procs in Path(one).rglob("cgroup.procs"):
            pids.update(int(p) for p in read_text(procs).split())
    return pids


def _descendants(pid):
    todo, seen = [pid], set()
    while todo:
        for child in children_of(todo.pop()):
            if child not in seen:
                seen.add(child)
                todo.append(child)
    return seen


def _mounts(daemon, pid="self"):
    """Mounts that name the daemon's directories, or one of its sandboxes."""
    marks = [str(daemon.dir), *daemon.ids()]
    lines = read_text(f"/proc/{pid}/mountinfo").splitlines()
    return {line.split()[4] for line in lines if any(mark in line for mark in marks)}


def loop_devices(directory):
    return {
        str(f.parent.parent.name)
        for f in Path("/sys/block").glob("loop*/loop/backing_file")
        if read_text(f).startswith(str(directory))
    }


def _names_below(path):
    return {str(Path(top) / n) for top, dirs, names in os.walk(path) for n in names + dirs}


def _open_fds(pid, but=("socket:",)):
    n = 0
    for fd in Path(f"/proc/{pid}/fd").iterdir():
        try:
            n += not os.readlink(fd).startswith(but)
        except OSError:
            pass
    return n


def _is_pool_full(daemon):
    pool = call(daemon, "GET", "/v1/health")[1]["pool"]
    return pool["ready"] == pool["target"] == len(daemon.spares())


def picture(daemon):
    """{kind: set of names}; fds of a process, and loop devices (a new broker gets another), as numbers up to their count."""
    deadline = time.monotonic() + SETTLE_S
    while not _is_pool_full(daemon) and time.monotonic() < deadline:
        time.sleep(0.01)
    spares = daemon.spares()
    kinds = _all_that_is_there(daemon, daemon.ids() - spares, processes_of_cgroups(spares))
    return {kind: {n for n in names if not any(s in n for s in spares)} for kind, names in kinds.items()}


def comm_of(pid):
    return read_text(f"/proc/{pid}/comm").strip()


def is_zombie(pid):
    return "\nState:\tZ" in read_text(f"/proc/{pid}/status")


def _is_standby(pid, agents):
    """A living agent's next child: it comes when nothing happens, and goes with the next exec."""
    return comm_of(pid) == "cloche-standby" and status_value(pid, "PPid") in agents


def _helpers(broker):
    """The nest and the zygote, which are replaced when they die, and the zygote's standby, which is by each fork."""
    helpers = {p for p in children_of(broker) if comm_of(p) in ("cloche-nest", "python3") and not is_zombie(p)}
    return helpers | set([child for p in helpers for child in children_of(p)][:1])


def _all_that_is_there(daemon, ids, but_processes):
    broker, gateway = daemon.broker_pid, daemon.gateway_pid
    parts = set(children_of(daemon.process.pid))  # which are started anew when one of them dies
    below = _descendants(daemon.process.pid) - parts - but_processes - _helpers(broker)
    of_sandboxes = processes_of_cgroups(ids)
    processes = {p for p in below | of_sandboxes if not _is_standby(p, of_sandboxes)}
    return {
        "process": {f"{p} {comm_of(p)}" for p in processes},
        "mount": _mounts(daemon) | _mounts(daemon, broker),
        "cgroup": cgroup_dirs(ids),
        "loop device": {str(n) for n in range(len(loop_devices(daemon.dir)))},
        "run file": _names_below(daemon.run / "sandboxes"),
        "spool file": _names_below(daemon.data / "gateway" / "spool"),
        "layer": set(os.listdir(daemon.data / "layers")) if (daemon.data / "layers").is_dir() else set(),
        "fd of the broker": {str(n) for n in range(_open_fds(broker, but=("\0",)))},
        "fd of the gateway": {str(n) for n in range(_open_fds(gateway))},
    }


# A sandbox that lives through several tests keeps the output of its execs meanwhile.
OF_KEPT_EXECS = ("spool file", "fd of the gateway")


def leaks(before, after):
    kinds = [k for k in after if not (before["run file"] and k in OF_KEPT_EXECS)]
    return [f"{kind}: {name}" for kind in kinds for name in sorted(after[kind] - before[kind])]


def settled_leaks(daemon, before):
    """Leaks that are still there after the daemon had time to clean up behind the last reply."""
    deadline = time.monotonic() + SETTLE_S
    while True:
        left = leaks(before, picture(daemon))
        if not left or time.monotonic() >= deadline:
            return left
        time.sleep(0.05)


def left_after_stop(daemon, ids):
    """What a stopped daemon leaves beside its data directory's own files. A loop device may outlive its mount for as long
    as a namespace that was copied meanwhile, by whoever else runs on this machine."""
    deadline = time.monotonic() + SETTLE_S
    while (left := _left_now(daemon, ids)) and time.monotonic() < deadline:
        time.sleep(0.05)
    return left


def _left_now(daemon, ids):
    left = [f"cgroup: {d}" for d in sorted(cgroup_dirs(ids))]
    left += [f"mount: {m}" for m in sorted(_mounts(daemon))]
    left += [f"loop device: {d}" for d in sorted(loop_devices(daemon.dir))]
    left += [f"run file: {n}" for n in sorted(_names_below(daemon.run / "sandboxes"))]
    left += [f"socket: {daemon.socket}"] if daemon.socket.exists() else []
    for proc in Path("/proc").glob("[0-9]*"):
        if str(daemon.dir) in read_text(proc / "cmdline"):
            left.append(f"process: {proc.name} {read_text(proc / 'comm').strip()}")
    return left
