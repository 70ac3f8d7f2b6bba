# SPDX-License-Identifier: Apache-2.0
"""Copies of volumes: one moment of their source, nothing in common afterwards, and nothing left of one that was cut short."""

import contextlib
import os
import random
import re
import signal
import threading
import uuid
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from cloche import Client, errors
from harness.daemon import Daemon, wait_for

pytestmark = pytest.mark.jail("a vm has no volumes")

TREE = """
cd /v && mkdir -p a/b private && chmod 700 private && echo one > a/b/one && ln a/b/one also && ln -s a/b/one link && mkfifo pipe
printf '#!/bin/sh\\necho runs\\n' > tool && chmod 751 tool && truncate -s 64M hole && printf x | dd of=hole bs=1 seek=33554432 conv=notrunc status=none
touch -d 2001-02-03 a/b/one a && python3 -c 'import os; os.setxattr("tool", "user.note", b"kept")'
sudo sh -c 'echo s > private/secret && chown 0:7 private/secret && chmod 600 private/secret'
"""
LOOK = """
cd /v && sudo find . -printf '%p %y %m %U:%G %s %n %l %b ' -exec stat -c '%X %Y' {} + | sort && sudo sh -c 'cat private/secret a/b/one; sha256sum < hole'
./tool; python3 -c 'import os; print(os.getxattr("tool", "user.note"), os.path.samefile("also", "a/b/one"))'
"""


def look(client, name):
    with client.create(volumes={"/v": {"volume": name, "read_only": True}}) as sandbox:
        return sandbox.run(LOOK, timeout=60).check().stdout


def test_a_copy_has_all_that_its_source_has_and_nothing_in_common_with_it(client, volume):
    source = volume(size_mib=64, one_writer=True)
    with client.create(volumes={"/v": source}) as sandbox:
        sandbox.run(TREE).check()
    copy = volume(source=source)
    told = client.volume(copy)
    assert (told["size_mib"], told["one_writer"], told["state"]) == (64, True, "ready")
    seen = look(client, source)
    assert look(client, copy) == seen and "runs" in seen and "b'kept' True" in seen
    with client.create(volumes={"/v": copy, "/w": source}) as sandbox:
        sandbox.run("echo two > /v/a/b/one; rm /v/tool; echo three > /w/link").check()
        assert sandbox.run("cat /v/also /w/also; ls /w/tool").stdout == "two\nthree\n/w/tool\n"
    client.delete_volume(source)
    with client.create(volumes={"/v": copy}) as sandbox:
        assert sandbox.run("cat /v/also").stdout == "two\n"


def test_a_copy_is_one_moment_of_a_volume_that_is_written_to(client, volume):
    source = volume(size_mib=64)
    with client.create(volumes={"/v": source}) as writer:
        # Each number goes to `first` and then to `second`: at no moment has the second a number that the first has not.
        turn = "i=0; while :; do i=$((i + 1)); echo $i >> /v/first; echo $i >> /v/second; done"
        going = writer.start(turn)
        wait_for(lambda: writer.run("test -s /v/second").exit_code == 0, 20, "the first turn")
        copies = [volume(source=source) for _ in range(3)]
        going.kill()
    lengths = []
    for copy in copies:
        with client.create(volumes={"/v": copy}) as reader:
            first, second = (reader.run(f"cat /v/{name}").stdout.split() for name in ("first", "second"))
        assert second and second == first[: len(second)] and len(first) - len(second) <= 1
        lengths.append(len(first))
    assert lengths == sorted(lengths)


def test_what_the_source_overwrites_takes_no_room_of_it(client, volume):
    """Each of the two can be filled again and again, as if the other were not there."""
    source = volume(size_mib=32)
    fill = "dd if=/dev/urandom of=/v/fill bs=1M count=24 conv=fsync status=none"
    with client.create(volumes={"/v": source}) as sandbox:
        sandbox.run(fill).check()
    copy = volume(source=source)
    for name in (source, copy):
        with client.create(volumes={"/v": name}) as sandbox:
            sandbox.run(f"rm /v/fill && {fill}").check()
            assert sandbox.run("dd if=/dev/urandom of=/v/more bs=1M count=24 status=none").exit_code != 0
            assert 24 << 20 <= client.volume(name)["used_bytes"] <= 33 << 20


def test_a_smaller_size_a_name_that_is_taken_and_a_source_that_is_not_there_are_refused(client, volume):
    source = volume(size_mib=64)
    with pytest.raises(errors.InvalidField, match="size_mib.*at least 64"):
        volume(source=source, size_mib=32)
    with pytest.raises(errors.InvalidField, match="source.*no volume"):
        volume(source="not-there")
    with pytest.raises(errors.Conflict):
        client.create_volume(source, source=source)
    larger = volume(source=source, size_mib=128, one_writer=True)
    assert (client.volume(larger)["size_mib"], client.volume(larger)["one_writer"]) == (128, True)
    assert client.volume(volume(source=client.volume(source)["id"]))["one_writer"] is False


def test_a_kill_at_any_moment_leaves_a_whole_copy_or_nothing():
    daemon = Daemon("--pool-max", "0", rm=False).start()
    rng = random.Random(seed := uuid.uuid4().int & 0xFFFFFF)
    layers = daemon.data / "layers"

    def on_disk():
        return sorted(p.name for p in layers.iterdir() if re.match("vo_|roll_", p.name))

    try:
        with Client(daemon.url, daemon.key) as client:
            client.create_volume("data", size_mib=128)
            with client.create(volumes={"/v": "data"}) as sandbox:
                sandbox.run("dd if=/dev/urandom of=/v/big bs=1M count=64 status=none; cd /v; seq 500 | xargs touch; sha256sum big > sum").check()
            told = set()
            for turn in range(3):
                begun = threading.Event()

                def copy():
                    begun.set()
                    with contextlib.suppress(errors.ClocheError):
                        told.add(client.create_volume(f"copy-{turn}", source="data")["id"])

                thread = threading.Thread(target=copy)
                thread.start()
                begun.wait()
                threading.Event().wait(rng.uniform(0, 0.15))  # anywhere in it
                daemon.kill_parts(*rng.choice([("broker",), ("gateway",), ("broker", "gateway")]))
                thread.join()
                known = {one["id"] for one in client.volumes()}
                assert told <= known, f"seed {seed}"
                wait_for(lambda: on_disk() == sorted(one["id"] for one in client.volumes()), 20, f"nothing but what is known (seed {seed})")
            for one in client.volumes():
                assert one["state"] == "ready"
                with client.create(volumes={"/v": one["id"]}) as sandbox:
                    sandbox.run("cd /v && sha256sum -c sum && test $(ls | wc -l) = 502").check()
                client.delete_volume(one["id"])
            wait_for(lambda: on_disk() == [], 20, "nothing left")
    finally:
        daemon.stop()
        daemon.remove()


def copiers(broker_pid):
    """The broker's children that hold a directory in which a copy is made."""
    found = []
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        for child in Path(f"/proc/{broker_pid}/task/{broker_pid}/children").read_text().split():
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                if any("/roll_" in os.readlink(fd) for fd in Path(f"/proc/{child}/fd").iterdir()):
                    found.append(int(child))
    return found


def test_a_copy_whose_child_is_killed_is_told_as_failed_and_leaves_nothing(client, volume, daemon):
    source = volume(size_mib=128)
    with client.create(volumes={"/v": source}) as sandbox:
        sandbox.run("dd if=/dev/urandom of=/v/big bs=1M count=64 status=none").check()

    def fails():
        """Whether the child could be killed before it was done."""
        pid, name = daemon.broker_pid, "k-" + uuid.uuid4().hex[:12]
        with ThreadPoolExecutor(1) as pool:
            copy = pool.submit(client.create_volume, name, source=source)
            while not copy.done():
                for child in copiers(pid):
                    os.kill(child, signal.SIGKILL)
        if copy.exception():
            assert "cannot copy" in str(copy.exception())
            return True
        client.delete_volume(name)
        return False

    wait_for(fails, 60, "a copy that is cut short")
    assert not [one for one in client.volumes() if one["name"].startswith("k-")]
    wait_for(lambda: not list((daemon.data / "layers").glob("roll_*")), 20, "nothing left")
