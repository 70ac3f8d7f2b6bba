# SPDX-License-Identifier: Apache-2.0
"""Templates against hostile sandboxes, and against the moments at which a daemon may die."""

import os
import re
import threading
import uuid

import pytest
from cloche import Client, errors
from harness.daemon import Daemon, children_of, read_text, wait_for

SECRETS = [
    "/root/.netrc", "/root/.bash_history", "/home/user/.git-credentials", "/home/user/.aws/credentials", "/home/user/.ssh/id_ed25519",
    "/home/user/.python_history", "/root/.docker/config.json", "/etc/ssh/ssh_host_ed25519_key", "/tmp/secret", "/run/secret",
]
# A tree whose packing takes a while: nothing in it gets smaller, and `small` tries hard.
MAKE_TREE = "mkdir -p /template/etc && head -c 1000000 /dev/urandom > /template/big && echo tree > /template/etc/mark"


def name_of():
    return f"s-{uuid.uuid4().hex[:10]}"


def sealers(daemon):
    return [p for p in children_of(daemon.broker_pid) if read_text(f"/proc/{p}/comm").strip() == "mkfs.erofs"]


def sealers_over_images(daemon):
    """Those of what was written over an image: their parents go on when they are done."""
    return [p for parent in children_of(daemon.broker_pid) for p in children_of(parent) if read_text(f"/proc/{p}/comm").strip() == "mkfs.erofs"]


def halves(daemon):
    """What is neither a whole image, nor a skeleton, nor a sandbox's layer."""
    names = os.listdir(daemon.data / "templates") + os.listdir(daemon.data / "layers")
    return [n for n in names if n.startswith("seal_") or n.endswith(".gone")]


def images(daemon):
    return {n for n in os.listdir(daemon.data / "templates") if re.fullmatch("[0-9a-f]{64}", n)}


def seal_behind(client, sandbox, name, tree=True):
    """Makes a template in a thread; what came of it is in the list."""
    ends = []

    def run():
        try:
            ends.append(client.create_template(name, sandbox, tree=tree, small=True))
        except errors.ClocheError as e:
            ends.append(e)

    thread = threading.Thread(target=run)
    thread.start()
    return thread, ends


def test_S06_what_is_secret_or_of_one_machine_is_in_no_template(daemon, client):
    with client.create(env={"TOKEN": "t0p-s3cret-env"}) as sandbox:
        script = "set -e\n" + "".join(
            f"mkdir -p /template{os.path.dirname(p)}; echo t0p-s3cret-file > /template{p}\n" for p in SECRETS
        )
        assert sandbox.run(["sh", "-c", script + "echo kept > /template/etc/kept"], user="root").exit_code == 0
        made = client.create_template(name_of(), sandbox, tree=True)
    image = daemon.data / "templates" / made["digest"].removeprefix("sha256:") / "image.erofs"
    data = image.read_bytes()
    assert b"kept" in data  # the control: what is small is found in an image as it is
    for word in (b"t0p-s3cret-file", b"t0p-s3cret-env", b"id_ed25519", b".bash_history"):
        assert word not in data, word
    assert "TOKEN" not in str(made)
    client.delete_template(made["id"])


@pytest.fixture
def shell(client):
    """A template with a shell and little else."""
    name = name_of()
    with client.create() as sandbox:
        script = """mkdir -p /template/bin /template/etc && cp /bin/busybox /template/bin/ && for i in sh mkdir head echo; do ln -s busybox /template/bin/$i; done
            for i in $(ldd /opt/cloche/bin/sudo 2>/dev/null | grep -o "/[^ ]*"); do cp --parents -L $i /template; done"""
        assert sandbox.run(["sh", "-c", script], user="root").exit_code == 0
        client.create_template(name, sandbox, tree=True)
    yield name
    client.delete_template(name)


@pytest.mark.parametrize("is_over", [False, True], ids=["tree", "over an image"])
def test_the_sealer_is_nobody_and_reaches_nothing_but_the_tree(daemon, client, shell, is_over):
    with client.create(template=shell if is_over else None) as sandbox:
        sandbox.run(MAKE_TREE, user="root")
        name = name_of()
        thread, ends = seal_behind(client, sandbox, name, tree=not is_over)
        pid = wait_for(lambda: sealers_over_images(daemon) if is_over else sealers(daemon), 30, "a sealer")[0]
        status = read_text(f"/proc/{pid}/status")
        spaces = {n: (os.readlink(f"/proc/{pid}/ns/{n}"), os.readlink(f"/proc/self/ns/{n}")) for n in ("user", "pid", "net", "mnt", "ipc", "uts")}
        mounts, fds = read_text(f"/proc/{pid}/mountinfo"), os.listdir(f"/proc/{pid}/fd")
        top = sorted(os.listdir(f"/proc/{pid}/root"))
        thread.join()
        assert not isinstance(ends[0], Exception), ends[0]
        client.delete_template(name)
    field = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
    assert int(field["Uid"].split()[0]) >= 0x30000000
    assert int(field["CapEff"], 16) == int(field["CapBnd"], 16) == 1 << 2  # CAP_DAC_READ_SEARCH, over its own namespace
    assert field["NoNewPrivs"] == "1" and field["Seccomp"] == "2"
    assert all(theirs != ours for theirs, ours in spaces.values()), spaces
    assert top == sorted(["bin", "dev", "lib", "lib64", "out", "sbin", "tmp", "tree", "usr"] + ["upper"] * is_over)
    assert all(" ro," in line for line in mounts.splitlines() if re.search(r" /(tree|usr|upper)(/\S*)? ", line))
    assert len(fds) <= 5, fds


def test_a_hostile_tree_becomes_a_template_without_power(client):
    with client.create() as sandbox:
        script = r"""
            cd / && mkdir -p template/bin template/etc template/x && cd template
            for i in $(ldd /opt/cloche/bin/sudo 2>/dev/null | grep -o "/[^ ]*"); do cp --parents -L $i .; done
            cp /bin/busybox bin/ && for i in sh cat ls id stat; do ln -s busybox bin/$i; done
            cp bin/busybox bin/setuid && chmod 4755 bin/setuid && mkfifo x/fifo
            ln -s /proc/1/root/etc/shadow etc/shadow && ln -s ../../../../etc/passwd x/out && ln -s /x/loop x/loop
            touch "x/$(printf '\033[2Jname\nwith lines')" "x/$(printf %0254d 0)" 'x/--exclude-path=bin'
            d=x; for i in $(seq 60); do d=$d/d; mkdir $d; done
        """
        assert sandbox.run(["sh", "-c", script], user="root").exit_code == 0
        made = client.create_template(name_of(), sandbox, tree=True)
    with client.create(template=made["name"]) as sandbox:
        assert sandbox.run("stat -c %a /bin/setuid; id -u; ls /x | cat -v | wc -l; cat /etc/shadow").stdout.split()[:2] == ["4755", "1000"]
        assert sandbox.run("cat /x/out").exit_code != 0
    client.delete_template(made["id"])


@pytest.mark.parametrize("parts", [["broker"], ["gateway"], ["broker", "gateway"]], ids="+".join)
def test_S09_S12_a_daemon_that_dies_in_a_seal_leaves_nothing_of_it(parts):
    daemon = Daemon("--pool-max", "0").start()
    try:
        with Client(daemon.url, daemon.key) as client:
            sandbox = client.create()
            sandbox.run(MAKE_TREE, user="root")
            name = name_of()
            thread, ends = seal_behind(client, sandbox, name)
            wait_for(lambda: sealers(daemon), 30, "a sealer")
            daemon.kill_parts(*parts)
            thread.join()
            assert isinstance(ends[0], errors.ClocheError)
        wait_for(lambda: not halves(daemon) and not images(daemon), 30, "the halves' end")
        with Client(daemon.url, daemon.key) as client:
            assert name not in [t["name"] for t in client.templates()]
            again = client.get(sandbox.id)  # it lives, and can be sealed now
            made = client.create_template(name, again, tree=True)
            assert images(daemon) == {made["digest"].removeprefix("sha256:")} and not halves(daemon)
            daemon.kill_parts("gateway", "broker")
        with Client(daemon.url, daemon.key) as client:
            assert wait_for(lambda: client.template(name), 30, "the template")["digest"] == made["digest"]
            client.delete_template(name)
            wait_for(lambda: not images(daemon), 30, "the image's end")
    finally:
        status = daemon.stop()
        log = daemon.log()
        daemon.remove()
    assert status == 0, log[-4000:]


def test_two_seals_of_one_sandbox_at_once_are_whole(daemon, client):
    with client.create() as sandbox:
        sandbox.run("mkdir -p /template/etc && head -c 30000 /dev/urandom > /template/big", user="root")
        names = [name_of() for _ in range(4)]
        both = [seal_behind(client, sandbox, n) for n in names]
        for thread, _ in both:
            thread.join()
        made = [ends[0] for _, ends in both]
        assert not [m for m in made if isinstance(m, Exception)]
        assert {m["name"] for m in made} == set(names) and not halves(daemon)
        for name in names:
            client.delete_template(name)
