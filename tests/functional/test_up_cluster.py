# SPDX-License-Identifier: Apache-2.0
"""`make up-cluster` as people type it, but for its name and addresses: from nothing to a sandbox behind a balancer, and nothing again."""

import os
import signal
import subprocess
from pathlib import Path

import pytest
from cloche import Client, errors
from harness.daemon import BUILD, ROOT, children_of, free_port, read_text, wait_for

TOOL = ROOT / "tools" / "up-cluster"


class Cluster:
    def __init__(self):
        self.name = f"clc-test-{os.getpid()}"
        self.data, self.run = Path("/var/tmp") / self.name, Path("/run") / self.name
        self.port = free_port()
        self.env = {**os.environ, "CLOCHE_CLUSTER": self.name, "CLOCHE_CLUSTER_SUBNET": f"10.{120 + os.getpid() % 40}.{os.getpid() // 40 % 250}",
                    "CLOCHE_CLUSTER_PORT": str(self.port), "CLOCHE_CLUSTER_DATA": str(self.data), "CLOCHE_CLUSTER_RUN": str(self.run),
                    "CLOCHE_CLUSTER_BUILT": "1", "BUILD": os.path.relpath(BUILD, ROOT)}  # the suites have built it, and the packages are there

    def tool(self, *words, check=True):
        r = subprocess.run([TOOL, *words], env=self.env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=240)
        assert not check or r.returncode == 0, r.stdout
        return r

    def pid(self, node):
        return int(read_text(self.run / f"node{node}" / "lock"))

    def client(self):
        return Client(f"http://127.0.0.1:{self.port}", (self.data / "admin.key").read_text().strip())

    def left(self):
        """What there is of it on this host."""
        found = [str(p) for p in (self.data, self.run) if p.exists()]
        found += [line for line in subprocess.run(["ip", "netns"], capture_output=True, text=True).stdout.splitlines() if self.name in line]
        found += [line for line in read_text("/proc/self/mountinfo").splitlines() if self.name in line]
        found += [line for line in subprocess.run(["ps", "-eo", "pid,args"], capture_output=True, text=True).stdout.splitlines()
                  if self.name in line and "pytest" not in line]
        bridge = subprocess.run(["ip", "-4", "addr", "show", "to", self.env["CLOCHE_CLUSTER_SUBNET"] + ".0/24"], capture_output=True, text=True).stdout
        return found + bridge.splitlines()


@pytest.fixture
def cluster():
    c = Cluster()
    try:
        yield c
    finally:
        c.tool("down")
    assert c.left() == []


def uids_of(cluster, node):
    """The first host uid of each sandbox and spare that the node's daemon has."""
    todo, found = [cluster.pid(node)], set()
    while todo:
        pid = todo.pop()
        todo += children_of(pid)
        fields = read_text(f"/proc/{pid}/uid_map").split()
        if len(fields) == 3 and fields[0] == "0" and fields[2] == "65536":
            found.add(int(fields[1]))
    return found


def test_one_command_makes_a_cluster_and_one_removes_it_also_after_kills(cluster):
    said = cluster.tool().stdout
    assert "A first sandbox, made through the balancer, says:\n  I am user on sb-" in said
    for i in (1, 2, 3):
        assert f"node{i}" in said
    with cluster.client() as client, client.create(template="host") as sandbox:
        assert sandbox.run(["echo", "behind it"]).stdout == "behind it\n"
    # Each node's sandboxes have uids that no other node's have.
    bases = [wait_for(lambda i=i: uids_of(cluster, i), 60, f"a spare of node {i}") for i in (1, 2, 3)]
    for i, has in enumerate(bases):
        first = 805306368 + (20000 + i * 2000) * 65536
        assert all(first <= uid < first + 2000 * 65536 for uid in has), (i, has)
    pids = [cluster.pid(i) for i in (1, 2, 3)]
    cluster.tool()
    assert [cluster.pid(i) for i in (1, 2, 3)] == pids  # a second time changes nothing
    # One that dies is missed by nobody behind the balancer, and comes back by the same command.
    for pid in pids[:2]:
        os.kill(pid, signal.SIGKILL)
    with cluster.client() as client:
        wait_for(lambda: _creates(client), 60, "a create on the node that is left")
    cluster.tool()
    assert cluster.pid(1) != pids[0] and cluster.pid(3) == pids[2]
    os.kill(cluster.pid(3), signal.SIGKILL)
    os.kill(int(read_text(cluster.data / "postgres" / "data" / "postmaster.pid").split()[0]), signal.SIGKILL)
    assert "removed the cluster" in cluster.tool("down").stdout
    assert cluster.left() == []
    assert cluster.tool("down").stdout == ""


def _creates(client):
    try:
        with client.create(template="host") as sandbox:
            return sandbox.run(["true"]).exit_code == 0
    except errors.ClocheError:
        return False


def test_a_start_that_fails_half_way_says_why_and_is_removed(cluster):
    cluster.data.mkdir(mode=0o711)
    (cluster.data / "postgres.crt").mkdir()  # where a certificate is to be
    r = cluster.tool(check=False)
    assert r.returncode == 1 and "openssl" in r.stdout and "failed" in r.stdout
    (cluster.data / "postgres.crt").rmdir()
    assert "removed the cluster" in cluster.tool("down").stdout
    assert cluster.left() == []
