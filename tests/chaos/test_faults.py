# SPDX-License-Identifier: Apache-2.0
"""O03: whichever call fails in the middle of an operation, or is the last of its process, its caller gets a typed error, what was asked
for or no answer, nothing is left behind, the next one works, and the event log tells each beginning and end once.

A sample of all faults is tried, of as many calls as possible, drawn by CLOCHE_CHAOS_SEED: the same each time unless that is given.
CLOCHE_CHAOS_FAULTS says how many of each operation and part, or `all`, or which part of all, such as `2/8`: the second of eight, which take turns.
Covered are broker, spawner with the child that becomes a sandbox, and gateway, on their way through create, exec, delete, stop, resume, snapshot, rollback, fork,
diff, apply and import, and the agent in an exec.
"""

import contextlib
import json
import os
import random
import threading
from collections import Counter

import pytest
from harness import audit, strace
from harness.daemon import Daemon, call, children_of, read_text, wait_for
from harness.running import running

from chaos.faults import DEATH, Fault, count_calls, faults_of, injected
from chaos.model import NO_ANSWER

SAMPLE = os.environ.get("CLOCHE_CHAOS_FAULTS", "6")
SEED = os.environ.get("CLOCHE_CHAOS_SEED") or "1"  # the same sample each time: what is new is found by the whole sweep
IS_SWEEP = SAMPLE == "all" or "/" in SAMPLE
OPTIONS = ["--default-memory", "128MiB", "--pool-max", "0", "--no-zygotes"]


@pytest.fixture(scope="module")
def faulty():
    """A daemon without spares and zygotes, so that all that happens is of the operation."""
    with running(Daemon(*OPTIONS)) as daemon:
        one = Try(daemon)
        one.create()
        one.delete()
        yield daemon


class Try:
    """One sandbox, and the calls on it; each gives (status, body)."""

    def __init__(self, daemon):
        self.daemon, self.id = daemon, None

    def ask(self, method, path="", body=None, top="/v1/sandboxes"):
        try:
            return call(self.daemon, method, f"{top}{path}", body, timeout=60)
        except NO_ANSWER:  # a part has died of it, and the next one is there soon
            return None, None

    def create(self):
        status, body = self.ask("POST", body={"persistent": True})
        self.id = body["id"] if status == 201 else None
        return status, body

    def exec(self):
        return self.ask("POST", f"/{self.id}/execs", {"argv": ["echo", "fine"]})

    def start(self):
        return self.ask("POST", f"/{self.id}/execs", {"argv": ["sleep", "1000"], "detached": True})

    def delete(self):
        return self.ask("DELETE", f"/{self.id}")

    def stop(self):
        return self.ask("POST", f"/{self.id}/stop")

    def resume(self):
        return self.ask("POST", f"/{self.id}/resume")

    def snapshot(self):
        status, body = self.ask("POST", f"/{self.id}/snapshots", {})
        self.snapshot_id = body["id"] if status == 201 else None
        return status, body

    def rollback(self):
        return self.ask("POST", f"/{self.id}/rollback", {"snapshot": self.snapshot_id})

    def write(self):
        return self.ask("POST", f"/{self.id}/execs", {"shell": "seq 1 > a; seq 1 > b"})

    def fork(self):
        status, body = self.ask("POST", f"/{self.id}/fork", {"count": 2, "memory": False})
        self.fork_ids = [s["id"] for s in body["sandboxes"]] if status == 201 else []
        return status, body

    def write_fork(self):
        return self.ask("POST", f"/{self.fork_ids[0]}/execs", {"shell": "seq 2 > a; seq 2 > b"})

    def diff(self):
        return self.ask("GET", f"?from={self.fork_ids[0]}&to={self.id}", top="/v1/diff")

    def apply(self):
        return self.ask("POST", f"/{self.id}/apply", {"from": self.fork_ids[0], "on_conflict": "theirs"})

    def pack(self):
        status, self.bundle = self.ask("GET", f"/{self.snapshot_id}/archive", top="/v1/snapshots")
        return status, self.bundle

    def load(self):
        return self.ask("PUT", "/again/archive", self.bundle, top="/v1/snapshots")


AGENT = "memfd:cloche-agent"[:15]  # as the kernel cuts it
BEFORE = {"create": [], "exec": ["create"], "delete": ["create", "start"], "stop": ["create", "start"], "resume": ["create", "stop"],
          "snapshot": ["create", "start"], "rollback": ["create", "snapshot"], "fork": ["create", "write"],
          "diff": ["create", "write", "fork", "write_fork"], "apply": ["create", "write", "fork", "write_fork"],
          "load": ["create", "write", "snapshot", "pack"]}


def pids_of(daemon, part, one=None):
    if part == "agent":
        return [p for p in audit.processes_of_cgroups({one.id}) if audit.comm_of(p) == AGENT]
    if part == "spawner":
        found = [p for p in children_of(daemon.broker_pid) if audit.comm_of(p) == "cloche-spawner" and not audit.is_zombie(p)]
        return found[:1]
    return [getattr(daemon, f"{part}_pid")]


def prepare(daemon, operation):
    one = Try(daemon)
    for step in BEFORE[operation]:
        assert getattr(one, step)()[0] in (200, 201, 202)
    return one


def find_faults(daemon, operation, part):
    one = prepare(daemon, operation)
    calls = count_calls(part, pids_of(daemon, part, one), getattr(one, operation))
    clear(daemon)
    if part == "agent":
        calls.pop("clone", None)  # of the next standby: behind the answer, when strace is perhaps about to leave
    return faults_of(part, calls)


def is_typed(body):
    return body["error"]["code"] in TYPED and len(body["error"]["message"]) > 8


TYPED = ("internal", "no_capacity", "unavailable", "disk_full", "host_disk_full", "guest_error", "timeout", "limit_exceeded", "conflict", "gone")


def listed(one):
    return [s["id"] for s in call(one.daemon, "GET", "/v1/sandboxes")[1]["sandboxes"]]


LEFT_BY_STRACE = "Operation not permitted"  # it has left in the middle of a call that was to fail: no fault that could be tried


def exec_again(one, part):
    """Works at once; of a dead agent the broker has perhaps not told yet, and until then it "does not answer"."""
    answer = one.exec()
    if answer[0] == 503 and (part == "agent" or LEFT_BY_STRACE in one.daemon.log()):
        answer = wait_for(lambda: r if (r := one.exec())[0] != 503 else None, 20, "an exec")
    return answer


def judge(one, operation, part, status, body):
    """What it answered is true, and what it refused can be asked for again."""
    if status is None:
        wait_for(lambda: one.ask("GET")[0] == 200, 30, "an answer")
    elif status >= 300:
        assert is_typed(body), (status, body)
    if operation == "create":
        if one.id is None:
            if status is not None:  # what was refused is undone, perhaps by the next start
                wait_for(lambda: not listed(one), 20, "nothing in the list")
            return
        assert one.id in listed(one)
    if operation == "delete":
        assert status != 200 or one.id not in listed(one)
        return
    if operation == "fork":  # those that were told of are known, if they have not died since: the fault comes in each process
        assert [one.ask("GET", f"/{i}")[0] for i in one.fork_ids] == [200] * len(one.fork_ids)
    if operation == "diff" and status == 200:
        assert [c["path"] for c in body["changes"]] == [f"/home/user/{name}" for name in "ab"]
    if operation == "apply":
        judge_apply(one, status)
    if operation == "stop" and status != 200:
        assert one.stop()[0] in (200, 410)
    status, body = exec_again(one, part)  # it starts again whatever was stopped
    assert status == 200 and body["stdout"] == "fine\n", (status, body)


def judge_apply(one, status):
    """Each file is the one or the other, and what was cut short can be done again."""
    look = {"shell": "cat a; echo; cat b; ls -d /.cloche.new /usr/.cloche.new 2> /dev/null"}
    olds, news = "1\n", "1\n2\n"

    def files():
        return one.ask("POST", f"/{one.id}/execs", look)[1]["stdout"]

    assert files().split("\n\n")[0] in (olds.strip(), news.strip())
    if status != 200:
        assert wait_for(lambda: one.apply()[0] == 200, 30, "an apply")
    assert files() == f"{news}\n{news}"


def last_place(daemon):
    return call(daemon, "GET", "/v1/events/head?all=1")[1]["place"]


def judge_events(daemon, after):
    """Of what has begun and ended since then: each was told, once."""
    told = Counter()
    entries = [json.loads(line) for line in call(daemon, "GET", f"/v1/events?all=1&after={after}")[1].splitlines()]
    for entry in entries:
        told[entry["type"], entry.get("exec_id") if entry["type"].startswith("exec.") else entry.get("sandbox_id")] += 1
    ids = {(kind.partition(".")[0], i) for kind, i in told if kind in BEGINNINGS + ENDS}
    wrong = [(kind, i, told[kind, i]) for what, i in ids for kind in BEGINNINGS + ENDS if kind.startswith(what) and told[kind, i] != 1]
    about = [e for e in entries if {e.get("sandbox_id"), e.get("exec_id")} & {i for _, i, _ in wrong}]
    assert not wrong, f"not told once: {wrong}, after place {after}, of {about}"


BEGINNINGS, ENDS = ("sandbox.created", "exec.started"), ("sandbox.ended", "exec.exited")


def clear(daemon):
    for s in call(daemon, "GET", "/v1/snapshots?limit=100")[1]["snapshots"]:
        assert s["state"] == "ready", s
        assert call(daemon, "DELETE", f"/v1/snapshots/{s['id']}", timeout=60)[0] in (200, 404)  # one that was held goes by itself
    for s in call(daemon, "GET", "/v1/sandboxes")[1]["sandboxes"]:
        assert call(daemon, "DELETE", f"/v1/sandboxes/{s['id']}", timeout=60)[0] in (200, 404)  # a fork that nobody was told of goes by itself


def need_nest(daemon):
    """One that died of the fault before is made anew by the next create, and would be taken for something left."""
    if not pids_of(daemon, "spawner"):
        one = Try(daemon)
        one.create()
        one.delete()


def try_fault(daemon, operation, fault):
    """True when the fault came."""
    need_nest(daemon)
    before, seq = audit.picture(daemon), last_place(daemon)
    one = prepare(daemon, operation)
    with injected(pids_of(daemon, fault.part, one), fault) as has_come:
        status, body = getattr(one, operation)()
        came = has_come()
    judge(one, operation, fault.part, status, body)
    clear(daemon)
    left, _ = audit.settled_leaks(daemon, before)
    assert not left, left
    judge_events(daemon, seq)
    return came


def part_of(faults, words):
    """The K-th of N parts, for words like K/N; all for `all`."""
    place, _, count = words.partition("/")
    return faults[int(place) - 1::int(count)] if count else faults


def draw(faults, n, rng):
    """As many, of as many calls as there are: each call gives one before any gives a second."""
    shuffled = rng.sample(faults, len(faults))
    seen = Counter()
    turns = []
    for fault in shuffled:
        turns.append((seen[fault.call], fault))
        seen[fault.call] += 1
    return [fault for _, fault in sorted(turns, key=lambda t: t[0])][:n]


class Tally:
    """What came of the faults of one operation and part. One that fails keeps no other from being tried."""

    def __init__(self):
        self.tried, self.came, self.failures = 0, 0, []

    def add(self, daemon, operation, fault):
        began = len(daemon.log())
        self.tried += 1
        try:
            self.came += try_fault(daemon, operation, fault)
        except AssertionError as e:
            self.failures.append(f"{operation}, {fault}: {e}\n{daemon.log()[began:][-3000:]}")
            print(f"failed: {operation}, {fault}", flush=True)
            with contextlib.suppress(AssertionError):  # what it left would be taken for the next one's
                clear(daemon)

    def __str__(self):
        return f"{self.tried} faults, {self.came} came, {len(self.failures)} failed"


SAVING = ("snapshot", "rollback", "fork", "diff", "apply", "load")  # of these the sample has the part that does the work, of two
SAMPLED = (("snapshot", "broker"), ("fork", "broker"))
GROUPS = [(o, p) for o in BEFORE for p in ("broker", "spawner", "gateway") if IS_SWEEP or o not in SAVING or (o, p) in SAMPLED]
GROUPS += [("exec", "agent")]


@pytest.mark.parametrize("operation, part", GROUPS, ids=lambda x: x)
def test_O03_a_call_that_fails_costs_that_operation_and_leaves_nothing(faulty, operation, part, capsys):
    faults = find_faults(faulty, operation, part)
    if not faults:
        return  # this part has nothing to do with it
    faults = part_of(faults, SAMPLE) if IS_SWEEP else draw(faults, int(SAMPLE), random.Random(f"{SEED}/{operation}/{part}"))
    tally = Tally()
    for fault in faults:
        tally.add(faulty, operation, fault)
    with capsys.disabled():
        print(f"\n{operation} {part}, seed {SEED}: {tally}")
    assert not tally.failures, f"{tally}\n" + "\n".join(tally.failures)
    assert SAMPLE != "all" or tally.came > 0, f"no fault came: {tally}"


OWNER_TOLD = r"1olc\35\0"  # MSG_OWNER, as strace shows it


def test_a_call_to_a_sandbox_whose_connection_was_lost_waits_for_the_next_one(faulty):
    with strace.attached([faulty.gateway_pid], "-e", "trace=sendmsg") as sent:  # this one follows a create when nothing else is to do
        one, answers = prepare(faulty, "exec"), []
        wait_for(lambda: OWNER_TOLD in read_text(sent), 20, "the sandbox's owner told")
    losses = faulty.log().count("sandbox.link_down")
    first = threading.Thread(target=lambda: answers.append(one.exec()))
    with injected(pids_of(faulty, "gateway"), Fault("gateway", "sendmsg", "1..2", "EIO")):
        first.start()
        while first.is_alive() and faulty.log().count("sandbox.link_down") == losses:
            pass  # it is made again a moment later
        answers.append(one.exec())
        first.join()
    assert faulty.log().count("sandbox.link_down") > losses, answers
    assert [(status, status == 200 and body["stdout"]) for status, body in answers] == [(200, "fine\n")] * 2, answers
    clear(faulty)


def test_a_create_that_could_not_be_brought_to_disk_leaves_no_sandbox(faulty):
    """Who is told of the failure does not know its id. The layers are synced by a child of the broker."""
    assert try_fault(faulty, "create", Fault("broker", "syncfs", 1, "EIO"))


# What the sweep has found, whatever the sample draws.
FOUND = {"a resume that the broker's death cut short is done for the next call": ("resume", Fault("broker", "mount_setattr", 1, DEATH)),
         "a copy of files whose maker cannot be watched is removed": ("fork", Fault("broker", "epoll_ctl", 5, "ENOMEM")),
         "a copy of files whose maker was killed is removed": ("rollback", Fault("broker", "renameat2", 1, DEATH))}


@pytest.mark.parametrize("operation, fault", FOUND.values(), ids=FOUND.keys())
def test_what_a_sweep_has_found(faulty, operation, fault):
    assert try_fault(faulty, operation, fault)


def test_a_snapshot_that_cannot_be_opened_is_not_called_missing(faulty):
    """Whichever of the calls opens its files: none may say that there is no such snapshot."""
    calls = [fault for fault in find_faults(faulty, "diff", "broker") if fault.call == "openat" and fault.error == "EIO"]
    assert sum(try_fault(faulty, "diff", fault) for fault in calls[-24::3])
