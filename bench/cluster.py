# SPDX-License-Identifier: Apache-2.0
"""What a cluster adds: a node beside a machine that is alone, in turns; and what its statements cost PostgreSQL, of which follows what a thousand nodes take."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import time
from typing import Callable, Dict, List

from daemon import Daemon, children_of, free_port, name_of, read_text
from link import Link
from measure import Row, interleave, row, timed
from postgres import Postgres

SECTION = "cluster"
JOIN_S = 120
IDLE_S = 20
# Transactions a second of a thousand nodes that are busy, by docs/design/cluster.md: a beat each two seconds, a batch of the directory and of usage each ten and
# thirty seconds, and what a thousand creates a second bring: a fifth of them with names, a sixth with a call for a lease, of which each carries several.
A_SECOND = {"beat": 500, "directory batch": 100, "named create and its end": 200, "lease": 170}
TABLE_SQL = "CREATE TABLE public.bench (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, at timestamptz DEFAULT now())"


class Node:
    def __init__(self, build: str, name: str, database: Postgres) -> None:
        self.build, self.name, self.address = build, name, f"127.0.0.1:{free_port()}"
        self.daemon = Daemon(build, pool=True, options=["--cluster-postgres", database.conninfo, "--cluster-address", self.address])
        self.config = self.daemon.dir / "cloche.toml"
        self.config.write_text(f'data = "{self.daemon.dir}/data"\nrun = "{self.daemon.run}"\n[cluster]\npostgres = "{database.conninfo}"\naddress = "{self.address}"\n')

    def say(self, *words: str) -> dict:
        argv = [f"{self.build}/cloche", *words[:2], "--config", str(self.config), "--json", *words[2:]]
        done = subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        if done.returncode not in (0, 1):
            raise SystemExit(f"bench: {' '.join(words)}: {done.stderr}")
        return json.loads(done.stdout)

    def await_nodes(self, n: int) -> None:
        deadline = time.monotonic() + JOIN_S
        while time.monotonic() < deadline:
            status = self.say("cluster", "status")
            if status.get("state") == "held" and status.get("nodes") == n and status.get("streams", {}).get("listening"):
                return
            time.sleep(0.2)
        raise SystemExit(f"bench: {self.name} is not in the cluster: {status}")

    def member(self) -> int:
        return next(p for p in children_of(self.daemon.process.pid) if "cloche-member" in name_of(p) or "cloche-cluster" in name_of(p))


def cpu_s(pid: int) -> float:
    fields = read_text(f"/proc/{pid}/stat").rpartition(")")[2].split()
    return sum(int(n) for n in fields[11:13]) / os.sysconf("SC_CLK_TCK")


def creator(daemon: Daemon, link: Link, names: bool = False) -> Callable[[], float]:
    numbers = itertools.count()

    def once() -> float:
        daemon.settle()
        body = {"name": f"bench-{next(numbers)}"} if names else {}
        start = time.perf_counter()
        made = link.create(**body)
        took = (time.perf_counter() - start) * 1000
        link.delete(made)
        return took

    return once


def more(took: List[float], than: List[float]) -> List[float]:
    """What each adds to what was measured in the same round."""
    return [a - b for a, b in zip(took, than)]


def creates(alone: Daemon, node: Node, database: Postgres, count: int) -> List[Row]:
    here, there = alone.tcp(), node.daemon.tcp()
    took = interleave({
        "alone": (creator(alone, here), count),
        "node": (creator(node.daemon, there), count),
        "named": (creator(node.daemon, there, names=True), count),
        "named alone": (creator(alone, here, names=True), count),
    })
    commits = database.commits(count)
    commit = sorted(commits)[len(commits) // 2]
    named = [extra - commit for extra in more(took["named"], took["named alone"])]
    return [
        row(SECTION, "unnamed create on a node", took["node"], peer="on a machine alone", peer_took=took["alone"]),
        row(SECTION, "what the cluster adds to it", more(took["node"], took["alone"]), limit=0.1),
        row(SECTION, "named create on a node", took["named"], peer="on a machine alone", peer_took=took["named alone"]),
        row(SECTION, "what the cluster adds to it, but one commit", named, limit=0.2),
        row(SECTION, "one commit of PostgreSQL", commits),
    ]


def calls(first: Node, second: Node, count: int) -> List[Row]:
    near, far = (Link(("127.0.0.1", node.daemon.port), first.daemon.key) for node in (second, first))
    made = near.create()
    for link in (near, far):
        link.code(made, "1")
    took = interleave({"near": (lambda: timed(lambda: near.code(made, "1")), count), "far": (lambda: timed(lambda: far.code(made, "1")), count)})
    near.delete(made)
    return [
        row(SECTION, "hot call through another node", took["far"], peer="at its own node", peer_took=took["near"]),
        row(SECTION, "what the hop adds", more(took["far"], took["near"]), limit=0.5),
    ]


def member(node: Node) -> List[Row]:
    pid = node.member()
    before = cpu_s(pid)
    time.sleep(IDLE_S)
    busy = (cpu_s(pid) - before) / IDLE_S * 100
    resident = dict(line.split(":", 1) for line in read_text(f"/proc/{pid}/status").splitlines() if ":" in line)["VmRSS"]
    return [
        row(SECTION, "member, resident", [int(resident.split()[0]) / 1024], unit="MiB", limit=20),
        row(SECTION, "member, idle", [busy], unit="% of a CPU", limit=1),
    ]


def statements(database: Postgres, count: int) -> List[Row]:
    """By a node that no daemon is."""
    secret = "s" * 40
    node = database.ask(f"SELECT cluster.add_node('bench:1', '{secret}', ARRAY(SELECT t FROM generate_series(0, 1048575) t WHERE NOT EXISTS (SELECT 1 FROM cluster.node_tags x WHERE x.tag = t) LIMIT 16), 'bench')")
    who = f"{node}, '{secret}'"
    epoch = database.ask(f"SELECT cluster.join_node({who}, 0, 1, true)")
    database.ask("CREATE SEQUENCE public.numbers")
    number = "nextval('public.numbers')"
    rows = "(SELECT jsonb_agg(jsonb_build_object('id', 'sb_' || i, 'project_id', 'p', 'row', jsonb_build_object('created_us', i, 'state', 'running'))) FROM generate_series(1, 10) i)"
    sql: Dict[str, str] = {
        "beat": f"SELECT cluster.sample({who}) FROM set_config('synchronous_commit', 'off', true), cluster.beat({who}, {epoch}, {number}, '{{}}');",
        "directory batch": f"SELECT cluster.tell_batch({who}, {epoch}, n, n, {rows}, '[]', false) FROM (SELECT {number} AS n) x;",
        "named create and its end": f"SELECT cluster.take_create({who}, {epoch}, {number}, 'p', 'sb_x', 'bench', NULL, NULL);\n"
        f"SELECT cluster.free_create({who}, {epoch}, {number}, 'sb_x', false);",
        "lease": f"SELECT cluster.lease({who}, {epoch}, 'p', 'sandboxes', {number}, 5, 1);",
    }
    database.ask("INSERT INTO cluster.quotas VALUES ('p', 'sandboxes', 1000000)")
    found, cores = [], 0.0
    for what, text in sql.items():
        latency, cpu = database.cost(text, count * 10)
        cores += A_SECOND[what] * cpu / 1000
        found.append(row(SECTION, f"PostgreSQL: {what}", [latency]))
        found.append(row(SECTION, f"PostgreSQL: {what}, its CPU time", [cpu]))
    found.append(row(SECTION, f"PostgreSQL at 1,000 nodes, {sum(A_SECOND.values())} transactions a second, by these", [cores], unit="cores", limit=2))
    return found


def run(alone: Daemon, build: str, count: int) -> List[Row]:
    database = Postgres()
    nodes: List[Node] = []
    try:
        database.ask(TABLE_SQL)
        for name in ("a", "b"):
            nodes.append(Node(build, name, database))
        first, second = nodes
        first.say("cluster", "init", "--owner", database.owner, "--name", first.name)
        first.await_nodes(1)
        second.say("node", "join", first.say("cluster", "invite")["token"], "--name", second.name)
        for node in nodes:
            node.await_nodes(2)
        return creates(alone, first, database, count) + calls(first, second, count * 5) + member(first) + statements(database, count)
    finally:
        for node in nodes:
            node.daemon.close()
        database.close()
