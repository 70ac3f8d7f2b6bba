# SPDX-License-Identifier: Apache-2.0
"""A template with a Python in it: the daemon's default, with a zygote and spares of its own."""

import pytest
from cloche import Client
from harness import zygote
from harness.daemon import Daemon, wait_for

# This machine's own Python as a root: the program, its library, and what both are linked with.
MAKE_TREE = r"""
set -e
mkdir -p /template/etc/cloche /template/bin /template/tmp
python=$(readlink -f /usr/bin/python3) version=$(python3 -c 'import sys; print("python%d.%d" % sys.version_info[:2])')
cp /bin/busybox /template/bin/ && ln -s busybox /template/bin/sh && ln -s busybox /template/bin/cat
mkdir -p /template/usr/bin && cp $python /template/usr/bin/ && ln -sf $(basename $python) /template/usr/bin/python3
mkdir -p /template/usr/lib && cp -a /usr/lib/$version /template/usr/lib/
rm -rf /template/usr/lib/$version/test /template/usr/lib/$version/config-*
for i in $(ldd $python /opt/cloche/bin/sudo /usr/lib/$version/lib-dynload/*.so 2>/dev/null | grep -o '/[^ :]*' | sort -u); do
	cp --parents -L $i /template 2>/dev/null || true
done
printf 'root:x:0:0::/root:/bin/sh\nuser:x:1000:1000::/home/user:/bin/sh\n' > /template/etc/passwd
echo fractions > /template/etc/cloche/warm
"""


@pytest.fixture(scope="module")
def pythonic():
    """(daemon, client) with a shared template `python`, which so is the default."""
    daemon = Daemon("--pool-min", "1", "--pool-max", "2", "--log-level", "debug").start()
    try:
        with Client(daemon.url, daemon.key) as client:
            with client.create(template="host") as sandbox:
                made = sandbox.run(["sh", "-c", MAKE_TREE], user="root")
                assert made.exit_code == 0, made.stderr
                client.create_template("python", sandbox, tree=True, shared=True, env={"MARK": "of the template"})
            yield daemon, client
    finally:
        status = daemon.stop()
        log = daemon.log()
        daemon.remove()
    assert status == 0, log[-4000:]


def pool_of(client):
    return client.health()["pool"]


@pytest.mark.slow
def test_the_default_template_is_there_once_it_is_made(pythonic):
    _, client = pythonic
    with client.create() as sandbox:
        assert sandbox.info.template == "python"
        assert sandbox.run_code("import os; os.environ['MARK']").text == "'of the template'"
    with client.create(template="python3.13") as sandbox:  # an alias
        assert sandbox.info.template == "python"
    with client.create(template="host") as sandbox:
        assert sandbox.info.template == "host"


def test_interpreters_of_an_image_are_forks_of_its_own_zygote(pythonic):
    daemon, client = pythonic
    with client.create(template="python") as sandbox:
        sandbox.run_code("1")  # which begins the zygote, if nothing has before
        wait_for(lambda: daemon.log().count('"zygote.ready"') >= 2, 60, "a zygote of the image")
    with client.create(template="python", env={"OWN": "1"}) as sandbox:
        assert zygote.is_fork(sandbox)
        assert sandbox.run_code("import os, sys; os.environ['OWN'], 'fractions' in sys.modules").text == "('1', True)"
        sandbox.files.write("/usr/lib/python3/changed", b"x", user="root", parents=True)


def test_spares_are_of_the_default_template_and_claims_find_them(pythonic):
    _, client = pythonic
    wait_for(lambda: pool_of(client)["ready"] >= 1, 60, "a spare")
    hits = pool_of(client)["hits"]
    with client.create() as sandbox:
        assert sandbox.info.template == "python" and pool_of(client)["hits"] == hits + 1
        assert sandbox.run_code("import os; os.environ['MARK'], os.path.exists('/usr/bin/apt')").text == (
            "('of the template', False)"
        )


def test_a_template_with_spares_can_be_removed_and_host_serves_again(pythonic):
    daemon, client = pythonic
    wait_for(lambda: pool_of(client)["ready"] >= 1, 60, "a spare")
    image = client.template("python")["digest"].removeprefix("sha256:")
    assert (daemon.data / "templates" / image).exists()
    client.delete_template("python")
    wait_for(lambda: not (daemon.data / "templates" / image).exists(), 60, "the image's end")
    with client.create() as sandbox:
        assert sandbox.info.template == "host"
