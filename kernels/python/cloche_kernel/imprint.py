# SPDX-License-Identifier: Apache-2.0
"""The memory of this interpreter, written down for copies of its sandbox that go on with it.

All interpreters of a template are forks of one zygote. So a fresh fork in another sandbox, behind that one's walls, has
everything where this one has it, and can take over its memory: src/driver/imprint.h does that. Here is decided whether it
may be done. Only memory goes over. What the kernel keeps for a process is given again where that is possible (the
directory, signal handlers, limits); where it is not (threads, children, timers, files that are open, memory that others
share), the answer is a reason, and the host saves the whole sandbox by CRIU.

The source stands still while it forks. The fork, a sibling, writes the pages into a memfd and gives that to the agent.
"""

from __future__ import annotations

import _signal
import bisect
import ctypes
import errno
import os
import resource
import struct
import sys

from .reseed import reseed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

# As in src/driver/imprint.h and imprint_save.c.
MAPPING = struct.Struct("=QQII")  # begin, end, protection, way
WHOLE, TOUCHED, CHANGED, STACK, EMPTY = range(5)
TAG_SIZE = 40
TOKEN_SIZE = 16
SCRATCH, SCRATCH_END = 0x3000000000, 0x3000100000

PAGE_SIZE = 4096
TRIES = 8
SLACK = 16 << 20
PT_LOAD = 1
PHDR = struct.Struct("=IIQQQQQQ")
MFD_FLAGS = 0x0001 | 0x0002  # close on exec, may be sealed
LIMITS = [getattr(resource, name) for name in dir(resource) if name.startswith("RLIMIT_")]

# Where a fork finds what it is given: 0 to 3 as every kernel, the imprint, and its environment.
IMPRINT_FD, WORDS_FD = 4, 5


class Refused(Exception):
    """Why the memory cannot go over this way."""


class _Info(ctypes.Structure):
    """struct dl_phdr_info, as far as it is needed"""

    _fields_ = [
        ("address", ctypes.c_uint64),
        ("name", ctypes.c_char_p),
        ("headers", ctypes.c_void_p),
        ("n", ctypes.c_uint16),
    ]


def _loaded() -> list[tuple[int, int]]:
    """Where the program and its libraries lie. Whatever is forked from here on has them there."""
    ranges = []

    def look(info: ctypes._Pointer[_Info], _size: int, _data: object) -> int:
        one = info.contents
        for i in range(one.n):
            kind, _flags, _offset, address, _physical, _in_file, size, _align = PHDR.unpack(
                ctypes.string_at(one.headers + i * PHDR.size, PHDR.size)
            )
            if kind == PT_LOAD:
                begin = one.address + address
                ranges.append((begin & ~0xFFF, (begin + size + 0xFFF) & ~0xFFF))
        return 0

    function = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(_Info), ctypes.c_size_t, ctypes.c_void_p)
    ctypes.CDLL(None).dl_iterate_phdr(function(look), None)
    return ranges


def _read(path: str) -> bytes:
    with open(path, "rb", buffering=0) as file:
        data = b""
        while more := file.read(1 << 16):
            data += more
        return data


def _value(status: bytes, name: bytes) -> bytes:
    return next((line.split(b":", 1)[1].strip() for line in status.splitlines() if line.startswith(name + b":")), b"")


class Imprint:
    """To be made once, in the zygote."""

    def __init__(self, show: Callable[[bytes], None]) -> None:
        library = ctypes.PyDLL(os.path.join(os.path.dirname(__file__), "libimprint.so"))
        self._save, self._enter = library.imprint_save, library.imprint_enter
        self._save.argtypes = [ctypes.c_int, ctypes.c_char_p, ctypes.c_long, ctypes.c_char_p, ctypes.c_long, ctypes.c_char_p]
        self._save.restype = self._enter.restype = ctypes.c_long
        library.imprint_init(os.urandom(TOKEN_SIZE))
        self._show = show
        self._loaded = sorted(_loaded())
        self._words: list[bytes] = []

    @classmethod
    def make(cls, show: Callable[[bytes], None]) -> Imprint | None:
        """None: not on this machine, whose pages have another size, or not with this libc."""
        try:
            return cls(show) if resource.getpagesize() == PAGE_SIZE else None
        except (AttributeError, OSError):
            return None

    # ---- the source

    def remember(self, words: list[bytes]) -> None:
        """The environment that it has come to: its mark, and the variables."""
        self._words = words

    def save(self, room: int, own_fds: set[int], pipes: tuple[int, int]) -> bool:
        """Begins to write the imprint, if its memory fits twice into room. True: this is a copy, and furnished as one."""
        self._check_process()
        self._check_fds(own_fds, pipes)
        state = self._take_state()
        fd = os.memfd_create("imprint", MFD_FLAGS)
        try:
            result = self._write(fd, room)
        except BaseException:
            os.close(fd)
            raise
        if result == 1:  # where that fd is none
            self._put_state(state)
            return True
        os.close(fd)
        if result < 0:
            raise Refused(f"its memory cannot be written ({os.strerror(-result)})")
        return False

    def _write(self, fd: int, room: int) -> int:
        tag = self._words[0].split(b"=", 1)[1].ljust(TAG_SIZE, b"\0")
        result = -errno.EAGAIN
        for _ in range(TRIES):
            maps = _read("/proc/self/maps")
            mappings = self._judge(maps, room)
            result = self._save(fd, b"".join(mappings), len(mappings), maps, len(maps), tag)
            if result != -errno.EAGAIN:  # else this loop itself needed memory
                break
        return result

    def _check_process(self) -> None:
        status = _read("/proc/self/status")
        if _value(status, b"Threads") != b"1":
            raise Refused("it has threads")
        try:
            os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            raise Refused("it has children")
        except ChildProcessError:
            pass
        if int(_value(status, b"Seccomp_filters")) != int(_value(_read("/proc/1/status"), b"Seccomp_filters")) + 1:
            raise Refused("it has a filter of system calls of its own")
        if _value(status, b"TracerPid") != b"0":
            raise Refused("it is traced")
        if any(_signal.getitimer(which)[0] for which in (_signal.ITIMER_REAL, _signal.ITIMER_VIRTUAL, _signal.ITIMER_PROF)):
            raise Refused("it has a timer")
        try:
            if _read("/proc/self/timers"):
                raise Refused("it has a timer")
        except FileNotFoundError:
            pass
        if os.listdir("/dev/shm"):
            raise Refused("there is shared memory in /dev/shm")
        for kind in ("shm", "sem", "msg"):
            try:
                if _read(f"/proc/sysvipc/{kind}").count(b"\n") > 1:
                    raise Refused("there is shared memory of System V")
            except OSError:
                pass

    @staticmethod
    def _check_fds(own: set[int], pipes: tuple[int, int]) -> None:
        fds = set(map(int, os.listdir("/proc/self/fd")))
        for fd in fds - own - {0, 1, 2}:
            try:
                place = os.readlink(f"/proc/self/fd/{fd}")
            except FileNotFoundError:  # of listing them
                continue
            raise Refused(f"it has {place[:100]} open")
        null = os.stat("/dev/null")
        if not fds >= {0, 1, 2} or os.fstat(0).st_rdev != null.st_rdev:
            raise Refused("its standard input is another")
        for fd, pipe in zip((1, 2), pipes):
            if not os.path.sameopenfile(fd, pipe):
                raise Refused("its output is another")

    def _judge(self, maps: bytes, room: int) -> list[bytes]:
        """What is done with each mapping."""
        mappings = []
        size = 0
        for line in maps.splitlines():
            place, rights, _offset, _device, inode, *rest = line.split(None, 5)
            begin, end = (int(word, 16) for word in place.split(b"-"))
            path = rest[0] if rest else b""
            protection = (rights[0:1] == b"r") | (rights[1:2] == b"w") << 1 | (rights[2:3] == b"x") << 2
            if path.startswith((b"[vvar", b"[vdso", b"[vsyscall", b"[uprobes")):
                continue
            if begin < SCRATCH_END and end > SCRATCH:
                raise Refused("its memory lies where a copy begins")
            at = bisect.bisect_right(self._loaded, (begin, sys.maxsize)) - 1
            is_known = at >= 0 and end <= self._loaded[at][1]
            is_file = inode != b"0"
            if rights[3:4] == b"s" and not (path.endswith(b"/gconv-modules.cache") and not protection & 2):
                raise Refused(f"it shares memory ({os.fsdecode(path)[:100]})")
            if path.startswith(b"/dev/"):
                raise Refused(f"it has mapped {os.fsdecode(path)[:100]}")
            if not protection & 1:
                if protection or (is_file and not is_known):
                    raise Refused("it has memory that it cannot read itself")
                if is_known:
                    continue
                way = EMPTY
            elif path == b"[stack]":
                way = STACK
            elif not is_file:
                way = TOUCHED
            elif is_known and not protection & 2:
                way = CHANGED
            else:
                way = WHOLE
                size += end - begin
            mappings.append(MAPPING.pack(begin, end, protection, way))
        size += int(_read("/proc/self/statm").split()[1]) * PAGE_SIZE
        if size * 3 // 2 + SLACK > room:
            raise Refused("the sandbox's memory is too full to hold it twice")
        return mappings

    @staticmethod
    def _take_state() -> tuple[str, int, int, list[tuple[int, int]], bytes]:
        try:
            cwd = os.getcwd()
        except FileNotFoundError:
            raise Refused("its directory was removed") from None
        mask = os.umask(0o022)
        os.umask(mask)
        return cwd, mask, os.nice(0), [resource.getrlimit(which) for which in LIMITS], _read("/proc/self/comm").rstrip(b"\n")

    # ---- a copy

    def enter(self, fd: int, words: list[bytes]) -> None:
        """Goes on as the source. Fds 0 to 3 are this kernel's. Returns only if that cannot be."""
        given = os.memfd_create("words", 1)
        os.write(given, b"\0".join(words))
        os.dup2(fd, IMPRINT_FD, inheritable=False)
        os.dup2(given, WORDS_FD, inheritable=False)
        os.closerange(WORDS_FD + 1, 1 << 20)
        result = self._enter(IMPRINT_FD)
        raise OSError(-result, "the imprint does not fit")

    def _put_state(self, state: tuple[str, int, int, list[tuple[int, int]], bytes]) -> None:
        cwd, mask, nice, limits, name = state
        words = _read(f"/proc/self/fd/{WORDS_FD}").split(b"\0")
        os.close(IMPRINT_FD)
        os.close(WORDS_FD)
        os.chdir(cwd)
        os.umask(mask)
        os.nice(max(nice - os.nice(0), 0))
        for which, (soft, hard) in zip(LIMITS, limits):
            try:
                resource.setrlimit(which, (soft, hard))
            except (ValueError, OSError):  # the sandbox's own are lower
                pass
        with open("/proc/self/comm", "wb", buffering=0) as file:
            file.write(name)
        # A variable that the code has changed is the code's.
        had = dict(word.split(b"=", 1) for word in self._words)
        for word in words:
            key, value = word.split(b"=", 1)
            if os.environb.get(key) == had.get(key):
                os.environb[key] = value
        self._words = words
        self._show(words[0])
        if threading := sys.modules.get("threading"):
            threading.main_thread()._set_native_id()
        reseed(os.urandom(32))
