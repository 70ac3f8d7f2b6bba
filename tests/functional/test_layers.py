# SPDX-License-Identifier: Apache-2.0
"""Templates over templates: unchanged files stay in the image that they came from."""

import os
import struct

import pytest
from cloche import Client
from harness.daemon import Daemon, wait_for
from harness.oci import busybox_layer, layout_of
from harness.running import running

MIB = 2**20
# Everything but what differs from sandbox to sandbox: kind, mode, owner, links, and what is in it.
LIST = r"""cd /; find . -xdev \( -path ./proc -o -path ./sys -o -path ./dev -o -path ./run -o -path ./tmp -o -path ./opt/cloche -o -name hostname -o -name hosts -o -name machine-id \) -prune -o \
  \( -type f -exec sh -c 'echo "$(stat -c "%n %f %u:%g %h" "$1") $(sha256sum < "$1")"' sh {} \; \) -o \( -exec stat -c "%n %f %u:%g" {} \; -type l -exec readlink {} \; \) | sort"""


@pytest.fixture(scope="module")
def own():
    """A daemon of its own, so that its directory of images has these alone."""
    with running(Daemon("--pool-max", "0")) as daemon:
        yield daemon


@pytest.fixture(scope="module")
def client(own):
    with Client(own.url, own.key) as client:
        yield client


def digest_of(template):
    return template["digest"].removeprefix("sha256:")


def bases_of(daemon, digest):
    """The images that this one needs, as its device table names them."""
    name = next(n for n in (digest, digest + ".base") if (daemon.data / "templates" / n).is_dir())
    with open(daemon.data / "templates" / name / "image.erofs", "rb") as image:
        head = image.read(4096)
    n, at = struct.unpack_from("<HH", head, 1024 + 86)
    return [head[at * 128 + i * 128 :][:64].decode() for i in range(n)]


def images(daemon):
    return {n for n in os.listdir(daemon.data / "templates") if len(n) >= 64}


def make_base(client, name, size=4 * MIB):
    """A template with a shell and some files, `size` bytes of which nothing can be packed."""
    client.import_template(name, layout_of(busybox_layer()).tar(), replace=True)
    with client.create(template=name) as box:
        made = box.run(
            f"""set -e; /bin/busybox mkdir -p /template/data; /bin/busybox cp -a /bin /etc /template/; /bin/busybox --install -s /bin; /bin/busybox --install -s /template/bin
            cd /template/data; mkdir -p old/deep many ../root ../tmp ../lib; cp -a /lib/. ../lib/ 2>/dev/null || true; head -c {size} /dev/urandom > random; seq 1 50000 > numbers
            ln numbers again; echo old > old/deep/file; echo gone > gone; ln -s numbers link; for i in $(seq 1 300); do echo $i > many/file-$i; done""",
            user="root",
        )
        assert made.exit_code == 0, made.stderr
        return client.create_template(name, box, tree=True, replace=True)


@pytest.fixture
def base(client):
    made = make_base(client, "layers-base")
    yield made
    for name in [t["name"] for t in client.templates() if t["name"].startswith("layers-")]:
        client.delete_template(name)


CHANGE = """set -e
rm /data/gone /data/again; rm -r /data/old; mkdir /data/old; echo new > /data/old/file
seq 1 60000 > /data/longer; ln /data/longer /data/longer2; echo x >> /data/many/file-7; rm /data/many/file-1*; chmod 700 /data/many; echo '!' > '/data/many/!first'
mv /data/link /data/moved; rm -rf /data/many/file-20; mkdir /data/many/file-20; chown 1000:1000 /data/numbers"""


def listing(box):
    said = box.run(LIST, user="root")
    assert said.exit_code == 0 and "./data/numbers " in said.stdout, said.stderr
    return said.stdout


def test_a_template_over_another_holds_only_what_is_its_own(own, client, base):
    with client.create(template="layers-base") as box:
        changed = box.run(CHANGE, user="root")
        assert changed.exit_code == 0, changed.stderr
        wanted = listing(box)
        made = client.create_template("layers-next", box)
    assert base["shared_bytes"] == 0 and base["bytes"] > 4 * MIB
    assert made["bytes"] < MIB and made["shared_bytes"] == base["bytes"]
    assert bases_of(own, digest_of(made)) == [digest_of(base)]
    with client.create(template="layers-next") as box:
        assert listing(box) == wanted


def test_a_base_that_is_deleted_stays_until_the_last_that_needs_it_goes(own, client, base):
    with client.create(template="layers-base") as box:
        box.run("echo over > /data/over", user="root")
        made = client.create_template("layers-next", box)
    hidden = digest_of(base) + ".base"
    client.delete_template("layers-base")
    wait_for(lambda: hidden in images(own), what="the base to be kept")
    assert "layers-base" not in [t["name"] for t in client.templates()]
    own.kill_parts("gateway", "broker")
    with client.create(template="layers-next") as box:
        assert box.run("cat /data/over; tail -n 1 /data/numbers; wc -c < /data/random").stdout == f"over\n50000\n{4 * MIB}\n"
    assert client.template("layers-next")["shared_bytes"] == made["shared_bytes"]
    client.delete_template("layers-next")
    wait_for(lambda: not images(own) & {hidden, digest_of(made)}, what="both images to be removed")


def test_a_long_chain_needs_few_images_and_has_the_files_of_all(own, client, base):
    names = ["layers-base"]
    for i in range(11):
        with client.create(template=names[-1]) as box:
            box.run(f"head -c 200000 /dev/urandom > /data/part-{i}; echo {i} > /data/last", user="root")
            wanted = listing(box)
            names.append(f"layers-chain-{i}")
            made = client.create_template(names[-1], box)
        assert len(bases_of(own, digest_of(made))) <= 8 and made["bytes"] < 2 * MIB
    for name in names[:-1]:
        client.delete_template(name)
    with client.create(template=names[-1]) as box:
        assert listing(box) == wanted


def test_a_base_that_is_hardly_used_is_not_kept(own, client, base):
    make_base(client, "layers-base", size=48 * MIB)
    with client.create(template="layers-base") as box:
        box.run("rm /data/random", user="root")
        made = client.create_template("layers-next", box)
    assert made["shared_bytes"] == 0 and bases_of(own, digest_of(made)) == []
    with client.create(template="layers-next") as box:
        assert box.run("tail -n 1 /data/numbers; readlink /data/link; ls /data/many | wc -l").stdout == "50000\nnumbers\n300\n"


def test_steps_of_a_build_leave_nothing_behind_in_the_template(own, client, base):
    """What a template is always without is not in the images that it needs, either. As a control, it is in a step's."""
    secret = os.urandom(16).hex()
    client.build_template(
        dockerfile=f"FROM layers-base\nRUN echo {secret} > /root/.netrc; echo {secret} > /tmp/file; seq 1 40000 > /data/step\nRUN cat /tmp/file > /dev/null; echo 2 > /data/two\n",
        name="layers-built",
    )
    made = client.template("layers-built")
    needed = bases_of(own, digest_of(made))
    assert needed == [digest_of(base)] and made["bytes"] < MIB

    def has_secret(name):
        return secret.encode() in (own.data / "templates" / name / "image.erofs").read_bytes()

    assert [n for n in images(own) if has_secret(n)]
    assert not [n for n in [digest_of(made), *needed] if has_secret(n)]
    with client.create(template="layers-built") as box:
        assert box.run("tail -n 1 /data/step; cat /data/two; ls -A /tmp; ls /root/.netrc 2>&1", user="root").stdout.splitlines()[:2] == ["40000", "2"]
        assert box.run("cat /root/.netrc", user="root").exit_code != 0


def test_what_is_shared_is_free_and_a_projects_own_base_counts_again(own, client, base):
    project = client.create_project("layers")
    secret = client.create_key("k", scope="write", project=project["id"])["secret"]
    with client.create(template="layers-base") as box:
        client.create_template("layers-shared", box, shared=True)
    with Client(own.url, secret) as other:

        def used():
            return other.quota()["current"]["disk_mib"]

        def over(template, name):
            with other.create(template=template) as box:
                box.run(f"head -c 3000000 /dev/urandom > /data/{name}", user="root")
                other.create_template(name, box)
            return used()

        first = over("layers-shared", "first")
        assert 2 <= first <= 4
        assert over("first", "second") >= 8  # its own, and that of `first` again
        other.delete_template("first")
        assert used() >= 5  # what it needs of `first` is still there
        other.delete_template("second")
        assert used() == 0
