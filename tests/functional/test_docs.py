# SPDX-License-Identifier: Apache-2.0
"""What the documents show, works: blocks marked `sh run` and `python run` are run as they stand, against a
daemon named by CLOCHE_URL. `# prints X` behind a line says what the block's output must contain. Every other block
is held to what it can be held to: shell and Python for the operator's own machine, or for hosts that are not here, name commands,
options, methods and fields that exist; settings are ones that the daemon takes; TOML and JSON are well formed; programs in the
words of other vendors' clients are run by the suite that has these. What is none of this fails."""

import ast
import configparser
import inspect
import itertools
import json
import os
import re
import subprocess
import sys
import tomllib

import cloche
import pytest
from cloche._fields import SandboxFields
from harness import audit
from harness.daemon import BUILD, ROOT, Daemon

pytestmark = pytest.mark.slow
DOCS = ROOT / "docs"
BLOCK = re.compile(r"^```([a-z]+)( run)?\n(.*?)^```$", re.M | re.S)
FENCE = re.compile(r"^\s*(```|~~~)", re.M)
PROMISE = re.compile(r"# prints (.+)$", re.M)
# What is run where it has what it is about, and pages that are made from the sources they tell of (`make lint` compares them).
ELSEWHERE = {
    "docs/guides/secrets.md": "tests/sdk/test_typescript.py",
    "docs/mcp.md": "tests/sdk/test_mcp_client.py",
    "docs/migrate-from-e2b.md": "tests/compat/test_e2b.py",
    "docs/migrate-from-vercel.md": "tests/compat/test_vercel.py",
}
MADE = {"docs/sdk-python.md": "python", "docs/sdk-typescript.md": "ts"}
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


def test_the_operators_guide_backs_up_and_restores(tmp_path):
    """Its two blocks, line by line: on a data directory of our own, with this test in the place of systemd."""
    text = (DOCS / "guides" / "operate.md").read_text()
    back_up, restore = (re.search(rf"^## {title}\n```sh\n(.*?)^```$", text, re.M | re.S).group(1) for title in ("Back up", "Restore"))
    daemon = Daemon("--pool-max", "0", rm=False)
    places = {"/mnt/backup": tmp_path, "/var/lib/cloche": daemon.data}
    own = ["--data", str(daemon.data), "--run", str(daemon.run)]
    service = {"systemctl stop cloche": lambda: daemon.stop(), "systemctl start cloche": lambda: daemon.start()}

    def follow(block):
        for line in block.splitlines():
            words = re.sub("|".join(places), lambda found: str(places[found.group()]), line).partition("#")[0].removeprefix("sudo ").split()
            if " ".join(words) in service:
                service[" ".join(words)]()
                continue
            words += own if words[1] in ("serve", "restore") else []
            r = subprocess.run(words, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300)
            assert r.returncode == 0, f"{line}\n{r.stdout}\n{r.stderr}"

    env = {**os.environ, "PATH": f"{BUILD}:{os.environ['PATH']}", "CLOCHE_URL": f"unix:{daemon.socket}"}
    daemon.start()
    try:
        with cloche.Client(daemon.url, daemon.key) as client:
            kept = client.create(name="kept", persistent=True)
            kept.files.write("mark", b"1")
            follow(back_up)
            kept.files.write("mark", b"2")
        assert (tmp_path / "cloche-today.tar").is_file()
        follow(restore)
        with cloche.Client(daemon.url, daemon.key) as client:
            assert client.get("kept").info.state == "stopped"
            client.get("kept").resume()
            assert client.get("kept").files.read("mark") == b"1"
            client.get("kept").delete()
    finally:
        ids, status = daemon.ids(), daemon.stop()
        found = audit.left_after_stop(daemon, ids)
        daemon.remove()
    assert (status, found) == (0, [])


def help_of(words):
    return subprocess.run([BUILD / "cloche", *words, "--help"], capture_output=True, text=True).stdout


def check_shell(place, code):
    """What is for the operator's own machine is not run here; but it is shell, and its commands exist."""
    assert subprocess.run(["bash", "-n", "-c", code]).returncode == 0, place
    for target in re.findall(r"^(?:sudo )?make ([a-z-]+)", code, re.M):
        assert re.search(rf"^{target}:", (ROOT / "Makefile").read_text(), re.M), f"{place}: there is no make {target}"
    for line in re.findall(r"(?<!add )(?<!http )\bcloche ([a-z][^|;&\n]*)", re.sub(r"(^|\s)#.*", "", code)):
        words = line.split()
        said = help_of(words[:1])
        assert said.startswith("Usage: cloche"), f"{place}: there is no command {words[0]!r}"
        own = itertools.takewhile(lambda w: w.startswith("-"), words[1:]) if words[0] == "exec" else words[1:]  # behind it: the command's
        for option in [w.partition("=")[0] for w in own if w.startswith("--") and w != "--"]:
            assert option in said or option in help_of(words[:2]), f"{place}: cloche {words[0]} has no {option}"


def takes(function, call):
    """Whether a function of the SDK has all the names that a call gives."""
    names = {k.arg for k in call.keywords if k.arg}
    parameters = inspect.signature(function).parameters
    fields = set(SandboxFields.__annotations__) if any(p.kind is p.VAR_KEYWORD for p in parameters.values()) else set()
    return names <= set(parameters) | fields


def check_python(place, code):
    """Needs what a test does not have, such as a repository elsewhere: it parses, and the SDK has what it calls."""
    tree = compile(code, place, "exec", ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    for call in (n for n in ast.walk(tree) if isinstance(n, ast.Call) and isinstance(n.func, ast.Attribute)):
        of = [getattr(c, call.func.attr) for c in (cloche.Client, cloche.Sandbox) if hasattr(c, call.func.attr)]
        owner = call.func.value.id if isinstance(call.func.value, ast.Name) else ""
        if owner in ("client", "sandbox", "Sandbox"):
            assert any(takes(f, call) for f in of), f"{place}: {ast.unparse(call)}"


def check_toml(place, code):
    """Of settings (neither a recipe nor cases of an eval) the daemon says whether it takes them."""
    told = tomllib.loads(code)
    if "name" in told or "case" in told:
        return
    r = subprocess.run([BUILD / "cloche", "serve", "--print-config", "--config", "/dev/stdin"], input=code, capture_output=True, text=True)
    assert r.returncode == 0, f"{place}: {r.stderr}"


def check_unit(place, code):
    """A unit of systemd's: it parses, and cloche has what it calls."""
    unit = configparser.ConfigParser(interpolation=None)
    unit.optionxform = str
    unit.read_string(code)
    for section in unit.sections():
        for name, command in unit[section].items():
            if name.startswith("Exec"):
                check_shell(place, command.removeprefix("/usr/bin/"))


CHECKS = {
    "ini": check_unit,
    "sh": check_shell,
    "python": check_python,
    "toml": check_toml,
    "json": lambda place, code: json.loads(code),
    "text": lambda place, code: None,  # drawings, and what a command prints
}


@pytest.mark.parametrize("document", [path.relative_to(ROOT).as_posix() for path in DOCUMENTS])
def test_every_other_block_is_what_it_claims_to_be(document):
    path = ROOT / document
    blocks = list(blocks_of(path))
    assert len(FENCE.findall(path.read_text())) == 2 * len(blocks), f"{document}: a block has no language, or is indented"
    for place, language, is_run, code in blocks:
        if (is_run and language in ("sh", "python")) or MADE.get(document) == language:
            continue
        if language == "js" or (document in ELSEWHERE and language == "python"):
            assert path.name in (ROOT / ELSEWHERE[document]).read_text(), place
            continue
        assert language in CHECKS, f"{place}: a block of {language} must be run"
        CHECKS[language](place, code)


@pytest.mark.parametrize("document", [path.relative_to(ROOT).as_posix() for path in DOCUMENTS if path.name != "CHANGELOG.md"])
def test_every_file_of_the_source_that_a_document_names_is_there(document):
    for path in re.findall(r"(?<![\w/.-])src/[\w./-]*\w", (ROOT / document).read_text()):
        assert (ROOT / path).exists() or (ROOT / f"{path}.c").exists() or (ROOT / f"{path}.h").exists(), f"{document} names {path}"


def test_the_table_of_contents_has_every_document():
    text = (DOCS / "README.md").read_text()
    for path in sorted(DOCS.rglob("*.md")):
        name = path.relative_to(DOCS).as_posix()
        assert name == "README.md" or f"]({name})" in text, f"docs/README.md does not lead to {name}"


@pytest.mark.parametrize("source, pattern", [("src/base/err.c", r'\[ERR_\w+\] += \{"(\w+)", (\d+)'), ("src/sandbox/model/names.c", r'\[END_\w+\] = "(\w+)()"')])
def test_the_page_of_troubles_has_every_word_that_a_program_may_meet(source, pattern):
    words = [w for w in re.findall(pattern, (ROOT / source).read_text()) if w[0] != "none"]
    text = (DOCS / "troubleshooting.md").read_text()
    assert len(words) > 5
    for word, status in words:
        assert re.search(rf"^\| `{word}` \| {status}", text, re.M), f"{word} {status} is not in docs/troubleshooting.md"
