# SPDX-License-Identifier: Apache-2.0
"""Health: each thing that can be wrong is made wrong, told with the first thing to do, and told to be over."""

import contextlib
import json
import os
import shutil
import signal
import subprocess

import pytest
from cloche import Client, ClocheError
from harness import audit
from harness.cli import Cli
from harness.daemon import Daemon, call, wait_for
from harness.running import running


def problems(daemon):
    return {p["code"]: p for p in call(daemon, "GET", "/v1/health")[1]["problems"]}


def gauge(daemon, code):
    page = call(daemon, "GET", "/metrics")[1].decode()
    return f'cloche_problem{{code="{code}"}} 1\n' in page


def began_and_ended(daemon, code):
    with Client(daemon.url, daemon.key) as client:
        return [e["type"] for e in client.events(type="daemon", all=True) if e["data"].get("code") == code]


def check_told(daemon, code, *, blocks):
    """It is told everywhere, and to a stranger without a word of what it is."""
    found = wait_for(lambda: problems(daemon).get(code), what=code)
    assert set(found) == {"code", "message", "hint", "since_us"} and found["hint"] and found["since_us"] > 0
    status, health = call(daemon, "GET", "/v1/health")
    assert (status, health["status"], health["ready"]) == (200, "degraded", not blocks)
    status, ready = call(daemon, "GET", "/v1/ready")
    assert status == (503 if blocks else 200)
    if blocks:
        assert ready["error"]["code"] == "unavailable" and code in ready["error"]["message"] and ready["error"]["hint"] == found["hint"]
    assert set(call(daemon, "GET", "/v1/health", key="")[1]) == {"status", "ready", "version"}
    assert code not in json.dumps(call(daemon, "GET", "/v1/ready", key="")[1])
    assert gauge(daemon, code)
    status, out, _ = Cli(daemon)("doctor", "--json")
    assert ([p["code"] for p in json.loads(out)["problems"]], status) == ([code], 1 if blocks else 0), out
    return found


def check_over(daemon, code):
    wait_for(lambda: not problems(daemon), what=f"the end of {code}")
    assert call(daemon, "GET", "/v1/ready")[0] == 200 and not gauge(daemon, code)
    assert began_and_ended(daemon, code) == ["daemon.problem_began", "daemon.problem_ended"]


@pytest.fixture
def own():
    with running(Daemon("--pool-max", "0", "--watchdog", "0s")) as daemon:
        yield daemon


def test_a_healthy_daemon_has_no_problem(own):
    with Client(own.url, own.key) as client:
        client.create().delete()
    assert problems(own) == {}
    assert call(own, "GET", "/v1/ready") == (200, {"ready": True}) == call(own, "GET", "/v1/ready", key="")
    assert 'cloche_problem{code="broker_stuck"} 0\n' in call(own, "GET", "/metrics")[1].decode()
    assert json.loads(Cli(own).ok("doctor", "--json"))["problems"] == []


@pytest.mark.slow
@pytest.mark.parametrize(
    "part, code, blocks", [("broker", "broker_stuck", True), ("cloche-wall", "wall_stuck", False), ("dialer", "dialer_stuck", False)]
)
def test_a_part_that_does_not_answer_is_told(own, part, code, blocks):
    pid = wait_for(lambda: own._part(part), what=part)
    os.kill(pid, signal.SIGSTOP)
    try:
        check_told(own, code, blocks=blocks)
    finally:
        os.kill(pid, signal.SIGCONT)
    check_over(own, code)


def test_layers_that_became_read_only_are_told(own):
    layers = own.data / "layers"
    if not os.path.ismount(layers):
        pytest.skip("DATA lies on btrfs itself")
    wait_for(lambda: subprocess.run(["mount", "-o", "remount,ro", layers]).returncode == 0, what="layers that nobody writes to")
    try:
        check_told(own, "layers_read_only", blocks=True)
    finally:
        subprocess.run(["mount", "-o", "remount,rw", layers], check=True)
    check_over(own, "layers_read_only")


@pytest.mark.slow
def test_creates_that_fail_and_a_pool_that_cannot_be_filled_are_told():
    """The directory of records takes none: whatever is made fails."""
    with running(Daemon("--pool-max", "4", "--pool-min", "2", "--watchdog", "0s")) as daemon:
        records = daemon.run / "sandboxes"
        with Client(daemon.url, daemon.key) as client:
            wait_for(lambda: client.health()["pool"]["ready"] >= 2, what="spares")
            subprocess.run(["chattr", "+i", records], check=True)
            try:
                for i in range(8):
                    with contextlib.suppress(ClocheError):
                        client.create(name=f"none-{i}")
                wait_for(lambda: "creates_failing" in problems(daemon), what="creates_failing")
                with contextlib.suppress(ClocheError):
                    for _ in range(8):  # takes the spares, which cannot be followed
                        client.create()
                wait_for(lambda: "pool_failing" in problems(daemon), what="pool_failing")
            finally:
                subprocess.run(["chattr", "-i", records], check=True)
            wait_for(lambda: "pool_failing" not in problems(daemon), 120, what="the end of pool_failing")
            wait_for(lambda: problems(daemon) == {}, 240, what="the end of creates_failing, whose time is two minutes")


@pytest.fixture
def narrow():
    """A daemon whose database has 8 MiB of room."""
    daemon = Daemon("--plain-storage", "--pool-max", "0")
    daemon.start().stop()
    place = daemon.data / "gateway"
    owner = place.stat()
    shutil.rmtree(place)
    place.mkdir()
    options = f"size=8m,uid={owner.st_uid},gid={owner.st_gid},mode=0700"
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "cloche-test", place], check=True)
    (daemon.data / "admin.key").unlink(missing_ok=True)
    try:
        daemon.start()
        yield daemon
        ids = daemon.ids()
    finally:
        status = daemon.stop()
        subprocess.run(["umount", place], check=True)
    found = audit.left_after_stop(daemon, ids)
    daemon.remove()
    assert (status, found) == (0, [])


def test_a_database_without_room_is_told_and_so_is_that_it_has_some(narrow):
    filler = narrow.data / "gateway" / "filler"
    with open(filler, "wb", buffering=0) as f, contextlib.suppress(OSError):
        while True:
            f.write(b"\0" * 4096)
    with Client(narrow.url, narrow.key) as client, pytest.raises(ClocheError):
        for i in range(1000):
            client.create_key(f"key-{i}")
    found = check_told(narrow, "database_failing", blocks=True)
    assert "full" in found["message"]
    filler.unlink()
    wait_for(lambda: not problems(narrow), what="the end of it")
    assert call(narrow, "GET", "/v1/ready")[0] == 200


QEMU = {"x86_64": "/usr/bin/qemu-system-x86_64", "aarch64": "/usr/bin/qemu-system-aarch64"}[os.uname().machine]
CRIU = "/usr/sbin/criu"


@contextlib.contextmanager
def without(*programs):
    """A daemon on a host without these, and what installs one of them."""
    hide = 'while [ "$1" != -- ]; do mount --bind /dev/null "$1"; shift; done; shift; exec "$@"'
    with running(Daemon("--pool-max", "0", prefix=["unshare", "--mount", "sh", "-c", hide, "sh", *programs, "--"])) as daemon:
        yield daemon, lambda path: subprocess.run(["nsenter", "--mount", "--target", str(daemon.process.pid), "umount", path], check=True)


def finding(daemon, name):
    return next(c for c in call(daemon, "GET", "/v1/doctor")[1]["checks"] if c["name"] == name)


@pytest.mark.skipif(not os.path.exists(QEMU), reason="no QEMU")
def test_a_qemu_that_is_installed_later_is_noticed_without_a_restart():
    with without(QEMU) as (daemon, install), Client(daemon.url, daemon.key) as client:
        with pytest.raises(ClocheError, match="this host has no") as refused:
            client.create(engine="vm")
        assert "apt-get install" in refused.value.hint and not finding(daemon, "qemu")["present"]
        install(QEMU)
        wait_for(lambda: "vm" in [e["engine"] for e in client.health()["engines"]], what="the engine vm")
        found = finding(daemon, "qemu")
        assert (found["present"], found.get("remedy")) == (True, None)
        with pytest.raises(ClocheError, match="template 'host' is made of this host's own files"):
            client.create(engine="vm")  # what is missing next


@pytest.mark.skipif(not os.path.exists(CRIU), reason="no CRIU")
def test_a_criu_that_is_installed_later_is_noticed_without_a_restart():
    with without(CRIU) as (daemon, install), Client(daemon.url, daemon.key) as client, client.create() as sandbox:
        with pytest.raises(ClocheError, match="CRIU"):
            sandbox.fork(1)
        assert not finding(daemon, "criu")["present"]
        install(CRIU)
        wait_for(lambda: finding(daemon, "criu")["present"], what="CRIU among the findings")
        sandbox.fork(1)[0].delete()
