# SPDX-License-Identifier: Apache-2.0
"""Whole nodes, each in a network namespace of its own behind a bridge, on a PostgreSQL with a synchronous standby; and what may befall them."""

import contextlib
import os
import random
import signal
import subprocess
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

from harness import audit
from harness.cluster import Namespaces
from harness.daemon import Daemon, call, children_of, read_text, wait_for
from harness.small_disk import Disk
from harness.whole_node import Member

from chaos.cluster_servers import NAME, Servers
from chaos.model import NO_ANSWER

FENCE_S, LOST_S = 3, 24  # so short that a run of minutes sees nodes lost; a busy machine fences nodes by itself at times
RANGES = 600  # of uids, of each node
UID_BASE = 805306368 + 26500 * 65536  # above those of `make up-cluster`, and of other tests' daemons
PARTS = ("gateway", "broker", "cloche-wall", "cloche-member")
DISK_BYTES = 3 << 30
PORT = 7071
OPTIONS = ["--default-memory", "64MiB", "--usage-period", "200ms", "--events-rate", "100000", "--uid-ranges", str(RANGES), "--sandboxes-max", "300"]


class Site:
    """Nodes that work together, and who knows how to break them. All that is drawn comes from the seed."""

    def __init__(self, n, seed):
        self.drawn, self.n_faults, self.rewinds = threading.local(), Counter(), []
        self.rng = random.Random(f"{seed}/cluster")
        self.spaces = Namespaces(n)
        self.stack = contextlib.ExitStack()
        self.stack.callback(self.spaces.close)
        try:
            self.servers = Servers(self.spaces.address)
            self.stack.callback(self.servers.close)
            self.nodes = [self.node(i) for i in range(n)]
            self.found()
        except BaseException:
            self.close()
            raise

    def node(self, i):
        address = f"{self.spaces.subnet}.{10 + i}:{PORT}"
        options = [*OPTIONS, "--uid-base", str(UID_BASE + i * RANGES * 65536)]
        node = Member(f"n{i}", self.servers, options=options, address=address, prefix=["nsenter", f"--net=/run/netns/{self.spaces.name(i)}"], rm=False)
        node.at, node.disk, node.is_down = i, Disk(node.daemon, DISK_BYTES), False
        self.stack.callback(self.end, node)
        node.data.chmod(0o711)
        node.daemon.start()
        return node

    def found(self):
        """The first makes the cluster, and the others join."""
        first, *others = self.nodes
        for n in self.nodes:
            n.await_problem("not_joined")
        first.init(self.servers.owner(NAME), fence_after_s=FENCE_S, lost_after_s=LOST_S)
        first.await_state("held")
        for n in others:
            n.join(first.ask("cluster", "invite")["token"])
        self.key = first.daemon.key
        self.await_peace()

    def call(self, node, method, path, body=None, key=None, headers=None, timeout=30):
        """(status, answer), or (None, None) where no answer came."""
        try:
            return call(node.daemon, method, path, body, key=key or self.key, headers=headers, timeout=timeout)
        except NO_ANSWER:
            return None, None

    def await_peace(self, key=None):
        """All hold their right, see all others, and know the first one's key."""
        for n in self.nodes:
            wait_for(lambda n=n: self.is_well(n, key), 120, f"{n.name} is well: {n.status()} {n.log()[-2000:]}")

    def is_well(self, node, key=None):
        with contextlib.suppress(AssertionError):
            return node.sees(len(self.nodes)) and self.call(node, "GET", "/v1/sandboxes?limit=1", key=key)[0] == 200
        return False

    def close(self):
        self.stack.close()

    def end(self, node):
        """What a run that failed has left of a node."""
        node.disk.empty()
        if node.daemon.process:
            for pid in self.parts(node):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGCONT)
            node.daemon.stop()
        subprocess.run([node.daemon.program, "serve", "--data", node.data, "--run", node.run, "--sweep"], stdin=subprocess.DEVNULL, capture_output=True, timeout=120, check=False)
        node.disk.remove()
        Daemon.started.discard(node.daemon)
        node.daemon.remove()

    def left(self, node):
        """Stops it, and tells what is there of it that must not be."""
        ids = node.daemon.ids()
        status = node.daemon.stop()
        left = audit.left_after_stop(node.daemon, ids, but={f"mount: {node.data}", *(f"loop device: {d}" for d in audit.loop_devices(node.disk.image))})
        return left + ([f"the daemon ended with {status}"] if status != 0 else [])

    @property
    def rng(self):
        """Of this thread: faults at the same time draw each for itself."""
        return self.drawn.rng

    @rng.setter
    def rng(self, rng):
        self.drawn.rng = rng

    # What can be broken.

    def parts(self, node, *names):
        children = children_of(node.daemon.process.pid)
        return [p for p in children if not names or any(name in read_text(f"/proc/{p}/comm") + read_text(f"/proc/{p}/cmdline") for name in names)]

    def any_node(self):
        return self.rng.choice(self.nodes)

    def pause(self, least, most):
        time.sleep(self.rng.uniform(least, most))

    def start_again(self, node):
        """As an init system does: at once, and again where what was left has not gone yet."""
        deadline = time.monotonic() + 120
        while True:
            try:
                return node.daemon.start()
            except RuntimeError:
                if time.monotonic() > deadline:
                    raise

    def kill_a_part(self):
        node, name = self.any_node(), self.rng.choice(PARTS)
        for pid in self.parts(node, name):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return f"{name} of {node.name}"

    def kill_a_daemon(self):
        """All of its own processes; what runs in sandboxes stays, as with a crash of the launcher."""
        node = self.any_node()
        pids = self.parts(node)
        node.daemon.process.kill()
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        node.daemon.process.wait()
        self.pause(0, 3)
        self.start_again(node)
        return node.name

    def stop_a_part(self):
        """It stands still, as on a machine that is out of memory."""
        node, name = self.any_node(), self.rng.choice(PARTS)
        pids = self.parts(node, name)
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        self.pause(0.2, 8)
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):  # its launcher has ended it
                os.kill(pid, signal.SIGCONT)
        return f"{name} of {node.name}"

    def cut(self, least=0.5, most=10):
        """Nothing comes from there or goes there."""
        node = self.any_node()
        self.spaces.cut(node.at)
        self.pause(least, most)
        self.spaces.cut(node.at, is_cut=False)
        return node.name

    def cut_until_lost(self):
        return self.cut(LOST_S + FENCE_S, LOST_S + 4 * FENCE_S)

    def cut_one_way(self):
        """What comes from one other place is lost, what goes there is not."""
        node, other = self.rng.sample(self.nodes, 2)
        source = self.rng.choice((self.spaces.address, other.address.split(":")[0]))
        self.nft(node, "add table inet chaos", "add chain inet chaos in { type filter hook input priority 0 ; }", f"add rule inet chaos in ip saddr {source} drop")
        self.pause(0.5, 10)
        self.nft(node, "delete table inet chaos")
        return f"{node.name} hears nothing of {source}"

    def nft(self, node, *commands):
        subprocess.run([*node.daemon.prefix, "nft", "-f", "-"], input="\n".join(commands), text=True, check=True)

    def skew(self):
        """The database's clock is another one for a while, as far as nodes hear of it."""
        shift = self.rng.choice((-3600, 3600)) * 1_000_000
        body = self.servers.ask("SELECT pg_get_functiondef('cluster.beat'::regproc)")
        self.servers.ask(body.replace("at_us := (", f"at_us := ({shift}) + ("))
        self.pause(1, 5)
        self.servers.ask(body)
        return f"{shift // 1_000_000} s"

    def fill_a_disk(self):
        node = self.any_node()
        node.disk.fill(leave=1 << 20)
        self.pause(1, 5)
        node.disk.empty()
        return node.name

    def restart_the_database(self):
        self.servers.restart()

    def stop_the_database(self):
        """For longer than a fence takes."""
        self.servers.primary.stop("immediate")
        self.pause(FENCE_S, 3 * FENCE_S)
        self.servers.start()

    def promote(self):
        self.servers.promote()

    def lose(self):
        began = time.monotonic()
        self.servers.lose(self.rng.uniform(0.5, 4))
        self.rewinds.append((began, time.monotonic()))

    def set_back(self):
        began = time.monotonic()
        self.servers.back_up()
        self.pause(1, 6)
        self.servers.restore()
        self.rewinds.append((began, time.monotonic()))

    FAULTS = {kill_a_part: 5, kill_a_daemon: 2, stop_a_part: 4, cut: 3, cut_until_lost: 1, cut_one_way: 4, skew: 1, fill_a_disk: 1,
              restart_the_database: 1, stop_the_database: 1, promote: 2, lose: 1, set_back: 1}

    OF_DATABASE = {skew, restart_the_database, stop_the_database, promote, lose, set_back}

    def draw(self, chosen):
        """What comes next: a fault, or one of a node and one of the database at the same time."""

        def of(faults):
            return self.rng.choices(faults, [self.FAULTS[f] for f in faults]) if faults else []

        if self.rng.random() < 0.25:
            return of([f for f in chosen if f not in self.OF_DATABASE]) + of([f for f in chosen if f in self.OF_DATABASE])
        return of(chosen)

    def strike(self, faults):
        """These at once, and the end of all of them. Says which."""
        with ThreadPoolExecutor(len(faults)) as pool:
            said = [w.result() for w in [pool.submit(self.one, f, self.rng.random()) for f in faults]]
        for n in self.nodes:
            n.daemon.check_parts()
        return " + ".join(said)

    def one(self, fault, seed):
        self.rng = random.Random(seed)
        said = fault(self)
        self.n_faults[fault.__name__] += 1
        return f"{fault.__name__} {said or ''}".strip()
