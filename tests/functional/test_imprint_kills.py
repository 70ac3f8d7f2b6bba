# SPDX-License-Identifier: Apache-2.0
"""Parts of the daemon, of the source and of copies are killed while an imprint is written or taken over. The source goes on with all that it
knew, or ends as it would otherwise; a fork is whole, by another way if need be, or its failure is told by name; and nothing stays of one that
failed."""

import os
import re
import shutil
import signal
import threading

import pytest
from cloche import Client, errors
from harness import audit, zygote
from harness.daemon import ENGINE, IS_SANITIZED, Daemon, call, children_of, read_text, wait_for

pytestmark = [
    pytest.mark.skipif(ENGINE != "jail", reason="a vm is copied as a machine"),
    pytest.mark.skipif(shutil.which("criu", path="/usr/sbin:/usr/bin") is None, reason="no criu"),
    pytest.mark.skipif(IS_SANITIZED, reason="a sanitized agent maps terabytes"),
]
STATE = "x = 41\ndata = bytearray(b'x') * 60_000_000"


@pytest.fixture(scope="module")
def own():
    daemon = Daemon("--pool-max", "0", "--log-level", "debug", rm=False).start()
    zygote.await_ready(daemon)
    yield daemon
    for sandbox in call(daemon, "GET", "/v1/sandboxes")[1]["sandboxes"]:
        call(daemon, "DELETE", f"/v1/sandboxes/{sandbox['id']}")
    assert daemon.stop() == 0
    daemon.remove()


@pytest.fixture
def client(own):
    with Client(own.url, own.key) as client:
        yield client


@pytest.fixture
def source(client):
    sandbox = client.create(engine="jail", limits={"memory_mib": 512})
    assert sandbox.run_code(STATE).error is None
    yield sandbox
    sandbox.delete()


def agent_of(sandbox):
    return next(p for p in audit.processes_of_cgroups({sandbox.id}) if re.search(r"^NSpid:.*\t1$", read_text(f"/proc/{p}/status"), re.M))


def on_disk(daemon):
    return sorted(p.name for p in (daemon.data / "layers").iterdir() if re.match("sn_|roll_", p.name))


class Fork:
    """A fork whose writer stands still, somewhere in the middle of its work."""

    def __init__(self, daemon, client, source, count=2):
        self.daemon, self.client, self.source, self.count = daemon, client, source, count
        self.copies = self.error = None
        self.agent = agent_of(source)
        known = set(children_of(self.agent))
        (self.interpreter,) = [p for p in known if read_text(f"/proc/{p}/comm") == "python3\n"]
        self._before = self._count_made()
        self._thread = threading.Thread(target=self._fork)
        self._thread.start()
        self.writer = None
        while self.writer is None and self._thread.is_alive():
            self.writer = next((p for p in set(children_of(self.agent)) - known if self._stop(p)), None)

    @staticmethod
    def _stop(pid):
        try:
            fds = [f"/proc/{pid}/fd/{fd}" for fd in os.listdir(f"/proc/{pid}/fd")]
            if any("memfd:imprint" in os.readlink(fd) and os.stat(fd).st_size > 0 for fd in fds):  # it has begun, and told so
                os.kill(pid, signal.SIGSTOP)
                return True
        except (FileNotFoundError, ProcessLookupError):
            pass
        return False

    def _fork(self):
        try:
            self.copies = self.source.fork(self.count)
        except errors.ClocheError as e:
            self.error = e

    def made(self):
        """Those that are made and wait for the writer; none of them is told as running yet."""
        return [s for s in self.client.list() if s.id != self.source.id]

    def _count_made(self):
        return self.daemon.log().count('"fork.made"')

    def await_made(self):
        wait_for(lambda: self._count_made() == self._before + self.count, 30, "copies that wait")
        return self.made()

    def go_on(self):
        os.kill(self.writer, signal.SIGCONT)

    def end(self):
        self._thread.join(120)
        assert not self._thread.is_alive()
        return self.copies


@pytest.fixture
def held(own, client, source):
    def hold(count=2):
        def catch():
            fork = Fork(own, client, source, count)
            if fork.writer:
                return fork
            for one in fork.end() or []:  # the writer was faster
                one.delete()
            return None

        return wait_for(catch, 60, "a writer that stands still")

    yield hold
    for one in client.list():
        if one.id != source.id:
            one.delete()
    wait_for(lambda: on_disk(own) == [], 30, "nothing of a snapshot")


def answers(copies, code="x + 1, len(data)"):
    return [copy.run_code(code).text for copy in copies]


def test_a_writer_that_stands_still_holds_neither_the_source_nor_others_up(source, held, client):
    fork = held()
    copies = fork.await_made()
    assert {one.info.state for one in copies} == {"creating"}
    assert source.run_code("x += 1\nx").text == "42"  # and that is not in the copies
    with client.create(engine="jail") as other:
        assert other.run_code("1 + 1").text == "2"
    fork.go_on()
    copies = fork.end()
    assert (copies.memory_by, copies.memory_why) == ("imprint", None)
    assert answers(copies) == ["(42, 60000000)"] * 2


def test_a_writer_that_is_killed_costs_the_imprint_alone(source, held):
    fork = held()
    fork.await_made()
    os.kill(fork.writer, signal.SIGKILL)
    copies = fork.end()
    assert copies.memory_by == "criu" and copies.memory_why == "its memory could not be written: the writer ended"
    assert answers(copies) == ["(42, 60000000)"] * 2 and answers([source]) == ["(42, 60000000)"]


@pytest.mark.slow
def test_a_writer_that_never_goes_on_is_given_up_and_ended(source, held):
    fork = held()
    copies = fork.end()
    assert copies.memory_by == "criu" and "could not be written" in copies.memory_why, copies.memory_why
    wait_for(lambda: not os.path.exists(f"/proc/{fork.writer}"), 30, "the writer's end")
    assert answers([*copies, source]) == ["(42, 60000000)"] * 3


def test_a_source_whose_interpreter_dies_meanwhile_is_forked_without_it(source, held):
    fork = held()
    os.kill(fork.interpreter, signal.SIGKILL)
    copies = fork.end()
    assert copies.memory_by == "criu" and copies.memory_why
    assert [one.run_code("1 + 1").text for one in [*copies, source]] == ["2"] * 3
    assert source.run_code("x").error.name == "NameError"


def test_a_source_that_ends_meanwhile_leaves_no_copies(own, client, held):
    fork = held()
    fork.await_made()
    os.kill(fork.agent, signal.SIGKILL)
    assert fork.end() is None and fork.error.code in ("gone", "conflict", "unavailable"), fork.error
    wait_for(lambda: not fork.made(), 30, "no copies")


def test_a_copy_whose_agent_dies_before_it_has_the_memory_is_told_alone_or_made_anew(source, held):
    fork = held()
    first, _second = fork.await_made()
    os.kill(agent_of(first), signal.SIGKILL)
    wait_for(lambda: len(fork.made()) == 1, 30, "the end of one")
    fork.go_on()
    fork.end()
    if fork.copies is not None:
        assert set(answers(fork.copies)) == {"(42, 60000000)"}
    else:
        assert fork.error.code, fork.error
    assert answers([source]) == ["(42, 60000000)"]


@pytest.mark.parametrize("parts", [("gateway",), ("broker",), ("broker", "gateway")])
def test_parts_of_the_daemon_that_die_leave_the_source_and_no_half_made_copies(own, source, held, parts):
    ready = own.log().count('"zygote.ready"')
    fork = held()
    fork.await_made()
    own.kill_parts(*parts)
    assert fork.end() is None and fork.error.code in ("unavailable", "connection_failed"), fork.error
    fork.go_on()
    wait_for(lambda: not fork.made(), 30, "no copy that was never told")
    assert answers([source]) == ["(42, 60000000)"]
    zygote.await_ready(own, ready + 1)  # the launcher starts all parts again
