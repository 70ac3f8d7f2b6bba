# SPDX-License-Identifier: Apache-2.0
"""What a client may believe of a daemon that is killed at any moment: one Box per sandbox that it knows of.

A call has three outcomes. An answer in the two hundreds is a promise. An error is one too: nothing was done. No answer
at all leaves both open, and the next look decides which it was. Whatever breaks a promise is a Broken with the history.
"""

import hashlib
import http.client
import json
from collections import Counter

from harness.daemon import call, wait_for

NO_ANSWER = (OSError, http.client.HTTPException)
HOOKED = ("sandbox", "exec", "context")  # the kinds of events that are looked at, and that a webhook is told of
GOING_ON = ("starting", "running")
DEFAULT = "python"  # the context that needs no making
REACH = "reach"  # the mark of an exec that tries the network: only its answer counts
PROGRAM = 'echo $1 >> effects; i=0; while [ $i -lt $2 ]; do i=$((i+1)); echo "$1 $i"; [ $((i % 32)) -ne 0 ] || sleep 0.01; done'


class Broken(AssertionError):
    """A promise that was not kept."""


def expect(is_kept, *facts):
    if not is_kept:
        raise Broken(" ".join(str(f) for f in facts))


def ask(daemon, method, path, body=None, headers=None):
    """(status, body), or (None, None) where no answer came."""
    try:
        return call(daemon, method, path, body, headers=headers, timeout=60)
    except NO_ANSWER:
        return None, None


def is_done(status):
    return status is not None and status < 300


def _events(data):
    return [json.loads(line) for line in data.splitlines()]


class Counted:
    """A counter in an interpreter, and how often it was raised: at least and at most."""

    def __init__(self, high=0):
        self.low, self.high = 0, high

    @property
    def is_there(self):
        return self.low > 0


class Exec:
    """A command that writes `lines` numbered lines, and leaves one mark in a file."""

    def __init__(self, tag, lines, exec_id=None):
        self.tag, self.lines, self.id = tag, lines, exec_id
        self.seq, self.got, self.is_over = 0, b"", False
        self.may_die = False  # something of it was killed
        self.may_be_void = self.is_void = False  # its start got no answer, and came to nothing

    @property
    def argv(self):
        return ["sh", "-c", PROGRAM, "sh", self.tag, str(self.lines)]

    @property
    def whole(self):
        return b"".join(b"%s %d\n" % (self.tag.encode(), i) for i in range(1, self.lines + 1))

    def take(self, events):
        """Holds a piece of output against what came before it and what the program writes."""
        for event in events:
            if event["type"] not in ("stdout", "stderr", "gap"):
                continue
            expect(event["type"] == "stdout", self.id, "output is", event)
            expect(event["seq"] == self.seq + 1, self.id, "sequence", event["seq"], "after", self.seq)
            self.seq = event["seq"]
            self.got += event["text"].encode()
        expect(self.whole.startswith(self.got), self.id, "output is no prefix:", self.got[-80:])

    def judge(self, info):
        """Once it is over: all of its output is there, and it ended as its program did."""
        if self.may_die or info["state"] in GOING_ON:
            return
        self.is_void = self.may_be_void and info["state"] == "failed"
        expect(self.is_void or info["state"] == "exited" and info["exit_code"] == 0, "an exec ended as", info)
        due = b"" if self.is_void else self.whole
        expect(self.got == due, self.id, "is over, with", len(self.got), "of", len(due), "bytes")
        self.is_over = True


class Box:
    """A sandbox as its owner knows it. daemon: as the owner sees it, with the owner's key."""

    def __init__(self, daemon, tag, is_direct=False, is_persistent=False, is_walled=False):
        self.daemon, self.tag, self.id = daemon, tag, None
        self.is_direct, self.is_persistent, self.is_walled = is_direct, is_persistent, is_walled
        self.states = {"running"}
        self.may_be_gone = False  # a delete, or what ends it, got no answer
        self.is_victim = False  # its agent was killed
        self.is_shaken = False  # a process inside was killed: since the last look execs and code may have died of it
        self.has_rested = False  # it was stopped at least once, so its processes are others
        self.has_moved = False  # it was paused at least once, perhaps on disk: the groups that count its use are others
        self.files, self.execs, self.lost_execs = {}, [], {}
        self.contexts = {DEFAULT: Counted()}
        self.execs_low = self.execs_high = 0  # how many were acknowledged, and asked for
        self.calls_low = self.calls_high = 0
        self.usage = {}

    @property
    def path(self):
        return f"/v1/sandboxes/{self.id}"

    def rest(self):
        """Processes of it may have ended: their output stays as it was, and its counters begin anew."""
        self.has_rested = True
        self.contexts = {DEFAULT: Counted(self.contexts[DEFAULT].high)}
        for e in self.execs:
            e.may_die = True

    def shake(self):
        self.is_shaken = True
        for e in self.execs:
            e.may_die = True

    def raise_usage(self, now):
        for name, before in self.usage.items():
            expect(name == "cost" or now[name] >= before, self.id, "usage fell:", name, before, now[name])
        for name, low, high in (("execs", self.execs_low, self.execs_high), ("calls", self.calls_low, self.calls_high)):
            expect(low <= now[name] <= high, self.id, "is charged", now[name], name, "instead of", low, "to", high)
        self.usage = now

    def _settled(self):
        status, info = call(self.daemon, "GET", self.path)
        return None if info.get("state") in ("creating", "pausing", "stopping") else (status, info)

    def look(self):
        """What the daemon says of it now; None when it is gone, as it may be. Settles what was open."""
        status, info = wait_for(lambda: self._settled(), 30, f"a settled state of {self.id}")
        ended = info.get("ended")
        if status in (404, 410) or ended and (ended["cause"] == "deleted" or not self.is_persistent):
            expect(self.may_be_gone or self.is_victim, self.id, self.tag, "is gone:", status, info)
            expect(not ended or ended["cause"] in ("deleted", "stopped", "guest_crash", "killed"), self.id, "ended:", ended)
            return None
        if self.is_victim:
            self.states |= {"stopped", "failed", "running"}
        if self.has_rested:
            self.states |= {"failed"}  # a resume that got no further; the next one may
        expect(info["state"] in self.states, self.id, "is", info["state"], "instead of", self.states)
        self.states, self.may_be_gone, self.is_shaken = {info["state"]}, False, False
        return info

    def look_inside(self):
        """Everything that was acknowledged in it is there, once."""
        self._look_at_execs()
        self._look_at_contexts()
        for path, data in self.files.items():
            status, found = call(self.daemon, "GET", f"{self.path}/files?path={path}")
            expect(status == 200 and found == data, self.id, path, "was written and is", status, str(found)[:200])
        status, found = call(self.daemon, "GET", f"{self.path}/files?path=effects")
        counts = Counter(found.decode().split()) if status == 200 else {}
        expect(all(n == 1 for n in counts.values()), self.id, "did something twice:", counts)
        for e in self.execs:
            expect(not e.is_over or counts.get(e.tag, 0) == (not e.is_void), self.id, e.tag, "void" if e.is_void else "over", counts)

    def _look_at_contexts(self):
        status, reply = call(self.daemon, "GET", f"{self.path}/contexts")
        missing = {n for n, c in self.contexts.items() if c.is_there} - {c["name"] for c in reply["contexts"]}
        expect(self.is_victim or not missing, self.id, "lost contexts", missing)

    def _look_at_execs(self):
        status, reply = call(self.daemon, "GET", f"{self.path}/execs")
        expect(status == 200, self.id, "lists no execs:", status, reply)
        listed = {e["id"]: e for e in reply["execs"]}
        self._find_lost(listed)
        for e in self.execs:
            expect(e.id in listed, self.id, "lost exec", e.id, e.tag)
            status, data = call(self.daemon, "GET", f"{self.path}/execs/{e.id}/output?after={e.seq}")
            expect(status == 200, self.id, "has no output of", e.id, status, data)
            e.take(_events(data))
            status, info = call(self.daemon, "GET", f"{self.path}/execs/{e.id}")
            if info["state"] not in GOING_ON:  # what it wrote last may have come between the two
                e.take(_events(call(self.daemon, "GET", f"{self.path}/execs/{e.id}/output?after={e.seq}")[1]))
            e.judge(info)

    def _find_lost(self, listed):
        """Execs whose start got no answer are known by their words; each is there once, or not at all."""
        known = {e.id for e in self.execs}
        for exec_id, info in listed.items():
            if exec_id in known:
                continue
            tag = info["argv"][4] if len(info["argv"]) > 4 else info["argv"][0]
            if tag == REACH:
                continue
            expect(tag in self.lost_execs, self.id, "runs what nobody asked for:", info)
            e = self.lost_execs.pop(tag)
            e.id, e.may_be_void = exec_id, True
            self.execs.append(e)
        self.lost_execs.clear()


class Log:
    """The event log, read as it grows: an unbroken chain for each project, in which each life begins and ends once."""

    def __init__(self):
        self.place, self.chains = 0, {}  # {project: (number, hash) of its last}
        self.former = (0, "0" * 64)  # the chain of all, before there was one for each project
        self.told = Counter()  # (type, sandbox or exec)
        self.owners = {}  # {exec or context: its sandbox}
        self.sent = []  # the numbers of what a webhook gets

    def wrongs(self, closed):
        """Sandboxes that are gone for good began and ended once, and so did each of their execs and contexts."""
        due = [(t, i) for i in closed for t in ("sandbox.created", "sandbox.ended")]
        for i, sandbox_id in self.owners.items():
            kinds = ("exec.started", "exec.exited") if i.startswith("ex_") else ("context.created", "context.ended")
            due += [(t, i) for t in kinds if sandbox_id in closed]
        return [(*what, self.told[what]) for what in due if self.told[what] != 1]

    def read(self, daemon):
        while True:
            status, data = call(daemon, "GET", f"/v1/events?all=1&after={self.place}")
            expect(status == 200, "the event log:", status, data)
            lines = data.decode().splitlines()
            for line in lines:
                self._take(line)
            if not lines:
                return

    def _take(self, line):
        entry = json.loads(line)
        covered = line[: line.rindex(',"hash":')]
        expect(hashlib.sha256(covered.encode()).hexdigest() == entry["hash"], "an entry was changed:", line)
        place, here = entry.get("place", entry["seq"]), (entry["seq"], entry["hash"])
        if "from" not in entry:
            lasts, self.former = [self.former], here
        else:  # a project that was there before goes on behind the former chain
            lasts = [self.chains[entry["project_id"]]] if entry["project_id"] in self.chains else [self.former, (0, "0" * 64)]
            self.chains[entry["project_id"]] = here
        expect((entry["seq"] - 1, entry["prev"]) in lasts and place > self.place, "the chain is broken at", line)  # the audit log has places too
        self.place = place
        kind = entry["type"].partition(".")[0]
        if kind not in HOOKED:
            return
        self.sent.append(entry["seq"])
        what = {"sandbox": entry["sandbox_id"], "exec": entry.get("exec_id"), "context": entry["data"].get("context_id")}[kind]
        self.told[entry["type"], what] += 1
        if kind != "sandbox":
            self.owners[what] = entry["sandbox_id"]
