# SPDX-License-Identifier: Apache-2.0
"""What our programs hold of others is named with its notice: in the daemon's /licences and in the list that packages are told of."""

import json
import os
import re
import shlex
import subprocess
import urllib.request

import pytest
from harness.daemon import BUILD, ROOT


@pytest.fixture(scope="module")
def served(daemon):
    with urllib.request.urlopen(f"{daemon.url}/licences") as reply:
        assert reply.headers["Content-Type"] == "text/plain; charset=utf-8"
        return reply.read().decode()


def bundled_packages():
    """The npm packages that esbuild took a file of."""
    inputs = json.loads((BUILD / "web" / "meta.json").read_text())["inputs"]
    found = {re.match(r".*node_modules/((?:@[^/]+/)?[^/]+)/", name) for name in inputs}
    return sorted(match.group(1) for match in found if match)


def linked_archives(program):
    """The paths of archives that the linker opens for it, by its own words."""
    command = subprocess.run(["ninja", "-C", BUILD, "-t", "commands", program], capture_output=True, text=True, check=True).stdout.splitlines()[-1]
    words = shlex.split(command)
    words[words.index("-o") + 1] = "/dev/null"
    done = subprocess.run([*words, "-Wl,--trace"], cwd=BUILD, capture_output=True, text=True, check=True)
    return {os.path.realpath(BUILD / path) for path in re.findall(r"^\(?(/\S+?\.a|\S+?\.a)(?:\)|$)", done.stdout, re.M)}


def test_each_package_in_the_dashboard_has_its_notice(served):
    packages = bundled_packages()
    assert {"uplot", "@xterm/xterm"} <= set(packages)
    for name in [*packages, "esbuild"]:
        root = BUILD / "web" / "node_modules" / name
        version = json.loads((root / "package.json").read_text())["version"]
        (text,) = (p for p in root.iterdir() if p.name.startswith("LICENSE"))
        assert f"\n{name} {version} (MIT)\n" in served and text.read_text().strip() in served, name


@pytest.mark.slow
def test_each_library_in_a_static_program_has_its_notice(served):
    archives = linked_archives("src/agent/cloche-agent") | linked_archives("src/vmm/cloche-vmm")
    foreign = [path for path in archives if not path.startswith(f"{BUILD}/")]
    assert any(path.endswith("/libc.a") for path in foreign)
    named = {part.get("package") for part in json.loads((BUILD / "src/pages/notices.json").read_text())}
    owners = subprocess.run(["dpkg-query", "--search", *foreign], capture_output=True, text=True, check=True).stdout.splitlines()
    for package, path in ((line.split(":")[0], line.split(": ")[1]) for line in owners):
        assert package in named, f"{path} is in a static program; tools/build-notices does not know it"
        with open(f"/usr/share/doc/{package}/copyright") as notice:
            assert notice.read().strip() in served, package


@pytest.mark.slow
def test_the_list_of_parts_names_all_of_them(tmp_path):
    out = tmp_path / "cloche.spdx.json"
    subprocess.run([ROOT / "packaging/sbom", BUILD / "cloche", BUILD / "src/pages/notices.json", out], cwd=ROOT, check=True)
    document = json.loads(out.read_text())
    packages = {p["SPDXID"]: p for p in document["packages"]}
    assert len(packages) == len(document["packages"])
    kinds = {}
    for r in document["relationships"]:
        kinds.setdefault(r["relationshipType"], set()).add(packages[r["relatedSpdxElement"]]["name"])
    assert {"libssl3", "libjansson4", "libc6"} <= kinds["DYNAMIC_LINK"]
    assert {"libc6-dev", "zlib1g-dev", "libssl-dev"} <= kinds["STATIC_LINK"]
    assert set(bundled_packages()) <= kinds["CONTAINS"]
    assert all(packages[f"SPDXRef-{n}"]["licenseConcluded"] == "MIT" for n in ("uplot", "-xterm-xterm"))
