# SPDX-License-Identifier: Apache-2.0
"""Volumes against those who would reach another's, get out by one, or take more than its size."""

import subprocess
import uuid

import pytest
from cloche import Client, errors
from harness.daemon import call

pytestmark = pytest.mark.jail("a vm has no volumes")


@pytest.fixture
def tenant(client, daemon):
    """A function that makes clients of fresh projects; what they have is deleted at the end."""
    made = []

    def make(**limits):
        project = client.create_project(f"v-{uuid.uuid4().hex[:10]}")["id"]
        if limits:
            client.set_quota(project=project, **limits)
        secret = client.create_key("k", scope="write", project=project)["secret"]
        own = Client(daemon.url, secret)
        own.secret, own.daemon = secret, daemon
        made.append(own)
        return own

    yield make
    for own in made:
        for sandbox in own.list():
            sandbox.delete()
        for volume in own.volumes():
            own.delete_volume(volume["id"])
        own.close()


def test_S17_another_projects_volume_is_not_there_by_id_or_name(tenant):
    mine, other = tenant(), tenant()
    volume = mine.create_volume("data")
    for word in (volume["id"], "data"):
        with pytest.raises(errors.NotFound):
            other.volume(word)
        with pytest.raises(errors.NotFound):
            other.delete_volume(word)
        with pytest.raises(errors.InvalidField, match="no volume"):
            other.create(volumes={"/v": word})
    assert other.volumes() == []
    theirs = other.create_volume("data")
    assert theirs["id"] != volume["id"]
    with mine.create(volumes={"/v": "data"}) as a, other.create(volumes={"/v": "data"}) as b:
        a.run("echo secret > /v/x").check()
        assert b.run("ls -A /v").stdout == "" and a.run("ls -A /v").stdout == "x\n"


def test_S18_a_link_that_is_put_where_a_volume_belongs_leads_nowhere(tenant):
    own = tenant()
    own.create_volume("data")
    sandbox = own.create(persistent=True, volumes={"/home/user/v/w": "data"})
    sandbox.run("echo inside > v/w/mark").check()
    sandbox.stop()
    assert sandbox.run("cat v/w/mark").stdout == "inside\n"  # as long as nothing is in the way
    sandbox.run("mv v old && ln -s /etc v").check()
    sandbox.stop()
    with pytest.raises(errors.Conflict, match="in the way"):
        sandbox.run("true")
    sandbox.delete()
    with own.create(volumes={"/v": "data"}) as next_one:
        assert next_one.run("ls /v").stdout == "mark\n"


def test_S18_what_lies_in_a_volume_gives_nobody_power_and_no_way_out(tenant, daemon):
    own = tenant()
    volume = own.create_volume("data")
    with own.create(volumes={"/v": "data"}) as a, own.create(volumes={"/v": "data"}) as b:
        a.run("cp /bin/id /v/id && chown root:root /v/id && chmod 6755 /v/id && ln -s /etc/shadow /v/out", user="root").check()
        assert "uid=1000" in b.run("/v/id").stdout and "euid" not in b.run("/v/id").stdout
        assert a.run("mknod /v/disk b 7 0", user="root").exit_code != 0
        options = b.run("awk '$2 == \"/v\" {print $4}' /proc/mounts").stdout.split(",")
        assert {"nosuid", "nodev"} <= set(options)
        a.run("echo 1 > /etc/mine", user="root").check()
        b.run("ln -s /etc/mine /v/theirs").check()
        assert b.run("cat /v/theirs").exit_code != 0  # a link is read where it is followed
        assert a.run("cat /v/theirs").stdout == "1\n"
        assert b.run("ls -A /v/..").stdout == b.run("ls -A /").stdout
        assert a.run("umount /v", user="root").exit_code != 0
    on_disk = daemon.data / "layers" / volume["id"]
    assert sorted(p.name for p in on_disk.iterdir()) == ["files", "keeper"]
    assert (on_disk / "files" / "id").stat().st_uid == 0  # ids on disk are those inside, of whichever range


FILL = "dd if=/dev/urandom of=/v/fill bs=1M count=64 status=none"
SUBVOLUME = """
import errno, fcntl, os, struct
fd = os.open("/v", os.O_RDONLY)
for number in (0x5000940e, 0x50009418, 0x50009417, 0x50009401, 0x40049409):
    try:
        fcntl.ioctl(fd, number, bytearray(struct.pack("q", fd) + b"sub".ljust(4088, bytes(1))))
        print("done")
    except OSError as e:
        print(errno.errorcode[e.errno])
"""


def test_S19_a_volume_ends_at_its_size(tenant):
    own = tenant()
    own.create_volume("small", size_mib=16)
    with own.create(volumes={"/v": "small"}) as sandbox:
        full = sandbox.run(FILL)
        assert full.exit_code != 0 and "quota" in full.stderr.lower(), full.stderr
        sandbox.run("dd if=/dev/zero of=/home/user/own bs=1M count=20 status=none").check()  # its own disk has room
        assert own.volume("small")["used_bytes"] <= 17 << 20


def test_S19_nobody_inside_makes_a_subvolume_which_would_have_no_limit(tenant, daemon):
    own = tenant()
    volume = own.create_volume("data")
    with own.create(volumes={"/v": "data"}) as sandbox:
        for user in ("user", "root"):
            assert sandbox.run(["python3", "-c", SUBVOLUME], user=user).stdout.split() == ["EPERM"] * 5
    # It is the filter that refuses: whoever has none can make one there.
    inside = daemon.data / "layers" / volume["id"] / "files" / "sub"
    subprocess.run(["btrfs", "-q", "subvolume", "create", str(inside)], check=True)
    subprocess.run(["btrfs", "-q", "subvolume", "delete", str(inside)], check=True)


def test_S19_volumes_are_bounded_by_the_quota_of_disk(tenant):
    own = tenant(disk_mib=100)
    own.create_volume("a", size_mib=60)
    with pytest.raises(errors.QuotaError) as refused:
        own.create_volume("b", size_mib=60)
    assert refused.value.what == "disk_mib"
    assert own.quota()["current"]["disk_mib"] == 60
    own.delete_volume("a")
    own.create_volume("b", size_mib=60)


def content(daemon, id, token, path="/", part="dir"):
    return call(daemon, "GET", f"/volumecontent/{id}/{part}?path={path}", headers={"Authorization": f"Bearer {token}"})


def test_S17_the_files_of_a_volume_open_to_its_own_token_alone(tenant, daemon):
    mine, other = tenant(), tenant()

    def volume(own):
        id = own.create_volume("data")["id"]
        return id, call(daemon, "GET", f"/volumes/{id}", key=own.secret)[1]["token"]

    (id, token), (_, strange) = volume(mine), volume(other)
    assert content(daemon, id, token)[0] == 200
    for wrong in (strange, mine.secret, token[:-1], "", "null"):
        assert content(daemon, id, wrong)[0] == 401, wrong
    assert call(daemon, "GET", f"/volumes/{id}", key=other.secret)[0] == 404
    status, body = content(daemon, id, token, "/../etc/hostname", "file")  # no further than into a sandbox of its own
    assert (status, body.strip().startswith(b"sb-")) == (200, True), body


def test_S17_another_projects_volume_is_not_copied(tenant):
    mine, other = tenant(), tenant()
    volume = mine.create_volume("data", size_mib=16)
    for word in (volume["id"], "data"):
        with pytest.raises(errors.InvalidField, match="source.*no volume"):
            other.create_volume("taken", source=word)
        assert call_vercel(other, f"drives/{word}/fork", {"name": "taken"})[0] == 404
    assert other.volumes() == []


def test_S19_a_copy_holds_no_more_than_its_size_and_writes_a_file_of_many_names_once(tenant, daemon):
    own = tenant(disk_mib=90)
    own.create_volume("data", size_mib=24)
    with own.create(volumes={"/v": "data"}, limits={"disk_mib": 32}) as sandbox:
        sandbox.run("cd /v && dd if=/dev/urandom of=f bs=1M count=16 status=none && for i in $(seq 2000); do ln f l$i; done", timeout=60).check()
        sandbox.run("cd /v && for i in $(seq 200); do mkdir deep && cd deep || exit 1; done; echo end > end").check()
    before = int(subprocess.run(["stat", "-fc", "%f", str(daemon.data / "layers")], check=True, capture_output=True, text=True).stdout)
    own.create_volume("copy", source="data")
    after = int(subprocess.run(["stat", "-fc", "%f", str(daemon.data / "layers")], check=True, capture_output=True, text=True).stdout)
    assert (before - after) * 4096 < 512 << 20  # not 2000 times 16 MiB
    with own.create(volumes={"/v": "copy"}, limits={"disk_mib": 32}) as sandbox:
        assert sandbox.run("cat $(find /v -name end); stat -c %h /v/f").stdout == "end\n2001\n"
        assert "quota" in sandbox.run("dd if=/dev/urandom of=/v/more bs=1M count=16 status=none").stderr.lower()
    with pytest.raises(errors.QuotaError):
        own.create_volume("third", source="data", size_mib=64)


def call_vercel(client, path, body):
    return call(client.daemon, "POST", f"/vercel/api/v2/sandboxes/{path}", body, key=client.secret)
