# SPDX-License-Identifier: Apache-2.0
"""A part of the daemon that lives and does nothing is replaced; sandboxes go on, and whoever tries again is served."""

import os
import shutil
import signal
import socket
from concurrent.futures import ThreadPoolExecutor

import pytest
from cloche import Client, ClocheError
from harness.daemon import Daemon, wait_for
from harness.metrics import figures
from harness.running import running

PARTS = ["broker", "gateway", "cloche-wall", "dialer"]


@pytest.fixture
def own():
    """A daemon that replaces what is stuck for two seconds: (daemon, client)."""
    with running(Daemon("--default-memory", "128MiB", "--pool-max", "0", "--watchdog", "2s")) as daemon:
        with Client(daemon.url, daemon.key) as client:
            yield daemon, client


def tried_again(fn):
    """What a client that tries again gets, however often it is refused before."""

    def attempt():
        try:
            return fn()
        except (ClocheError, OSError):
            return None

    return wait_for(attempt, what="an answer")


@pytest.mark.slow
@pytest.mark.parametrize("part", PARTS)
def test_a_part_that_is_stopped_is_replaced_and_sandboxes_go_on(own, part):
    daemon, client = own
    sandbox = client.create(name="lives")
    counter = sandbox.start("for i in $(seq 100000); do echo $i; sleep 0.05; done")
    stopped = wait_for(lambda: daemon._part(part), what=part)
    os.kill(stopped, signal.SIGSTOP)
    wait_for(lambda: daemon._part(part) not in (None, stopped), what=f"another {part}")
    assert not os.path.exists(f"/proc/{stopped}")
    name = part.removeprefix("cloche-")
    assert [(e["name"], e["pid"], e["state"]) for e in daemon.log_of("daemon.part_stuck")] == [(name, stopped, "T")]
    assert tried_again(lambda: client.create(name="after")).info.state == "running"
    assert sandbox.run("echo here").stdout == "here\n"
    assert sandbox.exec(counter.id).info.state == "running"
    replaced = wait_for(lambda: [e for e in client.events(type="daemon.part_replaced", all=True)], what="an event")
    assert [(e["data"]["part"], e["data"]["cause"]) for e in replaced] == [(name, "stuck")]


def test_a_part_that_is_killed_is_told_as_one_that_died(own):
    daemon, client = own
    daemon.kill_parts("broker")
    replaced = wait_for(lambda: [e for e in client.events(type="daemon.part_replaced", all=True)], what="an event")
    assert [(e["data"]["part"], e["data"]["cause"]) for e in replaced] == [("broker", "died")]
    when = {part: figures(daemon)[f'cloche_part_replaced_timestamp_seconds{{part="{part}"}}'] for part in ("broker", "dialer", "wall", "gateway")}
    assert when == {"broker": when["broker"], "dialer": 0, "wall": 0, "gateway": 0} and when["broker"] > 1e9


def test_without_a_watchdog_a_stopped_part_stays():
    with running(Daemon("--pool-max", "0", "--watchdog", "0s")) as daemon:
        dialer = wait_for(lambda: daemon._part("dialer"), what="a dialer")
        os.kill(dialer, signal.SIGSTOP)
        with Client(daemon.url, daemon.key) as client:
            for _ in range(3):
                client.create().delete()
        assert daemon._part("dialer") == dialer
        os.kill(dialer, signal.SIGCONT)


def test_systemd_is_told_of_readiness_life_and_the_end(monkeypatch):
    name = f"cloche-test-{os.getpid()}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as s:
        s.bind("\0" + name)  # an abstract one, as a container's manager gives it
        s.settimeout(60)
        monkeypatch.setenv("NOTIFY_SOCKET", "@" + name)
        monkeypatch.setenv("WATCHDOG_USEC", "400000")
        heard = []

        def hear(word):
            while True:
                heard.append(s.recv(4096).decode())
                if heard[-1].startswith(word):
                    return heard[-1]

        with running(Daemon("--pool-max", "0")) as daemon:
            hear("READY=1")
            assert daemon.url in hear("STATUS=ready: ")
            for _ in range(3):
                hear("WATCHDOG=1")
        hear("STOPPING=1")


def test_a_start_that_takes_long_asks_systemd_for_more_time(monkeypatch, tmp_path):
    """A host may be slow: here it is the file system's making that waits for a word."""
    word, mkfs = tmp_path / "word", tmp_path / "mkfs.btrfs"
    os.mkfifo(word)
    mkfs.write_text(f'#!/bin/sh\nread go <{word}\nexec {shutil.which("mkfs.btrfs", path="/usr/sbin:/sbin:/usr/bin")} "$@"\n')
    mkfs.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as s, ThreadPoolExecutor(1) as pool:
        s.bind(str(tmp_path / "notify"))
        s.settimeout(60)
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
        heard = []

        def let_it_go_on():
            while sum(text.startswith("EXTEND_TIMEOUT_USEC=") for text in heard) < 3:
                heard.append(s.recv(4096).decode())
            word.write_text("go\n")

        going_on = pool.submit(let_it_go_on)
        with running(Daemon("--pool-max", "0", "--watchdog", "2s")):
            going_on.result(60)
            assert "READY=1" not in heard
            while heard[-1] != "READY=1":
                heard.append(s.recv(4096).decode())
    assert all("\nSTATUS=starting, for " in text for text in heard if text.startswith("EXTEND"))


def test_another_process_s_watchdog_is_not_served(monkeypatch, tmp_path):
    """WATCHDOG_PID names who is meant: a daemon below a unit's main process says nothing."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as s:
        s.bind(str(tmp_path / "notify"))
        s.settimeout(60)
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
        monkeypatch.setenv("WATCHDOG_USEC", "100000")
        monkeypatch.setenv("WATCHDOG_PID", "1")
        heard = []
        with running(Daemon("--pool-max", "0")):
            pass
        while not heard or heard[-1] != "STOPPING=1":
            heard.append(s.recv(4096).decode())
        assert "WATCHDOG=1" not in heard and "READY=1" in heard
