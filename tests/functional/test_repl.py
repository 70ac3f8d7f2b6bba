# SPDX-License-Identifier: Apache-2.0
"""Interpreters at the command line: `code` for scripts, `repl` at a terminal, `context` around both."""

import base64
import json
import os
import shutil
import signal
import stat
import subprocess
import termios

import pytest
from harness.cli import CLOCHE, Cli, Terminal, with_var_tmp
from harness.daemon import read_text, wait_for

PNG = base64.b64decode("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg==")
PICTURE = f"class P:\n    def _repr_png_(self): return {PNG!r}\n    def __repr__(self): return '<picture>'\n"


@pytest.fixture
def at(daemon, tmp_path):
    """The command line in a directory and with a home of its own."""
    cli = Cli(daemon)
    cli.env["HOME"] = str(tmp_path / "home")
    cli.env.pop("XDG_STATE_HOME", None)
    (tmp_path / "home").mkdir()
    (tmp_path / "work").mkdir()
    start = cli.start
    cli.start = lambda *words, **more: start(*words, **{"cwd": tmp_path / "work", **more})
    cli.dir = tmp_path / "work"
    return cli


def test_code_keeps_its_variables_from_call_to_call(cli, box):
    assert cli("code", box, "x = 20") == (0, "", "")
    assert cli("code", box, "print('said'); x + 22") == (0, "said\n42\n", "")


def test_code_comes_from_a_file_or_stdin_in_the_files_language(cli, box, tmp_path):
    (tmp_path / "job.sh").write_text("echo from a file; exit 4")
    assert cli("code", box, "-f", str(tmp_path / "job.sh")) == (4, "from a file\n", "")
    assert cli.ok("code", box, "-", data="'stdin'") == "'stdin'\n"
    assert cli.ok("code", box, data="'piped'") == "'piped'\n"
    assert cli("code", box, "1", "-f", "x")[0] == 125


def test_a_language_has_a_short_name(cli, box):
    assert cli.ok("code", "-l", "sh", box, "echo $BASH") == cli.ok("code", "-l", "bash", box, "echo $BASH") != "\n"
    assert cli.ok("run", "-l", "py", "-c", "print(6 * 7)") == "42\n"
    assert cli.ok("context", "new", "-l", "py", box, "second")


def test_an_error_goes_to_stderr_with_its_own_line_and_gives_1(cli, box):
    status, out, err = cli("code", box, "print('before')\ndef f(): return 1/0\nf()")
    assert (status, out) == (1, "before\n")
    assert "def f(): return 1/0" in err and err.endswith("ZeroDivisionError: division by zero\n")


@pytest.mark.parametrize(
    "code, status",
    [("import sys; sys.exit(3)", 3), ("import os; os._exit(9)", 9), ("import os; os.kill(os.getpid(), 9)", 137)],
)
def test_the_end_of_an_interpreter_is_the_exit_status(cli, box, code, status):
    assert cli("code", box, code)[0] == status
    again = cli("code", box, "1")
    assert again[:2] == (0, "1\n") and "fresh interpreter" in again[2]


def test_code_whose_time_is_up_gives_124_and_keeps_its_variables(cli, box):
    status, _, err = cli("code", "--timeout", "300ms", box, "kept = 1\nwhile True: pass")
    assert status == 124 and "its time was up" in err
    assert cli.ok("code", box, "kept") == "1\n"


def test_events_are_lines_of_json_for_programs(cli, box):
    status, out, _ = cli("code", "--json", box, "print('a'); 1/0")
    events = [json.loads(line) for line in out.splitlines()]
    assert status == 1
    assert [e["type"] for e in events] == ["started", "stdout", "error", "done"]


def test_results_and_tracebacks_cannot_drive_the_terminal(cli, box):
    code = "class Evil:\n    def __repr__(self): return 'a\\x1b]0;pwned\\x07\\u202eb\\nline two'\n"
    assert cli.ok("code", box, code + "Evil()") == "a\\x1b]0;pwned\\x07\\u{202e}b\nline two\n"
    status, _, err = cli.bytes("code", box, "raise ValueError('x\\x1b[2Jy')")
    assert status == 1 and b"\x1b" not in err and b"x\\x1b[2Jy" in err
    # What the code prints is its own, as with exec.
    assert cli.bytes("code", box, "print('\\x1b[1mbold')")[1] == b"\x1b[1mbold\n"


def test_images_are_saved_only_where_asked_and_never_over_a_file(at, box):
    assert at("code", box, PICTURE + "P()") == (0, "<picture>\n", "")
    assert os.listdir(at.dir) == []
    (at.dir / "cloche-1.png").write_bytes(b"mine")
    os.symlink("/nowhere/else", at.dir / "cloche-2.png")
    status, out, err = at("code", "--images", ".", box, PICTURE + "display(P()); P()")
    assert (status, out) == (0, "<picture>\n<picture>\n")
    assert err == "[image/png saved: ./cloche-3.png]\n[image/png saved: ./cloche-4.png]\n"
    assert (at.dir / "cloche-1.png").read_bytes() == b"mine"
    assert (at.dir / "cloche-4.png").read_bytes() == PNG


def test_a_call_cannot_fill_the_directory_with_images(at, box):
    status, _, err = at("code", "--images", ".", box, PICTURE + "for i in range(70): display(P())")
    assert status == 0 and len(os.listdir(at.dir)) == 64
    assert "this call has shown 64 images" in err


def test_contexts_are_made_listed_restarted_and_removed(cli, box):
    assert cli.ok("context", "new", "-w", "/tmp", "-e", "WHO=me", box, "side") == "side\n"
    assert cli.ok("code", "--context", "side", box, "import os; os.getcwd(), os.environ['WHO']") == "('/tmp', 'me')\n"
    listed = cli.ok("context", "ls", box)
    assert "side" in listed and "python" in listed
    cli.ok("context", "restart", box, "side")
    assert cli("code", "--context", "side", box, "os")[0] == 1
    cli.ok("context", "rm", box, "side")
    status, _, err = cli("code", "--context", "side", box, "1")
    assert status == 125 and "side" in err
    assert json.loads(cli.ok("context", "ls", "--json", box)) == []


def test_ctrl_c_interrupts_code_and_keeps_its_variables(cli, box):
    p = cli.start("code", box, "i = 7\nprint('began', flush=True)\nwhile True: pass")
    assert p.stdout.readline() == b"began\n"  # what it was told, it knows to run
    p.send_signal(signal.SIGINT)
    out, err = p.communicate(timeout=60)
    assert (p.returncode, out) == (130, b"") and b"KeyboardInterrupt" in err
    assert cli.ok("code", box, "i") == "7\n"


def test_a_killed_caller_takes_its_call_along(cli, box, client):
    p = cli.start("code", box, "i = 7\nopen('began', 'w').close()\nwhile True: pass")
    sandbox = client.get(box)
    wait_for(lambda: sandbox.files.exists("began"), 20, "the loop")
    p.send_signal(signal.SIGTERM)
    p.communicate(timeout=60)
    assert p.returncode == 143
    wait_for(lambda: sandbox.contexts.get("python").state == "idle", 20, "the end of the call")
    assert cli.ok("code", box, "i") == "7\n"


def test_a_prompt_reads_cells_and_shows_their_values(at):
    t = Terminal(at, "repl")
    t.expect("python in sandbox sb_")
    t.expect(">>> ")
    t.type("def f(n):\n")
    t.expect("... ")
    t.type("    return n * 2\n\n")
    t.expect(">>> ")
    t.type("f(\n")
    t.expect("... ")
    t.type("21)\n")
    t.expect("42")
    t.expect(">>> ")
    t.type("print('no newline', end='')\n")
    t.expect("no newline\r\n")
    t.expect(">>> ")
    t.type("1/0\n")
    t.expect("ZeroDivisionError: division by zero")
    t.expect(">>> ")
    t.type("\x04")
    assert t.finish() == 0
    assert at.ids() == set(), "the fresh sandbox is left behind"


def test_ctrl_c_at_the_prompt_drops_the_line_and_in_a_call_interrupts_it(at, box):
    t = Terminal(at, "repl", box)
    t.expect(">>> ")
    t.type("kept = 1\n")
    t.expect(">>> ")
    t.type("never = (\n")
    t.expect("... ")
    t.type("\x03")
    t.expect("^C")
    t.expect(">>> ")
    t.type("import time\nwhile True: print('o' + 'n', flush=True); time.sleep(0.1)\n\n")
    t.expect("on\r\n")
    t.type("\x03")
    t.expect("KeyboardInterrupt")
    t.expect(">>> ")
    t.type("kept, 'never' in globals()\n")
    t.expect("(1, False)")
    t.type("exit(5)\n")
    assert t.finish() == 5
    assert at.ids() == {box}


def test_the_third_ctrl_c_restarts_what_cannot_be_interrupted(at, box):
    t = Terminal(at, "repl", box)
    t.expect(">>> ")
    t.type("import signal; signal.signal(signal.SIGINT, signal.SIG_IGN); print('be' + 'gan'); signal.pause()\n")
    t.expect("began\r\n")  # what it was told, it knows to run
    t.type("\x03")
    t.type("\x03")
    while not t.shows("once more restarts", 5):  # signals that come at once are one
        t.type("\x03")
    t.type("\x03")
    t.expect("InterpreterDied")
    t.expect(">>> ")
    t.type("1 + 1\n")
    t.expect("2\r\n")
    t.expect("fresh interpreter")
    t.expect(">>> ")
    t.type("\x04")
    assert t.finish() == 0


def test_keys_typed_while_code_runs_are_for_the_next_prompt(at, box):
    t = Terminal(at, "repl", box)
    t.expect(">>> ")
    t.type("import time; print('runs'); time.sleep(0.3)\n")
    t.expect("runs\r\n")
    t.type("6 * 7\n\x04")
    t.expect("\n42")
    assert t.finish() == 0


def test_a_line_survives_ctrl_z_and_a_shell_that_takes_the_terminal(at, box):
    t = Terminal(at, "repl", box)
    t.expect(">>> ")
    t.type("20 +")
    t.expect("20 +")
    t.process.send_signal(signal.SIGSTOP)  # as Ctrl-Z, which the kernel ignores where no shell waits
    wait_for(lambda: read_text(f"/proc/{t.process.pid}/stat").rpartition(")")[2].split()[0] == "T", 10, "a stop")
    termios.tcsetattr(t.end, termios.TCSANOW, t.before)
    t.process.send_signal(signal.SIGCONT)
    t.expect("20 +")
    t.type(" 22\x7f2\n")
    t.expect("\n42")
    t.expect(">>> ")
    t.type("\x04")
    assert t.finish() == 0


def test_lines_are_edited_and_remembered_for_the_owner_only(at, box):
    t = Terminal(at, "repl", box)
    t.expect(">>> ")
    t.type("'grün' + 'x'\x7f\x7fy'\n")  # two deletes: the quote and the x
    t.expect("'grüny'")
    t.expect(">>> ")
    t.type("\x04")
    assert t.finish() == 0
    path = at.dir.parent / "home" / ".local" / "state" / "cloche" / "history"
    assert path.read_text() == "'grün' + 'y'\n"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    t = Terminal(at, "repl", box)
    t.expect(">>> ")
    t.type("\x1b[A\n")  # the line of the other day
    t.expect("'grüny'")
    t.expect(">>> ")
    t.type("\x04")
    assert t.finish() == 0


def test_a_prompt_names_other_forms_and_saves_images_here(at, box):
    t = Terminal(at, "repl", box)
    t.expect(">>> ")
    code = "class R:\n    def _repr_html_(self): return '<b>x</b>'\n    def __repr__(self): return 'plain'\n"
    t.type(code + "\nR()\n")
    t.expect("plain")
    t.expect("[also as text/html]")
    t.expect(">>> ")
    t.type(PICTURE + "\nP()\n")
    t.expect("[image/png saved: ./cloche-1.png]")
    t.expect(">>> ")
    t.type("\x04")
    assert t.finish() == 0
    assert (at.dir / "cloche-1.png").read_bytes() == PNG


@pytest.mark.parametrize(
    "language, lead, lines, wanted",
    [
        ("sh", "$ ", ["for i in 1 2; do", "echo got-$i", "done"], "got-2"),
        pytest.param("javascript", "> ", ["[1, 2,", "39].reduce((a, b) => a + b)"], "42", marks=pytest.mark.skipif(not shutil.which("node"), reason="this host has no node")),
    ],
)
def test_every_language_has_a_prompt(at, box, language, lead, lines, wanted):
    t = Terminal(at, "repl", "-l", language, box)
    t.expect("Ctrl-D leaves")
    for line in lines:
        t.type(line + "\n")
    t.expect("\n" + wanted)
    t.expect(lead)
    t.type("\x04")
    assert t.finish() == 0


@pytest.mark.parametrize(
    "language, lines, typed, wanted",
    [
        ("python", ["longer_name = 40"], "print(longer_n\t + 2)\n", "42"),
        ("python", ["import math"], "round(math.degr\tmath.pi))\n", "180"),
        ("bash", ["longer_name=42"], "echo got-$longer_n\t\n", "got-42"),
        ("bash", ["touch /tmp/only-one-file"], "ls /tmp/only-o\t | tr a-z A-Z\n", "/TMP/ONLY-ONE-FILE"),
        pytest.param("javascript", ["var longerName = 40"], "longerN\t + 2\n", "42", marks=pytest.mark.skipif(not shutil.which("node"), reason="this host has no node")),
        pytest.param("javascript", [], "Math.sqr\t(1764)\n", "42", marks=pytest.mark.skipif(not shutil.which("node"), reason="this host has no node")),
    ],
)
def test_tab_completes_what_the_interpreter_knows(at, box, language, lines, typed, wanted):
    t = Terminal(at, "repl", "-l", language, box)
    t.expect("Ctrl-D leaves")
    for line in lines:
        t.type(line + "\n")
    t.type(typed)
    t.expect("\n" + wanted)
    t.type("\x04")
    assert t.finish() == 0


def test_tab_shows_what_there_is_and_changes_nothing(at, box):
    t = Terminal(at, "repl", box)
    t.expect(">>> ")
    t.type("some_thing = 1; some_body = 2; 41\n")
    t.expect("\n41")
    t.type("so\t\t")
    t.expect("some_thing")
    t.type("\x15_ + 1\n")
    t.expect("\n42")
    t.type("if True:\n\tprint('in' + 'dented')\n\n")
    t.expect("\nindented")
    t.type("no_such_na\t = 9; no_such_na + 1\n")
    t.expect("\n10")
    t.type("\x04")
    assert t.finish() == 0


def test_a_named_context_is_made_for_a_prompt_and_found_again(at, box):
    assert at("repl", "--context", "mine", box, data="v = 5") == (0, "", "")
    assert at.ok("repl", "--context", "mine", box, data="v") == "5\n"
    assert at("repl", box, data="v")[0] == 1


def test_piped_input_is_one_cell_in_a_fresh_sandbox(at):
    assert at("repl", data="def f():\n    return 6\n\n\n    # still the function\nprint(f() * 7)") == (0, "42\n", "")
    assert at("repl", "-l", "bash", data="echo $((6*7)); exit 3") == (3, "42\n", "")
    assert at.ids() == set()


def test_a_prompt_that_is_told_to_end_removes_its_sandbox(at):
    t = Terminal(at, "repl")
    t.expect(">>> ")
    assert len(at.ids()) == 1
    t.process.send_signal(signal.SIGTERM)
    assert t.finish() == 143
    assert at.ids() == set()


def test_a_prompt_without_a_daemon_hosts_one_and_leaves_nothing(tmp_path, short_path):
    env = {k: v for k, v in os.environ.items() if k not in ("CLOCHE_URL", "CLOCHE_API_KEY")}
    argv = [*with_var_tmp(short_path), CLOCHE, "repl", "--standalone"]
    r = subprocess.run(argv, input=b"6*7", env=env, cwd=tmp_path, capture_output=True, timeout=60)
    assert (r.returncode, r.stdout, r.stderr) == (0, b"42\n", b"")
    assert os.listdir(short_path) == []
