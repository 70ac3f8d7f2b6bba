# SPDX-License-Identifier: Apache-2.0
"""Input arrives whole and in order, however much it is and however slowly it is read, by every way in: what is answered is on its way."""

import hashlib
import random

import pytest
from harness.daemon import memory_kib
from harness.mcp import Session

e2b = pytest.importorskip("e2b")

READERS = {
    "quick": "sha256sum",
    "late": "sleep 0.3; sha256sum",
    "slow": """python3 -c '
import hashlib, sys, time
h = hashlib.sha256()
while b := sys.stdin.buffer.read1(50000):
    h.update(b)
    time.sleep(0.002)
print(h.hexdigest())'""",
}
# (bytes of each piece, how many): around the window of 256 KiB that an agent grants
SIZES = [(1, 3), (262_144, 1), (262_145, 1), (3_000_000, 1), (100_000, 10), (262_145, 4)]


def made_of(size, count):
    return [random.Random(f"{size}/{i}").randbytes((size + 1) // 2).hex()[:size] for i in range(count)]


@pytest.fixture(scope="module")
def e2b_box(daemon):
    with pytest.MonkeyPatch.context() as patch:
        for name in ("E2B_API_URL", "E2B_SANDBOX_URL"):
            patch.setenv(name, daemon.url)
        patch.setenv("E2B_API_KEY", f"e2b_{daemon.key.removeprefix('clo_')}")
        box = e2b.Sandbox.create(template="host", timeout=300)
        yield box
        box.kill()


def by_e2b(box, command, pieces):
    handle = box.commands.run(command, background=True, stdin=True)
    for piece in pieces:
        box.commands.send_stdin(handle.pid, piece)
    box.commands.close_stdin(handle.pid)
    return handle.wait().stdout


def by_body(sandbox, command, pieces):
    return sandbox.run(command, stdin="".join(pieces)).stdout


def by_requests(sandbox, command, pieces):
    one = sandbox.start(command, open_stdin=True)
    for piece in pieces:
        one.write_stdin(piece)
    one.write_stdin(b"", eof=True)
    return b"".join(event.data for event in one.output() if event.type == "stdout").decode()


def by_mcp(session, command, pieces):
    return session.call("exec", command=command, stdin="".join(pieces))["structuredContent"]["stdout"]


def digest_of(pieces):
    return hashlib.sha256("".join(pieces).encode()).hexdigest()


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("size, count", SIZES)
def test_all_that_is_sent_by_e2b_arrives(e2b_box, size, count, reader):
    pieces = made_of(size, count)
    assert by_e2b(e2b_box, READERS[reader], pieces).split()[0] == digest_of(pieces)


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("size, count", SIZES)
def test_all_that_is_sent_by_requests_arrives(sandbox, size, count, reader):
    pieces = made_of(size, count)
    assert by_requests(sandbox, READERS[reader], pieces).split()[0] == digest_of(pieces)


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("size", [1, 262_144, 262_145, 1_000_000])
def test_all_that_comes_with_a_call_arrives(daemon, sandbox, size, reader):
    pieces = made_of(size, 1)
    assert by_body(sandbox, READERS[reader], pieces).split()[0] == digest_of(pieces)
    with Session(daemon.url, daemon.key) as session:
        assert by_mcp(session, READERS[reader], pieces).split()[0] == digest_of(pieces)


def test_input_that_a_process_ends_before_is_refused(e2b_box):
    handle = e2b_box.commands.run("sleep 1", background=True, stdin=True)
    with pytest.raises(e2b.SandboxException):
        e2b_box.commands.send_stdin(handle.pid, made_of(3_000_000, 1)[0])


def test_input_of_a_caller_that_left_is_not_kept(daemon, e2b_box):
    """Else a client could fill the daemon's memory with what nobody reads."""
    handle = e2b_box.commands.run("sleep 60", background=True, stdin=True)
    piece = made_of(3_000_000, 1)[0]
    before = memory_kib(daemon.gateway_pid)
    for _ in range(12):
        with pytest.raises(e2b.TimeoutException):
            e2b_box.commands.send_stdin(handle.pid, piece, request_timeout=0.3)
    assert memory_kib(daemon.gateway_pid) - before < 12 * len(piece) / 1024 / 2
    handle.kill()
