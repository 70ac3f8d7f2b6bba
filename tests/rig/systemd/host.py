# SPDX-License-Identifier: Apache-2.0
"""What the tests of both boots ask of a host whose init is systemd."""

import contextlib
import json
import re
import shlex
import subprocess
import time
from pathlib import Path

HOME = "/system.slice/cloche-sandboxes.service/"
STATE = Path("/var/lib/rig")
DEBS = Path("/rig/debs")
# What apt, dpkg, systemd and the rig itself write.
OTHERS = re.compile(r"^/(var/(cache|log|tmp|lib/(apt|dpkg|systemd|rig))|etc/(passwd|group|shadow|gshadow|subuid|subgid)-?|etc/\.pwd\.lock|tmp|root)(/|$)|^/(etc|var/lib|rig)$")


def run(*words, status=0, seconds=900):
    done = subprocess.run(words, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=seconds)
    assert done.returncode == status, f"{shlex.join(map(str, words))}: {done.returncode}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    return done.stdout


def apt(*words):
    return run("env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "-y", "-o", "Dpkg::Use-Pty=0", "--no-install-recommends", *map(str, words), seconds=1800)


def cloche(*words, **options):
    return run("cloche", *words, **options)


def show(unit, *names):
    lines = run("systemctl", "show", unit, *(f"--property={n}" for n in names)).splitlines()
    found = dict(line.split("=", 1) for line in lines)
    return found[names[0]] if len(names) == 1 else [found[n] for n in names]


def journal(*words):
    return run("journalctl", "--no-pager", "-o", "cat", *words)


def sandbox(name):
    return json.loads(cloche("inspect", "--json", name))


def groups_of(sandbox_id):
    """{pid: its cgroup} of each process in a sandbox."""
    found = {}
    for path in Path("/proc").glob("[0-9]*/cgroup"):
        try:
            group = path.read_text().strip().removeprefix("0::")
        except OSError:  # it has just ended
            continue
        if f"/{sandbox_id}" in group:
            found[int(path.parts[2])] = group
    return found


def command_of(pid):
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:  # it has just ended, as each `sleep` of the loop does
        return b""


def looping(sandbox_id):
    """The pid of the loop that a test has started in it."""
    (pid,) = [p for p in groups_of(sandbox_id) if b"the-loop" in command_of(p)]
    return pid


def wait_for(found, seconds=300, what="it"):
    deadline = time.monotonic() + seconds
    while not (answer := found()):
        assert time.monotonic() < deadline, f"{what} is not there after {seconds} s"
        time.sleep(0.5)
    return answer


def await_daemon():
    """A start has two minutes, which an emulated host beside other work may not be able to keep: then systemd starts it again."""
    wait_for(lambda: show("cloche.service", "ActiveState", "SubState") == ["active", "running"], 900, "the daemon")


def patiently(*words):
    """A call that loads or saves memory has half a minute; likewise."""
    for _ in range(5):
        with contextlib.suppress(AssertionError):
            return cloche(*words)
    return cloche(*words)


def files():
    found = run("find", "/", "-xdev", "-printf", "/%P\n").splitlines()
    return {f for f in found if not OTHERS.search(f)}
