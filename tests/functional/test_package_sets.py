# SPDX-License-Identifier: Apache-2.0
"""`packages` of creates and runs: installed once into an image of the project's, from an archive of the test's own."""

import contextlib
import json
import os
import signal
from concurrent.futures import ThreadPoolExecutor

import pytest
from cloche import Client, ClocheError
from harness.cli import Cli
from harness.daemon import wait_for
from harness.internet import PRIVATE
from harness.mirror import SUITE, Mirror
from harness.oci import busybox_layer, layout_of
from harness.running import running

pytestmark = pytest.mark.slow


PORT = 8086
BASE = f"""
name = "base"
from = "debian:{SUITE}"
packages = ["tools"]
[env]
MARK = "of the template"
"""
# Programs that say how they were called, in the place of those that a template would have.
NPM = r"""#!/bin/sh
for word; do
	case $word in
	no-such*) echo "npm error 404  '$word@*' is not in this registry." >&2; exit 1 ;;
	[a-z@]*) mkdir -p /usr/local/lib/node_modules; echo "$word" >>/usr/local/lib/node_modules/asked ;;
	esac
done
"""
PYTHON = r"""#!/bin/sh
case "$*" in
*over-debian-s*) [ -e /usr/share/beside ] || { touch /usr/share/of-debian; case "$*" in *--dry-run*) exit 0 ;; *) echo "no RECORD file was found" >&2; exit 1 ;; esac; } ;;
*--ignore-installed*) touch /usr/share/beside ;;
-c*importlib.metadata*) [ ! -e /usr/share/of-debian ] || echo debian-s-own==2.0 ;;
esac
[ "$1" != -c ] || exit 0
for word; do case $word in --*|-m|pip|install) ;; *) echo "$word" >>/usr/share/asked ;; esac; done
"""


@pytest.fixture(scope="module")
def mirror(internet, tmp_path_factory):
    mirror = Mirror(tmp_path_factory.mktemp("mirror") / "archive")
    mirror.add("tools", {"/usr/bin/npm": NPM, "/usr/bin/python3": PYTHON, "/usr/bin/node": "#!/bin/sh\necho v24.0.0\n"})
    mirror.add("more", {"/usr/bin/more-of-it": "#!/bin/sh\necho more\n", "/usr/share/more": os.urandom(2**20).hex()})  # a set is charged for what it adds
    wait = f"echo now; until /usr/lib/apt/apt-helper download-file http://mirror.test:{PORT}/go /tmp/go >/dev/null 2>&1; do :; done"
    mirror.add("slow", {"/usr/bin/slow": "#!/bin/sh\necho slow\n"}, postinst=wait)
    mirror.publish()
    mirror.serve(internet.enter(internet.outer), PRIVATE, PORT)
    yield mirror
    mirror.close()


@pytest.fixture(scope="module")
def builder(internet, mirror, tmp_path_factory):
    """A daemon in which sets of packages have room for one that nobody uses."""
    internet.set_zone({"mirror.test": [PRIVATE]})
    sources = tmp_path_factory.mktemp("apt") / "apt.list"
    sources.write_text(f"deb [trusted=yes] http://mirror.test:{PORT} {SUITE} main\n")
    registries = ["--templates-npm-registry", "http://npm.test/", "--templates-pip-index", "http://pip.test/simple"]
    with running(internet.daemon("--templates-sources", str(sources), "--pool-max", "0", "--templates-packages", "16KiB", *registries)) as daemon:
        yield daemon


@pytest.fixture(autouse=True)
def names(internet):
    internet.set_zone({"mirror.test": [PRIVATE]})


@pytest.fixture(scope="module")
def api(builder):
    with Client(f"unix:{builder.socket}", builder.key) as client:
        client.build_template(BASE, shared=True)
        yield client


def sets(api):
    return [t for t in api.templates() if "+" in t["name"]]


def test_packages_are_there_and_are_installed_once(api):
    with api.create(template="base", packages=["apt:hello"]) as sandbox:
        assert sandbox.run("hello; echo $MARK; id -un").stdout == "hello, template\nof the template\nuser\n"
        assert (sandbox.info.template, list(sandbox.info.packages)) == ("base", ["apt:hello"])
        made = len(api.builds())
        with api.create(template="base", packages=["apt:hello", "apt:hello"]) as again:
            assert again.run("hello").stdout == "hello, template\n"
        assert api.prepare_packages(["apt:hello"], template="base")["cached"]
        assert len(api.builds()) == made
        (held,) = sets(api)
        assert held["manifest"]["set"]["packages"] == ["apt:hello"] and not held["shared"] and held["sandboxes"] == 1
        with pytest.raises(ClocheError, match="1 sandbox uses"):
            api.delete_template(held["name"])


def test_the_network_of_the_sandbox_is_not_widened(api):
    with api.create(template="base", packages=["apt:hello"]) as sandbox:
        assert sandbox.info.raw["network"] == "deny-all"
        get = f"/usr/lib/apt/apt-helper -o Acquire::Retries=0 download-file http://mirror.test:{PORT}/dists/{SUITE}/Release /tmp/got"
        assert sandbox.run(get, user="root").exit_code != 0


def test_creates_at_once_with_the_same_packages_share_one_build(api):
    before = len(api.builds())
    with ThreadPoolExecutor(4) as pool:
        made = list(pool.map(lambda n: api.create(template="base", packages=["apt:more", "apt:hello"]), range(4)))
    assert {s.run("more-of-it; hello").stdout for s in made} == {"more\nhello, template\n"}
    assert len(api.builds()) == before + 1
    for sandbox in made:
        sandbox.delete()


def test_a_bare_name_is_of_the_language(api):
    asked = "cat /usr/share/asked /node_modules/asked"
    said = api.run(asked, template="base", packages=["Some_Thing>=2", "npm:@scope/name@^3"]).stdout
    assert {"some-thing>=2", "@scope/name@^3", "http://npm.test/", "http://pip.test/simple"} <= set(said.split())
    build = api.prepare_packages(["zod"], template="base", language="javascript")
    assert api.template(build["name"])["manifest"]["set"]["packages"] == ["npm:zod"]


def test_what_debian_has_too_old_a_version_of_is_put_beside_it(api):
    said = api.run("cat /usr/share/asked", template="base", packages=["pip:over-debian-s"]).stdout.split()
    assert [word for word in said if word in ("debian-s-own==2.0", "over-debian-s")] == ["debian-s-own==2.0", "over-debian-s"]


@pytest.mark.parametrize("package, why", [("apt:no-such-package", "Unable to locate package no-such-package"), ("npm:no-such", "'no-such@.*' is not in this registry")])
def test_a_wrong_package_is_told_by_its_name_and_leaves_nothing(api, builder, package, why):
    before = [t["name"] for t in sets(api)]
    with pytest.raises(ClocheError, match=f"^packages: .*{why}") as failure:
        api.create(template="base", packages=[package])
    assert failure.value.code == "invalid_field"
    assert [t["name"] for t in sets(api)] == before
    wait_for(lambda: not list((builder.run / "sandboxes").iterdir()), 10, "no sandbox left")


def test_A16_what_is_no_package_is_refused_by_its_place(api):
    """Each of these would be an option, a path, a URL, or words of a shell."""
    before = len(api.builds())
    wrong = ["pip:--index-url=http://x", "pip:-r/etc/passwd", "pip:./x", "pip:a b", "pip:a;id", "pip:git+https://x/y", "pip:a @ file:///x", "pip:$(id)", "pip:", "pip:-"]
    wrong += ["npm:--prefix=/", "npm:../x", "npm:file:x", "npm:git+ssh://x/y", "npm:x/y", "npm:x@npm:y", "npm:a`id`", "npm:@x", "npm:UPPER", "npm:x.tgz", "npm:x@-1"]
    wrong += ["apt:-y", "apt:jq-", "apt:./x.deb", "apt:a*", "apt:jq/sid", "apt:jq\nid", "apt:?essential", "apt:"]
    for word in [*wrong, 7, None]:
        with pytest.raises(ClocheError, match=r"packages: item 1") as failure:
            api.create(template="base", packages=["apt:hello", word])
        assert failure.value.code == "invalid_field", word
    with pytest.raises(ClocheError, match="packages: .*64"):
        api.create(template="base", packages=[f"apt:p{n}" for n in range(65)])
    assert len(api.builds()) == before
    with api.create(template="base", packages=[]) as sandbox:  # the positive control
        assert sandbox.run("true").exit_code == 0


def test_N27_a_manifest_that_came_with_an_image_opens_no_private_address(api):
    """A suite becomes a part of the archives' lines, and the archives' names may have private addresses."""
    manifest = {"suite": "x main\n[trusted=yes] http://private.test/ x", "set": {"of": "host", "image": "0" * 64, "packages": ["apt:x"]}}
    image = layout_of(busybox_layer(), config={"Env": ["PATH=/bin"], "Labels": {"dev.cloche.template": json.dumps(manifest)}})
    made = api.import_template("hostile", image.tar())
    assert made["manifest"]["suite"] == manifest["suite"]  # it is told as it came
    get = "busybox wget -q -O /dev/null http://{0} 2>&1 && echo {0} reached || echo {0} refused"
    log = []
    api.build_template(f'name = "probe"\nfrom = "hostile"\nrun = {json.dumps([get.format(n) for n in ("allowed.test", "private.test")])}', on_log=log.append)
    assert {"allowed.test reached\n", "private.test refused\n"} <= set(log)
    assert api.template("hostile")["name"] == "hostile"  # and is not taken for a set, which would have been evicted


def test_tls_that_a_build_is_denied_is_told_without_a_certificate_that_nobody_trusts(api):
    api.import_template("small", layout_of(busybox_layer(), config={"Env": ["PATH=/bin"]}).tar())
    log = []
    with pytest.raises(ClocheError, match="blocked by the network policy of builds: other.test"):
        run = [f"echo {PRIVATE} other.test >> /etc/hosts", "busybox wget -O - https://other.test/ 2>&1"]  # which a resolver's answer would not lead to
        api.build_template(f'name = "probe"\nfrom = "small"\nrun = {json.dumps(run)}', on_log=log.append)
    assert "alert code 49" in "".join(log)  # access_denied


def test_host_has_no_packages_and_says_what_has(api):
    with pytest.raises(ClocheError, match="`host` has none") as failure:
        api.create(template="host", packages=["apt:hello"])
    assert "template" in failure.value.hint


def test_a_language_that_is_missing_is_told_with_a_template_that_has_it(api):
    with api.create(template="host", env={"PATH": "/nowhere"}) as sandbox:
        with pytest.raises(ClocheError, match="javascript needs the program 'node', and the template 'host' does not have it") as failure:
            sandbox.run_code("1", language="javascript")
    assert "the template 'base' has it" in failure.value.hint


def test_a_gateway_that_dies_while_packages_are_installed_costs_the_caller_its_connection_alone(api, builder, mirror):
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(api.create, template="base", packages=["apt:slow"])
        wait_for(lambda: api.builds()[0]["state"] == "running", 30, "a build")
        build = api.builds()[0]["id"]
        next(e for e in api.build_events(build) if e.get("text") == "now\n")
        pid = builder.gateway_pid
        os.kill(pid, signal.SIGKILL)
        with pytest.raises(ClocheError):
            first.result()
    wait_for(lambda: builder.gateway_pid != pid, 30, "a new gateway")

    def is_going_on():
        with contextlib.suppress(ClocheError):
            return api.get_build(build)["state"] == "running"

    wait_for(is_going_on, 30, "the build")
    (mirror.root / "go").write_text("go")
    with api.create(template="base", packages=["apt:slow"]) as sandbox:
        assert sandbox.run("slow").stdout == "slow\n"
    assert api.builds()[0]["id"] == build


def test_sets_are_evicted_by_room_and_those_in_use_stay(api):
    with api.create(template="base", packages=["apt:hello"]) as held:
        api.prepare_packages(["apt:more"], template="base")
        api.prepare_packages(["apt:more", "pip:x"], template="base")
        kept = [t["manifest"]["set"]["packages"] for t in sets(api)]
        assert kept == [["apt:hello"], ["apt:more", "pip:x"]]
        assert held.run("hello").exit_code == 0


def test_sets_count_to_the_projects_quota_of_disk(api, builder):
    project = api.create_project("small")
    key = api.create_key("small", scope="write", project=project["id"])["secret"]
    api.set_quota(project=project["id"], disk_mib=2)
    with Client(f"unix:{builder.socket}", key) as other:
        with pytest.raises(ClocheError) as failure:
            other.create(template="base", packages=["apt:more"], limits={"disk_mib": 1})
        assert failure.value.code == "quota_exceeded"
        assert not sets(other)


def test_the_command_line_asks_for_packages(builder, api):
    cli = Cli(builder)
    assert cli.ok("run", "-T", "base", "-P", "apt:hello", "-l", "bash", "-c", "hello") == "hello, template\n"
    status, _, said = cli("run", "-T", "base", "--package", "no-such-package", "-l", "bash", "-c", "hello")
    assert status == 125 and "Unable to locate package no-such-package" in said
