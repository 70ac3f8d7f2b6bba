# SPDX-License-Identifier: Apache-2.0
"""A small internet of the test's own: two net namespaces with a link between them. In the one runs the
daemon; in the other are servers (harness/internet_servers.py) at addresses that look public, private and like
a cloud's metadata service. Nothing of it touches the machine's network, and it is gone with its processes."""

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from harness.daemon import PATIENCE, Daemon, wait_for

HERE = Path(__file__).resolve().parent
RESOLVER = "81.2.69.2"
HOST = "81.2.69.1"  # the daemon's own address
ALLOWED, OTHER = "93.184.216.34", "93.184.216.35"
HUB = "93.184.216.36"  # who starts a server there has that address for itself
ALLOWED6 = "2606:2800:220:1::34"
PRIVATE, METADATA = "10.99.0.5", "169.254.169.254"
ZONE = {
    "allowed.test": [ALLOWED, ALLOWED6],
    "six.test": [ALLOWED6],
    "kept.test": [ALLOWED],
    "slow.test": [ALLOWED],
    "other.test": [OTHER],
    "www.wild.test": [ALLOWED],
    "private.test": [PRIVATE],
    "alias.test": ["=private.test"],
    "chain.test": ["=allowed.test"],
    "metadata.test": [METADATA],
    "mixed.test": [PRIVATE, ALLOWED],
    "host.test": [HOST],
    "loopback.test": ["127.0.0.1"],
    "ssh.test": [HUB],  # harness/ssh_servers.py
    "twin.test": [HUB],
    # servers that cannot prove to be who they are
    "expired.test": [ALLOWED],
    "stranger.test": [ALLOWED],
    "wrong.test": [ALLOWED],
}


def _holder():
    """A process whose net namespace is a new one."""
    code = "import os,sys; print('up', flush=True); sys.stdin.read()"
    p = subprocess.Popen(["unshare", "--net", sys.executable, "-S", "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    p.stdout.readline()
    return p


class Internet:
    def __init__(self):
        self.inner, self.outer = _holder(), _holder()
        self.dir = tempfile.TemporaryDirectory(prefix="cloche-internet-", dir="/var/tmp")
        self.zone_path, self.log_path = (Path(self.dir.name) / n for n in ("zone", "log"))
        self.set_zone({})
        self.log_path.touch()
        self.ca_file = Path(self.dir.name) / "good" / "ca.pem"  # who vouches for the servers
        self._link()
        argv = [*self.enter(self.outer), sys.executable, str(HERE / "internet_servers.py"), str(self.zone_path), str(self.log_path)]
        self.servers = subprocess.Popen([*argv, RESOLVER, self.dir.name, ALLOWED, OTHER, PRIVATE, METADATA], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert self.servers.stdout.readline() == b"up\n"

    @staticmethod
    def enter(holder):
        return ["nsenter", f"--net=/proc/{holder.pid}/ns/net"]

    def _ip(self, holder, batch):
        subprocess.run([*self.enter(holder), "ip", "-batch", "-"], input=batch.encode(), check=True)

    def _link(self):
        self._ip(self.inner, f"link add wall0 type veth peer name wall1\nlink set wall1 netns {self.outer.pid}\nlink set lo up\n")
        outer = "link set lo up\nlink set wall1 up\naddress add 81.2.69.2/24 dev wall1\naddress add 2a00:1450:4::2/64 dev wall1 nodad\n"
        outer += "".join(f"address add {a}/32 dev lo\n" for a in (ALLOWED, OTHER, HUB, PRIVATE, METADATA))
        self._ip(self.outer, outer + f"address add {ALLOWED6}/128 dev lo nodad\n")
        inner = "link set wall0 up\naddress add 81.2.69.1/24 dev wall0\naddress add 2a00:1450:4::1/64 dev wall0 nodad\n"
        self._ip(self.inner, inner + f"route add default via {RESOLVER}\nroute add default via 2a00:1450:4::2\n")

    def set_zone(self, changes):
        """What names lead to; answers may be kept for a second."""
        new = self.zone_path.with_suffix(".new")
        new.write_text(json.dumps({**ZONE, **changes}))
        new.rename(self.zone_path)

    def log(self):
        """What the servers have seen, as objects with a `kind`."""
        return [json.loads(line) for line in self.log_path.read_text().splitlines()]

    def asked_names(self):
        return {e["name"] for e in self.log() if e["kind"] == "dns"}

    def seen(self, kind, **facts):
        return [e for e in self.log() if e["kind"] == kind and all(e.get(k) == v for k, v in facts.items())]

    def daemon(self, *options, **fields):
        return Daemon("--resolver", RESOLVER, "--network-ca-file", str(self.ca_file), *options, prefix=self.enter(self.inner), **fields)

    def run(self, *argv):
        """In the daemon's namespace, with no wall: the positive control."""
        return subprocess.run([*self.enter(self.inner), *argv], capture_output=True, text=True, timeout=30 * PATIENCE, check=False)

    def close(self):
        for p in (self.servers, self.inner, self.outer):
            p.stdin.close()
        for p in (self.servers, self.inner, self.outer):
            p.wait(60 * PATIENCE)
            p.stdout.close()
        self.dir.cleanup()
