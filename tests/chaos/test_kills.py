# SPDX-License-Identifier: Apache-2.0
"""Crash-only: whatever of a daemon is killed, at whatever moment, nothing acknowledged is lost and nothing is left.

CLOCHE_CHAOS_KILLS says how often (`make chaos KILLS=1000`), CLOCHE_CHAOS_SEED what is chosen; `make chaos` draws one and prints it.
"""

import contextlib
import json
import os
import sqlite3
import subprocess
import uuid
from collections import Counter

import pytest
from harness import audit
from harness.daemon import BUILD, call, read_text, wait_for
from harness.internet import ALLOWED, Internet

from chaos.host import Host, cgroup_top, counted_ns
from chaos.killer import Killer
from chaos.load import Load
from chaos.model import HOOKED, Log, expect

KILLS = int(os.environ.get("CLOCHE_CHAOS_KILLS", "8"))
SEED = os.environ.get("CLOCHE_CHAOS_SEED") or "1"
SETTLED = ("running", "paused", "stopped", "failed")
OPTIONS = ["--default-memory", "128MiB", "--usage-period", "200ms", "--pool-min", "1", "--pool-max", "1", "--events-rate", "100000", "--ended-max", "20"]


class Run:
    """A daemon on an internet of its own, clients that use it, and one who kills it."""

    def __init__(self, monkeypatch):
        self.internet = Internet()
        mark = f"CLOCHE_CHAOS_MARK={uuid.uuid4().hex}"
        monkeypatch.setenv(*mark.split("="))
        self.daemon = self.internet.daemon(*OPTIONS, rm=False).start()
        self.log, self.kills, self.reconciled = Log(), Counter(), 0
        self.load = Load(self.daemon, SEED)
        top = self._find_top()
        self.log.read(self.daemon)
        self.hook = self._hook()
        self.host = Host(self.daemon, mark, top, self.log.owners)
        self.killer = Killer(self.daemon, self.load, mark, top, SEED)

    def _hook(self):
        """A webhook that is told of all that is looked at from here on."""
        self.log.sent.clear()
        status, reply = call(self.daemon, "POST", "/v1/webhooks", {"url": f"http://{ALLOWED}/hook", "types": ",".join(HOOKED)})
        assert status == 201, reply
        return reply["webhook"]["id"]

    def _find_top(self):
        sandbox_id = call(self.daemon, "POST", "/v1/sandboxes", {})[1]["id"]
        (pid, *_) = audit.processes_of_cgroups({sandbox_id})
        top = cgroup_top(pid)
        call(self.daemon, "DELETE", f"/v1/sandboxes/{sandbox_id}")
        return top

    def listed(self):
        found, cursor = [], ""
        while cursor is not None:
            page = call(self.daemon, "GET", f"/v1/sandboxes?limit=100{cursor}")[1]
            found += page["sandboxes"]
            cursor = page["next_cursor"] and f"&cursor={page['next_cursor']}"
        return found

    def kill_once(self):
        self.kills[self.killer.strike()] += 1
        self.load.hold()
        self.look()
        self.load.go_on()

    def look(self):
        try:
            wait_for(lambda: all(s["state"] in SETTLED for s in self.listed()), 30, "settled states")
        except AssertionError:
            expect(False, "neither here nor there:", [s for s in self.listed() if s["state"] not in SETTLED])
        self.load.settle(self.listed())
        self.reconcile()
        self.look_at_host()

    def look_at_host(self):
        self.log.read(self.daemon)
        wrong = self.host.look(self.listed)
        expect(not wrong, "on the host:", *wrong)
        wrong = self.log.wrongs(self.load.closed)
        expect(not wrong, "not told once in the log:", *wrong)

    def look_at_hook(self):
        """Each event has arrived, in order; one that was being sent at a kill perhaps twice."""
        last = self.log.sent[-1]
        hook = f"/v1/webhooks/{self.hook}"
        wait_for(lambda: call(self.daemon, "GET", hook)[1]["last_seq"] >= last, 60, "the last event at the webhook")
        came = [json.loads(e["body"])["seq"] for e in self.internet.seen("request", path="/hook")]
        once = [n for i, n in enumerate(came) if i == 0 or n != came[i - 1]]
        expect(once == self.log.sent, "the webhook got", len(came), "of", len(self.log.sent), "first wrong:",
               next((x for x in zip(once, self.log.sent) if x[0] != x[1]), None))

    def reconcile(self):
        """What is charged is what the kernel counted, to a hundredth. A spare's own use is nobody's, so only others are looked at."""
        for box in self.load.boxes:
            if not box.is_direct or box.has_rested or box.has_moved or box.is_victim or box.states != {"running"}:
                continue
            before = counted_ns(self.host.top, box.id)
            charged = call(self.daemon, "GET", f"{box.path}/usage")[1]["usage"]["cpu_ns"]
            after = counted_ns(self.host.top, box.id)
            expect(before * 0.99 <= charged <= after * 1.01, box.id, "is charged", charged, "where the kernel counted", before, "to", after)
            self.reconciled += 1

    def finish(self):
        """Every exec comes to its end; everything is deleted, and nothing is left."""
        wait_for(lambda: not self.load.has_unfinished(), 60, "the end of every exec")
        for s in self.listed():
            status, _ = call(self.daemon, "DELETE", f"/v1/sandboxes/{s['id']}")
            expect(status == 200, "a delete got", status)
        self.look_at_host()
        expect(not self.listed(), "after all deletes:", *self.listed())
        self.look_at_hook()
        ids = self.daemon.ids()
        expect(self.daemon.stop() == 0, "the daemon did not stop")
        left = audit.left_after_stop(self.daemon, ids)
        expect(not left, "after the stop:", *left)
        with sqlite3.connect(self.daemon.data / "gateway" / "state.db") as db:
            expect(db.execute("PRAGMA integrity_check").fetchone() == ("ok",), "the database is damaged")


def sweep(daemon):
    """What a failed run has left: its sandboxes, and those of its files that are mounts."""
    argv = [str(BUILD / "cloche"), "serve", "--data", str(daemon.data), "--run", str(daemon.run), "--sweep"]
    subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=60, check=False)


@pytest.fixture
def run(monkeypatch):
    run = Run(monkeypatch)
    yield run
    run.load.end()
    run.daemon.stop()
    sweep(run.daemon)
    run.daemon.remove()
    run.internet.close()


NOBODYS = "a" * 26  # as an id ends


@contextlib.contextmanager
def planted_file(path):
    path.touch()
    yield
    path.unlink()


@contextlib.contextmanager
def planted_dir(path):
    path.mkdir()
    yield
    path.rmdir()


@contextlib.contextmanager
def planted_mount(path):
    with planted_dir(path):
        subprocess.run(["mount", "-t", "tmpfs", "left", str(path)], check=True)
        yield
        subprocess.run(["umount", str(path)], check=True)


@contextlib.contextmanager
def planted_process(command):
    """It has our mark from the environment."""
    with subprocess.Popen(["sh", "-c", f"{command} exec sleep 100"]) as p:
        try:
            yield
        finally:
            p.kill()


def test_whatever_is_left_on_the_host_is_found(run):
    data, group = run.daemon.data, next(m for m in audit._cgroup_mounts() if (m / run.host.top).is_dir()) / run.host.top
    plants = {
        "spool file": planted_file(data / "gateway" / "spool" / f"ex_{NOBODYS}"),
        "spares": planted_dir(run.daemon.run / "sandboxes" / f"sb_{NOBODYS}"),
        "cgroup": planted_dir(group / f"sb_{NOBODYS}"),
        "mount": planted_mount(run.daemon.dir / "left"),
        "processes": planted_process(""),
        "zombie": planted_process("sleep 0.1 &"),
    }
    if (data / "layers").is_dir():
        plants["layer"] = planted_dir(data / "layers" / f"sb_{NOBODYS}")
    assert run.host.look(run.listed) == []
    for kind, plant in plants.items():
        with plant:
            wait_for(lambda: [w for w in run.host.wrongs(run.listed()) if w.startswith(kind)], 20, kind)
    assert run.host.look(run.listed) == []


def test_O01_whatever_is_killed_nothing_acknowledged_is_lost_and_nothing_is_left(run, capsys):
    run.load.start()
    try:
        for _ in range(KILLS):
            run.kill_once()
        run.load.end()
        run.finish()
    except BaseException:
        print(f"seed {SEED}, kills {dict(run.kills)}; the log ends:\n{read_text(run.daemon.log_path)[-20000:]}")
        raise
    answers, steps = (sum(getattr(w, n) for w in run.load.workers) for n in ("answers", "steps"))
    with capsys.disabled():
        print(f"\nseed {SEED}: {sum(run.kills.values())} kills {dict(run.kills)}")
        print(f"{steps} steps, {answers} answers, {run.log.seq} events, {run.reconciled} accounts reconciled")
