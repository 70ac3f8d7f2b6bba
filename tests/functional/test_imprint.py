# SPDX-License-Identifier: Apache-2.0
"""Forks of one idle Python: its memory goes over as an imprint, without CRIU. What an imprint cannot carry goes by CRIU, and the reply
says why."""

import json
import os
import shutil
import signal
import subprocess
from concurrent.futures import ThreadPoolExecutor

import pytest

from harness import zygote
from harness.daemon import BUILD, ENGINE, IS_SANITIZED

pytestmark = [
    pytest.mark.skipif(ENGINE != "jail", reason="a vm is copied as a machine"),
    pytest.mark.skipif(IS_SANITIZED, reason="a sanitized agent maps terabytes"),
]
HAS_CRIU = shutil.which("criu", path="/usr/sbin:/usr/bin") is not None

STATE = """
import decimal, os, sqlite3
data = [bytes([k % 251]) * 4096 for k in range(5000)]
class Point:
    def __init__(self, x): self.x = x
    def __repr__(self): return f"Point({self.x})"
point = Point(decimal.Decimal(1) / 3)
os.makedirs("/tmp/there", exist_ok=True)
os.chdir("/tmp/there")
os.umask(0o027)
os.environ["MINE"] = "kept"
"""
LOOK = """
import threading
[str(point)[:12], sum(map(len, data)), all(d == bytes([k % 251]) * 4096 for k, d in enumerate(data)), os.getcwd(), os.umask(0o027),
 os.environ["MINE"], os.environ["CLOCHE_EXEC"] == open(f"/proc/{os.getpid()}/environ").read().split("\\0")[0].split("=")[1],
 threading.main_thread().native_id == os.getpid(), sqlite3.connect(":memory:").execute("select 6 * 7").fetchone()]
"""


def value(sandbox, code):
    result = sandbox.run_code(code)
    assert result.error is None, result.error
    return result.results[-1].text if result.results else None


@pytest.fixture(scope="module")
def warm():
    with zygote.daemon_with_zygote() as both:
        yield both


@pytest.fixture
def sandbox(warm):
    with warm[1].create(engine="jail") as sandbox:
        yield sandbox


@pytest.fixture
def forked(warm):
    """A function that forks by the bare API; all forks are deleted at the end."""
    _daemon, client = warm
    made = []

    def fork(sandbox, count=1, **fields):
        reply = sandbox._call("POST", ["fork"], body={"count": count, **fields}, timeout=120)
        assert not reply["failed"], reply["failed"]
        copies = [client.get(one["id"]) for one in reply["sandboxes"]]
        made.extend(copies)
        return reply, copies

    yield fork
    for one in made:
        one.delete()


def test_an_idle_python_goes_on_in_copies_with_all_that_it_knew(sandbox, forked):
    value(sandbox, STATE)
    before = value(sandbox, LOOK)
    reply, copies = forked(sandbox, 3)
    assert (reply["memory_by"], reply["memory_why"]) == ("imprint", None)
    assert [value(one, LOOK) for one in copies] == [before] * 3
    for i, one in enumerate(copies):
        value(one, f"data.append(b'{i}'); import email.parser; deep = lambda n: n and deep(n - 1); deep(800)")
    assert [value(one, "data[-1]") for one in copies] == ["b'0'", "b'1'", "b'2'"]
    assert value(sandbox, "len(data)") == "5000"
    again, (second,) = forked(copies[0])
    assert again["memory_by"] == "imprint" and value(second, "data[-1]") == "b'0'"


@pytest.mark.skipif(not HAS_CRIU, reason="no criu")
def test_a_copy_is_paused_to_disk_and_goes_on(sandbox, forked):
    value(sandbox, STATE)
    before = value(sandbox, LOOK)
    reply, (copy,) = forked(sandbox)
    assert reply["memory_by"] == "imprint"
    copy.pause(to="disk")
    assert value(copy, LOOK) == before


@pytest.mark.skipif(not HAS_CRIU, reason="no criu")
@pytest.mark.parametrize(
    "code, why",
    [
        ("import threading\nstop = threading.Event()\nthreading.Thread(target=stop.wait, daemon=True).start()", "it has threads"),
        pytest.param("file = open('/tmp/there', 'w')", "it has /tmp/there open", marks=pytest.mark.slow),
        pytest.param("import subprocess\nchild = subprocess.Popen(['sleep', '60'])", "it has children", marks=pytest.mark.slow),
        ("import os\nos.system('setsid sleep 60 > /dev/null 2>&1 &')", "another program runs in the sandbox"),
        pytest.param("import mmap\nshared = mmap.mmap(-1, 4096)", "it shares memory", marks=pytest.mark.slow),
        pytest.param("import signal\nsignal.setitimer(signal.ITIMER_REAL, 1000)", "it has a timer", marks=pytest.mark.slow),
        pytest.param("open('/dev/shm/x', 'w').close()", "there is shared memory in /dev/shm", marks=pytest.mark.slow),
    ],
)
def test_what_an_imprint_cannot_carry_goes_by_criu_and_the_reply_says_why(sandbox, forked, code, why):
    value(sandbox, code + "\nx = 41")
    reply, (copy,) = forked(sandbox)
    assert reply["memory_by"] == "criu" and reply["memory_why"].startswith(why), reply["memory_why"]
    assert value(copy, "x + 1") == "42" and value(sandbox, "x + 2") == "43"


def test_the_sdk_and_the_command_line_say_how_memory_went_over(warm, sandbox):
    def fork(*options):
        env = {**os.environ, "CLOCHE_URL": daemon.url, "CLOCHE_API_KEY": daemon.key}
        ran = subprocess.run([BUILD / "cloche", "fork", *options, sandbox.id], env=env, capture_output=True, text=True, timeout=120)
        assert ran.returncode == 0, ran.stderr
        return ran

    daemon, client = warm
    value(sandbox, "x = 41")
    copies = sandbox.fork(2)
    assert (copies.memory_by, copies.memory_why, len(copies)) == ("imprint", None, 2)
    shown = fork()
    assert shown.stderr == "cloche: memory went over as an imprint\n"
    told = json.loads(fork("--json").stdout)
    assert (told["memory_by"], told["memory_why"]) == ("imprint", None)
    files = sandbox.fork(1, memory=False)
    assert (files.memory_by, files.memory_why) == (None, None) and fork("--files").stderr == ""
    if HAS_CRIU:
        value(sandbox, "import threading\nstop = threading.Event()\nthreading.Thread(target=stop.wait, daemon=True).start()")
        assert fork().stderr == "cloche: memory went over by CRIU: it has threads\n"
        told = sandbox.fork()
        assert (told.memory_by, told.memory_why) == ("criu", "it has threads")
    for one in client.list():
        if one.id != sandbox.id:
            one.delete()


def test_memory_that_does_not_fit_twice_is_not_written(warm, forked):
    with warm[1].create(engine="jail", limits={"memory_mib": 128}) as sandbox:
        value(sandbox, "x = bytearray(b'x') * 80_000_000")
        if not HAS_CRIU:
            pytest.skip("no criu")
        reply, (copy,) = forked(sandbox)
        assert reply["memory_by"] == "criu" and "too full" in reply["memory_why"]
        assert value(copy, "len(x)") == value(sandbox, "len(x)") == "80000000"


@pytest.mark.skipif(not HAS_CRIU, reason="no criu")
def test_an_imprint_of_a_zygote_that_was_replaced_goes_by_criu(warm, sandbox, forked):
    daemon, _client = warm
    value(sandbox, "x = 41")
    before = daemon.log().count('"zygote.ready"')
    os.kill(zygote.pid_of(daemon), signal.SIGKILL)
    zygote.await_ready(daemon, before + 1)
    reply, copies = forked(sandbox, 2)
    assert (reply["memory_by"], reply["memory_why"]) == ("criu", "the interpreter ended")
    assert [value(one, "x + 1") for one in copies] == ["42", "42"]


def test_an_idle_source_is_forked_again_by_the_imprint_that_it_has(warm, sandbox, forked):
    daemon, _client = warm

    def fork(count=1):
        before = daemon.log().count('"imprint.again"')
        reply, copies = forked(sandbox, count)
        assert reply["memory_by"] == "imprint", reply["memory_why"]
        return copies, daemon.log().count('"imprint.again"') > before

    value(sandbox, "import os, random\nn = 1\ndata = bytearray(b'x') * 10_000_000")
    (first,), again = fork()
    assert not again
    value(first, "n = 100; data[:] = bytes(len(data))")
    copies, again = fork(3)
    assert again and [value(one, "n, len(data), data[5]") for one in copies] == ["(1, 10000000, 120)"] * 3
    assert len({value(one, "random.random()") for one in copies}) == 3
    value(sandbox, "n += 1")  # a call, an exec and a file each change the source
    (copy,), again = fork()
    assert not again and value(copy, "n") == "2"
    sandbox.run("echo by an exec > ~/file")
    (copy,), again = fork()
    assert not again and copy.run("cat ~/file").stdout == "by an exec\n"
    sandbox.files.write("file", b"by the API")
    (copy,), again = fork()
    assert not again and copy.files.read_text("file") == "by the API"
    (copy,), again = fork()
    assert again and value(copy, "n") == "2"


def test_a_call_that_comes_while_an_imprint_is_used_again_waits(sandbox, forked):
    value(sandbox, "n = 0")
    forked(sandbox)
    with ThreadPoolExecutor() as pool:
        fork = pool.submit(forked, sandbox, 2)
        calls = [pool.submit(value, sandbox, "n += 1\nopen('n', 'w').write(str(n))\nn") for _ in range(3)]
        assert sorted(call.result() for call in calls) == ["1", "2", "3"]
        _reply, copies = fork.result()
    seen = {value(one, "n, open('n').read() if __import__('os').path.exists('n') else '0'") for one in copies}
    assert len(seen) == 1 and eval(value(copies[0], "n")) == int(eval(seen.pop())[1]), seen


def test_copies_draw_other_numbers_and_bear_other_names(sandbox, forked):
    value(sandbox, "import os, random, socket, uuid\nrandom.seed(7)")
    draw = "[random.random(), socket.gethostname(), os.urandom(8), uuid.uuid4().hex, os.environ['CLOCHE_EXEC']]"
    reply, copies = forked(sandbox, 3)
    assert reply["memory_by"] == "imprint"
    for column in zip(*(eval(value(one, draw)) for one in [sandbox, *copies])):
        assert len(set(column)) == 4, column


def test_a_call_that_comes_during_a_fork_waits_and_is_not_in_the_copies(sandbox, forked):
    value(sandbox, "n = 0\ndata = bytearray(b'x') * 50_000_000")
    with ThreadPoolExecutor() as pool:
        calls = [pool.submit(value, sandbox, "n += 1\nn") for _ in range(3)]
        fork = pool.submit(forked, sandbox, 2)
        assert sorted(call.result() for call in calls) == ["1", "2", "3"]
        _reply, copies = fork.result()
    seen = [eval(value(one, "n, len(data)")) for one in copies]
    assert seen[0] == seen[1] and seen[0][0] <= 3 and seen[0][1] == 50_000_000, seen
