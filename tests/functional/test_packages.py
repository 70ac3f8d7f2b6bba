# SPDX-License-Identifier: Apache-2.0
"""pip and npm inside: they install from a registry that the sandbox's policy allows, and from a private one with
credentials that are added outside."""

import io
import shutil
import zipfile

import pytest
from harness.npm_registry import publish
from harness.sources import BASE, ENCODED, TLS_BASE

pytestmark = [pytest.mark.slow, pytest.mark.jail("the suite's template for vms has neither pip nor npm")]


NAME = "cloche-demo"
PIP = ["python3", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-cache-dir", "--retries=0", "--trusted-host=allowed.test"]
NPM = ["npm", "install", "--silent", "--no-audit", "--no-fund", "--no-update-notifier", "--fetch-retries=0"]
PUBLIC = {"allow": ["allowed.test"]}
INJECTED = {
    "rules": [
        {
            "match": {"domains": ["allowed.test"], "paths": [{"prefix": "/private/files/"}]},
            "action": {"transform": {"headers": {"authorization": f"Basic {ENCODED}"}}},
        }
    ]
}


def wheel():
    out, info = io.BytesIO(), "cloche_demo-1.0.dist-info"
    with zipfile.ZipFile(out, "w") as z:
        z.writestr("cloche_demo.py", "answer = 42\n")
        z.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {NAME}\nVersion: 1.0\n")
        z.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        z.writestr(f"{info}/RECORD", f"cloche_demo.py,,\n{info}/METADATA,,\n{info}/WHEEL,,\n{info}/RECORD,,\n")
    return out.getvalue()


@pytest.fixture(scope="module")
def registry(sources):
    """Where it is: an index for pip at /simple/, a registry for npm at /npm/."""
    index = sources.dir / "simple" / NAME
    index.mkdir(parents=True)
    (index / "index.html").write_text('<a href="cloche_demo-1.0-py3-none-any.whl">cloche_demo-1.0-py3-none-any.whl</a>')
    (index / "cloche_demo-1.0-py3-none-any.whl").write_bytes(wheel())
    publish(sources.dir / "npm", f"{TLS_BASE}/private/files/npm", NAME, "module.exports = 42;")
    return sources


def pip(box, index):
    return box.sandbox.run([*PIP, f"--index-url={index}", NAME], timeout=60)


def test_pip_installs_from_a_registry_that_the_policy_allows(walled, registry):
    box = walled(PUBLIC)
    done = pip(box, f"{BASE}/files/simple/")
    assert done.exit_code == 0, done.stderr
    assert box.sandbox.run(["python3", "-c", "import cloche_demo; print(cloche_demo.answer)"]).stdout == "42\n"
    assert box.sandbox.run_code("import cloche_demo; cloche_demo.answer").text == "42"


def test_pip_installs_nothing_from_a_registry_that_the_policy_does_not_name(walled, registry):
    done = pip(walled({"allow": ["other.test"]}), f"{BASE}/files/simple/")
    assert done.exit_code != 0 and "No matching distribution" in done.stderr


def test_pip_installs_from_a_private_registry_with_credentials_it_does_not_have(walled, registry):
    index = f"{TLS_BASE}/private/files/simple/"
    assert pip(walled(PUBLIC), index).exit_code != 0  # the control: it asks for a password
    box = walled(INJECTED)
    done = pip(box, index)
    assert done.exit_code == 0, done.stderr
    assert {e["authorization"] for e in registry.log() if e["path"].endswith(".whl") and e["path"].startswith("/private")} == {f"Basic {ENCODED}"}


@pytest.mark.skipif(not shutil.which("npm", path="/usr/bin"), reason="this host has no npm in /usr/bin")
def test_npm_installs_from_a_private_registry_with_credentials_it_does_not_have(walled, registry):
    words = [*NPM, f"--registry={TLS_BASE}/private/files/npm/", NAME]
    assert walled(PUBLIC).sandbox.run(words, timeout=60).exit_code != 0  # the control
    box = walled(INJECTED)
    done = box.sandbox.run(words, timeout=60)
    assert done.exit_code == 0, (done.stdout, done.stderr)
    assert box.sandbox.run(["node", "-p", f"require('{NAME}')"]).stdout == "42\n"
