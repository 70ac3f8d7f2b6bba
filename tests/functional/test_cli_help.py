# SPDX-License-Identifier: Apache-2.0
"""--help at every level, colours, and what is shown while something takes long."""

import json
import re
import subprocess
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
from harness.cli import CLOCHE, Terminal
from harness.daemon import BUILD


def help_of(*words):
    r = subprocess.run([CLOCHE, *words, "--help"], stdin=subprocess.DEVNULL, capture_output=True, text=True)
    assert (r.returncode, r.stderr) == (0, ""), words
    return r.stdout


def commands_of(text):
    """The words of the table of commands, if there is one."""
    table = re.search(r"^Commands:\n((?:  .*\n)+)", text, re.M)
    return re.findall(r"^  ([a-z][a-z-]*)", table.group(1), re.M) if table else []


def walk(*words):
    text = help_of(*words)
    yield words, text
    for word in commands_of(text):
        yield from walk(*words, word)


@pytest.fixture(scope="module")
def pages():
    """{words of a command: its --help}"""
    return dict(walk())


def test_every_command_explains_itself_with_examples(pages):
    assert len(pages) > 60 and ("eval",) in pages and ("template", "import") in pages
    for words, text in pages.items():
        name = " ".join(("cloche", *words))
        assert text.startswith(f"Usage: {name} "), name
        examples = text.partition("\nExamples:\n")[2]
        assert name in examples or not words, f"{name} --help shows no example of itself"
        assert max(map(len, text.splitlines())) <= 180, f"{name} --help has a line that is too long"


def test_examples_name_options_that_there_are(pages):
    for words, text in pages.items():
        for line in text.partition("\nExamples:\n")[2].splitlines():
            for used in re.findall(r"\bcloche ((?:[a-z-]+ )(?:[^|&;']*))", line):
                command = used.split()[0]
                if (command,) not in pages:
                    continue
                known = pages[(command,)] + "".join(pages[w] for w in pages if w[:1] == (command,))
                for option in re.findall(r"(?<=\s)(--[a-z][a-z0-9-]*)", used.partition(" -- ")[0]):
                    assert option in known, f"{' '.join(words)}: {line.strip()} has {option}"


def test_help_has_no_colours_and_a_wrong_word_says_what_to_do(pages):
    assert "\x1b" not in "".join(pages.values())
    r = subprocess.run([CLOCHE, "teleport"], capture_output=True, text=True)
    assert r.returncode == 125 and "there is no command 'teleport'" in r.stderr and "cloche --help" in r.stderr


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        (["ls"], "'cloche ps'"),
        (["evla", "x"], "'cloche eval'"),
        (["snapshots"], "'cloche snapshot'"),
        (["key", "list"], "'cloche key ls'"),
        (["template", "biuld"], "'cloche template build'"),
        (["create", "--persistant"], "'--persistent'"),
    ],
    ids=lambda w: w[0] if isinstance(w, list) else "",
)
def test_a_word_that_is_nearly_right_is_told_as_it_was_meant(words, meant):
    r = subprocess.run([CLOCHE, *words], capture_output=True, text=True)
    assert r.returncode == 125 and f"did you mean {meant}?" in r.stderr, r.stderr


def test_a_word_that_is_like_none_is_told_without_a_guess():
    for words in (["teleport"], ["rx"], ["key", "teleport"], ["ps", "--zebra"]):
        r = subprocess.run([CLOCHE, *words], capture_output=True, text=True)
        assert r.returncode == 125 and "did you mean" not in r.stderr, r.stderr


def test_colours_are_for_terminals_and_not_for_who_wants_none(cli, tmp_path):
    file = tmp_path / "e.toml"
    file.write_text('template = "host"\n[case.a]\ncommand = "true"\n')
    assert "\x1b" not in cli.ok("eval", str(file))
    terminal = Terminal(cli, "eval", str(file))
    terminal.expect("\x1b[32mpass")
    assert terminal.finish() == 0
    cli.env["NO_COLOR"] = "1"
    terminal = Terminal(cli, "eval", str(file))
    terminal.expect("pass a")
    assert terminal.finish() == 0


@pytest.fixture
def slow(cli):
    """A daemon that keeps its answer until it is let go: `slow.set()`."""
    go = threading.Event()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            go.wait(60)
            body = json.dumps({"sandboxes": [], "next_cursor": None}).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    cli.env["CLOCHE_URL"] = f"http://127.0.0.1:{server.server_port}"
    yield go
    go.set()
    server.shutdown()
    thread.join()
    server.server_close()


def test_who_waits_at_a_terminal_is_told_and_the_line_goes(cli, slow):
    terminal = Terminal(cli, "ps")
    terminal.expect("\r\x1b[Kwaiting for the daemon, 1 s")
    slow.set()
    terminal.expect("\r\x1b[K")
    terminal.expect("ID")
    assert terminal.finish() == 0


def test_who_waits_elsewhere_hears_nothing_but_the_answer(cli, slow):
    p = cli.start("ps", "-q")
    slow.set()
    assert p.communicate(timeout=60) == (b"", b"")


def test_top_tells_state_network_and_cost(cli, client):
    with client.create(name="top-rests") as box:
        box.pause(to="memory")
        heads, *rows = cli.ok("top", "--once").splitlines()[2:]
        assert heads.split() == "SANDBOX STATE CPU % VCPUS MEMORY OF DISK PIDS NET IN NET OUT CPU RUNNING COST".split()
        (row,) = [r for r in rows if r.startswith("top-rests ")]
        assert row.split()[1] == "paused" and row.endswith(" EUR")


def test_the_manual_page_has_every_command_and_option(pages):
    """It is made of --help by tools/man, which may fail to see something there."""
    text = (BUILD / "cloche.1").read_text().replace("\\-", "-")
    sections = dict(re.findall(r'^\.SS "cloche ([^"]+)"\n(.*?)(?=^\.S[SH] )', text, re.M | re.S))
    common = re.search(r"^\.SH OPTIONS\n(.*?)^\.SH ", text, re.M | re.S).group(1)
    leaves = {" ".join(words): page for words, page in pages.items() if words and not commands_of(page)}
    assert set(sections) == set(leaves)
    for name, page in leaves.items():
        options = re.findall(r"^ +(?:-\w, +)?(--[a-z][a-z0-9-]*)", page.partition("\nOptions:\n")[2].partition("\nExamples:\n")[0], re.M)
        assert "--help" in options and not re.search(r"^ +--[a-z0-9-]+ *\n +--", page, re.M), f"an option of {name} is not explained"
        for option in options:
            assert re.search(rf"^\\fB.*{option}\b", sections[name] + common, re.M), f"cloche.1 does not tell {option} of {name}"
