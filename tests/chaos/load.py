# SPDX-License-Identifier: Apache-2.0
"""Clients that use a daemon in every way, at once, and remember what they were told.

A worker owns its sandboxes, so that what it knows of them depends on nobody else. All share a few names that each asks
for by get-or-create. Workers stand still between two steps when they are asked to, so that the host can be looked at.

A calm load is for a program that is not judged: it makes sandboxes and works in them, ends and pauses none, and lets alone whatever breaks a promise.
"""

import collections
import datetime
import json
import random
import sys
import threading
import time
import traceback

from harness.daemon import call, wait_for

from .model import DEFAULT, REACH, Box, Broken, Counted, Exec, ask, expect, is_done

BOXES_PER_WORKER = 2
TRY_AGAIN = (503, 504, 507)  # what a host that is slow or full may answer: nothing was done
STEP_S = 300  # more than all calls of one step wait for their answers
CONTEXTS_PER_BOX = 2
SHARED = ("shared-a", "shared-b")
COUNT = "n = globals().get('n', 0) + 1\nn"
POLICY = {"allow": ["allowed.test"]}
DENIED = (None, "", "403")  # no answer, or the wall's own
GET = r"exec 3<>/dev/tcp/$2/80 && printf 'GET / HTTP/1.1\r\nHost: %s\r\n\r\n' $2 >&3 && read -r _ status _ <&3 && echo $status"


class Shared:
    """A name that all workers get or create and nobody deletes: there is one sandbox of it, made once."""

    def __init__(self, name):
        self.name, self.ids, self.created = name, set(), 0
        self.lock = threading.Lock()

    def told(self, info):
        with self.lock:
            self.ids.add(info["id"])
            self.created += info["created"]
            expect(len(self.ids) == 1 and self.created <= 1, self.name, "was made twice:", self.ids, self.created)


class Worker(threading.Thread):
    def __init__(self, load, number):
        super().__init__(name=f"worker-{number}")
        self.load, self.daemon_, self.number = load, load.daemon, number
        self.rng = random.Random(f"{load.seed}/{number}")
        self.boxes, self.lost_creates, self.closed = [], {}, {}
        self.steps, self.answers = 0, 0
        self.history = collections.deque(maxlen=500)  # of calls and their answers, told when a promise is broken

    def ask(self, method, path, body=None, headers=None, box=None):
        """One call; box: the one whose program it may lose to the killer."""
        began = datetime.datetime.utcnow().time()
        status, reply = ask(self.daemon_, method, path, body, headers)
        if status is None:
            time.sleep(0.02)  # nobody is there: as long as a client waits at least
        self.answers += status is not None
        self.history.append(f"{began} {method} {path} {status} {reply if status and status >= 400 else ''}")
        was_killed = status == 502 and box is not None and box.is_shaken and reply["error"]["code"] == "guest_error"
        expect(status is None or status < 500 and status != 400 or status in TRY_AGAIN or was_killed, method, path, "got", status, reply)
        return status, reply

    def answer(self, method, path, body=None, headers=None):
        """(status, body), or None where one has to try again."""
        status, reply = self.ask(method, path, body, headers)
        return None if status is None or status in TRY_AGAIN else (status, reply)

    def run(self):
        try:
            while self.load.may_go_on():
                try:
                    self.step()
                except Broken:
                    if not self.load.is_calm:
                        raise
                    self.boxes.clear()
        except Exception:  # whatever it is, the run has failed and says why
            self.load.fail(traceback.format_exc() + self.told())

    def told(self):
        return "\nthe last calls:\n" + "\n".join(self.history)

    def step(self):
        self.steps += 1
        ready = [b for b in self.boxes if "running" in b.states]
        if len(self.boxes) < BOXES_PER_WORKER or not self.load.is_calm and not self.rng.randrange(12):
            return self.create()
        if not ready:
            return self.resume(self.rng.choice(self.boxes))
        acts = [(self.execute, 5), (self.write, 3), (self.count, 4), (self.tail, 3), (self.measure, 2), (self.reach, 2), (self.context, 1)]
        if not self.load.is_calm:
            acts += [(self.share, 2), (self.delete, 1), (self.race, 1), (self.pause, 1), (self.stop, 1)]
        act = self.rng.choices([a for a, _ in acts], [w for _, w in acts])[0]
        return act(self.rng.choice(ready))

    def tag(self, kind):
        return f"{kind}-{self.number}-{self.steps}"

    def create(self):
        if len(self.boxes) >= BOXES_PER_WORKER:
            return self.delete(self.boxes[0])
        tag, is_direct, is_persistent, is_keyed, is_walled = self.tag("box"), *(self.rng.random() < 0.4 for _ in range(4))
        is_walled = is_walled and self.load.has_internet
        box = Box(self.daemon_, tag, is_direct, is_persistent, is_walled)
        body = {"tags": {"chaos": tag}, "persistent": is_persistent, "timeout_ms": 3_600_000}
        body |= {"name": tag} if is_direct else {}
        body |= {"network": POLICY} if is_walled else {}
        headers = {"Idempotency-Key": f"{self.load.seed}-{tag}"} if is_keyed else None
        status, info = self.ask("POST", "/v1/sandboxes", body, headers)
        if is_done(status):
            box.id = info["id"]
            self.boxes.append(box)
        elif status is None:
            self.lost_creates[tag] = (box, body, headers)

    def find_lost(self, box, body, headers):
        """A create that got no answer: what it made is there once. With a key one asks again, and gets that one or makes it now."""
        found = [s for s in self.load.listed if s["tags"].get("chaos") == box.tag]
        expect(len(found) <= 1, box.tag, "was made more than once:", found)
        if headers:
            status, info = wait_for(lambda: self.answer("POST", "/v1/sandboxes", body, headers), what=f"an answer about {box.tag}")
            expect(is_done(status), box.tag, "was asked for again and is", status, info)
            expect(not found or found[0]["id"] == info["id"], box.tag, "was made again:", found, info)
            found = [info]
        if found:
            box.id, box.states = found[0]["id"], {found[0]["state"]}
            self.boxes.append(box)

    def execute(self, box):
        e = Exec(self.tag("exec"), self.rng.choice((1, 40, 400, 4000)))
        box.execs_high += 1
        status, reply = self.ask("POST", f"{box.path}/execs", {"argv": e.argv, "detached": True})
        if is_done(status):
            box.execs_low += 1
            e.id = reply["exec"]["id"]
            box.execs.append(e)
        else:
            box.lost_execs[e.tag] = e
        e.may_die = box.is_shaken or box.is_victim

    def write(self, box):
        path, data = self.tag("file"), self.rng.randbytes(self.rng.choice((1, 1000, 100_000)))
        status, _ = self.ask("PUT", f"{box.path}/files?path={path}", data, box=box)
        if is_done(status):
            box.files[path] = data

    def context(self, box):
        name = self.tag("context")
        if len(box.contexts) > CONTEXTS_PER_BOX:
            return self.count(box)
        status, _ = self.ask("POST", f"{box.path}/contexts", {"name": name}, box=box)
        if is_done(status) and not (box.is_shaken or box.is_victim):
            box.contexts[name] = Counted()

    def count(self, box):
        name = self.rng.choice(list(box.contexts))
        counted = box.contexts[name]
        box.calls_high += 1
        status, reply = self.ask("POST", f"{box.path}/code", {"code": COUNT, "context": name}, box=box)
        box.calls_low += is_done(status)
        counted.high += 1
        if not is_done(status) or box.is_shaken or box.is_victim:
            return
        expect(reply["status"] == "ok", box.id, "code failed:", reply)
        n = int(reply["results"][0]["data"]["text/plain"])
        low = 1 if reply["restarted"] else counted.low + 1
        expect(low <= n <= counted.high, box.id, name, "counted", n, "instead of", low, "to", counted.high, reply)
        expect(not reply["restarted"] or box.has_rested or box.is_victim or not counted.low, box.id, name, "lost its interpreter")
        counted.low = counted.high = n

    def get(self, box, host):
        """The status of a plain request from inside, or what went wrong instead of it."""
        box.execs_high += 1
        status, reply = self.ask("POST", f"{box.path}/execs", {"argv": ["bash", "-c", GET, "bash", REACH, host]})
        box.execs_low += is_done(status)
        return reply["stdout"].strip() if is_done(status) else None

    def reach(self, box):
        """What its policy does not name is reached at no time; what it names may be out of reach while there is no wall."""
        host = self.rng.choice(("allowed.test", "other.test"))
        found = self.get(box, host)
        expect(found in DENIED or box.is_walled and host == "allowed.test", box.id, "reached", host, found)

    def tail(self, box):
        running = [e for e in box.execs if not e.is_over]
        if not running:
            return self.execute(box)
        e = self.rng.choice(running)
        status, data = self.ask("GET", f"{box.path}/execs/{e.id}/output?after={e.seq}")
        if is_done(status):
            e.take(json.loads(line) for line in data.splitlines())

    def share(self, _):
        shared = self.rng.choice(self.load.shared)
        status, info = self.ask("POST", "/v1/sandboxes", {"name": shared.name, "get_or_create": True})
        if is_done(status):
            shared.told(info)

    def measure(self, box):
        status, reply = self.ask("GET", f"{box.path}/usage")
        if is_done(status):
            box.raise_usage(reply["usage"])

    def delete(self, box):
        box.may_be_gone = True
        status, _ = self.ask("DELETE", box.path)
        if is_done(status) or status in (404, 410):
            self.close(box)

    def close(self, box):
        """It is gone for good, and its account with it."""
        self.boxes.remove(box)
        status, reply = self.ask("GET", f"{box.path}/usage")
        if is_done(status):
            box.raise_usage(reply["usage"])
        self.closed[box.id] = reply["usage"] if is_done(status) else None

    def race(self, box):
        """A delete, and calls that meet it: each gets an answer, and the delete wins."""
        paths = [("POST", f"{box.path}/execs", {"argv": ["true"]}), ("POST", f"{box.path}/code", {"code": "1"}),
                 ("PUT", f"{box.path}/files?path=raced", b"x"), ("POST", f"{box.path}/pause"), ("POST", f"{box.path}/stop")]
        others = [threading.Thread(target=ask, args=(self.daemon_, *p)) for p in self.rng.sample(paths, 3)]
        for t in others:
            t.start()
        box.execs_high += 1
        box.calls_high += 1
        self.delete(box)
        for t in others:
            t.join()
        if box in self.boxes:
            box.states |= {"paused", "pausing", "stopped", "stopping"}
            box.rest()
            box.lost_execs["true"] = Exec("true", 0)
            box.lost_execs["true"].may_die = True

    def pause(self, box):
        status, _ = self.ask("POST", f"{box.path}/pause")
        box.states = {"paused"} if is_done(status) else box.states | {"paused", "pausing"}
        box.has_moved = True

    def stop(self, box):
        if not box.is_persistent:
            return self.pause(box)
        status, _ = self.ask("POST", f"{box.path}/stop")
        box.states = {"stopped"} if is_done(status) else box.states | {"stopped", "stopping"}
        box.rest()

    def resume(self, box):
        status, _ = self.ask("POST", f"{box.path}/resume")
        box.states = {"running"} if is_done(status) else box.states | {"running", "creating"}
        if status in (404, 410):
            box.may_be_gone or expect(box.is_victim, box.id, "is gone")

    def settle(self):
        """With nobody else at work: every promise that this worker holds."""
        for lost in self.lost_creates.values():
            self.find_lost(*lost)
        self.lost_creates.clear()
        for box in list(self.boxes):
            info = box.look()
            if not info:
                self.close(box)
            elif info["state"] == "running" and not box.is_victim:  # whose end may not have been told yet
                box.look_inside()
        self.look_outside()
        ids = {s["id"] for s in self.load.listed}
        expect(not ids & self.closed.keys(), "came back:", ids & self.closed.keys())
        for sandbox_id, usage in self.rng.sample(sorted(self.closed.items()), min(3, len(self.closed))):
            status, now = call(self.daemon_, "GET", f"/v1/sandboxes/{sandbox_id}/usage")
            expect(status == 200, sandbox_id, "has ended, and its account is", status, now, "after", usage)
            now = now["usage"]
            expect(usage in (None, now), sandbox_id, "was charged after its end:", usage, now)
            self.closed[sandbox_id] = now

    def let_broken_alone(self):
        """From here on it does not know of a sandbox that does not keep its promises now."""
        self.lost_creates.clear()
        for box in list(self.boxes):
            try:
                box.look()
                box.look_inside()
            except AssertionError:
                self.boxes.remove(box)

    def look_outside(self):
        """From one of its sandboxes that have a policy: what that names is reached again, and nothing else."""
        walled = [b for b in self.boxes if b.is_walled and b.states == {"running"} and not b.is_victim]
        if walled:
            box = self.rng.choice(walled)
            wait_for(lambda: self.get(box, "allowed.test") == "200", 30, f"a way out of {box.id}")
            expect(self.get(box, "other.test") in DENIED, box.id, "reached what it may not")


class Load:
    def __init__(self, daemon, seed, workers=4):
        self.daemon, self.seed = daemon, seed
        self.shared = [Shared(name) for name in SHARED]
        self.failures, self.listed = [], []
        self.turn = threading.Condition()
        self.is_calm = False
        self.has_internet = True  # the one of harness/internet.py
        self.is_held, self.is_over, self.waiting = False, False, 0
        self.workers = [Worker(self, n) for n in range(workers)]
        self.views = [daemon]

    def start(self):
        for w in self.workers:
            w.start()

    def may_go_on(self):
        """Called by a worker between two steps; waits while the load is held."""
        with self.turn:
            self.waiting += 1
            self.turn.notify_all()
            self.turn.wait_for(lambda: not self.is_held or self.is_over)
            self.waiting -= 1
            return not self.is_over and not self.failures

    def fail(self, why):
        with self.turn:
            self.failures.append(why)
            self.turn.notify_all()

    def hold(self):
        with self.turn:
            self.is_held = True
            alive = lambda: sum(w.is_alive() for w in self.workers)  # noqa: E731
            if not self.turn.wait_for(lambda: self.failures or self.waiting >= alive(), STEP_S):
                raise Broken(f"a step is not over after {STEP_S} s{self.told_of_steps()}")
        expect(not self.failures, "\n".join(self.failures))

    def told_of_steps(self):
        """Where each worker is, and its last calls."""
        frames = sys._current_frames()
        return "".join(f"\n{w.name}:\n{''.join(traceback.format_stack(frames[w.ident]))}{w.told()}" for w in self.workers if w.ident in frames)

    def go_on(self):
        with self.turn:
            self.is_held = False
            self.turn.notify_all()

    def end(self):
        with self.turn:
            self.is_over = True
            self.turn.notify_all()
        for w in self.workers:
            if w.ident is not None:
                w.join(STEP_S)

    def settle(self, listed):
        self.listed = listed
        for w in self.workers:
            try:
                w.settle()
            except Broken as e:
                raise Broken(f"{e}{w.told()}") from e

    def let_broken_alone(self):
        for w in self.workers:
            w.let_broken_alone()

    def listing(self):
        """All sandboxes of the project."""
        found, cursor = [], ""
        while cursor is not None:
            page = call(self.daemon, "GET", f"/v1/sandboxes?limit=100{cursor}")[1]
            found += page["sandboxes"]
            cursor = page["next_cursor"] and f"&cursor={page['next_cursor']}"
        return found

    def delete_all(self):
        for s in self.listing():
            status, _ = call(self.daemon, "DELETE", f"/v1/sandboxes/{s['id']}")
            expect(status == 200, "a delete got", status)

    def has_unfinished(self):
        """Whether an exec that was let alone still has something to do; looks again at all of them."""
        running = [b for b in self.boxes if b.states == {"running"} and not b.is_victim]
        for box in running:
            box.look_inside()
        return any(not (e.is_over or e.may_die) for b in running for e in b.execs)

    @property
    def boxes(self):
        return [b for w in self.workers for b in w.boxes]

    @property
    def closed(self):
        return {i for w in self.workers for i in w.closed}
