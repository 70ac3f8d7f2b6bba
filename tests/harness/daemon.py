# SPDX-License-Identifier: Apache-2.0
"""A daemon for tests: started from the build directory on directories and a port of its own."""

import contextlib
import ctypes
import fcntl
import http.client
import json
import os
import re
import secrets
import select
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
from pathlib import Path

from cloche import errors

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("CLOCHE_BUILD", ROOT / "build")).resolve()
# A sanitized program uses several times its memory, and finds its options in the environment.
OPTIONS = BUILD / "meson-info" / "intro-buildoptions.json"
IS_SANITIZED = OPTIONS.exists() and any(
    o["name"] == "b_sanitize" and o["value"] not in ("none", [], "") for o in json.loads(OPTIONS.read_text())
)
SANDBOX_ENV = {"ASAN_OPTIONS": "detect_leaks=0"} if IS_SANITIZED else None
SANDBOX_ID = re.compile(r"sb_[a-z0-9]{26}")
# What the sandboxes of the suites are.
ENGINE = os.environ.get("CLOCHE_ENGINE", "jail")
# How many times longer than on an ordinary host and in jails all may take: emulated machines are slow, and emulated hosts (tests/rig) say how slow.
PATIENCE = int(os.environ.get("CLOCHE_PATIENCE", {"vm": 10}.get(ENGINE, 1)))
# Of the disk a test's daemon takes this ahead of its use; on a host it takes thrice as much.
DISK_AHEAD = ("--disk-ahead", "768MiB", "--disk-reserve", "128MiB")
READY_S = 60 * PATIENCE
STOP_S = 60 * PATIENCE


def refused_start(directory, *options):
    """What a daemon says that does not start with these options. It has made nothing by then."""
    argv = [BUILD / "cloche", "serve", "--data", directory / "data", "--run", directory / "run", "--listen", "none", *options]
    try:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=120 * PATIENCE)
        made = [name for name in ("data", "run") if (directory / name).exists()]
    finally:
        shutil.rmtree(directory / "data", ignore_errors=True)
    assert done.returncode != 0, done.stdout + done.stderr
    assert not made, f"made before the settings were refused: {made}"
    return done.stdout + done.stderr


def free_port():
    """One that the kernel gives to nobody by itself: else a client of whoever runs beside us may have it before the daemon."""
    while True:
        port = 10000 + secrets.randbelow(22768)
        with socket.socket() as s, contextlib.suppress(OSError):
            s.bind(("127.0.0.1", port))
            return port


LEAST_S = 60  # to wait for anything: what never comes is a failure, what comes late on a busy host is none


# Lines of the log that are a fault of the daemon's own.
FAULTS = {"daemon.call_refused": "a part made a system call that src/daemon/confine/confine_calls.c refuses it",
          "sandbox.unexpected_move": "a sandbox moved as src/sandbox/model/phase.c does not allow"}
WATCHED = {"pool.ready", "sandbox.moved", "daemon.child_died", "loop.long_turn", *FAULTS}


def log_entries(text, events):
    """The log's lines of these events, each with its fields. Releases up to 0.2 told the fields as one text."""
    for line in text.splitlines():
        found = re.search(r'"event":"([^"]*)"', line)
        if not found or found.group(1) not in events or not line.startswith("{"):
            continue
        entry = json.loads(line)
        entry.update(re.findall(r"(\w+)='?([^' ]*)", entry.pop("facts", "")))
        yield entry


def fields_text(entry):
    return " ".join(f"{k}={v}" for k, v in entry.items() if k not in ("time", "level", "program", "event"))


class Crashed(AssertionError):
    """A part of a daemon died by a signal that no test sends."""


def check_parts():
    """Raises Crashed if a part of any daemon of this process has crashed."""
    for daemon in list(Daemon.started):
        daemon.check_parts()


def wait_for(condition, seconds=LEAST_S, what="condition"):
    """The first true value of condition(); fails when there is none in time, and at once when a daemon's part crashes."""
    seconds = max(seconds, LEAST_S) * PATIENCE
    deadline = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        check_parts()
        if time.monotonic() >= deadline:
            raise AssertionError(f"{what}: not within {seconds} s")
        time.sleep(0.02)


def read_text(path):
    try:
        with open(path, errors="replace") as f:
            return f.read()
    except OSError:
        return ""


def children_of(pid):
    try:
        threads = os.listdir(f"/proc/{pid}/task")
    except OSError:
        return []
    return [int(p) for t in threads for p in read_text(f"/proc/{pid}/task/{t}/children").split()]


def status_value(pid, name):
    """A number of /proc/PID/status, such as VmRSS in KiB."""
    found = re.search(rf"^{name}:\s+(\d+)", read_text(f"/proc/{pid}/status"), re.M)
    return int(found.group(1)) if found else 0


def memory_kib(pid):
    """Resident memory of a process, where that says something about our own code."""
    return 0 if IS_SANITIZED else status_value(pid, "VmRSS")


def end(sandbox):
    """Deletes it with its files; one that ended by itself is fine."""
    with contextlib.suppress(errors.NotFound, errors.Gone):
        sandbox.delete()


def remove_abandoned(parent="/var/tmp"):
    """The directories of daemons whose tests were killed: nobody holds their lock any more, and nothing is mounted there."""
    mounts = read_text("/proc/self/mountinfo")
    for owner in Path(parent).glob("cloche-test-*/owner"):
        with contextlib.suppress(OSError), open(owner) as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            is_new = owner.stat().st_mtime > time.time() - LEAST_S  # whoever made it may not have its lock yet
            if not is_new and f"{owner.parent}/" not in mounts:
                shutil.rmtree(owner.parent, ignore_errors=True)


def _end_with_parent():
    """In the child: SIGTERM when the test run dies, so that a killed run leaves no daemon behind."""
    ctypes.CDLL(None).prctl(1, signal.SIGTERM)  # PR_SET_PDEATHSIG


class Daemon:
    """A daemon of a test. Tests end its parts by SIGKILL only, and a part that follows its partner exits with 0. So a part that dies by
    another signal has crashed: its log says so, and check_parts() raises, as it does after a move of a sandbox that is a fault. may_crash: a
    test that makes it crash says so beforehand."""

    started = set()  # those of this process that run, and those that crashed and were not told of
    long_turns = []  # by the logs of all of them, until harness.turns tells

    def __init__(self, *options, rm=True, prefix=(), may_crash=False, parent=None):
        """prefix: words before the program, such as nsenter's, which become it; parent: where its directories are made."""
        self.prefix, self.may_crash = list(prefix), may_crash
        self.dir = Path(tempfile.mkdtemp(prefix="cloche-test-", dir=parent or os.environ.get("CLOCHE_TEST_DIR", "/var/tmp")))
        self.dir.chmod(0o755)
        self._owner = None
        if not parent:  # as long as this process lives, the directory is somebody's; a disk of the test's own must not stay in use by that
            self._owner = open(self.dir / "owner", "w")
            fcntl.flock(self._owner, fcntl.LOCK_EX)
        self.data, self.run = self.dir / "data", self.dir / "run"
        self.log_path = self.dir / "log"
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.socket = self.run / "cloche.sock"
        self.options = list(options) + (["--rm"] if rm else [])
        self.program = BUILD / ("cloche-bare" if ENGINE == "bare" else "cloche")
        self.process, self.favors_moves = None, False
        self._reading, self._read = threading.Lock(), 0
        self._named, self._ready, self._moved, self._crash = set(), set(), set(), None

    def start(self):
        ready_r, ready_w = os.pipe()
        argv = [*self.prefix, str(self.program), "serve", "--data", str(self.data), "--run", str(self.run)]
        argv += ["--listen", f"127.0.0.1:{self.port}", "--ready-fd", str(ready_w), *self._host_options(), *self.options]
        with open(self.log_path, "ab") as log:
            self.process = subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                pass_fds=[ready_w],
                start_new_session=True,
                preexec_fn=_end_with_parent,
            )
        os.close(ready_w)
        try:
            readable, _, _ = select.select([ready_r], [], [], READY_S)
            word = os.read(ready_r, 64) if readable else b""
        finally:
            os.close(ready_r)
        if not word.startswith(b"ready"):
            self.process.kill()
            self.process.wait()
            raise RuntimeError(f"the daemon did not get ready; its log ends:\n{self.log()[-4000:]}")
        Daemon.started.add(self)
        return self

    def _host_options(self):
        """None for an earlier release, which knows less of them. Daemons side by side must not take turns with an option of the whole host."""
        if self.program.parent != BUILD:
            return ()
        is_shared = not self.data.exists() or self.data.stat().st_dev == self.data.parent.stat().st_dev
        favor = () if self.favors_moves else ("--no-favordynmods",)
        return (*favor, *(DISK_AHEAD if is_shared else ()))  # not on a small disk of the test's own

    @property
    def key(self):
        return (self.data / "admin.key").read_text().strip()

    def log(self):
        return read_text(self.log_path)

    def log_of(self, event):
        """The log's entries of an event, with their fields."""
        return list(log_entries(self.log().rpartition("\n")[0], {event}))

    def _read_on(self):
        """Notes what whole lines have come to the log since the last call."""
        with self._reading, contextlib.suppress(FileNotFoundError), open(self.log_path, "rb") as log:
            log.seek(self._read)
            lines, end, _ = log.read().rpartition(b"\n")
            self._read += len(lines + end)
            text = lines.decode(errors="replace")
            self._named.update(SANDBOX_ID.findall(text))
            entries = list(log_entries(text, WATCHED))
            self._ready.update(e["id"] for e in entries if e["event"] == "pool.ready")
            self._moved.update(e["id"] for e in entries if e["event"] == "sandbox.moved")
            died = [e for e in entries if e["event"] == "daemon.child_died"]
            crashed = [e["name"] for e in died if int(e["wait_status"], 16) & 0x7F not in (0, signal.SIGKILL)]
            if not IS_SANITIZED and PATIENCE == 1:
                Daemon.long_turns += [f"{e['program']}: {fields_text(e)}" for e in entries if e["event"] == "loop.long_turn"]
            if crashed and not self.may_crash:
                self._crash = f"crashed: {', '.join(crashed)}; the daemon's log ends:\n{self.log()[-8000:]}"
            for e in entries:
                if e["event"] in FAULTS:
                    self._crash = f"{FAULTS[e['event']]}: {fields_text(e)}"

    def check_parts(self):
        self._read_on()
        if self._crash:
            raise Crashed(self._crash)

    def ids(self):
        """Every sandbox that this daemon ever named in its log or run directory."""
        self._read_on()
        if (self.run / "sandboxes").is_dir():
            self._named.update(os.listdir(self.run / "sandboxes"))
        return set(self._named)

    def spares(self):
        """Those that are ready and belong to nobody, by its log."""
        self._read_on()
        return self._ready - self._moved

    def _part(self, name):
        """The launcher's child of that name: broker or gateway."""
        for pid in children_of(self.process.pid):
            words = read_text(f"/proc/{pid}/comm") + read_text(f"/proc/{pid}/cmdline").replace("\0", " ")
            if name in words:
                return pid
        return None

    @property
    def gateway_pid(self):
        return wait_for(lambda: self._part("gateway"), 10, "a gateway process")

    @property
    def wall_pid(self):
        return wait_for(lambda: self._part("cloche-wall"), 10, "a wall process")

    @property
    def broker_pid(self):
        return wait_for(lambda: self._part("broker"), 10, "a broker process")

    def kill_parts(self, *names):
        """SIGKILL to the gateway, the broker or both; returns when their successors answer."""
        pids = {name: getattr(self, f"{name}_pid") for name in names}
        for pid in pids.values():
            with contextlib.suppress(ProcessLookupError):  # one goes when the other does
                os.kill(pid, signal.SIGKILL)
        self.await_successors(pids)

    def await_successors(self, pids):
        """pids: of parts that were killed, by name."""
        for name, pid in pids.items():
            wait_for(lambda: self._part(name) not in (None, pid), 30, f"a new {name}")
        wait_for(lambda: call(self, "GET", "/v1/health")[0] == 200, 30, "an answer")

    def stop(self):
        """Asks it to end; gives its exit status, or None where it had to be killed."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            return None

    def remove(self):
        self._read_on()
        if not self._crash:
            Daemon.started.discard(self)
        left = [line.split()[4] for line in read_text("/proc/self/mountinfo").splitlines() if f"{self.dir}/" in line.split()[4]]
        if left:
            raise RuntimeError(f"sandboxes of this daemon still run, so {left} stay mounted: delete them before it is stopped for good")
        shutil.rmtree(self.dir, ignore_errors=True)
        if self._owner:
            self._owner.close()

    def raw(self, data, *, timeout=10.0, half_close=False):
        """Sends bytes on a fresh TCP connection and reads until the daemon closes or time is up."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=timeout) as s:
            try:
                s.sendall(data)
                if half_close:
                    s.shutdown(socket.SHUT_WR)
            except (BrokenPipeError, ConnectionResetError):
                pass  # it answered before it had all
            return read_all(s)


def read_all(s):
    """Until the peer closes, resets or is silent for the socket's timeout."""
    parts = []
    try:
        while True:
            part = s.recv(65536)
            if not part:
                break
            parts.append(part)
    except (socket.timeout, ConnectionResetError):
        pass
    return b"".join(parts)


def _unchunk(data):
    out = b""
    while data:
        size, _, data = data.partition(b"\r\n")
        n = int(size, 16)
        if n == 0:
            break
        out, data = out + data[:n], data[n + 2 :]
    return out


def parse_reply(data):
    """(status, headers, body) of the first reply in data; a JSON body is parsed."""
    head, _, rest = data.partition(b"\r\n\r\n")
    lines = head.decode("latin-1").split("\r\n")
    status = int(lines[0].split()[1])
    headers = {k.strip().lower(): v.strip() for k, _, v in (line.partition(":") for line in lines[1:])}
    if "content-length" in headers:
        rest = rest[: int(headers["content-length"])]
    elif headers.get("transfer-encoding") == "chunked":
        rest = _unchunk(rest)
    if headers.get("content-type", "").startswith("application/json") and rest:
        return status, headers, json.loads(rest)
    return status, headers, rest


class UnixConnection(http.client.HTTPConnection):
    def __init__(self, path, timeout):
        super().__init__("localhost", timeout=timeout)
        self.path = str(path)

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


def connection_to(daemon, timeout):
    """By TCP, or by its unix socket where it lives in another net namespace."""
    if daemon.prefix:
        return UnixConnection(daemon.socket, timeout)
    return http.client.HTTPConnection("127.0.0.1", daemon.port, timeout=timeout)


def call(daemon, method, path, body=None, key=None, headers=None, timeout=60.0):
    """One plain HTTP call: (status, parsed JSON or bytes). key: None = the admin's, "" = none."""
    conn = connection_to(daemon, timeout * PATIENCE)
    sent = dict(headers or {})
    secret = daemon.key if key is None else key
    if secret:
        sent.setdefault("Authorization", f"Bearer {secret}")
    if body is not None and not isinstance(body, (bytes, str)):
        body = json.dumps(body)
    if body is not None:
        sent.setdefault("Content-Type", "application/json")
    try:
        conn.request(method, path, body=body, headers=sent)
        reply = conn.getresponse()
        data = reply.read()
        is_json = (reply.getheader("Content-Type") or "").startswith("application/json")
        return reply.status, json.loads(data) if is_json and data else data
    finally:
        conn.close()
