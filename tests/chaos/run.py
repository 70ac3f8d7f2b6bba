# SPDX-License-Identifier: Apache-2.0
"""One run of a daemon that is disturbed: its clients, who disturbs it, and the look at all promises in between."""

import json
import os
import sqlite3
import subprocess
import uuid
from collections import Counter

from harness import audit
from harness.daemon import BUILD, call, wait_for
from harness.internet import ALLOWED, Internet

from chaos.host import Host, cgroup_top, counted_ns
from chaos.killer import Killer
from chaos.load import Load
from chaos.model import HOOKED, Log, expect

SEED = os.environ.get("CLOCHE_CHAOS_SEED") or "1"
EXECS_S = 300  # for hundreds of programs at once
SETTLED = ("running", "paused", "stopped", "failed")
OPTIONS = ["--default-memory", "128MiB", "--usage-period", "200ms", "--pool-min", "1", "--pool-max", "1", "--events-rate", "100000", "--ended-max", "20"]


class Run:
    """A daemon on an internet of its own, clients that use it, and one who kills it."""

    def __init__(self, monkeypatch, options=()):
        self.internet = Internet()
        mark = f"CLOCHE_CHAOS_MARK={uuid.uuid4().hex}"
        monkeypatch.setenv(*mark.split("="))
        self.daemon = self.internet.daemon(*OPTIONS, *options, rm=False)
        self.prepare()
        self.daemon.start()
        self.log, self.kills, self.reconciled = Log(), Counter(), 0
        self.load = self.make_load()
        top = self._find_top()
        self.log.read(self.daemon)
        self.hook = self._hook()
        self.host = Host(self.daemon, mark, top, self.log.owners, self.load.views)
        self.killer = Killer(self.daemon, self.load, mark, top, SEED)

    def prepare(self):
        """Whatever is to be there before the daemon's first start."""

    def make_load(self):
        return Load(self.daemon, SEED)

    def close(self):
        self.load.end()
        self.daemon.stop()
        sweep(self.daemon)
        self.release()
        self.daemon.remove()
        self.internet.close()

    def release(self):
        """Gives back what prepare() took, when nothing of the daemon is left. May be called twice."""

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
        return self.load.listing()

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
            charged = call(box.daemon, "GET", f"{box.path}/usage")[1]["usage"]["cpu_ns"]
            after = counted_ns(self.host.top, box.id)
            expect(before * 0.99 <= charged <= after * 1.01, box.id, "is charged", charged, "where the kernel counted", before, "to", after)
            self.reconciled += 1

    def finish(self):
        """Every exec comes to its end; everything is deleted, and nothing is left."""
        wait_for(lambda: not self.load.has_unfinished(), EXECS_S, "the end of every exec")
        self.load.delete_all()
        self.look_at_host()
        expect(not self.listed(), "after all deletes:", *self.listed())
        self.look_at_hook()
        ids = self.daemon.ids()
        expect(self.daemon.stop() == 0, "the daemon did not stop")
        with sqlite3.connect(self.daemon.data / "gateway" / "state.db") as db:
            expect(db.execute("PRAGMA integrity_check").fetchone() == ("ok",), "the database is damaged")
        db.close()
        self.release()
        left = audit.left_after_stop(self.daemon, ids)
        expect(not left, "after the stop:", *left)


def sweep(daemon):
    """What a failed run has left: its sandboxes, and those of its files that are mounts."""
    argv = [str(BUILD / "cloche"), "serve", "--data", str(daemon.data), "--run", str(daemon.run), "--sweep"]
    subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=60, check=False)
