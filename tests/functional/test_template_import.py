# SPDX-License-Identifier: Apache-2.0
"""Templates that come from outside: images of containers, and roots."""

import gzip
import io
import json
import os
import shutil
import subprocess
import tarfile
import uuid
from contextlib import suppress

import pytest
from cloche import Client, errors
from harness.daemon import Daemon, wait_for
from harness.oci import ARCH, INDEX, OTHER_ARCH, Layout, Tar, busybox_layer, digest, docker_save, layout_of
from harness.running import running
from harness.vm import need_vms, vm_daemon


def name_of(word="i"):
    return f"{word}-{uuid.uuid4().hex[:10]}"


@pytest.fixture
def name(client):
    """A template's name; what it names afterwards is removed."""
    word = name_of()
    yield word
    try:
        client.delete_template(word)
    except errors.NotFound:
        pass


def test_an_oci_layout_runs_with_its_env_user_and_directory(client, name):
    config = {"Env": ["PATH=/bin", "STAGE=made=here"], "User": "app:app", "WorkingDir": "/etc", "Entrypoint": ["/bin/sh"], "Cmd": ["-c", "env"]}
    made = client.import_template(name, layout_of(busybox_layer().add("etc/group", b"app:x:4321:\n"), config=config).tar())
    assert made["name"] == name and made["digest"].startswith("sha256:")
    assert made["manifest"]["entrypoint"] == ["/bin/sh"] and made["manifest"]["cmd"] == ["-c", "env"]
    assert made["manifest"]["imported"]["kind"] == "oci" and made["manifest"]["imported"]["layers"] == 1
    with client.create(template=name) as sandbox:
        assert sandbox.run("cat mark; id -u; id -g; pwd; echo $STAGE").stdout == "lowest\n1234\n4321\n/etc\nmade=here\n"


def test_layers_hide_what_is_below_them(client, name):
    first = busybox_layer().dir("a").add("a/gone", b"1").add("a/kept", b"1").dir("full").add("full/one", b"1").dir("full/deep").add("full/deep/x", b"1")
    first.dir("was-dir").add("was-dir/inner", b"1").add("was-file", b"1").link("alias", "/a")
    # The order within a layer is anybody's: what it has itself stays, wherever the whiteout stands.
    second = Tar().add("a/new", b"2").add("a/.wh.gone").add("full/two", b"2").add("full/.wh..wh..opq").add("a/.wh.never-was")
    third = Tar().add("was-dir", b"3").dir("was-file").add("was-file/inner", b"3").add("alias/through", b"3").add("etc/mark", b"top\n")
    third.add("a/.wh.new").add("a/new", b"3")  # taken away from below, and made anew
    client.import_template(name, layout_of(first, second, third).tar())
    with client.create(template=name) as sandbox:
        listed = sandbox.run("cd /; cat etc/mark; find a full was-dir was-file | LC_ALL=C sort 2>/dev/null || true; ls a full was-dir was-file; cat a/new was-dir a/through").stdout
    assert "top\n" in listed
    assert "a:\nkept\nnew\nthrough\n" in listed
    assert "full:\ntwo\n" in listed
    assert "was-file:\ninner\n" in listed and "\nwas-dir\n" in listed
    assert listed.endswith("333")


def test_owners_modes_times_and_links_are_kept(client, name):
    layer = busybox_layer().dir("d", 0o2750, uid=7, gid=8, mtime=1_500_000_000).add("d/f", b"x", mode=0o4711, uid=65535, gid=100, mtime=1_600_000_000)
    layer.hard("d/g", "d/f").link("d/l", "f", uid=9, gid=9).add("d/alien", uid=200_000, gid=3)
    made = client.import_template(name, layout_of(layer, compress=False).tar())
    assert made["manifest"]["imported"]["owners_changed"] == 1
    with client.create(template=name) as sandbox:
        said = sandbox.run("stat -c '%n %a %u %g %Y %h' /d /d/f /d/g /d/l /d/alien /tmp; readlink /d/l", user="root").stdout.splitlines()
    assert said[0].startswith("/d 2750 7 8 1500000000")
    assert said[1] == "/d/f 4711 65535 100 1600000000 2"
    assert said[2] == "/d/g 4711 65535 100 1600000000 2"
    assert said[3].startswith("/d/l 777 9 9")
    assert said[4].startswith("/d/alien 644 65534 3")
    assert said[5].startswith("/tmp 1777 0 0")
    assert said[6] == "f"


def test_docker_save_runs(client, name):
    second = Tar().add("etc/second", b"2\n").add("etc/.wh.mark")
    archive = docker_save([busybox_layer().bytes(), second.bytes()], config={"Env": ["A=b"], "WorkingDir": "/etc"})
    made = client.import_template(name, archive)
    assert made["manifest"]["imported"]["kind"] == "docker" and made["manifest"]["user"] == "root"
    with client.create(template=name) as sandbox:
        assert sandbox.run("id -u; echo $A; ls; cat second").stdout == "0\nb\nhostname\nhosts\nmachine-id\npasswd\nresolv.conf\nsecond\nssl\n2\n"


@pytest.mark.slow
@pytest.mark.parametrize("pack", [bytes, gzip.compress], ids=["plain", "gzip"])
def test_the_tar_of_a_root_runs(client, name, pack):
    seen = []
    made = client.import_template(name, io.BytesIO(pack(busybox_layer().bytes())), on_progress=lambda phase, n: seen.append((phase, n)))
    assert made["manifest"]["imported"]["kind"] == "root" and "user" not in made["manifest"]
    assert [p for p, _ in seen][0] == "unpacking" and seen[-1][0] == "sealing"
    with client.create(template=name) as sandbox:
        assert sandbox.run("cat /etc/mark; id -u").stdout == "lowest\n1000\n"


def test_the_same_image_is_the_same_digest(client, name):
    archive = layout_of(busybox_layer(), Tar().add("srv/app/new", b"x")).tar()
    again = name_of()
    try:
        first, second = client.import_template(name, archive), client.import_template(again, archive)
        assert first["digest"] == second["digest"] and first["id"] != second["id"]
    finally:
        client.delete_template(again)


def test_of_several_architectures_the_hosts_is_taken(client, name):
    layout = Layout()
    here = layout.image([busybox_layer().bytes()])
    there = layout.image([Tar().add("etc/mark", b"other\n").bytes()], arch=OTHER_ARCH)
    note = {**layout.json({"schemaVersion": 2}, "application/vnd.example.note"), "platform": {"os": "unknown", "architecture": "unknown"}}
    index = {"schemaVersion": 2, "mediaType": INDEX, "manifests": []}
    for blob, arch in ((there, OTHER_ARCH), (here, ARCH)):
        index["manifests"].append({**blob, "platform": {"os": "linux", "architecture": arch}})
    index["manifests"].append(note)
    layout.add(layout.json(index, INDEX))
    client.import_template(name, layout.tar())
    with client.create(template=name) as sandbox:
        assert sandbox.run("cat /etc/mark").stdout == "lowest\n"


def test_of_several_images_one_has_to_be_named(client, name):
    layout = Layout()
    for word in ("one", "two"):
        layer = busybox_layer().add("etc/which", word.encode())
        layout.add(layout.image([layer.bytes()]), ref=f"app:{word}")
    with pytest.raises(errors.FileInvalid, match="app:one, app:two"):
        client.import_template(name, layout.tar())
    client.import_template(name, layout.tar(), ref="two")
    with client.create(template=name) as sandbox:
        assert sandbox.run("cat /etc/which").stdout == "two"


def test_a_name_that_is_taken_is_refused_before_anything_is_read(client, name):
    client.import_template(name, busybox_layer().bytes())
    with pytest.raises(errors.Conflict):
        client.import_template(name, busybox_layer().bytes())
    second = client.import_template(name, busybox_layer().add("etc/two").bytes(), replace=True)
    assert client.template(name) == second


@pytest.mark.slow
def test_the_command_line_takes_a_directory_a_file_and_stdin(client, cli, tmp_path):
    layout = layout_of(busybox_layer(), config={"Env": ["A=b"]})
    layout.write(tmp_path / "layout")
    (tmp_path / "from-a-file.tar.gz").write_bytes(gzip.compress(layout.tar()))
    names = [name_of(), "from-a-file", name_of()]
    try:
        cli.ok("template", "import", "--name", names[0], tmp_path / "layout")
        cli.ok("template", "import", tmp_path / "from-a-file.tar.gz")
        status, _, said = cli.bytes("template", "import", "--name", names[2], "-", data=layout.tar())
        assert status == 0, said
        bad, _, why = cli("template", "import", "--name", name_of(), "-", data="no tar at all" * 100)
        assert bad != 0 and "is no tar archive" in why
        assert len({client.template(n)["digest"] for n in names}) == 1
        assert cli.ok("run", "--template", names[0], "--", "sh", "-c", "cat /etc/mark; echo $A") == "lowest\nb\n"
    finally:
        for name in names:
            client.delete_template(name)


@pytest.mark.slow
def test_what_is_exported_removed_and_imported_is_the_same_image(client, name):
    layer = busybox_layer().dir("d", 0o2750, uid=7, gid=8, mtime=1_500_000_000).add("d/f", b"x" * 100_000, mode=0o4711, uid=9, mtime=1_600_000_000)
    layer.hard("d/g", "d/f").link("d/l", "f", uid=9).add("d/" + "long/" * 30 + "name", b"deep", pax={"mtime": "1600000000.123456789"})
    config = {"Env": ["STAGE=test"], "User": "app", "WorkingDir": "/etc", "Entrypoint": ["/bin/sh"], "Labels": {"other": "label"}}
    first = client.import_template(name, layout_of(layer, config=config).tar())
    archive = b"".join(client.export_template(name))
    assert archive == b"".join(client.export_template(first["id"]))
    client.delete_template(name)
    second = client.import_template(name, archive)
    assert second["digest"] == first["digest"]
    for field in ("env", "user", "cwd", "entrypoint", "sealed"):
        assert second["manifest"][field] == first["manifest"][field]
    with client.create(template=name) as sandbox:
        assert sandbox.run("id -u; pwd; echo $STAGE; cat /etc/mark").stdout == "1234\n/etc\ntest\nlowest\n"


def test_a_template_of_a_sandbox_is_the_same_image_elsewhere(client, make_sandbox, name):
    sandbox = make_sandbox()
    script = "mkdir -p /template/etc /template/tmp && echo x > /template/etc/x && ln /template/etc/x /template/etc/y && chmod 1777 /template/tmp"
    assert sandbox.run(script, user="root").exit_code == 0
    made = client.create_template(name, sandbox, tree=True, small=True)
    archive = b"".join(client.export_template(name))
    client.delete_template(name)
    assert client.import_template(name, archive)["digest"] == made["digest"]


def test_an_export_is_an_oci_layout_that_others_read(client, name):
    client.import_template(name, busybox_layer().bytes())
    with tarfile.open(fileobj=io.BytesIO(b"".join(client.export_template(name)))) as tar:
        files = {m.name: tar.extractfile(m).read() for m in tar.getmembers()}
    for path, data in files.items():
        assert not path.startswith("blobs/") or "sha256:" + path.rpartition("/")[2] == digest(data)
    (described,) = json.loads(files["index.json"])["manifests"]
    manifest = json.loads(files["blobs/sha256/" + described["digest"][7:]])
    config = json.loads(files["blobs/sha256/" + manifest["config"]["digest"][7:]])
    assert described["platform"]["architecture"] == config["architecture"] == ARCH
    assert manifest["layers"][0]["size"] == len(files["blobs/sha256/" + manifest["layers"][0]["digest"][7:]])


def test_host_is_no_image_to_export(client):
    with pytest.raises(errors.Conflict):
        client.export_template("host")
    with pytest.raises(errors.NotFound):
        client.export_template("no-such-template")


@pytest.mark.slow
def test_the_command_line_exports_to_a_file_or_a_pipe(client, cli, name, tmp_path):
    client.import_template(name, busybox_layer().bytes())
    status, piped, said = cli.bytes("template", "export", name)
    assert status == 0 and piped == b"".join(client.export_template(name)), said
    cli.ok("template", "export", name, "-o", tmp_path / f"{name}.tar")
    assert (tmp_path / f"{name}.tar").read_bytes() == piped
    assert cli("template", "export", name, "-o", tmp_path / "no" / "where")[0] != 0
    before = client.template(name)["digest"]
    cli.ok("template", "rm", name)
    cli.ok("template", "import", tmp_path / f"{name}.tar")
    assert client.template(name)["digest"] == before
    assert cli.ok("run", "--template", name, "--", "cat", "/etc/mark") == "lowest\n"


def test_a_name_that_an_image_cannot_have_is_told(client, name):
    long = "n" * 255
    with pytest.raises(errors.FileInvalid, match="etc/nnn.* has a name of 255 bytes"):
        client.import_template(name, busybox_layer().add(f"etc/{long}").bytes())
    made = client.import_template(name, busybox_layer().add(f"etc/{long[1:]}").add(f"tmp/{long}").bytes())
    assert made["name"] == name


@pytest.fixture
def cramped():
    """A daemon whose data lie on a tmpfs."""
    daemon = Daemon("--plain-storage", "--default-memory", "256MiB", "--pool-max", "0", "--no-zygotes")
    daemon.data.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=240m,mode=0755", "cloche-test", str(daemon.data)], check=True)
    try:
        yield daemon.start()
    finally:
        daemon.stop()
        subprocess.run(["umount", str(daemon.data)], check=True)
        daemon.remove()


@pytest.mark.slow
def test_a_disk_that_is_full_in_the_middle_of_a_seal_is_told_and_nothing_is_left(cramped):
    def halves():
        return [n for n in os.listdir(cramped.data / "templates") if n.startswith("seal_")]

    with Client(cramped.url, cramped.key) as client, client.create() as sandbox:
        made = sandbox.run("mkdir -p /template/etc && head -c 84000000 /dev/urandom > /template/big", user="root")
        assert made.exit_code == 0, made.stderr
        ballast = cramped.data / "ballast"
        with open(ballast, "wb") as f:  # enough to begin with, not enough to end
            f.write(bytes(max(0, shutil.disk_usage(cramped.data).free - (70 << 20))))
        with pytest.raises(errors.DiskFull, match="disk has no room"):
            client.create_template("too-large", sandbox, tree=True)
        assert halves() == [] and shutil.disk_usage(cramped.data).free > 60 << 20
        ballast.unlink()

        def fits():
            with suppress(errors.HostDiskFull):  # until the next look at the disk
                return client.create_template("fits", sandbox, tree=True)

        assert wait_for(fits, what="room for it")["bytes"] > 84_000_000


OWN_RECIPE = 'name = "own"\nfrom = "debian:trixie"\npackages = ["hello"]\n'


@pytest.mark.slow
def test_where_jails_are_forbidden_images_come_in_and_own_recipes_do_not_run():
    """The daemon's own work is done in jails all the same; nothing of a client's runs there."""
    need_vms()
    daemon = vm_daemon("--engine", "vm")
    with running(daemon), Client(daemon.url, daemon.key) as client:
        made = client.import_template("mine", io.BytesIO(busybox_layer().bytes()))
        assert made["manifest"]["imported"]["kind"] == "root"
        with pytest.raises(errors.Forbidden, match="forbid jails"):
            client.create(engine="jail", template="mine")
        with pytest.raises(errors.Forbidden, match="forbid jails"):
            client.build_template(OWN_RECIPE)
        with pytest.raises(errors.Forbidden, match="forbid jails"):
            client.create(template="mine", packages=["hello"])
        client.import_template("node", io.BytesIO(busybox_layer().bytes()))
        with pytest.raises(errors.Forbidden, match="has to be a shared template"):
            client.build_template(name="bun")
