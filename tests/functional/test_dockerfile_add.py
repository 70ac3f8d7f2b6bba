# SPDX-License-Identifier: Apache-2.0
"""ADD of a URL: fetched with the build's network, its mode, owner and name, what a checksum is for, and what is refused."""

import hashlib
import subprocess
import sys

import pytest
from cloche import Client, errors
from harness.daemon import wait_for
from harness.internet import OTHER
from harness.oci import busybox_layer, layout_of
from harness.running import running

PORT = 8571


@pytest.fixture(scope="module")
def files(internet, tmp_path_factory):
    """What a server gives, and its log."""
    directory = tmp_path_factory.mktemp("files")
    (directory / "tool").write_text("one\n")
    log = open(directory / "log", "wb")
    argv = [*internet.enter(internet.outer), sys.executable, "-u", "-m", "http.server", str(PORT), "--bind", OTHER, "--directory", str(directory)]
    server = subprocess.Popen(argv, stdout=log, stderr=log)
    wait_for(lambda: b"Serving" in (directory / "log").read_bytes() or server.poll() is not None, what="a server")
    internet.set_zone({"files.test": [OTHER]})
    yield directory
    internet.set_zone({})
    server.kill()
    server.wait()
    log.close()


@pytest.fixture(scope="module")
def client(internet, files):
    with running(internet.daemon("--pool-max", "0")) as daemon, Client(f"unix:{daemon.socket}", daemon.key, timeout=600) as client:
        base = busybox_layer()
        for name in ("wget", "sha256sum"):
            base.link(f"bin/{name}", "busybox")
        client.import_template("add-base", layout_of(base).tar())
        yield client


def build(client, text):
    client.build_template(dockerfile=text, name="add-made")
    with client.create(template="add-made") as box:
        return box.run("cd /put; for f in *; do stat -c '%n %a %u:%g' $f; cat $f; done", user="root").stdout


def count(files):
    return (files / "log").read_text().count('"GET /tool')


URL = f"http://files.test:{PORT}/tool"


def test_a_file_is_fetched_in_each_build_and_once_where_its_checksum_is_known(client, files):
    (files / "tool").write_text("one\n")
    text = f"FROM add-base\nADD {URL}?x=1 /put/\nADD --chmod=755 --chown=1000:1000 {URL} /put/other\n"
    assert build(client, text) == "other 755 1000:1000\none\ntool 600 0:0\none\n"
    (files / "tool").write_text("two\n")
    assert "other 755 1000:1000\ntwo\n" in build(client, text)
    known = f"FROM add-base\nADD --checksum=sha256:{hashlib.sha256(b'two' + bytes([10])).hexdigest()} --chmod=644 {URL} /put/same\nRUN --network=none echo done > /put/done\n"
    before = count(files)
    for _ in range(2):
        assert build(client, known) == "done 644 0:0\ndone\nsame 644 0:0\ntwo\n"
    assert count(files) == before + 1


@pytest.mark.parametrize("text, why", [
    (f"FROM add-base\nADD --checksum=sha256:{'0' * 64} {URL} /put/x\n", "has another checksum: sha256:"),
    (f"FROM add-base\nADD http://files.test:{PORT}/none /put/x\n", "cannot be fetched"),
    ("FROM add-base\nADD https://files.test/x /put/x\n", "does not verify servers"),
    ("FROM add-base\nADD http://169.254.169.254/x /put/x\n", "cannot be fetched"),
])  # fmt: skip
def test_what_cannot_be_fetched_fails_the_build_and_says_why(client, files, text, why):
    log = []
    with pytest.raises(errors.ClocheError) as failed:
        client.build_template(dockerfile=text, name="add-failed", on_log=log.append)
    assert why in str(failed.value) + "".join(log)
    with pytest.raises(errors.NotFound):
        client.template("add-failed")
