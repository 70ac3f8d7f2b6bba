# SPDX-License-Identifier: Apache-2.0
"""`make up-cluster` as people type it, but for its name and addresses: from nothing to three nodes behind a balancer that answer for each other, and nothing again."""

import json
import os
import signal
import socket
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

    def client(self, node=None):
        """Of the balancer, or of one node."""
        url = f"http://{self.env['CLOCHE_CLUSTER_SUBNET']}.{10 + node}:7070" if node else f"http://127.0.0.1:{self.port}"
        return Client(url, (self.data / "admin.key").read_text().strip())

    def answers(self, node):
        try:
            socket.create_connection((f"{self.env['CLOCHE_CLUSTER_SUBNET']}.{10 + node}", 7070), timeout=5).close()
            return True
        except OSError:
            return False

    def node_ls(self, node):
        cli = ["nsenter", f"--net=/run/netns/{self.name}-{node}", BUILD / "cloche", "node", "ls", "--config", self.data / f"node{node}.toml"]
        return subprocess.run(cli, capture_output=True, text=True, check=True).stdout

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


def calls_go_on_while_one_node_is_killed(cluster, pids):
    with cluster.client() as client:
        sandbox = client.create(template="host", name="desk")
        assert all(sandbox.id in [s.id for s in _list(cluster, i)] for i in (1, 2, 3))  # each node lists those of all
        owner = owner_of(cluster, sandbox.id)
        victim, other = (owner % 3 + 1, (owner + 1) % 3 + 1)
        assert cluster.node_ls(other).count(" up ") == 3
        for i in range(12):  # whichever node the balancer takes finds it
            assert client.get("desk").run(["echo", str(i)]).stdout == f"{i}\n"
            assert client.create(template="host", name="desk", get_or_create=True).id == sandbox.id
        with cluster.client(victim) as there:
            unreached = there.create(template="host").id
            with pytest.raises(errors.Conflict) as refused:
                there.create(template="host", name="desk")
            assert sandbox.id in refused.value.hint
        with cluster.client(other) as there:
            assert there.get(unreached).run(["echo", "by a hop"]).stdout == "by a hop\n"
        os.kill(pids[victim - 1], signal.SIGKILL)
        wait_for(lambda: not cluster.answers(victim), 30, "its gateway, which outlives its launcher by a moment, is gone")
        # The balancer takes the two that are left in turn: one has it, the other passes the calls on.
        for i in range(6):
            assert client.get(sandbox.id).run(["echo", str(i)]).stdout == f"{i}\n"
            assert client.get("desk").run(["echo", "by name"]).stdout == "by name\n"
        with cluster.client(other) as there:
            with pytest.raises(errors.NodeUnreachable) as refused:
                there.get(unreached)
            assert f"'node{victim}'" in str(refused.value)
        with client.create(template="host") as new:
            assert new.run(["echo", "new"]).stdout == "new\n"
        cluster.tool()
        assert [cluster.pid(i) == pids[i - 1] for i in (owner, other, victim)] == [True, True, False]
        with cluster.client(other) as there:
            assert there.get(unreached).run(["echo", "again"]).stdout == "again\n"
        assert client.get(sandbox.id).run(["echo", "there"]).stdout == "there\n"
        sandbox.delete()


def owner_of(cluster, sandbox_id):
    """The number of the node that has it, as the list of any says."""
    key = (cluster.data / "admin.key").read_text().strip()
    told = subprocess.run([BUILD / "cloche", "ps", "--json", "--url", f"http://127.0.0.1:{cluster.port}"], env={**os.environ, "CLOCHE_API_KEY": key}, capture_output=True, check=True)
    (node,) = [one["node"] for one in json.loads(told.stdout) if one["id"] == sandbox_id]
    return int(node.removeprefix("node"))


def _list(cluster, node):
    with cluster.client(node) as client:
        return list(client.list())


def test_one_command_makes_a_cluster_and_one_removes_it_also_after_kills(cluster):
    said = cluster.tool().stdout
    assert "A first sandbox, made through the balancer, says:\n  I am user on sb-" in said
    for i in (1, 2, 3):
        assert f"node{i}" in said
    # Each node's sandboxes have uids that no other node's have.
    bases = [wait_for(lambda i=i: uids_of(cluster, i), 60, f"a spare of node {i}") for i in (1, 2, 3)]
    for i, has in enumerate(bases):
        first = 805306368 + (20000 + i * 2000) * 65536
        assert all(first <= uid < first + 2000 * 65536 for uid in has), (i, has)
    pids = [cluster.pid(i) for i in (1, 2, 3)]
    cluster.tool()
    assert [cluster.pid(i) for i in (1, 2, 3)] == pids  # a second time changes nothing
    calls_go_on_while_one_node_is_killed(cluster, pids)
    os.kill(cluster.pid(3), signal.SIGKILL)
    os.kill(int(read_text(cluster.data / "postgres" / "data" / "postmaster.pid").split()[0]), signal.SIGKILL)
    assert "removed the cluster" in cluster.tool("down").stdout
    assert cluster.left() == []
    assert cluster.tool("down").stdout == ""


def test_a_start_that_fails_half_way_says_why_and_is_removed(cluster):
    cluster.data.mkdir(mode=0o711)
    (cluster.data / "postgres.crt").mkdir()  # where a certificate is to be
    r = cluster.tool(check=False)
    assert r.returncode == 1 and "openssl" in r.stdout and "failed" in r.stdout
    (cluster.data / "postgres.crt").rmdir()
    assert "removed the cluster" in cluster.tool("down").stdout
    assert cluster.left() == []
