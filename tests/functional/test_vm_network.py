# SPDX-License-Identifier: Apache-2.0
"""The network of a vm: the wall of a jail behind a card that is there only while there is a door."""

import pytest
from cloche import Client

from harness.internet import ALLOWED, ALLOWED6, OTHER, PRIVATE
from harness.running import running
from harness.vm import CLIENT_S, VM_OPTIONS, give_kernel, make_template, need_vms

POLICY = {"allow": ["allowed.test", "six.test"]}
LIMITS = {"memory_mib": 192, "disk_mib": 32, "pids": 64}


@pytest.fixture(scope="module")
def walled_vms(internet):
    need_vms()
    with running(give_kernel(internet.daemon(*VM_OPTIONS))) as daemon:
        yield daemon


@pytest.fixture(scope="module")
def machine(walled_vms):
    with Client(f"unix:{walled_vms.socket}", walled_vms.key, timeout=CLIENT_S) as client:
        make_template(client, "tiny")
        with client.create(engine="vm", template="tiny", limits=LIMITS, network=POLICY, timeout=600) as sandbox:
            yield sandbox


def reaches(machine, address, host="allowed.test", port=80):
    """A static busybox looks no names up by itself: the wall goes by what the request says."""
    ask = f"printf 'GET / HTTP/1.1\\r\\nHost: {host}\\r\\nConnection: close\\r\\n\\r\\n' | busybox nc -w 60 {address} {port}"
    return " 200 " in machine.run(ask).stdout


def resolves(machine, name):
    """Whether to something else than the address of names that are denied."""
    found = machine.run(["busybox", "nslookup", name])
    return found.exit_code == 0 and "198.18.0.2" not in found.stdout


def await_card(machine):
    """With its address, which the agent gives it when the kernel has found it."""
    wait = "for i in $(busybox seq 300); do busybox ip -4 addr show dev eth0 2>/dev/null | busybox grep -q 192.0.2.2 && exit; sleep 0.1; done; exit 1"
    assert machine.run(wait, timeout=60).exit_code == 0


def test_a_vm_reaches_what_its_policy_allows_and_nothing_else(internet, machine):
    assert internet.run("curl", "-sf", "-m", "5", f"http://{OTHER}/").returncode == 0  # it is there, without a wall
    assert reaches(machine, ALLOWED)
    assert not reaches(machine, ALLOWED, "other.test")
    for address in (PRIVATE, "169.254.169.254", "192.0.2.1", "127.0.0.1"):
        assert not reaches(machine, address, address), address
    assert not reaches(machine, "192.0.2.1", "192.0.2.1", 1)
    before = internet.seen("dns", name="other.test")  # by other tests
    assert resolves(machine, "allowed.test") and not resolves(machine, "other.test")
    assert internet.seen("dns", name="other.test") == before


def test_a_vm_has_both_families(machine):
    assert reaches(machine, ALLOWED6, "six.test")
    assert not reaches(machine, ALLOWED6, "other.test")


def test_the_card_comes_and_goes_with_the_policy(machine):
    links = "ls /sys/class/net"
    assert machine.run(links).stdout == "eth0\nlo\n"
    assert "net_linkless" not in machine.refresh().isolation["walls"]
    machine.set_network("deny-all")
    assert machine.run(links).stdout == "lo\n"
    assert "net_linkless" in machine.refresh().isolation["walls"]
    assert not reaches(machine, ALLOWED)
    machine.pause()
    machine.set_network(POLICY)  # of one that stands still: there when it goes on
    machine.resume()
    await_card(machine)
    assert machine.run(links).stdout == "eth0\nlo\n"
    machine.set_network({"allow": ["six.test"]})
    assert reaches(machine, ALLOWED6, "six.test") and not reaches(machine, ALLOWED)
    machine.set_network(POLICY)


def test_a_vm_with_a_card_is_forked_and_paused_to_disk_with_its_memory(machine):
    machine.run("echo kept > /dev/shm/memory")
    (copy,) = machine.fork(1, network=POLICY, timeout=600)
    with copy:
        assert copy.run("cat /dev/shm/memory").stdout == "kept\n"
        assert reaches(copy, ALLOWED) and not reaches(copy, ALLOWED, "other.test")
    await_card(machine)  # it was out while the memory was saved
    assert reaches(machine, ALLOWED)
    assert machine.pause(to="disk").raw["paused_to"] == "disk"
    assert machine.run("cat /dev/shm/memory").stdout == "kept\n"
    assert reaches(machine, ALLOWED) and not reaches(machine, ALLOWED, "other.test")


def test_a_vms_network_outlives_every_part_of_the_daemon(walled_vms, machine):
    walled_vms.kill_parts("gateway", "broker")
    assert reaches(machine, ALLOWED) and not reaches(machine, ALLOWED, "other.test")
