# SPDX-License-Identifier: Apache-2.0
"""Messages on the host's socket: `VERB ID LENGTH\\n`, then the payload.

The socket moves to a high fd with close-on-exec, out of the way of code that counts fds and of its children. A forked
child loses it: the hook closes its copy, and the pid is compared before each message for forks that run no hooks.

A message is sent whole or not at all: were a KeyboardInterrupt to strike between two writes, the host would read the
next message as the rest of this one. So SIGINT is put off while the main thread sends.

A message is first waited for, and then taken: at any moment it lies in the socket or is_taking says so, and a SIGINT that
comes behind it, however soon, finds it.
"""

from __future__ import annotations

import _signal
import _thread
import fcntl
import json.encoder
import os
import select
from collections.abc import Callable

LINE_MAX = 64
PAYLOAD_MAX = 16 << 20
READ_SIZE = 1 << 16
HIGH_FDS = (900, 200, 20)

quote: Callable[[str], str] = json.encoder.encode_basestring
_encode = json.encoder.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode


class BrokenPeer(Exception):
    """What came is not a message: the host is broken or is not the host."""


def high_fd(fd: int) -> int:
    """A close-on-exec duplicate of fd, as high as the limit of open files lets it be."""
    for lowest in HIGH_FDS:
        try:
            return fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, lowest)
        except OSError:
            continue
    return fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 3)


def to_json(value: object) -> str:
    """JSON that every parser takes: no NaN, no NUL. Raises TypeError for what JSON cannot say."""
    try:
        text = _encode(value)
        if "\\u0000" not in text:
            return text
    except ValueError:
        pass
    return _encode(_cleaned(value))


def _cleaned(value: object) -> object:
    if isinstance(value, str):
        return value.replace("\0", "\ufffd")
    if isinstance(value, float):
        return value if value - value == 0 else None
    if isinstance(value, dict):
        return {_cleaned(key): _cleaned(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_cleaned(item) for item in value]
    return value


def frame(verb: str, call_id: int, payload: str) -> bytes:
    """One message. A lone surrogate, which UTF-8 cannot carry, becomes a question mark."""
    data = payload.encode("utf-8", "replace")
    return b"%s %d %d\n%s" % (verb.encode(), call_id, len(data), data)


class Channel:
    """The driver's end of the socket. Threads may send; only the main thread receives."""

    def __init__(self) -> None:
        self._fd = -1
        self._pid = os.getpid()
        self._buffer = b""
        self._coming = select.poll()
        self.is_taking = False  # a message, from its first byte on until who is waiting for the next one says otherwise
        self.call_id: int | None = None
        self._lock = _thread.allocate_lock()
        self._main_thread = _thread.get_ident()
        os.register_at_fork(after_in_child=self._disown)

    def attach(self, fd: int) -> None:
        """Takes fd for its own, and this process for the one that it is the channel of."""
        self._fd = high_fd(fd)
        os.close(fd)
        self._coming = select.poll()
        self._coming.register(self._fd, select.POLLIN)
        self._pid = os.getpid()

    def detach(self) -> None:
        """Closes the socket."""
        os.close(self._fd)
        self._fd = -1

    @property
    def fd(self) -> int:
        return self._fd

    @property
    def is_mine(self) -> bool:
        """False in a child that user code forked."""
        return os.getpid() == self._pid

    def has_input(self) -> bool:
        """Whether a message, or its beginning, has come."""
        if self.is_taking or self._buffer:
            return True
        poll = select.poll()  # a signal may come while the other one waits, and it cannot do both
        poll.register(self._fd, select.POLLIN)
        return bool(poll.poll(0))

    def receive(self) -> tuple[bytes, int, bytes] | None:
        """The next message as verb, id and payload; None at end of file between messages."""
        buffer = self._buffer
        if not buffer:
            self._coming.poll()
        self.is_taking = True
        while (end := buffer.find(b"\n", 0, LINE_MAX)) < 0:
            if len(buffer) >= LINE_MAX:
                raise BrokenPeer("no line")
            data = os.read(self._fd, READ_SIZE)
            if not data:
                if buffer:
                    raise BrokenPeer("ends in a line")
                return None
            buffer = buffer + data if buffer else data
        verb, call_id, length = _parse_line(buffer[:end])
        rest = buffer[end + 1 :]
        if len(rest) < length:
            rest = self._read_payload(rest, length)
        self._buffer = rest[length:]
        return verb, call_id, rest[:length]

    def _read_payload(self, start: bytes, length: int) -> bytes:
        payload = bytearray(start)
        while len(payload) < length:
            data = os.read(self._fd, max(length - len(payload), READ_SIZE))
            if not data:
                raise BrokenPeer("ends in a payload")
            payload += data
        return bytes(payload)

    def send(self, data: bytes) -> None:
        """Sends whole frames between calls. In a forked child it does nothing."""
        if self.is_mine:
            self._write(data)

    def begin(self, call_id: int) -> None:
        """From here on, to finish(), what is displayed belongs to this call."""
        self.call_id = call_id

    def finish(self, data: bytes) -> None:
        """Sends the call's last frames: no thread's display comes after them."""
        with self._lock:
            self.call_id = None
            self._write(data)

    def send_display(self, payload: str) -> bool:
        """Shows something in the call that runs, from any thread; False where there is no call to show it in."""
        if _thread.get_ident() != self._main_thread:
            return self._send_display(payload)
        put_off: list[int] = []
        handler = _signal.signal(_signal.SIGINT, lambda number, _frame: put_off.append(number))
        try:
            return self._send_display(payload)
        finally:
            _signal.signal(_signal.SIGINT, handler)
            if put_off:
                _signal.raise_signal(_signal.SIGINT)

    def _send_display(self, payload: str) -> bool:
        if not self.is_mine:  # first: the lock may have been held when the code forked
            return False
        with self._lock:
            if self.call_id is None:
                return False
            self._write(frame("display", self.call_id, payload))
            return True

    def _write(self, data: bytes) -> None:
        sent = os.write(self._fd, data)
        while sent < len(data):
            data = data[sent:]
            sent = os.write(self._fd, data)

    def _disown(self) -> None:
        if not self.is_mine and self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def _parse_line(line: bytes) -> tuple[bytes, int, int]:
    parts = line.split(b" ")
    if len(parts) != 3 or not parts[1].isdigit() or not parts[2].isdigit():
        raise BrokenPeer("not VERB ID LENGTH")
    length = int(parts[2])
    if length > PAYLOAD_MAX:
        raise BrokenPeer("payload too long")
    return parts[0], int(parts[1]), length
