# SPDX-License-Identifier: Apache-2.0
"""docs/guides/first-team.md is followed as it stands: three people who log in by `cloche login`, at a real provider, with the roles that the page gives their groups."""

import os
import re
import shutil
import subprocess
import tomllib

import pytest
from harness.daemon import BUILD, PATIENCE, free_port
from harness.login_provider import Browser, Provider, daemon_with, install
from harness.samples import samples_of

pytestmark = pytest.mark.skipif(not shutil.which("npm"), reason="this host has no npm")
PAGE = "docs/guides/first-team.md"
PEOPLE = ("Ann", "Bob", "Cara")
ACTORS = ("Root, on the host", *PEOPLE, "Another machine")


def settings():
    (login,) = [t["login"] for t in (tomllib.loads(s.code) for s in samples_of(PAGE) if s.language == "toml") if "login" in t]
    return login


def actor_of(sample):
    return next((a for a in ACTORS if sample.code.startswith(f"# {a}\n")), None)


def environment(daemon, actor, home):
    env = {**os.environ, "PATH": f"{BUILD}:{os.environ['PATH']}", "HOME": str(home / actor), "CLOCHE_URL": daemon.url}
    env.pop("XDG_CONFIG_HOME", None)
    if actor == ACTORS[0]:
        env["CLOCHE_API_KEY"] = daemon.key
    elif actor not in PEOPLE:
        env["CLOCHE_URL"] = "http://127.0.0.1:9"
    return env


def log_in(daemon, person, home):
    """On a terminal; the code is confirmed in a browser elsewhere."""
    (home / person).mkdir()
    login = subprocess.Popen(["cloche", "login"], env=environment(daemon, person, home), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    told = login.stderr.readline()
    browser = Browser()
    browser.go(re.search(r"http\S+", told)[0])
    if "op.deviceConfirmForm" not in browser.text:
        browser.submit()
    browser.submit(confirm="yes")
    browser.sign_in(person.lower())
    said, wrong = login.communicate(timeout=60 * PATIENCE)
    assert login.returncode == 0, told + said + wrong


def test_the_guide_leads_from_nothing_to_a_team(tmp_path, tmp_path_factory):
    login, port = settings(), free_port()
    with Provider(install(tmp_path_factory), f"http://127.0.0.1:{port}", scopes=login["scopes"]) as provider:
        with daemon_with(provider.issuer, tmp_path, port, roles=login["roles"], scopes=login["scopes"]) as daemon:
            files = tmp_path / "files"
            files.mkdir()
            done = []
            for sample in (s for s in samples_of(PAGE) if s.language == "sh" and actor_of(s)):
                actor = actor_of(sample)
                if actor in PEOPLE and not (tmp_path / actor).exists():
                    log_in(daemon, actor, tmp_path)
                r = subprocess.run(["bash", "-euo", "pipefail", "-c", sample.code], env=environment(daemon, actor, tmp_path), cwd=files, stdin=subprocess.DEVNULL,
                                   capture_output=True, text=True, timeout=120 * PATIENCE)
                assert r.returncode == 0 and not sample.broken_promises(r.stdout), f"{sample.place}\n{r.stdout}\n{r.stderr}"
                done.append(actor)
            assert set(done) == set(ACTORS)
