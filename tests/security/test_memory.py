# SPDX-License-Identifier: Apache-2.0
"""Copies of a memory against what two of a kind could share, and copies that would be weaker than their original.

CLOCHE_FORKS copies are made (`make test-memory`: a hundred), all of one snapshot.
"""

import hashlib
import os
import shutil
import struct
import time

import pytest
from cloche import errors
from harness.daemon import ENGINE, IS_SANITIZED

pytestmark = [
    pytest.mark.skipif(ENGINE == "jail" and shutil.which("criu", path="/usr/sbin:/usr/bin") is None, reason="no criu"),
    pytest.mark.skipif(IS_SANITIZED, reason="a sanitized agent maps terabytes"),
]

FORKS = int(os.environ.get("CLOCHE_FORKS", "4"))
# Each generator has been used: what it draws next is in the memory that is copied.
DRAW = """
import os, random, secrets, ssl, tempfile, uuid
try:
    from numpy import random as numpys
except ImportError:
    numpys = random
def draw():
    return [random.random(), numpys.random(), ssl.RAND_bytes(16), os.urandom(16), secrets.token_hex(), str(uuid.uuid4()),
            next(tempfile._get_candidate_names())]
before = draw()
"""
NAMES = "import socket\n[socket.gethostname(), open('/etc/hostname').read(), open('/etc/machine-id').read()]"
CLOCKS = "import time\n(time.time(), time.monotonic(), time.clock_gettime(time.CLOCK_BOOTTIME))"


def value(sandbox, code):
    result = sandbox.run_code(code)
    assert result.error is None, result.error
    return eval(result.results[-1].text) if result.results else None


@pytest.fixture
def forked():
    made = []

    def fork(sandbox, *args, **fields):
        made.extend(sandbox.fork(*args, **fields))
        return made

    yield fork
    for one in made:
        one.delete()


def test_S01_S02_S04_no_two_copies_draw_alike_or_bear_one_name(sandbox, forked):
    value(sandbox, DRAW)
    value(sandbox, "random.seed(7)\nnumpys.seed(7)")
    all_of_them = [*forked(sandbox, FORKS), sandbox]
    drawn = [value(one, "draw()") for one in all_of_them]  # as their first act
    for column in zip(*drawn):
        assert len(set(column)) == len(all_of_them)
    for column in zip(*[value(one, NAMES) for one in all_of_them]):
        assert len(set(column)) == len(all_of_them)
    fresh = [one.run("openssl rand -hex 16; cat /proc/sys/kernel/random/uuid").stdout.split() for one in all_of_them]
    assert all(len(set(column)) == len(all_of_them) for column in zip(*fresh))


def test_S03_a_copy_has_its_originals_layout_and_what_is_started_in_it_has_not(sandbox, forked):
    """A copy is the same process, so it is laid out alike: that is documented. Programs that it starts are not."""
    value(sandbox, "1")
    layout = "import sys\n[id(sys), id(type), *[l.split()[0] for l in open('/proc/self/maps') if '[stack]' in l]]"
    (fork,) = forked(sandbox, 1)
    assert value(fork, layout) == value(sandbox, layout)
    started = {one.run("head -1 /proc/self/maps | cut -d' ' -f1").stdout for one in (fork, sandbox, fork)}
    assert len(started) == 3


def test_S05_the_clocks_of_a_copy_and_of_one_that_was_paused_are_right_and_never_go_back(sandbox, forked):
    ticks = "import threading, time\nticks = []\ndef tick():\n    ticks.append(time.monotonic())\n    t = threading.Timer(0.05, tick); t.daemon = True; t.start()\ntick()"
    value(sandbox, ticks)
    _, monotonic, boot = value(sandbox, CLOCKS)
    (fork,) = forked(sandbox, 1)
    sandbox.pause(to="disk")
    for one in (fork, sandbox):
        asked = time.time()
        wall, later, boot_later = value(one, CLOCKS)
        assert asked - 1 < wall < time.time() + 1 and later > monotonic and boot_later > boot
        # No storm of timers that fell due meanwhile: each comes its time after the one before.
        assert value(one, "min(b - a for a, b in zip(ticks, ticks[1:]))") > 0.04
        assert value(one, "n = len(ticks)\nwhile len(ticks) < n + 2: time.sleep(0.01)\nTrue")


def rewrite_manifest(memory):
    """As if the directory had been saved that way: sizes and hashes are right again (memory_manifest.c). Pages, which no test changes, have another checksum."""
    path = memory / "manifest"
    text = bytearray(path.read_bytes())
    n_rows = struct.unpack_from("<I", text, 40)[0]
    first = len(text) - n_rows * 104
    for at in range(first, len(text), 104):
        name = bytes(text[at : at + 64]).rstrip(b"\0").decode()
        if name.startswith("pages-"):
            continue
        data = (memory / name).read_bytes()
        text[at + 64 : at + 104] = struct.pack("<Q", len(data)) + hashlib.sha256(data).digest()
    text[:32] = hashlib.sha256(text[32:]).digest()
    path.write_bytes(text)


@pytest.mark.jail("it rewrites what is kept beside CRIU's images; a vm's copy has the walls of its own QEMU")
@pytest.mark.parametrize("kind", ["filters", "bounding set"])
def test_a_copy_that_is_weaker_than_its_original_is_killed_and_not_served(daemon, make_sandbox, client, kind):
    """What is written down of the original is made stronger than what CRIU brings back: so the copy is the weaker one."""
    source = make_sandbox()
    value(source, "x = 1")
    snapshot = source.snapshot(memory=True)["id"]
    memory = daemon.data / "layers" / snapshot / "memory"
    rewrite_manifest(memory)
    assert value(make_sandbox(snapshot=snapshot), "x") == 1  # the control
    walls = bytearray((memory / "walls").read_bytes())
    if kind == "filters":
        struct.pack_into("<I", walls, 12, struct.unpack_from("<I", walls, 12)[0] + 1)
    else:
        struct.pack_into("<Q", walls, 24 + 3 * 8, 0)
    (memory / "walls").write_bytes(walls)
    rewrite_manifest(memory)
    before = {s.id for s in client.list()}
    with pytest.raises(errors.ClocheError, match="weaker than its original"):
        make_sandbox(snapshot=snapshot)
    assert {s.id for s in client.list()} == before
    client.delete_snapshot(snapshot)


@pytest.mark.jail("it rewrites the manifest of CRIU's images; test_vm_warm.py damages a machine's")
def test_S08_a_memory_of_another_kernel_or_agent_is_refused_by_name_and_its_files_serve(daemon, make_sandbox, client):
    source = make_sandbox()
    source.run("echo kept > ~/a")
    for at, word in ((48, "kernel"), (210, "agent")):  # of struct head
        snapshot = source.snapshot(memory=True)["id"]
        memory = daemon.data / "layers" / snapshot / "memory"
        text = bytearray((memory / "manifest").read_bytes())
        text[at] ^= 1
        (memory / "manifest").write_bytes(text)
        rewrite_manifest(memory)
        with pytest.raises(errors.Conflict, match=word) as refused:
            make_sandbox(snapshot=snapshot)
        assert "memory: false" in refused.value.hint
        assert make_sandbox(snapshot=snapshot, memory=False).run("cat ~/a").stdout == "kept\n"
        client.delete_snapshot(snapshot)
