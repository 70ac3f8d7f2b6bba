# SPDX-License-Identifier: Apache-2.0
"""What the documents show, works: blocks marked `sh run` and `python run` are run as they stand, against a
daemon named by CLOCHE_URL. `# prints X` behind a line says what the block's output must contain."""

import os
import re
import subprocess
import sys

import pytest
from harness.daemon import BUILD, ROOT

pytestmark = pytest.mark.slow
BLOCK = re.compile(r"^```(sh|python) run\n(.*?)^```$", re.M | re.S)
PROMISE = re.compile(r"# prints (.+)$", re.M)
DOCUMENTS = ["README.md", "CONTRIBUTING.md", *sorted(p.relative_to(ROOT).as_posix() for p in (ROOT / "docs").rglob("*.md"))]


def blocks():
    found = []
    for name in DOCUMENTS:
        text = (ROOT / name).read_text()
        for block in BLOCK.finditer(text):
            line = text[: block.start()].count("\n") + 1
            found.append(pytest.param(block.group(1), block.group(2), id=f"{name}:{line}"))
    return found


@pytest.mark.parametrize("language, code", blocks())
def test_a_documented_block_does_what_it_says(daemon, tmp_path, language, code):
    argv = ["bash", "-euo", "pipefail", "-c", code] if language == "sh" else [sys.executable, "-c", code]
    env = {
        **os.environ,
        "CLOCHE_URL": daemon.url,
        "CLOCHE_API_KEY": daemon.key,
        "PATH": f"{BUILD}:{os.environ['PATH']}",
    }
    r = subprocess.run(argv, env=env, cwd=tmp_path, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120)
    assert r.returncode == 0, f"status {r.returncode}\n{r.stdout}\n{r.stderr}"
    for promise in PROMISE.findall(code):
        assert promise.strip() in r.stdout, f"no {promise!r} in:\n{r.stdout}"


@pytest.mark.parametrize("source, pattern", [("src/base/err.c", r'\[ERR_\w+\] += \{"(\w+)", (\d+)'), ("src/sandbox/record.c", r'\[END_\w+\] = "(\w+)()"')])
def test_the_page_of_troubles_has_every_word_that_a_program_may_meet(source, pattern):
    words = [w for w in re.findall(pattern, (ROOT / source).read_text()) if w[0] != "none"]
    text = (ROOT / "docs" / "troubleshooting.md").read_text()
    assert len(words) > 5
    for word, status in words:
        assert re.search(rf"^\| `{word}` \| {status}", text, re.M), f"{word} {status} is not in docs/troubleshooting.md"
