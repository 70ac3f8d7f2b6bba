# SPDX-License-Identifier: Apache-2.0
"""Archives that want more than to become a template. Each is tried beside one that differs in nothing but what is hostile."""

import gzip
import io
import json
import os
import re
import tarfile
import threading
import uuid

import pytest
from cloche import errors
from harness.cli import Cli
from harness.daemon import wait_for
from harness.hostile_layers import ENTRIES, bomb, small
from harness.oci import ARCH, CONFIG, INDEX, MANIFEST, OTHER_ARCH, Layout, Tar, busybox_layer, digest, docker_save, layout_of


def name_of():
    return f"h-{uuid.uuid4().hex[:10]}"


@pytest.fixture
def name(client):
    """A template's name; what it names afterwards is removed."""
    word = name_of()
    yield word
    try:
        client.delete_template(word)
    except errors.NotFound:
        pass


@pytest.fixture(scope="module", autouse=True)
def honest(client):
    """The positive control: the same archives without their hostile part are taken."""
    word = name_of()
    for archive in (small().bytes(), layout_of(small()).tar(), docker_save([small().bytes()])):
        client.import_template(word, archive, replace=True)
    client.delete_template(word)


def refused(client, name, archive, what, error=errors.FileInvalid):
    with pytest.raises(error, match=what) as caught:
        client.import_template(name, archive)
    with pytest.raises(errors.NotFound):
        client.template(name)
    return caught.value


@pytest.mark.parametrize("case", ENTRIES)
def test_E25_an_entry_that_leads_out_or_is_no_file_is_refused(client, name, case):
    add, what = ENTRIES[case]
    archive = add(small()).bytes()
    if what:
        refused(client, name, archive, what)
        refused(client, name, layout_of(add(small())).tar(), what)
    else:
        client.import_template(name, archive)
        refused(client, name_of(), layout_of(add(small())).tar(), "archive entry")


def test_E25_links_lead_as_in_the_root_and_never_out_of_it(client, name):
    evil = busybox_layer().link("abs", "/").link("up", "../../../..").link("proc", "/proc/self/root")
    evil.add("abs/etc/through-abs", b"1").add("up/etc/through-up", b"2").link("etc/target", "/etc/outside").add("etc/target", b"3")
    client.import_template(name, layout_of(evil, Tar().add("abs/.wh.up").add("etc/.wh.through-up")).tar())
    with client.create(template=name) as sandbox:
        said = sandbox.run("cat /etc/through-abs /etc/target; ls / /etc").stdout
    assert said.startswith("13") and "through-up" not in said and "outside" not in said and "\nup\n" not in said
    assert not os.path.exists("/etc/through-abs") and not os.path.exists("/etc/outside")


def test_E25_bits_give_nothing_and_attributes_and_pipes_do_not_come_along(client, name):
    with open("/bin/busybox", "rb") as f:
        layer = busybox_layer().dir("bin/set-id").add("bin/set-id/busybox", f.read(), mode=0o6755, pax={"SCHILY.xattr.security.capability": "\x01"})
    layer.add("pipe", kind=tarfile.FIFOTYPE).dir("dev").add("dev/null", kind=tarfile.CHRTYPE)
    made = client.import_template(name, layout_of(layer).tar())
    assert made["manifest"]["imported"]["left_out"] == 2
    with client.create(template=name) as sandbox:
        said = sandbox.run("stat -c %a /bin/set-id/busybox; /bin/set-id/busybox id -u; ls /pipe; echo > /dev/null && echo ours", user="user")
    assert said.stdout == "6755\n1000\nours\n" and "No such file" in said.stderr


def test_E25_damaged_archives_are_refused(client, name):
    whole = small().bytes()
    refused(client, name, whole[:700], "ends in the middle")
    refused(client, name, gzip.compress(whole)[:-20], "ends in the middle")
    refused(client, name, b"not an archive" * 100, "no tar archive")
    refused(client, name, b"", "no tar archive")
    broken = bytearray(whole)
    broken[124:136] = b"-0000000001\0"  # a negative size; the checksum tells as well
    refused(client, name, bytes(broken), "damaged|no tar archive|negative")
    refused(client, name, Tar().add("readme", b"x").bytes(), "no root")


def test_E25_what_expands_beyond_reason_is_refused(client, name):
    refused(client, name, bomb(), "expands beyond reason", errors.TooLarge)


def test_a_layer_that_is_not_what_its_digest_says_is_refused(client, name):
    layout = layout_of(small())
    for path in [p for p in layout.files if p.startswith("blobs/")]:
        broken = Layout()
        broken.files, broken.manifests = dict(layout.files), layout.manifests
        broken.files[path] = layout.files[path][:-1] + b" "
        refused(client, name, broken.tar(), "damaged|another size|ends in the middle|digest")
    # Its name and size are right, and what is in it is not what the config says.
    forged = Layout()
    other = forged.image([small().add("etc/other").bytes()])
    config = {"architecture": ARCH, "os": "linux", "rootfs": {"type": "layers", "diff_ids": [digest(small().bytes())]}}
    manifest = json.loads(forged.files["blobs/sha256/" + other["digest"][7:]])
    forged.add(forged.json({**manifest, "config": forged.json(config, CONFIG)}, MANIFEST))
    refused(client, name, forged.tar(), "diff_id is another")
    refused(client, name, docker_save([small().bytes()]).replace(b"here\n", b"hERE\n"), "diff_id is another")


def test_what_is_missing_or_not_understood_is_named(client, name):
    layout = layout_of(small())
    for path in [p for p in layout.files if p.startswith("blobs/")]:
        less = Layout()
        less.files, less.manifests = {k: v for k, v in layout.files.items() if k != path}, layout.manifests
        refused(client, name, less.tar(), "is not in the archive")
    refused(client, name, layout_of(small(), layer_type="application/vnd.oci.image.layer.v1.tar+gzip+encrypted").tar(), "encrypted")
    refused(client, name, layout_of(small(), arch=OTHER_ARCH).tar(), OTHER_ARCH)
    refused(client, name, layout_of(small(), os="windows").tar(), "windows")
    empty = Layout()
    refused(client, name, empty.tar(), "no image")
    index = Layout()
    for arch in ("riscv64", OTHER_ARCH):
        index.add(index.image([small().bytes()], arch=arch), arch=arch)
    refused(client, name, index.tar(), f"riscv64, {OTHER_ARCH}")
    note = Layout()
    refused(client, name, note.add(note.json({}, "application/vnd.example.note")).tar(), "vnd.example.note")


def test_json_that_is_huge_deep_or_turns_in_a_circle_is_refused(client, name):
    huge = layout_of(small())
    huge.files["index.json"] = b'{"manifests": [], "x": "' + b"x" * (5 << 20) + b'"}'
    refused(client, name, huge.tar(), "over 4 MiB")
    deep = layout_of(small())
    deep.files["index.json"] = b'{"manifests": ' + b"[" * 100 + b"]" * 100 + b"}"
    refused(client, name, deep.tar(), "nested deeper")
    twice = layout_of(small())
    twice.files["index.json"] = b'{"manifests": [], "manifests": []}'
    refused(client, name, twice.tar(), "index.json")
    nested = Layout()
    blob = nested.image([small().bytes()])
    for _ in range(5):
        blob = nested.json({"schemaVersion": 2, "manifests": [blob]}, INDEX)
    refused(client, name, nested.add(blob).tar(), "nested deeper")
    # A circle needs a digest that holds itself: all that can be made is a lie.
    circle = Layout()
    me = {"mediaType": INDEX, "digest": "sha256:" + "0" * 64, "size": 100}
    circle.files["blobs/sha256/" + "0" * 64] = json.dumps({"manifests": [me]}).encode()
    refused(client, name, circle.add(me).tar(), "damaged")
    many = Layout()
    many.add(many.image([small().bytes()] * 600))
    refused(client, name, many.tar(), "more than 512")


@pytest.mark.parametrize("path", ["../../etc/passwd", "/etc/passwd", "a-link", "a-dir", "a-pipe"])
def test_paths_in_docker_saves_manifest_lead_to_files_of_the_archive_alone(client, name, path):
    tar = Tar().link("a-link", "/etc/passwd").dir("a-dir").add("a-pipe", kind=tarfile.FIFOTYPE)
    tar.add("manifest.json", json.dumps([{"Config": path, "RepoTags": None, "Layers": [path]}]).encode())
    refused(client, name, tar.bytes(), "is not in the archive")


def test_what_an_image_says_of_itself_is_checked_as_a_request_is(client, name):
    for config, what in (
        ({"Env": ["no-equals"]}, "NAME=value"),
        ({"Env": [{"a": 1}]}, "NAME=value"),
        ({"Env": [f"V{i}=x" for i in range(5000)]}, "env"),
        ({"User": "a b; rm -rf /"}, "user"),
        ({"User": "4000000000"}, "user"),
        ({"WorkingDir": "/x" * 2000}, "cwd"),
        ({"Entrypoint": "text"}, "Entrypoint"),
        ({"Cmd": [1]}, "Cmd"),
        ({"Labels": {"dev.cloche.template": "not json"}}, "manifest"),
        ({"Labels": {"dev.cloche.template": json.dumps({"env": {"A": 1}})}}, "env"),
    ):
        refused(client, name, layout_of(small(), config=config).tar(), what, errors.ClocheError)


def test_E26_a_directory_is_sent_without_following_its_links(client, cli_of, name, tmp_path):
    (tmp_path / "root" / "etc").mkdir(parents=True)
    (tmp_path / "secret").write_text("t0p-s3cret")
    (tmp_path / "root" / "etc" / "link").symlink_to(tmp_path / "secret")
    (tmp_path / "root" / "etc" / "dir").symlink_to(tmp_path)
    cli_of("template", "import", "--name", name, tmp_path / "root")
    archive = b"".join(client.export_template(name))
    with client.create() as sandbox:
        unpack(sandbox, archive)
        said = sandbox.run("cd /tmp/root; readlink etc/link etc/dir; grep -r t0p-s3cret .")
    assert said.stdout == f"{tmp_path / 'secret'}\n{tmp_path}\n"


def unpack(sandbox, archive):
    """The layer of an export, below /tmp/root. Python reads no zstd, so the sandbox's agent does."""
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        layer = tar.extractfile(tar.getmembers()[-1]).read()
    sandbox.files.tar_in("/tmp/root", layer, parents=True)


@pytest.fixture
def cli_of(daemon):
    return Cli(daemon).ok


def test_S06_an_export_holds_nothing_of_the_sandbox_or_the_daemon(daemon, client, name):
    with client.create(env={"TOKEN": "t0p-s3cret-env"}) as sandbox:
        script = "mkdir -p /template/etc /template/root && echo t0p-s3cret-file > /template/root/.netrc && echo x > /template/etc/x"
        assert sandbox.run(script, user="root").exit_code == 0
        client.create_template(name, sandbox, tree=True)
    archive = b"".join(client.export_template(name))
    with client.create() as sandbox:
        unpack(sandbox, archive)
        sandbox.files.tar_in("/tmp/in", archive, parents=True)
        names = sandbox.run("cd /tmp; find root in; cat in/index.json in/blobs/sha256/*; grep -r . root").stdout_bytes
    assert b"etc/x" in names
    for secret in (b"t0p-s3cret", b".netrc", daemon.key.encode(), str(daemon.data).encode()):
        assert secret not in names


def test_S12_a_template_that_is_being_exported_stays(client, name):
    client.import_template(name, busybox_layer().add("big", os.urandom(24_000_000)).bytes())  # more than sockets hold
    pieces = client.export_template(name)
    first = next(pieces)
    with pytest.raises(errors.Conflict):
        client.delete_template(name)
    rest = first + b"".join(pieces)
    client.delete_template(name)
    assert client.import_template(name, rest)["name"] == name


def leftovers(daemon):
    names = os.listdir(daemon.data / "templates") + os.listdir(daemon.data / "layers")
    return [n for n in names if n.startswith(("seal_", "sb_")) or n.endswith(".gone")]


def images(daemon):
    return {n for n in os.listdir(daemon.data / "templates") if re.fullmatch("[0-9a-f]{64}", n)}


def test_a_client_that_leaves_in_the_middle_leaves_nothing(daemon, client, name):
    before, there = images(daemon), set(leftovers(daemon))
    gate = threading.Event()

    def half():
        yield small().bytes()[:512]
        gate.wait(60)
        raise ConnectionAbortedError("the client is gone")

    ends = []

    def send():
        try:
            client.import_template(name, half())
        except Exception as e:  # whatever http.client makes of it
            ends.append(e)

    thread = threading.Thread(target=send)
    thread.start()
    wait_for(lambda: set(leftovers(daemon)) - there, what="the sandbox of the import")
    gate.set()
    thread.join()
    assert ends
    wait_for(lambda: set(leftovers(daemon)) <= there, what="its end")
    assert images(daemon) == before
    with pytest.raises(errors.NotFound):
        client.template(name)
