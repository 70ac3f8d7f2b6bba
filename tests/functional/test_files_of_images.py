# SPDX-License-Identifier: Apache-2.0
"""File calls in sandboxes of images: they are made by the user, and begin in the directory, that a command there has."""

import io
import tarfile
import uuid
from concurrent.futures import ThreadPoolExecutor

import pytest
from cloche import Client, errors
from harness.cli import Cli
from harness.daemon import Daemon, call
from harness.oci import busybox_layer, layout_of
from harness.running import running

APP = (1234, 4321)
# What an image says, who that is inside, where its commands begin, and where this user may write below that.
IMAGES = {
    "root": ({"User": "root"}, (0, 0), "/root", ""),
    "unsaid": ({}, (0, 0), "/root", ""),
    "number": ({"User": "1500:1600"}, (1500, 1600), "/", "open/"),  # no line of passwd says its home
    "name": ({"User": "app:team"}, APP, "/srv", ""),
    "directory": ({"User": "app:team", "WorkingDir": "/work"}, APP, "/work", ""),
    "roots-directory": ({"WorkingDir": "/work"}, (0, 0), "/work", ""),
}


def layer():
    tar = busybox_layer().dir("root", 0o700).dir("open", 0o777).dir("home").dir("home/user", uid=1000, gid=1000)
    tar.dir("srv", uid=APP[0], gid=APP[1]).dir("work", uid=APP[0], gid=APP[1])
    return tar.add("etc/group", b"root:x:0:\nteam:x:4321:\n")


@pytest.fixture(scope="module")
def own():
    """A daemon of its own: its templates stay mounted from one test to the next."""
    with running(Daemon("--pool-max", "0")) as daemon:
        yield daemon


@pytest.fixture(scope="module")
def client(own):
    with Client(own.url, own.key) as client:
        yield client


@pytest.fixture(scope="module")
def images(client):
    """The template of each of IMAGES, by its word."""
    for word, (config, *_) in IMAGES.items():
        client.import_template(f"of-{word}", layout_of(layer(), config=config).tar())
    yield {word: f"of-{word}" for word in IMAGES}
    for word in IMAGES:
        client.delete_template(f"of-{word}")


@pytest.fixture(params=IMAGES)
def of_image(request, client, images):
    """A sandbox, who its commands are, where they begin, and where they may write below that."""
    with client.create(template=images[request.param]) as sandbox:
        yield sandbox, *IMAGES[request.param][1:]


def owner(sandbox, path):
    return tuple(map(int, sandbox.run(["stat", "-c", "%u %g", path], user="root").stdout.split()))


def test_a_file_belongs_to_who_a_command_is_and_is_where_it_begins(of_image):
    sandbox, ids, place, at = of_image
    assert sandbox.run("pwd; id -u; id -g").stdout == f"{place}\n{ids[0]}\n{ids[1]}\n"
    entry = sandbox.files.write(at + "one", b"1")
    assert (entry.uid, entry.gid, entry.path) == (*ids, at + "one")
    sandbox.run(["sh", "-c", f"echo of a command > {at}two"]).check()
    assert owner(sandbox, f"{place}/{at}one") == owner(sandbox, f"{place}/{at}two") == ids
    assert sandbox.files.read(at + "two") == b"of a command\n" and sandbox.run(["cat", at + "one"]).stdout == "1"
    assert sandbox.files.stat(at + "two").path == at + "two"
    assert sandbox.files.stat(f"{place}/{at}two").path == f"{place}/{at}two"


def test_every_call_is_of_that_user_and_begins_there(of_image):
    sandbox, ids, place, at = of_image
    files = sandbox.files
    files.mkdir(at + "a/b", parents=True)
    files.write(at + "a/b/c", b"x", parents=True)
    files.copy(at + "a/b", at + "copy", recursive=True)
    files.move(at + "copy", at + "moved")
    files.symlink(at + "link", "moved/c")  # what a link says is its own text
    files.chmod(at + "moved/c", 0o600)
    if ids[0]:
        with pytest.raises(errors.FileDenied):
            files.chown(at + "moved", "root")
    archive = b"".join(files.tar_out(at + "moved"))
    files.tar_in(at + "unpacked", archive, parents=True)
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        assert {m.name.strip("./") for m in tar if m.isfile()} == {"c"}
    for name in ("a", "a/b", "a/b/c", "moved", "moved/c", "unpacked", "unpacked/c"):
        assert owner(sandbox, f"{place}/{at}{name}") == ids, name
    assert sandbox.run(["cat", at + "link"]).stdout == "x" and sandbox.run(["readlink", at + "link"]).stdout == "moved/c\n"
    assert {e.path for e in files.list(at + "a", recursive=True)} == {"b", "b/c"}
    assert files.exists(at + "moved/c") and not files.exists(at + "copy")
    files.remove(at + "a", recursive=True)
    assert not files.exists(f"{place}/{at}a")


def test_a_watch_sees_what_a_command_does_where_it_begins(of_image):
    sandbox, _, _, at = of_image
    with sandbox.files.watch(at or ".") as watch:
        assert next(watch)["type"] == "ready"
        sandbox.run(["sh", "-c", f"echo 1 > {at}seen"]).check()
        with ThreadPoolExecutor(1) as other:
            try:
                assert other.submit(next, watch).result(30) == {"type": "created", "path": "seen"}
            finally:
                watch.close()


def test_a_user_that_is_named_begins_there_too(client, images):
    with client.create(template=images["directory"]) as sandbox:
        sandbox.files.write("by-root", b"", user="root")
        assert owner(sandbox, "/work/by-root") == (0, 0) and sandbox.run("pwd", user="root").stdout == "/work\n"
        with pytest.raises(errors.FileDenied):
            sandbox.files.write("/root/not-its-own", b"")


def test_a_path_is_too_long_only_with_the_directory_in_front(client, images):
    long = "/".join(["d" * 200] * 20)  # 4019 bytes; the kernel takes 4095
    with client.create(template=images["directory"]) as sandbox:
        sandbox.files.write(long[:3900].rstrip("/") + "/f", b"1", parents=True)
        with pytest.raises(errors.InvalidField, match="path: is too long behind the working directory /work"):
            sandbox.files.stat(long + "/" + "e" * 74)


def test_a_copy_and_a_sandbox_of_a_snapshot_keep_user_and_directory(client, images):
    with client.create(template=images["directory"]) as sandbox:
        sandbox.files.write("kept", b"1")
        snapshot = sandbox.snapshot()
        try:
            with client.create(snapshot=snapshot["id"]) as again:
                assert again.files.read("kept") == b"1" and again.files.write("more", b"").uid == APP[0]
        finally:
            client.delete_snapshot(snapshot["id"])


def test_files_and_results_of_a_run_are_those_of_its_command(client, images):
    word = uuid.uuid4().hex
    done = client.run("cat in; id -u > out; stat -c %u in", template=images["directory"], files=[{"path": "in", "text": "given "}], results=["out"], tags={"run": word})
    assert done.stdout == "given 1234\n"
    (ended,) = client.list(tag=f"run:{word}", state="stopped")
    assert ended.read_result("out") == b"1234\n"
    ended.delete()


def test_the_command_line_copies_to_where_a_command_begins(own, client, images, tmp_path):
    cli = Cli(own)
    (tmp_path / "brought").write_text("here")
    with client.create(template=images["directory"]) as sandbox:
        cli.ok("cp", str(tmp_path / "brought"), f"{sandbox.id}:brought")
        assert sandbox.run("cat brought; stat -c %u:%g brought").stdout == "here1234:4321\n"


def test_e2bs_wire_writes_as_the_images_user_where_it_begins(own, client, images):
    status, made = call(own, "POST", "/v2/sandboxes", {"templateID": images["directory"]}, key="", headers={"X-API-Key": own.key})
    assert status == 201, made
    fields = {"E2b-Sandbox-Id": made["sandboxID"], "E2b-Sandbox-Port": "49983", **({"X-Access-Token": made["envdAccessToken"]} if made.get("envdAccessToken") else {})}

    def rpc(method, message):
        status, reply = call(own, "POST", f"/filesystem.Filesystem/{method}", message, key="", headers=fields)
        assert status == 200, reply
        return reply

    sandbox = client.get("sb_" + made["sandboxID"])
    try:
        for path, at in (("d", "/work/d"), ("~/d", "/srv/d")):
            assert rpc("MakeDir", {"path": path})["entry"]["path"] == at
            assert owner(sandbox, at) == APP
        assert rpc("Move", {"source": "d", "destination": "~/moved"})["entry"]["path"] == "/srv/moved"
        sandbox.files.write("inner", b"")
        assert [e["path"] for e in rpc("ListDir", {"path": ""})["entries"]] == ["/work/inner"]
        assert {e["path"] for e in rpc("ListDir", {"path": "~"})["entries"]} == {"/srv/d", "/srv/moved"}
    finally:
        sandbox.delete()


def test_without_an_image_it_is_the_default_user_at_home(sandbox):
    entry = sandbox.files.write("mine", b"1")
    assert (entry.uid, entry.gid, entry.user) == (1000, 1000, "user")
    assert sandbox.run("pwd; cat mine").stdout == "/home/user\n1"
