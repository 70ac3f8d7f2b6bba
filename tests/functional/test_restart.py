# SPDX-License-Identifier: Apache-2.0
"""Crash-only: the gateway or the broker dies, and no sandbox, exec or byte is lost."""

import http.client
import json
import os
import signal
import socket
import subprocess

import pytest
from cloche import Client, errors
from harness import audit
from harness.daemon import ENGINE, Daemon, wait_for
from harness.running import running
from harness.web import PORT, Web, start_server

UP = b'"text":"up'
COUNT = ["python3", "-uc", "import time\nfor i in range(400):\n print('line', i)\n time.sleep(0.01)"]


@pytest.fixture
def own():
    """A daemon of this test's own: (daemon, client)."""
    with running(Daemon("--default-memory", "128MiB")) as daemon, Client(daemon.url, daemon.key) as client:
        yield daemon, client


@pytest.mark.parametrize("part", ["gateway", "broker"])
def test_after_a_kill_output_goes_on_by_sequence_without_gap_or_repeat(own, part):
    daemon, client = own
    sandbox = client.create()
    e = sandbox.start(COUNT)
    seen, data, killed = [], b"", False
    for event in e.output(follow=True):
        if event.type != "stdout":
            continue
        seen.append(event.seq)
        data += event.data
        if not killed and data.count(b"\n") > 40:
            killed = True
            daemon.kill_parts(part)
    assert killed
    assert seen == list(range(1, len(seen) + 1))
    assert data.decode().splitlines() == [f"line {i}" for i in range(400)]
    assert e.wait(60).exit_code == 0


@pytest.mark.parametrize("part", ["gateway", "broker"])
def test_after_a_kill_sandboxes_are_adopted_and_usable(own, part):
    daemon, client = own
    sandboxes = [client.create(name=f"s{i}", tags={"i": str(i)}) for i in range(3)]
    for s in sandboxes:
        s.files.write("mark", s.id.encode())
    daemon.kill_parts(part)
    for i, s in enumerate(sandboxes):
        info = client.get(f"s{i}").info
        assert (info.id, info.state, info.tags) == (s.id, "running", {"i": str(i)})
        assert s.run(["cat", "mark"]).stdout == s.id
    sandboxes[0].delete()
    assert {s.id for s in client.list()} == {s.id for s in sandboxes[1:]}


def ask_and_wait(daemon, path, body):
    """A connection on which this was asked, and has printed that it is up."""
    conn = http.client.HTTPConnection("127.0.0.1", daemon.port, timeout=60)
    head = {"Content-Type": "application/json", "Accept": "application/x-ndjson", "X-API-Key": daemon.key}
    conn.request("POST", path, json.dumps(body), head)
    reply, line = conn.getresponse(), b"."
    while line and UP not in line:
        line = reply.readline()
    assert UP in line, (path, reply.status)
    return conn


@pytest.mark.neutral
@pytest.mark.parametrize("part", ["gateway", "broker"])
def test_after_a_kill_a_sandbox_of_this_engine_goes_on_as_it_was(part):
    with running(Daemon("--pool-max", "0")) as daemon, Client(daemon.url, daemon.key) as client:
        with client.create(engine=ENGINE, template="host") as sandbox:
            sandbox.run("echo before > kept")
            pid = sandbox.run("sleep 600 >/dev/null 2>&1 & echo $!").stdout
            daemon.kill_parts(part)
            assert sandbox.run(f"kill -0 {pid.strip()} && cat kept").stdout == "before\n"


@pytest.mark.slow
def test_what_was_to_end_with_its_caller_ends_with_the_gateway_that_had_it(own):
    daemon, client = own
    sandbox, loop = client.create(), "print('up', flush=True)\nwhile True: pass"
    shell = {"shell": "echo up; sleep 1000"}
    stays = ask_and_wait(daemon, f"/v1/sandboxes/{sandbox.id}/execs", shell)
    leaves = ask_and_wait(daemon, f"/v1/sandboxes/{sandbox.id}/execs", shell | {"kill_on_disconnect": True})
    code = ask_and_wait(daemon, f"/v1/sandboxes/{sandbox.id}/code", {"code": f"x = 5\n{loop}", "kill_on_disconnect": True})
    run = ask_and_wait(daemon, "/v1/run", {"code": loop})
    daemon.kill_parts("gateway")
    newest, oldest = client.get(sandbox.id).execs()
    assert newest.wait(60).cause == "killed"
    wait_for(lambda: oldest.refresh().state == "running", 30, "the exec that was not to end")
    assert sandbox.run_code("x", timeout=30).text == "5"  # it was interrupted, not killed
    wait_for(lambda: client.health()["sandboxes"] == 1, 30, "the end of the run's sandbox")
    for conn in (stays, leaves, code, run):
        conn.close()


@pytest.mark.slow
def test_a_daemon_that_stops_leaves_sandboxes_to_the_next():
    first = Daemon("--default-memory", "128MiB", rm=False).start()
    try:
        with Client(first.url, first.key) as client:
            sandbox = client.create(name="stays")
            running = sandbox.start("read x; echo got $x", open_stdin=True)
            sandbox.files.write("mark", b"1")
        assert first.stop() == 0
        first.options.append("--rm")
        first.start()
        with Client(first.url, first.key) as client:
            again = client.get("stays")
            assert (again.id, again.info.state) == (sandbox.id, "running")
            assert again.files.read("mark") == b"1"
            e = again.exec(running.id)
            e.write_stdin(b"it\n", eof=True)
            assert e.wait(60).exit_code == 0
            assert b"".join(x.data for x in e.output()) == b"got it\n"
    finally:
        ids = first.ids()
        status = first.stop()
        left = audit.left_after_stop(first, ids)
        first.remove()
    assert status == 0
    assert not left


def test_a_stop_that_is_told_by_two_signals_is_one_stop():
    """timeout(1) sends its signal to the daemon, and once more to its group: what --rm is to remove goes all the same."""
    daemon = Daemon("--default-memory", "128MiB").start()
    ids = set()
    try:
        with Client(daemon.url, daemon.key) as client:
            ids = {client.create().id}
        for signo in (signal.SIGSTOP, signal.SIGTERM, signal.SIGINT, signal.SIGCONT):  # it finds both at once, however busy the host is
            daemon.process.send_signal(signo)
        assert daemon.process.wait(60) == 0
        assert "daemon.stuck" not in daemon.log()
    finally:
        daemon.stop()
        left = audit.left_after_stop(daemon, ids)
        daemon.remove()
    assert not left


def test_who_asks_again_for_a_stop_that_takes_long_gets_it_at_once():
    daemon = Daemon("--default-memory", "128MiB", "--watchdog", "0s").start()
    try:
        os.kill(daemon.broker_pid, signal.SIGSTOP)
        daemon.process.send_signal(signal.SIGTERM)
        wait_for(lambda: daemon.process.send_signal(signal.SIGTERM) or "daemon.stuck" in daemon.log(), 20, "the end of patience")
        daemon.process.wait(20)
        daemon.start()  # the spares stayed, and this one removes them
    finally:
        status = daemon.stop()
        left = audit.left_after_stop(daemon, daemon.ids())
        daemon.remove()
    assert (status, left) == (0, [])


@pytest.mark.slow
def test_a_sweep_removes_what_a_daemon_left_whoever_has_its_port_by_then():
    gone = Daemon("--default-memory", "128MiB", rm=False).start()
    try:
        with Client(gone.url, gone.key) as client:
            client.create()
        assert gone.stop() == 0
        assert audit.processes_of_cgroups(gone.ids())
        with socket.create_server(("127.0.0.1", 0)) as other:
            port = other.getsockname()[1]
            argv = [gone.program, "serve", "--data", gone.data, "--run", gone.run, "--sweep", "--listen", f"127.0.0.1:{port}"]
            done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, done.stderr
    finally:
        left = audit.left_after_stop(gone, gone.ids())
        gone.remove()
    assert not left


def test_a_second_daemon_on_the_same_directories_is_refused(own):
    daemon, client = own
    second = Daemon()
    second.data, second.run = daemon.data, daemon.run
    try:
        with pytest.raises(RuntimeError):
            second.start()
    finally:
        second.remove()
    assert client.health()["ready"] is True


def test_a_guest_that_dies_by_itself_is_told_with_a_cause(own):
    daemon, client = own
    sandbox = client.create()
    pids = audit.processes_of_cgroups({sandbox.id})
    assert pids
    os.kill(min(pids), signal.SIGKILL)
    info = wait_for(lambda: sandbox.refresh() if sandbox.refresh().ended else None, 15, "the end")
    assert info.ended["cause"] in ("guest_crash", "killed")


def test_links_to_ports_outlive_a_killed_gateway(own):
    daemon, client = own
    with client.create() as sandbox:
        start_server(sandbox)
        web = Web(daemon, sandbox.expose(PORT)["url"])
        assert web.seen("/before")["path"] == "/before"
        daemon.kill_parts("gateway")
        assert web.seen("/after")["path"] == "/after"


def test_after_a_kill_it_is_still_known_that_a_program_has_closed_its_stdin(own):
    daemon, client = own
    with client.create() as sandbox:
        one = sandbox.start("exec 0<&-; echo closed; sleep 60", open_stdin=True)
        assert next(iter(one.output())).data == b"closed\n"
        daemon.kill_parts("gateway")

        def refusal():
            try:
                sandbox.exec(one.id).write_stdin(b"lost")
            except errors.Conflict as refused:
                return str(refused)
            except errors.ClocheError:
                return ""  # it is not back yet
            raise AssertionError("it was taken")

        wait_for(refusal, 30, "the gateway")
        assert "has closed its stdin" in refusal()
        one.kill()


def test_after_a_kill_an_exec_that_never_ran_still_names_its_field(own):
    daemon, client = own
    sandbox = client.create()
    with pytest.raises(errors.ClocheError):
        sandbox.run(["true"], cwd="/none")
    daemon.kill_parts("gateway")
    (ended,) = sandbox.execs()
    assert ended.info.raw["error"]["field"] == "cwd"
