# SPDX-License-Identifier: Apache-2.0
"""Sandboxes with a kernel of their own. One machine is booted for most of these tests: emulated, that takes seconds."""

import json
import os
import platform
import re
import signal
import time

import pytest
from cloche import Client, errors

from harness.cli import Cli
from harness.daemon import Daemon, children_of, end, read_text, wait_for
from harness.running import running
from harness.vm import CLIENT_S, MAKE_TREE, make_template, need_vms, vm_daemon, vmm_of
from harness.web import Web

pytestmark = pytest.mark.slow

LIMITS = {"memory_mib": 192, "disk_mib": 32, "pids": 64}
LIFE_S = 3600  # longer than all tests of this file, on a host that is busy with others


@pytest.fixture(scope="module")
def daemon():
    need_vms()
    with running(vm_daemon()) as daemon:
        yield daemon


@pytest.fixture(scope="module")
def client(daemon):
    with Client(daemon.url, daemon.key, timeout=CLIENT_S) as client:
        make_template(client, "tiny")
        yield client


@pytest.fixture(scope="module")
def machine(client):
    with client.create(engine="vm", template="tiny", limits=LIMITS, name="whale", timeout=LIFE_S) as sandbox:
        yield sandbox


def test_a_vm_has_a_kernel_of_its_own_and_says_so(client, machine):
    release = machine.run("uname -r").stdout.strip()
    assert release and release != platform.release()
    isolation = machine.info.isolation
    assert (isolation["engine"], isolation["grade"]) == ("vm", "emulated")
    assert "own_kernel" in isolation["walls"] and "hardware" not in isolation["walls"]
    assert [e["engine"] for e in client.health()["engines"]] == ["jail", "vm"]


def test_the_clock_of_a_vm_is_right_and_stays_so(machine):
    asked = time.time()
    told = int(machine.run(["busybox", "date", "+%s"]).check().stdout)
    assert asked - 2 < told < time.time() + 1


def test_a_vm_runs_commands_and_carries_files_as_a_jail_does(machine):
    assert machine.run("id -u; hostname; echo out; echo err >&2; exit 3").stdout == "1000\nwhale\nout\n"
    done = machine.run("echo err >&2; exit 3")
    assert (done.exit_code, done.stderr) == (3, "err\n")
    assert machine.run("id -u", user="root").stdout == "0\n"
    body = bytes(range(256)) * 4096
    machine.files.write("/home/user/blob", body)
    assert machine.files.read("/home/user/blob") == body


def test_a_vm_has_the_disk_and_the_memory_it_was_given(machine):
    size = int(machine.run("df -k / | tail -n 1 | { read a b c; echo $b; }; true").stdout.split()[0])
    assert 20 << 10 < size <= 32 << 10
    full = machine.run("dd if=/dev/zero of=/home/user/fill bs=1048576 count=40; rm /home/user/fill")
    assert "No space left" in full.stderr
    assert machine.run("echo on").stdout == "on\n"


def test_files_of_a_vm_are_compared_by_another_one_that_goes_with_the_answer(client, daemon, machine):
    """A directory of the template that is moved keeps its files, which only a vm's overlay can: one name has those of two in turn."""
    machine.run("mkdir d && echo 1 > d/a && echo 1 > same").check()
    machine.run("busybox mv /opt/cloche /opt/x", user="root").check()
    saved = machine.snapshot()["id"]
    try:
        machine.run("rm -r d && mkdir d && echo 2 > d/b && rm same && echo 1 > same").check()
        machine.run("busybox mv /opt/x /opt/cloche && busybox mv /usr/local /opt/x", user="root").check()
        changes = {c["path"]: c["kind"] for c in client.diff(saved, machine.id)["changes"]}
    finally:
        machine.run("busybox mv /opt/x /usr/local; rm -r /home/user/d /home/user/same", user="root")
        client.delete_snapshot(saved)
    expected = {"/home/user/d/a": "deleted", "/home/user/d/b": "added", "/opt/x/kernels": "deleted", "/opt/x/bin/sudo": "modified", "/opt/cloche/bin/sudo": "added"}
    assert {p: changes.get(p) for p in expected} == expected
    assert not {p for p in changes if p.startswith(("/home/user/same", "/bin", "/etc"))}, changes
    wait_for(lambda: os.listdir(daemon.run / "sandboxes") == [machine.id], 30, "the machine that looked to be gone")


def test_root_of_a_vm_has_the_guests_kernel_before_it(machine):
    """What could reach the machine's virtual devices from inside, each refused by the guest's own kernel."""
    refused = [
        "echo x > /proc/sys/kernel/core_pattern",
        "echo b > /proc/sysrq-trigger",
        "mkdir -p /mnt && mount -t tmpfs x /mnt",
        "busybox mknod /home/disk b 254 0",
        "busybox reboot -f",
        "busybox ifconfig lo down",
        "ls /dev | busybox grep -e vd -e vport -e mem",
    ]
    for command in refused:
        assert machine.run(command, user="root").exit_code != 0, command
    assert machine.run("cat /proc/sys/kernel/modules_disabled").stdout == "1\n"
    # It is root all the same, where that is its own business.
    assert machine.run("touch /own && busybox chown 1000 /own && ls -l /own", user="root").exit_code == 0
    assert machine.run("sudo id -u").stdout == "0\n"


def test_ports_of_a_vm_are_reached_as_those_of_a_jail(daemon, machine):
    """Its network is its own: the agent dials, and there is no card for that."""
    assert machine.run("ls /sys/class/net").stdout == "lo\n"
    body = bytes(range(256)) * 8192
    machine.files.write("/home/user/www/blob", body, parents=True)
    server = machine.start("busybox httpd -f -p 127.0.0.1:3000 -h /home/user/www")
    web = Web(daemon, machine.expose(3000)["url"])
    wait_for(lambda: web.ask("/blob")[0] == 200, 20, "the server")
    assert web.ask("/blob")[2] == body
    server.kill()
    status, _, page = web.ask("/blob")
    assert status == 502 and json.loads(page)["error"]["code"] == "guest_error"


@pytest.fixture
def kept(client):
    sandbox = client.create(engine="vm", template="tiny", limits=LIMITS, persistent=True, timeout=LIFE_S)
    yield sandbox
    end(sandbox)


def test_a_persistent_vm_goes_on_with_its_files(kept):
    kept.run("echo kept > /home/user/note; echo x > /home/user/late")
    assert kept.stop().state == "stopped"
    assert kept.info.ended["cause"] == "stopped"
    with pytest.raises(errors.Unsupported) as refused:
        kept.update(limits={"disk_mib": 64})
    assert "disk" in str(refused.value)
    kept.update(limits={"memory_mib": 256})
    assert kept.run("cat /home/user/note /home/user/late; uname -s").stdout == "kept\nx\nLinux\n"  # which resumes it
    total = int(kept.run("cat /proc/meminfo").stdout.split()[1])
    assert 200 << 10 < total < 256 << 10


def test_a_machine_outlives_gateway_and_broker(daemon, machine):
    running = machine.start("while [ ! -e /home/user/gate ]; do sleep 0.1; done; echo through")
    daemon.kill_parts("gateway", "broker")
    machine.files.write("/home/user/gate", b"")
    running = machine.exec(running.id)
    assert running.wait(60).exit_code == 0
    assert b"".join(e.data for e in running.output() if e.type == "stdout") == b"through\n"
    assert machine.run("echo again").stdout == "again\n"


def test_qemu_itself_has_no_rights_and_nothing_to_reach(machine):
    vmm = vmm_of(machine)
    for pid in (vmm, children_of(vmm)[0]):
        status = dict(line.split(":\t", 1) for line in read_text(f"/proc/{pid}/status").splitlines() if ":\t" in line)
        assert {int(status[f"Cap{kind}"], 16) for kind in ("Inh", "Prm", "Eff", "Bnd", "Amb")} == {0}
        assert (status["NoNewPrivs"], status["Seccomp"]) == ("1", "2")
        assert all(int(uid) >= 0x30000000 for uid in status["Uid"].split())
        assert sorted(os.listdir(f"/proc/{pid}/root")) == ["dev", "lib", "lib64", "proc", "usr"]
        assert sorted(os.listdir(f"/proc/{pid}/root/dev")) == ["null", "urandom", "zero"]
        with pytest.raises(OSError):
            open(f"/proc/{pid}/root/tmpfile", "w").close()
        mine = {kind: os.readlink(f"/proc/self/ns/{kind}") for kind in ("cgroup", "ipc", "mnt", "net", "pid", "user", "uts")}
        assert all(os.readlink(f"/proc/{pid}/ns/{kind}") != own for kind, own in mine.items())
        for fd in os.listdir(f"/proc/{pid}/fd"):
            target = os.readlink(f"/proc/{pid}/fd/{fd}")
            flags = int(re.search(r"flags:\s+(\d+)", read_text(f"/proc/{pid}/fdinfo/{fd}")).group(1), 8)
            if target.startswith("/") and not target.startswith(("/memfd:", "/dev/null")):
                assert target.endswith(("/disk", "/image.erofs", "/fittings.erofs (deleted)", "/vmlinux", "/vmlinuz")), target
                assert flags & os.O_ACCMODE == os.O_RDONLY or target.endswith(f"/{machine.id}/disk"), target
    assert len(read_text(f"/proc/{vmm}/net/dev").splitlines()) == 3  # two of a head, and lo


def test_a_limit_that_a_command_meets_in_a_vm_is_its_cause(machine):
    filled = "dd if=/dev/zero of=/dev/shm/fill bs=1048576 count=70 2>/dev/null"
    eaten = machine.run(f"{filled}; echo last words; exec dd if=/dev/zero of=/dev/null bs=100000000 count=1")
    machine.run("rm /dev/shm/fill")
    assert (eaten.cause, eaten.stdout) == ("oom", "last words\n")
    detail = eaten.exec.ended["detail"]
    assert detail["limit_bytes"] == 192 << 20 and detail["kills"] == 1 and detail["peak_bytes"] > 64 << 20
    forks = machine.run("i=0; while [ $i -lt 100 ]; do sleep 100 & i=$((i+1)); done; exit 1")
    assert forks.cause == "pids" and forks.exec.ended["detail"]["limit"] == 64
    machine.run("busybox killall -9 sleep", user="root")
    full = machine.run("dd if=/dev/zero of=/home/user/fill bs=1048576 count=40")
    assert full.cause == "disk_full"
    machine.run("rm /home/user/fill")
    assert machine.run("exit 7").cause == "exited"


def test_usage_of_a_vm_is_its_hosts_figure(machine):
    machine.run("i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done")
    usage = machine.usage()
    assert usage["now"]["memory_bytes"] > 32 << 20 and usage["usage"]["cpu_ns"] > 0


def test_limits_of_a_running_vm_change_where_a_machine_can(client, machine):
    assert machine.update(limits={"vcpus": 0.5}).limits["vcpus"] == 0.5
    machine.update(limits={"vcpus": 1})
    with pytest.raises(errors.Unsupported) as refused:
        machine.update(limits={"memory_mib": 256})
    assert "vcpus" in str(refused.value)


def test_what_a_vm_cannot_do_is_refused_with_a_reason(client):
    with pytest.raises(errors.Unsupported) as refused:
        client.create(engine="vm", template="host")
    assert "image" in str(refused.value)
    with pytest.raises(errors.ClocheError) as small:
        client.create(engine="vm", template="tiny", limits={"memory_mib": 32})
    assert small.value.field == "limits.memory_mib"
    with pytest.raises(errors.Unsupported) as weak:
        client.create(template="tiny", min_grade="hardware")
    assert "'emulated'" in str(weak.value)
    with pytest.raises(errors.Unsupported):
        client.create(engine="jail", template="tiny", min_grade="emulated")


def test_the_default_engine_is_told_with_its_reason(client, daemon):
    told = client.health()["default_engine"]
    assert told["engine"] == "jail" and "emulated ones are slow" in told["reason"]
    assert json.loads(Cli(daemon)("doctor", "--json")[1])["default_engine"] == told
    assert f"default_engine       jail: {told['reason']}" in Cli(daemon)("doctor")[1]


def test_the_setting_default_engine_decides_and_leaves_to_jails_what_no_vm_can():
    need_vms()
    with running(vm_daemon("--default-engine", "vm")) as daemon, Client(daemon.url, daemon.key, timeout=CLIENT_S) as client:
        assert client.health()["default_engine"] == {"engine": "vm", "reason": "the setting `default_engine` says so"}
        make_template(client, "tiny")
        with client.create(template="tiny", limits=LIMITS) as sandbox:
            assert sandbox.info.isolation["engine"] == "vm"
        client.create_volume("things")
        for fields in ({"template": "host"}, {"template": "tiny", "limits": {"memory_mib": 64}}, {"template": "tiny", "volumes": {"/things": "things"}}):
            with client.create(**fields) as sandbox:
                assert sandbox.info.isolation["engine"] == "jail"


@pytest.mark.parametrize("options, word", [(("--default-engine", "qemu"), "there is no 'qemu'"), (("--default-engine", "vm", "--engine", "jail"), "forbids it")])
def test_a_default_engine_that_cannot_be_is_refused_at_the_start(options, word):
    with pytest.raises(RuntimeError, match=f"default_engine: .*{word}"):
        Daemon(*options).start()


# In a root that has a directory /etc/old: what an archive may say of a file, what only looks like an image, and what no template has.
CHANGES = """
set -e
mkdir -p /data/deep/er /var/tmp
echo one > /data/one; busybox chown 7:8 /data/one; busybox chmod 4711 /data/one
busybox ln /data/one /data/two; busybox ln -s ../no/where /data/lost; busybox ln -s one /data/link; busybox chown -h 9:9 /data/link
busybox chmod 1775 /data/deep; busybox touch -d '2020-02-02 02:02:02' /data/deep/er/old /data/deep/er
busybox mv /etc/old /etc/new; echo more > /etc/new/more
rm /etc/gone; busybox truncate -s 3M /data/holes; echo end >> /data/holes
echo '{"imageLayoutVersion": "1.0.0"}' > /oci-layout; echo '{"manifests": []}' > /index.json; echo '[]' > /manifest.json
echo secret > /tmp/secret; echo secret > /var/tmp/secret
"""
LISTING = """
cd / && for i in $(busybox find data etc/new *.json oci-layout etc/gone | busybox sort); do busybox stat -c '%n %f %u %g' $i; done
busybox stat -c '%n %h %s' /data/one /data/two /data/holes; ls -a /tmp /var/tmp
busybox stat -c '%n %Y' /data/deep/er /data/deep/er/old; busybox readlink /data/lost; busybox readlink /data/link; cat /data/one /etc/new/*; busybox md5sum /data/holes
"""


def test_files_of_a_vm_become_the_template_that_those_of_a_jail_do(client, machine):
    make_template(client, "lived-in", MAKE_TREE + "mkdir -p /template/etc/old/in; echo was > /template/etc/old/was; touch /template/etc/gone")
    listings, names = {}, {}
    for engine in ("jail", "vm"):
        with client.create(engine=engine, template="lived-in", limits=LIMITS, timeout=LIFE_S) as sandbox:
            sandbox.run(CHANGES, user="root").check()
            client.create_template(f"of-{engine}", sandbox, env={"OF": engine})
    assert client.template("of-jail")["shared_bytes"] > 0 and client.template("of-vm")["shared_bytes"] == 0  # one has a disk more
    for engine, of in (("jail", "jail"), ("jail", "vm"), ("vm", "vm"), ("vm", "jail")):
        with client.create(engine=engine, template=f"of-{of}", limits=LIMITS) as sandbox:
            assert sandbox.run("echo $OF").stdout == f"{of}\n"
            done = sandbox.run(LISTING, user="root")
            listings[engine, of] = done.stdout, done.stderr
            names[engine, of] = sandbox.run("busybox find / -xdev | busybox sort", user="root").stdout.split("\n")
    assert listings["jail", "jail"] == listings["jail", "vm"] == listings["vm", "vm"] == listings["vm", "jail"]
    assert names["jail", "jail"] == names["jail", "vm"]  # all that there is, and nothing of the machine that sent it
    seen = listings["vm", "vm"][0]
    for line in ("data/one 89c9 7 8\n", "/data/one 2 4\n/data/two 2 4\n", "data/deep 43fd 0 0\n", "data/link a1ff 9 9\n", "/data/deep/er 1580608922", "one\nmore\nwas\n", "../no/where\none\n"):
        assert line in seen, seen
    assert "secret" not in seen and "gone" not in seen and "oci-layout" in seen
    for name in ("lived-in", "of-jail", "of-vm"):
        client.delete_template(name)


def test_a_directory_or_a_snapshot_of_a_vm_becomes_a_template_and_nothing_else_stays(client, daemon, machine):
    before = set(os.listdir(daemon.run / "sandboxes"))
    machine.run("mkdir -p /template/etc; echo saved > /template/etc/word", user="root").check()
    snapshot = machine.snapshot()["id"]
    machine.run("rm -r /template; busybox ln -s /etc /template", user="root").check()
    try:
        with pytest.raises(errors.ClocheError, match="no directory /template"):
            client.create_template("of-link", machine, tree=True)
        made = client.create_template("of-tree", snapshot, tree=True)
    finally:
        client.delete_snapshot(snapshot)
        machine.run("rm /template", user="root")
    assert made["bytes"] < 64 << 10  # without the root's programs
    with client.create(engine="jail", template="of-tree") as sandbox:
        assert sandbox.files.read("/etc/word") == b"saved\n"
    client.delete_template("of-tree")
    assert set(os.listdir(daemon.run / "sandboxes")) == before and not [s for s in client.snapshots() if s["automatic"]]


def test_R21_a_guest_that_takes_all_it_can_get_stays_within_what_it_was_given(client, machine):
    machine.update(limits={"vcpus": 0.5})
    machine.run("dd if=/dev/zero of=/dev/shm/all bs=1048576 count=400", user="root")  # all that its kernel lets it have
    storm = [machine.start(f"while :; do cat {what} > /dev/null 2>&1; done", user="root") for what in ("/sys/bus/pci/devices/*/config", "/dev/urandom")]
    try:
        begun, before = time.monotonic(), machine.usage()
        wait_for(lambda: machine.usage()["usage"]["cpu_ns"] - before["usage"]["cpu_ns"] > 5e8, 60, "the storm to use CPU time")
        after = machine.usage()
        used, elapsed = (after["usage"]["cpu_ns"] - before["usage"]["cpu_ns"]) / 1e9, time.monotonic() - begun
        assert used < 0.5 * elapsed + 0.3, (used, elapsed)  # a period's worth more, at either end
        assert 64 << 20 < after["now"]["memory_bytes"] <= (192 + 192) << 20  # RAM, and what QEMU itself may have
        assert client.health()["ready"] and machine.run("echo alive", timeout=60).stdout == "alive\n"
    finally:
        for each in storm:
            each.kill()
        machine.run("rm -f /dev/shm/all", user="root")
        machine.update(limits={"vcpus": 1})


def test_a_guest_whose_machine_dies_ends_with_that_cause(client, machine):
    os.kill(children_of(vmm_of(machine))[0], signal.SIGKILL)
    ended = wait_for(lambda: client.get(machine.id).info.ended, 20, "its end")
    assert ended["cause"] == "guest_crash"
