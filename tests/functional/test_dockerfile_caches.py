# SPDX-License-Identifier: Apache-2.0
"""RUN --mount=type=cache: what stays between the builds of a project, for whom, how much, and who waits."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from cloche import Client, errors
from harness.daemon import Daemon, wait_for
from harness.oci import busybox_layer, layout_of
from harness.running import running

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
VOLUME = "build-cache"


@pytest.fixture(scope="module")
def own():
    with running(Daemon("--pool-max", "0")) as daemon:
        yield daemon


@pytest.fixture(scope="module")
def client(own):
    with Client(own.url, own.key) as client:
        client.import_template("small", layout_of(busybox_layer(), config={"Env": [f"PATH={PATH}"]}).tar())
        yield client


@pytest.fixture(autouse=True)
def clean(client):
    yield
    for template in client.templates():
        if template["name"].startswith("cached"):
            client.delete_template(template["name"])
    if VOLUME in [v["name"] for v in client.volumes()]:
        client.delete_volume(VOLUME)


def build(client, command, *, name="cached", mount="target=/cache", before="", **more):
    log = []
    text = f"FROM small\n{before}RUN --mount=type=cache,{mount} {command}\n"
    client.build_template(dockerfile=text, name=name, on_log=log.append, **more)
    return "".join(log)


def test_a_cache_lasts_between_builds_and_is_not_in_the_template(client):
    build(client, "echo first > /cache/x; ls -ld /opt/cloche", before="RUN mkdir -p /cache && echo old > /cache/old\n")
    log = build(client, "cat /cache/x; ls -A /cache/; echo second > /made")
    assert "\nfirst\nx\n" in log
    with client.create(template="cached") as box:
        assert box.run("cat /made; ls -A / | grep -c volume; ls -A /cache /opt/cloche").stdout.split() == ["second", "0", "/cache:", "/opt/cloche:", "bin", "kernels"]
    volume = client.volume(VOLUME)
    assert volume["size_mib"] == 2048 and 0 < volume["used_bytes"] < 1 << 20 and volume["sandbox_ids"] == []


def test_what_was_in_the_place_before_is_there_again(client):
    build(client, "test ! -e /cache/old && echo x > /cache/x", before="RUN mkdir -p /cache && echo old > /cache/old\n")
    with client.create(template="cached") as box:
        assert box.run("ls /cache").stdout == "old\n"


def test_an_id_is_the_same_cache_at_other_places_and_a_target_is_its_own_id(client):
    build(client, "echo a > /one/x", mount="target=/one,id=tools")
    assert "\na\n" in build(client, "cat /two/deep/x", mount="target=/two/deep/,id=tools")
    assert "\nempty\n" in build(client, "ls -A /one/ && echo empty", mount="target=/one")
    assert "\na\n" in build(client, "cat /srv/rel/x", mount="target=rel,id=tools", before="WORKDIR /srv\n")


def test_owner_and_mode_are_those_of_the_mount_that_made_it(client):
    who = "USER app\n"
    assert "\n1234:1234 700\n" in build(client, "stat -c '%u:%g %a' /mine/. && echo x > /mine/x", mount="target=/mine,uid=1234,gid=1234,mode=0700", before=who)
    assert "\nx\n" in build(client, "cat /mine/x", mount="target=/mine,uid=1234,gid=1234", before=who + "ENV A=1\n")


def test_two_builds_share_a_cache_at_once_and_a_locked_one_waits(client):
    """Shared: each sees the other's file while both run. Locked: the second begins when the first has ended."""
    meet = "touch /c/{me}; i=0; until [ -e /c/{other} ]; do sleep 0.1; i=$((i + 1)); [ $i -lt 600 ] || exit 1; done; echo met {other}"
    with ThreadPoolExecutor(2) as pool:
        logs = [pool.submit(build, client, meet.format(me=a, other=b), name=f"cached-{a}", mount="target=/c") for a, b in ("ab", "ba")]
        assert all("\nmet " in log.result() for log in logs)
        alone = "mkdir /c/taken && sleep 2 && rmdir /c/taken && echo alone {me}"
        logs = [pool.submit(build, client, alone.format(me=a), name=f"cached-{a}", mount="target=/c,id=l,sharing=locked") for a in "xy"]
        logs = [log.result() for log in logs]
    assert sum("waits for another build to leave a cache" in log for log in logs) == 1


def test_a_cache_that_is_nearly_full_is_emptied_and_one_of_another_size_is_taken(client):
    client.create_volume(VOLUME, size_mib=16)
    build(client, "dd if=/dev/urandom of=/cache/big bs=1M count=13 2>/dev/null && sync")
    wait_for(lambda: client.volume(VOLUME)["used_bytes"] > 12 << 20, what="the bytes to be counted")
    log = build(client, "ls -A /cache/ && echo emptied", mount="target=/cache,id=/cache")
    assert "is nearly full, and is emptied" in log and "\nemptied\n" in log
    with pytest.raises(errors.InvalidField, match="exit status"):
        build(client, "dd if=/dev/urandom of=/cache/big bs=1M count=40")


def test_without_room_in_the_quota_a_build_goes_on_with_an_empty_cache(own, client):
    project = client.create_project("cached-poor")
    client.set_quota(project=project["id"], disk_mib=1024)
    key = client.create_key("poor", project=project["id"], scope="write")["secret"]
    with Client(own.url, key) as poor:
        poor.import_template("small", layout_of(busybox_layer(), config={"Env": [f"PATH={PATH}"]}).tar())
        log = build(poor, "ls -A /cache && echo went on")
        assert "caches begin empty" in log and "\nwent on\n" in log
        for name in ("cached", "small"):
            poor.delete_template(name)
    client.delete_project(project["id"])


def test_a_project_neither_sees_nor_gets_what_came_of_anothers_cache(own, client):
    """The same Dockerfile over the same image: neither the cache nor the step that was made with it is another project's."""
    project = client.create_project("cached-other")
    key = client.create_key("other", project=project["id"], scope="write")["secret"]
    build(client, "echo poison > /cache/x")
    build(client, "cp -r /cache/. /made/", name="cached")
    with Client(own.url, key) as other:
        other.import_template("small", layout_of(busybox_layer(), config={"Env": [f"PATH={PATH}"]}).tar())
        assert other.template("small")["digest"] == client.template("small")["digest"]  # the control: the base is the same
        log = build(other, "cp -r /cache/. /made/", name="cached")
        assert "as it was made before" not in log
        with other.create(template="cached") as box:
            assert box.run("ls -A /made").stdout == ""
        with pytest.raises(errors.InvalidField, match="there is no volume"):
            other.create(template="small", volumes={"/x": client.volume(VOLUME)["id"]})
        for name in ("cached", "small"):
            other.delete_template(name)
        other.delete_volume(VOLUME)
    with client.create(template="cached") as box:
        assert box.run("cat /made/x").stdout == "poison\n"  # the control: in its own project it is there
    client.delete_project(project["id"])


def test_hostile_things_in_a_cache_stay_in_the_volume(own, client):
    """Links out of it, devices, setuid: a later build meets them as its own files, the host never does."""
    build(client, "ln -s / /cache/up; ln -sfn /etc /opt/cloche/cache/link; cp /bin/busybox /cache/busybox && chmod 4755 /cache/busybox; mkfifo /cache/p; mknod /cache/d b 8 0 || echo no device")
    log = build(client, "ls /cache/; test -p /cache/p && cat /cache/up/etc/mark; /cache/busybox id -u", before="USER app\n")
    assert "\nlowest\n" in log and "\n1234\n" in log  # nosuid
    client.delete_volume(VOLUME)
    assert own.process.poll() is None


def test_what_a_cache_mount_cannot_be_is_refused_with_its_line(client):
    for mount, what in {
        "target=/": "the target cannot be '/'",
        "target=/c,sharing=often": "sharing is 'shared', 'private' or 'locked', and not 'often'",
        "target=/c,from=small": "with 'from' or 'source' is not supported",
    }.items():
        with pytest.raises(errors.InvalidField, match=f"line 2: .*{what}"):
            build(client, "true", mount=mount)
