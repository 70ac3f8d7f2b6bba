# SPDX-License-Identifier: Apache-2.0
"""What clients of a cluster asked and were told, and which of it cannot be true together. Times are of one clock, this machine's.

A call has three outcomes: done, refused, or no answer. What was done stays done; what was refused was not done; of what got no answer either may be.
"""

import collections
import threading
import time
from dataclasses import dataclass, field

ENDED_BY_FAULTS = {"node_lost"}


@dataclass
class Made:
    """A sandbox whose create was answered."""

    id: str
    name: str
    key: str
    at: float  # when it was asked for, and when that was answered
    answered: float
    deletes: list = field(default_factory=list)  # (when it was asked for, whether it was answered)
    is_ended_by_us: bool = False

    @property
    def is_deleted(self):
        return any(done for _, done in self.deletes)


class History:
    def __init__(self):
        self.lock = threading.Lock()
        self.lines = collections.deque(maxlen=4000)
        self.made, self.seen, self.counts = {}, collections.defaultdict(list), collections.Counter()
        self.keys, self.revoked, self.wrong = {}, {}, []

    def note(self, who, began, node, what, status, answer):
        with self.lock:
            said = "" if status is None or status < 400 else str(answer)[:200]
            self.lines.append(f"{began:.3f} {time.monotonic():.3f} {who} {node.name} {what} {status} {said}")
            self.counts[f"{what.split()[0]} {status}"] += 1
            if status is not None and (status == 500 or status == 400):
                self.wrong.append(f"{node.name} {what} got {status} {answer}")

    def created(self, sandbox, name, key, began):
        with self.lock:
            self.made[sandbox["id"]] = Made(sandbox["id"], name, key, began, time.monotonic())

    def deleted(self, sandbox_id, began, done, cause=""):
        """cause: of its end, as the answer tells it: a fault may have been quicker."""
        with self.lock:
            if sandbox_id in self.made:
                self.made[sandbox_id].is_ended_by_us |= done and cause == "deleted"
                self.made[sandbox_id].deletes.append((began, done))

    def answered(self, name, sandbox_id, began, ended):
        """A call by this name was answered by this sandbox, which ran."""
        with self.lock:
            self.seen[name].append((began, ended, sandbox_id))

    def tail(self, n=60):
        return "\n".join(list(self.lines)[-n:])


def doubled(seen):
    """Of one name: sandboxes of which each answered both before and after another: then both had it at that time."""
    found = []
    spans = collections.defaultdict(list)
    for began, ended, sandbox_id in seen:
        spans[sandbox_id].append((began, ended))
    for a, of_a in spans.items():
        first, last = min(end for _, end in of_a), max(begin for begin, _ in of_a)
        for b, of_b in spans.items():
            between = [(begin, end) for begin, end in of_b if first < begin and end < last]
            if a != b and between:
                found.append(f"{b} answered at {between[0][0]:.3f}, and {a} at {first:.3f} and at {last:.3f}")
    return found


def lost(made, state_of, is_allowed):
    """Creates that were answered, and of which nothing is known, or an end that nobody has asked for."""
    found = []
    for m in made:
        state = state_of(m)
        if state is None:
            if not m.deletes:
                found.append(f"{m.id} ({m.name}) was made at {m.at:.3f} and is unknown")
        elif state["state"] == "stopped":
            ended = state.get("ended")
            if not ended or not ended.get("cause"):
                found.append(f"{m.id} has ended without a cause: {state}")
            elif not m.deletes and not is_allowed(m, ended["cause"]):
                found.append(f"{m.id} ({m.name}) was made at {m.at:.3f} and has ended by {ended}")
        elif state["state"] != "running":
            found.append(f"{m.id} is {state['state']}")
        elif m.is_deleted:
            found.append(f"{m.id} ({m.name}) was deleted and runs: {m.deletes}")
    return found


def twice(names):
    """[(name, sandbox id)] of all that runs: names that several have."""
    by_name = collections.defaultdict(set)
    for name, sandbox_id in names:
        if name:
            by_name[name].add(sandbox_id)
    return [f"{name} is of {sorted(ids)}" for name, ids in by_name.items() if len(ids) > 1]


def charged_wrong(rows, lives, slack_s):
    """Usage of sandboxes, [(node, sandbox id, seconds)], and how long each lived at most: every second once."""
    found, where = [], {}
    for node, sandbox_id, seconds in rows:
        if sandbox_id in where:
            found.append(f"{sandbox_id} is charged by {where[sandbox_id]} and by {node}")
        where[sandbox_id] = node
        least, most = lives.get(sandbox_id, (0, float("inf")))
        if seconds > most + slack_s or seconds < least - slack_s:
            found.append(f"{sandbox_id} is charged {seconds:.1f} s by {node}, and lived for {least:.1f} to {most:.1f} s")
    return found
