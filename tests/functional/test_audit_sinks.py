# SPDX-License-Identifier: Apache-2.0
"""The event log and the audit log are sent elsewhere by the daemon itself: to a store of objects and to a syslog server, both real."""

import json
import re
import signal
import socket
import subprocess
import threading

import pytest
from cloche import Client
from harness.certificates import Authority
from harness.cli import CLOCHE, Cli
from harness.daemon import Daemon, call, wait_for
from harness.metrics import figures
from harness.sinks import KEY, ObjectStore, Syslog, s3rver

NAME = re.compile(r"(prj_\w+|daemon)/(events|audit)/(\d{20})-(\d{20})-[0-9a-f]{16}(-gap)?\.jsonl")


@pytest.fixture(scope="session")
def program(tmp_path_factory):
    return s3rver(tmp_path_factory)


@pytest.fixture
def store(program, tmp_path):
    with ObjectStore(tmp_path / "store", program) as store:
        yield store


class Running:
    """A daemon with these options; it leaves no sandboxes."""

    def __init__(self, *options, prefix=()):
        self.daemon = Daemon("--plain-storage", "--pool-max", "0", *options, prefix=prefix)

    def __enter__(self):
        return self.daemon.start()

    def __exit__(self, *_):
        self.daemon.stop()
        self.daemon.remove()


def newest(daemon, key=None):
    return call(daemon, "GET", "/v1/events/head?audit=1", key=key)[1]["head"]["seq"]


def write(daemon, n, key=None):
    """So many entries of the audit log, of the key's project; they are written a little later than their replies."""
    before = newest(daemon, key)
    for _ in range(n):
        assert call(daemon, "POST", "/v1/webhooks", {"url": "bad"}, key=key)[0] == 400
    wait_for(lambda: newest(daemon, key) >= before + n, 20, "the entries")


def entries(daemon, audit):
    status, data = call(daemon, "GET", f"/v1/events?all=1&audit={audit}")
    assert status == 200
    return [json.loads(line) for line in data.splitlines()]


def hashes(daemon):
    return {e["hash"] for audit in (0, 1) for e in entries(daemon, audit)}


def pushed(store):
    """The hash of each entry that is in the store, as often as it is there."""
    lines = [json.loads(line) for content in store.objects().values() for line in content.splitlines()]
    return [line["hash"] for line in lines if "hash" in line]


def await_pushed(daemon, store):
    wait_for(lambda: hashes(daemon) <= set(pushed(store)), 30, "all entries in the store")


def verify(key, path):
    """As on another machine: without any daemon."""
    done = subprocess.run([CLOCHE, "audit", "verify", "--key", str(key), str(path)], env={"HOME": "/nonexistent"}, capture_output=True, text=True, timeout=60)
    return done.returncode, done.stdout + done.stderr


def problems(daemon):
    return {p["code"]: p for p in call(daemon, "GET", "/v1/health")[1]["problems"]}


def test_sealed_pieces_are_pushed_and_go_on_after_a_kill_without_doubles(store, tmp_path):
    store.start()
    with Running(*store.options()) as daemon:
        with Client(daemon.url, daemon.key) as client:
            client.create_project("tenant")
            key = client.create_key("k", scope="admin", project="tenant")["secret"]
        write(daemon, 5)
        write(daemon, 5, key)
        await_pushed(daemon, store)
        for _ in range(3):
            daemon.kill_parts("gateway")
            write(daemon, 3, key)
        await_pushed(daemon, store)
        (tmp_path / "pub").write_text(Cli(daemon).ok("audit", "key"))
        assert figures(daemon)['cloche_audit_sent_total{sink="s3"}'] > 0
    names = list(store.objects())
    assert all(NAME.fullmatch(name) for name in names), names
    assert len({name.split("/")[0] for name in names}) == 3  # the daemon's, and those of two projects
    assert len(pushed(store)) == len(set(pushed(store)))
    tree = store.download(tmp_path / "tree")
    status, said = verify(tmp_path / "pub", tree)
    assert status == 0 and "are as they were written" in said and "begin later" not in said, said
    of_one = sorted(max((list(d.iterdir()) for d in tree.glob("prj_*/audit")), key=len))
    assert len(of_one) >= 2
    assert verify(tmp_path / "pub", of_one[-1])[0] == 0  # one alone says what it is
    first = of_one[0].read_text()
    of_one[0].unlink()
    removed_first = verify(tmp_path / "pub", tree)
    assert removed_first[0] == 0 and "begin later" in removed_first[1]
    of_one[0].write_text(first.replace("bad", "bat").replace('"status":400', '"status":200'))
    status, said = verify(tmp_path / "pub", tree)
    assert status != 0 and "was altered" in said and of_one[0].name in said


def test_a_piece_that_is_taken_from_the_middle_is_missed(store, tmp_path):
    store.start()
    with Running(*store.options()) as daemon:
        for i in range(3):
            write(daemon, 2)
            await_pushed(daemon, store)
        (tmp_path / "pub").write_text(Cli(daemon).ok("audit", "key"))
    tree = store.download(tmp_path / "tree")
    assert verify(tmp_path / "pub", tree)[0] == 0
    pieces = sorted(p for p in tree.rglob("*.jsonl") if p.parent.name == "audit")
    assert len(pieces) >= 3
    pieces[1].unlink()
    status, said = verify(tmp_path / "pub", tree)
    assert status != 0 and "something between them is missing" in said


def test_a_store_that_is_down_is_told_holds_up_nobody_and_gets_all_later(store, tmp_path):
    with Running(*store.options()) as daemon:
        write(daemon, 3)
        told = wait_for(lambda: problems(daemon).get("audit_store_failing"), 30, "the problem")
        assert "entries wait" in told["message"] and "audit.s3_url" in told["hint"]
        assert call(daemon, "GET", "/v1/ready")[0] == 200
        metrics = figures(daemon)
        assert metrics['cloche_audit_waiting{sink="s3"}'] >= 3 and metrics['cloche_audit_failures_total{sink="s3"}'] >= 3
        assert daemon.log_of("audit.not_sent")
        store.start()
        wait_for(lambda: "audit_store_failing" not in problems(daemon), 60, "its end")
        await_pushed(daemon, store)
        assert figures(daemon)['cloche_audit_lost_total{sink="s3"}'] == 0


def test_a_wrong_secret_is_named_and_nothing_is_stored(store):
    store.start()
    with Running(*store.options(secret="wrong")) as daemon:
        told = wait_for(lambda: problems(daemon).get("audit_store_failing"), 30, "the problem")
        assert "SignatureDoesNotMatch" in told["message"]
        assert store.objects() == {}
        assert KEY not in daemon.log() and "wrong" not in json.dumps(told)


def test_what_retention_removes_before_it_was_pushed_is_told_and_sealed(store, tmp_path):
    with Running(*store.options(), "--events-count", "100") as daemon:
        wait_for(lambda: problems(daemon).get("audit_store_failing"), 30, "the problem")
        for _ in range(2):
            write(daemon, 150)
        (gap,) = wait_for(lambda: [e for e in entries(daemon, 0) if e["type"] == "events.not_sent"][:1], 60, "the event")
        assert gap["data"]["sink"] == "s3" and gap["data"]["audit"] and gap["data"]["upto"] > gap["data"]["after"]
        assert figures(daemon)['cloche_audit_lost_total{sink="s3"}'] > 0 and daemon.log_of("audit.lost")
        store.start()
        await_pushed(daemon, store)
        (tmp_path / "pub").write_text(Cli(daemon).ok("audit", "key"))
    assert any(name.endswith("-gap.jsonl") for name in store.objects())
    status, said = verify(tmp_path / "pub", store.download(tmp_path / "tree"))
    assert status == 0 and re.search("^[1-3] gaps", said, re.M), said


class Forgetful:
    """Passes requests on to a port, and cuts the first answers that come back: whoever asked knows nothing of what was done."""

    def __init__(self, to, cuts):
        self.to, self.cuts, self.socket = to, cuts, socket.create_server(("127.0.0.1", 0))
        self.port = self.socket.getsockname()[1]
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while True:
            try:
                one, _ = self.socket.accept()
            except OSError:
                return
            threading.Thread(target=self.carry, args=[one], daemon=True).start()

    def carry(self, one):
        with one, socket.create_connection(("127.0.0.1", self.to)) as other:
            def back():
                while data := other.recv(65536):
                    if self.cuts > 0:
                        self.cuts -= 1
                        one.shutdown(socket.SHUT_RDWR)
                        return
                    one.sendall(data)
                one.shutdown(socket.SHUT_WR)
            thread = threading.Thread(target=back, daemon=True)
            thread.start()
            while data := one.recv(65536):
                other.sendall(data)
            thread.join(5)


def test_a_piece_whose_answer_was_lost_is_not_there_twice(store, tmp_path):
    store.start()
    proxy = Forgetful(store.port, cuts=3)
    store.url = store.url.replace(str(store.port), str(proxy.port))
    with Running(*store.options()) as daemon:
        for _ in range(4):
            write(daemon, 2)
        await_pushed(daemon, store)
        assert proxy.cuts == 0 and figures(daemon)['cloche_audit_failures_total{sink="s3"}'] >= 3
    proxy.socket.close()
    assert len(pushed(store)) == len(set(pushed(store)))


@pytest.mark.parametrize("words, why", [
    (["--audit-s3-url", "http://127.0.0.1:1/b"], "audit.s3_credentials"),
    (["--audit-s3-url", "http://127.0.0.1:1", "--audit-s3-credentials", "/dev/null"], "names no bucket"),
    (["--audit-s3-url", "http://127.0.0.1:1/b", "--audit-s3-credentials", "/nonexistent"], "cannot be read"),
    (["--audit-s3-url", "http://127.0.0.1:1/b", "--audit-s3-credentials", "/dev/null"], "is empty"),
    (["--audit-s3-region", "a b"], "is not a region"),
    (["--audit-syslog-url", "udp://127.0.0.1:514"], "tcp:// or tls://"),
])
def test_a_setting_that_cannot_be_used_is_named_at_the_start(words, why):
    daemon = Daemon(*words)
    try:
        with pytest.raises(RuntimeError, match=why):
            daemon.start()
    finally:
        daemon.remove()


@pytest.mark.parametrize("is_tls", [False, True], ids=["tcp", "tls"])
def test_syslog_gets_every_entry_also_those_of_a_time_when_it_was_down(tmp_path, is_tls):
    authority = Authority(tmp_path) if is_tls else None
    prefix = ["env", f"SSL_CERT_FILE={authority.cert}"] if is_tls else []
    with Syslog(tmp_path / "syslog", authority) as syslog, Running("--audit-syslog-url", syslog.url, prefix=prefix) as daemon:

        def arrived():
            texts = [json.loads(m[4]) for m in syslog.messages()]
            return hashes(daemon) <= {t["hash"] for t in texts} and texts

        write(daemon, 4)
        told = wait_for(lambda: problems(daemon).get("audit_syslog_failing"), 30, "the problem")
        assert "audit.syslog_url" in told["hint"]
        syslog.start()
        wait_for(arrived, 30, "all entries")
        wait_for(lambda: "audit_syslog_failing" not in problems(daemon), 30, "the end of the problem")
        priority, time, name, kind, text = [m for m in syslog.messages() if m[3] == "api.write"][0]
        assert (priority, name) == ("110", "cloche") and time.startswith("20") and json.loads(text)["data"]["status"] == 400
        syslog.stop(signal.SIGKILL)
        write(daemon, 4)
        syslog.start()
        wait_for(arrived, 60, "those of the time when it was down")
        texts = wait_for(arrived, 60, "all")
        places = [t["place"] for t in texts]
        assert sorted(set(places)) == list(range(min(places), max(places) + 1))  # none is missing
        assert figures(daemon)['cloche_audit_sent_total{sink="syslog"}'] >= 8
        if not is_tls:
            # What was sent long enough ago is not sent again after a restart.
            wait_for(lambda: figures(daemon)['cloche_audit_waiting{sink="syslog"}'] == 0, 30, "the place to be written down")
            assert daemon.stop() == 0
            daemon.start()
            write(daemon, 1)
            wait_for(arrived, 30, "the entries of the next start")
            assert [t["place"] for t in arrived()].count(places[0]) == places.count(places[0])


def test_a_syslog_server_that_cannot_be_trusted_gets_nothing(tmp_path):
    stranger = Authority(tmp_path, "stranger")
    trusted = Authority(tmp_path, "trusted")
    with Syslog(tmp_path / "syslog", stranger) as syslog:
        syslog.start()
        with Running("--audit-syslog-url", syslog.url, prefix=["env", f"SSL_CERT_FILE={trusted.cert}"]) as daemon:
            told = wait_for(lambda: problems(daemon).get("audit_syslog_failing"), 30, "the problem")
            assert "certificate" in told["message"]
        assert syslog.messages() == []
