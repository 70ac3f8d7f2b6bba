# SPDX-License-Identifier: Apache-2.0
"""Stores of objects answer a conditional PUT in different ways; a small one of our own gives each of the answers. Signatures are not its subject: s3rver checks them (test_audit_sinks.py)."""

import contextlib
import json
import threading
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from harness.daemon import Daemon, call, wait_for
from harness.metrics import figures
from harness.sinks import CREDENTIALS, KEY

SENT = 'cloche_audit_sent_total{sink="s3"}'
ERROR = "<Error><Code>{}</Code></Error>"


class Store(ThreadingHTTPServer):
    """answer(self, is_conditional, is_there) gives status and code, or None: the piece is taken, and the connection cut without a word."""
    daemon_threads = True

    def __init__(self, answer):
        self.answer, self.lock = answer, threading.Lock()
        self.objects, self.writes, self.answers = {}, Counter(), Counter()
        super().__init__(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def put(self, name, body, is_conditional):
        with self.lock:
            answer = self.answer(self, is_conditional, name in self.objects)
            self.answers[answer[0] if answer else "cut", is_conditional] += 1
            if answer is None or answer[0] == 200:
                self.objects[name] = body
                self.writes[name] += 1
            return answer


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_PUT(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        answer = self.server.put(self.path, body.decode(), self.headers["If-None-Match"] == "*")
        if answer is None:
            self.close_connection = True
            return
        text = ERROR.format(answer[1]).encode() if answer[0] != 200 else b""
        self.send_response(answer[0])
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_):
        pass


@contextlib.contextmanager
def sending(tmp_path, answer):
    """A daemon that sends to such a store, with some entries."""
    store = Store(answer)
    (tmp_path / "credentials").write_text(CREDENTIALS.format(id=KEY, secret=KEY))
    daemon = Daemon("--plain-storage", "--pool-max", "0", "--audit-s3-url", f"http://127.0.0.1:{store.server_port}/audit/host-1",
                    "--audit-s3-credentials", str(tmp_path / "credentials"), "--audit-s3-interval", "1s").start()
    try:
        for _ in range(3):
            assert call(daemon, "POST", "/v1/webhooks", {"url": "bad"})[0] == 400
        yield daemon, store
    finally:
        daemon.stop()
        daemon.remove()
        store.shutdown()
        store.server_close()


def all_sent(daemon, store):
    """Every entry of both logs is there, and as often as it was written."""
    def look():
        lines = [json.loads(line) for body in store.objects.values() for line in body.splitlines()]
        there = [line["hash"] for line in lines if "hash" in line]
        kept = {json.loads(line)["hash"] for audit in (0, 1) for line in call(daemon, "GET", f"/v1/events?all=1&audit={audit}")[1].splitlines()}
        return any(json.loads(line).get("type") == "api.write" for body in store.objects.values() for line in body.splitlines()) and kept <= set(there) and there
    there = wait_for(look, 60, "all entries in the store")
    assert len(there) == len(set(there))


def failing(daemon):
    return [p["message"] for p in call(daemon, "GET", "/v1/health")[1]["problems"] if p["code"] == "audit_store_failing"]


def test_a_piece_whose_answer_was_lost_is_refused_with_412_and_counts_as_taken(tmp_path):
    def answer(store, is_conditional, is_there):
        if is_conditional and is_there:
            return 412, "PreconditionFailed"
        return None if store.answers["cut", True] < 2 else (200, "")
    with sending(tmp_path, answer) as (daemon, store):
        all_sent(daemon, store)
        wait_for(lambda: store.answers[412, True] == 2, 60, "both once more")
        assert set(store.writes.values()) == {1}
        wait_for(lambda: not failing(daemon) and figures(daemon)[SENT] >= 4, 30, "the end of the problem")


def test_a_store_that_knows_no_condition_says_501_once_and_gets_the_pieces_without(tmp_path):
    with sending(tmp_path, lambda store, is_conditional, is_there: (501, "NotImplemented") if is_conditional else (200, "")) as (daemon, store):
        all_sent(daemon, store)
        assert not failing(daemon)
        assert store.answers[501, True] == 1 and store.answers[200, False] >= 2 and set(store.writes.values()) == {1}


@pytest.mark.parametrize("status, code", [(412, "PreconditionFailed"), (501, "NotImplemented")])
def test_a_store_that_refuses_the_piece_without_its_condition_too_is_told_as_failing(tmp_path, status, code):
    with sending(tmp_path, lambda store, is_conditional, is_there: (501, "NotImplemented") if is_conditional else (status, code)) as (daemon, store):
        (message,) = wait_for(lambda: failing(daemon), 60, "the problem")
        assert f"it answered with status {status} {code}" in message
        assert figures(daemon)[SENT] == 0 and not store.objects


def test_a_conflict_of_two_writers_is_tried_again(tmp_path):
    def answer(store, is_conditional, is_there):
        return (409, "ConditionalRequestConflict") if store.answers[409, True] < 2 else (200, "")
    with sending(tmp_path, answer) as (daemon, store):
        all_sent(daemon, store)
        assert store.answers[409, True] == 2 and set(store.writes.values()) == {1}
