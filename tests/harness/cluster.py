# SPDX-License-Identifier: Apache-2.0
"""Nodes of a cluster on this machine: a PostgreSQL of their own, and members as a launcher starts them, each in a network namespace where a test wants one."""

import contextlib
import json
import os
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
from pathlib import Path

from harness.daemon import BUILD, free_port, wait_for

FENCE_AFTER_S = 2  # as short as a busy machine bears


class Database:
    """A PostgreSQL that asks for passwords over TCP, and believes its owner on a Unix socket."""

    def __init__(self, *, address="127.0.0.1", tls=None):
        found = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"), key=lambda p: int(p.parts[-3]))
        assert found, "no PostgreSQL: tools/install-deps test installs it"
        self.programs, self.address, self.port = found[-1].parent, address, free_port()
        self.folder = Path(tempfile.mkdtemp(prefix="cloche-test-pg-", dir="/tmp"))
        shutil.chown(self.folder, "postgres")
        self.run("initdb", "--auth=trust", "--username=owner", "--no-sync", "--encoding=UTF8", "--locale=C")
        settings = f"listen_addresses = '{address}'\nport = {self.port}\nunix_socket_directories = '{self.folder}'\nfsync = off\n"
        if tls:
            certificate, key = tls
            for name, source in (("server.crt", certificate), ("server.key", key)):
                shutil.copy(source, self.folder / "data" / name)
                shutil.chown(self.folder / "data" / name, "postgres")
                (self.folder / "data" / name).chmod(0o600)
            settings += "ssl = on\n"
        with open(self.folder / "data" / "postgresql.conf", "a") as conf:
            conf.write(settings)
        (self.folder / "data" / "pg_hba.conf").write_text("local all all trust\nhost all all all scram-sha-256\n")
        self.start()

    def run(self, program, *words):
        subprocess.run([self.programs / program, "-D", self.folder / "data", *words], user="postgres", group="postgres", extra_groups=[], cwd="/", check=True, stdout=subprocess.DEVNULL)

    def start(self):
        self.run("pg_ctl", "--wait", "--log", str(self.folder / "log"), "start")

    def stop(self, mode="fast"):
        self.run("pg_ctl", "--wait", f"--mode={mode}", "stop")

    def close(self):
        with contextlib.suppress(subprocess.CalledProcessError):
            self.stop("immediate")
        shutil.rmtree(self.folder)

    def make(self, name):
        """An empty database."""
        self.ask(f'CREATE DATABASE "{name}"', "postgres")

    def ask(self, sql, database):
        argv = ["psql", "-X", "-q", "-A", "-t", "-h", self.folder, "-p", str(self.port), "-U", "owner", "-d", database, "-v", "ON_ERROR_STOP=1", "-c", sql]
        r = subprocess.run(argv, capture_output=True, text=True, timeout=60)
        assert r.returncode == 0, r.stderr
        return r.stdout.strip()

    def owner(self, database):
        return f"host={self.folder} port={self.port} user=owner dbname={database}"

    def conninfo(self, database, more="sslmode=disable"):
        return f"host={self.address} port={self.port} dbname={database} {more}"


class Namespaces:
    """A bridge in the test's own network namespace, and a namespace for each node behind it."""

    def __init__(self, n):
        self.tag = f"clc{os.getpid() % 100000}"
        self.subnet = f"10.{200 + os.getpid() % 40}.{os.getpid() // 40 % 250}"
        self.address, self.n = f"{self.subnet}.1", n
        ip("link", "add", self.tag, "type", "bridge")
        ip("addr", "add", f"{self.address}/24", "dev", self.tag)
        ip("link", "set", self.tag, "up")
        for i in range(n):
            name = self.name(i)
            ip("netns", "add", name)
            ip("link", "add", name, "type", "veth", "peer", "name", "eth0", "netns", name)
            ip("link", "set", name, "master", self.tag, "up")
            ip("-n", name, "addr", "add", f"{self.subnet}.{10 + i}/24", "dev", "eth0")
            ip("-n", name, "link", "set", "eth0", "up")
            ip("-n", name, "link", "set", "lo", "up")

    def name(self, i):
        return f"{self.tag}-{i}"

    def prefix(self, i):
        return ["ip", "netns", "exec", self.name(i)]

    def cut(self, i, is_cut=True):
        ip("link", "set", self.name(i), "down" if is_cut else "up")

    def close(self):
        for i in range(self.n):
            subprocess.run(["ip", "netns", "del", self.name(i)], check=False, capture_output=True)
        subprocess.run(["ip", "link", "del", self.tag], check=False, capture_output=True)


def ip(*words):
    subprocess.run(["ip", *words], check=True)


class GatewayEnd:
    """The gateway's end of the socket to the member: src/cluster/message.h."""

    STATES = ("out", "held", "fenced", "lost")
    ROW = struct.Struct("3I16I64s128s")

    def __init__(self, end):
        self.socket, self.said, self.nodes, self.coming, self.seq, self.answers = end, None, [], [], 0, {}
        end.setblocking(False)

    def read(self):
        with contextlib.suppress(BlockingIOError):
            while message := self.socket.recv(1 << 16):
                kind, seq = struct.unpack_from("II", message)
                if kind == 1:
                    state, node, epoch, _, code, _, _ = struct.unpack_from("IIQQ32s300s240s", message, 8)
                    self.said = {"state": self.STATES[state], "node": node, "epoch": epoch, "code": code.split(b"\0")[0].decode()}
                elif kind == 2:
                    first, n, total = struct.unpack_from("3I", message, 8)
                    self.coming = self.coming[:first] + [self.row(message, 20 + i * self.ROW.size) for i in range(n)]
                    self.nodes = self.coming if len(self.coming) == total else self.nodes
                elif kind == 7:
                    self.answers[seq] = json.loads(message[8:])

    def row(self, message, at):
        node, is_alive, is_cordoned, *tags, name, address = self.ROW.unpack_from(message, at)
        return {"node": node, "is_alive": bool(is_alive), "is_cordoned": bool(is_cordoned), "tags": tags, "name": name.split(b"\0")[0].decode(), "address": address.split(b"\0")[0].decode()}

    def word(self):
        self.read()
        return self.said or {"state": ""}

    def directory(self):
        self.read()
        return self.nodes

    def call(self, call):
        self.seq += 1
        self.socket.send(struct.pack("II", 6, self.seq) + json.dumps(call).encode())
        wait_for(lambda: self.read() or self.seq in self.answers, 30, f"an answer to {call}")
        return self.answers.pop(self.seq)

    def close(self):
        self.socket.close()


class Node:
    """A machine of a cluster, as far as its member goes."""

    def __init__(self, name, conninfo, *, prefix=(), address=None, objects=None, certificate_s=0):
        self.objects = objects or {}  # the settings of the store, as an order has them
        self.certificate_s = certificate_s  # how long what it signs is good; 0: as usual
        self.name, self.prefix = name, list(prefix)
        self.dir = Path(tempfile.mkdtemp(prefix="cloche-test-", dir="/var/tmp"))
        self.dir.chmod(0o755)
        self.data, self.run, self.log_path = self.dir / "data", self.dir / "run", self.dir / "log"
        self.run.mkdir()
        self.data.mkdir(mode=0o711)
        self.config = self.dir / "cloche.toml"
        self.address = address or f"{name}.example:7071"
        self.conninfo = conninfo
        self.process = self.launcher = None

    def write_config(self):
        self.config.write_text(f'data = "{self.data}"\nrun = "{self.run}"\n[cluster]\npostgres = "{self.conninfo}"\naddress = "{self.address}"\n' + f'certificate_lifetime = "{self.certificate_s}s"\n' * bool(self.certificate_s))

    def cloche(self, *words, check=True):
        self.write_config()
        argv = [*self.prefix, BUILD / "cloche", *words[:2], "--config", self.config, "--json", *words[2:]]
        r = subprocess.run(argv, capture_output=True, text=True, timeout=120)
        assert not check or r.returncode == 0, r.stdout + r.stderr
        return r

    def ask(self, *words):
        return json.loads(self.cloche(*words).stdout)

    def refused(self, *words):
        r = self.cloche(*words, check=False)
        assert r.returncode not in (0, 1), r.stdout + r.stderr
        return r.stderr

    def init(self, owner, fence_after_s=FENCE_AFTER_S, lost_after_s=None):
        lost_after_s = lost_after_s or 5 * fence_after_s
        return self.ask("cluster", "init", "--owner", owner, "--name", self.name, "--fence-after", f"{fence_after_s}s", "--lost-after", f"{lost_after_s}s")

    def join(self, token, *more):
        return self.ask("node", "join", token, "--name", self.name, *more)

    def start(self):
        """As the launcher does."""
        link, mine = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        control, ours = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        order = {"command": "member", "data_dir": str(self.data), "run_dir": str(self.run), "postgres": self.conninfo, "address": self.address,
                 "beat_ms": 1000, "log_level": 1, "certificate_s": self.certificate_s, **self.objects, "link_fd": link.fileno(), "control_fd": control.fileno()}
        with open(self.log_path, "ab") as log:
            self.process = subprocess.Popen([*self.prefix, BUILD / "cloche-cluster"], stdin=subprocess.PIPE, stdout=log, stderr=log, pass_fds=[link.fileno(), control.fileno()])
        self.process.stdin.write(json.dumps(order).encode())
        self.process.stdin.close()
        self.launcher = (GatewayEnd(mine), ours)
        link.close()
        control.close()
        wait_for(lambda: (self.run / "cluster.sock").exists(), 30, "a member")
        return self

    def gateway(self):
        return self.launcher[0]

    def log(self):
        return self.log_path.read_text() if self.log_path.exists() else ""

    def status(self):
        r = self.cloche("cluster", "status", check=False)
        assert r.returncode in (0, 1), r.stdout + r.stderr
        return json.loads(r.stdout)

    def state(self):
        return self.status()["state"]

    def problem(self):
        return self.status().get("problem", {}).get("code", "")

    def await_state(self, state, timeout_s=60):
        wait_for(lambda: self.state() == state, timeout_s, f"{self.name} {state}: {self.status()}\n{self.log()[-3000:]}")

    def await_problem(self, code, timeout_s=60):
        wait_for(lambda: self.problem() == code, timeout_s, f"{self.name} has {code}: {self.log()[-3000:]}")

    def signal(self, number):
        self.process.send_signal(number)

    def kill(self):
        if self.process and self.process.poll() is None:
            self.process.send_signal(signal.SIGCONT)
            self.process.kill()
        if self.process:
            self.process.wait(30)
            self.process = None
            for end in self.launcher:
                end.close()
        with contextlib.suppress(FileNotFoundError):
            (self.run / "cluster.sock").unlink()

    def close(self):
        self.kill()
        shutil.rmtree(self.dir)
