# SPDX-License-Identifier: Apache-2.0
"""The same calls in both languages, and in both faces of Python, give the same: one table, run through all of them, on both engines."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import cloche
import pytest
from cloche import Client
from harness.daemon import ROOT, Daemon
from harness.npm import run
from harness.oci import busybox_layer, layout_of
from harness.running import running
from sdk.parity.table import TABLE, USE, row

HERE = Path(__file__).parent / "parity"
ENGINE = os.environ.get("CLOCHE_ENGINE", "jail")
FACES = ["sync", "async", pytest.param("node", marks=pytest.mark.skipif(not shutil.which("npm"), reason="this host has no npm"))]


# What one language has for itself: pathlib's face beside node:fs's, how Python's events are read, and what other SDKs call things.
OWN_OF_PYTHON = {"Sandbox": {"path"}, "Client": {"collect", "follow", "stream"}}
OWN_OF_TYPESCRIPT = {"Sandbox": {"fs", "sandbox_id", "get_command", "read_file", "run_command", "write_file", "write_files"}}
ATTRIBUTES = {"client", "contexts", "files", "info", "sandbox"}  # of instances, which dir() does not show


def typescript_names(kind):
    """The public names of a class, by the page that is made from the code. What it inherits is in sections with its name in front."""
    page = (ROOT / "docs" / "sdk-typescript.md").read_text()
    sections = re.findall(rf"^## {kind}(?:: [^\n]*)?\n(.*?)(?=^## |\Z)", page, re.DOTALL | re.MULTILINE)
    names = re.findall(r"^(?:- `|static |get )?(?:readonly )?(\w+)[(<:]", "\n".join(sections), re.MULTILINE)
    return {re.sub(r"([A-Z])", lambda m: "_" + m[1].lower(), name) for name in names}


@pytest.mark.parametrize("kind", ["Sandbox", "Client", "Files", "Exec", "Contexts"])
def test_a_class_has_the_same_names_in_both_languages(kind):
    python = {name for name in dir(getattr(cloche, kind)) if not name.startswith("_")} - ATTRIBUTES
    typescript = typescript_names(kind) - ATTRIBUTES
    assert python - OWN_OF_PYTHON.get(kind, set()) == typescript - OWN_OF_TYPESCRIPT.get(kind, set())


@pytest.mark.parametrize("kind", ["Sandbox", "Client", "Files", "Exec", "Contexts"])
def test_each_call_says_what_it_does(kind):
    calls = {name: value for name, value in vars(getattr(cloche, f"Async{kind}")).items() if not name.startswith("_") and callable(value)}
    assert not [name for name, value in calls.items() if not value.__doc__]


@pytest.fixture
def drive(request, environment, engine, template, tmp_path):
    """Makes the calls by one of the faces: what each gave."""

    def drive(face, table, *id, python=sys.executable):
        path = tmp_path / "table.json"
        path.write_text(json.dumps(table))
        words = [str(path), engine, template or "", *id]
        if face != "node":
            return json.loads(run(python, str(HERE / "drive.py"), face, *words, cwd=HERE, env=environment))
        project = request.getfixturevalue("typescript_project")
        shutil.copy(HERE / "drive.mjs", project)
        return json.loads(run("node", "drive.mjs", *words, cwd=project, env=environment))

    return drive


@pytest.fixture(scope="module")
def first():
    """What the first that ran gave, by the length of its table."""
    return {}


def check(table, results, first):
    """Ids differ from run to run; all else that is shown must not."""
    assert len(results) == len(table)
    for row, result, other in zip(table, results, first.setdefault(len(table), results)):
        said = f"{row['call']} {row['args']} {row['options']}: {result}"
        assert result.get("fails") == row["fails"], said
        if row["gives"] is not None:
            assert result["gives"] == row["gives"], said
        assert result == other or row["show"] == ["id"], said


@pytest.mark.parametrize("face", FACES)
def test_an_sdk_gives_what_the_table_says(drive, face, first):
    check(TABLE, drive(face, TABLE), first)


def oldest_python():
    """Of the oldest version that the package names, where this host has it."""
    found = [shutil.which("python3.9"), *map(str, Path.home().glob(".pyenv/versions/3.9.*/bin/python"))]
    return next((p for p in found if p and subprocess.run([p, "-c", ""], capture_output=True).returncode == 0), None)


@pytest.mark.parametrize("face", FACES[:2])
def test_python_3_9_gives_what_the_table_says(drive, environment, client, face):
    python = oldest_python()
    if not python:
        pytest.skip("this host has no Python 3.9")
    environment["PYTHONPATH"] = str(ROOT / "sdk" / "python")
    with client.create() as sandbox:
        check(USE, drive(face, USE, sandbox.id, python=python), {})


OF_AN_IMAGE = [
    row("sandbox.files.write", "d/a", "text", parents=True, show=["uid", "gid", "path"], gives={"uid": 1234, "gid": 4321, "path": "d/a"}),
    row("sandbox.files.mkdir", "made"),
    row("sandbox.files.stat", "made", show=["uid", "path"], gives={"uid": 1234, "path": "made"}),
    row("sandbox.files.list", ".", show=["path", "uid"], gives=[{"path": "d", "uid": 1234}, {"path": "made", "uid": 1234}]),
    row("sandbox.run", ["sh", "-c", "pwd; cat d/a"], show=["stdout"], gives={"stdout": "/work\ntext"}),
    row("sandbox.files.write", "by-root", "", user="root", show=["uid"], gives={"uid": 0}),
    row("sandbox.files.read_text", "/work/d/a", gives="text"),
]


@pytest.fixture(scope="module")
def image_daemon():
    """A daemon of its own: its template stays mounted from one face to the next."""
    with running(Daemon("--pool-max", "0")) as daemon:
        layer = busybox_layer().dir("work", uid=1234, gid=4321).add("etc/group", b"team:x:4321:\n")
        with Client(daemon.url, daemon.key) as client:
            client.import_template("image", layout_of(layer, config={"User": "app:team", "WorkingDir": "/work"}).tar())
        yield daemon


@pytest.mark.skipif(ENGINE != "jail", reason="the image is a jail's")
@pytest.mark.parametrize("face", FACES)
def test_files_of_an_image_are_its_users_and_begin_in_its_directory(image_daemon, environment, drive, face):
    environment |= {"CLOCHE_URL": image_daemon.url, "CLOCHE_API_KEY": image_daemon.key}
    with Client(image_daemon.url, image_daemon.key) as client, client.create(template="image") as sandbox:
        check(OF_AN_IMAGE, drive(face, OF_AN_IMAGE, sandbox.id), {})


if ENGINE == "vm":  # a jail does all of it in the time that a vm takes to boot

    @pytest.mark.parametrize("face", [pytest.param(FACES[0], marks=pytest.mark.vm), *FACES[1:]])
    def test_an_sdk_does_in_a_vm_that_runs_what_the_table_says(drive, sandbox, face, first):
        check(USE, drive(face, USE, sandbox.id), first)
