# SPDX-License-Identifier: Apache-2.0
"""What a copy may not have, change or share holds for both ways by which memory goes over: as an imprint, and by CRIU."""

import shutil
import uuid

import pytest
from cloche import errors

from harness import audit, zygote
from harness.daemon import ENGINE, IS_SANITIZED, read_text, wait_for
from harness.vdso_random import SETUP

pytestmark = [
    pytest.mark.skipif(ENGINE != "jail", reason="a vm is copied as a machine"),
    pytest.mark.skipif(shutil.which("criu", path="/usr/sbin:/usr/bin") is None, reason="no criu"),
    pytest.mark.skipif(IS_SANITIZED, reason="a sanitized agent maps terabytes"),
]
# With a thread its memory is no imprint.
THREAD = "import threading\nthreading.Thread(target=threading.Event().wait, daemon=True).start()"
DRAW = """
import os, random, secrets, socket, ssl, tempfile, uuid
def draw():
    return [random.random(), ssl.RAND_bytes(16), os.urandom(16), secrets.token_hex(), str(uuid.uuid4()), next(tempfile._get_candidate_names()),
            socket.gethostname(), open('/etc/hostname').read(), open('/etc/machine-id').read()]
before = draw()
random.seed(7)
"""


def value(sandbox, code):
    result = sandbox.run_code(code)
    assert result.error is None, result.error
    return eval(result.results[-1].text) if result.results else None


@pytest.fixture(scope="module")
def warm():
    with zygote.daemon_with_zygote() as both:
        yield both


@pytest.fixture(params=["imprint", "criu"])
def way(request):
    return request.param


@pytest.fixture
def make(warm):
    made = []

    def create(**fields):
        made.append(warm[1].create(engine="jail", **fields))
        return made[-1]

    yield create
    for one in made:
        one.delete()


@pytest.fixture
def forked(way):
    """A function that forks in that way; all forks are deleted at the end."""
    made = []

    def fork(sandbox, *args, **fields):
        if way == "criu" and not value(sandbox, "import threading\nthreading.active_count() > 1"):
            value(sandbox, THREAD)
        copies = sandbox.fork(*args, **fields)
        assert copies.memory_by == way, copies.memory_why
        made.extend(copies)
        return copies

    yield fork
    for one in made:
        one.delete()


def test_S01_S02_S04_no_two_copies_draw_alike_or_bear_one_name(make, forked):
    source = make()
    value(source, DRAW)
    copies = forked(source, 3)
    for column in zip(*(value(one, "draw()") for one in [source, *copies])):
        assert len(set(column)) == 4, column


def test_S01_copies_of_a_copy_share_no_state_of_getrandom(make, forked):
    source = make()
    if not value(source, SETUP + "HAS_VDSO"):
        pytest.skip("the kernel's vDSO has no getrandom()")
    (copy,) = forked(source)
    flags = "[flags_of(droppable[0]), flags_of(wiped)]"
    assert value(copy, flags) == value(source, flags)
    value(copy, "draw(droppable)")
    drawn = [one for copy in forked(copy, 2) for one in value(copy, "[draw(droppable), draw_in_child(droppable), draw(droppable)]")]
    assert len(set(drawn)) == 6, drawn


def test_S06_credentials_of_the_wall_are_in_no_copys_memory(make, forked):
    secret = uuid.uuid4().hex
    action = {"transform": {"headers": {"authorization": f"Bearer {secret}"}}}
    source = make(env={"PLAIN": secret[::-1]}, network={"rules": [{"match": {"domains": ["example.com"]}, "action": action}]})
    value(source, "mine = 'in-the-source'")
    (copy,) = forked(source)
    # Looked for from outside, so that no call carries the words in.
    found = {word: 0 for word in (secret, secret[::-1], "in-the-source")}
    for pid in audit.processes_of_cgroups({copy.id}):
        for line in read_text(f"/proc/{pid}/maps").splitlines():
            begin, end = (int(word, 16) for word in line.split()[0].split("-"))
            if " rw-p" not in line or end - begin > 1 << 28:
                continue
            with open(f"/proc/{pid}/mem", "rb") as memory:
                memory.seek(begin)
                data = memory.read(end - begin)
            for word in found:
                found[word] += data.count(word.encode())
    assert found[secret] == 0
    assert found[secret[::-1]] and found["in-the-source"], "the control: what is the sandbox's own is there"


def test_S07_what_a_copy_writes_is_in_its_own_memory_and_files_alone(make, forked):
    source = make()
    value(source, "import hashlib, os\ndata = bytearray(os.urandom(8_000_000))\ndigest = lambda: hashlib.sha256(data).hexdigest()\nopen('f', 'w').write('0')")
    before = value(source, "digest()")
    copies = forked(source, 3)
    for i, one in enumerate(copies[:2]):
        value(one, f"data[:] = bytes([{i}]) * len(data)\nopen('f', 'w').write('{i + 1}')")
    assert value(source, "digest()") == value(copies[2], "digest()") == before
    assert [value(one, "open('f').read()") for one in [source, *copies]] == ["0", "1", "2", "0"]
    value(source, "data[:] = bytes(len(data))")
    assert value(copies[2], "digest()") == before and value(copies[1], "data[5]") == 1
    (again,) = forked(copies[0])
    assert value(again, "set(data)") == {0}


def test_S09_a_fork_amid_a_burst_of_writes_is_of_one_moment(make, forked):
    """Files and memory: what a call has written to both is in both, or in neither."""
    source = make()
    value(source, "n = 0\nblock = bytearray(4_000_000)\ndef step():\n    global n\n    n += 1\n    block[:] = bytes([n % 251]) * len(block)\n    open('n', 'w').write(str(n))")
    for _ in range(3):
        value(source, "step(), step()")
        for one in forked(source, 2):
            assert value(one, "int(open('n').read()) == n and set(block) == {n % 251}"), value(one, "n")


def test_S10_what_forks_take_is_given_back(make, forked):
    """An imprint is in its source's memory as long as somebody has it."""
    source = make(limits={"memory_mib": 512})
    value(source, "data = bytearray(b'x') * 50_000_000")
    before = source.usage()["now"]["memory_bytes"]
    for _ in range(4):
        for one in forked(source, 2):
            assert value(one, "len(data)") == 50_000_000
            one.delete()
    value(source, "1")
    wait_for(lambda: source.usage()["now"]["memory_bytes"] < before + 25_000_000, 30, "the memory of imprints that nobody has")


def test_S11_a_copy_has_its_own_policy_and_identity(make, forked):
    source = make(network="allow-all")
    source.expose(8080)
    value(source, "import socket\nname = socket.gethostname()")
    (same,) = forked(source)
    (closed,) = forked(source, network="deny-all")
    assert value(same, "socket.gethostname() != name") and same.id != source.id
    assert [one.network()["kind"] for one in (source, same, closed)] == ["allow-all", "allow-all", "deny-all"]
    assert source.ports() and same.ports() == closed.ports() == []


def test_S12_copies_go_on_when_their_source_and_each_other_go(make, forked, warm):
    source = warm[1].create(engine="jail")
    value(source, "data = list(range(300_000))")
    copies = forked(source, 3)
    source.delete()
    copies[0].delete()
    assert [value(one, "sum(data)") for one in copies[1:]] == [sum(range(300_000))] * 2
    (again,) = forked(copies[1])
    assert value(again, "len(data)") == 300_000
    with pytest.raises(errors.ClocheError):
        source.fork()
