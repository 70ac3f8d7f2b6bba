# SPDX-License-Identifier: Apache-2.0
"""Holds a cluster in peace against what its clients were told (cluster_history.py). What it finds is a list of sentences; an empty one is a pass."""

import time

from harness.daemon import wait_for

from chaos.cluster_history import ENDED_BY_FAULTS, charged_wrong, doubled, lost, twice
from chaos.cluster_load import LIMIT

SLACK_S = 3  # what a reading of usage may be old, and a part that was killed has not counted
DELETE_S = 60  # a delete may take until its sandbox is gone, on a host that is busy

LEASES = """
SELECT q.project_id || ' ' || q.what || ': leased ' || q.leased || ' of ' || q."limit" || ', by nodes ' || coalesce(sum(l.amount), 0)
FROM cluster.quotas q LEFT JOIN cluster.leases l USING (project_id, what) GROUP BY q.project_id, q.what
HAVING q.leased > q."limit" OR q.leased <> coalesce(sum(l.amount), 0)"""


class Checker:
    def __init__(self, site, load, history):
        self.site, self.load, self.history = site, load, history

    def check(self):
        """With the clients at rest and nothing broken."""
        self.site.await_peace(self.load.key)
        found = self.load.failures + self.history.wrong
        # After a fault some of it takes a moment: a delete that waits for its node, a directory that is told anew.
        deadline = time.monotonic() + 60
        while True:
            now = self.now()
            if not now or time.monotonic() > deadline:
                break
            time.sleep(1)
        return found + now

    def now(self):
        running = self.ran = self.running()
        names = {name: doubled(seen) for name, seen in self.history.seen.items()}
        found = [f"two sandboxes had the name {name} at a time: {d}" for name, all_ in names.items() for d in all_ if not self.is_told(d)]
        found += [x for x in twice(running) if not self.is_told(x)]
        found += lost(self.history.made.values(), self.state_of, lambda made, cause: cause in ENDED_BY_FAULTS and self.may_be_lost())
        found += self.leases(running) + self.keys() + self.usage()
        return found

    def may_be_lost(self):
        """A node may be taken for lost only when it was cut off, or stood still, for long, or its database was away."""
        return sum(self.site.n_faults.values()) > 0

    def is_told(self, text):
        """A database that was set back may give a name twice: both go on, and the log says so."""
        return bool(self.site.rewinds) and any("cluster.name_taken" in n.daemon.log() for n in self.site.nodes)

    def running(self):
        """(name, id) of all that runs, of which each node must tell the same."""
        by_node = {}
        for n in self.site.nodes:
            status, answer = self.site.call(n, "GET", "/v1/sandboxes?limit=100&state=running", key=self.load.key)
            by_node[n.name] = sorted((s.get("name") or "", s["id"]) for s in answer["sandboxes"]) if status == 200 else [("", f"{status} {answer}")]
        self.lists = by_node
        return max(by_node.values(), key=len)

    def state_of(self, made):
        """As any node tells it: all of them must."""
        states = []
        for n in self.site.nodes:
            status, answer = self.site.call(n, "GET", f"/v1/sandboxes/{made.id}", key=made.key)
            states.append(answer if status == 200 else None if status == 404 else {"state": f"{status} by {n.name}: {answer}"})
        return next((s for s in states if s is None or s["state"] not in ("running", "stopped")), states[0])

    def leases(self, running):
        found = [line for line in self.site.servers.ask(LEASES).splitlines() if line]
        if len(running) > LIMIT:
            found.append(f"{len(running)} sandboxes run where {LIMIT} may: {running}")
        if len({str(rows) for rows in self.lists.values()}) > 1:
            found.append(f"nodes tell different lists: {self.lists}")
        return found

    def keys(self):
        found = []
        with self.history.lock:
            good, revoked = dict(self.history.keys), dict(self.history.revoked)
        for n in self.site.nodes:
            for key_id, secret in good.items():
                status, answer = self.site.call(n, "GET", "/v1/sandboxes?limit=1", key=secret)
                if status != 200:
                    found.append(f"{n.name} refuses the key {key_id}: {status} {answer}")
            for key_id, secret in revoked.items():
                status, answer = self.site.call(n, "GET", "/v1/sandboxes?limit=1", key=secret)
                if status not in (401, 429):
                    found.append(f"{n.name} takes the key {key_id}, which was revoked: {status}")
        return found

    def usage_of(self, node):
        """What one node tells of all of them, page by page."""
        rows, path = [], "/v1/usage?group_by=sandbox&limit=1000"
        while path:
            status, answer = self.site.call(node, "GET", path, key=self.load.key)
            if status != 200 or answer["incomplete"]:
                return None, [f"{node.name} tells no whole usage: {status} {answer.get('incomplete', answer)}"]
            rows += [(node.name, r["sandbox_id"], r["running_ms"] / 1e3) for r in answer["rows"]]
            path = answer["next_cursor"] and f"/v1/usage?group_by=sandbox&limit=1000&cursor={answer['next_cursor']}"
        return rows, []

    def usage(self):
        now, told, lives = time.monotonic(), [], {}
        alive = {sandbox_id for _, sandbox_id in self.ran}
        for n in self.site.nodes:
            rows, found = self.usage_of(n)
            if found:
                return found
            told.append(rows)
        for m in self.history.made.values():
            first, last = min((at for at, _ in m.deletes), default=now), max((at for at, _ in m.deletes), default=now)
            is_known = m.id in alive or m.is_ended_by_us
            lives[m.id] = (first - m.answered if is_known else 0, last + DELETE_S - m.at)
        return [wrong for rows in told for wrong in charged_wrong(rows, lives, SLACK_S)]

    def empty(self):
        """Deletes all, and looks at what is left on the host."""
        for n in self.site.nodes:
            wait_for(lambda n=n: self.delete_all(n), 120, f"{n.name} has nothing more")
        return [f"{n.name}: {x}" for n in self.site.nodes for x in self.site.left(n)]

    def delete_all(self, node):
        for key in (self.load.key, self.site.key):
            status, answer = self.site.call(node, "GET", "/v1/sandboxes?limit=100", key=key)
            if status != 200:
                return False
            left = [s for s in answer["sandboxes"] if s["state"] not in ("stopped", "failed")]
            for s in left:
                self.site.call(node, "DELETE", f"/v1/sandboxes/{s['id']}", key=key)
            if left:
                return False
        return True
