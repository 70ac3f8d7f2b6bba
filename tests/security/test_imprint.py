# SPDX-License-Identifier: Apache-2.0
"""An imprint is written by a hostile sandbox: what does not fit is refused before a page is mapped, and a copy has no right that its source's
interpreter has not."""

import shutil
import subprocess
import sys

import pytest

from harness import zygote
from harness.daemon import BUILD, ENGINE, IS_SANITIZED

TRY = """
import ctypes, fcntl, os, struct, sys
library = ctypes.CDLL(sys.argv[1])
library.imprint_enter.restype = ctypes.c_long
token = b"t" * 16
library.imprint_init(token)
SIZE, MAGIC, SCRATCH = 512 << 10, 0x31746e6972706d69, 0x3000000000
PAGES, EMPTY, STACK = 0, 1, 2

def enter(entries, magic=MAGIC, seals=15, size=SIZE + 4096, its=token, count=None):
    fd = os.memfd_create("imprint", 2)
    os.ftruncate(fd, size)
    head = struct.pack("=4Q16s", magic, 0, len(entries) if count is None else count, size, its)
    os.pwrite(fd, (head + b"".join(struct.pack("=QQQII", *e) for e in entries))[:size], 0)
    fcntl.fcntl(fd, 1033, seals)
    before = open("/proc/self/maps").read()
    result = library.imprint_enter(fd)
    assert open("/proc/self/maps").read() == before
    return -result

good = (0x10000000, 4096, SIZE, 3, PAGES)
own = next(int(line.split("-")[0], 16) for line in open("/proc/self/maps") if sys.argv[1] in line)
print(enter([good], seals=7), enter([good], its=b"o" * 16), enter([good], magic=1), enter([], size=4096), enter([], count=1 << 40),
      *[enter([good, bad]) for bad in [
          (0x10000800, 4096, SIZE, 3, PAGES), (0x20000000, 8192, SIZE, 3, PAGES), (0x20000000, 4096, 0, 3, PAGES), (0, 4096, SIZE, 3, PAGES),
          (1 << 48, 4096, SIZE, 3, PAGES), (0x20000000, 1 << 63, SIZE, 3, EMPTY), (0x20000000, 0, SIZE, 3, PAGES), (0x20000000, 4096, SIZE, 8, PAGES),
          (0x20000000, 4096, SIZE, 3, 5), (SCRATCH, 4096, SIZE, 3, PAGES), (SCRATCH - 4096, 8192, 0, 0, EMPTY), (own, 4096, SIZE, 3, PAGES),
          (0x20000000, 4096, -4096 & (1 << 64) - 1, 3, STACK), good, (0x0ffff000, 8192, 0, 3, EMPTY), (0x0fff0000, 4096, SIZE, 3, PAGES)]])
"""
EPERM, ESTALE, EPROTO = 1, 116, 71

# A source that is its own writer, and gives what it likes.
FORGE = """
import array, fcntl, os, socket, struct
import cloche_kernel.imprint as its
honest = its.Imprint._write

def memfd(seals):
    fd = os.memfd_create("imprint", 2)
    os.ftruncate(fd, 1 << 20)
    fcntl.fcntl(fd, 1033, seals)
    return [fd]

def forge(make):
    def write(self, fd, room):
        tag = self._words[0].split(b"=", 1)[1].ljust(40, b"\\0")
        with socket.socket(socket.AF_UNIX) as door:
            door.connect(b"\\0cloche-sudo")
            door.send(struct.pack("=I40s", 0xfffffffe, tag))
            os.sched_yield()
            fds = make()
            while True:  # the agent has to have read what was sent before
                left = array.array("i", [0])
                fcntl.ioctl(door, 0x5411, left)  # SIOCOUTQ
                if left[0] == 0:
                    break
            door.sendmsg([struct.pack("=i", 0)], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))])
            for one in set(fds):
                os.close(one)
        return 0
    its.Imprint._write = write
"""
# A source that keeps its own imprint, and gives it again with what it likes in the pages.
KEEP = """
kept = []

def keep(self, fd, room):
    kept.append(os.dup(fd))
    return honest(self, fd, room)

def again(change):
    size = os.fstat(kept[0]).st_size
    data = bytearray(os.pread(kept[0], size, 0))
    data[512 << 10:] = change(data[512 << 10:])
    fd = os.memfd_create("imprint", 2)
    os.truncate(fd, size)
    for at in range(0, size, 1 << 20):
        os.pwrite(fd, data[at:at + (1 << 20)], at)
    fcntl.fcntl(fd, 1033, 15)
    return [fd]

its.Imprint._check_fds = staticmethod(lambda own, pipes: None)
its.Imprint._write = keep
"""
UNWRITTEN, ENDED = "its memory could not be written", "the interpreter ended"
FORGED = [("os.pipe", UNWRITTEN), ("lambda: memfd(0)", UNWRITTEN), ("lambda: memfd(14)", UNWRITTEN), ("lambda: memfd(15)", ENDED), ("lambda: memfd(15) * 2", UNWRITTEN),
          ("lambda: memfd(15) + memfd(15) + list(os.pipe())", UNWRITTEN)]

WALLS = """[l for l in open('/proc/self/status') if l.split(':')[0] in
           ('NoNewPrivs', 'Seccomp', 'Seccomp_filters', 'CapInh', 'CapPrm', 'CapEff', 'CapBnd', 'CapAmb', 'Uid', 'Gid', 'Groups', 'Threads')]"""
OPEN = "import os\nsorted(os.readlink(f'/proc/self/fd/{fd}').split(':')[0] for fd in os.listdir('/proc/self/fd') if os.path.exists(f'/proc/self/fd/{fd}'))"
SPACES = "import os\n[os.readlink(f'/proc/self/ns/{n}') == os.readlink(f'/proc/{os.getppid()}/ns/{n}') for n in ('mnt', 'net', 'pid', 'user', 'uts', 'ipc')]"


@pytest.mark.skipif(IS_SANITIZED, reason="its memory is laid out otherwise")
def test_a_table_that_does_not_fit_is_refused_before_a_page_is_mapped():
    seen = subprocess.run([sys.executable, "-c", TRY, str(BUILD / "src/driver/imprint.so")], stdout=subprocess.PIPE, text=True, check=True)
    assert [int(word) for word in seen.stdout.split()] == [EPERM, ESTALE] + [EPROTO] * 19


@pytest.mark.skipif(ENGINE != "jail" or IS_SANITIZED, reason="a vm is copied as a machine")
def test_a_copy_by_an_imprint_stands_behind_the_walls_of_any_interpreter():
    with zygote.daemon_with_zygote() as (_daemon, client), client.create(engine="jail") as source:
        seen = [source.run_code(look).text for look in (WALLS, OPEN, SPACES)]
        reply = source._call("POST", ["fork"], body={"count": 1}, timeout=120)
        assert reply["memory_by"] == "imprint"
        with client.get(reply["sandboxes"][0]["id"]) as copy:
            assert [copy.run_code(look).text for look in (WALLS, OPEN, SPACES)] == seen
            assert copy.run_code("import ctypes\nctypes.CDLL(None).setns(0, 0), ctypes.CDLL(None).unshare(0x10000000)").text == "(-1, -1)"


@pytest.mark.skipif(ENGINE != "jail" or IS_SANITIZED, reason="a vm is copied as a machine")
@pytest.mark.skipif(not shutil.which("criu", path="/usr/sbin:/usr/bin"), reason="no criu")
def test_what_a_source_gives_for_its_imprint_costs_it_that_way_alone():
    with zygote.daemon_with_zygote() as (daemon, client), client.create(engine="jail") as source:
        assert source.run_code(FORGE).error is None
        gateway = daemon.gateway_pid
        for make, why in FORGED:
            assert source.run_code(f"forge({make})").error is None
            (copy,) = copies = source.fork()
            assert copies.memory_by == "criu" and copies.memory_why.startswith(why), (make, copies.memory_by, copies.memory_why)
            assert copy.run_code("6 * 7").text == "42"
            copy.delete()
        assert source.run_code("its.Imprint._write = honest").error is None
        (copy,) = copies = source.fork()
        assert (copies.memory_by, copies.memory_why) == ("imprint", None)  # neither link nor sandbox were given up
        copy.delete()
        assert daemon.gateway_pid == gateway


@pytest.mark.skipif(ENGINE != "jail" or IS_SANITIZED, reason="a vm is copied as a machine")
@pytest.mark.skipif(not shutil.which("criu", path="/usr/sbin:/usr/bin"), reason="no criu")
def test_pages_that_a_source_has_changed_end_a_copys_interpreter_and_nothing_else():
    with zygote.daemon_with_zygote() as (daemon, client), client.create(engine="jail") as source:
        assert source.run_code(FORGE + KEEP).error is None
        parts = daemon.gateway_pid, daemon.broker_pid, zygote.pid_of(daemon)
        (copy,) = copies = source.fork()
        assert copies.memory_by == "imprint"
        copy.delete()
        for change in ("lambda d: bytes(len(d))", "lambda d: os.urandom(len(d))", "lambda d: b'\\xcc' * len(d)"):
            assert source.run_code(f"forge(lambda: again({change}))").error is None
            (copy,) = copies = source.fork()
            assert (copies.memory_by, copies.memory_why) == ("criu", ENDED), change
            assert copy.run_code("6 * 7").text == "42"
            copy.delete()
        assert source.run_code("forge(lambda: again(lambda d: d))").error is None
        (copy,) = copies = source.fork()  # the control: its own pages as they were
        assert copies.memory_by == "imprint" and copy.run_code("len(kept)").text == "1"
        copy.delete()
        assert (daemon.gateway_pid, daemon.broker_pid, zygote.pid_of(daemon)) == parts
