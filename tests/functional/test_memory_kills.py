# SPDX-License-Identifier: Apache-2.0
"""CRIU, broker and gateway are killed while a sandbox's memory is saved or brought back. Whoever was being saved goes on with all its
programs, as if nothing had been; the snapshot is whole, or its failure is told by name, and nothing stays of it."""

import contextlib
import os
import random
import re
import shutil
import signal
import threading
import uuid

import pytest
from cloche import Client, errors
from harness import audit
from harness.daemon import ENGINE, IS_SANITIZED, Daemon, call, children_of, read_text, wait_for

pytestmark = [
    pytest.mark.skipif(ENGINE != "jail", reason="a vm has its QEMU"),
    pytest.mark.skipif(shutil.which("criu", path="/usr/sbin:/usr/bin") is None, reason="no criu"),
    pytest.mark.skipif(IS_SANITIZED, reason="a sanitized agent maps terabytes"),
]

# Threads in the middle of arithmetic and of calls of the kernel; a beat goes on only if all of them do.
THREADS = """
import threading, time
turns, sums = [0] * 4, [0.0] * 4
def turn(i):
    while True:
        turns[i] += 1
        for _ in range(300):
            sums[i] = sums[i] * 0.5 + 1.0
        time.sleep(0.0005 if i % 2 else 0)
for i in range(4):
    threading.Thread(target=turn, args=(i,), daemon=True).start()
"""
WENT_ON = """
before = list(turns)
while any(a <= b for a, b in zip(turns, before)):
    time.sleep(0.001)
all(abs(s - 2) < 1e-6 for s in sums)
"""
COUNT = "i=0; while :; do i=$((i + 1)); [ $(echo $i) = $i ] || exit 3; echo $i; sleep 0.02; done"
NODE = "let i = 0; setInterval(() => { let s = 0; for (let k = 0; k < 50000; k++) s += k % 7; if (s !== 149997) process.exit(3); console.log(++i) }, 20)"


@pytest.fixture(scope="module")
def own():
    daemon = Daemon("--pool-max", "0", rm=False).start()
    yield daemon
    for sandbox in call(daemon, "GET", "/v1/sandboxes")[1]["sandboxes"]:
        call(daemon, "DELETE", f"/v1/sandboxes/{sandbox['id']}")
    assert daemon.stop() == 0
    daemon.remove()


def criu_of(daemon):
    """CRIU's own process, once it is one: a child of the broker."""
    for pid in children_of(daemon.broker_pid):
        if read_text(f"/proc/{pid}/comm").strip() == "criu":
            return pid
    return None


def on_disk(daemon):
    return sorted(p.name for p in (daemon.data / "layers").iterdir() if re.match("sn_|roll_", p.name))


class Programs:
    """What runs in a sandbox that is to be saved: threads of an interpreter, a shell that forks, a program in JavaScript."""

    def __init__(self, sandbox):
        self.sandbox = sandbox
        assert sandbox.run_code(THREADS).error is None
        self.execs = [sandbox.start(COUNT)]
        if sandbox.run("command -v node").exit_code == 0:
            self.execs.append(sandbox.start(["node", "-e", NODE]))
        self.seen = [0] * len(self.execs)

    def check(self, seed):
        def answer():
            try:
                return self.sandbox.run_code(WENT_ON, timeout=60)
            except errors.Unavailable:  # its agent has not got hold of the gateway again yet
                return None

        result = wait_for(answer, what=f"an answer (seed {seed})")
        assert result.error is None and result.results[-1].text == "True", (seed, result.error)
        for i, one in enumerate(self.execs):

            def went_on():
                info = one.refresh()
                assert info.state == "running", (seed, info)
                events = [e for e in one.output(after=self.seen[i], follow=False) if e.type == "stdout"]
                if not events:
                    return False
                self.seen[i] = events[-1].seq
                return True

            wait_for(went_on, what=f"a program that goes on (seed {seed})")


def save_and_kill(daemon, sandbox, rng, parts):
    """Takes a snapshot with memory, and kills CRIU somewhere in it, with parts of the daemon. Its id or its failure."""
    outcome = []

    def take():
        try:
            outcome.append(sandbox.snapshot(memory=True)["id"])
        except errors.ClocheError as e:
            outcome.append(e)

    thread = threading.Thread(target=take)
    thread.start()
    pid = wait_for(lambda: outcome or criu_of(daemon), what="CRIU")
    threading.Event().wait(rng.choice([rng.uniform(0, 0.05), rng.uniform(0, 0.4)]))  # anywhere in it
    killed = False
    if isinstance(pid, int):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
            killed = True
    if parts:
        daemon.kill_parts(*parts)
    thread.join()
    return outcome[0], killed


def kill_often(own, times, parts):
    rng = random.Random(seed := uuid.uuid4().int & 0xFFFFFF)
    told = []
    with Client(own.url, own.key) as client:
        sandbox = client.create(limits={"memory_mib": 1024, "pids": 128})
        programs = Programs(sandbox)
        for _ in range(times):
            broker = own.broker_pid
            outcome, killed = save_and_kill(own, sandbox, rng, parts)
            told.append(outcome)
            sandbox.refresh()
            assert sandbox.info.state == "running", (seed, sandbox.info)
            programs.check(seed)
            if not parts:
                assert own.broker_pid == broker, own.log()[-4000:]
            if isinstance(outcome, errors.ClocheError):
                assert outcome.code in ("unavailable", "connection_failed"), (seed, outcome.code, outcome)
                if not parts:
                    assert "CRIU was killed" in outcome.message and outcome.hint, outcome
            known = [s["id"] for s in client.snapshots()]
            assert isinstance(outcome, errors.ClocheError) or outcome in known, seed
            for id in known:
                client.delete_snapshot(id)
            wait_for(lambda: on_disk(own) == [], what="nothing of a snapshot that failed")
        copy = client.create(snapshot=(whole := sandbox.snapshot(memory=True)["id"]))  # it can be saved as ever
        assert copy.run_code(WENT_ON).results[-1].text == "True"
        for one in (copy, sandbox):
            one.delete()
        client.delete_snapshot(whole)
    return told


def test_criu_that_is_killed_anywhere_in_a_dump_ends_nothing(own):
    told = kill_often(own, 8, ())
    assert any(isinstance(t, errors.ClocheError) for t in told), told  # else nothing was tried


@pytest.mark.parametrize("parts", [("broker",), ("gateway",), ("broker", "gateway")])
def test_criu_and_parts_of_the_daemon_killed_together_end_nothing(own, parts):
    kill_often(own, 2, parts)


def state_of(pid):
    return (re.search(r"^State:\t(\w)", read_text(f"/proc/{pid}/status"), re.M) or "??")[1]


def tracer_of(criu):
    return next((p for p in children_of(criu) if read_text(f"/proc/{p}/comm") == "cloche-tracer\n"), None)


def is_in_criu_code(agent):
    """It waits there for CRIU's next command."""
    return state_of(agent) == "S" and "CRIUMFD" in read_text(f"/proc/{agent}/maps")


def hold_tracer(criu, agent):
    """Stops the tracer while the agent is in CRIU's code and runs there; the tracer's pid, or None: CRIU was faster."""
    wait_for(lambda: tracer_of(criu) or state_of(criu) in "XZ?", what="a tracer")
    tracer = tracer_of(criu)
    while tracer and state_of(tracer) not in "XZ?":
        if not is_in_criu_code(agent):  # a tracer that stood still here would keep CRIU from getting on
            continue
        with contextlib.suppress(ProcessLookupError):
            os.kill(tracer, signal.SIGSTOP)
            wait_for(lambda: state_of(tracer) in "TXZ?", what="a tracer that stands still")
            if is_in_criu_code(agent) and state_of(tracer) == "T":
                return tracer
            os.kill(tracer, signal.SIGCONT)
    return None


def test_what_a_program_opens_before_it_is_put_right_stays_open(own):
    """It comes out of the code of a dead CRIU by itself, and goes on before the tracer gets to it: as on a busy host."""
    with Client(own.url, own.key) as client:
        sandbox = client.create()
        agent = next(p for p in audit.processes_of_cgroups({sandbox.id}) if re.search(r"^NSpid:.*\t1$", read_text(f"/proc/{p}/status"), re.M))
        outcome = []

        def take():
            try:
                outcome.append(sandbox.snapshot(memory=True)["id"])
            except errors.ClocheError as e:
                outcome.append(e)

        def catch():
            thread = threading.Thread(target=take)
            thread.start()
            criu = wait_for(lambda: outcome or criu_of(own), what="CRIU")
            tracer = hold_tracer(criu, agent) if isinstance(criu, int) else None
            if not tracer:
                thread.join()
                outcome.clear()
                return False
            try:
                joins = own.log().count("sandbox.rejoined")
                os.kill(criu, signal.SIGKILL)
                wait_for(lambda: own.log().count("sandbox.rejoined") > joins, what="the agent, which has hold of the host again")
            finally:
                os.kill(tracer, signal.SIGCONT)
            thread.join()
            wait_for(lambda: state_of(tracer) in "XZ?", what="the tracer's end")
            return True

        wait_for(catch, what="an agent in CRIU's code")
        assert isinstance(outcome[0], errors.ClocheError) and "CRIU was killed" in outcome[0].message, outcome
        assert sandbox.run("echo after").stdout == "after\n"
        sandbox.delete()
        for snapshot in client.snapshots():
            client.delete_snapshot(snapshot["id"])


@pytest.mark.slow
def test_a_hundred_kills_of_criu_end_nothing(own):
    told = kill_often(own, 100, ())
    assert sum(isinstance(t, errors.ClocheError) for t in told) >= 20, told


def test_criu_that_is_killed_in_a_restore_fails_that_start_alone(own):
    with Client(own.url, own.key) as client:
        sandbox = client.create()
        assert sandbox.run_code("x = 42").error is None
        snapshot = sandbox.snapshot(memory=True)["id"]
        outcome = []

        def start():
            try:
                outcome.append(client.create(snapshot=snapshot))
            except errors.ClocheError as e:
                outcome.append(e)

        thread = threading.Thread(target=start)
        thread.start()
        pid = wait_for(lambda: criu_of(own), what="CRIU")
        os.kill(pid, signal.SIGKILL)
        thread.join()
        assert isinstance(outcome[0], errors.ClocheError) and outcome[0].code == "unavailable", outcome
        copy = client.create(snapshot=snapshot)
        assert copy.run_code("x").results[-1].text == sandbox.run_code("x").results[-1].text == "42"
        for one in (copy, sandbox):
            one.delete()
        client.delete_snapshot(snapshot)
