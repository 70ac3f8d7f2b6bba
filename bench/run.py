#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The figures of cloche on this machine, each beside a peer measured in the same run.

Starts a daemon of its own on a private socket and leaves nothing behind. Prints a table; --json FILE keeps the raw figures.
Timings are noisy: read the ratios.
"""
import argparse
import http.client
import json
import os
import pathlib
import platform
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time


class UnixConnection(http.client.HTTPConnection):
    """HTTP with keep-alive over the daemon's unix socket."""

    def __init__(self, path):
        super().__init__("localhost")
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(self.path)

    def call(self, method, path, body=None):
        headers = {"Content-Type": "application/json"} if body is not None else {}
        self.request(method, path, json.dumps(body) if body is not None else None, headers)
        reply = self.getresponse()
        data = reply.read()
        if reply.status >= 400:
            raise SystemExit(f"{method} {path}: {reply.status} {data.decode()}")
        return json.loads(data)


class Daemon:
    def __init__(self, build):
        self.dir = tempfile.mkdtemp(prefix="cloche-bench-")
        os.chmod(self.dir, 0o755)
        read, write = os.pipe()
        self.log = open(f"{self.dir}/log", "w")
        self.process = subprocess.Popen(
            [f"{build}/cloche", "serve", "--rm", "--data", f"{self.dir}/data", "--run", f"{self.dir}/run", "--listen", "none",
             "--ready-fd", str(write)], pass_fds=[write], stdout=self.log, stderr=self.log)
        os.close(write)
        if os.read(read, 16) == b"":
            raise SystemExit(f"the daemon did not start:\n{open(self.dir + '/log').read()}")
        os.close(read)

    def connect(self):
        return UnixConnection(f"{self.dir}/run/cloche.sock")

    def close(self):
        self.process.terminate()
        self.process.wait(60)
        self.log.close()
        shutil.rmtree(self.dir)


def timed(count, action):
    """Milliseconds of each of count runs."""
    took = []
    for _ in range(count):
        start = time.perf_counter()
        action()
        took.append((time.perf_counter() - start) * 1000)
    return took


def summary(took):
    took = sorted(took)
    return {"p50": statistics.median(took), "p99": took[min(len(took) - 1, int(len(took) * 0.99))], "n": len(took)}


def bench_start(daemon, count):
    link = daemon.connect()

    def once():
        sandbox = link.call("POST", "/v1/sandboxes", {})
        link.call("POST", f"/v1/sandboxes/{sandbox['id']}/execs", {"argv": ["/usr/bin/true"]})
        made.append(sandbox["id"])

    made = []
    took = timed(count, once)
    for one in made:
        link.call("DELETE", f"/v1/sandboxes/{one}")
    return took


def bench_exec(daemon, count):
    link = daemon.connect()
    sandbox = link.call("POST", "/v1/sandboxes", {})["id"]
    took = timed(count, lambda: link.call("POST", f"/v1/sandboxes/{sandbox}/execs", {"argv": ["/usr/bin/true"]}))
    link.call("DELETE", f"/v1/sandboxes/{sandbox}")
    return took


def bench_burst(daemon, count):
    """Milliseconds until the last of count creates, all asked for at once, has answered."""
    ids, links = [], [daemon.connect() for _ in range(count)]

    def one(link):
        ids.append(link.call("POST", "/v1/sandboxes", {})["id"])

    threads = [threading.Thread(target=one, args=(link,)) for link in links]
    start = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    took = (time.perf_counter() - start) * 1000
    for one_id in ids:
        links[0].call("DELETE", f"/v1/sandboxes/{one_id}")
    if len(ids) != count:
        raise SystemExit(f"burst: {len(ids)} of {count} creates succeeded")
    return [took]


def bench_cycle(daemon, count):
    link = daemon.connect()

    def once():
        link.call("POST", "/v1/run", {"argv": ["/usr/bin/true"]})

    return timed(count, once)


def peer(argv, count):
    if not shutil.which(argv[0]):
        return None
    run = lambda: subprocess.run(argv, check=True, stdout=subprocess.DEVNULL)  # noqa: E731
    run()
    return timed(count, run)


BWRAP = ["bwrap", "--unshare-all", "--ro-bind", "/usr", "/usr", "--symlink", "usr/lib", "/lib", "--symlink", "usr/lib64", "/lib64",
         "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp", "/usr/bin/true"]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", default="build")
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("--count", type=int, default=200)
    options = parser.parse_args()
    if os.geteuid() != 0:
        raise SystemExit("bench: needs root, as the daemon does")

    daemon = Daemon(options.build)
    try:
        rows = {
            "create + exec true": bench_start(daemon, options.count),
            "exec true": bench_exec(daemon, options.count),
            "run (create, exec, delete)": bench_cycle(daemon, options.count),
            "50 creates at once, last": bench_burst(daemon, 50),
        }
    finally:
        daemon.close()
    peers = {"spawn true on the host": peer(["/usr/bin/true"], options.count), "bwrap true": peer(BWRAP, options.count)}

    print(f"{platform.machine()}, {os.cpu_count()} CPUs, Linux {platform.release()}\n")
    print(f"{'':28} {'p50 ms':>9} {'p99 ms':>9}   " + "  ".join(f"x {name}" for name in peers))
    result = {"machine": platform.machine(), "cpus": os.cpu_count(), "kernel": platform.release(), "rows": {}}
    for name, took in {**rows, **peers}.items():
        if took is None:
            print(f"{name:28} {'not installed':>9}")
            continue
        figures = summary(took)
        ratios = [f"{figures['p50'] / statistics.median(p):{len(n) + 2}.2f}" if p else "-" for n, p in peers.items()]
        print(f"{name:28} {figures['p50']:9.3f} {figures['p99']:9.3f}   " + "  ".join(ratios))
        result["rows"][name] = figures
    if options.json:
        options.json.write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    sys.exit(main())
