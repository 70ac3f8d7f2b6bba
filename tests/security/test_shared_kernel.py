# SPDX-License-Identifier: Apache-2.0
"""Sandboxes that share a kernel: none sees, locks or uses up what is another's.

Each case has two sandboxes, and a control that shows the attempt working where the wall is absent: inside one sandbox.
"""

import pytest
from harness.daemon import wait_for

pytestmark = pytest.mark.jail  # a vm has a kernel of its own, and shares no inode or counter with another

SEEN = ["/dev/null", "/dev/zero", "/dev/urandom", "/proc/devices", "/proc/cpuinfo", "/proc/meminfo", "/sys/devices/system/cpu/online"]
OPEN = f"for f in {' '.join(SEEN)}; do : <$f; done"
WATCH = f"""
import ctypes, os, select, struct, sys
libc = ctypes.CDLL(None, use_errno=True)
fd = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
names = {{libc.inotify_add_watch(fd, p.encode(), 0x20): p for p in {SEEN}}}
print("ready", flush=True)
sys.stdin.readline()
seen = set()
while select.select([fd], [], [], 0)[0]:
    data, at = os.read(fd, 65536), 0
    while at < len(data):
        wd, _, _, size = struct.unpack_from("iIII", data, at)
        seen.add(names[wd])
        at += 16 + size
print(*sorted(seen), sep="\\n", flush=True)
"""
LOCK = """
import fcntl, sys
f = open(sys.argv[1])
fcntl.flock(f, fcntl.LOCK_EX | fcntl.LOCK_NB)
print("ready", flush=True)
sys.stdin.readline()
"""


def said(e):
    return b"".join(x.data for x in e.output(follow=False) if x.type == "stdout").decode()


def start(sandbox, program, *args):
    """Starts a program of ours, which waits for a line when it has said that it is ready."""
    e = sandbox.start(["python3", "-c", program, *args], open_stdin=True)
    wait_for(lambda: said(e), 30, "the program inside")
    return e


def opened_meanwhile(watcher, opener):
    """Which of the files the watcher has seen opened, while the opener opened them all."""
    e = start(watcher, WATCH)
    assert opener.run(OPEN).exit_code == 0
    e.write_stdin(b"\n", eof=True)
    assert e.wait(60).exit_code == 0
    return set(said(e).split()[1:])


def test_J07_a_watch_on_a_device_or_cover_tells_nothing_of_a_neighbour(make_sandbox):
    a, b = make_sandbox(), make_sandbox()
    assert opened_meanwhile(a, a) == set(SEEN)
    assert opened_meanwhile(a, b) == set()


@pytest.mark.parametrize("path", ["/dev/zero", "/proc/cmdline"])
def test_J08_a_lock_on_a_device_or_cover_holds_up_no_neighbour(make_sandbox, path):
    a, b = make_sandbox(), make_sandbox()
    start(a, LOCK, path)
    assert "BlockingIOError" in a.run(["python3", "-c", LOCK, path]).stderr
    assert b.run(["python3", "-c", LOCK, path], stdin="\n").stdout == "ready\n"
