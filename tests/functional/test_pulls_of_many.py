# SPDX-License-Identifier: Apache-2.0
"""Pulls on an ordinary day: many at once from a registry that is slow and cuts, a disk that fills meanwhile, somebody who has had enough."""

import os
import re
import signal
import subprocess
from concurrent.futures import ThreadPoolExecutor

import pytest
from cloche import Client, errors
from harness import audit
from harness.daemon import BUILD, PATIENCE, read_text, wait_for
from harness.internet import OTHER
from harness.oci import busybox_layer, layout_of
from harness.registry import Servers
from harness.small_disk import MIB, Disk

SERVER_PORT = 8556
CONFIG = {"Env": ["PATH=/bin"], "Cmd": ["/bin/sh"]}
PULLS = 20


@pytest.fixture(scope="module")
def servers(internet):
    """An image of some 8 MiB that cannot be compressed."""
    servers = Servers(internet, OTHER, SERVER_PORT, "broken.test")
    servers.add(layout_of(busybox_layer().add("bulk", os.urandom(8 * MIB)), config=CONFIG))
    yield servers
    servers.close()


@pytest.fixture(scope="module")
def own(internet, servers):
    """A daemon whose data are on a small disk."""
    daemon = internet.daemon("--pool-max", "0", "--default-memory", "64MiB")
    disk = Disk(daemon)
    internet.set_zone({"broken.test": [OTHER]})
    ids, status = set(), None
    try:
        daemon.start()
        with Client(f"unix:{daemon.socket}", daemon.key, timeout=600 * PATIENCE) as client:
            yield daemon, client, disk
        ids = daemon.ids()
    finally:
        internet.set_zone({})
        disk.empty()
        status = daemon.stop() if daemon.process else None
        disk.remove()
        found, log = audit.left_after_stop(daemon, ids), daemon.log()
        daemon.remove()
    assert (status, found) == (0, []), log[-4000:]


def images(daemon):
    """What is sealed on the host, and what is being sealed."""
    return set(os.listdir(daemon.data / "templates"))


@pytest.fixture
def nothing_is_left(own):
    """Of pulls that failed: neither templates nor sandboxes, nor images."""
    daemon, client, disk = own
    before = images(daemon)
    yield
    disk.empty()
    assert [t["name"] for t in client.templates() if t["name"].startswith("p-")] == []
    wait_for(lambda: not [s for s in client.list() if s.info.ended is None], what="the sandboxes of pulls to go")
    wait_for(lambda: images(daemon) <= before, what="the images to go")


def pending(pid):
    """Whether a Ctrl-C has not been taken yet: a second one would be the same one."""
    masks = re.findall(r"^(?:SigPnd|ShdPnd):\s+(\w+)", read_text(f"/proc/{pid}/status"), re.M)
    return any(int(mask, 16) >> (signal.SIGINT - 1) & 1 for mask in masks)


def pull(client, name, how):
    """The template, or the error."""
    try:
        return client.pull_template(name, f"broken.test:{SERVER_PORT}/{how}/{name}:1")
    except errors.ClocheError as e:
        return e


def test_twenty_pulls_from_a_registry_that_is_slow_and_cuts_each_of_them_are_all_done(own, nothing_is_left):
    _, client, _ = own
    with ThreadPoolExecutor(PULLS) as pool:
        made = list(pool.map(lambda i: pull(client, f"p-{i}", "flaky"), range(PULLS)))
    assert [one["name"] for one in made] == [f"p-{i}" for i in range(PULLS)], made
    with client.create(template="p-7") as sandbox:
        assert sandbox.run("wc -c < /bulk").stdout.strip() == str(8 * MIB)
    for one in made:
        client.delete_template(one["name"])


def test_a_disk_that_fills_up_during_pulls_is_told_and_they_succeed_when_there_is_room(own, servers, nothing_is_left):
    _, client, disk = own
    asked = len(servers.log())
    with ThreadPoolExecutor(4) as pool:
        pulls = [pool.submit(pull, client, f"p-full-{i}", "slow") for i in range(4)]
        wait_for(lambda: any("/blobs/" in e["path"] for e in servers.log()[asked:]), what="the first layer to be asked for")
        disk.fill()
        told = [one.result() for one in pulls]
    assert [type(one) for one in told] == [errors.HostDiskFull] * 4, told
    disk.empty()
    made = wait_for(lambda: (got := pull(client, "p-full-0", "slow")) and not isinstance(got, errors.HostDiskFull) and got, what="room")
    assert made["name"] == "p-full-0", made
    client.delete_template("p-full-0")


@pytest.mark.parametrize("words", [("template", "pull", "--name", "p-stopped"), ("run", "--image"), ("create", "--image")])
def test_ctrl_c_during_a_pull_leaves_no_sandbox_and_the_pull_goes_on_for_the_next_who_asks(own, servers, words):
    daemon, client, _ = own
    (servers.root / "go-on").unlink(missing_ok=True)
    asked = len(servers.log())
    ref = f"broken.test:{SERVER_PORT}/stalled/{words[0]}:1"
    env = {"PATH": os.environ["PATH"], "CLOCHE_URL": f"unix:{daemon.socket}", "CLOCHE_API_KEY": daemon.key}
    process = subprocess.Popen([BUILD / "cloche", *words, ref, *(["--", "true"] if words[0] == "run" else [])], env=env, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
    wait_for(lambda: any("/blobs/" in e["path"] for e in servers.log()[asked:]), what="the layer to be asked for")
    process.send_signal(signal.SIGINT)
    if words[0] == "run":  # it would wait for its sandbox, and says how not to
        while b"twice more" not in (line := process.stderr.readline()):
            assert line, "it has ended"
        for _ in range(2):
            process.send_signal(signal.SIGINT)
            wait_for(lambda: process.poll() is not None or not pending(process.pid), what="the signal to be taken")
    out, err = process.communicate(timeout=60 * PATIENCE)
    assert process.returncode in (130, -signal.SIGINT) and not out, (process.returncode, out, err)
    (servers.root / "go-on").touch()
    if words[0] == "template":
        wait_for(lambda: [t for t in client.templates() if t["name"] == "p-stopped"], what="the pull's end")
        client.delete_template("p-stopped")
    else:
        assert client.run(["echo", "there"], image=ref, pull="missing").stdout == "there\n"
        assert sum("/blobs/" in e["path"] for e in servers.log()[asked:]) <= 2  # the config and the layer, once
    wait_for(lambda: not [s for s in client.list() if s.info.ended is None], what="the sandboxes to go")


def test_who_leaves_while_pulls_wait_for_their_turn_waits_no_longer(own, servers, nothing_is_left):
    """Those under way go on; what nobody waits for any more is not begun."""
    daemon, client, _ = own
    (servers.root / "go-on").unlink(missing_ok=True)
    env = {"PATH": os.environ["PATH"], "CLOCHE_URL": f"unix:{daemon.socket}", "CLOCHE_API_KEY": daemon.key}
    asked = len(servers.log())
    words = [[BUILD / "cloche", "template", "pull", "--name", f"p-turn-{i}", f"broken.test:{SERVER_PORT}/stalled/turn-{i}:1"] for i in range(8)]
    running_ = [subprocess.Popen(one, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE) for one in words[:4]]
    wait_for(lambda: sum("/blobs/" in e["path"] for e in servers.log()[asked:]) >= 4, what="four layers to be asked for")
    waiting = [subprocess.Popen(one, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE) for one in words[4:]]
    with ThreadPoolExecutor(1) as pool:
        last = pool.submit(pull, client, "p-last", "flaky")  # behind them
        for process in waiting:
            process.kill()
            process.communicate()
        (servers.root / "go-on").touch()
        assert last.result()["name"] == "p-last", last.result()
    for process in running_:
        assert process.wait(60 * PATIENCE) == 0, process.communicate()
    for i in range(4):
        client.delete_template(f"p-turn-{i}")
    client.delete_template("p-last")
    assert not any(f"turn-{i}/" in e["path"] for i in range(4, 8) for e in servers.log()[asked:])
