# SPDX-License-Identifier: Apache-2.0
"""People log in at a provider: a real one, npm's oidc-provider. What a provider that lies could try is in tests/security/test_login_abuse.py."""

import json
import os
import re
import shutil
import stat
import subprocess
import urllib.parse

import pytest
from harness.daemon import call, free_port, refused_start, wait_for
from harness.login_provider import Browser, Provider, daemon_with, install

pytestmark = pytest.mark.skipif(not shutil.which("npm"), reason="this host has no npm")
OFFLINE = ("openid", "profile", "email", "offline_access")


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    return install(tmp_path_factory)


@pytest.fixture(scope="module")
def site(place, tmp_path_factory):
    """A provider, and a daemon with a project team-a whose people log in there; sessions are checked every second."""
    port = free_port()
    with Provider(place, f"http://127.0.0.1:{port}", scopes=OFFLINE) as provider:
        with daemon_with(provider.issuer, tmp_path_factory.mktemp("login"), port, scopes=OFFLINE, check="1s") as daemon:
            assert call(daemon, "POST", "/v1/projects", {"name": "team-a"})[0] == 201
            yield provider, daemon


def told_events(daemon, query):
    return [json.loads(line) for line in call(daemon, "GET", f"/v1/events?{query}")[1].splitlines()]


def who(browser, daemon):
    return browser.ask(daemon, "/v1/login")[1]


def test_a_person_logs_in_with_the_role_that_the_groups_give(site):
    _, daemon = site
    browser = Browser().log_in(daemon, "ann")
    assert browser.url == daemon.url + "/", browser.went
    told = who(browser, daemon)
    assert told["person"]["email"] == "ann@example.org" and told["person"]["subject"] == "ann"
    assert (told["key"]["scope"], told["project"]["name"], told["is_host_admin"]) == ("admin", "default", True)
    assert {p["name"]: p["scope"] for p in told["projects"]} == {"default": "admin", "team-a": "write"}
    assert told["expires_us"] > 0
    # The address that the browser was sent to carries all that protects the way back.
    sent = urllib.parse.parse_qs(urllib.parse.urlsplit(next(u for u in browser.went if "/auth?" in u)).query)
    assert sent["code_challenge_method"] == ["S256"] and all(len(sent[n][0]) == 43 for n in ("state", "nonce", "code_challenge"))
    assert browser.ask(daemon, "/v1/keys")[0] == 200


def test_events_and_the_audit_log_name_the_person(site):
    _, daemon = site
    browser = Browser().log_in(daemon, "ann")
    status, made = browser.ask(daemon, "/v1/keys", "POST", {"name": "of ann", "scope": "read"})
    assert status == 201, made
    events = told_events(daemon, "type=key.created,person.logged_in&limit=1000")
    created = [e for e in events if e["type"] == "key.created"][-1]
    assert created["person"]["subject"] == "ann" and created["person"]["email"] == "ann@example.org"
    assert created["key_id"] == who(browser, daemon)["key"]["id"]
    assert any(e["data"]["person"]["email"] == "ann@example.org" for e in events if e["type"] == "person.logged_in")


def test_a_role_holds_in_its_project_and_no_further(site):
    _, daemon = site
    browser = Browser().log_in(daemon, "bob")
    told = who(browser, daemon)
    assert (told["project"]["name"], told["key"]["scope"]) == ("team-a", "write")
    assert browser.ask(daemon, "/v1/sandboxes")[0] == 200
    status, refused = browser.ask(daemon, "/v1/keys")
    assert (status, refused["error"]["code"]) == (403, "forbidden")
    assert "the role 'admin'" in refused["error"]["message"] and "login.roles" in refused["error"]["hint"]
    assert browser.ask(daemon, "/v1/sandboxes", **{"X-Cloche-Project": "default"})[0] == 403
    assert browser.ask(daemon, "/v1/sandboxes", **{"X-Cloche-Project": "nowhere"})[0] == 403
    assert browser.ask(daemon, "/v1/sandboxes", **{"X-Cloche-Project": "team-a"})[0] == 200


def test_a_person_with_roles_in_several_projects_chooses_one(site):
    _, daemon = site
    browser = Browser().log_in(daemon, "ann")
    assert browser.ask(daemon, "/v1/login", "PATCH", {"project": "team-a"})[1]["project"]["name"] == "team-a"
    assert (who(browser, daemon)["key"]["scope"], browser.ask(daemon, "/v1/keys")[0]) == ("write", 403)
    assert browser.ask(daemon, "/v1/keys", **{"X-Cloche-Project": "default"})[0] == 200
    status, refused = browser.ask(daemon, "/v1/login", "PATCH", {"project": "nowhere"})
    assert (status, refused["error"]["field"]) == (400, "project")
    # A key has its one project.
    assert call(daemon, "PATCH", "/v1/login", {"project": "team-a"})[0] == 409
    assert call(daemon, "GET", "/v1/sandboxes", headers={"X-Cloche-Project": "team-a"})[0] == 403


def test_who_has_no_role_is_told_so_and_gets_nothing(site):
    _, daemon = site
    browser = Browser().log_in(daemon, "eve")
    assert browser.url == daemon.url + "/?problem=no_role"
    assert who(browser, daemon)["key"] is None and browser.cookie("cloche_login") is None
    _, told = browser.ask(daemon, "/v1/login?problem=no_role")
    assert "gives you no role" in told["problem"]["message"] and "login.roles" in told["problem"]["hint"]


def test_a_log_out_ends_the_session_at_once(site):
    _, daemon = site
    browser = Browser().log_in(daemon, "ann")
    kept = browser.cookie("cloche_login")
    assert browser.ask(daemon, "/v1/login", "DELETE")[1]["key"] is None
    _, told = call(daemon, "GET", "/v1/login", key="", headers={"Cookie": f"cloche_login={kept}", "X-Cloche-Dashboard": "1"})
    assert told["key"] is None


def test_a_session_outlives_the_daemon_and_its_cookie_opens_nothing_elsewhere(site):
    _, daemon = site
    browser = Browser().log_in(daemon, "ann")
    daemon.stop()
    daemon.start()
    assert who(browser, daemon)["person"]["subject"] == "ann"
    token = browser.cookie("cloche_login")
    for secret in (token, f"clo_{token}"):
        assert call(daemon, "GET", "/v1/sandboxes", key=secret)[0] == 401
    # A page of another site can send somebody anywhere, with the cookie: it counts for nothing there.
    assert call(daemon, "GET", "/v1/sandboxes", key="", headers={"Cookie": f"cloche_login={token}"})[0] == 401
    assert call(daemon, "GET", "/v1/sandboxes", key="", headers={"Cookie": f"cloche_login={token}", "X-Cloche-Dashboard": "1", "Sec-Fetch-Site": "same-site"})[0] == 401


def device_login(daemon, who):
    status, begun = call(daemon, "POST", "/v1/login/device", key="")
    assert status == 201, begun
    assert call(daemon, "POST", "/v1/login/device/poll", {"device": begun["device"]}, key="")[0] == 202
    confirm(begun["complete_url"], who)
    return wait_for(lambda: polled(daemon, begun), what="a device that logs in")


def polled(daemon, begun):
    status, got = call(daemon, "POST", "/v1/login/device/poll", {"device": begun["device"]}, key="")
    assert status in (200, 202), got
    return got if status == 200 else None


def test_a_device_logs_in_and_its_token_is_used_as_a_key(site):
    _, daemon = site
    got = device_login(daemon, "bob")
    assert got["person"]["email"] == "bob@example.org" and got["project"]["name"] == "team-a"
    assert call(daemon, "GET", "/v1/sandboxes", key=got["token"])[0] == 200
    assert call(daemon, "GET", "/v1/keys", key=got["token"])[0] == 403
    assert call(daemon, "GET", "/v1/login", key=got["token"])[1]["person"]["subject"] == "bob"
    assert call(daemon, "DELETE", "/v1/login", key=got["token"])[0] == 200
    assert call(daemon, "GET", "/v1/sandboxes", key=got["token"])[0] == 401


def confirm(url, who):
    browser = Browser()
    browser.go(url)
    if "op.deviceConfirmForm" not in browser.text:
        browser.submit()
    browser.submit(confirm="yes")
    browser.sign_in(who)


def test_the_command_line_logs_in_says_who_it_is_and_logs_out(site, tmp_path):
    _, daemon = site
    env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "CLOCHE_URL": daemon.url}

    def cloche(*words, **more):
        return subprocess.run([str(daemon.program), *words], env={**env, **more}, capture_output=True, text=True, timeout=120)

    with subprocess.Popen([str(daemon.program), "login"], env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as login:
        confirm(re.search(r"Open (\S+) and confirm the code \S+", login.stderr.readline())[1], "ann")
        assert "ann@example.org, admin of project default\n" in login.communicate(timeout=120)[0]
    assert login.returncode == 0
    kept = tmp_path / ".config" / "cloche" / "login.json"
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600 and daemon.url in kept.read_text()
    assert cloche("ps").returncode == 0 and cloche("key", "ls").returncode == 0
    assert cloche("whoami", CLOCHE_PROJECT="team-a").stdout.startswith("ann@example.org, write of project team-a\n")
    assert cloche("key", "ls", CLOCHE_PROJECT="team-a").returncode != 0
    assert cloche("login", "--project", "team-a").stdout.startswith("ann@example.org, write of project team-a\n")
    # What others could read is not used; nor is it sent anywhere else.
    kept.chmod(0o644)
    assert "cloche login" in cloche("ps").stderr
    kept.chmod(0o600)
    token = json.loads(kept.read_text())[daemon.url]
    assert cloche("logout").returncode == 0 and token not in kept.read_text()
    assert call(daemon, "GET", "/v1/sandboxes", key=token)[0] == 401
    assert "not logged in" in cloche("logout").stderr and "nobody here" in cloche("whoami").stderr


def test_a_code_that_was_stolen_on_its_way_is_worth_nothing_in_another_browser(site):
    """PKCE: the thief's own login has another verifier, and the provider refuses the code."""
    _, daemon = site
    is_back = lambda url: url.startswith(f"{daemon.url}/v1/login/oidc/callback")
    victim = Browser().log_in(daemon, "ann", until=is_back)
    stolen = urllib.parse.parse_qs(urllib.parse.urlsplit(victim.url).query)["code"][0]
    thief = Browser().log_in(daemon, "eve", until=is_back)
    at = urllib.parse.urlsplit(thief.url)
    query = {**dict(urllib.parse.parse_qsl(at.query)), "code": stolen}
    thief.go(at._replace(query=urllib.parse.urlencode(query)).geturl())
    assert thief.url == f"{daemon.url}/?problem=denied" and who(thief, daemon)["key"] is None


def test_a_session_ends_when_the_provider_refuses_to_go_on_with_it(site):
    provider, daemon = site
    browser = Browser().log_in(daemon, "bob")
    assert who(browser, daemon)["person"]["subject"] == "bob"
    provider.order("revoke", "bob")
    wait_for(lambda: who(browser, daemon)["key"] is None, what="the session's end")
    ended = [e for e in told_events(daemon, "type=person.logged_out&all=1&limit=1000") if e["data"]["why"] == "the provider"]
    assert ended[-1]["data"]["person"]["subject"] == "bob"


def test_a_role_that_the_provider_takes_back_is_gone_without_a_new_login(site):
    provider, daemon = site
    browser = Browser().log_in(daemon, "ann")
    assert who(browser, daemon)["key"]["scope"] == "admin"
    try:
        provider.order("groups", "ann", "team-a")
        wait_for(lambda: who(browser, daemon)["project"]["name"] == "team-a", what="the role's end")
        assert browser.ask(daemon, "/v1/keys")[0] == 403
    finally:
        provider.order("groups", "ann", "cloche-admins", "team-a")


def test_a_log_out_at_the_provider_ends_the_session_here(site):
    provider, daemon = site
    browser = Browser().log_in(daemon, "ann")
    browser.go(f"{provider.issuer}/session/end")
    browser.submit(logout="yes")
    wait_for(lambda: who(browser, daemon)["key"] is None, what="the session's end")


def test_keys_that_the_provider_changes_are_fetched_anew(site):
    """Not more often than every ten seconds: whoever sends tokens with made-up ids of keys makes the daemon ask for nothing."""
    provider, daemon = site
    Browser().log_in(daemon, "bob")
    provider.order("rotate")

    def logs_in():
        return Browser().log_in(daemon, "bob").url == daemon.url + "/"

    wait_for(logs_in, what="a login with the new key")


def test_a_provider_that_is_down_is_named_and_the_admin_still_gets_in(place, tmp_path):
    port, provider_port = free_port(), free_port()
    with daemon_with(f"http://127.0.0.1:{provider_port}", tmp_path, port) as daemon:
        browser = Browser()
        browser.go(f"{daemon.url}/v1/login/oidc/start")
        assert browser.url == f"{daemon.url}/?problem=unreachable"
        assert "cannot be reached" in browser.ask(daemon, "/v1/login?problem=unreachable")[1]["problem"]["message"]
        wait_for(lambda: "login_failing" in [p["code"] for p in call(daemon, "GET", "/v1/health")[1].get("problems", [])], what="a line of /v1/health")
        # The local admin: the key, and the link that `cloche dashboard` prints on the host.
        assert call(daemon, "GET", "/v1/keys")[0] == 200
        link = call(daemon, "POST", "/v1/login/links")[1]["link"]
        assert call(daemon, "POST", "/v1/login", {"link": link}, key="")[1]["key"]["scope"] == "admin"
        status, refused = call(daemon, "POST", "/v1/login/device", key="")
        assert (status, refused["error"]["code"]) == (503, "unavailable")
        with Provider(place, daemon.url, port=provider_port):
            wait_for(lambda: Browser().log_in(daemon, "ann").url == daemon.url + "/", what="a login, once the provider is back")


LOGIN = ["--login-issuer", "https://id.example.com", "--login-client-id", "cloche", "--login-role", "a=read:default"]


@pytest.mark.parametrize(("words", "said"), [
    (LOGIN[2:], "login.issuer: is needed"),
    (["--login-issuer", "http://id.example.com", *LOGIN[2:]], "login.issuer: 'http://id.example.com' must be https"),
    (["--login-issuer", "id.example.com", *LOGIN[2:]], "login.issuer: "),
    (LOGIN[:2] + LOGIN[4:], "login.client_id: is needed"),
    (LOGIN[:4], "login.roles: nobody has a role"),
    ([*LOGIN, "--login-scope", "email"], "login.scopes: openid must be one of them"),
    ([*LOGIN, "--login-role", "a=owner:default"], "login.roles: 'a=owner:default': 'owner' is no role"),
    ([*LOGIN, "--login-role", "a=read"], "login.roles: 'a=read' is not VALUE=ROLE:PROJECT"),
    ([*LOGIN, "--login-client-secret-file", "/nowhere"], "login.client_secret_file: '/nowhere': No such file"),
], ids=lambda value: value if isinstance(value, str) else "")
def test_settings_that_do_not_fit_are_named(tmp_path, words, said):
    assert said in refused_start(tmp_path, *words)


def test_without_settings_there_is_no_provider(daemon):
    assert call(daemon, "GET", "/v1/login", key="")[1]["provider"] is None
    assert call(daemon, "POST", "/v1/login/device", key="")[0] == 501
