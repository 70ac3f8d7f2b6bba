# SPDX-License-Identifier: Apache-2.0
"""Commands with a terminal."""

import pytest
from cloche import errors


class Screen:
    """Reads a terminal's output until something shows up."""

    def __init__(self, exec_):
        self._events = exec_.output(follow=True)
        self.text = b""

    def until(self, wanted):
        while wanted not in self.text:
            event = next(self._events)
            self.text += event.data
        before, _, self.text = self.text.partition(wanted)
        return before


def test_a_pty_is_a_terminal_for_all_three(sandbox):
    r = sandbox.run("test -t 0 && test -t 1 && test -t 2 && tty", pty=True)
    assert r.exit_code == 0
    assert r.stdout.startswith("/dev/pts/")


def test_without_a_pty_nothing_is_a_terminal(sandbox):
    assert sandbox.run("test -t 0 || test -t 1 || test -t 2").exit_code == 1


def test_a_terminal_has_the_size_asked_for_and_a_new_one_when_told(sandbox):
    e = sandbox.start("trap 'stty size' WINCH; stty size; while :; do sleep 0.05; done", pty={"rows": 40, "cols": 120})
    screen = Screen(e)
    screen.until(b"40 120\r\n")
    e.resize(50, 200)
    screen.until(b"50 200\r\n")
    e.kill()


def test_control_c_interrupts_the_foreground_program(sandbox):
    e = sandbox.start(["bash", "--norc", "-i"], pty=True, env={"PS1": "READY> "})
    screen = Screen(e)
    screen.until(b"READY> ")
    e.write_stdin(b"sleep 1000\n")
    screen.until(b"sleep 1000\r\n")
    # The shell hands the terminal over before the program runs; until then the key hits the shell.
    for _ in range(100):
        if sandbox.run("cat /proc/[0-9]*/comm | grep -qx sleep").exit_code == 0:
            break
    e.write_stdin(b"\x03")
    screen.until(b"READY> ")
    e.write_stdin(b"echo code=$?\n")
    screen.until(b"code=130")
    e.write_stdin(b"exit\n")
    assert e.wait(60).exit_code == 130 or e.info.exit_code == 0


def test_control_d_is_the_end_of_input(sandbox):
    e = sandbox.start(["cat"], pty=True)
    e.write_stdin(b"line\n")
    Screen(e).until(b"line\r\nline\r\n")
    e.write_stdin(b"\x04")
    assert e.wait(60).exit_code == 0


def test_the_end_of_a_terminal_hangs_up_its_session(sandbox):
    e = sandbox.start("trap 'echo hup > /tmp/hup; exit' HUP; echo set; while :; do sleep 0.05; done", pty=True)
    Screen(e).until(b"set")
    e.signal("HUP")
    assert e.wait(60).is_over
    assert sandbox.files.read("/tmp/hup") == b"hup\n"


def test_resizing_what_has_no_terminal_is_refused(sandbox):
    e = sandbox.start(["sleep", "1000"])
    with pytest.raises(errors.Conflict):
        e.resize(10, 10)
    e.kill()
