# SPDX-License-Identifier: Apache-2.0
"""What a daemon has on the host: processes, mounts, cgroups, loop devices, files, open fds.

Only objects of the given daemon count, so that other daemons on the machine do not matter. A test
takes a picture before and after; what is in the second and not in the first was left behind. Spares
come and go, and a zygote that dies is replaced: a picture is taken while all that should be there is,
and names none of them.
"""

import contextlib
import functools
import os
import re
import time
from collections import Counter
from pathlib import Path

from .daemon import PATIENCE, SANDBOX_ID, call, children_of, read_text, status_value

SETTLE_S = 60 * PATIENCE  # a layer that goes waits for its filesystem, and that for the disk that others write to
REST_S = 60 * PATIENCE  # a fill or a zygote that failed is tried again, later each time


@functools.cache
def _cgroup_mounts():
    lines = [line.partition(" - ") for line in read_text("/proc/self/mountinfo").splitlines()]
    return [Path(left.split()[4]) for left, _, right in lines if right.split()[0] in ("cgroup", "cgroup2")]


def _names_in(directory):
    try:
        return os.listdir(directory)
    except OSError:
        return []  # another daemon's, which has just stopped


def cgroup_dirs(ids):
    """Directories in any cgroup tree that bear one of the ids."""
    if not ids:
        return set()
    tops = [f"{mount}/{name}" for mount in _cgroup_mounts() for name in _names_in(mount) if name.startswith("cloche")]
    return {f"{top}/{name}" for top in tops for name in _names_in(top) if name in ids}


def _processes_in(groups):
    return {int(p) for one in groups for where, _, _ in os.walk(one) for p in read_text(f"{where}/cgroup.procs").split()}


def processes_of_cgroups(ids):
    return _processes_in(cgroup_dirs(ids))


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
    directory, ids = str(daemon.dir), daemon.ids()
    lines = read_text(f"/proc/{pid}/mountinfo").splitlines()
    return {line.split()[4] for line in lines if directory in line or not ids.isdisjoint(SANDBOX_ID.findall(line))}


def loop_devices(directory):
    names = [n for n in os.listdir("/sys/block") if n.startswith("loop")]
    return {n for n in names if read_text(f"/sys/block/{n}/loop/backing_file").startswith(str(directory))}


def _names_below(path):
    return {str(Path(top) / n) for top, dirs, names in os.walk(path) for n in names + dirs}


def comm_of(pid):
    return read_text(f"/proc/{pid}/comm").strip()


def is_zombie(pid):
    return "\nState:\tZ" in read_text(f"/proc/{pid}/status")


def _describe(pid, fd):
    """What an fd is, without the number that it has: socket, pipe, pidfd of whom, a path. A broker that starts anew after the
    host's packages have changed has a template of another hash."""
    target = re.sub(r"(/templates/host)-[0-9a-f]{16}", r"\1", os.readlink(f"/proc/{pid}/fd/{fd}"))
    if target == "anon_inode:[pidfd]":
        found = re.search(r"^Pid:\s+(-?\d+)", read_text(f"/proc/{pid}/fdinfo/{fd}"), re.M)
        if not found:
            raise FileNotFoundError(f"fd {fd} was closed meanwhile")
        return f"pidfd of {found.group(1)} {comm_of(found.group(1))}"
    return re.sub(r":\[\d+\]$", "", target).replace(f"/proc/{pid}/", "/proc/self/")


def _open_fds(pid, but=(), sockets=0):
    """Each as a kind and a count, so that one more than before has a name. but: kinds, and processes whose pidfds do not count,
    nor do so many sockets."""
    kinds = Counter(socket=-sockets)
    for fd in os.listdir(f"/proc/{pid}/fd"):
        try:
            kinds[_describe(pid, fd)] += 1
        except OSError:
            pass
    kinds = {kind: n for kind, n in kinds.items() if kind not in but and not kind.startswith(tuple(f"pidfd of {p} " for p in but))}
    return {f"{kind} ({n})" for kind, most in kinds.items() for n in range(1, most + 1)}


# From its first machine on a broker has each of these open once.
OF_MACHINES = re.compile(r"(/memfd:cloche-initrd \(deleted\)|/fittings\.erofs \(deleted\)|/vmlinu[xz]) \(1\)$")


def _broker_fds(broker, but):
    return {fd for fd in _open_fds(broker, but, sockets=_count_spawners(broker)) if not OF_MACHINES.search(fd)}


def _unrest(daemon):
    """What is not there that should be, or the other way round; "" when a picture can be taken."""
    pool = call(daemon, "GET", "/v1/health")[1]["pool"]
    spares = daemon.spares()
    if not pool["ready"] == pool["target"] == len(spares):
        return f"the pool has {pool}, by the log {sorted(spares)}"
    names = [comm_of(p) for p in children_of(daemon.broker_pid)]
    if "python3" not in names and "--no-zygotes" not in daemon.options:
        return f"no zygote among {names}"
    return ""


def _await_rest(daemon):
    deadline = time.monotonic() + REST_S
    while why := _unrest(daemon):
        daemon.check_parts()
        assert time.monotonic() < deadline, f"the daemon does not come to rest: {why}; its log ends:\n{daemon.log()[-2000:]}"
        time.sleep(0.01)


def picture(daemon):
    """{kind: set of names}; loop devices as numbers up to their count, since a new broker gets another."""
    _await_rest(daemon)
    spares = daemon.spares()
    kinds = _all_that_is_there(daemon, daemon.ids() - spares, processes_of_cgroups(spares))
    return {kind: {n for n in names if not any(s in n for s in spares)} for kind, names in kinds.items()}


def _is_standby(pid, agents):
    """A living agent's next child: it comes when nothing happens, and goes with the next exec."""
    return comm_of(pid) == "cloche-standby" and status_value(pid, "PPid") in agents


def _helpers(broker):
    """The starter, which is each broker's own; the spawner and the zygote, which are replaced when they die; and the zygote's standby, which is by each fork."""
    helpers = {p for p in children_of(broker) if comm_of(p) in ("cloche-spawner", "cloche-starter", "python3") and not is_zombie(p)}
    return helpers | set([child for p in helpers for child in children_of(p)][:1])


def _count_spawners(broker):
    """0 or 1: one that has died is made again when it is needed."""
    return int(any(comm_of(p) == "cloche-spawner" for p in children_of(broker)))


def _all_that_is_there(daemon, ids, but_processes):
    broker, gateway = daemon.broker_pid, daemon.gateway_pid
    parts = set(children_of(daemon.process.pid))  # which are started anew when one of them dies
    helpers = _helpers(broker)
    below = _descendants(daemon.process.pid) - parts - but_processes - helpers
    groups = cgroup_dirs(ids)
    of_sandboxes = _processes_in(groups)
    processes = {p for p in below | of_sandboxes if not _is_standby(p, of_sandboxes)}
    return {
        "process": {f"{p} {comm_of(p)}" for p in processes},
        "mount": _mounts(daemon) | _mounts(daemon, broker),
        "cgroup": groups,
        "loop device": {str(n) for n in range(len(loop_devices(daemon.dir)))},
        "run file": _names_below(daemon.run / "sandboxes"),
        "spool file": _names_below(daemon.data / "gateway" / "spool"),
        "layer": set(os.listdir(daemon.data / "layers")) if (daemon.data / "layers").is_dir() else set(),
        "fd of the broker": _broker_fds(broker, but_processes | helpers),
        "fd of the gateway": {fd for fd in _open_fds(gateway, but=("socket",)) if "/etilqs_" not in fd},  # those are SQLite's own, as long as it likes
    }


# A sandbox that lives through several tests keeps the output of its execs meanwhile.
OF_KEPT_EXECS = ("spool file", "fd of the gateway")


def leaks(before, after):
    kinds = [k for k in after if not (before["run file"] and k in OF_KEPT_EXECS)]
    return [f"{kind}: {name}" for kind in kinds for name in sorted(after[kind] - before[kind])]


def settled_leaks(daemon, before):
    """(leaks that are still there after the daemon had time to clean up behind the last reply, the last picture)"""
    deadline = time.monotonic() + SETTLE_S
    while True:
        after = picture(daemon)
        left = leaks(before, after)
        daemon.check_parts()
        if not left or time.monotonic() >= deadline:
            return left, after
        time.sleep(0.05)


def own_cgroups(daemon):
    """The group that all of a daemon's lie in, in each tree. Its name is a hash of the run directory."""
    number = 2166136261
    for byte in str(daemon.run).encode():
        number = (number ^ byte) * 16777619 % (1 << 32)
    name = f"cloche-{number:08x}"
    return [f"{where}/{name}" for mount in _cgroup_mounts() for where, names, _ in os.walk(mount) if name in names]


def _left_now(daemon, ids):
    left = [f"cgroup: {d}" for d in sorted({*cgroup_dirs(ids), *own_cgroups(daemon)})]
    left += [f"mount: {m}" for m in sorted(_mounts(daemon))]
    left += [f"loop device: {d}" for d in sorted(loop_devices(daemon.dir))]
    left += [f"run file: {n}" for n in sorted(_names_below(daemon.run / "sandboxes"))]
    left += [f"socket: {daemon.socket}"] if daemon.socket.exists() else []
    for proc in Path("/proc").glob("[0-9]*"):
        if str(daemon.dir) in read_text(proc / "cmdline"):
            left.append(f"process: {proc.name} {comm_of(proc.name)}")
    return left


def drop_copies(path):
    """Who makes a mount namespace has copies of all mounts, and may live for minutes, as CRIU, or for hours, as somebody else's tests. Those that were on an
    empty directory go with it. Returns whether it did."""
    try:
        os.rmdir(path)
    except OSError:
        return False
    return True


def _drop_copies_of(place):
    """The same, and the directory stays."""
    with contextlib.suppress(FileNotFoundError):
        was = place.stat()
        if drop_copies(place):
            place.mkdir()
            place.chmod(was.st_mode & 0o7777)
            os.chown(place, was.st_uid, was.st_gid)


def left_after_stop(daemon, ids, but=frozenset()):
    """but: what the test itself has put there. What a stopped daemon must not leave: nothing but its data directory's own files. A loop device that is only
    in use by others' copies of its mount is none of the daemon's."""
    deadline = time.monotonic() + SETTLE_S
    while (left := [x for x in _left_now(daemon, ids) if x not in but]) and time.monotonic() < deadline:
        if all(x.startswith("loop device: ") for x in left):
            for place in (daemon.data / "layers", daemon.data):
                _drop_copies_of(place)
        time.sleep(0.05)
    return left
