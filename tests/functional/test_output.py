# SPDX-License-Identifier: Apache-2.0
"""An exec is an object: it outlives who started it, and its output can be read again and at once by many."""

import hashlib
import socket
import threading

import pytest
from cloche import errors
from harness.daemon import PATIENCE, memory_kib, wait_for


def text_of(events):
    return b"".join(e.data for e in events if e.type == "stdout")


def test_a_detached_exec_answers_before_it_ends(sandbox):
    e = sandbox.start("read x; echo got $x", open_stdin=True)
    assert e.refresh().state in ("starting", "running")
    e.write_stdin(b"it\n", eof=True)
    assert e.wait(60).exit_code == 0
    assert text_of(e.output()) == b"got it\n"


def test_output_is_replayed_the_same_any_number_of_times(sandbox):
    e = sandbox.start("for i in 1 2 3; do echo $i; done")
    e.wait(60)
    first, second = list(e.output()), list(e.output(follow=False))
    assert text_of(first) == b"1\n2\n3\n"
    assert [(x.seq, x.data) for x in first] == [(x.seq, x.data) for x in second]


def test_output_after_a_sequence_number_is_the_rest(sandbox):
    e = sandbox.start("for i in 1 2 3 4; do echo $i; sleep 0.05; done")
    e.wait(60)
    events = [x for x in e.output() if x.type == "stdout"]
    assert [x.seq for x in events] == list(range(1, len(events) + 1))
    for k in range(len(events) + 1):
        rest = [x for x in e.output(after=k) if x.type == "stdout"]
        assert [x.seq for x in rest] == [x.seq for x in events[k:]]


def test_the_last_event_is_exited_with_the_exec(sandbox):
    e = sandbox.start("echo x; exit 7")
    events = list(e.output(follow=True))
    assert events[-1].type == "exited"
    assert events[-1].exec.exit_code == 7


def test_two_followers_see_the_same(sandbox):
    e = sandbox.start("read go; i=0; while [ $i -lt 500 ]; do echo line $i; i=$((i+1)); done", open_stdin=True)
    got = [[], []]

    def follow(k):
        got[k] = [(x.type, x.seq, x.data) for x in e.output(follow=True)]

    threads = [threading.Thread(target=follow, args=(k,)) for k in (0, 1)]
    for t in threads:
        t.start()
    e.write_stdin(b"go\n", eof=True)
    for t in threads:
        t.join(60)
    assert got[0] == got[1]
    assert b"".join(d for _, _, d in got[0]).splitlines()[-1] == b"line 499"


def test_a_reader_that_goes_away_kills_nothing(sandbox):
    sandbox.run(["mkfifo", "/tmp/gate"])
    with sandbox.stream("echo started; read x < /tmp/gate; echo $x") as events:
        started = next(e.exec for e in events if e.type == "started")
        next(e for e in events if e.type == "stdout")
    sandbox.run("echo go > /tmp/gate", timeout=30 * PATIENCE)
    e = sandbox.exec(started.id)
    assert e.wait(60).exit_code == 0
    assert text_of(e.output()) == b"started\ngo\n"


def test_a_reader_that_goes_away_kills_what_asked_for_it(sandbox):
    with sandbox.stream("echo started; sleep 1000", kill_on_disconnect=True) as events:
        started = next(e.exec for e in events if e.type == "started")
        next(e for e in events if e.type == "stdout")
    info = sandbox.exec(started.id).wait(60)
    assert (info.state, info.cause) == ("exited", "killed")


def test_a_follower_that_never_reads_blocks_neither_program_nor_other_reader(daemon, sandbox):
    e = sandbox.start("read go; head -c 30000000 /dev/zero; echo END", open_stdin=True)
    path = f"/v1/sandboxes/{sandbox.id}/execs/{e.id}/output?follow=1"
    stuck = socket.create_connection(("127.0.0.1", daemon.port))
    stuck.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nX-API-Key: {daemon.key}\r\n\r\n".encode())
    assert stuck.recv(12, socket.MSG_WAITALL) == b"HTTP/1.1 200"
    e.write_stdin(b"go\n", eof=True)
    assert e.wait(60).exit_code == 0
    tail = b"".join(x.data for x in e.output())[-4:]
    assert tail == b"END\n"
    stuck.close()


@pytest.mark.slow
def test_100_mb_of_output_leave_a_bounded_spool_and_a_gap_that_says_how_much(daemon, sandbox):
    size = 100_000_000
    r = sandbox.run(f"head -c {size} /dev/zero", timeout=120)
    assert r.exit_code == 0
    assert r.exec.raw["stdout_bytes"] == size
    spool = sum(f.stat().st_size for f in (daemon.data / "gateway" / "spool").rglob("*") if f.is_file())
    assert spool <= 20 * 1024 * 1024
    lost = kept = 0
    for event in sandbox.exec(r.exec.id).output(follow=False):
        lost += event.lost_bytes
        kept += len(event.data)
    assert lost > 0
    assert lost + kept == size


@pytest.mark.slow
def test_what_a_stream_gets_of_100_mb_and_its_gaps_add_up(daemon, sandbox):
    """The program waits for nobody, so a reader may get gaps; bytes and gaps add up."""
    size = 100_000_000
    seen = lost = 0
    with sandbox.stream(["head", "-c", str(size), "/dev/zero"]) as events:
        for event in events:
            seen += len(event.data)
            lost += event.lost_bytes
    assert seen + lost == size
    assert memory_kib(daemon.gateway_pid) < 64 * 1024


def test_a_long_line_without_a_newline_is_streamed(sandbox):
    seen = 0
    with sandbox.stream("head -c 8000000 /dev/zero | tr '\\0' a") as events:
        for event in events:
            assert set(event.data) <= {ord("a")}
            seen += len(event.data) + event.lost_bytes
    assert seen == 8_000_000


def test_stdin_is_streamed_piece_by_piece(sandbox):
    e = sandbox.start(["cat"], open_stdin=True)
    events = (x for x in e.output(follow=True) if x.type == "stdout")
    for piece in (b"one\n", b"\x00\xff\n", "drei ü\n".encode()):
        e.write_stdin(piece)
        assert next(events).data == piece
    e.close_stdin()
    assert e.wait(60).exit_code == 0


def test_a_large_stdin_stream_waits_for_its_reader(sandbox):
    e = sandbox.start("sha256sum", open_stdin=True)
    block = bytes(range(256)) * 256
    digest = hashlib.sha256(block * 500).hexdigest()
    e.write_stdin((block for _ in range(500)), eof=True)
    assert e.wait(60).exit_code == 0
    assert text_of(e.output()).split()[0].decode() == digest


def test_stdin_of_an_exec_that_has_none_is_refused(sandbox):
    e = sandbox.start(["sleep", "100"])
    with pytest.raises((errors.Conflict, errors.Gone)):
        e.write_stdin(b"x")
    e.kill()


def test_stdin_of_an_exec_that_is_over_is_refused(sandbox):
    e = sandbox.start(["true"], open_stdin=True)
    e.wait(60)
    with pytest.raises((errors.Conflict, errors.Gone)):
        e.write_stdin(b"x")


def test_waiting_gives_up_when_the_time_is_over(sandbox):
    e = sandbox.start(["sleep", "100"])
    assert not e.wait(0.1).is_over
    e.kill()


def test_a_background_child_may_write_after_the_command_ended(sandbox):
    sandbox.run(["mkfifo", "/tmp/gate"])
    e = sandbox.start("(read x < /tmp/gate; echo late) & echo early; exit 6", timeout=60)
    wait_for(lambda: e.refresh().exit_code == 6, 30, "the command's end")
    sandbox.run("echo go > /tmp/gate", timeout=30 * PATIENCE)
    wait_for(lambda: text_of(e.output(follow=False)) == b"early\nlate\n", 30, "the child's output")


def test_an_unknown_exec_is_not_found(sandbox):
    for name in ("ex_" + "a" * 26, "ex_", "nonsense", "..", "%00"):
        with pytest.raises((errors.NotFound, errors.BadRequest, errors.InvalidField)):
            sandbox.exec(name)
