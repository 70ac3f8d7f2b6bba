# SPDX-License-Identifier: Apache-2.0
"""Sandboxes paused to disk: nothing of them is in memory, and they go on where they were."""

import shutil
import subprocess
import threading

import pytest
from cloche import Client, errors
from harness import audit
from harness.daemon import ENGINE, IS_SANITIZED, Daemon, wait_for
from harness.memory import damage
from harness.web import Web

pytestmark = [
    pytest.mark.skipif(ENGINE == "jail" and shutil.which("criu", path="/usr/sbin:/usr/bin") is None, reason="no criu"),
    pytest.mark.skipif(IS_SANITIZED, reason="a sanitized agent maps terabytes"),
]

COUNT = "i=0; while :; do i=$((i+1)); echo $i; sleep 0.01; done"
SERVE = "import http.server, threading\nserver = http.server.HTTPServer(('127.0.0.1', 8000), http.server.SimpleHTTPRequestHandler)\nthreading.Thread(target=server.serve_forever, daemon=True).start()"
CONNECT = "import socket\nlistener = socket.create_server(('127.0.0.1', 0))\nnear = socket.create_connection(listener.getsockname())"

# Its children end as soon as it goes on: it is another process then, with a start of its own.
KILL = """
import os, signal
def start():
    return open("/proc/self/stat").read().split()[21]
children = []
for _ in range(40):
    children.append(os.fork())
    if not children[-1]:
        signal.pause()
    os.setpgid(children[-1], children[0])
was = start()
print("ready", flush=True)
while start() == was:
    pass
os.killpg(children[0], signal.SIGKILL)
print([os.waitpid(pid, 0)[1] for pid in children] == [signal.SIGKILL] * 40, flush=True)
"""


def value(sandbox, code):
    result = sandbox.run_code(code)
    assert result.error is None, result.error
    return result.results[-1].text if result.results else None


def numbers_until(events, n):
    """Of a counting exec, until n is among them."""
    seen, rest = [], b""
    for event in events:
        if event.type == "stdout":
            *lines, rest = (rest + event.data).split(b"\n")
            seen += [int(line) for line in lines]
        if seen and seen[-1] >= n:
            return seen
    raise AssertionError(f"it ended at {seen[-1:]}")


@pytest.fixture
def own():
    """A daemon that leaves its sandboxes to the next start."""
    daemon = Daemon("--pool-max", "0", rm=False).start()
    with Client(daemon.url, daemon.key) as client:
        try:
            yield daemon, client
        finally:
            for one in client.list():
                one.delete()
            snapshots, ids = list(client.snapshots()), daemon.ids()
            status = daemon.stop()
            left = audit.left_after_stop(daemon, ids)
            daemon.remove()
    assert (status, left, snapshots) == (0, [], [])


@pytest.mark.parametrize("persistent", [False, True])
def test_nothing_of_it_is_left_in_memory_and_it_goes_on_where_it_was(daemon, client, make_sandbox, persistent):
    sandbox = make_sandbox(persistent=persistent, timeout=100)
    value(sandbox, "x = 42")
    counting = sandbox.start(COUNT)
    before = numbers_until(counting.output(), 3)
    info = sandbox.pause(to="disk")
    assert (info.state, info.paused_to, info.expires_us, info.ended) == ("paused", "disk", None, None)
    assert not audit.processes_of_cgroups({sandbox.id}) and not audit.cgroup_dirs({sandbox.id})
    assert not (daemon.run / "sandboxes" / sandbox.id).exists()
    (saved,) = client.snapshots(sandbox=sandbox.id)
    assert saved["automatic"] and saved["memory_bytes"] > 0
    assert sandbox.pause(to="disk").paused_to == "disk"  # twice is fine
    info = sandbox.resume()
    assert (info.state, info.resumed, info.paused_to) == ("running", True, None) and info.expires_us
    assert value(sandbox, "x") == "42"
    seen = numbers_until(counting.output(), before[-1] + 20)
    assert seen == list(range(1, seen[-1] + 1))  # nothing lost, nothing twice
    assert list(client.snapshots(sandbox=sandbox.id)) == []


def test_any_call_resumes_it_and_callers_that_come_at_once_share_one_start(make_sandbox):
    sandbox = make_sandbox()
    value(sandbox, "x = []")
    sandbox.files.write("a", b"1")
    for n, use in enumerate((lambda: sandbox.run("cat a").stdout == "1", lambda: sandbox.files.read("a") == b"1"), 1):
        sandbox.pause(to="disk")
        threads = [threading.Thread(target=sandbox.run_code, args=("x.append(1)",)) for _ in range(3)]
        [t.start() for t in threads]
        assert use()
        [t.join() for t in threads]
        assert (value(sandbox, "len(x)"), sandbox.refresh().resumes) == (str(3 * n), n)


def test_a_call_under_way_is_answered_when_it_goes_on(make_sandbox):
    sandbox = make_sandbox()
    results = []
    code = "import time\nopen('began', 'w').close()\nn = 0\nwhile n < 100:\n    time.sleep(0.01); n += 1\nn"
    thread = threading.Thread(target=lambda: results.append(value(sandbox, code)))
    thread.start()
    wait_for(lambda: sandbox.files.exists("began"), what="its begin")
    sandbox.pause(to="disk")
    assert results == []
    sandbox.resume()
    thread.join()
    assert results == ["100"]


def test_an_open_program_is_read_on_where_it_was(make_sandbox):
    """As a program is that is just being loaded: its libraries are open, and not read yet."""
    sandbox = make_sandbox()
    value(sandbox, "import os, sys\nprogram = os.open(sys.executable, os.O_RDONLY)")
    sandbox.pause(to="disk")
    assert value(sandbox, "os.read(program, 4)") == r"b'\x7fELF'"


@pytest.mark.skipif(ENGINE == "vm", reason="a machine is resumed as a whole")
def test_an_open_directory_of_a_process_is_the_same_one_behind_a_resume(make_sandbox):
    sandbox = make_sandbox()
    value(sandbox, "import os; own, first = (os.open(path, os.O_RDONLY) for path in ('/proc/self', '/proc/1'))")
    sandbox.pause(to="disk")
    sandbox.resume()
    assert value(sandbox, "[os.readlink(f'/proc/self/fd/{fd}') for fd in (own, first)] == [f'/proc/{os.getpid()}', '/proc/1']") == "True"
    assert value(sandbox, "os.listdir(own) == os.listdir('/proc/self')") == "True"


def test_what_a_program_ends_while_it_is_resumed_is_ended_and_the_rest_goes_on(make_sandbox):
    """CRIU lets processes go on one by one, a parent before its children."""
    sandbox = make_sandbox()
    program = sandbox.start(["python3", "-c", KILL])
    output = program.output()
    assert next(e.data for e in output if e.type == "stdout") == b"ready\n"
    sandbox.pause(to="disk")
    sandbox.resume()
    assert next(e.data for e in output if e.type == "stdout") == b"True\n"


def test_a_visit_of_a_port_resumes_it(daemon, make_sandbox):
    sandbox = make_sandbox()
    value(sandbox, SERVE)
    web = Web(daemon, sandbox.expose(8000)["url"])
    wait_for(lambda: web.ask("/")[0] == 200, what="the server")
    sandbox.pause(to="disk", on_connection="close")
    assert web.ask("/", timeout=30)[0] == 200 and sandbox.refresh().state == "running"


@pytest.mark.jail("a vm's own kernel is saved with it, and connections within it go on")
def test_an_open_connection_is_refused_closed_or_left_in_memory_as_the_caller_says(make_sandbox):
    sandbox = make_sandbox()
    value(sandbox, CONNECT)
    with pytest.raises(errors.Conflict, match="connection"):
        sandbox.pause(to="disk")
    assert (sandbox.refresh().state, value(sandbox, "near.send(b'!')")) == ("running", "1")  # as it was
    assert sandbox.pause().paused_to == "memory"
    with pytest.raises(errors.Conflict, match="paused in memory"):
        sandbox.pause(to="disk")
    sandbox.resume()
    assert sandbox.pause(to="disk", on_connection="close").paused_to == "disk"
    assert value(sandbox, "try:\n    near.send(b'!')\nexcept OSError as e:\n    near = None\nnear is None") == "True"


def test_an_idle_one_is_paused_and_the_next_call_resumes_it(client, make_sandbox):
    sandbox = make_sandbox(idle_timeout=0.3, on_idle="pause")
    value(sandbox, "x = 1")
    wait_for(lambda: sandbox.refresh().state == "paused", 30, "the pause")
    told = next(e for e in client.events(sandbox=sandbox.id) if e["type"] == "sandbox.paused")
    assert (told["data"]["to"], told["data"]["cause"]) == ("disk", "idle")
    assert (sandbox.info.raw["on_idle"], sandbox.info.raw["on_timeout"]) == ("pause", "delete")
    assert value(sandbox, "x") == "1"
    sandbox.update(on_idle="delete")
    wait_for(lambda: sandbox.refresh().ended, 30, "the end")
    assert sandbox.info.ended["cause"] == "idle"


def test_time_on_disk_costs_no_lifetime_and_is_not_metered(make_sandbox):
    sandbox = make_sandbox(timeout=1000)
    sandbox.pause(to="disk")
    before = sandbox.usage()
    assert before["now"] is None and sandbox.refresh().expires_us is None
    threading.Event().wait(0.3)
    after = sandbox.usage()
    assert after["usage"] == before["usage"]
    sandbox.resume()
    assert sandbox.usage()["now"]["memory_bytes"] > 0


@pytest.mark.parametrize("to", ["disk", "memory"])
def test_where_time_paused_counts_its_end_comes_while_it_rests(make_sandbox, to):
    sandbox = make_sandbox(timeout=1000, paused_time_counts=True, persistent=True)
    expires = sandbox.info.expires_us
    sandbox.pause(to=to)
    assert abs(sandbox.refresh().expires_us - expires) < 1_000_000  # neither more nor less by the pause
    sandbox.resume()
    assert abs(sandbox.refresh().expires_us - expires) < 1_000_000
    sandbox.pause(to=to)
    sandbox.update(paused_time_counts=False)
    assert sandbox.refresh().expires_us is None
    sandbox.update(paused_time_counts=True, on_timeout="pause", timeout=0.1)
    wait_for(lambda: sandbox.refresh().expires_us is None, 30, "the end of its time")
    assert sandbox.info.state == "paused"  # which it was already
    sandbox.update(on_timeout="stop", timeout=0.1)
    wait_for(lambda: sandbox.refresh().state == "stopped", 30, "the end of its time")
    assert (sandbox.info.ended["cause"], sandbox.info.paused_to) == ("timeout", None)
    sandbox.update(timeout=1000)
    sandbox.update(timeout=1000)
    assert sandbox.resume().state == "running"  # over its files


def test_time_that_counts_while_it_is_paused_is_counted_while_the_daemon_is_away(own):
    daemon, client = own
    long, short = (client.create(timeout=t, paused_time_counts=True) for t in (1000, 1000))
    expires = long.info.expires_us
    for one in (long, short):
        one.pause(to="disk")
    short.update(timeout=1)
    daemon.process.kill()
    daemon.process.wait()
    daemon.start()
    assert abs(long.refresh().expires_us - expires) < 1_000_000
    wait_for(lambda: short.refresh().ended, 30, "the end of its time")
    assert short.info.ended["cause"] == "timeout"
    assert value(long, "1 + 1") == "2"


def test_a_damaged_memory_is_refused_by_name_and_the_files_are_offered(daemon, client, engine, make_sandbox):
    sandbox = make_sandbox()
    sandbox.files.write("a", b"kept")
    first = sandbox.snapshot()["id"]
    value(sandbox, "x = 1")
    left = sandbox.start("sleep 1000")
    sandbox.pause(to="disk")
    saved = sandbox.info.raw["id"] and next(s for s in client.snapshots(sandbox=sandbox.id) if s["automatic"])
    damage(daemon, saved["id"], engine)
    for _ in range(2):  # it stays what it was
        with pytest.raises(errors.Conflict, match="damaged") as refused:
            sandbox.resume()
        assert "memory: false" in refused.value.hint and first in refused.value.hint
        assert sandbox.refresh().paused_to == "disk"
    sandbox.resume(memory=False)
    assert sandbox.files.read("a") == b"kept" and sandbox.run_code("x").error.name == "NameError"
    assert left.refresh().state != "running"
    client.delete_snapshot(first)


def test_one_that_is_paused_on_disk_can_be_forked_changed_stopped_and_deleted(client, make_sandbox):
    sandbox = make_sandbox(persistent=True)
    value(sandbox, "x = 7")
    sandbox.files.write("a", b"1")
    sandbox.pause(to="disk")
    forks = sandbox.fork(2)
    try:
        assert [value(fork, "x") for fork in forks] == ["7", "7"]
        assert sandbox.refresh().paused_to == "disk"
        assert sandbox.update(tags={"t": "1"}).tags == {"t": "1"}
        assert sandbox.stop().state == "stopped"
        assert sandbox.files.read("a") == b"1" and sandbox.run_code("x").error.name == "NameError"
        sandbox.pause(to="disk")
        sandbox.delete()
    finally:
        for fork in forks:
            fork.delete()
    wait_for(lambda: not list(client.snapshots()), what="nothing left")


def test_x_is_there_after_the_whole_daemon_was_killed(own):
    daemon, client = own
    sandbox = client.create()
    value(sandbox, "x = list(range(100_000))")
    counting = sandbox.start(COUNT)
    sandbox.pause(to="disk")
    daemon.process.kill()  # the launcher, and all go with it
    daemon.process.wait()
    daemon.start()
    assert client.get(sandbox.id).info.paused_to == "disk"
    assert value(sandbox, "len(x)") == "100000"
    numbers_until(counting.output(), 30)


def test_without_criu_it_stays_in_memory_and_the_disk_is_refused_by_name():
    hide = 'for i in /usr/sbin/criu /usr/bin/criu /usr/local/sbin/criu; do [ ! -e $i ] || mount --bind /dev/null $i; done; exec "$@"'
    daemon = Daemon("--pool-max", "0", prefix=["unshare", "--mount", "sh", "-c", hide, "sh"]).start()
    try:
        with Client(daemon.url, daemon.key) as client, client.create() as sandbox:
            assert "memory_snapshots" in sandbox.info.isolation["gaps"]
            with pytest.raises(errors.Unsupported, match="CRIU") as refused:
                sandbox.pause(to="disk")
            assert "criu" in refused.value.hint and sandbox.refresh().state == "running"
            assert sandbox.pause().paused_to == "memory"
            sandbox.resume()
    finally:
        assert daemon.stop() == 0
        daemon.remove()


# In CRIU's place: the first dump meets a socket that is not listed, all else is the real one's. Static, so that what CRIU is shown (LD_PRELOAD) is left to that.
FAILS_ONCE = r"""
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
int main(int argc, char *argv[])
{
	for (int i = 1; i < argc; i++)
		if (strcmp(argv[i], "dump") == 0 && open(FAILED, O_CREAT | O_EXCL, 0600) >= 0) {
			close(openat(3, "core-99999.img", O_CREAT, 0600));
			return fprintf(stderr, "Error (criu/sk-unix.c:1): unix: Unix socket 7 not found\n") > 0;
		}
	execv(REAL, argv);
	return 127;
}
"""


@pytest.mark.skipif(ENGINE == "vm", reason="a machine is saved by its monitor")
def test_a_save_that_fails_for_a_moment_is_tried_again_by_itself():
    daemon, criu = Daemon("--pool-max", "0"), shutil.which("criu", path="/usr/sbin:/usr/bin")
    once, real, failed = (daemon.dir / name for name in ("once", "real", "failed"))
    shutil.copy(criu, real)
    words = ["cc", "-static", f'-DREAL="{real}"', f'-DFAILED="{failed}"', "-o", once, "-x", "c", "-"]
    subprocess.run(words, input=FAILS_ONCE.encode(), check=True)
    daemon.prefix = ["unshare", "--mount", "sh", "-c", f'mount --bind {once} {criu}; exec "$@"', "sh"]
    daemon.start()
    try:
        with Client(daemon.url, daemon.key) as client, client.create() as sandbox:
            value(sandbox, "x = 42")
            assert not failed.exists()
            assert sandbox.pause(to="disk").paused_to == "disk" and failed.exists()
            assert not list(daemon.data.rglob("core-99999.img"))
            assert value(sandbox, "x") == "42"
    finally:
        assert daemon.stop() == 0
        daemon.remove()


def test_the_command_line_pauses_and_resumes(cli):
    box = cli.ok("create", "--idle-timeout", "1h", "--on-idle", "pause", "--paused-time-counts").strip()
    try:
        cli.ok("code", box, "x = 5")
        cli.ok("pause", box)
        shown = cli.ok("inspect", box)
        assert "paused_to: disk" in shown and "paused_time_counts: true" in shown, shown
        cli.ok("resume", box)
        assert cli.ok("code", box, "x").strip() == "5"
        cli.ok("pause", "--to", "memory", box)
        assert "paused_to: memory" in cli.ok("inspect", box)
    finally:
        cli.ok("rm", box)
