# SPDX-License-Identifier: Apache-2.0
"""Python contexts that are forks of a warm interpreter: as good as fresh ones, whatever becomes of the zygote."""

import contextlib
import fcntl
import os
import signal
import threading

import pytest
from harness import audit, zygote
from harness.daemon import children_of, read_text, wait_for

pytestmark = pytest.mark.jail("forks of an interpreter of the host's are a jail's way to start one")

FORKS = 100
FIFREEZE, FITHAW = 0xC0045877, 0xC0045878
DRAWS = """
import random, uuid, tempfile, secrets, numpy.random
(random.random(), str(uuid.uuid4()), str(uuid.uuid1()), next(tempfile._get_candidate_names()), secrets.token_hex(8),
 float(numpy.random.rand()))
"""

# What libc holds of its thread and has told the kernel, and what Python holds of it.
OWN = """
import ctypes, os, threading
libc = ctypes.CDLL(None)
numbers = {"x86_64": (274, 309), "aarch64": (100, 168)}[os.uname().machine]
tid, head, size, cpu = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_size_t(), ctypes.c_uint()
libc.prctl(40, ctypes.byref(tid), 0, 0, 0)
libc.syscall(numbers[0], 0, ctypes.byref(head), ctypes.byref(size))
os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
libc.syscall(numbers[1], ctypes.byref(cpu), None, None)
(ctypes.c_int.from_address(tid.value).value == os.getpid(), bool(head.value), libc.sched_getcpu() == cpu.value,
 threading.main_thread().native_id == os.getpid())
"""


@pytest.fixture(scope="module")
def warm():
    with zygote.daemon_with_zygote("--warm-modules", "numpy,random,uuid,tempfile") as both:
        yield both


@pytest.fixture
def sandbox(warm):
    with warm[1].create(engine="jail") as sandbox:
        yield sandbox


@pytest.mark.slow
def test_a_hundred_forks_of_one_zygote_draw_a_hundred_different_numbers(sandbox):
    seen = []
    for _ in range(FORKS):
        seen.append(eval(sandbox.run_code(DRAWS).text))
        assert sandbox.run_code(zygote.IS_FORK).text == "True"
        sandbox.contexts.restart("python")
    for draws in zip(*seen):
        assert len(set(draws)) == FORKS


def test_contexts_of_node_draw_different_numbers_too(sandbox):
    code = "[Math.random(), crypto.randomUUID()].join()"
    draws = set()
    for i in range(8):
        sandbox.contexts.create(f"n{i}", language="javascript")
        draws.update(sandbox.run_code(code, context=f"n{i}").text.strip("'\"").split(","))
    assert len(draws) == 16


def test_a_warm_module_is_loaded_before_the_first_call(sandbox):
    assert sandbox.run_code("import sys; 'numpy' in sys.modules").text == "True"
    assert zygote.is_fork(sandbox)


def test_a_fork_is_to_libc_the_process_that_it_is(sandbox):
    assert zygote.is_fork(sandbox)
    assert sandbox.run_code(OWN).text == "(True, True, True, True)"


def test_a_fork_has_the_directory_and_variables_that_its_context_asks_for(sandbox):
    sandbox.run(["mkdir", "/tmp/place"])
    sandbox.contexts.create("here", language="python", cwd="/tmp/place", env={"COLOUR": "blue", "TZ": "Asia/Tokyo"})
    code = "import os, time; print(os.getcwd(), os.environ['COLOUR'], time.tzname[0], os.environ['HOME'], os.getpgrp() == os.getpid())"
    assert sandbox.run_code(code, context="here").stdout == "/tmp/place blue JST /home/user True\n"
    assert sandbox.run(["sh", "-c", "echo $COLOUR"]).stdout == "\n"
    assert zygote.is_fork(sandbox, "here")


def test_a_directory_that_is_not_there_is_the_same_error_as_ever(sandbox):
    sandbox.contexts.create("lost", language="python", cwd="/nowhere")
    with pytest.raises(Exception, match="cwd: cannot enter '/nowhere'"):
        sandbox.run_code("1", context="lost")


@pytest.mark.parametrize("fields", [{"user": "root"}, {"env": {"PYTHONDONTWRITEBYTECODE": "1"}}, {"env": {"PATH": "/usr/bin:/bin"}}])
def test_what_a_fork_cannot_be_is_a_fresh_start(sandbox, fields):
    sandbox.contexts.create("other", language="python", **fields)
    assert not zygote.is_fork(sandbox, "other")


def test_packages_of_the_user_and_of_root_are_found(sandbox):
    assert sandbox.run_code("1").status == "ok"
    places = {"mine": "/home/user/.local/lib/python3.11/site-packages", "ours": "/usr/local/lib/python3.11/dist-packages"}
    version = sandbox.run_code("import sys; '%d.%d' % sys.version_info[:2]").text.strip("'")
    for name, place in places.items():
        user = "user" if name == "mine" else "root"
        place = place.replace("3.11", version)
        sandbox.run(["mkdir", "-p", place], user=user)
        sandbox.files.write(f"{place}/{name}.py", "value = 7", user=user)
    sandbox.contexts.restart("python")
    assert sandbox.run_code("import mine, ours; mine.value * ours.value").text == "49"
    assert zygote.is_fork(sandbox)


def test_a_python_of_the_sandboxs_own_is_the_one_that_runs(sandbox):
    script = '#!/bin/sh\nMARK=mine exec /usr/bin/python3 "$@"\n'
    sandbox.files.write("/usr/local/bin/python3", script, mode=0o755, user="root")
    assert sandbox.run_code("import os; os.environ.get('MARK')").text == "'mine'"
    assert not zygote.is_fork(sandbox)


def test_a_restart_takes_all_that_a_fork_has_started(sandbox):
    code = """
import os, time
child = os.fork()
if child == 0:
    os.setsid()
    if os.fork() == 0:
        os.setsid()
        for fd in range(3): os.close(fd)
        time.sleep(1000)
    os._exit(0)
os.waitpid(child, 0)
"""
    count = ["sh", "-c", "grep -l python3 /proc/[0-9]*/comm | wc -l"]
    assert sandbox.run_code(code).status == "ok"
    assert zygote.is_fork(sandbox)
    assert sandbox.run(count).stdout == "2\n"
    sandbox.contexts.restart("python")
    wait_for(lambda: sandbox.run(count).stdout in ("0\n", "1\n"), 10, "the end of its children")


def test_a_death_of_a_fork_is_told_with_how(sandbox):
    assert zygote.is_fork(sandbox)
    r = sandbox.run_code("import os; os._exit(9)")
    assert (r.status, r.exit_code) == ("died", 9)
    r = sandbox.run_code("import os; os.kill(os.getpid(), 11)")
    assert (r.status, r.signal, r.restarted) == ("died", 11, True)


def test_after_the_zygotes_death_calls_go_on_and_another_takes_its_place(warm, sandbox):
    daemon, _ = warm
    before = daemon.log().count('"zygote.ready"')
    os.kill(zygote.pid_of(daemon), signal.SIGKILL)
    assert sandbox.run_code("6 * 7").text == "42"
    zygote.await_ready(daemon, before + 1)
    sandbox.contexts.restart("python")
    assert zygote.is_fork(sandbox)


def test_after_the_nests_death_sandboxes_are_made_as_before(warm):
    daemon, client = warm
    spawner = next(p for p in children_of(daemon.broker_pid) if read_text(f"/proc/{p}/comm").strip() == "cloche-spawner")
    os.kill(spawner, signal.SIGKILL)
    with client.create(engine="jail") as sandbox:
        assert zygote.is_fork(sandbox)


def test_after_the_brokers_death_living_sandboxes_get_forks_again(warm, sandbox):
    daemon, client = warm
    sandbox.run_code("x = 1")
    before = daemon.log().count('"zygote.ready"')
    daemon.kill_parts("broker")
    zygote.await_ready(daemon, before + 1)
    sandbox.contexts.create("after", language="python")
    assert zygote.is_fork(sandbox, "after")
    with client.create(engine="jail") as another:
        assert zygote.is_fork(another)


@contextlib.contextmanager
def silent_disk(daemon):
    """Meanwhile nothing is written to the filesystem of the layers: who tries waits, and cannot be killed."""
    if not os.path.ismount(daemon.data / "layers"):
        pytest.skip("the layers lie on the host's own filesystem")
    fd = os.open(daemon.data / "layers", os.O_RDONLY)
    fcntl.ioctl(fd, FIFREEZE, 0)
    try:
        yield
    finally:
        fcntl.ioctl(fd, FITHAW, 0)
        os.close(fd)


def is_writing(sandbox):
    pids = audit.processes_of_cgroups({sandbox.id})
    return any(read_text(f"/proc/{p}/stat").rpartition(")")[2].startswith(" D") for p in pids)


@pytest.mark.slow
def test_a_slow_disk_that_keeps_a_sandbox_from_ending_costs_no_zygote(warm):
    daemon, client = warm
    before = zygote.pid_of(daemon)
    with client.create(engine="jail") as sandbox:
        sandbox.start(["sh", "-c", "while :; do echo text > file; done"])
        end = threading.Thread(target=sandbox.delete)
        with silent_disk(daemon):
            wait_for(lambda: is_writing(sandbox), what="a writer that waits")
            end.start()
            wait_for(lambda: any((e["id"], e["held"]) == (sandbox.id, 0) for e in daemon.log_of("jail.stuck")), 30, "a look at who holds it")
        end.join()
        assert zygote.pid_of(daemon) == before
