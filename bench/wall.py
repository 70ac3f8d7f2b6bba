# SPDX-License-Identifier: Apache-2.0
"""What the network wall adds to connections and requests, what it lets through, and what a connection costs it: beside the
same client without a wall, and beside mitmproxy, between two net namespaces of the bench's own."""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Callable, Dict, List, Optional

from daemon import read_text
from link import Link
from measure import Row, row

SECTION = "wall"
HERE = Path(__file__).resolve().parent
CLIENT = HERE / "wall_client.py"
PLAIN, TLS = 9080, 9443
NAME = "kept.test"  # whose lookup may be kept, as that of most names
MITM = {PLAIN: 9081, TLS: 9444}
HELD = 100
DOWNLOAD_MIB = 32
BLOCK = 10
# Which of the server's ports, and the name that is said to TLS.
KINDS = {"plain HTTP": (PLAIN, "-"), "TLS passed on": (TLS, NAME), "TLS looked into": (TLS, NAME)}
SEEN = {"match": {"domains": [NAME], "methods": ["GET", "POST"]}, "action": "allow"}
POLICIES: Dict[str, Any] = {"plain HTTP": {"allow": [NAME]}, "TLS passed on": {"allow": [NAME]}, "TLS looked into": {"rules": [SEEN]}}


def rss_kib(pid: int) -> int:
    for line in read_text(f"/proc/{pid}/status").splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1])
    raise SystemExit("bench: a process that is measured is gone")


class Setup:
    """Servers, a daemon and mitmproxy, each in its namespace (tests/harness/internet.py)."""

    def __init__(self, build: str) -> None:
        os.environ["CLOCHE_BUILD"] = str(Path(build).resolve())
        sys.path[:0] = [str(HERE.parent / "tests"), str(HERE.parent / "sdk" / "python")]
        from harness.certificates import Authority
        from harness.internet import ALLOWED, Internet

        self.address = ALLOWED
        self.internet = Internet()
        self.children: List[subprocess.Popen] = []
        pair = Authority(Path(self.internet.dir.name), "bench").issue(NAME)
        server = self._start(self.internet.outer, sys.executable, str(HERE / "wall_server.py"), str(PLAIN), str(TLS), str(pair))
        server.stdout.readline()
        self.mitm = self._start_mitmproxy() if shutil.which("mitmdump") else None
        self.daemon = self.internet.daemon("--network-ca-file", str(Path(self.internet.dir.name) / "bench" / "ca.pem"), "--log-level", "warn").start()
        self.link = Link(str(self.daemon.socket))
        self.sandboxes = {kind: self.link.create(network=policy) for kind, policy in POLICIES.items()}

    def _start(self, holder: Any, *argv: str, **fields: Any) -> subprocess.Popen:
        # A bench that is killed leaves nobody behind.
        p = subprocess.Popen([*self.internet.enter(holder), "setpriv", "--pdeathsig", "TERM", *argv], stdin=subprocess.PIPE, stdout=subprocess.PIPE, **fields)
        self.children.append(p)
        return p

    def _start_mitmproxy(self) -> Optional[Dict[int, subprocess.Popen]]:
        home = Path(self.internet.dir.name) / "mitm"
        started = {}
        for port, to in ((PLAIN, f"http://{self.address}:{PLAIN}"), (TLS, f"https://{self.address}:{TLS}")):
            argv = ["mitmdump", "-q", "--set", f"confdir={home}", "--ssl-insecure", "--set", "stream_large_bodies=1m", "--set", "keep_host_header=true"]
            argv += ["--mode", f"reverse:{to}", "--listen-port", str(MITM[port])]
            started[port] = self._start(self.internet.inner, *argv, stderr=subprocess.DEVNULL)
        for port in started:
            for _ in range(100):
                if self.outside("127.0.0.1", MITM[port], KINDS["plain HTTP" if port == PLAIN else "TLS looked into"][1], "requests", 1):
                    break
            else:
                print("bench: mitmproxy is installed and does not run here")
                return None
        return started

    def outside(self, address: str, port: int, name: str, kind: str, n: int) -> List[float]:
        argv = [*self.internet.enter(self.internet.inner), sys.executable, "-S", str(CLIENT), kind, address, str(port), name, str(n)]
        done = subprocess.run(argv, capture_output=True, text=True, timeout=120, stdin=subprocess.DEVNULL)
        return json.loads(done.stdout) if done.returncode == 0 else []

    def inside(self, what: str, kind: str, n: int) -> List[float]:
        port, name = KINDS[what]
        argv = ["python3", "-S", "-c", CLIENT.read_text(), kind, self.address, str(port), name, str(n)]
        reply = self.link.call("POST", f"/v1/sandboxes/{self.sandboxes[what]}/execs", {"argv": argv, "timeout_ms": 120000})
        if reply["exec"]["exit_code"] != 0:
            raise SystemExit(f"bench: the client failed: {reply['stderr']}")
        return json.loads(reply["stdout"])

    def direct(self, what: str, kind: str, n: int) -> List[float]:
        port, name = KINDS[what]
        return self.outside(self.address, port, name, kind, n)

    def through_mitmproxy(self, what: str, kind: str, n: int) -> List[float]:
        port, name = KINDS[what]
        return self.outside("127.0.0.1", MITM[port], name, kind, n) if self.mitm else []

    def close(self) -> None:
        self.link.close()
        self.daemon.stop()
        self.daemon.remove()
        for p in self.children:
            p.stdin.close()
            p.terminate()
            p.wait(10)
            p.stdout.close()
        self.internet.close()


def samples(setup: Setup, what: str, kind: str, rounds: int, n: int) -> Dict[str, List[float]]:
    """In turns: with the wall, without one, and by mitmproxy where it does the same."""
    ways: Dict[str, Callable[[str, str, int], List[float]]] = {"wall": setup.inside, "direct": setup.direct}
    if what != "TLS passed on":
        ways["mitmproxy"] = setup.through_mitmproxy
    took: Dict[str, List[float]] = {"wall": [], "direct": [], "mitmproxy": []}
    for _ in range(rounds):
        for name, way in ways.items():
            took[name] += way(what, kind, n)
    return took


def added(what: str, took: Dict[str, List[float]], unit_of: str) -> Row:
    base = statistics.median(took["direct"])
    ours, theirs = ([max(one - base, 0.001) for one in took[name]] for name in ("wall", "mitmproxy"))
    peer = None if what == "TLS passed on" else "mitmproxy"
    return row(SECTION, f"added to {unit_of}, {what}", ours, peer=peer, peer_took=theirs, times=None if peer is None else 3)


def added_to_calls(setup: Setup, rounds: int) -> Row:
    took: Dict[str, List[float]] = {"wall": [], "direct": []}
    for _ in range(rounds):
        for name, way in (("wall", setup.inside), ("direct", setup.direct)):
            took[name] += way("TLS looked into", "calls", BLOCK)
    base = statistics.median(took["direct"])
    return row(SECTION, "added to a unary gRPC call, TLS looked into", [max(one - base, 0.001) for one in took["wall"]], limit=0.5)


def throughput(setup: Setup, what: str, rounds: int) -> Row:
    took = samples(setup, what, "download", rounds, DOWNLOAD_MIB << 20)
    rate = {name: [DOWNLOAD_MIB / (ms / 1000) for ms in all_ms] for name, all_ms in took.items()}
    peer = "no wall" if what == "TLS passed on" else "mitmproxy"
    return row(SECTION, f"download, {what}", rate["wall"], unit="MiB/s", more_is_better=True, peer=peer, peer_took=rate["direct" if peer == "no wall" else "mitmproxy"])


def held_inside(setup: Setup, what: str) -> float:
    port, name = KINDS[what]
    path = f"/v1/sandboxes/{setup.sandboxes[what]}/execs"
    before = rss_kib(setup.daemon.wall_pid)
    argv = ["python3", "-S", "-c", CLIENT.read_text(), "hold", setup.address, str(port), name, str(HELD)]
    running = setup.link.call("POST", path, {"argv": argv, "detached": True, "open_stdin": True})["exec"]["id"]
    while not (state := setup.link.call("GET", f"{path}/{running}"))["stdout_bytes"]:
        if state["state"] in ("exited", "failed"):
            raise SystemExit("bench: the client that holds connections failed")
        time.sleep(0.01)
    used = rss_kib(setup.daemon.wall_pid) - before
    setup.link.call("DELETE", f"{path}/{running}")
    return max(used, 1) / HELD


def held_by_mitmproxy(setup: Setup, what: str) -> List[float]:
    if not setup.mitm:
        return []
    port, name = KINDS[what]
    process = setup.mitm[port]
    before = rss_kib(process.pid)
    argv = [sys.executable, "-S", str(CLIENT), "hold", "127.0.0.1", str(MITM[port]), name, str(HELD)]
    client = setup._start(setup.internet.inner, *argv)
    client.stdout.readline()
    return [max(rss_kib(process.pid) - before, 1) / HELD]


def run(build: str, count: int) -> List[Row]:
    setup = Setup(build)
    rounds = max(count // BLOCK, 1)
    rows: List[Row] = []
    try:
        for what in KINDS:
            rows.append(added(what, samples(setup, what, "connections", rounds, BLOCK), "a connection"))
        for what in KINDS:
            rows.append(added(what, samples(setup, what, "requests", rounds, BLOCK), "a kept-alive request"))
        rows.append(added_to_calls(setup, rounds))
        for what in KINDS:
            rows.append(throughput(setup, what, max(rounds // 3, 1)))
        for what in KINDS:
            peer = None if what == "TLS passed on" else "mitmproxy"
            theirs = held_by_mitmproxy(setup, what) if peer else []
            rows.append(row(SECTION, f"memory of a connection, {what}", [held_inside(setup, what)], unit="KiB", peer=peer, peer_took=theirs))
    finally:
        setup.close()
    return rows
