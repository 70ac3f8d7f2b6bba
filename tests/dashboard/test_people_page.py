# SPDX-License-Identifier: Apache-2.0
"""People come in by the login page: with a real provider (npm's oidc-provider) and a real browser."""

import re
import shutil

import pytest
from dashboard.conftest import Dashboard
from harness.daemon import call, free_port
from harness.login_provider import Provider, daemon_with, install

pytestmark = pytest.mark.skipif(not shutil.which("npm"), reason="this host has no npm")


def test_a_person_logs_in_chooses_a_project_and_logs_out(browser, tmp_path_factory):
    port = free_port()
    with Provider(install(tmp_path_factory), f"http://127.0.0.1:{port}") as provider, \
            daemon_with(provider.issuer, tmp_path_factory.mktemp("login"), port) as daemon:
        call(daemon, "POST", "/v1/projects", {"name": "team-a"})
        with Dashboard(browser, daemon).open("/?problem=no_role", key="") as page:
            page.watch.allow(provider.issuer, "googleapis", "ERR_FAILED", "Content Security Policy")
            page.route(re.compile("googleapis"), lambda route: route.abort())  # the provider's own page would like a font
            page.wait_for_selector(".problem:has-text('gives you no role')")
            assert "problem" not in page.url
            page.click("[data-act=provider]:has-text('Log in with Example')")
            page.fill("[name=login]", "ann")
            page.fill("[name=password]", "-")
            page.click("button[type=submit]")
            page.click("button[type=submit]:has-text('Continue')")
            page.wait_for_selector(".live[data-state=open]")
            page.wait_for_selector(".who:has-text('ann@example.org'):has-text('default · admin')")
            cookie = next(c for c in page.context.cookies() if c["name"] == "cloche_login")
            assert (cookie["httpOnly"], cookie["sameSite"], cookie["path"]) == (True, "Strict", "/")
            page.select_option("[data-act=project]", label="team-a · write")
            page.wait_for_selector(".who:has-text('team-a · write')")
            page.click("[data-act=logout]")
            page.wait_for_selector("#key")
