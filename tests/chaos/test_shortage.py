# SPDX-License-Identifier: Apache-2.0
"""A host that has no room or no descriptors left: what was promised stays, what is new is refused with a word, and all works again afterwards."""

import contextlib
import http.client
import resource
import shutil
import socket
import subprocess
from pathlib import Path

import harness.daemon
import pytest
from harness import audit
from harness.daemon import Daemon, call, read_text, status_value, wait_for

TYPED = ("internal", "no_capacity", "unavailable", "disk_full", "host_disk_full", "guest_error", "timeout")


def await_rest(pid):
    """Returns when the process sleeps, and has not run since the look before: one that spins can run at each."""
    looks = [None]

    def is_at_rest():
        looks.append((status_value(pid, "voluntary_ctxt_switches"), status_value(pid, "nonvoluntary_ctxt_switches")))
        is_asleep = read_text(f"/proc/{pid}/stat").rpartition(")")[2].startswith(" S")
        return is_asleep and looks[-1] == looks[-2]

    wait_for(is_at_rest, 20, "a process at rest")


@pytest.fixture
def short(request, monkeypatch):
    """A daemon each part of which has so few descriptors (the hard limit: it raises the soft one itself)."""
    n, end_with_parent = request.param, harness.daemon._end_with_parent

    def limit():
        end_with_parent()
        resource.setrlimit(resource.RLIMIT_NOFILE, (n, n))

    monkeypatch.setattr(harness.daemon, "_end_with_parent", limit)
    daemon = Daemon("--default-memory", "128MiB", "--pool-max", "0", "--no-zygotes", "--max-open-files", "16", "--default-open-files", "16").start()
    yield daemon
    ids = daemon.ids()
    status = daemon.stop()
    left = audit.left_after_stop(daemon, ids)
    daemon.remove()
    assert (status, left) == (0, [])


def create(daemon, name):
    return call(daemon, "POST", "/v1/sandboxes", {"name": name}, timeout=60)


@pytest.mark.parametrize("short", [64], indirect=True)
def test_A21_without_descriptors_clients_are_sent_away_and_nobody_spins(short):
    held = [socket.create_connection(("127.0.0.1", short.port), timeout=60) for _ in range(100)]
    await_rest(short.gateway_pid)
    for s in held:
        s.close()
    wait_for(lambda: _is_served(short), 20, "an answer")


def _is_served(daemon):
    with contextlib.suppress(OSError, http.client.HTTPException):
        return call(daemon, "GET", "/v1/health")[0] == 200
    return False


@pytest.mark.parametrize("short", [80], indirect=True)
def test_O03_creates_beyond_the_descriptors_are_refused_with_a_word_and_leave_nothing(short):
    made = []
    for i in range(20):
        status, body = create(short, f"box-{i}")
        if status != 201:
            break
        made.append(body["id"])
    assert made and status != 201 and body["error"]["code"] in TYPED, (made, body)
    for sandbox_id in made:
        assert call(short, "DELETE", f"/v1/sandboxes/{sandbox_id}")[0] == 200
    before = audit.picture(short)
    assert create(short, "again")[0] == 201
    assert call(short, "DELETE", "/v1/sandboxes/again")[0] == 200
    assert not audit.settled_leaks(short, before)[0]


@pytest.fixture
def cramped(tmp_path):
    """A daemon whose data lie on a tmpfs of a few MiB, and a function that fills it: (daemon, fill)."""
    daemon = Daemon("--plain-storage", "--default-memory", "128MiB", "--pool-max", "0", "--no-zygotes")
    daemon.data.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64m,mode=0755", "cloche-test", str(daemon.data)], check=True)
    try:
        daemon.start()
        yield daemon
        assert daemon.stop() == 0
    finally:
        if daemon.process and daemon.process.poll() is None:
            daemon.stop()
        subprocess.run(["umount", str(daemon.data)], check=True)
        daemon.remove()


def echo(daemon, name):
    return call(daemon, "POST", f"/v1/sandboxes/{name}/execs", {"argv": ["echo", "fine"]})


def fill(directory):
    path = Path(directory) / "filler"
    with open(path, "wb", buffering=0) as f, contextlib.suppress(OSError):
        while True:
            f.write(b"\0" * (1 << 20))
    return path


def test_O03_a_full_disk_of_the_host_is_told_and_what_was_there_stays(cramped):
    status, kept = call(cramped, "POST", "/v1/sandboxes", {"name": "kept"})
    assert status == 201, kept
    filler = fill(cramped.data)
    assert shutil.disk_usage(cramped.data).free < 1 << 20
    for i in range(3):
        status, body = call(cramped, "POST", "/v1/sandboxes", {"name": f"none-{i}"}, timeout=60)
        assert status == 201 or body["error"]["code"] in TYPED, body
    status, info = call(cramped, "GET", "/v1/sandboxes/kept")
    assert (status, info["state"]) == (200, "running")
    filler.unlink()
    status, body = wait_for(lambda: r if (r := echo(cramped, "kept"))[0] == 200 else None, 20, "an exec")
    assert body["stdout"] == "fine\n"
    for s in call(cramped, "GET", "/v1/sandboxes")[1]["sandboxes"]:
        assert call(cramped, "DELETE", f"/v1/sandboxes/{s['id']}")[0] == 200
    wait_for(lambda: call(cramped, "POST", "/v1/sandboxes", {"name": "after"})[0] == 201, what="that the room is seen, a tenth of a second later")
