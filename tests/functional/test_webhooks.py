# SPDX-License-Identifier: Apache-2.0
"""Webhooks: every event of a project, in order, signed, until it has arrived; and nowhere that is closed."""

import base64
import hashlib
import hmac
import http.client
import json
import os
import signal
import ssl
import subprocess
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from cloche import Client
from harness.daemon import Daemon, wait_for
from harness.metrics import figures


class Receiver:
    """A server that keeps what it gets; answers(n) gives the status of the n-th request."""

    def __init__(self, answers=lambda n: 200, context=None, location=None):
        self.got, self.answers = [], answers
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                receiver.got.append((dict(self.headers.items()), body))
                self.send_response(receiver.answers(len(receiver.got)))
                if location:
                    self.send_header("Location", location)
                self.end_headers()

            def log_message(self, *_):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        if context:
            self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        self.port = self.server.server_address[1]
        self.url = f"http{'s' if context else ''}://127.0.0.1:{self.port}/hook?x=1"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def entries(self):
        return [json.loads(body) for _, body in list(self.got)]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()


def call(daemon, method, path, body=None, key=None):
    connection = http.client.HTTPConnection("127.0.0.1", daemon.port, timeout=60)
    headers = {"X-API-Key": key or daemon.key, "Content-Type": "application/json"}
    connection.request(method, path, body=json.dumps(body) if body else None, headers=headers)
    reply = connection.getresponse()
    data = json.loads(reply.read())
    connection.close()
    return reply.status, data


def hook_to(daemon, url, **fields):
    status, reply = call(daemon, "POST", "/v1/webhooks", {"url": url, **fields})
    assert status == 201, reply
    return reply["webhook"]["id"], reply["secret"]


def state(daemon, hook_id):
    return call(daemon, "GET", f"/v1/webhooks/{hook_id}")[1]


def signature_is_good(headers, body, secret):
    signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
    key = base64.b64decode(secret.removeprefix("whsec_"))
    good = base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
    return headers["webhook-signature"] == "v1," + good


@pytest.fixture(scope="module")
def own():
    daemon = Daemon("--default-memory", "128MiB", "--webhooks-allow", "127.0.0.0/8").start()
    yield daemon
    daemon.stop()
    daemon.remove()


def test_events_arrive_in_order_and_signed(own):
    with Receiver() as receiver, Client(own.url, own.key) as client:
        hook_id, secret = hook_to(own, receiver.url, types="sandbox,exec")
        with client.create() as box:
            box.run(["true"])
        types = ["sandbox.created", "sandbox.running", "exec.started", "exec.exited", "sandbox.stopping", "sandbox.ended"]
        wait_for(lambda: len(receiver.got) >= len(types), 20, "all events")
        assert [e["type"] for e in receiver.entries()] == types
        numbers = [e["seq"] for e in receiver.entries()]
        assert numbers == sorted(numbers)
        for headers, body in receiver.got:
            assert signature_is_good(headers, body, secret)
            assert headers["webhook-id"] == f"{hook_id}.{json.loads(body)['seq']}"
        wait_for(lambda: state(own, hook_id)["last_seq"] == numbers[-1], 10, "the place")
        shown = json.dumps(call(own, "GET", "/v1/webhooks")[1])
        assert hook_id in shown and secret not in shown
        assert call(own, "DELETE", f"/v1/webhooks/{hook_id}")[0] == 200
        assert call(own, "GET", f"/v1/webhooks/{hook_id}")[0] == 404


def figures_of_hooks(daemon):
    return {name.removeprefix("cloche_webhook"): int(value) for name, value in figures(daemon).items() if name.startswith("cloche_webhook")}


def test_metrics_count_what_arrives_and_what_fails(own):
    before = figures_of_hooks(own)
    is_up = threading.Event()
    with Receiver(answers=lambda n: 204 if is_up.is_set() else 500) as receiver, Client(own.url, own.key) as client:
        hook_id, _ = hook_to(own, receiver.url, types="sandbox.created")
        client.create().delete()
        wait_for(lambda: figures_of_hooks(own)["s_failing"] == before["s_failing"] + 1, what="a failure")
        is_up.set()
        wait_for(lambda: figures_of_hooks(own)["_deliveries_total"] > before["_deliveries_total"], what="a delivery")
        after = figures_of_hooks(own)
        assert after["s"] == before["s"] + 1 and after["s_failing"] == before["s_failing"]
        assert after["_failures_total"] > before["_failures_total"] and after["_dropped_total"] == before["_dropped_total"]
        call(own, "DELETE", f"/v1/webhooks/{hook_id}")


def test_what_is_refused_is_sent_again_and_nothing_overtakes_it(own):
    with Receiver(answers=lambda n: 500 if n == 1 else 204) as receiver, Client(own.url, own.key) as client:
        hook_id, _ = hook_to(own, receiver.url, types="sandbox.created,sandbox.ended")
        client.create().delete()
        wait_for(lambda: len(receiver.got) >= 3, 20, "the second attempt")
        assert [e["type"] for e in receiver.entries()] == ["sandbox.created", "sandbox.created", "sandbox.ended"]
        assert receiver.got[0][0]["webhook-id"] == receiver.got[1][0]["webhook-id"]
        wait_for(lambda: state(own, hook_id)["last_error"] is None, 10, "success")
        call(own, "DELETE", f"/v1/webhooks/{hook_id}")


def test_a_changed_webhook_takes_what_waits_to_its_new_place(own):
    with Receiver(answers=lambda n: 500) as old, Receiver() as new, Client(own.url, own.key) as client:
        hook_id, _ = hook_to(own, old.url, types="sandbox.created")
        with client.create() as box:
            wait_for(lambda: old.got, 20, "a first attempt")
            changed = client.update_webhook(hook_id, url=new.url)
            assert (changed["url"], changed["types"], changed["last_error"]) == (new.url, "sandbox.created", None)
            wait_for(lambda: [e["sandbox_id"] for e in new.entries()] == [box.id], 20, "the event that waited")
            client.update_webhook(hook_id, types="sandbox.ended")
        wait_for(lambda: len(new.got) == 2, 20, "an event of the new kind")
        assert [e["type"] for e in new.entries()] == ["sandbox.created", "sandbox.ended"]
        assert client.update_webhook(hook_id, types="")["types"] is None
        for field, value in (("url", "http://10.1.2.3/"), ("types", "nonsense")):
            status, reply = call(own, "PATCH", f"/v1/webhooks/{hook_id}", {field: value})
            assert (status, reply["error"]["field"]) == (400, field)
        client.delete_webhook(hook_id)


def test_a_killed_gateway_goes_on_where_it_was(own):
    with Receiver() as receiver, Client(own.url, own.key) as client:
        hook_id, _ = hook_to(own, receiver.url, types="sandbox.created")
        made = []
        for _ in range(3):
            made.append(client.create().id)
            pid = own.gateway_pid
            os.kill(pid, signal.SIGKILL)
            wait_for(lambda: own._part("gateway") not in (None, pid), 30, "a new gateway")
        wait_for(lambda: [e["sandbox_id"] for e in receiver.entries()][-1:] == made[-1:], 30, "the last event")
        once = list(dict.fromkeys(e["sandbox_id"] for e in receiver.entries()))
        assert once == made  # each at least once, in order
        for sandbox_id in made:
            client.get(sandbox_id).delete()
        call(own, "DELETE", f"/v1/webhooks/{hook_id}")


def test_a_killed_dialer_is_replaced_alone_and_delivery_goes_on(own):
    with Receiver() as receiver, Client(own.url, own.key) as client:
        hook_id, _ = hook_to(own, receiver.url, types="sandbox.created")
        pid, others = own._part("dialer"), [own._part(name) for name in ("gateway", "broker", "wall")]
        os.kill(pid, signal.SIGKILL)
        client.create().delete()
        wait_for(lambda: own._part("dialer") not in (None, pid), 30, "a new dialer")
        assert [own._part(name) for name in ("gateway", "broker", "wall")] == others
        wait_for(lambda: receiver.got, 20, "an event")
        call(own, "DELETE", f"/v1/webhooks/{hook_id}")


@pytest.mark.parametrize("host", ["127.0.0.1", "[::1]", "10.1.2.3", "192.168.1.1", "169.254.169.254", "[::ffff:127.0.0.1]",
                                  "[fd00::1]", "0.0.0.0", "100.64.0.1", "[fe80::1]"])
def test_N27_a_closed_address_is_refused_however_it_is_written(daemon, client, host):
    status, reply = call(daemon, "POST", "/v1/webhooks", {"url": f"http://{host}:9/"})
    assert (status, reply["error"]["field"]) == (400, "url")


def test_N27_a_name_that_leads_to_a_closed_address_is_not_dialled(daemon, client):
    with Receiver() as receiver:
        hook_id, _ = hook_to(daemon, f"http://localhost:{receiver.port}/", types="sandbox.created")
        client.create().delete()
        failed = wait_for(lambda: (s := state(daemon, hook_id))["last_error"] and s, 20, "a refusal")
        assert "not a public one (loopback)" in failed["last_error"] and receiver.got == []
        call(daemon, "DELETE", f"/v1/webhooks/{hook_id}")


def test_N27_a_redirect_is_not_followed(own):
    with Receiver() as inner, Client(own.url, own.key) as client:
        with Receiver(answers=lambda n: 302, location=inner.url) as outer:
            hook_id, _ = hook_to(own, outer.url, types="sandbox.created")
            client.create().delete()
            failed = wait_for(lambda: (s := state(own, hook_id))["last_error"] and s, 20, "a refusal")
            assert failed["last_error"] == "it answered with status 302" and inner.got == []
            call(own, "DELETE", f"/v1/webhooks/{hook_id}")


@pytest.mark.slow
def test_the_server_of_https_must_be_the_one_that_is_named(tmp_path, monkeypatch):
    def certificate(name):
        files = [str(tmp_path / f"{name}.{kind}") for kind in ("key", "pem")]
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "1",
                        "-subj", f"/CN={name}", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", files[0], "-out", files[1]],
                       check=True, capture_output=True)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(files[1], files[0])
        return files[1], context

    good_file, good_context = certificate("good")
    _, bad_context = certificate("bad")
    monkeypatch.setenv("SSL_CERT_FILE", good_file)
    daemon = Daemon("--webhooks-allow", "127.0.0.1").start()
    try:
        with Receiver(context=good_context) as good, Receiver(context=bad_context) as bad, Client(daemon.url, daemon.key) as client:
            good_id, _ = hook_to(daemon, good.url, types="sandbox.created")
            bad_id, _ = hook_to(daemon, bad.url, types="sandbox.created")
            client.create().delete()
            wait_for(lambda: good.got, 20, "the event")
            failed = wait_for(lambda: (s := state(daemon, bad_id))["last_error"] and s, 20, "a refusal")
            assert "certificate" in failed["last_error"] and bad.got == []
            assert state(daemon, good_id)["last_error"] is None
    finally:
        daemon.stop()
        daemon.remove()


@pytest.mark.parametrize("url", ["", "ftp://example.com/", "http://", "http://a b/", "http://user:pw@example.com/", "http://example.com/\r\nX: y",
                                 "http://example.com:99999/", "http://example.com/" + "a" * 3000, "//example.com", "http://exa\u00e4mple.com/"])
def test_a_url_that_is_none_is_refused(daemon, client, url):
    status, reply = call(daemon, "POST", "/v1/webhooks", {"url": url})
    assert (status, reply["error"]["field"]) == (400, "url")


def test_webhooks_belong_to_their_project_and_need_an_admin(daemon, client, project_keys):
    hook_id, _ = hook_to(daemon, "https://example.com/", types="policy")
    project = client.create_project("hooks-other")
    stranger = client.create_key("h", scope="admin", project=project["id"])["secret"]
    for method, body in (("GET", None), ("PATCH", {"types": "policy"}), ("DELETE", None)):
        assert call(daemon, method, f"/v1/webhooks/{hook_id}", body, key=stranger)[0] == 404
    assert call(daemon, "GET", "/v1/webhooks", key=stranger)[1] == {"webhooks": []}
    for method, path in (("GET", "/v1/webhooks"), ("POST", "/v1/webhooks"), ("DELETE", f"/v1/webhooks/{hook_id}")):
        assert call(daemon, method, path, key=project_keys["write"])[0] == 403
    assert call(daemon, "DELETE", f"/v1/webhooks/{hook_id}")[0] == 200


def test_a_project_can_have_so_many_and_no_more(daemon, client):
    ids = [hook_to(daemon, "https://example.com/", types="policy")[0] for _ in range(16)]
    assert call(daemon, "POST", "/v1/webhooks", {"url": "https://example.com/"})[0] == 429
    for hook_id in ids:
        assert call(daemon, "DELETE", f"/v1/webhooks/{hook_id}")[0] == 200


def test_the_dialer_is_nobody_and_confined(own):
    with open(f"/proc/{own._part('dialer')}/status") as f:
        status = dict(line.rstrip("\n").split(":\t", 1) for line in f if ":\t" in line)
    assert status["Uid"].split() == status["Gid"].split() == ["65534"] * 4 and not status["Groups"].strip()
    assert int(status["CapEff"], 16) == int(status["CapBnd"], 16) == 0
    assert (status["NoNewPrivs"], status["Seccomp"]) == ("1", "2")


def test_the_sdk_adds_lists_and_removes_a_webhook(own):
    with Receiver() as receiver, Client(own.url, own.key) as client:
        made = client.create_webhook(receiver.url, types="sandbox.ended")
        hook_id = made["webhook"]["id"]
        assert made["secret"].startswith("whsec_")
        client.create().delete()
        wait_for(lambda: [e["type"] for e in receiver.entries()] == ["sandbox.ended"], 20, "the event")
        assert [h["types"] for h in client.webhooks() if h["id"] == hook_id] == ["sandbox.ended"]
        client.delete_webhook(hook_id)
        assert hook_id not in [h["id"] for h in client.webhooks()]
