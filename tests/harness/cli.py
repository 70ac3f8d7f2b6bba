# SPDX-License-Identifier: Apache-2.0
"""The command line for tests: as a script uses it, and as a person at a terminal does."""

import fcntl
import os
import pty
import select
import struct
import subprocess
import termios
import time

from .daemon import BUILD

CLOCHE = str(BUILD / "cloche")


def with_var_tmp(path):
    """Words before a command that has this directory as its /var/tmp: what it leaves there is its own."""
    return ["unshare", "--mount", "sh", "-c", 'mount --bind "$0" /var/tmp && exec "$@"', path]


class Cli:
    def __init__(self, daemon):
        self.env = {**os.environ, "CLOCHE_URL": f"unix:{daemon.socket}", "TERM": "xterm"}
        self.env.pop("CLOCHE_API_KEY", None)

    def start(self, *words, stdin=subprocess.DEVNULL, **more):
        more = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "env": self.env, **more}
        return subprocess.Popen([CLOCHE, *words], stdin=stdin, **more)

    def bytes(self, *words, data=None, timeout=60):
        p = self.start(*words, stdin=subprocess.DEVNULL if data is None else subprocess.PIPE)
        try:
            out, err = p.communicate(data, timeout=timeout)
        except subprocess.TimeoutExpired:
            p.kill()
            p.communicate()
            raise
        return p.returncode, out, err

    def __call__(self, *words, data=None, timeout=60):
        status, out, err = self.bytes(*words, data=None if data is None else data.encode(), timeout=timeout)
        return status, out.decode(), err.decode()

    def ok(self, *words, data=None):
        status, out, err = self(*words, data=data)
        assert status == 0, (status, out, err)
        return out

    def ids(self):
        return set(self.ok("ps", "-q").split())


def _take_terminal():
    """In the child: our stdin becomes the session's terminal, so that its Ctrl-C is a signal."""
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


class Terminal:
    """A command on a terminal of its own."""

    def __init__(self, cli, *words, rows=30, cols=100):
        self.fd, end = pty.openpty()
        self.resize(rows, cols)
        self.before = termios.tcgetattr(end)
        self.process = cli.start(*words, stdin=end, stdout=end, stderr=end, start_new_session=True, preexec_fn=_take_terminal)
        self.end = end
        self.seen = b""

    def resize(self, rows, cols):
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, cols, 0, 0))

    def type(self, text):
        os.write(self.fd, text.encode())

    def shows(self, text, seconds):
        """Whether the text comes in time; what was before it is dropped then."""
        deadline = time.monotonic() + seconds
        while text.encode() not in self.seen:
            left = deadline - time.monotonic()
            if left <= 0:
                return False
            if select.select([self.fd], [], [], left)[0]:
                self.seen += os.read(self.fd, 65536)
        self.seen = self.seen.partition(text.encode())[2]
        return True

    def expect(self, text, seconds=20):
        assert self.shows(text, seconds), f"no {text!r} in {self.seen!r}"

    def finish(self):
        status = self.process.wait(60)
        after = termios.tcgetattr(self.end)
        os.close(self.end)
        os.close(self.fd)
        assert after == self.before, "the terminal's mode was not put back"
        return status
