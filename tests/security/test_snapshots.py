# SPDX-License-Identifier: Apache-2.0
"""Snapshots against those who would read, change or outlast what is another's."""

import hashlib
import os
import subprocess
import uuid

import pytest
from cloche import Client, errors
from harness.daemon import Daemon, call, wait_for


@pytest.fixture
def tenant(client, daemon):
    """A function that makes clients of fresh projects; what they have is deleted at the end."""
    made = []

    def make(**limits):
        project = client.create_project(f"s-{uuid.uuid4().hex[:10]}")["id"]
        if limits:
            client.set_quota(project=project, **limits)
        own = Client(daemon.url, client.create_key("k", scope="write", project=project)["secret"])
        made.append(own)
        return own

    yield make
    for own in made:
        for sandbox in own.list():
            sandbox.delete()
        for snapshot in list(own.snapshots()):
            own.delete_snapshot(snapshot["id"])
        own.close()


def files_of(daemon, snapshot):
    return daemon.data / "layers" / snapshot["id"] / "files"


def test_S06_credentials_of_the_wall_and_values_of_variables_are_told_to_nobody(tenant, daemon):
    own = tenant()
    secret = uuid.uuid4().hex
    action = {"transform": {"headers": {"authorization": f"Bearer {secret}"}}}
    sandbox = own.create(env={"TOKEN": secret + "-env"}, network={"rules": [{"match": {"domains": ["example.com"]}, "action": action}]})
    sandbox.run(["sh", "-c", "echo written-by-hand > note"])
    snapshot = sandbox.snapshot()
    assert secret not in str(snapshot) and snapshot["env_names"] == ["TOKEN"]
    found = subprocess.run(["grep", "-rl", secret, str(files_of(daemon, snapshot))], capture_output=True, text=True)
    assert found.stdout == ""
    found = subprocess.run(["grep", "-rl", "written-by-hand", str(files_of(daemon, snapshot))], capture_output=True, text=True)
    assert found.stdout.endswith("/note\n")


def digest_of(top):
    listing = subprocess.run(["find", top, "-printf", "%P %m %U %G %s %T@ %l\n"], capture_output=True).stdout
    data = subprocess.run(f"find {top} -type f -print0 | sort -z | xargs -0 sha256sum", shell=True, capture_output=True).stdout
    return hashlib.sha256(b"".join(sorted(listing.splitlines())) + data).hexdigest()


def test_S07_nothing_that_copies_do_changes_a_snapshot(tenant, daemon):
    own = tenant()
    source = own.create()
    source.run("mkdir d; for i in $(seq 50); do echo $i > d/$i; done")
    snapshot = source.snapshot()
    before = digest_of(files_of(daemon, snapshot))
    source.run("rm -rf d; chmod 777 .")
    for _ in range(3):
        for copy in source.fork(3, memory=False) + [own.create(snapshot=snapshot["id"]) for _ in range(3)]:
            copy.run("sudo sh -c 'rm -rf /home/user/d; chown -R 5:5 /home; echo x > /etc/passwd.x; chmod 0 /tmp'")
            copy.delete()
    assert digest_of(files_of(daemon, snapshot)) == before
    with pytest.raises(OSError):  # not by the host's root either: it is read-only
        (files_of(daemon, snapshot) / "root" / "x").touch()


def test_S08_what_is_not_whole_is_told_and_never_started_from():
    daemon = Daemon("--pool-max", "0", rm=False).start()
    try:
        with Client(daemon.url, daemon.key) as client:
            sandbox = client.create(persistent=True)
            sandbox.run("echo 1 > a")
            good, bad = sandbox.snapshot(), sandbox.snapshot()
            manifest = daemon.data / "layers" / bad["id"] / "manifest"
            data = bytearray(manifest.read_bytes())
            data[60] ^= 1
            manifest.chmod(0o600)
            manifest.write_bytes(data)
            daemon.kill_parts("broker", "gateway")
            assert [s["state"] for s in client.snapshots()] == ["damaged", "ready"]
            with pytest.raises(errors.Conflict) as refused:
                client.create(snapshot=bad["id"])
            assert "damaged" in refused.value.message and "parent_id" in refused.value.hint
            with pytest.raises(errors.Conflict):
                sandbox.rollback(bad["id"])
            with client.create(snapshot=bad["parent_id"]) as copy:  # the one before is offered, and good
                assert copy.info.snapshot_id == good["id"] and copy.run("cat a").stdout == "1\n"
            for one in (good, bad):
                client.delete_snapshot(one["id"])
            wait_for(lambda: not [n for n in os.listdir(daemon.data / "layers") if n.startswith("sn_")], 10, "nothing left")
            sandbox.delete()
    finally:
        for one in call(daemon, "GET", "/v1/sandboxes")[1]["sandboxes"]:
            call(daemon, "DELETE", f"/v1/sandboxes/{one['id']}")
        daemon.stop()
        daemon.remove()


def test_S10_snapshots_are_bounded_by_the_quota_of_disk(tenant):
    own = tenant(disk_mib=200)
    sandbox = own.create(limits={"disk_mib": 100})
    taken = []
    with pytest.raises(errors.QuotaError) as refused:
        for _ in range(20):
            assert sandbox.run("head -c 30M /dev/urandom > a").exit_code == 0
            taken.append(sandbox.snapshot())
    assert "disk" in str(refused.value) and 1 <= len(taken) <= 4
    assert len(list(own.snapshots())) == len(taken)  # the one that was refused is gone
    used = own.quota()["current"]["disk_mib"]
    assert used <= 200
    for one in taken:
        own.delete_snapshot(one["id"])
    assert own.quota()["current"]["disk_mib"] == 100
    assert sandbox.run("rm a; head -c 50M /dev/zero > b").exit_code == 0


def test_S11_a_copy_has_its_own_policy_and_identity(tenant):
    own = tenant()
    source = own.create(network="allow-all", name=f"src-{uuid.uuid4().hex[:6]}")
    opened = source.expose(8080)
    copy = own.create(snapshot=source.snapshot()["id"])
    assert copy.network()["kind"] == "deny-all" and copy.ports() == []
    names = "hostname; cat /etc/hostname /etc/machine-id"
    assert not set(copy.run(names).stdout.split()) & set(source.run(names).stdout.split())
    assert opened["token"] not in copy.run("cat /proc/1/environ /etc/* 2>/dev/null", user="root").stdout


def test_S12_a_snapshot_goes_while_copies_are_being_started_from_it(tenant):
    own = tenant()
    source = own.create()
    source.run("echo 1 > a")
    snapshot = source.snapshot()
    copies = [own.create(snapshot=snapshot["id"]) for _ in range(2)]
    own.delete_snapshot(snapshot["id"])
    with pytest.raises(errors.NotFound):
        own.delete_snapshot(snapshot["id"])
    assert [c.run("cat a; echo 2 > b; cat b").stdout for c in copies] == ["1\n2\n"] * 2


def test_A03_snapshots_of_others_are_not_there(tenant):
    mine, other = tenant(), tenant()
    snapshot = mine.create().snapshot(f"n-{uuid.uuid4().hex[:8]}")
    theirs = other.create()
    for name in (snapshot["id"], snapshot["name"]):
        for attempt in (other.snapshot, other.delete_snapshot, other.snapshot_tree, theirs.rollback):
            with pytest.raises(errors.NotFound):
                attempt(name)
        with pytest.raises(errors.InvalidField):
            other.create(snapshot=name)
    assert list(other.snapshots()) == [] and list(other.snapshots(sandbox=snapshot["sandbox_id"])) == []
    assert mine.snapshot(snapshot["id"]) == snapshot
