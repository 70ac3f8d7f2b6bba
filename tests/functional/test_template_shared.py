# SPDX-License-Identifier: Apache-2.0
"""Pulled images share the layers that they have in common: what is here is neither fetched nor stored again."""

import hashlib
import json
import os
import re
import uuid

import pytest
from cloche import Client, errors
from harness.daemon import Daemon, free_port, wait_for
from harness.oci import CONFIG, Tar, busybox_layer, digest, layout_of
from harness.registry import Registry
from harness.running import running

MIB = 2**20
LIST = r"""cd /; find . -xdev \( -path ./proc -o -path ./sys -o -path ./dev -o -path ./run -o -path ./tmp -o -path ./opt/cloche -o -name hostname -o -name hosts \) -prune -o -exec stat -c '%n %f %u:%g %h %Y' {} \; """
RANDOM = os.urandom(6 * MIB)


def lower():
    """Two layers of a base."""
    many = Tar().dir("data").dir("data/old").add("data/old/file", b"old\n").dir("data/opaque").add("data/opaque/gone", b"1")
    many.add("data/random", RANDOM).add("data/numbers", b"1\n" * 5000).add("data/gone", b"gone").add("data/becomes", b"a file").link("data/link", "numbers")
    for i in range(40):
        many.add(f"data/file-{i}", b"%d\n" % i)
    return [busybox_layer(), many]


def upper():
    """Two layers with all that a layer can do to those below it."""
    one = Tar().dir("data").dir("data/old").add("data/old/.wh.file").add("data/.wh.gone").dir("data/opaque").add("data/opaque/.wh..wh..opq").add("data/opaque/new", b"new\n")
    one.dir("data/becomes").add("data/becomes/inside", b"2\n").add("data/file-7", b"seven\n", mode=0o600, uid=1000, gid=1000).hard("data/also-7", "data/file-7")
    two = Tar().add("data/link", b"no link\n").hard("data/again", "data/numbers").add("etc/mark", b"upper\n").dir("data/old/deep").add("data/old/deep/file", b"deep\n")
    return [one, two]


@pytest.fixture(scope="module")
def own():
    with running(Daemon("--pool-max", "0", "--network-may-open", "127.0.0.1/32")) as daemon:
        yield daemon


@pytest.fixture(scope="module")
def client(own):
    with Client(own.url, own.key) as client:
        yield client


@pytest.fixture(scope="module")
def registry():
    registry = Registry("127.0.0.1", free_port())
    yield registry
    registry.close()


@pytest.fixture
def push(registry, tmp_path):
    def push(name, layout):
        where = tmp_path / uuid.uuid4().hex
        layout.write(where)
        registry.push(where, name)
        return f"{registry.at}/{name}"

    return push


@pytest.fixture
def base(client, push):
    """The base that is here, and a word for names; all templates of that name go with it."""
    made = client.pull_template("shared-base", push("team/base:1", layout_of(*lower())), replace=True)
    yield made
    for name in [t["name"] for t in client.templates() if t["name"].startswith("shared-")]:
        client.delete_template(name)


def fetched(registry, before=""):
    """The blobs that it gave away since then."""
    return re.findall(r'"GET /v2/\S+/blobs/(sha256:\w+) ', registry.log()[len(before) :])


def blobs(layout):
    return [row["digest"] for row in json.loads(layout.files["blobs/sha256/" + layout.manifests[0]["digest"][7:]])["layers"]]


def listing(client, template):
    with client.create(template=template) as box:
        said = box.run(LIST + "| sort; cat /data/again /data/also-7 /data/link /etc/mark /data/old/deep/file; ls /data/opaque", user="root")
        assert said.exit_code == 0, said.stderr
        return said.stdout


def test_only_the_upper_layers_are_fetched_and_stored(own, client, registry, push, base):
    layout = layout_of(*lower(), *upper(), config={"Env": ["A=b"]})
    ref, before = push("team/task:1", layout), registry.log()
    assert base["bytes"] > 6 * MIB and base["shared_bytes"] == 0
    made = client.pull_template("shared-task", ref)
    got = fetched(registry, before)
    assert [digest for digest in blobs(layout) if digest in got] == blobs(layout)[2:]
    assert made["shared_bytes"] == base["bytes"] and made["bytes"] < MIB
    assert (made["manifest"]["imported"]["layers"], made["manifest"]["imported"]["shared_layers"], made["manifest"]["env"]) == (4, 2, {"A": "b"})
    client.import_template("shared-whole", layout.tar())  # the control: the same image, stored whole
    assert client.template("shared-whole")["shared_bytes"] == 0
    assert listing(client, "shared-task") == listing(client, "shared-whole")
    further = client.pull_template("shared-further", push("team/further:1", layout_of(*lower(), *upper(), Tar().add("data/further", b"3\n"))))
    assert further["manifest"]["imported"]["shared_layers"] == 4 and further["bytes"] < MIB
    client.delete_template("shared-base")
    client.delete_template("shared-task")
    own.kill_parts("gateway", "broker")
    with client.create(template="shared-further") as box:
        assert box.run("cat /data/further /etc/mark; wc -c < /data/random").stdout == f"3\nupper\n{len(RANDOM)}\n"


def test_an_image_of_the_same_layers_is_the_same_image(client, registry, push, base):
    ref, before = push("team/same:1", layout_of(*lower(), config={"Env": ["OTHER=1"]})), registry.log()
    made = client.pull_template("shared-same", ref)
    assert made["digest"] == base["digest"] and made["manifest"]["env"] == {"OTHER": "1"} and len(fetched(registry, before)) == 1  # its config
    client.delete_template("shared-base")
    with client.create(template="shared-same") as box:
        assert box.run("cat /etc/mark; echo $OTHER").stdout == "lowest\n1\n"


def test_what_another_project_has_is_not_shared(client, own, registry, push, base):
    project = client.create_project("shared-other")
    layout = layout_of(*lower(), *upper())
    ref, before = push("team/elsewhere:1", layout), registry.log()
    with Client(own.url, client.create_key("shared-other", project=project["id"])["secret"]) as other:
        made = other.pull_template("shared-theirs", ref)
        assert made["shared_bytes"] == 0 and set(blobs(layout)) <= set(fetched(registry, before))
        other.delete_template("shared-theirs")
    client.delete_project(project["id"])
    assert client.pull_template("shared-ours", ref)["shared_bytes"] == base["bytes"]  # the control


def lying(layout, diff_ids):
    """The image, with a config that says this of its layers."""
    old = json.loads(layout.files["blobs/sha256/" + layout.manifests[0]["digest"][7:]])
    config = json.loads(layout.files["blobs/sha256/" + old["config"]["digest"][7:]])
    config["rootfs"]["diff_ids"] = diff_ids
    layout.manifests = [layout.json({**old, "config": layout.json(config, CONFIG)}, old["mediaType"])]
    return layout


def test_what_an_image_says_of_its_layers_is_not_believed(own, client, push, base):
    """With the base's layers named in its config it gets these, whatever its registry has instead; and of what comes, each byte is verified."""
    ids = [digest(t.bytes()) for t in lower()]
    ours, theirs = Tar().add("data/upper", b"1\n"), Tar().add("etc/mark", b"hostile\n")
    client.pull_template("shared-lie", push("team/lie:1", lying(layout_of(theirs, theirs, ours), [*ids, digest(ours.bytes())])))
    with client.create(template="shared-lie") as box:
        assert box.run("cat /etc/mark /data/upper").stdout == "lowest\n1\n"
    before = {b.id for b in client.list()}
    with pytest.raises(errors.FileInvalid, match="is damaged: its diff_id is another"):
        client.pull_template("shared-false", push("team/false:1", lying(layout_of(*lower(), theirs), [*ids, digest(b"another")])))
    with pytest.raises(errors.FileInvalid, match="other layers than the manifest"):
        client.pull_template("shared-false", push("team/false:2", lying(layout_of(*lower(), theirs), ids)))
    with pytest.raises(errors.NotFound):
        client.template("shared-false")
    assert {b.id for b in client.list()} == before
    hex = base["digest"].removeprefix("sha256:")
    assert hashlib.sha256((own.data / "templates" / hex / "image.erofs").read_bytes()).hexdigest() == hex


def test_a_pull_that_is_killed_over_its_base_leaves_nothing(own, client, push, base):
    big = Tar().add("data/big", os.urandom(24 * MIB))
    ref = push("team/killed:1", layout_of(*lower(), big))
    seen = []

    def kill(phase, n):
        seen.append(phase)
        if phase != "waiting" and len(seen) > 2 and seen.count("killed") == 0:
            seen.append("killed")
            own.kill_parts("gateway")

    with pytest.raises(errors.ClocheError):
        client.pull_template("shared-killed", ref, on_progress=kill)
    assert "killed" in seen
    wait_for(lambda: not list((own.data / "layers").glob("sb_*")), what="its sandbox to be gone")
    made = client.pull_template("shared-killed", ref)
    assert made["shared_bytes"] == base["bytes"] and made["bytes"] < 26 * MIB
