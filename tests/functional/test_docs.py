# SPDX-License-Identifier: Apache-2.0
"""What the documents show, works: blocks marked `sh run` and `python run` are run as they stand, against a
daemon named by CLOCHE_URL. `# prints X` behind a line says what the block's output must contain. In guides every
block is run, or held to what it can be held to: shell for operators parses and names options that exist, TOML and
JSON are well formed."""

import json
import os
import re
import subprocess
import sys
import tomllib

import pytest
from harness.daemon import BUILD, ROOT

pytestmark = pytest.mark.slow
DOCS = ROOT / "docs"
BLOCK = re.compile(r"^```([a-z]+)( run)?\n(.*?)^```$", re.M | re.S)
PROMISE = re.compile(r"# prints (.+)$", re.M)
GUIDES = [DOCS / "quick-start.md", DOCS / "concepts.md", DOCS / "threat-model.md", *sorted((DOCS / "guides").glob("*.md"))]
DOCUMENTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(DOCS.rglob("*.md"))]


def blocks_of(path):
    text = path.read_text()
    for block in BLOCK.finditer(text):
        place = f"{path.relative_to(ROOT).as_posix()}:{text[: block.start()].count(chr(10)) + 1}"
        yield place, block.group(1), bool(block.group(2)), block.group(3)


def blocks_to_run(path):
    """Those of TypeScript are run with what they are about, tests/compat."""
    return [(place, language, code) for place, language, is_run, code in blocks_of(path) if is_run and language in ("sh", "python")]


def run_block(daemon, directory, place, language, code):
    """What is wrong with it, or None."""
    argv = ["bash", "-euo", "pipefail", "-c", code] if language == "sh" else [sys.executable, "-c", code]
    env = {
        **os.environ,
        "CLOCHE_URL": daemon.url,
        "CLOCHE_API_KEY": daemon.key,
        "PATH": f"{BUILD}:{os.environ['PATH']}",
    }
    directory.mkdir()
    r = subprocess.run(argv, env=env, cwd=directory, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120)
    missing = [promise for promise in PROMISE.findall(code) if promise.strip() not in r.stdout]
    if r.returncode or missing:
        return f"{place}: status {r.returncode}, not printed: {missing}\n{r.stdout}\n{r.stderr}"
    return None


def documents_that_run():
    return [path.relative_to(ROOT).as_posix() for path in DOCUMENTS if any(blocks_to_run(path))]


@pytest.mark.parametrize("document", documents_that_run())
def test_each_block_of_a_document_does_what_it_says(daemon, tmp_path, document):
    wrong = [run_block(daemon, tmp_path / str(i), *block) for i, block in enumerate(blocks_to_run(ROOT / document))]
    assert not any(wrong), "\n".join(filter(None, wrong))


def help_of(words):
    return subprocess.run([BUILD / "cloche", *words, "--help"], capture_output=True, text=True).stdout


def check_shell(place, code):
    """What is for the operator's own machine is not run here; but it is shell, and its commands exist."""
    assert subprocess.run(["bash", "-n", "-c", code]).returncode == 0, place
    for line in re.findall(r"\bcloche ([a-z][^|;&#\n]*)", code):
        words = line.split()
        said = help_of(words[:1])
        assert said.startswith("Usage: cloche"), f"{place}: there is no command {words[0]!r}"
        for option in [w.partition("=")[0] for w in words[1:] if w.startswith("--") and w != "--"]:
            assert option in said or option in help_of(words[:2]), f"{place}: cloche {words[0]} has no {option}"


CHECKS = {
    "sh": check_shell,
    "toml": lambda place, code: tomllib.loads(code),
    "json": lambda place, code: json.loads(code),
    "text": lambda place, code: None,
}


def test_every_other_block_of_a_guide_is_what_it_claims_to_be():
    for path in GUIDES:
        for place, language, is_run, code in blocks_of(path):
            if not is_run:
                assert language in CHECKS, f"{place}: a block of {language} must be run"
                CHECKS[language](place, code)


def test_the_table_of_contents_has_every_document():
    text = (DOCS / "README.md").read_text()
    for path in sorted(DOCS.rglob("*.md")):
        name = path.relative_to(DOCS).as_posix()
        assert name == "README.md" or f"]({name})" in text, f"docs/README.md does not lead to {name}"


@pytest.mark.parametrize("source, pattern", [("src/base/err.c", r'\[ERR_\w+\] += \{"(\w+)", (\d+)'), ("src/sandbox/record.c", r'\[END_\w+\] = "(\w+)()"')])
def test_the_page_of_troubles_has_every_word_that_a_program_may_meet(source, pattern):
    words = [w for w in re.findall(pattern, (ROOT / source).read_text()) if w[0] != "none"]
    text = (DOCS / "troubleshooting.md").read_text()
    assert len(words) > 5
    for word, status in words:
        assert re.search(rf"^\| `{word}` \| {status}", text, re.M), f"{word} {status} is not in docs/troubleshooting.md"
