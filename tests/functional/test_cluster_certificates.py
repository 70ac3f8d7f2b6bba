# SPDX-License-Identifier: Apache-2.0
"""Certificates of nodes renew themselves by way of a database that is not believed; nobody gets one of another node, or by a key that was replaced; and the authority is replaced while all runs."""

import base64
import contextlib
import json
import os
import shutil
import socket
import ssl
import subprocess
import time

import pytest
from harness.cluster import Node
from harness.daemon import BUILD, free_port, wait_for

pytestmark = pytest.mark.skipif(not (BUILD / "cloche-cluster").exists(), reason="built without libpq")
TERM_S = 75  # renewed when 25 s are left, which a busy machine may need, and told to be late when 18 are


@pytest.fixture
def place(database, tmp_path):
    nodes = []

    class Place:
        folder = tmp_path

        def ask(self, sql):
            return database.ask(sql, "one")

        def node(self, name, **options):
            nodes.append(Node(name, database.conninfo("one"), address=f"127.0.0.1:{free_port()}", **options))
            return nodes[-1]

        def first(self, **options):
            n = self.node("a", **options)
            n.init(database.owner("one"), fence_after_s=3)
            return n.start()

        def join(self, first, name):
            n = self.node(name)
            n.join(first.ask("cluster", "invite")["token"])
            return n

    database.ask("DROP SCHEMA IF EXISTS cluster CASCADE", "one")
    yield Place()
    for n in nodes:
        n.close()


def kept(node, name):
    return node.data / "cluster" / name


def renewed(node):
    """Its key and certificate, once those that it joined with are replaced."""
    path = kept(node, "root/certificate/renewed.json")
    return json.loads(path.read_text()) if path.exists() else None


def openssl(*words, stdin=None, check=True):
    r = subprocess.run(["openssl", *words], input=stdin, capture_output=True)
    assert not check or r.returncode == 0, r.stderr.decode()
    return r.stdout


def text_of(certificate):
    return openssl("x509", "-noout", "-serial", "-ext", "subjectAltName", stdin=certificate.encode()).decode()


def serial_of(certificate):
    return text_of(certificate).splitlines()[0]


def shown(node, folder, key, certificate, authority):
    """The serial of what a node shows to a peer with this certificate; "" if it does not speak with that one."""
    for name, text in (("key", key), ("certificate", certificate), ("authority", authority)):
        (folder / name).write_text(text)
    context = ssl.create_default_context(cafile=folder / "authority")
    context.check_hostname = False
    context.load_cert_chain(folder / "certificate", folder / "key")
    host, port = node.address.split(":")
    try:
        with socket.create_connection((host, int(port)), timeout=20) as s, context.wrap_socket(s) as tls:
            serial = serial_of(ssl.DER_cert_to_PEM_cert(tls.getpeercert(binary_form=True)))
            tls.settimeout(1)
            with contextlib.suppress(TimeoutError):
                tls.recv(1)  # in TLS 1.3 a client hears of its refusal behind the handshake
            return serial
    except (ssl.SSLError, ConnectionError):
        return ""


def test_each_certificate_is_followed_in_time_and_what_stands_in_its_way_is_told(place):
    a = place.first(certificate_s=TERM_S)
    b, forged, unheard = (place.join(a, name).start() for name in ("b", "forged", "unheard"))
    for n in (a, b, forged, unheard):
        n.await_state("held")
    first = {n: {"key": kept(n, "node.key").read_text(), "certificate": kept(n, "node.crt").read_text()} for n in (a, b, forged)}
    authority = kept(a, "authority.crt").read_text()
    wait_for(lambda: shown(b, place.folder, **first[a], authority=authority) == serial_of(first[b]["certificate"]), 30, "b shows what it joined with")
    # A database that hands out the certificate of another node, and one that hears nobody.
    number = {n: n.status()["node"] for n in (b, forged, unheard)}
    place.ask(f"""CREATE FUNCTION cluster.forge() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        IF NEW.node = {number[forged]} THEN NEW.certificate := '{first[b]["certificate"]}'; NEW.refusal := NULL; END IF; RETURN NEW; END $$;
        CREATE TRIGGER forge BEFORE INSERT OR UPDATE ON cluster.renewal_answers FOR EACH ROW EXECUTE FUNCTION cluster.forge();
        CREATE FUNCTION cluster.unhear() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN CASE WHEN NEW.node = {number[unheard]} THEN NULL ELSE NEW END; END $$;
        CREATE TRIGGER unhear BEFORE INSERT ON cluster.renewals FOR EACH ROW EXECUTE FUNCTION cluster.unhear()""")
    wait_for(lambda: renewed(a) and renewed(b), 120, "both are renewed")
    # One that nobody renews is told before its end, here, to its gateway and on the others, with what repairs it. (On a slow machine it has ended by now.)
    late = ("certificate_ending", "certificate_ended")
    wait_for(lambda: unheard.problem() in late, 30, "it is told")
    assert "cloche node join TOKEN --replace" in unheard.status()["problem"]["hint"]
    wait_for(lambda: unheard.gateway().word()["code"] in late, 30, "its gateway hears of it, for health and alerts")
    wait_for(lambda: any(n.get("problem", {}).get("code", "") in late for n in b.status()["directory"] if n["name"] == "unheard"), 30, "b tells of it")
    forged.await_problem("certificate_not_renewed")
    assert "not the cluster's" in forged.status()["problem"]["message"]
    assert renewed(forged) is None
    place.ask("DROP TRIGGER forge ON cluster.renewal_answers; DELETE FROM cluster.renewal_answers")
    wait_for(lambda: renewed(forged), 60, "an honest database renews it")
    wait_for(lambda: forged.problem() == "", 30, "nothing is wrong with it any more")
    for n in (a, b, forged):
        now, before = renewed(n), first[n]
        assert now["key"] != before["key"]
        assert text_of(now["certificate"]).splitlines()[1:] == text_of(before["certificate"]).splitlines()[1:]  # the same names
        (place.folder / "now").write_text(now["certificate"])
        openssl("verify", "-CAfile", kept(n, "authority.crt"), place.folder / "now")
        assert kept(n, "root/certificate/renewed.json").stat().st_mode & 0o777 == 0o600
    wait_for(lambda: renewed(a) and shown(b, place.folder, **renewed(a), authority=authority) == serial_of(renewed(b)["certificate"]), 30, "it shows the new one, without a restart")
    assert a.process.poll() is None and "listening" in b.log()
    unheard.await_problem("certificate_ended")
    old = {"key": kept(unheard, "node.key").read_text(), "certificate": kept(unheard, "node.crt").read_text()}
    assert shown(b, place.folder, **old, authority=authority) == ""
    # It goes on with what it has after a restart.
    serial = serial_of(renewed(b)["certificate"])
    b.kill()
    b.start().await_state("held")
    wait_for(lambda: shown(b, place.folder, **renewed(a), authority=authority), 30, "b speaks again")
    assert serial in (shown(b, place.folder, **renewed(a), authority=authority), serial) and renewed(b)


class Asker:
    """A node that is asked for by this test, with all that its disk has."""

    def __init__(self, place, node):
        self.place, self.node = place, node
        self.file = json.loads(kept(node, "node.json").read_text())
        self.certificate = kept(node, "node.crt").read_text()

    def request(self, name=None):
        """A new key, and a request for its certificate."""
        key = self.place.folder / "new.key"
        return openssl("req", "-new", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", key, "-subj", f"/CN={name or self.file['name']}").decode()

    def sign(self, request, at_s, key=None):
        said = f"cloche renewal of a certificate\n{self.file['cluster_id']}\n{at_s}\n{request}"
        return base64.b64encode(openssl("dgst", "-sha256", "-sign", key or kept(self.node, "node.key"), stdin=said.encode())).decode()

    def ask(self, request, *, signature=None, certificate=None, at_s=None):
        """The certificate, or why there is none."""
        at_s = at_s or time.time_ns()
        text = json.dumps({"certificate": certificate or self.certificate, "request": request, "at_s": at_s, "signature": signature or self.sign(request, at_s)})
        call = f"SELECT cluster.ask_renewal({self.file['node']}, '{self.file['secret']}', $t${text}$t$)"

        def answered():
            answers = json.loads(self.place.ask(call))["answers"]
            return answers and (answers[0]["certificate"], answers[0]["refusal"])

        return wait_for(answered, 60, "an answer")


def test_only_who_has_the_newest_key_of_a_node_gets_its_next_certificate_and_none_of_another_node(place):
    a = place.first()
    a.await_state("held")
    victim = place.join(a, "victim")
    c = place.join(a, "c")
    asker = Asker(place, c)
    request = asker.request()
    # Who shows the certificate of another node, which is no secret.
    _, refusal = asker.ask(request, certificate=kept(victim, "node.crt").read_text())
    assert refusal == "certificate_not_renewed the certificate that it shows is of 'victim', not of 'c'"
    # Who has not its key: another request than was signed, another time, and another node's key.
    for wrong in ({"signature": asker.sign(asker.request(), 1), "at_s": 1}, {"signature": asker.sign(request, 1), "at_s": 2}, {"signature": asker.sign(request, 3, kept(victim, "node.key")), "at_s": 3},
                  {"signature": "AAAA"}, {"signature": "A" * 4000}):
        certificate, refusal = asker.ask(request, **wrong)
        assert certificate is None and "not signed by the key" in refusal, wrong
    # One of another authority, one that is none, and no request at all.
    alien = openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", place.folder / "alien.key", "-subj", "/CN=c",
                    "-addext", f"subjectAltName=URI:cloche://{asker.file['cluster_id']}/c").decode()
    at_s = 4
    _, refusal = asker.ask(request, certificate=alien, at_s=at_s, signature=asker.sign(request, at_s, place.folder / "alien.key"))
    assert "not of this cluster" in refusal
    assert "not of this cluster" in asker.ask(request, certificate="nothing")[1]
    assert asker.ask("nothing")[0] is None
    # A request for another node's name is signed for one's own.
    for_a = asker.request("a")
    certificate, refusal = asker.ask(for_a)
    assert refusal is None and f"URI:cloche://{asker.file['cluster_id']}/c" in text_of(certificate) and "/a" not in text_of(certificate).replace(asker.file["cluster_id"], "")
    assert "CN = c" in openssl("x509", "-noout", "-subject", stdin=certificate.encode()).decode()
    # The same new key again, as when an answer was lost; but no second one by the key that was replaced: it may have been stolen.
    assert asker.ask(for_a)[0]
    certificate, refusal = asker.ask(asker.request())
    assert certificate is None and refusal.startswith("certificate_superseded")
    # The rightful node, behind a thief that was quicker, is told as soon as it asks.
    shutil.copy(kept(c, "authority.crt"), place.folder / "authority.old")
    other = new_authority(place, a)
    kept(c, "authority.crt").write_text(other + kept(a, "authority.crt").read_text())  # by an authority that signs no more: it asks at its start
    c.start().await_problem("certificate_superseded")
    assert "somebody has a copy" in c.status()["problem"]["hint"]
    # Nobody answers for another, asks for another, or answers what is not asked.
    mine = json.loads(kept(victim, "node.json").read_text())
    for sql in (f"SELECT cluster.ask_renewal(1, '{mine['secret']}', 'x')", f"SELECT cluster.answer_renewal(1, '{mine['secret']}', {asker.file['node']}, repeat('0', 64), 'x', NULL)",
                f"SELECT cluster.renewals_open(1, '{mine['secret']}')", f"SELECT cluster.end_renewal(1, '{mine['secret']}')"):
        with pytest.raises(AssertionError, match="its secret is another"):
            place.ask(sql)
    assert place.ask(f"SELECT cluster.answer_renewal({mine['node']}, '{mine['secret']}', {asker.file['node']}, repeat('0', 64), 'x', NULL)") == "f"


def new_authority(place, a):
    cluster_id = json.loads(kept(a, "node.json").read_text())["cluster_id"]
    return openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", place.folder / "authority.key", "-days", "3650",
                   "-subj", f"/O=cloche/CN={cluster_id}", "-addext", "basicConstraints=critical,CA:TRUE,pathlen:0", "-addext", "keyUsage=critical,keyCertSign").decode()


def test_the_authority_is_replaced_while_all_runs(place):
    """As docs/design/member.md says."""
    a = place.first()
    b = place.join(a, "b").start()
    old = kept(a, "authority.crt").read_text()
    new = new_authority(place, a)

    def believe(text):
        for n in (a, b):
            n.kill()
            kept(n, "authority.crt").write_text(text)
            n.start().await_state("held")

    believe(old + new)
    a.kill()
    shutil.copy(place.folder / "authority.key", kept(a, "authority.key"))
    place.ask(f"UPDATE cluster.cluster SET certificate = '{new}'")
    believe(new + old)
    wait_for(lambda: renewed(a) and renewed(b), 60, "both have certificates of the new one")
    believe(new)
    (place.folder / "ca").write_text(new)
    for n in (a, b):
        (place.folder / "now").write_text(renewed(n)["certificate"])
        openssl("verify", "-CAfile", place.folder / "ca", place.folder / "now")
    wait_for(lambda: shown(b, place.folder, **renewed(a), authority=new) == serial_of(renewed(b)["certificate"]), 30, "they speak")
    before = {"key": kept(a, "node.key").read_text(), "certificate": kept(a, "node.crt").read_text()}
    assert shown(b, place.folder, **before, authority=new) == ""  # what the old one has signed is over
    c = place.join(a, "c").start()
    c.await_state("held")
    assert os.path.exists(kept(c, "node.crt"))
