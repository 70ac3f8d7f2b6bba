# SPDX-License-Identifier: Apache-2.0
"""A warm interpreter that never runs a cell itself: its forks do, each in a sandbox.

    zygote   forks a standby, and the next one when that is needed
    broker --> standby   a request: numbers, and fds of a sandbox's namespaces and cgroups
               standby   enters the pid namespace for its children, goes on as a child
                 usher     joins the cgroups, enters the other namespaces, goes on as a child
                   kernel    the sandbox's first process is now its parent; gives up every privilege
    broker <--     kernel    tells that it is on its way
    agent  <--     kernel    knocks, is looked at, gets its fds, environment and directory; serves

The pid namespace must be entered before a child is made and all else after it; and only a parent that itself was inside
leaves its orphan to the sandbox's first process: so two children. They are one process that goes on in the same memory
(turn), so all that is copied is copied by the standby, before anyone waits. The net namespace comes before the user
namespace, behind which there is no right to it any more.

What a fork may do is not decided here but looked at by the agent, before it hands anything over. Whatever fails ends this
fork and nothing else: the host then starts an interpreter the ordinary way.

Nothing is inherited but memory: no fd, no working directory, no variable. What the sandbox may have changed since it was
made from the template (the program, the users, the modules that are loaded here) is compared by size and time, and a
difference is a failure too.
"""

from __future__ import annotations

import _signal
import _socket
import ctypes
import gc
import os
import pwd
import resource
import select
import site
import struct
import sys
import time

from . import driver
from .framing import high_fd
from .imprint import Imprint
from .reseed import reseed
from .turn import CLONE_PARENT, Turn

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Dict, List, NoReturn, Tuple

BROKER_FD = 3
KERNEL_UID = 1000
PROGRAM = "python3"

# As in src/engine/jail/zygote/zygote.c.
REQUEST = struct.Struct("=Q40sII")  # number, tag, open files at most, instructions of the filter, which follow
REPLY = struct.Struct("=Qi")  # number, errno
REQUEST_MAX = 4096
FDS_MAX = 16
READY = 0

# The namespaces behind a request's fds, in this order; cgroup.procs of the sandbox's groups follow.
CLONE_NEWPID, CLONE_NEWNET, CLONE_NEWUSER = 0x20000000, 0x40000000, 0x10000000
CLONE_NEWIPC, CLONE_NEWUTS, CLONE_NEWCGROUP, CLONE_NEWNS = 0x08000000, 0x04000000, 0x02000000, 0x00020000
NAMESPACES = (
    CLONE_NEWPID,
    CLONE_NEWNET,
    CLONE_NEWUSER,
    CLONE_NEWIPC,
    CLONE_NEWUTS,
    CLONE_NEWCGROUP,
    CLONE_NEWNS,
)

PR_SET_DUMPABLE, PR_SET_SECCOMP, PR_CAPBSET_READ, PR_CAP_AMBIENT = 4, 22, 23, 47
PR_CAP_AMBIENT_CLEAR_ALL, SECCOMP_MODE_FILTER = 4, 2
CAPABILITY_VERSION_3 = 0x20080522

# As in src/agent/sudo/sudo_socket.h.
DOOR = b"\0cloche-sudo"
DOOR_ARRIVAL = struct.pack("=I", 0xFFFFFFFF)
KERNEL_FDS = 4  # and perhaps an imprint
WELCOME_MAX = 64 * 1024

EXIT_LOST = 75
BEHIND_MS = 10
WARM_ROUNDS = 10  # Python writes a function's faster form at its eighth call

_libc = ctypes.CDLL(None, use_errno=True)
# Looked up and told their arguments once, which is most of what a call by ctypes costs.
_libc.prctl.argtypes = [ctypes.c_int] + [ctypes.c_ulong] * 4
_libc.setns.argtypes = [ctypes.c_int, ctypes.c_int]
_libc.capset.argtypes = [ctypes.c_char_p, ctypes.c_char_p]


class _Program(ctypes.Structure):
    """struct sock_fprog"""

    _fields_ = [("instructions", ctypes.c_ushort), ("code", ctypes.c_char_p)]


def _call(name: str, *args: object) -> None:
    if getattr(_libc, name)(*args) < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")


def _count_capabilities() -> int:
    """How many this kernel knows."""
    count = 0
    while _libc.prctl(PR_CAPBSET_READ, count, 0, 0, 0) >= 0:
        count += 1
    return count


class _Variables:
    """The environment as the kernel shows it to others: where execve() put it, and nothing moves it."""

    def __init__(self) -> None:
        first = ctypes.POINTER(ctypes.c_void_p).in_dll(_libc, "environ")
        self._address = first[0]
        self._size = sum(len(k) + len(v) + 2 for k, v in os.environb.items())

    def show(self, word: bytes) -> None:
        """Leaves this one only. By it the agent finds children that were forked and have left their session."""
        ctypes.memset(self._address, 0, self._size)
        ctypes.memmove(self._address, word, min(len(word), self._size - 1))


class _Template:
    """What a sandbox must still have as its template has it, for a fork to be what a fresh start would be."""

    def __init__(self, path: str, extras: Dict[bytes, bytes]) -> None:
        self._path = path
        self._extras = extras
        modules = [m for m in map(sys.modules.get, driver.warm_modules) if m]
        self._program = self._mark(sys.executable)
        files = ["/etc/passwd", "/etc/group"]
        files += [m.__file__ for m in modules if getattr(m, "__file__", None)]
        self._files: Dict[str, Tuple[int, int]] = {f: self._mark(f) for f in files}
        user = pwd.getpwuid(KERNEL_UID)
        self.user, self.gid, self.home, self.shell = user.pw_name, user.pw_gid, user.pw_dir, user.pw_shell
        self.groups = [g for g in os.getgrouplist(self.user, self.gid) if g != self.gid]

    @staticmethod
    def _mark(path: str) -> Tuple[int, int]:
        try:
            found = os.stat(path)
        except FileNotFoundError:  # a template may do without some
            return -1, 0
        return found.st_size, found.st_mtime_ns

    def compare(self) -> None:
        for path in self._path.split(":"):
            program = f"{path}/{PROGRAM}"
            if os.access(program, os.X_OK):
                if self._mark(program) != self._program:
                    raise FileNotFoundError(2, f"{program} is another program")
                break
        for path, mark in self._files.items():
            if self._mark(path) != mark:
                raise FileNotFoundError(2, f"{path} has changed")

    def environment(self) -> Dict[bytes, bytes]:
        """What every process of that user starts with."""
        text = {
            "PATH": self._path,
            "HOME": self.home,
            "USER": self.user,
            "LOGNAME": self.user,
            "SHELL": self.shell,
            "LANG": "C.UTF-8",
        }
        return {**self._extras, **{os.fsencode(k): os.fsencode(v) for k, v in text.items()}}


class Zygote:
    def __init__(self, broker: _socket.socket, variables: _Variables, template: _Template) -> None:
        self._broker = broker
        self._variables = variables
        self._template = template
        self._packages = _Packages()
        self._capabilities = _count_capabilities()
        self._turn = Turn()
        self._imprint = driver.build().imprint = Imprint.make(variables.show)
        self._requests = select.poll()
        self._requests.register(broker, select.POLLIN)

    def warm_up(self) -> None:
        """Makes and runs here, once for all forks, what every fork runs: the objects, and what Python writes into code that
        it runs for the first few times. A fork then writes to a third fewer pages, and each of those is a copy."""
        os.environ.clear()
        os.environb.update(self._template.environment())
        for _ in range(WARM_ROUNDS):
            self._rehearse()
        gc.collect()
        gc.freeze()

    def serve(self) -> NoReturn:
        # Standbys leave no zombie: a sandbox's first process could not end as long as one is in its pid namespace.
        _signal.signal(_signal.SIGCHLD, _signal.SIG_IGN)
        self._answer(READY, 0)
        while True:
            self._stand_by()
            # The next one is made behind the fork under way, unless it is asked for already.
            self._requests.poll(BEHIND_MS)

    def _stand_by(self) -> None:
        """Returns once the standby has got a request."""
        told, tell = os.pipe()
        if not os.fork():
            self._serve_one(tell)
        os.close(tell)
        if not os.read(told, 1):
            os._exit(0)  # the broker is gone, or the standby has died: a new zygote will do better
        os.close(told)

    def _answer(self, number: int, errno: int) -> None:
        self._broker.send(REPLY.pack(number, errno))

    def _serve_one(self, tell: int) -> NoReturn:
        _signal.signal(_signal.SIGCHLD, _signal.SIG_DFL)
        if not self._requests.poll(0):
            self._rehearse()
        self._turn.begin()
        data, messages, _flags, _address = self._broker.recvmsg(
            REQUEST_MAX, _socket.CMSG_SPACE(4 * FDS_MAX), _socket.MSG_CMSG_CLOEXEC
        )
        if not data:
            os._exit(0)
        os.write(tell, b"1")
        self._become_kernel(
            data, [fd for _level, _kind, raw in messages for fd in struct.unpack(f"={len(raw) // 4}i", raw)]
        )

    def _become_kernel(self, data: bytes, fds: List[int]) -> NoReturn:
        number, tag, open_files, instructions = REQUEST.unpack_from(data)
        try:
            self._go_inside(fds)
            self._give_up(open_files, data[REQUEST.size : REQUEST.size + 8 * instructions], instructions)
            self._template.compare()
            self._answer(number, 0)
        except BaseException as error:
            self._answer(number, getattr(error, "errno", None) or 5)
            os._exit(EXIT_LOST)
        try:
            self._enter(tag)
        except BaseException:
            os._exit(EXIT_LOST)
        driver.serve(driver.HOST_FD)

    def _rehearse(self) -> None:
        """Does what the fork will do, where that does no harm: the pages that it writes to are copied now, and not while
        somebody waits."""
        self._template.compare()
        self._furnish([b"CLOCHE_EXEC="])
        reseed(os.urandom(32))
        driver.rehearse()
        gc.freeze()

    def _go_inside(self, fds: List[int]) -> None:
        """Returns with the namespaces and cgroups of the sandbox, as an orphan of its first process."""
        _call("setns", fds[0], CLONE_NEWPID)
        self._turn.turn(CLONE_PARENT)  # so that the zygote reaps it: the standby ends here
        for fd in fds[len(NAMESPACES) :]:
            os.write(fd, b"0")
        for fd, kind in zip(fds[1:], NAMESPACES[1:]):
            _call("setns", fd, kind)
        self._turn.turn()

    def _give_up(self, open_files: int, code: bytes, instructions: int) -> None:
        os.setsid()
        os.umask(0o022)
        os.sched_setaffinity(0, os.sched_getaffinity(1))  # the agent's: the sandbox's share
        resource.setrlimit(resource.RLIMIT_NOFILE, (open_files, open_files))
        self._turn.drop_bounds(self._capabilities)
        os.setgroups(self._template.groups)
        os.setresgid(self._template.gid, self._template.gid, self._template.gid)
        os.setresuid(KERNEL_UID, KERNEL_UID, KERNEL_UID)
        _call("prctl", PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)
        _call("capset", struct.pack("=Ii", CAPABILITY_VERSION_3, 0), bytes(24))
        program = _Program(instructions, code)
        _call("prctl", PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.addressof(program), 0, 0)
        self._turn.end()
        # As after an execve(): others of the same user may look at it.
        _call("prctl", PR_SET_DUMPABLE, 1, 0, 0, 0)

    def _enter(self, tag: bytes) -> None:
        while os.getppid() != 1:
            time.sleep(0.0001)  # until the usher has ended
        self._broker.detach()
        os.closerange(3, 1 << 20)
        door = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
        door.connect(DOOR)
        door.sendall(DOOR_ARRIVAL + tag)
        data, fds = self._receive(door)
        cwd, *words = data.split(b"\0")
        for place, fd in enumerate(fds[:KERNEL_FDS]):
            os.dup2(fd, place)
        door.detach()
        if self._imprint:
            if len(fds) > KERNEL_FDS:
                self._imprint.enter(fds[KERNEL_FDS], words)
            self._imprint.remember(words)
        os.closerange(KERNEL_FDS, 1 << 20)
        self._furnish(words)
        try:
            os.chdir(self._template.home)
        except OSError:
            os.chdir("/")
        if cwd:
            os.chdir(cwd)
        reseed(os.urandom(32))

    @staticmethod
    def _receive(door: _socket.socket) -> Tuple[bytes, List[int]]:
        data, fds = b"", []
        while len(data) < 4 or len(data) < 4 + struct.unpack_from("=I", data)[0]:
            more, messages, _flags, _address = door.recvmsg(WELCOME_MAX, _socket.CMSG_SPACE(4 * (KERNEL_FDS + 1)))
            if not more:
                raise EOFError
            data += more
            fds += [fd for _level, _kind, raw in messages for fd in struct.unpack(f"={len(raw) // 4}i", raw)]
        # Out of the places that they are going to.
        return data[4:], [high_fd(fd) for fd in fds]

    def _furnish(self, words: List[bytes]) -> None:
        """The environment, and what a start takes from it. The first word is the agent's mark."""
        for name, value in [word.split(b"=", 1) for word in words[1:]]:
            if os.environb.get(name) != value:  # most are as the warm-up has set them, and libc's copy too
                os.environb[name] = value
        os.environb.update([words[0].split(b"=", 1)])
        self._variables.show(words[0])
        if "TZ" in os.environ:
            time.tzset()
        self._packages.find()


class _Packages:
    """sys.path of a fork: a fresh start would find the packages that root and the user have installed in the sandbox."""

    def __init__(self) -> None:
        self._places = site.getsitepackages()
        self._marks = self._look()
        self._finders = 0  # how many were known when those that had found nothing were dropped

    def _look(self) -> List[int]:
        """When each place was last changed: a package that comes or goes changes its directory."""
        marks = []
        for place in self._places:
            try:
                marks.append(os.stat(place).st_mtime_ns)
            except OSError:
                marks.append(-1)
        return marks

    def find(self) -> None:
        finders = sys.path_importer_cache
        if len(finders) != self._finders:  # to look at each is to copy its page
            for path in [p for p, finder in finders.items() if finder is None]:
                del finders[path]
            self._finders = len(finders)
        site.USER_BASE = site.USER_SITE = None
        site.ENABLE_USER_SITE = site.check_enableusersite()
        if self._look() != self._marks or (site.ENABLE_USER_SITE and os.path.isdir(site.getusersitepackages())):
            self._find_all()

    def _find_all(self) -> None:
        """As the site module does at a start; it costs milliseconds, most of them for .pth files."""
        places = set(map(os.path.realpath, self._places))
        sys.path[:] = [p for p in sys.path[1:] if os.path.realpath(p) not in places]
        known = site.addusersitepackages(site.removeduppaths())
        site.addsitepackages(known)
        sys.path.insert(0, "")


def main() -> NoReturn:
    variables = _Variables()
    path = os.environ["PATH"]
    del os.environ["CLOCHE_ZYGOTE"], os.environ["GLIBC_TUNABLES"]
    before = set(os.environb)
    driver.prepare()
    extras = {k: v for k, v in os.environb.items() if k not in before}  # what libraries are told by the driver
    broker = _socket.socket(fileno=BROKER_FD)
    zygote = Zygote(broker, variables, _Template(path, extras))
    zygote.warm_up()
    zygote.serve()
