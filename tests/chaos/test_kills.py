# SPDX-License-Identifier: Apache-2.0
"""Crash-only: whatever of a daemon is killed, at whatever moment, nothing acknowledged is lost and nothing is left.

CLOCHE_CHAOS_KILLS says how often (`make chaos KILLS=1000`), CLOCHE_CHAOS_SEED repeats the choices of an earlier run.
"""

import os
import random
import sqlite3
import subprocess
import uuid
from collections import Counter

import pytest
from harness import audit
from harness.daemon import BUILD, Daemon, call, read_text, wait_for

from chaos.host import Host, cgroup_top, counted_ns
from chaos.killer import Killer
from chaos.load import Load
from chaos.model import Log, expect

KILLS = int(os.environ.get("CLOCHE_CHAOS_KILLS", "20"))
SEED = os.environ.get("CLOCHE_CHAOS_SEED") or f"{random.SystemRandom().randrange(1 << 32):x}"
SETTLED = ("running", "paused", "stopped", "failed")
OPTIONS = ["--default-memory", "128MiB", "--usage-period", "200ms", "--pool-min", "1", "--pool-max", "1", "--events-rate", "100000"]


class Run:
    """A daemon, clients that use it, and one who kills it."""

    def __init__(self, monkeypatch):
        mark = f"CLOCHE_CHAOS_MARK={uuid.uuid4().hex}"
        monkeypatch.setenv(*mark.split("="))
        self.daemon = Daemon(*OPTIONS, rm=False).start()
        self.log, self.kills, self.reconciled = Log(), Counter(), 0
        self.load = Load(self.daemon, SEED)
        top = self._find_top()
        self.host = Host(self.daemon, mark, top)
        self.killer = Killer(self.daemon, self.load, mark, top, SEED)

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
        wrong = self.host.look(self.listed)
        expect(not wrong, "on the host:", *wrong)
        self.log.read(self.daemon)
        twice = [i for c in (self.log.created, self.log.ended) for i, n in c.items() if n > 1 and i in self.load.closed]
        expect(not twice, "told twice in the log:", twice)
        silent = [i for i in self.load.closed if not self.log.created[i] or not self.log.ended[i]]
        expect(not silent, "not told in the log:", silent)

    def reconcile(self):
        """What is charged is what the kernel counted, to a hundredth. A spare's own use is nobody's, so only others are looked at."""
        for box in self.load.boxes:
            if not box.is_direct or box.has_rested or box.is_victim or box.states != {"running"}:
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
        wrong = self.host.look(self.listed)
        expect(not wrong and not self.listed(), "after all deletes:", *wrong)
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
