# SPDX-License-Identifier: Apache-2.0
"""People who log in at a real Keycloak: what docs/guides/team.md says about it. `make test-keycloak` fetches it; every other run of these tests uses the provider
of test_people.py, which starts in a second."""

import os
import pathlib
import re
import subprocess

import pytest
from harness.daemon import call, free_port, wait_for
from harness.keycloak import Keycloak, KeycloakBrowser
from harness.login_provider import ROLES, daemon_with

PLACE = os.environ.get("CLOCHE_KEYCLOAK")
pytestmark = pytest.mark.skipif(not PLACE, reason="no Keycloak here: make test-keycloak fetches it")


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    port = free_port()
    with Keycloak(pathlib.Path(PLACE), tmp_path_factory.mktemp("keycloak"), f"http://127.0.0.1:{port}") as keycloak:
        roles = (*ROLES, "team-a-guests=read:team-a")
        with daemon_with(keycloak.issuer, tmp_path_factory.mktemp("login"), port, roles=roles, check="1s") as daemon:
            assert call(daemon, "POST", "/v1/projects", {"name": "team-a"})[0] == 201
            yield keycloak, daemon


def who(browser, daemon):
    return browser.ask(daemon, "/v1/login")[1]


def logged_in(daemon, name):
    browser = KeycloakBrowser().log_in(daemon, name)
    assert browser.url == daemon.url + "/", browser.went
    return browser


@pytest.mark.parametrize(("name", "scope", "project"), [("ann", "admin", "default"), ("bob", "write", "team-a"), ("cara", "read", "team-a")])
def test_groups_give_roles(site, name, scope, project):
    _, daemon = site
    told = who(logged_in(daemon, name), daemon)
    assert (told["key"]["scope"], told["project"]["name"], told["person"]["email"]) == (scope, project, f"{name}@example.org")


def test_who_is_in_no_group_gets_nothing(site):
    _, daemon = site
    browser = KeycloakBrowser().log_in(daemon, "eve")
    assert browser.url == daemon.url + "/?problem=no_role" and who(browser, daemon)["key"] is None


def test_the_command_line_logs_in_by_a_code(site, tmp_path):
    _, daemon = site
    env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "CLOCHE_URL": daemon.url}
    with subprocess.Popen([daemon.program, "login"], env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as login:
        KeycloakBrowser().confirm_device(re.search(r"Open (\S+) and confirm the code \S+", login.stderr.readline())[1], "bob")
        assert "bob@example.org, write of project team-a\n" in login.communicate(timeout=120)[0]
    assert subprocess.run([daemon.program, "ps"], env=env, timeout=60).returncode == 0


def test_a_group_that_is_taken_away_counts_without_a_new_login(site):
    keycloak, daemon = site
    browser = logged_in(daemon, "ann")
    path = f"/users/{keycloak.user('ann')}/groups/{keycloak.group('cloche-admins')}"
    keycloak.ask("DELETE", path)
    try:
        wait_for(lambda: who(browser, daemon)["project"]["name"] == "team-a", what="the role's end")
        assert browser.ask(daemon, "/v1/keys")[0] == 403
    finally:
        keycloak.ask("PUT", path)


def test_a_log_out_by_keycloaks_admin_ends_the_session_here(site):
    keycloak, daemon = site
    browser = logged_in(daemon, "bob")
    keycloak.ask("POST", f"/users/{keycloak.user('bob')}/logout")
    wait_for(lambda: who(browser, daemon)["key"] is None, what="the session's end")


def test_a_person_who_is_disabled_is_out(site):
    keycloak, daemon = site
    browser = logged_in(daemon, "cara")
    path = f"/users/{keycloak.user('cara')}"
    keycloak.ask("PUT", path, {**keycloak.ask("GET", path), "enabled": False})
    try:
        wait_for(lambda: who(browser, daemon)["key"] is None, what="the session's end")
    finally:
        keycloak.ask("PUT", path, {**keycloak.ask("GET", path), "enabled": True})


def test_keys_that_keycloak_changes_are_fetched_anew(site):
    keycloak, daemon = site
    logged_in(daemon, "bob")
    new = {"name": "newer", "providerId": "rsa-generated", "providerType": "org.keycloak.keys.KeyProvider", "config": {"priority": ["1000"]}}
    keycloak.ask("POST", "/components", new)
    wait_for(lambda: KeycloakBrowser().log_in(daemon, "bob").url == daemon.url + "/", what="a login with the new key")
