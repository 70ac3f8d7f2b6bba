# SPDX-License-Identifier: Apache-2.0
"""SIGHUP brings the settings of the file, without an end of anything; a file that cannot be used changes nothing."""

import re
import signal
import threading

import pytest
from cloche import Client, ClocheError
from cloche.errors import TooLarge
from harness.daemon import Daemon, call, wait_for
from harness.running import running

pytestmark = pytest.mark.slow  # daemons are stopped and started, time and again

FIRST = "[defaults]\nmemory = '128MiB'\n[ceilings]\nmemory = '256MiB'\n[pool]\nmax = 0\n"
SECOND = FIRST.replace("128MiB", "160MiB").replace("256MiB", "192MiB")
COUNT = ["python3", "-uc", "import time\nfor i in range(200):\n print('line', i)\n time.sleep(0.01)"]


@pytest.fixture
def own():
    """A daemon with a file of settings: (daemon, client)."""
    daemon = Daemon("--plain-storage")
    daemon.settings = daemon.dir / "cloche.toml"
    daemon.settings.write_text(FIRST)
    daemon.options += ["--config", str(daemon.settings)]
    with running(daemon), Client(daemon.url, daemon.key) as client:
        yield daemon, client


def events(daemon):
    return re.findall(r'"event":"(daemon\.\w+)"', daemon.log())


def reload(daemon, text, until):
    """New settings and SIGHUP; returns when the log tells of an event once more."""
    seen = events(daemon).count(until)
    daemon.settings.write_text(text)
    daemon.process.send_signal(signal.SIGHUP)
    wait_for(lambda: events(daemon).count(until) > seen, 30, until)


def memory_of_new(client):
    sandbox = client.create()
    try:
        return sandbox.info.limits["memory_mib"]
    finally:
        sandbox.delete()


def test_O06_a_reload_changes_limits_and_ends_no_sandbox_and_no_output(own):
    daemon, client = own
    sandbox = client.create(name="stays")
    assert sandbox.info.limits["memory_mib"] == 128
    e = sandbox.start(COUNT)
    seen, data, is_told = [], b"", False
    for event in e.output(follow=True):
        if event.type != "stdout":
            continue
        seen.append(event.seq)
        data += event.data
        if not is_told and data.count(b"\n") > 20:
            is_told = True
            reload(daemon, SECOND, "daemon.reloaded")
    assert seen == list(range(1, len(seen) + 1))
    assert data.decode().splitlines() == [f"line {i}" for i in range(200)]
    assert client.get("stays").id == sandbox.id
    assert memory_of_new(client) == 160
    with pytest.raises(ClocheError, match="192"):
        client.create(limits={"memory_mib": 200})


@pytest.mark.parametrize("text", ["[defaults]\nmemory = 'much'\n", "[defaults\n", "no_such = 1\n", "[defaults]\nmemory = '1GiB'\n[ceilings]\nmemory = '512MiB'\n"])
def test_O06_a_file_that_cannot_be_read_changes_nothing_and_is_told(own, text):
    daemon, client = own
    gateway = daemon.gateway_pid
    reload(daemon, text, "daemon.reload_refused")
    assert daemon.gateway_pid == gateway
    assert memory_of_new(client) == 128


def test_O06_settings_that_the_daemon_does_not_start_with_are_taken_back(own):
    daemon, client = own
    sandbox = client.create(name="stays")
    reload(daemon, f"tls_cert = '{daemon.dir}/none'\ntls_key = '{daemon.dir}/none'\n" + SECOND, "daemon.reload_undone")
    wait_for(lambda: call(daemon, "GET", "/v1/health")[0] == 200, 30, "an answer")
    assert memory_of_new(client) == 128
    assert client.get("stays").id == sandbox.id
    reload(daemon, SECOND, "daemon.reloaded")
    assert memory_of_new(client) == 160


def test_O06_what_only_a_restart_can_change_is_told_and_the_rest_is_changed(own):
    daemon, client = own
    reload(daemon, f"socket = '{daemon.dir}/other.sock'\nlog_level = 'debug'\n" + SECOND, "daemon.reloaded")
    assert '"setting":"socket"' in daemon.log()
    assert daemon.socket.exists() and not (daemon.dir / "other.sock").exists()
    assert memory_of_new(client) == 160


def test_O06_reloads_that_come_at_once_end_with_the_last_settings(own):
    daemon, client = own
    daemon.settings.write_text(SECOND)
    for _ in range(5):
        daemon.process.send_signal(signal.SIGHUP)
    reload(daemon, FIRST.replace("128MiB", "144MiB"), "daemon.reloaded")
    wait_for(lambda: memory_of_new(client) == 144, 30, "the last settings")


def test_O06_a_stop_lets_calls_that_run_come_to_their_end(own):
    daemon, client = own
    sandbox = client.create()
    replies = []

    def work(i):
        with Client(daemon.url, daemon.key) as own_client:
            replies.append(own_client.get(sandbox.id).run(f"echo begun; sleep 1; echo {i}").stdout)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for t in threads:
        t.start()
    wait_for(lambda: sum(e.info.state == "running" for e in sandbox.execs()) == 8, 30, "all to run")
    daemon.process.send_signal(signal.SIGTERM)
    for t in threads:
        t.join(30)
    assert sorted(replies) == [f"begun\n{i}\n" for i in range(8)]
    assert daemon.process.wait(60) == 0


def test_a_lower_bound_on_requests_holds_after_a_reload(own):
    daemon, client = own
    with client.create() as box:
        box.files.write("big", bytes(3 << 20))
        reload(daemon, "request_max = '2MiB'\n" + FIRST, "daemon.reloaded")
        with pytest.raises(TooLarge):
            box.files.write("big", bytes(3 << 20))
        box.files.write("small", bytes(1 << 20))
        assert box.files.stat("small").size == 1 << 20
