# SPDX-License-Identifier: Apache-2.0
"""What a jail sees of its host and its neighbours beside its own files and processes (docs/design/seen.md)."""

import contextlib
import json
import os
import subprocess

import pytest
from harness.daemon import end, read_text

pytestmark = pytest.mark.jail("a vm has a kernel of its own, and so all of its own counters")

BOOT_ID = "/proc/sys/kernel/random/boot_id"
COUNTERS = ("fs/file-nr", "fs/inode-nr", "fs/inode-state", "fs/dentry-state", "fs/aio-nr", "kernel/pty/nr")
# Every file of /proc that is not of a process, with its text.
READ_ALL = """
import json, os
found = {}
places = [("/proc", [n for n in os.listdir("/proc") if os.path.isfile("/proc/" + n)])]
for top, names in places + [(top, names) for top, _, names in os.walk("/proc/sys")]:
    for name in names:
        path = f"{top}/{name}"
        if name not in ("kmsg", "kcore", "stat_refresh"):
            try:
                with open(path, "rb") as f:
                    found[path] = f.read(4096).hex()
            except OSError:
                pass
print(json.dumps(found))
"""
# Of the host's: the time since it has started. The others are the sandbox's own, or new at each reading.
MAY_CHANGE = {"/proc/uptime", "/proc/sys/kernel/random/uuid", "/proc/sys/kernel/ns_last_pid"}


def boot_id(sandbox):
    return sandbox.run(["cat", BOOT_ID]).stdout.strip()


def test_H04_each_sandbox_has_booted_for_itself(client):
    first, second = client.create(persistent=True), client.create()
    try:
        ids = [boot_id(first), boot_id(second)]
        assert len({*ids, read_text(BOOT_ID).strip()}) == 3  # the control: outside, the host's is read by the same name
        first.stop()
        first.resume()
        assert boot_id(first) not in ids
    finally:
        end(first)
        end(second)


def test_H04_one_that_goes_on_with_its_memory_has_not_booted_and_its_copy_has(client):
    with client.create() as sandbox:
        before = boot_id(sandbox)
        sandbox.pause(to="disk")
        sandbox.resume()
        assert boot_id(sandbox) == before
        (copy,) = sandbox.fork()
        assert boot_id(copy) != before
        end(copy)


def test_H05_what_the_host_counts_is_not_told(sandbox):
    def inside():
        return sandbox.run(["cat", *(f"/proc/sys/{name}" for name in COUNTERS)]).stdout

    def outside():
        return int(read_text("/proc/sys/fs/file-nr").split()[0]), int(read_text("/proc/sys/kernel/pty/nr"))

    told, files_and_terminals = inside(), outside()
    with contextlib.ExitStack() as stack:
        for _ in range(500):
            stack.callback(os.close, os.open("/dev/null", os.O_RDONLY))
        for _ in range(8):
            for fd in os.openpty():
                stack.callback(os.close, fd)
        more = outside()
        assert more[0] > files_and_terminals[0] and more[1] > files_and_terminals[1]  # the control
        assert inside() == told


def changed(first, second):
    first, second = json.loads(first), json.loads(second)
    return {path for path in first if second.get(path) != first[path]}


def test_H05_nothing_in_proc_moves_with_what_the_host_does(client, sandbox):
    argv = ["python3", "-c", READ_ALL]
    inside, outside = sandbox.run(argv).stdout, subprocess.check_output(argv)
    with client.create() as neighbour:
        neighbour.run("for i in $(seq 50); do /bin/true; done; head -c 20000000 /dev/zero > /tmp/x; sync")
        os.sync()
        moved = changed(outside, subprocess.check_output(argv))
        assert {"/proc/stat", "/proc/sys/fs/file-nr", "/proc/sys/fs/dentry-state"} <= moved  # the control
        assert changed(inside, sandbox.run(argv).stdout) <= MAY_CHANGE


def test_H05_what_stands_for_a_setting_cannot_be_changed(sandbox):
    for path in (BOOT_ID, *(f"/proc/sys/{name}" for name in COUNTERS)):
        r = sandbox.run(f"echo x > {path}", user="root")
        assert r.exit_code != 0 and "Read-only" in r.stderr, (path, r.stderr)
