# SPDX-License-Identifier: Apache-2.0
"""Keycloak, with the people of harness.login_provider, set up as docs/guides/team.md says."""

import json
import re
import shutil
import subprocess
import urllib.error
import urllib.parse
import urllib.request

from harness.daemon import free_port, wait_for
from harness.login_provider import SECRET, Browser

REALM = "team"
PASSWORD = "a-password"
ADMIN = {"username": "root", "password": "root-password", "grant_type": "password", "client_id": "admin-cli"}
PEOPLE = {"ann": ["cloche-admins", "team-a"], "bob": ["team-a"], "cara": ["team-a-guests"], "eve": []}


def realm(daemon_url):
    groups = {"name": "groups", "protocol": "openid-connect", "protocolMapper": "oidc-group-membership-mapper",
              "config": {"claim.name": "groups", "full.path": "false", "id.token.claim": "true", "userinfo.token.claim": "true"}}
    client = {"clientId": "cloche", "secret": SECRET, "redirectUris": [f"{daemon_url}/v1/login/oidc/callback"], "protocolMappers": [groups],
              "attributes": {"oauth2.device.authorization.grant.enabled": "true", "pkce.code.challenge.method": "S256",
                             "backchannel.logout.url": f"{daemon_url}/v1/login/oidc/logout", "backchannel.logout.session.required": "true"}}
    people = [{"username": name, "enabled": True, "email": f"{name}@example.org", "emailVerified": True, "firstName": name.title(), "lastName": "Example",
               "credentials": [{"type": "password", "value": PASSWORD}], "groups": [f"/{g}" for g in groups], "realmRoles": ["offline_access"]}
              for name, groups in PEOPLE.items()]
    return {"realm": REALM, "enabled": True, "groups": [{"name": g} for g in ("cloche-admins", "team-a", "team-a-guests")], "users": people, "clients": [client]}


class Keycloak:
    """place is where it was unpacked; its database is of this one alone, and in directory."""

    def __init__(self, place, directory, daemon_url):
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.issuer = f"{self.url}/realms/{REALM}"
        self.home = directory / "keycloak"
        shutil.copytree(place, self.home)
        (self.home / "data" / "import").mkdir(parents=True)
        (self.home / "data" / "import" / "realm.json").write_text(json.dumps(realm(daemon_url)))
        self.log = (directory / "keycloak.log").open("w+")
        words = ["start-dev", "--http-host", "127.0.0.1", "--http-port", str(self.port), "--import-realm",
                 "--bootstrap-admin-username", ADMIN["username"], "--bootstrap-admin-password", ADMIN["password"]]
        self.process = subprocess.Popen([self.home / "bin" / "kc.sh", *words], stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log, start_new_session=True)
        try:
            wait_for(self.answers, seconds=300, what="Keycloak's start")
        except BaseException:
            self.close()
            raise

    def answers(self):
        assert self.process.poll() is None, (self.log.seek(0), self.log.read())[1]
        try:
            with urllib.request.urlopen(f"{self.issuer}/.well-known/openid-configuration", timeout=5) as reply:
                return reply.status == 200
        except OSError:
            return False

    def ask(self, method, path, body=None):
        """As its admin."""
        with urllib.request.urlopen(f"{self.url}/realms/master/protocol/openid-connect/token", urllib.parse.urlencode(ADMIN).encode(), timeout=60) as reply:
            token = json.load(reply)["access_token"]
        request = urllib.request.Request(f"{self.url}/admin/realms/{REALM}{path}", method=method, data=None if body is None else json.dumps(body).encode(),
                                         headers={"Authorization": f"Bearer {token}", "Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=60) as reply:
            text = reply.read()
        return json.loads(text) if text else None

    def user(self, name):
        return next(u["id"] for u in self.ask("GET", f"/users?exact=true&username={name}"))

    def group(self, name):
        return next(g["id"] for g in self.ask("GET", "/groups") if g["name"] == name)

    def close(self):
        self.process.terminate()
        self.process.wait()
        self.log.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


class KeycloakBrowser(Browser):
    """Knows Keycloak's pages. Its cookies are for secure origins, and a browser counts loopback as one."""

    def __init__(self):
        super().__init__()
        self.cookies._policy.secure_protocols = ("http", "https")

    def sign_in(self, who, until=lambda url: False):
        self.submit(until, username=who, password=PASSWORD, credentialId="")

    def confirm_device(self, url, who):
        self.go(url)
        self.sign_in(who)
        if re.search(r'name="accept"', self.text):
            self.submit(accept="Yes")
