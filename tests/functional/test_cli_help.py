# SPDX-License-Identifier: Apache-2.0
"""--help at every level, colours, and what is shown while something takes long."""

import re
import subprocess

from harness.cli import CLOCHE, Terminal


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


def test_every_command_explains_itself_with_examples():
    pages = dict(walk())
    assert len(pages) > 60 and ("eval",) in pages and ("template", "import") in pages
    for words, text in pages.items():
        name = " ".join(("cloche", *words))
        assert text.startswith(f"Usage: {name} "), name
        examples = text.partition("\nExamples:\n")[2]
        assert name in examples or not words, f"{name} --help shows no example of itself"
        assert max(map(len, text.splitlines())) <= 180, f"{name} --help has a line that is too long"


def test_examples_name_options_that_there_are():
    pages = dict(walk())
    for words, text in pages.items():
        for line in text.partition("\nExamples:\n")[2].splitlines():
            for used in re.findall(r"\bcloche ((?:[a-z-]+ )(?:[^|&;']*))", line):
                command = used.split()[0]
                if (command,) not in pages:
                    continue
                known = pages[(command,)] + "".join(pages[w] for w in pages if w[:1] == (command,))
                for option in re.findall(r"(?<=\s)(--[a-z][a-z-]*)", used.partition(" -- ")[0]):
                    assert option in known, f"{' '.join(words)}: {line.strip()} has {option}"


def test_help_has_no_colours_and_a_wrong_word_says_what_to_do():
    assert "\x1b" not in "".join(text for _, text in walk())
    r = subprocess.run([CLOCHE, "teleport"], capture_output=True, text=True)
    assert r.returncode == 125 and "there is no command 'teleport'" in r.stderr and "cloche --help" in r.stderr


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
