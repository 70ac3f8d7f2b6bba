# SPDX-License-Identifier: Apache-2.0
"""`make wheel` and `make npm`: what is published of the SDKs."""

import os
import shutil
import subprocess
import sys
import tarfile
import zipfile

import pytest
from harness.daemon import ROOT
from harness.npm import run
from harness.samples import samples_of


def make(what, out, umask):
    words = [sys.executable, str(ROOT / "tools" / "sdk-packages"), what, str(out)]
    done = subprocess.run(words, cwd=out.parent, umask=umask, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return {path.name: path.read_bytes() for path in out.iterdir()}


def test_a_wheel_and_its_sources_are_the_same_bytes_whoever_makes_them(tmp_path):
    first = make("wheel", tmp_path / "a", 0o022)
    assert make("wheel", tmp_path / "b", 0o077) == first and len(first) == 2
    (wheel,) = (tmp_path / "a").glob("*.whl")
    known = set(run("git", "ls-files", "sdk/python/cloche", cwd=ROOT).replace("sdk/python/", "").split())
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        metadata = archive.read(next(n for n in names if n.endswith("/METADATA"))).decode()
    assert {n for n in names if ".dist-info/" not in n} == known and "cloche/py.typed" in known
    assert any(n.endswith("/LICENSE") for n in names) and (ROOT / "sdk/python/README.md").read_text() in metadata
    (sources,) = (tmp_path / "a").glob("*.tar.gz")
    with tarfile.open(sources) as archive:
        members = archive.getmembers()
    files = {m.name.partition("/")[2] for m in members if m.isfile() and ".egg-info/" not in m.name}
    assert files == known | {"LICENSE", "PKG-INFO", "README.md", "pyproject.toml", "setup.cfg"}
    assert {m.mode for m in members} <= {0o644, 0o755} and len({m.mtime for m in members}) == 1


def test_the_wheel_is_all_that_an_empty_environment_needs(environment, tmp_path):
    """As the README says for other machines: the file, and nothing from anywhere else."""
    assert "pip install cloche-*.whl" in (ROOT / "sdk/python/README.md").read_text()
    make("wheel", tmp_path / "out", 0o022)
    (tmp_path / "elsewhere").mkdir()
    mine = {name: value for name, value in environment.items() if name != "PYTHONPATH"}
    commands = "python3 -m venv ../venv && . ../venv/bin/activate && cp ../out/*.whl . && pip install --no-index cloche-*.whl"
    use = "from cloche import Sandbox\nwith Sandbox() as sandbox: print(sandbox.run('echo $((6*7))').stdout)"
    run("sh", "-euc", commands, cwd=tmp_path / "elsewhere", env={**mine, "PATH": f"/usr/bin:{mine['PATH']}"})
    assert run(str(tmp_path / "venv/bin/python"), "-c", use, cwd=tmp_path / "elsewhere", env=mine).strip() == "42"


@pytest.mark.skipif(not shutil.which("npm"), reason="this host has no npm")
def test_the_npm_package_is_all_that_an_empty_directory_needs(typescript_package, environment, tmp_path):
    *_, install = next(sample.code for sample in samples_of("sdk/typescript/README.md") if sample.language == "sh").splitlines()
    shutil.copy(typescript_package, tmp_path)
    run("sh", "-euc", install, cwd=tmp_path)
    (tmp_path / "try.mjs").write_text("import { Sandbox } from 'cloche'; const s = await Sandbox.create(); console.log((await s.run('echo $((6*7))')).stdout); await s.close();")
    assert run("node", "try.mjs", cwd=tmp_path, env=environment).strip() == "42"


@pytest.mark.skipif(not shutil.which("npm"), reason="this host has no npm")
def test_an_npm_package_has_what_its_exports_name(typescript_package):
    with tarfile.open(typescript_package) as archive:
        names = set(archive.getnames())
        packed = archive.extractfile("package/package.json").read().decode()
    for word in packed.split('"'):
        if word.startswith("./dist/"):
            assert "package/" + word[2:] in names, word
    modules = {path.stem for path in (ROOT / "sdk/typescript/src").glob("*.ts")}
    built = {f"package/dist/{form}/{name}{end}" for form in ("esm", "cjs") for name in modules for end in (".js", ".d.ts")}
    assert names - built <= {"package/package.json", "package/README.md", "package/LICENSE", "package/dist/cjs/package.json"}
    assert built <= names and "package/README.md" in names


@pytest.mark.skipif(not shutil.which("npm"), reason="this host has no npm")
@pytest.mark.skipif(not os.environ.get("CLOCHE_TEST_FRESH"), reason="it is run by make test-sdk-fresh")
def test_an_npm_package_is_the_same_bytes_whoever_makes_it(tmp_path):
    assert make("npm", tmp_path / "a", 0o022) == make("npm", tmp_path / "b", 0o077)
    (package,) = (tmp_path / "a").iterdir()
    with tarfile.open(package) as archive:
        assert archive.extractfile("package/LICENSE").read() == (ROOT / "LICENSE").read_bytes()


def test_both_packages_have_one_version():
    python = (ROOT / "sdk/python/pyproject.toml").read_text()
    version = run("node", "-p", "require('./package.json').version", cwd=ROOT / "sdk/typescript").strip() if shutil.which("node") else None
    assert version is None or f'version = "{version}"' in python
