# SPDX-License-Identifier: Apache-2.0
"""The probe inside and outside, and canaries on the host that no sandbox may see or change.

Inside: `probe` puts the static program into a sandbox and runs it there. Outside: `control` runs
the same attempt where the wall is absent, in namespaces of its own, to show that the attempt is a
real one; where this host cannot show that, the case is skipped with the reason, never passed.
"""

import json
import secrets
import socket
import subprocess
from pathlib import Path

import pytest
from harness.daemon import BUILD, PATIENCE, read_text

PROBE = BUILD / "tests" / "security" / "probe"
INSIDE = "/tmp/probe"
SYSCTLS = [
    "kernel/core_pattern", "kernel/modprobe", "kernel/hostname", "kernel/domainname", "kernel/sysrq", "kernel/panic",
    "kernel/randomize_va_space", "kernel/ns_last_pid", "vm/overcommit_memory", "vm/drop_caches", "vm/panic_on_oom", "vm/swappiness",
    "fs/suid_dumpable", "fs/protected_symlinks", "net/ipv4/ip_forward",
]
VOLATILE = {"kernel/ns_last_pid"}


def records(text):
    """The probe's lines by name; `ret` and `errno`, or `text`."""
    found = {}
    for line in text.splitlines():
        one = json.loads(line)
        found[one["probe"]] = one
    return found


class Probe:
    def __init__(self, sandbox):
        self.sandbox = sandbox
        sandbox.files.write(INSIDE, PROBE.read_bytes(), mode=0o755)

    def run(self, *args, **fields):
        fields.setdefault("timeout", 60 * PATIENCE)
        return self.sandbox.run([INSIDE, *map(str, args)], **fields)

    def __call__(self, *args, **fields):
        result = self.run(*args, **fields)
        assert result.exit_code == 0, (result.exit_code, result.signal, result.stderr)
        return records(result.stdout)


@pytest.fixture
def probe(sandbox):
    return Probe(sandbox)


@pytest.fixture(scope="session")
def probe_in():
    """Puts the probe into a given sandbox."""
    return Probe


@pytest.fixture(params=["user", "root"])
def user(request):
    return request.param


@pytest.fixture(scope="session")
def control():
    """Runs the probe on the host, always in net, pid, mount, ipc and uts namespaces of its own."""

    def run(*args, **kwargs):
        argv = ["unshare", "--net", "--pid", "--fork", "--mount", "--ipc", "--uts", "--mount-proc", str(PROBE), *map(str, args)]
        done = subprocess.run(argv, stdout=subprocess.PIPE, text=True, timeout=60 * PATIENCE, check=False, **kwargs)
        return records(done.stdout)

    return run


def listen(address):
    s = socket.socket(socket.AF_UNIX)
    s.bind(address)
    s.listen(16)
    s.setblocking(False)
    return s


def is_silent(listener):
    try:
        listener.accept()[0].close()
    except BlockingIOError:
        return True
    return False


class Canaries:
    def __init__(self):
        self.token = secrets.token_hex(16)
        name = f"cloche-canary-{secrets.token_hex(6)}"
        self.files = [Path("/root") / name, Path("/etc") / name, Path("/opt") / name, Path("/var/lib") / name]
        for f in self.files:
            f.write_text(self.token)
            f.chmod(0o644)
        self.socket_path = Path("/run") / f"{name}.sock"
        self.socket = listen(str(self.socket_path))
        self.abstract_name = name
        self.abstract = listen("\0" + name)
        self.tcp = socket.create_server(("127.0.0.1", 0))
        self.tcp.setblocking(False)
        self.port = self.tcp.getsockname()[1]
        self.sysctls = self.read_sysctls()

    @staticmethod
    def read_sysctls():
        return {name: read_text(f"/proc/sys/{name}") for name in SYSCTLS if name not in VOLATILE}

    def check(self):
        for f in self.files:
            assert f.read_text() == self.token, f"{f} was changed"
        assert is_silent(self.socket), "the socket of the host was reached"
        assert is_silent(self.abstract), "the abstract socket of the host was reached"
        assert is_silent(self.tcp), "a listener of the host was reached"
        assert self.read_sysctls() == self.sysctls

    def close(self):
        for s in (self.socket, self.abstract, self.tcp):
            s.close()
        for f in [*self.files, self.socket_path]:
            f.unlink(missing_ok=True)


@pytest.fixture(scope="session")
def canary_places():
    places = Canaries()
    yield places
    places.close()


@pytest.fixture(autouse=True)
def canaries(canary_places):
    """After every test: all tokens as they were, no listener reached, no setting changed."""
    yield canary_places
    canary_places.check()
