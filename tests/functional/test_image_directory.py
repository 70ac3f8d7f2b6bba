# SPDX-License-Identifier: Apache-2.0
"""Images whose working directory none of their layers has: it is made in each sandbox, as other runtimes do when a container starts."""


import re
import subprocess
from pathlib import Path

import pytest
from cloche import Client, errors
from harness.cli import Cli
from harness.daemon import Daemon, call
from harness.oci import busybox_layer, layout_of
from harness.running import running

MISSING = "/data/deep/work"
LOOK = "pwd; for d in /data /data/deep /data/deep/work; do stat -c '%n %u:%g %a %F' $d; done"
MADE = f"{MISSING}\n" + "".join(f"{d} 0:0 755 directory\n" for d in ("/data", "/data/deep", MISSING))
IMAGES = {
    "missing": {"WorkingDir": MISSING},
    "missing-user": {"WorkingDir": MISSING, "User": "app"},
    "there": {"WorkingDir": "/srv/own", "User": "app"},
    "file": {"WorkingDir": "/etc/mark"},
}


def add_bash(layer):
    """The host's own, for code: its driver needs a true one."""
    said = subprocess.run(["ldd", "/bin/bash"], capture_output=True, text=True, check=True).stdout
    for path in re.findall(r"(/\S+)", said):
        layer.add(path[1:], Path(path).read_bytes(), mode=0o755)
    layer.add("bin/bash", Path("/bin/bash").read_bytes(), mode=0o755)


@pytest.fixture(scope="module")
def own():
    """A daemon of its own: its templates stay mounted from one test to the next."""
    with running(Daemon("--pool-max", "1")) as daemon:
        yield daemon


@pytest.fixture(scope="module")
def client(own):
    with Client(own.url, own.key) as client:
        for word, config in IMAGES.items():
            layer = busybox_layer().dir("srv").dir("srv/own", 0o700, uid=1234, gid=1234).link("bin/mkdir", "busybox")
            add_bash(layer)
            client.import_template(word, layout_of(layer, config=config).tar())
        yield client
        for word in IMAGES:
            client.delete_template(word)


@pytest.mark.parametrize("word", ["missing", "missing-user"])
def test_commands_code_and_files_begin_in_a_directory_that_no_layer_has(client, word):
    with client.create(template=word) as sandbox:
        assert sandbox.run(LOOK).stdout == MADE
        assert sandbox.run_code("pwd", language="bash").stdout == f"{MISSING}\n"
        assert sandbox.files.list(".") == []
        if word == "missing":
            sandbox.files.write("f", b"1")
            assert sandbox.run("cat f").stdout == "1"
        else:  # it is root's, as elsewhere
            with pytest.raises(errors.FileDenied):
                sandbox.files.write("f", b"1")
    for _ in range(3):  # spares too
        assert client.run("pwd", template=word).stdout == f"{MISSING}\n"


def test_a_directory_that_an_image_has_stays_as_it_is(client):
    for _ in range(2):  # the second time nobody looks
        with client.create(template="there") as sandbox:
            assert sandbox.run("pwd; stat -c '%u:%g %a' .").stdout == "/srv/own\n1234:1234 700\n"


def test_where_a_file_is_in_its_place_each_command_says_so(client):
    with client.create(template="file") as sandbox:
        with pytest.raises(errors.ClocheError, match="cannot enter '/etc/mark'"):
            sandbox.run("true")
        with pytest.raises(errors.ClocheError, match="cannot enter '/etc/mark'"):
            sandbox.run_code("true", language="bash")
        assert sandbox.run("pwd", cwd="/").stdout == "/\n" and sandbox.files.read("/etc/mark") == b"lowest\n"


def test_what_a_snapshot_has_no_more_is_not_made_again(client):
    with client.create(template="missing") as sandbox:
        assert sandbox.run("cd /; rm -r /data", cwd="/").exit_code == 0
        snapshot = sandbox.snapshot()
        try:
            with client.create(snapshot=snapshot["id"]) as again, pytest.raises(errors.ClocheError, match=f"cannot enter '{MISSING}'"):
                again.run("true")
        finally:
            client.delete_snapshot(snapshot["id"])


def test_e2bs_and_vercels_wires_have_it(own, client):
    status, made = call(own, "POST", "/v2/sandboxes", {"templateID": "missing"}, key="", headers={"X-API-Key": own.key})
    assert status == 201, made
    fields = {"E2b-Sandbox-Id": made["sandboxID"], "E2b-Sandbox-Port": "49983", **({"X-Access-Token": made["envdAccessToken"]} if made.get("envdAccessToken") else {})}
    status, reply = call(own, "POST", "/filesystem.Filesystem/Stat", {"path": ""}, key="", headers=fields)
    assert (status, reply["entry"]["path"], reply["entry"]["type"]) == (200, MISSING, "FILE_TYPE_DIRECTORY"), reply
    sandbox = client.get("sb_" + made["sandboxID"])
    assert sandbox.run(LOOK).stdout == MADE
    sandbox.delete()
    status, made = call(own, "POST", "/vercel/api/v2/sandboxes", {"persistent": False, "image": "missing"})
    assert status == 200, made
    (sandbox,) = client.list()
    assert sandbox.run(LOOK).stdout == MADE
    sandbox.delete()


def test_a_dockerfile_over_such_an_image_runs_in_it(client):
    try:
        client.build_template(dockerfile="FROM missing\nRUN pwd > said && stat -c %u:%a . >> said\n", name="over")
        assert client.run("pwd; cat said", template="over").stdout == f"{MISSING}\n{MISSING}\n0:755\n"
    finally:
        client.delete_template("over")


def test_the_command_line_runs_in_it(own, client):
    cli = Cli(own)
    assert cli.ok("run", "--template", "missing", "--", "pwd") == f"{MISSING}\n"
