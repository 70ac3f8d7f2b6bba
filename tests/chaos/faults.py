# SPDX-License-Identifier: Apache-2.0
"""Makes a chosen system call of a running process fail, once, or be its last, by strace.

A dry run counts the calls that an operation makes in each process; a fault is one of them by its number, with an error
that the call can give for want of room, memory, descriptors or a good disk, or with the process's death (DEATH) in place of it. Calls that only give back (close, munmap) are
left alone: strace fails a call by not making it, and what was not given back would be its leak, not ours.
"""

import contextlib
import re
from collections import Counter
from typing import NamedTuple

from harness import strace
from harness.audit import is_zombie
from harness.daemon import read_text

DEATH = "SIGKILL"
MAKES_FILE = ("ENOSPC", "EIO", "ENOMEM")
MAKES_FD = ("EMFILE", "ENOMEM")
ERRORS = {
    "openat": (*MAKES_FILE, "EMFILE"),
    "openat2": (*MAKES_FILE, "EMFILE"),
    **dict.fromkeys(("mkdirat", "mkdir", "mknodat", "symlinkat", "linkat", "renameat", "renameat2"), MAKES_FILE),
    **dict.fromkeys(("write", "pwrite64", "writev", "ftruncate", "fallocate", "fsetxattr", "setxattr"), ("ENOSPC", "EIO")),
    **dict.fromkeys(("read", "pread64", "getdents64", "fsync", "fdatasync", "syncfs", "newfstatat", "statx"), ("EIO",)),
    **dict.fromkeys(("unlinkat", "fchmodat", "fchown", "fchownat"), ("EIO",)),
    **dict.fromkeys(("socket", "socketpair", "pidfd_open", "memfd_create", "eventfd2", "epoll_create1", "dup", "dup3"), MAKES_FD),
    **dict.fromkeys(("pipe2", "timerfd_create", "accept4", "open_tree", "fsopen", "fsmount"), MAKES_FD),
    **dict.fromkeys(("clone3", "clone"), ("EAGAIN", "ENOMEM")),
    **dict.fromkeys(("mount", "move_mount", "mount_setattr", "pivot_root", "umount2", "setns", "unshare"), ("ENOMEM",)),
    **dict.fromkeys(("bind", "listen", "epoll_ctl"), ("ENOMEM",)),
    **dict.fromkeys(("sendmsg", "sendto", "connect"), ("EAGAIN", "ENOMEM")),
    "ioctl": ("ENOSPC", "EIO", "ENOMEM"),
    "setrlimit": ("EPERM",),
    "mmap": ("ENOMEM",),
}


class Fault(NamedTuple):
    part: str  # broker, spawner, gateway or agent
    call: str
    n: int  # the n-th of that call, by one process
    error: str


def _strace(part, pids, *words):
    """Follows the processes and what they fork, but for what an agent does: that is user code."""
    return strace.attached(pids, *words, *([] if part == "agent" else ["-f"]))


def count_calls(part, pids, operation):
    """The most that one process, of those given and what they forked, made of each call during the operation."""
    with _strace(part, pids, "-e", "trace=" + ",".join(ERRORS)) as out:
        operation()
        text = read_text(out)
    made = Counter(re.findall(r"^(\d+ +)?([a-z0-9_]+)\(", text, re.M))
    most = {}
    for (_, name), n in made.items():
        most[name] = max(n, most.get(name, 0))
    return most


def faults_of(part, calls):
    return [Fault(part, name, i, error) for name, n in sorted(calls.items()) for i in range(1, n + 1) for error in (*ERRORS[name], DEATH)]


def _is_dead(pid):
    return not read_text(f"/proc/{pid}/stat") or is_zombie(pid)


@contextlib.contextmanager
def injected(pids, fault):
    """While this lasts, the call fails when it comes; gives a function that tells whether it has come."""
    what = f"signal={DEATH}" if fault.error == DEATH else f"error={fault.error}"
    words = ["-e", f"trace={fault.call}", "-e", f"inject={fault.call}:{what}:when={fault.n}"]
    with _strace(fault.part, pids, *words) as out:
        yield lambda: any(word in read_text(out) for word in ("(INJECTED)", f"killed by {DEATH}")) or any(map(_is_dead, pids))
