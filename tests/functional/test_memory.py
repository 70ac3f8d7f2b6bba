# SPDX-License-Identifier: Apache-2.0
"""Memory snapshots and forks: programs that go on in copies, and what a copy is not to share with its source."""

import shutil

import pytest
from cloche import errors

from harness.daemon import ENGINE, IS_SANITIZED
from harness.memory import damage
from harness.vdso_random import SETUP

pytestmark = [
    pytest.mark.skipif(ENGINE == "jail" and shutil.which("criu", path="/usr/sbin:/usr/bin") is None, reason="no criu"),
    pytest.mark.skipif(IS_SANITIZED, reason="a sanitized agent maps terabytes"),
]

# What a process can see of its own walls.
WALLS = """[l for l in open('/proc/self/status') if l.split(':')[0] in
           ('NoNewPrivs', 'Seccomp', 'Seccomp_filters', 'CapBnd', 'CapPrm', 'CapEff', 'Uid', 'Groups')]"""
IDENTITY = "import random, socket, uuid\n[random.random(), socket.gethostname(), open('/etc/machine-id').read(), uuid.uuid4()]"
COUNT = "i=0; while :; do i=$((i+1)); echo $i; sleep 0.01; done"
# A connection within the sandbox, held by the interpreter.
CONNECT = """
import socket
listener = socket.create_server(("127.0.0.1", 0))
near = socket.create_connection(listener.getsockname())
far = listener.accept()[0]
"""


def value(sandbox, code):
    """What the last line of code in the default Python is, as text."""
    result = sandbox.run_code(code)
    assert result.error is None, result.error
    return result.results[-1].text if result.results else None


@pytest.fixture
def forked():
    """A function that forks; all forks are deleted at the end."""
    made = []

    def fork(sandbox, *args, **fields):
        made.extend(sandbox.fork(*args, **fields))
        return made

    yield fork
    for one in made:
        one.delete()


@pytest.fixture
def saved(client):
    """A function that saves a sandbox with its memory; what it saved is removed at the end."""
    made = []

    def save(sandbox, **fields):
        made.append(sandbox.snapshot(memory=True, **fields)["id"])
        return made[-1]

    yield save
    for one in made:
        client.delete_snapshot(one)


def read_until(events, n):
    """Numbers of a counting exec until n is among them."""
    seen, rest = [], b""
    for event in events:
        assert event.type in ("started", "stdout"), event
        *lines, rest = (rest + event.data).split(b"\n")
        seen += [int(line) for line in lines]
        if seen and seen[-1] >= n:
            return seen
    raise AssertionError(f"it ended at {seen[-1:]}")


def test_forks_go_on_each_with_its_own_memory_and_the_sources_stream_never_breaks(sandbox, forked):
    value(sandbox, "x = list(range(100_000))")
    with sandbox.stream(COUNT) as counting:
        before = read_until(counting, 3)
        walls = value(sandbox, WALLS)
        forks = forked(sandbox, 2)
        after = read_until(counting, before[-1] + 30)
    assert before + after == list(range(1, after[-1] + 1))  # nothing lost, nothing twice
    for i, fork in enumerate(forks):
        value(fork, f"x.append({i})")
    assert [value(fork, "(len(x), x[-1])") for fork in forks] == ["(100001, 0)", "(100001, 1)"]
    assert value(sandbox, "len(x)") == "100000"
    assert [value(fork, WALLS) for fork in forks] == [walls, walls]


def test_forks_share_neither_names_nor_randomness(sandbox, forked):
    value(sandbox, "import random\nrandom.seed(7)")
    seen = [eval(value(one, IDENTITY), {"UUID": str}) for one in [*forked(sandbox, 2), sandbox]]
    assert all(len(set(column)) == 3 for column in zip(*seen))


DRAW = "before = generation()\n[draw(droppable), draw_in_child(droppable), draw(droppable), draw(ordinary), generation() == before]"
FLAGS = "[flags_of(droppable[0]), flags_of(wiped)]"


def test_copies_of_a_copy_share_no_state_of_getrandom(sandbox, forked):
    """Nor does a process in a copy share it with its child. The state is not the interpreter's, which is reseeded, but a library's."""
    if value(sandbox, SETUP + "HAS_VDSO") != "True":
        pytest.skip("the kernel's vDSO has no getrandom()")
    flags = value(sandbox, FLAGS)
    (copy,) = forked(sandbox, 1)
    copy.pause(to="disk")
    assert value(copy, FLAGS) == flags
    value(copy, "draw(droppable), draw(ordinary)")
    seen = [eval(value(one, DRAW)) for one in forked(copy, 2)]
    drawn = [one for row in seen for one in row[:3]]
    assert len(seen) == 3 and len(set(drawn)) == len(drawn), seen
    if ENGINE == "vm":  # its kernel has renewed every state
        assert len({row[3] for row in seen}) == 3, seen
    elif all(row[4] for row in seen):  # the host's kernel has not, as it does once a minute
        assert len({row[3] for row in seen}) == 1, "state that is restored as it was is repeated"


def test_a_program_goes_on_in_a_fork_where_it_was(sandbox, forked):
    counting = sandbox.start(COUNT)
    before = read_until(counting.output(), 5)
    (fork,) = forked(sandbox, 1)
    (copy,) = fork.execs()
    assert copy.id != counting.id and copy.info.state == "running"
    after = read_until((e for e in copy.output() if e.type != "gap"), before[-1] + 10)  # a gap is what the source has
    assert after == list(range(after[0], after[-1] + 1))
    copy.kill()
    assert counting.refresh().state == "running"


def test_a_memory_outlives_its_source_and_starts_any_number(make_sandbox, saved):
    source = make_sandbox()
    value(source, "x = 42")
    source.run("echo kept > ~/file")
    memory = saved(source)
    source.delete()
    copies = [make_sandbox(snapshot=memory) for _ in range(2)]
    assert [value(copy, "x") for copy in copies] == ["42", "42"]
    plain = make_sandbox(snapshot=memory, memory=False)
    assert plain.run("cat ~/file").stdout == "kept\n"
    assert plain.run_code("x").error.name == "NameError"
    again = saved(copies[0])  # a copy can be saved as any other
    assert value(make_sandbox(snapshot=again), "x") == "42"


@pytest.mark.jail("a vm's own kernel is saved with it, and connections within it go on")
def test_an_open_connection_is_refused_by_name_or_closed_as_the_caller_says(sandbox, forked):
    value(sandbox, CONNECT)
    with pytest.raises(errors.Conflict) as refused:
        sandbox.fork(1)
    assert "connection" in refused.value.message and "on_connection" in refused.value.hint
    (fork,) = forked(sandbox, 1, on_connection="close")
    assert value(fork, "try:\n    n = near.recv(1)\nexcept OSError as e:\n    n = e.errno\nn") != "None"
    assert value(sandbox, "far.send(b'!'), near.recv(1)") == "(1, b'!')"  # the source's is as it was


WATCH = """
import ctypes, os
libc = ctypes.CDLL(None)
watcher = libc.inotify_init1(os.O_NONBLOCK)
os.makedirs("watched", exist_ok=True)
open("single", "w").close()
"""
LOOK = "open('watched/new', 'w').close()\nlen(os.read(watcher, 4096)) > 0"


def test_a_directory_that_is_watched_is_watched_on(sandbox, forked):
    value(sandbox, WATCH + "libc.inotify_add_watch(watcher, b'watched', 0x100)")  # IN_CREATE
    (copy,) = forked(sandbox)
    assert (value(copy, LOOK), value(sandbox, LOOK)) == ("True", "True")


@pytest.mark.skipif(ENGINE == "vm", reason="a vm is saved as a whole")
def test_a_single_file_that_is_watched_is_refused_by_name(sandbox, forked):
    value(sandbox, WATCH + "libc.inotify_add_watch(watcher, b'single', 2)")
    with pytest.raises(errors.Conflict, match="watches"):
        forked(sandbox)
    assert value(sandbox, "40 + 2") == "42"


def test_a_damaged_memory_is_refused_and_its_files_still_serve(daemon, engine, make_sandbox, saved, sandbox):
    value(sandbox, "x = 1")
    memory = saved(sandbox)
    damage(daemon, memory, engine)
    with pytest.raises(errors.Conflict) as refused:
        make_sandbox(snapshot=memory)
    assert "damaged" in refused.value.message and "memory: false" in refused.value.hint
    assert make_sandbox(snapshot=memory, memory=False).run("true").exit_code == 0


def test_programs_with_threads_are_saved_and_all_of_their_threads_go_on(sandbox, forked):
    value(sandbox, "import threading, time\nturns = [0] * 3\ndef count(i):\n    while True:\n        turns[i] += 1; time.sleep(0.001)\nfor i in range(3):\n    threading.Thread(target=count, args=(i,), daemon=True).start()")
    (fork,) = forked(sandbox, 1)
    for one in (fork, sandbox):
        assert value(one, "before = list(turns)\nwhile any(a <= b for a, b in zip(turns, before)): time.sleep(0.001)\nlen(turns)") == "3"


@pytest.mark.jail("the suite's template for vms has no pandas")
def test_a_data_frame_is_used_on_in_five_forks_each_with_its_own(sandbox, forked):
    value(sandbox, "import pandas as pd\ndf = pd.DataFrame({'n': range(100_000)})")
    with sandbox.stream(COUNT) as counting:
        before = read_until(counting, 3)
        forks = forked(sandbox, 5)
        after = read_until(counting, before[-1] + 10)
    assert before + after == list(range(1, after[-1] + 1))
    for i, fork in enumerate(forks):
        value(fork, f"df['own'] = df.n * {i}\ndf.loc[0, 'n'] = -{i}")
    assert [value(fork, "(int(df.own.iloc[-1]), int(df.n.iloc[0]))") for fork in forks] == [f"({99_999 * i}, {-i})" for i in range(5)]
    assert value(sandbox, "(list(df.columns), int(df.n.sum()))") == "(['n'], 4999950000)"


def test_a_sandbox_can_be_saved_as_often_as_is_wanted(client, sandbox):
    """Each time its agent lets go of the gateway for a moment: that is no failure of it."""
    value(sandbox, "x = 1")
    for _ in range(7):
        client.delete_snapshot(sandbox.snapshot(memory=True)["id"])
    assert (sandbox.refresh().state, value(sandbox, "x")) == ("running", "1")
