# SPDX-License-Identifier: Apache-2.0
"""Machines that were booted once and saved: what vms start from."""

import hashlib
import json
import os
import re
import time

import pytest
from cloche import Client

from harness.cli import Cli
from harness.daemon import children_of, read_text, wait_for
from harness.running import running
from harness.vm import BOOT_S, CLIENT_S, MAKE_TREE, make_template, need_vms, vm_daemon, vmm_of

ADD_BASH = """
rm /template/bin/bash
cp /bin/bash /template/bin/
for i in $(ldd /bin/bash | grep -o "/[^ ]*"); do cp --parents -L $i /template; done
"""
LIMITS = {"memory_mib": 192, "disk_mib": 32, "pids": 64}


@pytest.fixture(scope="module")
def warm_daemon():
    need_vms()
    with running(vm_daemon("--pool-min", "0", "--pool-max", "2", "--pool-language", "bash")) as daemon:
        yield daemon


@pytest.fixture(scope="module")
def warm(warm_daemon):
    """One whose daemon has a warm copy: made beside the first vm, which boots."""
    with Client(warm_daemon.url, warm_daemon.key, timeout=CLIENT_S) as client:
        make_template(client, "tiny", MAKE_TREE + ADD_BASH, shared=True)
        assert client.template("tiny")["warm_copies"] == 0
        with client.create(engine="vm", template="tiny", limits=LIMITS, timeout=600):
            wait_for(lambda: client.template("tiny")["warm_copies"] == 1, BOOT_S, "a warm copy")
        start(client).delete()  # from here on the broker has it in memory
        yield client


def start(client, **options):
    return client.create(engine="vm", template="tiny", limits=LIMITS, timeout=600, **options)


def memory_of(machine):
    """Of the guest's RAM as QEMU has it mapped, in KiB: Rss, Pss, Private_Dirty…"""
    qemu = children_of(vmm_of(machine))[0]
    entry = re.split(r"^[0-9a-f]+-[0-9a-f]+ ", read_text(f"/proc/{qemu}/smaps"), flags=re.M)
    ram = next(e for e in entry if "/memfd:cloche-ram" in e)
    return {key: int(kib) for key, kib in re.findall(r"^(\w+): +(\d+) kB", ram, flags=re.M)}


def test_machines_start_from_one_copy_differ_in_what_must_and_share_the_rest(warm, warm_daemon):
    marked = hashlib.sha256((warm_daemon.data / "templates" / digest_of(warm) / "image.erofs").read_bytes()).hexdigest()
    with start(warm) as one, start(warm, name="whale", env={"OWN": "1"}) as two:
        asked = "hostname; cat /etc/machine-id /proc/sys/kernel/random/uuid; head -c 8 /dev/urandom | od -An -x"
        names = [s.run(asked).stdout.splitlines() for s in (one, two)]
        assert all(a != b for a, b in zip(*names, strict=True)), names
        assert names[1][0] == "whale" and two.run("echo $OWN").stdout == "1\n"
        with start(warm) as three:  # with the interpreter that ran in the copy, as `one`
            said = [s.run_code("echo $RANDOM $RANDOM $RANDOM", language="bash").stdout for s in (one, three)]
            assert said[0] and said[0] != said[1], said
        assert abs(int(one.run("date +%s").stdout) - time.time()) < 60
        for machine in (one, two):
            assert machine.run("echo own > /etc/passwd; cat /etc/passwd", user="root").stdout == "own\n"
            used = memory_of(machine)
            shared = used["Shared_Clean"] + used["Shared_Dirty"]
            assert shared > used["Rss"] / 4 and used["Pss"] < used["Rss"], used
    found = hashlib.sha256((warm_daemon.data / "templates" / digest_of(warm) / "image.erofs").read_bytes()).hexdigest()
    assert found == marked


def test_the_doctor_counts_warm_copies(warm, warm_daemon):
    told = json.loads(Cli(warm_daemon)("doctor", "--json")[1])["checks"]
    (copies,) = [check for check in told if check["name"] == "warm_copies"]
    assert (copies["present"], copies["detail"]) == (True, "1, of 1 templates")


def test_a_machine_that_waits_ready_is_taken_by_the_next_create_that_it_fits(warm):
    for _ in range(3):  # a size that is asked for again and again gets spares
        start(warm).delete()
    wait_for(lambda: warm.health()["pool"]["ready_vms"] > 0, BOOT_S, "a spare")
    before = warm.health()["pool"]["hits"]
    with start(warm, env={"OWN": "1"}) as machine:
        assert warm.health()["pool"]["hits"] == before + 1
        assert machine.info.isolation["engine"] == "vm"
        assert machine.run("hostname; echo $OWN").stdout == machine.id.replace("_", "-") + "\n1\n"
        assert machine.run_code("echo $OWN", language="bash").stdout == "1\n"
        assert machine.id in [s.id for s in warm.list()]


def digest_of(warm):
    return warm.template("tiny")["digest"].removeprefix("sha256:")


@pytest.mark.slow
def test_a_template_is_as_it_was_after_many_copies(warm, warm_daemon):
    image = warm_daemon.data / "templates" / digest_of(warm) / "image.erofs"
    before = hashlib.sha256(image.read_bytes()).hexdigest()
    for _ in range(int(os.environ.get("CLOCHE_CLONES", "10"))):
        with start(warm) as machine:
            machine.run("rm -rf /etc /bin/ls", user="root")
    assert hashlib.sha256(image.read_bytes()).hexdigest() == before


def test_a_copy_that_is_damaged_is_not_started_from(warm, warm_daemon):
    (copy,) = (warm_daemon.data / "layers").glob("sn_*")
    with open(copy / "memory/ram", "r+b") as ram:
        ram.seek(os.lseek(ram.fileno(), 0, os.SEEK_DATA))
        ram.write(b"\xa5")
    warm_daemon.kill_parts("broker")  # what has it in memory
    with start(warm) as machine:
        assert machine.run("echo booted").stdout == "booted\n"
        assert not copy.exists()


def test_where_vms_are_all_there_is_the_daemon_boots_one_by_itself_and_keeps_others_ready(warm, warm_daemon):
    """Also where the copy that there was had to be removed."""
    warm_daemon.stop()
    warm_daemon.options += ["--engine", "vm", "--default-template", "tiny", "--default-memory", "192MiB", "--default-disk", "32MiB", "--pool-min", "1"]
    warm_daemon.start()
    with Client(warm_daemon.url, warm_daemon.key, timeout=CLIENT_S) as client:
        wait_for(lambda: client.health()["pool"]["ready_vms"] > 0, 2 * BOOT_S, "a spare")
        assert client.template("tiny")["warm_copies"] == 1
        with client.create() as machine:
            assert machine.info.isolation["engine"] == "vm" and client.health()["pool"]["hits"] == 1
            assert machine.run("echo alive").stdout == "alive\n"
