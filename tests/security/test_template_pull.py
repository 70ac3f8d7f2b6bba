# SPDX-License-Identifier: Apache-2.0
"""Images that a registry serves and that want more than to become a template: what is refused in an archive is refused here, too, and nothing is left."""

import gzip
import json
import os
import tarfile
import uuid

import pytest
from cloche import Client, errors
from harness.daemon import Daemon, free_port
from harness.hostile_layers import ENTRIES, bomb, small
from harness.oci import LAYER_GZIP, Layout, Tar, busybox_layer, layout_of
from harness.registry import Registry
from harness.running import running


@pytest.fixture(scope="module")
def registry():
    registry = Registry("127.0.0.1", free_port())
    yield registry
    registry.close()


@pytest.fixture(scope="module")
def own(registry):
    with running(Daemon("--pool-max", "0", "--network-may-open", "127.0.0.1/32")) as daemon:
        yield daemon


@pytest.fixture(scope="module")
def client(own):
    with Client(own.url, own.key) as client:
        yield client


@pytest.fixture
def pull(client, registry, tmp_path):
    """Serves a layout, and pulls it."""
    made = []

    def go(layout):
        name = f"h-{uuid.uuid4().hex[:10]}"
        layout.write(tmp_path / name)
        registry.push(tmp_path / name, f"team/{name}:1")
        made.append(name)
        return name, client.pull_template(name, f"{registry.at}/team/{name}:1")

    yield go
    for name in made:
        try:
            client.delete_template(name)
        except errors.NotFound:
            pass


def read_json(layout, descriptor):
    return json.loads(layout.files["blobs/sha256/" + descriptor["digest"][7:]])


def refused(client, pull, layout, what, error=errors.FileInvalid):
    before = {t["name"] for t in client.templates()}
    with pytest.raises(error, match=what):
        pull(layout)
    assert {t["name"] for t in client.templates()} == before and not list(client.list())


def test_E25_the_same_image_without_its_hostile_part_is_pulled(pull):
    assert pull(layout_of(small()))[1]["manifest"]["imported"]["layers"] == 1


@pytest.mark.parametrize("case", ENTRIES)
def test_E25_an_entry_of_a_pulled_layer_that_leads_out_or_is_no_file_is_refused(client, pull, case):
    add, what = ENTRIES[case]
    refused(client, pull, layout_of(add(small())), what or "archive entry")
    refused(client, pull, layout_of(small(), add(small())), what or "archive entry")  # in the second layer, over a good one


def test_E25_links_and_whiteouts_of_a_pulled_image_never_lead_out_of_its_root(client, pull):
    evil = busybox_layer().link("abs", "/").link("up", "../../../..").link("proc", "/proc/self/root").dir("etc/opaque").add("etc/opaque/low", b"x")
    evil.add("abs/etc/through-abs", b"1").add("up/etc/through-up", b"2").link("etc/target", "/etc/outside").add("etc/target", b"3")
    over = Tar().add("abs/.wh.up").add("etc/.wh.through-up").add("etc/opaque/.wh..wh..opq")
    name, _ = pull(layout_of(evil, over))
    with client.create(template=name) as sandbox:
        said = sandbox.run("cat /etc/through-abs /etc/target; ls / /etc /etc/opaque").stdout
    assert said.startswith("13") and all(word not in said for word in ("through-up", "outside", "\nup\n", "low"))
    assert os.path.exists("/etc/passwd") and not os.path.exists("/etc/through-abs") and not os.path.exists("/etc/outside")


def test_E25_a_whiteout_that_leads_upwards_is_refused(client, pull):
    refused(client, pull, layout_of(small(), Tar().add("../.wh.etc")), "leads upwards")
    refused(client, pull, layout_of(small(), Tar().add("etc/../../.wh.etc")), "leads upwards")


def test_E25_bits_of_a_pulled_image_give_nothing_and_attributes_devices_and_pipes_do_not_come_along(client, pull):
    with open("/bin/busybox", "rb") as f:
        layer = busybox_layer().dir("bin/set-id").add("bin/set-id/busybox", f.read(), mode=0o6755, pax={"SCHILY.xattr.security.capability": "\x01"})
    layer.add("pipe", kind=tarfile.FIFOTYPE).dir("dev").add("dev/null", kind=tarfile.CHRTYPE)
    name, made = pull(layout_of(layer))
    assert made["manifest"]["imported"]["left_out"] == 2
    with client.create(template=name) as sandbox:
        said = sandbox.run("stat -c %a /bin/set-id/busybox; /bin/set-id/busybox id -u; ls /pipe; echo > /dev/null && echo ours", user="user")
    assert said.stdout == "6755\n1000\nours\n" and "No such file" in said.stderr


def test_E25_a_pulled_layer_that_expands_beyond_reason_is_refused(client, pull):
    """Its digest and size are those that the manifest names: only its contents are too much."""
    layout = Layout()
    layer = layout.blob(bomb(), LAYER_GZIP)
    image = layout.image([small().bytes()])
    manifest = {**read_json(layout, image), "layers": [layer]}
    layout.add(layout.json(manifest, image["mediaType"]))
    refused(client, pull, layout, "expands beyond reason", errors.TooLarge)


def test_E25_a_pulled_layer_that_is_not_what_the_config_says_is_refused(client, pull):
    layout = Layout()
    image = layout.image([small().bytes()])
    other = layout.blob(gzip.compress(Tar().dir("etc").add("etc/mark", b"other").bytes()), LAYER_GZIP)
    layout.add(layout.json({**read_json(layout, image), "layers": [other]}, image["mediaType"]))
    refused(client, pull, layout, "digest|diff_id|not what")
