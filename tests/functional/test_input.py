# SPDX-License-Identifier: Apache-2.0
"""Input arrives whole and in order, however much it is and however slowly it is read, by every way in: what is answered is on its way."""

import asyncio
import hashlib
import random
import threading
import uuid

import cloche
import pytest
from harness.daemon import memory_kib
from harness.mcp import Session
from harness.websocket import BINARY, PING, PONG, TEXT, WebSocket

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
# (bytes of each piece, how many, who reads it): around the window of 256 KiB that an agent grants
ROWS = [(1, 3, "quick"), (262_144, 1, "late"), (262_145, 1, "quick"), (3_000_000, 1, "late"), (3_000_000, 1, "slow"), (100_000, 10, "slow")]


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


def by_stream(box, command, pieces):
    handle = box.commands.run(command, background=True, stdin=True)
    box.commands.stream_input(handle.pid, pieces)
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


@pytest.mark.parametrize("size, count, reader", ROWS)
def test_all_that_is_sent_by_e2b_arrives(e2b_box, size, count, reader):
    pieces = made_of(size, count)
    assert by_e2b(e2b_box, READERS[reader], pieces).split()[0] == digest_of(pieces)
    assert by_stream(e2b_box, READERS[reader], pieces).split()[0] == digest_of(pieces)


@pytest.mark.parametrize("size, count, reader", ROWS)
def test_all_that_is_sent_by_requests_arrives(sandbox, size, count, reader):
    pieces = made_of(size, count)
    assert by_requests(sandbox, READERS[reader], pieces).split()[0] == digest_of(pieces)


@pytest.mark.parametrize("size, reader", [(1, "quick"), (262_145, "late"), (1_000_000, "slow")])
def test_all_that_comes_with_a_call_arrives(daemon, sandbox, size, reader):
    pieces = made_of(size, 1)
    assert by_body(sandbox, READERS[reader], pieces).split()[0] == digest_of(pieces)
    with Session(daemon.url, daemon.key) as session:
        assert by_mcp(session, READERS[reader], pieces).split()[0] == digest_of(pieces)


def test_input_that_a_process_ends_before_is_refused(e2b_box):
    handle = e2b_box.commands.run("sleep 1", background=True, stdin=True)
    with pytest.raises(e2b.SandboxException):
        e2b_box.commands.send_stdin(handle.pid, made_of(3_000_000, 1)[0])


CALLERS = 6  # each with 3 MB


def test_input_of_a_caller_that_left_is_not_kept(daemon, e2b_box):
    """Else a client could fill the daemon's memory with what nobody reads."""
    handle = e2b_box.commands.run("sleep 60", background=True, stdin=True)
    piece = made_of(3_000_000, 1)[0]
    before = memory_kib(daemon.gateway_pid)
    for _ in range(CALLERS):
        with pytest.raises(e2b.TimeoutException):
            e2b_box.commands.send_stdin(handle.pid, piece, request_timeout=0.3)
    assert memory_kib(daemon.gateway_pid) - before < CALLERS * len(piece) / 1024 / 2
    handle.kill()


def test_a_stream_of_input_stays_open_between_pieces_and_says_what_it_cannot_do(daemon, e2b_box):
    async def talk():
        box = await e2b.AsyncSandbox.connect(e2b_box.sandbox_id)
        heard, said = asyncio.Queue(), []
        handle = await box.commands.run("while read x; do echo got $x; done", background=True, stdin=True, on_stdout=heard.put_nowait)
        async with box.commands.stream_input(handle.pid) as line:
            for word in ("one", "two"):
                await line.send(word + "\n")
                said.append(await heard.get())
        await handle.kill()
        late = box.commands.stream_input(handle.pid)
        with pytest.raises(e2b.NotFoundException):
            await late.close()
        return said

    assert asyncio.run(talk()) == ["got one\n", "got two\n"]


CLOSES = "exec 0<&-; echo closed; sleep 60"


def test_input_for_a_program_that_has_closed_its_stdin_is_refused_in_words(daemon, sandbox, e2b_box):
    handle = e2b_box.commands.run(CLOSES, background=True, stdin=True)
    assert next(iter(handle)) == ("closed\n", None, None)
    for send in (e2b_box.commands.send_stdin, lambda pid, text: e2b_box.commands.stream_input(pid, [text])):
        with pytest.raises(e2b.SandboxException, match="has closed its stdin"):
            send(handle.pid, "lost")
    e2b_box.commands.close_stdin(handle.pid)
    handle.kill()

    one = sandbox.start(CLOSES, open_stdin=True)
    assert next(iter(one.output())).data == b"closed\n"
    with pytest.raises(cloche.errors.Conflict, match="has closed its stdin"):
        one.write_stdin(b"lost")
    ws = WebSocket(daemon, sandbox, one)
    ws.send(BINARY, b"lost")
    ws.send(BINARY, b"lost")
    ws.send(TEXT, b'{"signal": "KILL"}')
    _, texts, _ = ws.until_close()
    assert ["has closed its stdin" in text.get("error", {}).get("message", "") for text in texts] == [True, False]
    ws.close()


def test_input_that_waits_when_its_reader_closes_is_refused(sandbox, e2b_box):
    """It waits for room: the program takes a little, and then no more."""
    one = sandbox.start("head -c 10 >/dev/null; exec 0<&-; sleep 60", open_stdin=True)
    with pytest.raises(cloche.errors.Conflict, match="has closed its stdin"):
        one.write_stdin(made_of(3_000_000, 1)[0])
    one.kill()
    handle = e2b_box.commands.run("head -c 10 >/dev/null; exec 0<&-; sleep 60", background=True, stdin=True)
    with pytest.raises(e2b.SandboxException, match="has closed its stdin"):
        e2b_box.commands.send_stdin(handle.pid, made_of(3_000_000, 1)[0])
    handle.kill()
    # Who runs a whole command has its exit code, as with a pipe of the shell.
    assert sandbox.run("head -c 4", stdin=made_of(1_000_000, 1)[0]).exit_code == 0


# A terminal is told to pass all on as it comes, or takes lines; what it echoes would come back.
TERMINAL = """
import hashlib, os, sys, termios, time, tty
count, mode, pause = int(sys.argv[1]), sys.argv[2], float(sys.argv[3])
if mode == "raw":
    tty.setraw(0)
else:
    attributes = termios.tcgetattr(0)
    attributes[3] &= ~termios.ECHO
    termios.tcsetattr(0, termios.TCSANOW, attributes)
print("ready", flush=True)
h = hashlib.sha256()
while count > 0:
    data = os.read(0, min(count, 50000))
    h.update(data)
    count -= len(data)
    time.sleep(pause)
print("digest", h.hexdigest(), flush=True)
time.sleep(60)
"""
TERMINALS = {"raw": ("raw", 0), "raw, slow": ("raw", 0.002), "lines": ("lines", 0)}


def lines_of(size, count):
    """A terminal keeps 4095 bytes of a line that is not ended; more of it is the kernel's to drop."""
    text = "".join(made_of(size, count))
    return ["".join(text[at:at + 999] + "\n" for at in range(i * size, (i + 1) * size, 999)) for i in range(count)]


def words_of(count, kind):
    mode, pause = TERMINALS[kind]
    return ["python3", "-c", TERMINAL, str(count), mode, str(pause)]


class Screen:
    """What a terminal shows, read by a thread so that the terminal is never full."""

    def __init__(self, pieces):
        self.text, self.news = b"", threading.Condition()
        threading.Thread(target=self.fill, args=(pieces,), daemon=True).start()

    def fill(self, pieces):
        for piece in pieces:
            with self.news:
                self.text += piece
                self.news.notify_all()

    def find(self, word, size=0):
        with self.news:
            assert self.news.wait_for(lambda: len(self.text.partition(word)[2]) > size, 60), self.text[-500:]
            return self.text.partition(word)[2].split()[0].decode() if size else None


@pytest.fixture(scope="module")
def terminal_program(e2b_box):
    e2b_box.files.write("/tmp/terminal.py", TERMINAL)


@pytest.mark.parametrize("size, count, kind", [(1, 3, "raw"), (1_000_000, 1, "raw"), (1_000_000, 1, "lines"), (400_000, 1, "raw, slow"), (80_000, 5, "raw, slow")])
def test_all_that_is_sent_to_a_terminal_arrives(daemon, sandbox, e2b_box, terminal_program, size, count, kind):
    pieces = lines_of(size, count)
    total = sum(map(len, pieces))

    def by_pty(send):
        handle = e2b_box.pty.create(e2b.PtySize(24, 80), timeout=120)
        screen = Screen(piece for _, _, piece in handle if piece)
        mode, pause = TERMINALS[kind]
        e2b_box.pty.send_stdin(handle.pid, f"exec python3 /tmp/terminal.py {total} {mode} {pause}\n".encode())
        screen.find(b"ready")
        send(handle.pid)
        digest = screen.find(b"digest", 65)
        handle.kill()
        return digest

    def by_native(send):
        one = sandbox.start(words_of(total, kind), pty=True)
        screen = Screen(event.data for event in one.output())
        screen.find(b"ready")
        _line = send(one)  # a line that is cut takes along what was not read yet
        digest = screen.find(b"digest", 65)
        one.kill()
        return digest

    def attached(one):
        ws = WebSocket(daemon, sandbox, one, query="?after=1")
        for piece in pieces:
            for at in range(0, len(piece), 60_000):
                ws.send(BINARY, piece[at:at + 60_000].encode())
        ws.flush()
        ws.close()

    expected = digest_of(pieces)
    assert by_pty(lambda pid: [e2b_box.pty.send_stdin(pid, piece.encode()) for piece in pieces]) == expected
    assert by_pty(lambda pid: e2b_box.pty.stream_input(pid, [piece.encode() for piece in pieces])) == expected
    assert by_native(lambda one: [one.write_stdin(piece) for piece in pieces]) == expected
    assert by_native(attached) == expected


# Reads nothing before somebody opens its gate. What it prints then finds no client.
PARKED = """
import hashlib, os, sys, time, tty
count, gate = int(sys.argv[1]), sys.argv[2]
if os.isatty(0):
    tty.setraw(0)
os.mkfifo(gate)
print("ready", flush=True)
open(gate).read()
for _ in range(10):
    print("awake", flush=True)
    time.sleep(0.005)
h = hashlib.sha256()
while count > 0 and (data := os.read(0, min(count, 50000))):
    h.update(data)
    count -= len(data)
print("digest", h.hexdigest(), flush=True)
time.sleep(60)
"""


def hang_up_after_goodbye(ws):
    ws.say_goodbye()
    ws.close()


LEAVINGS = {"goodbye": WebSocket.say_goodbye, "goodbye, hang up": hang_up_after_goodbye, "hang up": WebSocket.close, "reset": WebSocket.reset}


def parked(sandbox, total, **how):
    """The exec, its screen, and what opens its gate."""
    gate = f"/tmp/gate-{uuid.uuid4().hex}"
    one = sandbox.start(["python3", "-c", PARKED, str(total), gate], **how)
    screen = Screen(event.data for event in one.output())
    screen.find(b"ready")
    return one, screen, lambda: sandbox.run(f": > {gate}")


@pytest.mark.parametrize("kind", ["terminal", "pipe"])
@pytest.mark.parametrize("leaving", LEAVINGS)
def test_what_was_sent_before_a_client_left_arrives(daemon, sandbox, kind, leaving):
    """More than the agent takes while nobody reads, so that a part of it waits in the daemon."""
    pieces = [made_of(1_000_000, 1)[0], "the end"]
    one, screen, open_gate = parked(sandbox, sum(map(len, pieces)), pty=kind == "terminal", open_stdin=kind == "pipe")
    ws = WebSocket(daemon, sandbox, one, query="?after=1")
    for piece in pieces:
        ws.send(BINARY, piece.encode())
    ws.flush()
    LEAVINGS[leaving](ws)
    open_gate()
    assert screen.find(b"digest", 65) == digest_of(pieces)
    if leaving == "goodbye":
        assert ws.until_close()[2] == 1000
    one.kill()


@pytest.mark.parametrize("way", ["request", "attach"])
def test_an_end_of_input_comes_behind_what_was_given_at_the_start(daemon, sandbox, way):
    pieces = made_of(1_000_000, 1)
    one, screen, open_gate = parked(sandbox, len(pieces[0]) + 1, stdin=pieces[0], open_stdin=True)
    if way == "request":
        one.write_stdin(b"", eof=True)
    else:
        ws = WebSocket(daemon, sandbox, one)
        ws.send(TEXT, b'{"eof": true}')
        ws.send(PING)
        while ws.recv()[0] != PONG:
            pass
        ws.close()
    open_gate()
    assert screen.find(b"digest", 65) == digest_of(pieces)
    one.kill()
