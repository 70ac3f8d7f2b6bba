# SPDX-License-Identifier: Apache-2.0
"""Standard output and error, as the code expects them and whatever the code did to them.

Lines go out as they are printed, so that a loop which prints and sleeps is seen as it goes. A write for every line is
slow, though, when there are a million of them: past BURST_LINES within a window the lines are held in the buffer, and a
thread that lives only as long as lines are held passes them on every few milliseconds. A flush that the code asks for is
always done at once.

Before each call both streams are put back: fds 1 and 2 from duplicates of the pipes, `sys.stdout` and `sys.stderr` to
these objects, made anew if they were closed.
"""

from __future__ import annotations

import _thread
import io
import os
import sys
import time

from .framing import high_fd

BUFFER_SIZE = 1 << 16
BURST_LINES = 32
WINDOW_SECONDS = 0.004
HOLD_SECONDS = 0.003

_monotonic = time.monotonic
_flush = io.BufferedWriter.flush


class _PacedBuffer(io.BufferedWriter):
    """A buffer whose flush() is the text layer's word that a line has ended, obeyed at once or soon."""

    def __init__(self, raw: io.RawIOBase):
        super().__init__(raw, BUFFER_SIZE)
        self._window_end = 0.0
        self._left = 0
        self._held = False
        self._flusher_runs = False
        self._flusher_lock = _thread.allocate_lock()

    def flush(self) -> None:
        now = _monotonic()
        if now > self._window_end:
            self._window_end = now + WINDOW_SECONDS
            self._left = BURST_LINES
        if self._left > 0:
            self._left -= 1
            _flush(self)
            return
        self._held = True
        if not self._flusher_runs:
            self._flusher_runs = True
            _thread.start_new_thread(self._flush_held, ())

    def flush_now(self) -> None:
        self._held = False
        _flush(self)

    def settle(self) -> None:
        """Flushes, and waits until no thread flushes: a fork must find none."""
        self.flush_now()
        with self._flusher_lock:
            pass

    def _flush_held(self) -> None:
        with self._flusher_lock:
            while True:
                time.sleep(HOLD_SECONDS)
                if self._held:
                    self._held = False
                    try:
                        _flush(self)
                    except (OSError, ValueError):  # closed by the code meanwhile: there is no one to tell
                        pass
                    continue
                self._flusher_runs = False
                if not self._held or self._flusher_runs:
                    return
                self._flusher_runs = True

    def after_fork(self) -> None:
        """In a child: the thread did not come along."""
        self._flusher_runs = False
        self._flusher_lock = _thread.allocate_lock()


class _Text(io.TextIOWrapper):
    """The text layer. Unencodable text is escaped rather than refused."""

    def __init__(self, fd: int, name: str):
        raw = io.FileIO(fd, "w", closefd=False)
        raw.name = name
        super().__init__(_PacedBuffer(raw), "utf-8", "backslashreplace", "\n", line_buffering=True)
        self.mode = "w"

    def flush(self) -> None:
        super().flush()
        self.buffer.flush_now()


class Streams:
    """Both streams of the process, and the pipes they lead to."""

    def __init__(self) -> None:
        self._pipes = (1, 2)
        self._out = _Text(1, "<stdout>")
        self._err = _Text(2, "<stderr>")
        self._c_flush = None
        os.register_at_fork(before=self._before_fork, after_in_child=self._after_fork)

    def attach(self) -> None:
        """Takes what is at fds 1 and 2 for the pipes."""
        self._pipes = (high_fd(1), high_fd(2))
        self.restore()

    def detach(self) -> None:
        """Lets go of the pipes: fds 1 and 2 are what they were."""
        for fd in self._pipes:
            os.close(fd)
        self._pipes = (1, 2)

    @property
    def pipes(self) -> tuple[int, int]:
        return self._pipes

    @property
    def error_fd(self) -> int:
        return self._pipes[1]

    def restore(self) -> None:
        """Puts both streams back as a call expects them."""
        out, err = self._pipes
        os.dup2(out, 1)
        os.dup2(err, 2)
        # A child process that shared the pipe may have left it non-blocking, as Node does.
        os.set_blocking(1, True)
        os.set_blocking(2, True)
        if not _is_usable(self._out):
            self._out = _Text(1, "<stdout>")
        if not _is_usable(self._err):
            self._err = _Text(2, "<stderr>")
        sys.stdout = sys.__stdout__ = self._out
        sys.stderr = sys.__stderr__ = self._err

    def flush(self) -> None:
        """Flushes these streams, what the code put in their place, and what C code has in stdio."""
        for stream in (getattr(sys, "stdout", None), getattr(sys, "stderr", None)):
            if stream is not self._out and stream is not self._err:
                _try_flush(stream)
        _try_flush(self._out)
        _try_flush(self._err)
        if "ctypes" in sys.modules:
            self._flush_stdio()

    def complain(self, text: str) -> None:
        """Writes a line of the driver's own to standard error, if there is still one."""
        try:
            self._err.write(text + "\n")
        except (OSError, ValueError):
            pass

    def _flush_stdio(self) -> None:
        """printf() in an extension buffers in libc. ctypes is at hand only if some module imported it."""
        if self._c_flush is None:
            try:
                self._c_flush = sys.modules["ctypes"].CDLL(None).fflush
            except (AttributeError, OSError):
                self._c_flush = _nothing
        self._c_flush(None)

    def _before_fork(self) -> None:
        for stream in (self._out, self._err):
            try:
                stream.flush()
                stream.buffer.settle()
            except (OSError, ValueError):
                pass

    def _after_fork(self) -> None:
        for stream in (self._out, self._err):
            try:
                stream.buffer.after_fork()
            except ValueError:
                pass


def _is_usable(stream: io.TextIOWrapper) -> bool:
    try:
        return not stream.closed
    except ValueError:  # detached
        return False


def _try_flush(stream: object) -> None:
    try:
        stream.flush()
    except Exception:  # closed, broken or no stream at all: the code's own doing
        pass


def _nothing(_file: None) -> None:
    """Stands in for fflush() where libc cannot be called."""
