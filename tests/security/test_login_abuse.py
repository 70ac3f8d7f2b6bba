# SPDX-License-Identifier: Apache-2.0
"""What liars try with a login: a provider that is not honest, tokens that are not what they say, browsers that were sent.

The honest provider is a real one (tests/functional/test_people.py); this one says what each test wants it to say. Each lie has the honest answer as its
control: the same call without the lie lets ann in.
"""

import base64
import contextlib
import hashlib
import hmac
import json
import subprocess
import threading
import time
import urllib.parse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from harness.daemon import call, free_port
from harness.login_provider import Browser, daemon_with

pytestmark = pytest.mark.neutral


def encoded(data):
    return base64.urlsafe_b64encode(data if isinstance(data, bytes) else json.dumps(data).encode()).rstrip(b"=").decode()


class Key:
    """An RSA key, by the openssl program: nothing of ours has a hand in it."""

    def __init__(self, directory, kid):
        self.path, self.kid = directory / f"{kid}.pem", kid
        self.openssl("genpkey", "-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048", "-out", str(self.path))
        modulus = self.openssl("rsa", "-in", str(self.path), "-noout", "-modulus").strip().partition(b"=")[2]
        self.jwk = {"kty": "RSA", "kid": kid, "use": "sig", "n": encoded(bytes.fromhex(modulus.decode())), "e": "AQAB"}
        self.pem = self.openssl("rsa", "-in", str(self.path), "-pubout")

    @staticmethod
    def openssl(*words, data=None):
        return subprocess.run(["openssl", *words], input=data, check=True, capture_output=True).stdout

    def sign(self, claims, **header):
        text = f"{encoded({'alg': 'RS256', 'kid': self.kid, **header})}.{encoded(claims)}"
        return f"{text}.{encoded(self.openssl('dgst', '-sha256', '-sign', str(self.path), data=text.encode()))}"


class Liar:
    """A provider that signs what lie() makes of the honest claims, and tells of itself what metadata says."""

    def __init__(self, directory):
        self.key, self.other = Key(directory, "good"), Key(directory, "other")
        self.asked, self.forms, liar = [], [], self
        self.lie = lambda claims: self.key.sign(claims)
        self.metadata, self.keys, self.token_status = {}, None, 200

        class Handler(BaseHTTPRequestHandler):
            def answer(self, body, status=200):
                data = body if isinstance(body, bytes) else json.dumps(body).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def do_GET(self):
                liar.asked.append(self.path)
                self.answer(liar.described() if "well-known" in self.path else {"keys": liar.keys or [liar.key.jwk]})

            def do_POST(self):
                form = dict(urllib.parse.parse_qsl(self.rfile.read(int(self.headers["Content-Length"])).decode()))
                liar.forms.append(form)
                self.answer({"id_token": liar.lie(liar.claims()), "token_type": "Bearer"}, liar.token_status)

            def log_message(self, *_):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.issuer = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def described(self):
        names = {"authorization_endpoint": "auth", "token_endpoint": "token", "jwks_uri": "jwks"}
        return {"issuer": self.issuer, **{n: f"{self.issuer}/{p}" for n, p in names.items()}, "authorization_response_iss_parameter_supported": True, **self.metadata}

    def claims(self):
        now = int(time.time())
        return {"iss": self.issuer, "aud": "cloche", "sub": "ann", "groups": ["cloche-admins"], "iat": now, "exp": now + 300, "nonce": self.nonce}

    def close(self):
        self.server.shutdown()
        self.server.server_close()


@contextlib.contextmanager
def lying(tmp_path):
    liar = Liar(tmp_path)
    try:
        with daemon_with(liar.issuer, tmp_path, free_port()) as daemon:
            yield liar, daemon
    finally:
        liar.close()


@pytest.fixture(scope="module")
def scene(tmp_path_factory):
    with lying(tmp_path_factory.mktemp("liar")) as both:
        yield both


def begin(liar, daemon):
    """A browser that was sent to the provider, and the state that it shall bring back."""
    browser = Browser()
    browser.go(f"{daemon.url}/v1/login/oidc/start", until=lambda url: url.startswith(liar.issuer))
    sent = dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(browser.url).query))
    liar.nonce = sent["nonce"]
    return browser, sent["state"]


def come_back(browser, daemon, **query):
    """The word that the browser is sent to the login page with; None: it is in."""
    browser.go(f"{daemon.url}/v1/login/oidc/callback?{urllib.parse.urlencode(query)}")
    is_in = browser.ask(daemon, "/v1/login")[1]["key"] is not None
    word = urllib.parse.parse_qs(urllib.parse.urlsplit(browser.url).query).get("problem", [None])[0]
    assert is_in == (word is None)
    return word


def log_in(liar, daemon, **changed):
    browser, state = begin(liar, daemon)
    query = {"code": "c", "state": state, "iss": liar.issuer, **changed}
    return come_back(browser, daemon, **{n: v for n, v in query.items() if v is not None})


@pytest.fixture(autouse=True)
def honest_again(request):
    yield
    if "scene" in request.fixturenames:
        liar, _ = request.getfixturevalue("scene")
        liar.lie, liar.metadata, liar.keys, liar.token_status = liar.key.sign, {}, None, 200


def unsigned(claims):
    return f"{encoded({'alg': 'none'})}.{encoded(claims)}."


def test_P01_a_token_that_no_key_of_the_provider_has_signed_lets_nobody_in(scene):
    liar, daemon = scene
    assert log_in(liar, daemon) is None

    def confused(claims):
        """Signed with the public key, as if it were a shared secret."""
        text = f"{encoded({'alg': 'HS256', 'kid': 'good'})}.{encoded(claims)}"
        return f"{text}.{encoded(hmac.digest(liar.key.pem, text.encode(), 'sha256'))}"

    lies = {"none": unsigned, "none, with a signature": lambda c: unsigned(c) + "AAAA", "a shared secret": confused,
            "another key with its id": lambda c: liar.other.sign(c, kid="good"), "another key of its own": liar.other.sign,
            "a key that it brings along": lambda c: liar.other.sign(c, kid="good", jwk=liar.other.jwk),
            "altered": lambda c: liar.key.sign({**c, "sub": "bob"}).replace(encoded({**c, "sub": "bob"}), encoded(c)),
            "huge": lambda c: liar.key.sign({**c, "x": "y" * 40000}), "no token": lambda c: "", "three dots": lambda c: "a.b.c.d"}
    for name, lie in lies.items():
        liar.lie = lie
        assert log_in(liar, daemon) == "signature", name
    liar.lie, liar.keys = liar.key.sign, [liar.key.jwk, liar.key.jwk]
    assert log_in(liar, daemon) is None  # the keys are known already: nobody asks again


def test_P02_a_token_that_is_meant_for_another_time_place_or_login_lets_nobody_in(scene):
    liar, daemon = scene
    now = int(time.time())
    lies = [({"aud": "other"}, "audience"), ({"aud": ["cloche", "other"]}, "audience"), ({"azp": "other"}, "audience"), ({"iss": "https://evil.example"}, "issuer"),
            ({"exp": now - 120}, "expired"), ({"iat": now + 120}, "clock"), ({"nbf": now + 120}, "clock"), ({"nonce": "another"}, "nonce"),
            ({"nonce": None}, "nonce"), ({"sub": None}, "bad_answer"), ({"groups": ["visitors"]}, "no_role"), ({"groups": None}, "no_role"),
            ({"groups": {"cloche-admins": True}}, "no_role"), ({"iat": now + 50}, None), ({"exp": now + 30, "iat": now - 50}, None)]
    for change, word in lies:
        liar.lie = lambda claims, change=change: liar.key.sign({**claims, **change})
        assert log_in(liar, daemon) == word, change
    liar.lie = lambda claims: liar.key.sign(claims, typ="at+jwt")
    assert log_in(liar, daemon) == "bad_answer"


def test_P03_a_return_that_this_browser_has_not_begun_is_refused(scene):
    liar, daemon = scene
    assert log_in(liar, daemon, state="x" * 43) == "state"
    assert log_in(liar, daemon, state=None) == "state"
    # A page sends the victim to the attacker's return: the victim's browser has another cookie, or none.
    attacker, state = begin(liar, daemon)
    assert come_back(Browser(), daemon, code="c", state=state, iss=liar.issuer) == "state"
    victim, _ = begin(liar, daemon)
    assert come_back(victim, daemon, code="c", state=state, iss=liar.issuer) == "state"
    # A cookie that was altered, one that another set beside it, and one that is used twice.
    cookie = attacker.cookie("cloche_state")
    for fields in (f"cloche_state={cookie[:-4]}AAAA", f"cloche_state={cookie}; cloche_state={cookie}"):
        assert sent_to(daemon, state, liar, fields) == "/?problem=state"
    liar.nonce = None
    attacker, state = begin(liar, daemon)
    assert come_back(attacker, daemon, code="c", state=state, iss=liar.issuer) is None
    assert attacker.cookie("cloche_state") in (None, "")


def sent_to(daemon, state, liar, cookies):
    query = urllib.parse.urlencode({"code": "c", "state": state, "iss": liar.issuer})
    _, headers, _ = Browser().once(f"{daemon.url}/v1/login/oidc/callback?{query}", headers={"Cookie": cookies})
    return headers["Location"]


def test_P04_an_answer_of_another_provider_is_refused(scene):
    """RFC 9207: what was asked of one provider and comes back from another. The code does not even go out."""
    liar, daemon = scene
    liar.forms.clear()
    assert log_in(liar, daemon, iss="https://evil.example") == "issuer"
    assert log_in(liar, daemon, iss=None) == "issuer"
    assert not liar.forms
    assert log_in(liar, daemon, error="access_denied", code=None) == "denied"
    assert log_in(liar, daemon, code=None) == "bad_answer"


def test_P05_the_verifier_goes_to_the_token_endpoint_alone_and_fits_the_challenge(scene):
    liar, daemon = scene
    browser, state = begin(liar, daemon)
    sent = dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(browser.url).query))
    liar.forms.clear()
    assert come_back(browser, daemon, code="c", state=state, iss=liar.issuer) is None
    (form,) = liar.forms
    assert encoded(hashlib.sha256(form["code_verifier"].encode()).digest()) == sent["code_challenge"] and sent["code_challenge_method"] == "S256"
    assert form["code_verifier"] not in str(browser.went) and form["code_verifier"] not in str([c.value for c in browser.cookies])


def test_P06_made_up_ids_of_keys_make_nobody_ask_without_end(scene):
    liar, daemon = scene
    assert log_in(liar, daemon) is None
    liar.asked.clear()
    for n in range(12):
        liar.lie = lambda claims, n=n: liar.other.sign(claims, kid=f"made-up-{n}")
        assert log_in(liar, daemon) == "signature"
    assert liar.asked.count("/jwks") <= 3  # one for each ten seconds, whatever is sent


def test_P07_metadata_that_lies_opens_no_way_into_this_host(tmp_path):
    """A token endpoint on an address that is not public and not the issuer's: the daemon connects nowhere else by a provider's word."""

    class Inner(BaseHTTPRequestHandler):
        seen = []

        def do_POST(self):
            self.seen.append(self.path)

        def log_message(self, *_):
            pass

    inner = ThreadingHTTPServer(("127.0.0.1", 0), Inner)
    threading.Thread(target=inner.serve_forever, daemon=True).start()
    with lying(tmp_path) as (liar, daemon):
        liar.metadata = {"token_endpoint": f"http://127.0.0.1:{inner.server_address[1]}/token"}
        assert log_in(liar, daemon) == "unreachable"
        assert not Inner.seen
        assert call(daemon, "GET", "/v1/sandboxes")[0] == 200
    inner.shutdown()
    inner.server_close()


@pytest.mark.parametrize("lie", [{"issuer": "https://evil.example"}, {"token_endpoint": "javascript:alert(1)"}, {"authorization_endpoint": 7},
                                 {"code_challenge_methods_supported": ["plain"]}, {"padding": "x" * 100_000}], ids=str)
def test_P08_metadata_that_cannot_be_used_is_told_and_the_daemon_goes_on(tmp_path, lie):
    with lying(tmp_path) as (liar, daemon):
        liar.metadata = lie
        browser = Browser()
        browser.go(f"{daemon.url}/v1/login/oidc/start")
        assert urllib.parse.urlsplit(browser.url).query in ("problem=bad_answer", "problem=unreachable")
        assert call(daemon, "GET", "/v1/sandboxes")[0] == 200


def test_P09_nobody_but_the_provider_ends_a_session_from_outside(scene):
    liar, daemon = scene
    browser, state = begin(liar, daemon)
    assert come_back(browser, daemon, code="c", state=state, iss=liar.issuer) is None
    event = {"http://schemas.openid.net/event/backchannel-logout": {}}
    now = int(time.time())
    honest = {"iss": liar.issuer, "aud": "cloche", "sub": "ann", "iat": now, "jti": "1", "events": event}

    def logout(token):
        form = urllib.parse.urlencode({"logout_token": token})
        return call(daemon, "POST", "/v1/login/oidc/logout", body=form, key="", headers={"Content-Type": "application/x-www-form-urlencoded"})[0]

    refused = [unsigned(honest), liar.other.sign(honest, kid="good"), liar.key.sign({**honest, "aud": "other"}), liar.key.sign({**honest, "events": {}}),
               liar.key.sign({**honest, "nonce": "n"}), liar.key.sign({**honest, "iat": now - 3600}), liar.key.sign({**honest, "iss": "https://evil.example"}),
               liar.key.sign({**liar.claims(), "nonce": "x"}), "", "a.b.c"]
    assert [logout(token) for token in refused] == [400] * len(refused)
    assert browser.ask(daemon, "/v1/login")[1]["key"] is not None
    assert call(daemon, "POST", "/v1/login/oidc/logout", body="x" * 100_000, key="", headers={"Content-Type": "application/x-www-form-urlencoded"})[0] in (400, 413)
    assert logout(liar.key.sign(honest)) == 200
    assert browser.ask(daemon, "/v1/login")[1]["key"] is None


def test_P10_the_login_page_repeats_nothing_that_a_link_says(scene):
    _, daemon = scene
    for word in ("<script>alert(1)</script>", "none", "pay at evil.example", "NO_ROLE"):
        told = call(daemon, "GET", f"/v1/login?problem={urllib.parse.quote(word)}", key="")[1]
        assert "problem" not in told and word not in json.dumps(told)
