# SPDX-License-Identifier: Apache-2.0
"""The Python SDK as a package: its types, its spellings, and what notebooks show of it."""

import ast
import os
import shutil
import subprocess
import sys

import pytest
from cloche import CodeResult, Result, Sandbox, errors
from cloche._fields import own_words
from cloche.code import CodeError
from harness.daemon import ROOT

IS_FRESH = bool(os.environ.get("CLOCHE_TEST_FRESH"))
PACKAGE = ROOT / "sdk" / "python" / "cloche"


def test_its_types_hold_under_the_strictest_rules(tmp_path):
    rules = ["--strict", "--python-version", "3.10", "--cache-dir", str(tmp_path), "--no-site-packages", "--ignore-missing-imports", "--no-warn-unused-ignores"]
    done = subprocess.run([sys.executable, "-m", "mypy", *rules, str(PACKAGE)], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr


def test_python_3_9_can_read_it():
    for path in PACKAGE.rglob("*.py"):
        ast.parse(path.read_text(), str(path), feature_version=(3, 9))


def test_a_program_of_podflare_s_finds_its_words(daemon, client):
    sandbox = Sandbox(client=client, idle_timeout_seconds=1800, egress=False)
    try:
        assert sandbox.info.raw["idle_timeout_ms"] == 1_800_000
        sandbox.run_code("x = 20")
        result = sandbox.run_code("print(x + 22)")
        assert (result.stdout, result.stderr, result.exit_code) == ("42\n", "", 0)
        failed = sandbox.run_code("import sys; print('seen', file=sys.stderr); 1/0")
        assert (failed.exit_code, failed.printed_stderr) == (1, "seen\n")
        assert failed.stderr.startswith("seen\nTraceback") and failed.stderr.endswith("ZeroDivisionError: division by zero\n")
        assert [(e.type, e.data) for e in sandbox.run_code_stream("echo out; exit 3", language="bash")] == [("stdout", "out\n"), ("exit", 3)]
        sandbox.upload("a/path-first", b"1")
        sandbox.upload(b"2", "a/bytes-first")
        assert sandbox.download("a/path-first") + sandbox.download("a/bytes-first") == b"12"
        with Sandbox.attach(sandbox.id, client=client) as again:
            assert again.run_code("print(x)").stdout == "20\n"
        assert sandbox.refresh().ended["cause"] == "deleted"
        sandbox.close()
        with Sandbox(host=daemon.url, api_key=daemon.key, traceparent="00-" + "1" * 32 + "-" + "2" * 16 + "-01") as other:
            assert other.run_code("1").text == "1"
    finally:
        sandbox.close()


def test_a_winner_is_taken_over(client):
    with client.create() as parent:
        parent.files.write("who", "parent")
        first, second = parent.fork(2, memory=False)
        second.files.write("who", "second")
        old = parent.id
        parent.merge_into(second)
        first.close()
        second.close()
        assert parent.files.read_text("who") == "second" and parent.id != old
        assert client.get(old).info.ended["cause"] == "deleted"
        with pytest.raises(errors.Gone, match="given up"):
            second.run("true")


@pytest.mark.parametrize("given, own", [
    ({"idle_timeout_seconds": 5}, {"idle_timeout": 5, "template": None}),
    ({"idle_timeout_seconds": 5, "idle_timeout": 7}, {"idle_timeout": 7, "template": None}),
    ({"egress": True, "runtime": "node"}, {"network": "allow-all", "template": "node", "idle_timeout": None}),
    ({"egress": True, "network": "deny-all"}, {"network": "deny-all", "template": None, "idle_timeout": None}),
])
def test_cloche_s_own_word_wins(given, own):
    assert own_words(given) == own


def test_a_closed_persistent_sandbox_keeps_its_files(client):
    with client.create(persistent=True) as sandbox:
        sandbox.files.write("kept", "yes")
    try:
        assert sandbox.refresh().state == "stopped"
        sandbox.resume()
        assert sandbox.files.read_text("kept") == "yes"
    finally:
        sandbox.delete()


def test_paths_have_the_verbs_of_pathlib(sandbox):
    tree = sandbox.path("tree")
    (tree / "deep").mkdir(parents=True)
    (tree / "deep").mkdir(exist_ok=True)
    note = tree / "deep" / "note.txt"
    assert note.write_text("grün") == 4 and note.read_bytes() == "grün".encode()
    assert (note.name, note.suffix, str(note.parent)) == ("note.txt", ".txt", "tree/deep")
    assert note.is_file() and tree.is_dir() and not (tree / "no").exists() and not (tree / "no").is_file()
    moved = note.rename(tree / "moved")
    assert sorted(p.name for p in tree.iterdir()) == ["deep", "moved"] and moved.stat().size == 5
    (tree / "deep").rmdir()
    moved.unlink()
    moved.unlink(missing_ok=True)
    with pytest.raises(errors.FileMissing):
        moved.read_text()
    with pytest.raises(errors.FileExists):
        tree.mkdir()
    tree.remove()
    assert not tree.exists()


def test_code_that_fails_raises_when_that_is_asked_for(sandbox):
    assert sandbox.run_code("1").check().text == "1"
    with pytest.raises(errors.CodeFailed, match="ZeroDivisionError") as e:
        sandbox.run_code("1/0").check()
    assert e.value.result.error.name == "ZeroDivisionError"


def test_a_notebook_shows_what_there_is_and_runs_none_of_it():
    png = Result({"image/png": "iVBO\nRw0=", "text/plain": "<Figure>"}, {}, True)
    assert png._repr_html_() == '<img src="data:image/png;base64,iVBORw0=">'
    assert png._repr_mimebundle_()[0]["image/png"] == "iVBO\nRw0="
    evil = Result({"text/html": "<script>alert(1)</script>", "application/javascript": "alert(2)", "text/plain": "<b>"}, {}, True)
    bundle, _ = evil._repr_mimebundle_()
    assert "<script>" not in bundle["text/html"] and 'sandbox=""' in bundle["text/html"] and "application/javascript" not in bundle
    whole = CodeResult(stdout_bytes=b"<i>\n", results=[png], error=CodeError("E", "m", ["Traceback <x>"]))._repr_html_()
    assert "&lt;i&gt;" in whole and "<img" in whole and "Traceback &lt;x&gt;" in whole


@pytest.fixture(scope="session")
def installed(tmp_path_factory):
    """A directory with the package as pip installs it, and nothing else."""
    copy, target = tmp_path_factory.mktemp("python"), tmp_path_factory.mktemp("installed")
    shutil.copytree(PACKAGE.parent, copy, dirs_exist_ok=True, ignore=shutil.ignore_patterns("build", "*.egg-info", "__pycache__"))
    words = ["install", "--quiet", "--no-index", "--no-build-isolation", "--no-deps", "--no-compile", "--target", target, copy]
    subprocess.run([sys.executable, "-m", "pip", *words], check=True, capture_output=True, timeout=120)
    return target


def snippets():
    return [part.partition("```")[0] for part in (PACKAGE.parent / "README.md").read_text().split("```python\n")[1:]]


@pytest.mark.parametrize("number", range(len(snippets())))
def test_what_the_readme_shows_runs(request, environment, number):
    """By an interpreter that sees the standard library and the package alone."""
    if IS_FRESH:
        words, code = [request.getfixturevalue("python"), "-I"], snippets()[number]
    else:
        words, code = [sys.executable, "-I", "-S"], f"import sys; sys.path.insert(0, {str(request.getfixturevalue('installed'))!r})\n" + snippets()[number]
    done = subprocess.run([*words, "-c", code], env=environment, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and done.stdout.strip(), done.stdout + done.stderr
