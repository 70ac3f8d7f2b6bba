# SPDX-License-Identifier: Apache-2.0
"""What the documents show, works: blocks marked `sh run` and `python run` are run as they stand, against a
daemon named by CLOCHE_URL. `# prints X` behind a line says what the block's output must contain. Those marked `up` are run by
`make test-first-hour`, where there is what they need. Every other block is held to what it can be held to: shell and Python for the operator's own machine, or for hosts that are not here, name commands,
options, methods and fields that exist; settings are ones that the daemon takes; TOML and JSON are well formed; programs in the
words of other vendors' clients are run by the suite that has these. What is none of this fails."""

import ast
import configparser
import inspect
import io
import itertools
import json
import os
import re
import subprocess
import sys
import tomllib

import cloche
import pytest
import yaml
from cloche._fields import SandboxFields
from harness import audit
from harness.daemon import BUILD, ROOT, Daemon
from harness.oci import busybox_layer
from harness.running import running
from harness.samples import DOCS, MADE, NOT_TYPED, TYPED, pages, samples_of, typed_samples, why_not_typed

pytestmark = pytest.mark.slow
FENCE = re.compile(r"^\s*(```|~~~)", re.M)
# What is run where it has what it is about.
ELSEWHERE = {
    "docs/guides/secrets.md": "tests/sdk/test_typescript.py",
    "docs/mcp.md": "tests/sdk/test_mcp_client.py",
    "docs/migrate-from-e2b.md": "tests/compat/test_e2b.py",
    "docs/migrate-from-vercel.md": "tests/compat/test_vercel.py",
}
DOCUMENTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(DOCS.rglob("*.md"))]


def name_of(path):
    return path.relative_to(ROOT).as_posix()


def is_run_here(sample):
    """Those of TypeScript are run with what they are about, tests/compat."""
    return sample.mark == "run" and sample.language in ("sh", "python")


def samples_to_run(page):
    return [sample for sample in samples_of(page) if is_run_here(sample)]


def run_sample(daemon, directory, sample):
    """What is wrong with it, or None."""
    argv = ["bash", "-euo", "pipefail", "-c", sample.code] if sample.language == "sh" else [sys.executable, "-c", sample.code]
    env = {
        **os.environ,
        "CLOCHE_URL": daemon.url,
        "CLOCHE_API_KEY": daemon.key,
        "PATH": f"{BUILD}:{os.environ['PATH']}",
    }
    directory.mkdir()
    r = subprocess.run(argv, env=env, cwd=directory, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120)
    missing = sample.broken_promises(r.stdout)
    if r.returncode or missing:
        return f"{sample.place}: status {r.returncode}, not printed: {missing}\n{r.stdout}\n{r.stderr}"
    return None


def documents_that_run():
    return [name_of(path) for path in DOCUMENTS if samples_to_run(name_of(path))]


@pytest.mark.parametrize("document", documents_that_run())
def test_each_block_of_a_document_does_what_it_says(daemon, tmp_path, document):
    wrong = [run_sample(daemon, tmp_path / str(i), sample) for i, sample in enumerate(samples_to_run(document))]
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


def test_the_operators_guide_moves_a_sandbox_to_another_machine(tmp_path):
    """Its block as it stands, but for the addresses: with two daemons in the place of two machines."""
    text = (DOCS / "guides" / "operate.md").read_text()
    block = re.search(r"^## Two machines\n.*?^```sh\n(.*?)^```$", text, re.M | re.S).group(1)
    with running(Daemon("--pool-max", "0")) as one, running(Daemon("--pool-max", "0")) as two:
        for name, daemon in (("one", one), ("two", two)):
            block = block.replace(f"https://{name}.example.com:7070", daemon.url)
            (tmp_path / f"{name}.key").write_text(daemon.key + "\n")
        with cloche.Client(one.url, one.key) as client, cloche.Client(two.url, two.key) as other:
            client.import_template("python", io.BytesIO(busybox_layer().bytes()))
            desk = client.create(name="desk", persistent=True, template="python")
            desk.files.write("plan.txt", b"draft")
            env = {**os.environ, "PATH": f"{BUILD}:{os.environ['PATH']}"}
            r = subprocess.run(["bash", "-euo", "pipefail", "-c", block], cwd=tmp_path, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300)
            assert r.returncode == 0, r.stdout + r.stderr
            assert other.get("desk").files.read("plan.txt") == b"draft"
            for one_of_them in (client, other):
                one_of_them.get("desk").delete()
                one_of_them.delete_snapshot("moving")
                one_of_them.delete_template("python")


def help_of(words):
    return subprocess.run([BUILD / "cloche", *words, "--help"], capture_output=True, text=True).stdout


def check_shell(place, code):
    """What is for the operator's own machine is not run here; but it is shell, and its commands exist."""
    assert subprocess.run(["bash", "-n", "-c", code]).returncode == 0, place
    for target in re.findall(r"^(?:sudo )?make ([a-z0-9-]+)", code, re.M):
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
    "yaml": lambda place, code: yaml.safe_load(code),
    "text": lambda place, code: None,  # drawings, and what a command prints
}


@pytest.mark.parametrize("document", [path.relative_to(ROOT).as_posix() for path in DOCUMENTS])
def test_every_other_block_is_what_it_claims_to_be(document):
    path = ROOT / document
    samples = list(samples_of(document))
    assert len(FENCE.findall(path.read_text())) == 2 * len(samples), f"{document}: a block has no language, or is indented"
    for sample in samples:
        if is_run_here(sample) or MADE.get(document) == sample.language:
            continue
        if sample.language == "js" or (document in ELSEWHERE and sample.language == "python"):
            assert path.name in (ROOT / ELSEWHERE[document]).read_text(), sample.place
            continue
        assert sample.language in CHECKS, f"{sample.place}: a block of {sample.language} must be run"
        CHECKS[sample.language](sample.place, sample.code)


@pytest.mark.parametrize("page", pages())
def test_every_sample_is_typed_in_the_first_hour_or_it_is_said_why_not(page):
    typed = {sample.place for sample in typed_samples(page)}
    for sample in samples_of(page):
        if sample.language in TYPED and sample.place not in typed and MADE.get(page) != sample.language:
            assert why_not_typed(page, sample), f"{sample.place}: mark it `up`, or say in harness/samples.py why nobody can type it"
    for words, _ in NOT_TYPED.get(page, []):
        assert any(words in sample.code for sample in samples_of(page)), f"{page} has no {words!r} any more"


@pytest.mark.parametrize("document", [path.relative_to(ROOT).as_posix() for path in DOCUMENTS if path.name != "CHANGELOG.md"])
def test_every_file_of_the_source_that_a_document_names_is_there(document):
    for path in re.findall(r"(?<![\w/.-])src/[\w./-]*\w", (ROOT / document).read_text()):
        assert (ROOT / path).exists() or (ROOT / f"{path}.c").exists() or (ROOT / f"{path}.h").exists(), f"{document} names {path}"


def test_every_file_that_the_tour_of_the_source_names_is_there():
    text = (ROOT / "ARCHITECTURE.md").read_text()
    there = {path.name for path in (ROOT / "src").rglob("*.[ch]")}
    paths = re.findall(r"(?<![\w/.-])(?:src|tests|tools|guest|kernels|api|docs)/[\w./-]*\w", text)
    names = re.findall(r"(?<![\w/.*])\w+\.[ch]\b", text)
    assert len(paths) > 50 and len(names) > 10
    assert [path for path in paths if not (ROOT / path).exists()] == []
    assert [name for name in names if name not in there] == []


@pytest.mark.parametrize("words_max, pages", [(2500, ["ARCHITECTURE.md"]), (1500, sorted(path.relative_to(ROOT).as_posix() for path in (DOCS / "design").glob("*.md")))])
def test_no_page_about_the_source_is_too_long_to_be_read_at_once(words_max, pages):
    assert {page: n for page in pages if (n := len((ROOT / page).read_text().split())) > words_max} == {}


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
