# SPDX-License-Identifier: Apache-2.0
"""Sandboxes that share a kernel: none sees, locks or uses up what is another's.

Each case has two sandboxes, and a control that shows the attempt working where the wall is absent: inside one sandbox.
"""

import array
import fcntl
import shutil

import pytest
from cloche import errors
from harness.daemon import IS_SANITIZED, children_of, read_text, wait_for

pytestmark = pytest.mark.jail("a vm has a kernel of its own, and shares no inode or counter with another")

NS_GET_OWNER_UID = 0xB704
FIRST_ID = 0x30000000  # of the sandboxes on the host
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


# Each takes all that it can get, as every user of the sandbox that it may become, says how many that are, and holds them.
TAKE = """
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
held = []

def instance():
    return libc.inotify_init1(0)

def queue():
    return libc.mq_open(b"/q%d.%d" % (os.getpid(), len(held)), os.O_CREAT | os.O_RDWR, 0o666, None)

def timer():
    return libc.timer_create(1, None, ctypes.byref(ctypes.c_void_p()))

def terminal():
    try:
        return os.open("/dev/ptmx", os.O_RDWR | os.O_NOCTTY)
    except OSError:
        return -1

def segment():
    size = 256 << 10
    found = libc.shmget(0, size, 0o1600)
    return -1 if found < 0 else libc.shmctl(found, 11, None)

take, users = globals()[sys.argv[1]], int(sys.argv[2])
import resource
resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
n = 0
for user in range(users):
    if users > 1:
        os.seteuid(0)
        os.setresuid(20000 + user, 20000 + user, 0)
    while len(held) < 100000 and take() >= 0:
        held.append(None)
print("ready", len(held), flush=True)
sys.stdin.readline()
"""
COUNTED = {"instance": 16, "queue": 1, "timer": 1024, "terminal": 64, "segment": 4}  # what one sandbox has at least


def taken(e):
    return int(said(e).split()[1])


@pytest.mark.parametrize("what", COUNTED)
def test_J01_J03_J04_J05_who_takes_all_he_can_leaves_a_neighbour_his_share(make_sandbox, what):
    a, b = make_sandbox(), make_sandbox()
    first = start(a, TAKE, what, "1")
    again = start(a, TAKE, what, "1")
    assert taken(first) >= COUNTED[what]
    assert taken(again) < COUNTED[what], "the control: inside one sandbox all are gone"
    assert taken(start(b, TAKE, what, "1")) == taken(first)


@pytest.mark.parametrize("what", ["instance", "timer", "queue"])
def test_J01_J03_J04_many_users_inside_have_one_share_together(make_sandbox, what):
    a, b = make_sandbox(), make_sandbox()
    alone = start(a, TAKE, what, "1")
    e = b.start(["python3", "-c", TAKE, what, "8"], open_stdin=True, user="root")
    wait_for(lambda: said(e), 30, "the program inside")
    assert taken(e) == taken(alone)


def test_J01_an_interpreter_is_counted_as_its_sandbox_is(make_sandbox):
    a, b = make_sandbox(), make_sandbox()
    most = taken(start(a, TAKE, "instance", "1"))
    code = "import ctypes\nlibc = ctypes.CDLL(None)\nn = 0\nwhile libc.inotify_init1(0) >= 0: n += 1\nprint(n)"
    assert int(a.run_code(code).stdout) == 0
    assert int(b.run_code(code).stdout) == most


@pytest.mark.skipif(shutil.which("criu", path="/usr/sbin:/usr/bin") is None, reason="no criu")
@pytest.mark.skipif(IS_SANITIZED, reason="a sanitized agent maps terabytes")
def test_J01_a_copy_is_counted_as_itself_and_never_as_root(make_sandbox, daemon):
    sandbox = make_sandbox()
    copies = sandbox.fork(2, memory=True)
    owners = []
    for pid in children_of(daemon.broker_pid):
        if int(read_text(f"/proc/{pid}/status").split("Uid:")[1].split()[0]) >= FIRST_ID:
            with open(f"/proc/{pid}/ns/user", "rb") as ns:
                uid = array.array("I", [0])
                fcntl.ioctl(ns, NS_GET_OWNER_UID, uid)
                owners.append(uid[0])
    for copy in copies:
        copy.delete()
    assert len(owners) >= 3
    assert len(set(owners)) == len(owners)
    assert 0 not in owners


def test_J02_watches_of_one_leave_a_neighbour_his_share(make_sandbox):
    fill = "import ctypes, os\nlibc = ctypes.CDLL(None)\nos.makedirs('/tmp/d', exist_ok=True)\nfd = libc.inotify_init1(0)\nn = 0\n" \
        "for i in range(300000):\n os.makedirs(f'/tmp/d/{i}', exist_ok=True)\n" \
        " if libc.inotify_add_watch(fd, f'/tmp/d/{i}'.encode(), 1) < 0: break\n n += 1\nprint('ready', n, flush=True)\ninput()"
    a, b = make_sandbox(), make_sandbox()
    first = start(a, fill)
    assert 1024 <= taken(first) < 300000
    assert b.run(["python3", "-c", fill.replace("300000", "1024")], stdin="\n").stdout == "ready 1024\n"


def test_J05_a_sandbox_without_a_terminal_left_says_so(make_sandbox):
    sandbox = make_sandbox()
    start(sandbox, TAKE, "terminal", "1")
    with pytest.raises(errors.LimitReached) as e:
        sandbox.run(["true"], pty=True)
    assert "terminal" in str(e.value)
    assert sandbox.run(["true"]).exit_code == 0


def test_J06_open_files_of_all_processes_stay_below_half_of_the_hosts(make_sandbox):
    """The control is the host's own number: with as many processes as asked for, each with as many files, it would be passed."""
    with open("/proc/sys/fs/file-max") as f:
        most = int(f.read())
    pids, files = 4096, 16384
    if most > pids * files:
        pytest.skip("this host bounds no files: a sandbox's memory does")
    sandbox = make_sandbox(limits={"pids": pids, "open_files": files})
    each = int(sandbox.run("ulimit -Hn").stdout)
    assert 256 <= each <= max(most / 2 / pids, 256)
    assert int(sandbox.run_code("import resource\nprint(resource.getrlimit(resource.RLIMIT_NOFILE)[1])").stdout) == each
