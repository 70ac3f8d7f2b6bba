# SPDX-License-Identifier: Apache-2.0
"""The TypeScript SDK in a project of its own."""

import shutil
import tarfile
from pathlib import Path

import pytest
from cloche._context import pack_context
from harness.npm import run
from harness.samples import samples_of

TYPESCRIPT = Path(__file__).parents[2] / "sdk" / "typescript"

pytestmark = pytest.mark.skipif(not shutil.which("npm"), reason="this host has no npm")


@pytest.fixture(scope="module")
def project(typescript_project):
    shutil.copytree(TYPESCRIPT / "test", typescript_project / "test")
    return typescript_project


def test_the_package_does_in_a_project_what_it_promises(project, environment):
    tests = sorted(str(p.relative_to(project)) for p in (project / "test").glob("*.test.mjs"))
    run("node", "--test", *tests, cwd=project, env=environment)


def test_the_package_needs_no_other_package(project):
    assert sorted(p.name for p in (project / "node_modules").iterdir() if not p.name.startswith(".")) == ["cloche"]


def snippets():
    return [sample.code for page in ("sdk/typescript/README.md", "docs/guides/secrets.md") for sample in samples_of(page) if sample.language == "js"]


@pytest.mark.parametrize("number", range(len(snippets())))
def test_what_the_documents_show_runs(project, environment, number):
    (project / "snippet.mjs").write_text(snippets()[number])
    assert run("node", "snippet.mjs", cwd=project, env=environment).strip()


def members(archive):
    with tarfile.open(fileobj=archive) as tar:
        return {m.name: (m.type, m.mode, m.size, m.linkname, m.mtime // 1, tar.extractfile(m).read() if m.isreg() else b"") for m in tar.getmembers()}


def test_a_build_context_is_packed_as_pythons(project, environment, tmp_path):
    """Names that are long or odd, links, modes, and what a .dockerignore leaves out and takes back."""
    here = tmp_path / "context"
    for path in ("Dockerfile", "src/a.py", "src/b.pyc", "src/keep.pyc", "node_modules/x/y.js", "logs/deep/er/1.log", "logs/deep/2.txt", "[odd] näme+", "d" * 90 + "/" + "f" * 90, "a.b", "axb", ".git/HEAD", "empty/.x"):
        (here / path).parent.mkdir(parents=True, exist_ok=True)
        (here / path).write_text(path * 37)
    (here / "run.sh").write_text("#!/bin/sh\n")
    (here / "run.sh").chmod(0o755)
    (here / "link").symlink_to("src/a.py")
    (here / "far").symlink_to("/" + "x" * 150)
    (here / "large").write_bytes(bytes(range(256)) * 3000)
    (here / ".dockerignore").write_text("# what stays here\n.git\n**/*.pyc\n!src/keep.pyc\n/node_modules/\nlogs/**/*.log\na.b\n\n  empty/*  \n[!a-z]ile\n")
    (project / "pack.mjs").write_text(
        'import { packContext } from "./node_modules/cloche/dist/esm/build-context.js";\nimport { writeFileSync } from "node:fs";\n'
        "const pieces = [];\nfor await (const piece of packContext(process.argv[2])) pieces.push(piece);\nwriteFileSync(process.argv[3], Buffer.concat(pieces));\n")
    run("node", "pack.mjs", str(here), str(tmp_path / "ts.tar"), cwd=project, env=environment)
    with (tmp_path / "ts.tar").open("rb") as theirs, pack_context(str(here)) as ours:
        theirs, ours = members(theirs), members(ours)
    assert theirs == ours and "src/keep.pyc" in ours and not {"src/b.pyc", "a.b", ".git/HEAD", "node_modules/x/y.js"} & set(ours)


def test_a_directory_is_built_and_a_missing_one_is_an_error(project, environment, tmp_path):
    (tmp_path / "Dockerfile").write_text("FROM scratch\nCOPY . /made\n")
    (tmp_path / "file").write_text("12345")
    (project / "build.mjs").write_text(
        'import { Client } from "cloche";\nconst client = new Client();\nconst name = "ts-context";\n'
        "const build = await client.buildTemplate({ name, context: process.argv[2] });\n"
        "console.log(build.state, (await client.template(name)).name);\nawait client.deleteTemplate(name);\n"
        'try { await client.buildTemplate({ name, context: process.argv[2] + "/none" }); } catch (error) { console.log(error.code); }\n')
    assert run("node", "build.mjs", str(tmp_path), cwd=project, env=environment).split() == ["ready", "ts-context", "ENOENT"]
