# SPDX-License-Identifier: Apache-2.0
"""Nodes of a cluster of which the whole daemons run, side by side on this machine."""

import contextlib
import secrets
import shutil

from cloche import Client

from .cluster import FENCE_AFTER_S, Node
from .daemon import Daemon, call, children_of, free_port, read_text, wait_for
from .running import running

DOMAIN = "preview.example"
LOST_AFTER_S = 300  # on a busy machine beats may be late by many seconds, and a lost node ends its sandboxes


class Member(Node):
    """A node of which the whole daemon runs."""

    def __init__(self, name, database, key=None, options=(), address=None, prefix=(), rm=True):
        """prefix: words that bring the daemon, and it alone, to another network namespace."""
        super().__init__(name, database.conninfo("one"), address=address or f"127.0.0.1:{free_port()}")
        self.daemon = Daemon("--cluster-postgres", self.conninfo, "--cluster-address", self.address, "--pool-max", "0", "--preview-domain", DOMAIN, *options, prefix=prefix, rm=rm)
        shutil.rmtree(self.dir)
        self.dir, self.data, self.run = self.daemon.dir, self.daemon.data, self.daemon.run
        self.config = self.dir / "cloche.toml"
        if key:
            self.data.mkdir(mode=0o711, exist_ok=True)
            (self.data / "admin.key").write_text(key + "\n")
            (self.data / "admin.key").chmod(0o600)

    def member_pid(self):
        return next((p for p in children_of(self.daemon.process.pid) if read_text(f"/proc/{p}/comm").strip() == "cloche-member"), None)

    def client(self, key=None, **options):
        return Client(self.daemon.url, api_key=key or self.daemon.key, **options)

    def sees(self, n):
        return self.state() == "held" and self.status()["nodes"] == n and self.status()["streams"]["listening"]

    def call(self, method, path, body=None, **options):
        return call(self.daemon, method, path, body, **options)

    def ok(self, method, path, body=None, **options):
        status, answer = self.call(method, path, body, **options)
        assert status < 300, (method, path, status, answer, self.daemon.log()[-2000:])
        return answer

    def refused(self, method, path, body=None, **options):
        status, answer = self.call(method, path, body, **options)
        assert status >= 400, (method, path, answer)
        return status, answer["error"]["code"]


def reached(here, there, key):
    """Gateways know the directory a moment after the members."""
    status, made = there.call("POST", "/v1/sandboxes", {"template": "host"}, key=key)
    assert status == 201, made
    try:
        return here.call("GET", f"/v1/sandboxes/{made['id']}", key=key)[0] == 200
    finally:
        there.ok("DELETE", f"/v1/sandboxes/{made['id']}", key=key)


@contextlib.contextmanager
def cluster_of(database, *names, options=lambda name: (), reached_by=lambda name, database: database, lost_after_s=LOST_AFTER_S, fence_after_s=FENCE_AFTER_S, rm=True,
               around=lambda daemon: contextlib.nullcontext()):
    """Nodes of these names, of which each reaches each; the first one's key opens all. options: of a node's daemon, by its name; around: what is there from
    before that daemon's start until behind its stop."""
    with contextlib.ExitStack() as stack:
        nodes = [Member(name, reached_by(name, database), options=options(name), rm=rm) for name in names]
        for n in nodes:
            stack.enter_context(running(n.daemon, around(n.daemon)))
        first, *others = nodes
        for n in nodes:
            n.await_problem("not_joined")
        first.init(database.owner("one"), fence_after_s=fence_after_s, lost_after_s=lost_after_s)
        first.await_state("held")
        for n in others:
            n.join(first.ask("cluster", "invite")["token"])
        wait_for(lambda: all(n.sees(len(nodes)) for n in nodes), 60, "all see all")
        key = first.daemon.key
        for here in nodes:
            wait_for(lambda here=here: here.call("GET", "/v1/sandboxes", key=key)[0] == 200, 60, "it knows the key")
            for there in nodes:
                if here is not there:
                    wait_for(lambda here=here, there=there: reached(here, there, key), 60, f"{here.name} reaches {there.name}")
        yield nodes


@contextlib.contextmanager
def without(database, *nodes):
    """The database is away, and the nodes know it."""
    database.stop()
    try:
        for n in nodes:
            n.await_state("fenced")
        yield
    finally:
        database.start()
        for n in nodes:
            n.await_state("held")


def team_of(nodes):
    """A key of a project of its own, which every node knows."""
    name = f"team-{secrets.token_hex(4)}"
    # The gateway hears a moment after its member that a database is there again, which a test before this one has stopped.
    wait_for(lambda: nodes[0].call("POST", "/v1/projects", {"name": name})[0] == 201, 30, "a project")
    made = nodes[0].ok("POST", "/v1/keys", {"name": "k", "project": name})
    for n in nodes:
        wait_for(lambda n=n: n.call("GET", "/v1/sandboxes", key=made["secret"])[0] == 200, 30, "it knows the key")
    return made["secret"]
