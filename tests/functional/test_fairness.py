# SPDX-License-Identifier: Apache-2.0
"""Fairness between projects: who is answered before whom, by count."""

import ctypes
import json
import os
import selectors
import socket
import struct
from pathlib import Path

import pytest
from cloche import Client
from cloche.errors import InvalidField
from harness import audit
from harness.daemon import Daemon, LEAST_S, PATIENCE, read_text, wait_for
from harness.running import running

BURST = 40


@pytest.fixture(scope="module")
def own():
    """A daemon without spares, so that every create is the broker's work: (daemon, client of an admin)."""
    with running(Daemon("--default-memory", "64MiB", "--pool-min", "0", "--pool-max", "0")) as daemon, Client(daemon.url, daemon.key) as client:
        yield daemon, client


def tenant_of(admin, name):
    project = admin.create_project(name)["id"]
    return project, admin.create_key(name, scope="admin", project=project)["secret"]


def connect(daemon, key):
    """A connection on which the daemon has already seen the key."""
    s = socket.create_connection(("127.0.0.1", daemon.port))
    s.sendall(f"GET /v1/quota HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {key}\r\n\r\n".encode())
    read_reply(s)
    return s


def read_reply(s):
    data = b""
    while True:
        piece = s.recv(1 << 16)
        assert piece, "the daemon closed the connection"
        data += piece
        head, end, body = data.partition(b"\r\n\r\n")
        if end:
            fields = dict(line.lower().split(b": ", 1) for line in head.split(b"\r\n")[1:])
            if len(body) >= int(fields[b"content-length"]):
                return int(head.split()[1]), json.loads(body)


def create(key):
    return f"POST /v1/sandboxes HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {key}\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{{}}".encode()


def test_one_create_is_not_answered_behind_another_projects_burst(own):
    daemon, admin = own
    _, burst_key = tenant_of(admin, "burst")
    _, single_key = tenant_of(admin, "single")
    burst = [connect(daemon, burst_key) for _ in range(BURST)]
    single = connect(daemon, single_key)
    with selectors.DefaultSelector() as selector:
        for s in [*burst, single]:
            selector.register(s, selectors.EVENT_READ)
        for s in burst:
            s.sendall(create(burst_key))
        single.sendall(create(single_key))
        order = []
        while len(order) <= BURST:
            ready = selector.select(LEAST_S * PATIENCE)
            assert ready, f"only {len(order)} creates were answered"
            for event, _ in ready:
                status, made = read_reply(event.fileobj)
                assert status == 201, made
                order.append(event.fileobj)
                selector.unregister(event.fileobj)
    before = order.index(single)
    assert before < BURST // 2, f"{before} of the other project's {BURST} creates were answered first"
    for s in [*burst, single]:
        s.close()
    for key in (burst_key, single_key):
        with Client(daemon.url, key) as client:
            for sandbox in client.list():
                sandbox.delete()


USUAL, BUSY, IDLE = 1024, 4, 3
OWNERS = 8 * USUAL  # of a project that is beside others
MODEST = 8  # times as much, while it uses less than its part
V2_MOST = 10000 * USUAL // 100  # cgroup v2 has no more


def cpu_weight(sandbox):
    """By v1's measure."""
    for top in map(Path, audit.cgroup_dirs({sandbox.id})):
        if text := read_text(top / "cpu.shares"):
            return int(text)
        if text := read_text(top / "cpu.weight"):
            return round(int(text) * USUAL / 100)
    return 0


@pytest.fixture
def crowd_and_single(own):
    """Sandboxes of a project, some of them busy and the rest idle, and one of another project that has twice the weight."""
    daemon, admin = own
    unique = os.urandom(4).hex()
    _, crowd_key = tenant_of(admin, f"crowd-{unique}")
    project, single_key = tenant_of(admin, f"single-of-two-{unique}")
    admin.set_quota(project=project, weight=200)
    with Client(daemon.url, crowd_key) as crowd_client, Client(daemon.url, single_key) as single_client:
        crowd = [crowd_client.create() for _ in range(BUSY + IDLE)]
        for sandbox in crowd[:BUSY]:
            sandbox.start("while :; do :; done")
        yield crowd, single_client
        for sandbox in crowd:
            sandbox.delete()


def test_a_project_has_one_part_of_the_cpu_however_many_sandboxes_it_keeps_busy(own, crowd_and_single):
    daemon, _ = own
    crowd, single_client = crowd_and_single
    if not cpu_weight(crowd[0]):
        pytest.skip("no cgroup tree has CPU weights")
    single = single_client.create()
    wait_for(lambda: cpu_weight(single) >= min(2 * OWNERS * MODEST, V2_MOST), what="the single one's weight")
    part = {OWNERS * MODEST // BUSY}  # nobody else wants anything, so the project is not greedy
    wait_for(lambda: {cpu_weight(one) for one in crowd} == part, what="a part of the project's weight for each of its sandboxes")
    daemon.kill_parts("gateway", "broker")  # and all are adopted
    single.delete()
    wait_for(lambda: {cpu_weight(one) for one in crowd} == {USUAL}, what="the usual weight for a project that is alone")


def test_who_uses_less_than_its_part_goes_before_who_takes_all(own, crowd_and_single):
    crowd, single_client = crowd_and_single
    if not cpu_weight(crowd[0]):
        pytest.skip("no cgroup tree has CPU weights")
    single = single_client.create(limits={"vcpus": 0.05})
    work = single.start("while :; do :; done")
    wait_for(lambda: {cpu_weight(one) for one in crowd[:BUSY]} == {OWNERS // BUSY}, what="the weight of a project that takes all")
    assert cpu_weight(single) >= min(2 * OWNERS * MODEST, V2_MOST)
    work.kill()
    heavy = [single_client.create() for _ in range(2 * (os.cpu_count() or 1))]
    for sandbox in heavy:
        sandbox.start("while :; do :; done")
    wait_for(lambda: cpu_weight(single) == 2 * OWNERS // len(heavy), what="the weight of the other project once it takes all that it gets")
    for sandbox in [single, *heavy]:
        sandbox.delete()


def test_a_projects_weight_is_set_with_its_quota_and_kept(own):
    daemon, admin = own
    project, key = tenant_of(admin, "weighty")
    with Client(daemon.url, key) as client:
        assert client.quota()["weight"] == 100
        assert admin.set_quota(project=project, weight=250)["weight"] == 250
        assert client.quota()["weight"] == 250
        assert admin.set_quota(project=project, sandboxes=5)["weight"] == 100


@pytest.mark.parametrize("weight", [0, 10001, 1.5, "much"])
def test_a_weight_that_is_none_is_refused(own, weight):
    _, admin = own
    with pytest.raises(InvalidField) as e:
        admin.set_quota(project="default", weight=weight)
    assert e.value.field == "weight"


def test_a_key_has_no_weight(own):
    _, admin = own
    made = admin.create_key("plain")["key"]
    with pytest.raises(InvalidField) as e:
        admin.set_quota(key=made["id"], weight=200)
    assert e.value.field == "weight"


@pytest.fixture
def usual_priority():
    if os.getpriority(os.PRIO_PROCESS, 0) != 0:
        pytest.skip("the tests run at a priority of their own, which the daemon leaves alone")


def test_the_gateway_comes_before_the_broker_which_a_flood_keeps_busy(own, usual_priority):
    daemon, _ = own
    gateway, wall, broker = (os.getpriority(os.PRIO_PROCESS, pid) for pid in (daemon.gateway_pid, daemon.wall_pid, daemon.broker_pid))
    assert gateway < wall < broker == 0


def slice_ns(pid):
    """The scheduler's slice of a process; None where the kernel tells none (before Linux 6.12)."""
    attr = bytearray(56)
    libc = ctypes.CDLL(None, use_errno=True)
    number = {"x86_64": 315, "aarch64": 275}[os.uname().machine]
    if libc.syscall(number, pid, (ctypes.c_char * 56).from_buffer(attr), 56, 0) < 0:
        raise OSError(ctypes.get_errno(), "sched_getattr")
    return struct.unpack_from("=Q", attr, 24)[0] or None


def test_what_a_call_wakes_up_need_not_wait_for_a_neighbours_slice(own, usual_priority):
    daemon, client = own
    usual = slice_ns(0)
    if usual is None:
        pytest.skip("the kernel is older than 6.12: it has no slices of their own")
    with client.create() as sandbox:
        sandbox.run("true")
        inside = [slice_ns(pid) for pid in audit.processes_of_cgroups({sandbox.id})]
    assert inside and all(one < usual for one in [*inside, slice_ns(daemon.gateway_pid)])


def weights_of_all(daemon):
    """What all of a daemon's sandboxes weigh together, as parts of the kernel's usual weight: one for each tree that divides CPU time."""
    files = [(Path(group) / name, usual) for group in audit.own_cgroups(daemon) for name, usual in (("cpu.shares", 1024), ("cpu.weight", 100))]
    return {path: int(path.read_text()) / usual for path, usual in files if path.exists()}


def test_all_sandboxes_together_weigh_two_processes_on_each_cpu_unless_an_operator_says_otherwise(own):
    daemon, _ = own
    weights = weights_of_all(daemon)
    if not weights:
        pytest.skip("no control group divides CPU time here")
    assert set(weights.values()) == {2.0 * os.cpu_count()}
    (path, weight), *_ = weights.items()
    path.write_text(str(int(path.read_text()) + 5))
    daemon.kill_parts("broker")
    assert weights_of_all(daemon)[path] > weight
