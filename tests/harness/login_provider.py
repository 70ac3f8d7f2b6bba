# SPDX-License-Identifier: Apache-2.0
"""People who log in: a real provider (npm's oidc-provider), and a browser of few words that goes where it is sent."""

import contextlib
import html
import http.cookiejar
import json
import re
import shutil
import subprocess
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path

from harness.daemon import ROOT, Daemon, free_port
from harness.npm import NPM, made_once, run

FILES = ROOT / "tests" / "harness" / "login_provider"
SECRET = "s&cret of: cloche"  # what has to be escaped twice in a header
ROLES = ("cloche-admins=admin:default", "team-a=write:team-a")


def install(tmp_path_factory):
    """Where the provider is installed."""

    def make(path):
        shutil.copytree(FILES, path, dirs_exist_ok=True, ignore=shutil.ignore_patterns("node_modules"))
        run(*NPM, "ci", cwd=path)

    return made_once(tmp_path_factory, "login-provider", make)


class Provider:
    """panva's oidc-provider, with ann (admin), bob (of team-a), cara (its guest) and eve (nobody)."""

    def __init__(self, place, daemon_url, scopes=("openid", "profile", "email"), port=None, **settings):
        self.port = port or free_port()
        self.issuer = f"http://127.0.0.1:{self.port}"
        client = {"client_id": "cloche", "client_secret": SECRET, "redirect_uris": [f"{daemon_url}/v1/login/oidc/callback"],
                  "grant_types": ["authorization_code", "refresh_token", "urn:ietf:params:oauth:grant-type:device_code"],
                  "scope": " ".join({*scopes, "offline_access"}), "backchannel_logout_uri": f"{daemon_url}/v1/login/oidc/logout",
                  "backchannel_logout_session_required": True}
        client.update(settings.pop("client", {}))
        words = json.dumps({"port": self.port, "client": client, **settings})
        self.process = subprocess.Popen(["node", "provider.mjs", words], cwd=place, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.DEVNULL, text=True)
        self.read("ready")

    def read(self, wanted):
        for line in self.process.stdout:
            if line.strip() == wanted:
                return
        raise AssertionError(f"the provider ended, and never said {wanted}")

    def order(self, *words):
        self.process.stdin.write(" ".join(words) + "\n")
        self.process.stdin.flush()
        self.read("done")

    def close(self):
        self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            pipe.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def options(issuer, directory, roles=ROLES, scopes=("openid", "profile", "email"), **more):
    """Of a daemon whose people log in there."""
    secret = Path(directory) / "client.secret"
    secret.write_text(SECRET + "\n")
    words = ["--login-issuer", issuer, "--login-client-id", "cloche", "--login-client-secret-file", str(secret), "--login-name", "Example"]
    words += [w for role in roles for w in ("--login-role", role)] + [w for scope in scopes for w in ("--login-scope", scope)]
    return words + [w for name, value in more.items() for w in ("--login-" + name.replace("_", "-"), value)]


@contextlib.contextmanager
def daemon_with(issuer, directory, port, **more):
    daemon = Daemon(*options(issuer, directory, **more))
    daemon.port, daemon.url = port, f"http://127.0.0.1:{port}"
    daemon.start()
    try:
        yield daemon
    finally:
        status = daemon.stop()
        daemon.remove()
    assert status == 0


class NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_):
        return None


class Browser:
    """Keeps cookies; follows each redirect by itself, and remembers where it was."""

    def __init__(self):
        self.cookies = http.cookiejar.CookieJar(http.cookiejar.DefaultCookiePolicy(rfc2965=False))
        self.opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), NoRedirect, urllib.request.HTTPCookieProcessor(self.cookies))
        self.went = []
        self.url = self.text = None

    def once(self, url, form=None, headers=None):
        """(status, headers, text) of one request."""
        data = urllib.parse.urlencode(form).encode() if form is not None else None
        request = urllib.request.Request(url, data=data, headers=headers or {})
        self.went.append(url)
        try:
            reply = self.opener.open(request, timeout=60)
        except urllib.error.HTTPError as error:
            reply = error
        with reply:
            return reply.status, reply.headers, reply.read().decode(errors="replace")

    def go(self, url, form=None, until=lambda url: False):
        """Goes there and where that leads, up to an address that until() names, which is not asked for."""
        for _ in range(20):
            status, headers, self.text = self.once(url, form)
            self.url, form = url, None
            if status not in (301, 302, 303, 307):
                return status
            url = urllib.parse.urljoin(url, headers["Location"])
            if until(url):
                self.url = url
                return status
        raise AssertionError(f"a ring of redirects: {self.went[-6:]}")

    def submit(self, until=lambda url: False, **fields):
        """Fills in the form that is shown."""
        (action,) = re.findall(r'<form[^>]*action="([^"]*)"', self.text)[:1]
        inputs = re.findall(r'<input[^>]*type="hidden"[^>]*>', self.text)
        hidden = {re.search(r'name="([^"]*)"', i)[1]: html.unescape((re.search(r'value="([^"]*)"', i) or ["", ""])[1]) for i in inputs}
        return self.go(urllib.parse.urljoin(self.url, html.unescape(action)), {**hidden, **fields}, until)

    def cookie(self, name):
        return next((c.value for c in self.cookies if c.name == name), None)

    def sign_in(self, who, until=lambda url: False):
        """At the provider's pages: who it is, and that cloche may know."""
        self.submit(until, login=who, password="-")
        while not until(self.url) and 'name="prompt" value="consent"' in self.text:
            self.submit(until)

    def log_in(self, daemon, who, until=lambda url: False):
        self.go(f"{daemon.url}/v1/login/oidc/start", until=until)
        if "<form" in (self.text or "") and not self.url.startswith(daemon.url):
            self.sign_in(who, until)
        return self

    def ask(self, daemon, path, method="GET", body=None, **headers):
        """A call of the dashboard."""
        request = urllib.request.Request(daemon.url + path, method=method, data=json.dumps(body).encode() if body is not None else None,
                                         headers={"X-Cloche-Dashboard": "1", "Content-Type": "application/json", **headers})
        if body is None:
            request.remove_header("Content-type")
        try:
            reply = self.opener.open(request, timeout=60)
        except urllib.error.HTTPError as error:
            reply = error
        with reply:
            text = reply.read()
            return reply.status, json.loads(text) if text[:1] in (b"{", b"[") else text
