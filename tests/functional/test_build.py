# SPDX-License-Identifier: Apache-2.0
"""Templates from recipes: built in sandboxes from an archive of the test's own (harness/mirror.py), on a private address as an
operator's mirror may have it."""

import contextlib
import json
import os
import shutil
import signal
import subprocess

import pytest
from cloche import Client, ClocheError
from harness.cli import Cli
from harness.daemon import Daemon, call, wait_for
from harness.internet import PRIVATE
from harness.mirror import SUITE, Mirror, arch
from harness.running import running

pytestmark = pytest.mark.slow


PORT = 8085
HELLO = f"""
name = "hello"
summary = "says hello"
from = "debian:{SUITE}"
packages = ["hello"]
checks = ["hello", "test $(id -un) = user"]
[env]
GREETING = "hi"
"""


@pytest.fixture(scope="module")
def mirror(internet, tmp_path_factory):
    mirror = Mirror(tmp_path_factory.mktemp("mirror") / "archive")
    mirror.serve(internet.enter(internet.outer), PRIVATE, PORT)
    yield mirror
    mirror.close()


@pytest.fixture(scope="module")
def builder(internet, mirror, tmp_path_factory):
    """A daemon whose apt knows the mirror, and no other archive."""
    sources = tmp_path_factory.mktemp("apt") / "apt.list"
    sources.write_text(f"deb [trusted=yes] http://mirror.test:{PORT} {SUITE} main\n")
    with running(internet.daemon("--templates-sources", str(sources), "--pool-max", "0")) as daemon:
        yield daemon


@pytest.fixture(autouse=True)
def names(internet):
    internet.set_zone({"mirror.test": [PRIVATE]})


@pytest.fixture(scope="module")
def api(builder):
    with Client(f"unix:{builder.socket}", builder.key) as client:
        yield client


def recipe(name, *lines, **fields):
    """A recipe of that name that starts from the archive."""
    text = {"name": name, "from": f"debian:{SUITE}", **fields}
    return "\n".join([f"{k} = {json.dumps(v)}" for k, v in text.items()] + list(lines))


def nothing_runs(builder):
    """A build's sandboxes are gone before its end is told; others may take their moment."""
    wait_for(lambda: not os.listdir(builder.run / "sandboxes"), 10, "no sandbox left")


def test_a_recipe_becomes_a_template(api, builder):
    log = []
    build = api.build_template(HELLO, on_log=log.append)
    assert build["state"] == "ready" and not build["cached"]
    assert "hello, template\n" in log  # its check
    seen = [(e["type"], e["data"]["build_id"]) for e in api.events(type="build")]
    assert seen[-2:] == [("build.started", build["id"]), ("build.ended", build["id"])]
    with api.create(template="hello") as sandbox:
        assert sandbox.run("hello; echo $GREETING; id -un").stdout == "hello, template\nhi\nuser\n"
    nothing_runs(builder)


def test_the_usage_of_builds_is_told_by_project_and_by_day(api):
    api.build_template(HELLO)
    rows = [r for r in api.usage(group_by="project") if r["project"] == "builds"]
    assert len(rows) == 1 and rows[0]["running_ms"] > 0
    assert list(api.usage(group_by="day", project=rows[0]["project_id"]))


def test_its_packages_and_licences_are_told(api):
    api.build_template(HELLO)
    manifest = api.template("hello")["manifest"]
    assert {"kind": "deb", "name": "hello", "version": "1.0", "licence": "MIT"} in manifest["packages"]
    assert manifest["languages"]["bash"] and manifest["recipe"]["packages"] == ["hello"]


def test_what_was_built_before_is_not_built_again_and_is_the_same_when_it_is(api):
    first = api.build_template(HELLO)
    again = api.build_template(HELLO)
    assert again["cached"] and again["digest"] == first["digest"]
    fresh = api.build_template(HELLO, fresh=True)
    assert not fresh["cached"] and fresh["digest"] == first["digest"]


def test_what_was_removed_a_moment_ago_is_whole_when_it_is_built_again(api):
    text = recipe("brief", "[files]", '"/etc/brief" = "brief\\n"', run=["cat /etc/brief"])
    api.build_template(text)
    for _ in range(3):
        api.delete_template("brief")
        assert api.build_template(text)["state"] == "ready"
        assert api.template("brief")["bytes"] > 0
        with api.create(template="brief") as sandbox:
            assert sandbox.run("cat /etc/brief").stdout == "brief\n"


def test_an_archive_that_has_changed_is_asked_again(api, mirror):
    api.build_template(HELLO)
    mirror.add("other", {"/usr/bin/other": "#!/bin/sh\necho other\n"})
    mirror.publish()
    build = api.build_template(recipe("other", packages=["other"], checks=["other"]))
    assert build["state"] == "ready"


def test_a_wrong_package_fails_with_its_name_and_leaves_nothing(api, builder):
    with pytest.raises(ClocheError, match="Unable to locate package no-such-package"):
        api.build_template(recipe("wrong", packages=["hello", "no-such-package"]))
    assert api.builds()[0]["state"] == "failed"
    nothing_runs(builder)
    with pytest.raises(ClocheError, match="no template"):
        api.create(template="wrong")


def test_a_template_that_fails_its_checks_gets_no_name(api, builder):
    with pytest.raises(ClocheError, match="the check failed: hello | grep -q goodbye"):
        api.build_template(recipe("unchecked", packages=["hello"], checks=["hello | grep -q goodbye"]))
    with pytest.raises(ClocheError, match="no template"):
        api.create(template="unchecked")
    nothing_runs(builder)


def test_commands_and_files_are_part_of_it_and_it_starts_from_another(api):
    api.build_template(HELLO)
    text = recipe("louder", "[files]", '"/etc/louder" = "loud\\n"', run=["tr a-z A-Z </etc/louder >/etc/loudest"], **{"from": "hello"})
    assert api.build_template(text)["state"] == "ready"
    with api.create(template="louder") as sandbox:
        assert sandbox.run("cat /etc/louder /etc/loudest; hello").stdout == "loud\nLOUD\nhello, template\n"


def until_retried(api, build):
    """The try that it is at, once its build has failed for the first time."""
    wait_for(lambda: [e for e in api.events(type="build.retried") if e["data"]["build_id"] == build["id"]], 300, "another try")
    return api.get_build(build["id"])


def test_a_build_that_may_be_tried_again_sees_what_is_there_by_then(api, builder, mirror):
    late = recipe("late", packages=["late"], checks=["late"])
    build = api.start_build(late, retries=5)  # as many as a slow host may need until the archive has it
    paused = until_retried(api, build)
    assert paused["state"] == "running" and paused["tries"] > 1 and paused["error"] is None
    mirror.add("late", {"/usr/bin/late": "#!/bin/sh\necho late\n"})
    mirror.publish()
    events = list(api.build_events(build["id"]))
    ended = events[-1]["build"]
    assert ended["state"] == "ready" and ended["tries"] > 1 and ended["error"] is None
    log = "".join(e["text"] for e in events if e["type"] == "log")
    assert "Unable to locate package late" in log and "== trying again in 5 s" in log
    told = [(e["type"], e["data"].get("message")) for e in api.events(type="build") if e["data"]["build_id"] == build["id"]]
    assert [t for t, _ in told] == ["build.started", *["build.retried"] * (ended["tries"] - 1), "build.ended"]
    assert "package late" in told[1][1]
    with api.create(template="late") as sandbox:
        assert sandbox.run("late").stdout == "late\n"
    nothing_runs(builder)


def test_tries_are_bounded_and_the_last_one_tells_why(api, builder):
    with pytest.raises(ClocheError, match="Unable to locate package never"):
        api.build_template(recipe("never", packages=["never"]), retries=1)
    assert api.builds()[0]["state"] == "failed" and api.builds()[0]["tries"] == 2
    with pytest.raises(ClocheError, match="retries"):
        api.start_build(recipe("never", packages=["never"]), retries=6)
    nothing_runs(builder)


def test_a_build_that_waits_for_its_next_try_can_be_cancelled(api, builder):
    build = api.start_build(recipe("given-up", packages=["never"]), retries=5)
    until_retried(api, build)
    api.cancel_build(build["id"])
    *_, last = api.build_events(build["id"])
    assert last["build"]["state"] == "cancelled" and 1 < last["build"]["tries"] < 6
    nothing_runs(builder)


def test_a_cancelled_build_ends_and_leaves_nothing(api, builder):
    build = api.start_build(recipe("endless", run=["echo now; tail -f /dev/null"]))
    for event in api.build_events(build["id"]):
        if event.get("text") == "now\n":
            api.cancel_build(build["id"])
    assert event["build"]["state"] == "cancelled"
    nothing_runs(builder)


def kill(builder, api, part):
    """Returns when the next one answers."""
    pid = getattr(builder, f"{part}_pid")
    os.kill(pid, signal.SIGKILL)
    wait_for(lambda: getattr(builder, f"{part}_pid") != pid, 30, f"a new {part}")

    def answers():
        with contextlib.suppress(ClocheError):
            return api.health()["ready"]

    wait_for(answers, 30, "an answer")


@pytest.mark.parametrize("part", ["gateway", "broker"])
def test_a_build_outlives_the_daemons_processes(api, builder, mirror, part):
    sign = f"go-{part}"
    wait = f"until /usr/lib/apt/apt-helper download-file http://mirror.test:{PORT}/{sign} /tmp/go; do :; done"
    build = api.start_build(recipe("slow", run=["echo now", wait, f"echo {part} >/etc/slow"]))
    for event in api.build_events(build["id"]):
        if event.get("text") == "now\n":
            break
    kill(builder, api, part)
    assert api.get_build(build["id"])["state"] == "running"
    (mirror.root / sign).write_text("go")
    events = list(api.build_events(build["id"]))
    end = events[-1]["build"]
    assert (end["state"], end["error"]) == ("ready", None)
    said = [e["text"] for e in events if e["type"] == "log"]
    assert [said.count(line) for line in ("== extras\n", "+ echo now\n", "now\n", f"+ echo {part} >/etc/slow\n")] == [1, 1, 1, 1]
    with api.create(template="slow") as sandbox:
        assert sandbox.run("cat /etc/slow").stdout == f"{part}\n"
    nothing_runs(builder)


def test_a_build_that_waits_for_its_next_try_outlives_the_gateway(api, builder, mirror):
    build = api.start_build(recipe("later", packages=["later"], checks=["later"]), retries=5)
    until_retried(api, build)
    mirror.add("later", {"/usr/bin/later": "#!/bin/sh\necho later\n"})
    mirror.publish()
    kill(builder, api, "gateway")
    *_, last = api.build_events(build["id"])
    assert last["build"]["state"] == "ready" and last["build"]["tries"] > 1
    nothing_runs(builder)


def test_N27_a_build_reaches_its_archives_and_no_other_private_address(api, mirror):
    def fetch(name, url):
        return f"/usr/lib/apt/apt-helper -o Acquire::Retries=0 download-file {url} /tmp/got >/dev/null 2>&1 && echo {name} reached || echo {name} refused"

    mirror.add("nosy", {"/usr/share/doc/nosy/copyright": "License: MIT\n"}, postinst=fetch("package", "http://allowed.test/"))
    mirror.publish()
    urls = {
        "archive": f"http://mirror.test:{PORT}/dists/{SUITE}/Release",  # the positive control, on the same private address
        "public": "http://allowed.test/",
        "private": "http://private.test/",
        "private-address": f"http://{PRIVATE}/",
        "other-name-of-the-mirror": f"http://private.test:{PORT}/dists/{SUITE}/Release",
        "metadata": "http://metadata.test/",
        "host": "http://host.test/",
    }
    log = []
    api.build_template(recipe("nosy", packages=["nosy"], run=[fetch(*u) for u in urls.items()]), on_log=log.append)
    said = {line.strip() for line in log if line.endswith((" reached\n", " refused\n")) and line[0] != "+"}
    assert said == {"package refused", "archive reached", "public reached", *(f"{n} refused" for n in list(urls)[2:])}


def test_a_build_that_fails_by_its_network_says_what_was_denied_and_what_to_do(api):
    log = []
    fetch = "/usr/lib/apt/apt-helper -o Acquire::Retries=0 download-file http://private.test/ /tmp/got"
    with pytest.raises(ClocheError) as failed:
        api.build_template(recipe("nosy", run=[fetch]), on_log=log.append)
    assert "blocked by the network policy of builds: private.test" in failed.value.message
    assert "templates.names" in failed.value.hint
    assert "blocked by the network policy of builds: private.test" in log[-1]


def test_two_builds_at_once_do_not_disturb_each_other(api):
    builds = [api.start_build(recipe(f"twin-{n}", packages=["hello"], run=[f"echo {n} >/etc/twin"])) for n in (1, 2, 3)]
    ends = [list(api.build_events(b["id"]))[-1]["build"] for b in builds]
    assert [e["state"] for e in ends] == ["ready"] * 3
    with api.create(template="twin-2") as sandbox:
        assert sandbox.run("cat /etc/twin").stdout == "2\n"


def test_T07_many_builds_of_one_project_let_others_start(api, builder):
    project = api.create_project("modest")
    key = api.create_key("modest", scope="write", project=project["id"])["secret"]
    greedy = [api.start_build(recipe(f"greedy-{n}", run=["tail -f /dev/null"])) for n in range(5)]

    def states(client, builds):
        return [client.get_build(b["id"])["state"] for b in builds]

    wait_for(lambda: states(api, greedy).count("running") == 2, 30, "two builds run")
    with Client(f"unix:{builder.socket}", key) as other:
        modest = [other.start_build(recipe("modest", run=["tail -f /dev/null"]))]
        wait_for(lambda: states(other, modest) == ["running"], 30, "another project's build runs")
        assert sorted(states(api, greedy)) == ["queued"] * 3 + ["running"] * 2
        for client, builds in ((api, greedy), (other, modest)):
            for build in reversed(builds):
                client.cancel_build(build["id"])
    nothing_runs(builder)


def test_what_starts_from_a_template_that_is_being_built_anew_waits_for_it(api, mirror):
    api.build_template(recipe("under", run=["echo 1 >/etc/under"]))
    wait = f"until /usr/lib/apt/apt-helper download-file http://mirror.test:{PORT}/under /tmp/go; do :; done"
    anew = api.start_build(recipe("under", run=["echo now", wait, "echo 2 >/etc/under"]))
    for event in api.build_events(anew["id"]):
        if event.get("text") == "now\n":
            break
    over = api.start_build('name = "over"\nfrom = "under"\nchecks = ["cat /etc/under"]')
    api.build_template(HELLO)  # the end of another one wakes nobody
    (mirror.root / "under").write_text("go")
    *events, last = api.build_events(over["id"])
    assert last["build"]["state"] == "ready" and [e["text"] for e in events if e["type"] == "log"][-1] == "2\n"


def test_a_build_is_its_projects_alone(api, builder):
    build = api.build_template(HELLO)
    project = api.create_project("elsewhere")
    key = api.create_key("other", scope="write", project=project["id"])["secret"]
    with Client(f"unix:{builder.socket}", key) as other:
        assert other.builds() == []
        with pytest.raises(ClocheError, match="no build"):
            other.get_build(build["id"])
        with pytest.raises(ClocheError, match="admin"):
            other.start_build(HELLO, shared=True)
        with pytest.raises(ClocheError, match="no template"):
            other.create(template="hello")


def test_a_kernel_is_unpacked_and_named_and_no_sandbox_starts_from_it(api, builder, mirror):
    """A package as Debian's: one that depends on the newest, which has the kernel and its modules."""
    modules = {f"/lib/modules/9.9-cloud/kernel/drivers/{name}.ko": name for name in ("virtio_blk", "virtio-rng", "unneeded")}
    mirror.add("linux-image-9.9-cloud", {"/boot/vmlinuz-9.9-cloud": "kernel", **modules}, postinst="exit 1")
    mirror.add(f"linux-image-test-{arch()}", {}, fields="Depends: linux-image-9.9-cloud (= 1.0)\n")
    mirror.publish()
    build = api.build_template(recipe("kernel", kernel=["linux-image-none", "linux-image-test"]))
    digest = build["digest"].removeprefix("sha256:")
    template = api.template("kernel")
    assert template["shared"] and [p["name"] for p in template["manifest"]["packages"]] == ["linux-image-9.9-cloud"]
    wait_for(lambda: os.path.lexists(builder.data / "kernels/current"), 10, "the broker's name for it")
    assert os.readlink(builder.data / "kernels/current") == digest
    place = builder.run / "images" / digest
    assert sorted(os.listdir(place / "modules")) == ["10-virtio_blk.ko", "11-virtio-rng.ko"]
    assert (place / "vmlinuz").read_text() == "kernel" and "release=9.9-cloud\n" in (place / "manifest").read_text()
    with pytest.raises(ClocheError, match="'kernel' is the kernel of vms and no root"):
        api.create(template="kernel")


@pytest.mark.skipif(not shutil.which(f"qemu-system-{os.uname().machine}"), reason="no QEMU")
def test_a_kernel_that_was_removed_is_told_with_how_to_get_another(api, mirror):
    modules = {f"/lib/modules/8.8-cloud/kernel/drivers/{name}.ko": name for name in ("virtio_blk", "virtio-rng")}
    mirror.add("linux-image-8.8-cloud", {"/boot/vmlinuz-8.8-cloud": "kernel", **modules})
    mirror.add(f"linux-image-gone-{arch()}", {}, fields="Depends: linux-image-8.8-cloud (= 1.0)\n")
    mirror.publish()
    api.build_template(HELLO)
    api.build_template(recipe("kernel", kernel=["linux-image-gone"]))
    api.delete_template("kernel")
    with pytest.raises(ClocheError, match="there is no guest kernel yet") as refused:
        api.create(engine="vm", template="hello")
    assert "cloche template build kernel" in refused.value.hint


def test_a_kernel_that_the_archive_has_not_is_told_by_its_names(api):
    with pytest.raises(ClocheError, match="has none of these kernels: linux-image-none linux-image-neither"):
        api.build_template(recipe("kernel", kernel=["linux-image-none", "linux-image-neither"]))


def test_a_kernel_is_the_operators_to_build(api, builder):
    project = api.create_project("tenant")
    key = api.create_key("theirs", project=project["id"], scope="admin")
    with Client(f"unix:{builder.socket}", key["secret"]) as tenant, pytest.raises(ClocheError) as refused:
        tenant.build_template(recipe("kernel", kernel=["linux-image-test"]))
    assert refused.value.code == "forbidden"


def listed_builds(daemon):
    return call(daemon, "GET", "/v1/builds")[1]["builds"]


def test_the_daemon_builds_by_itself_what_it_is_told_and_is_missing(internet, mirror, tmp_path_factory):
    """It begins at the start, tries again, is told where a user looks, and goes on with the next daemon."""
    sources = tmp_path_factory.mktemp("ahead") / "apt.list"
    sources.write_text(f"deb [trusted=yes] http://mirror.test:{PORT} {SUITE} main\n")
    options = ("--templates-sources", str(sources), "--pool-max", "0", "--templates-build", "base", "--templates-build", "node")
    with running(internet.daemon(*options)) as daemon:
        builds = listed_builds(daemon)
        assert sorted(b["name"] for b in builds) == ["base", "node"]
        cli = Cli(daemon)
        _, out, told = cli("template", "ls")
        assert "host" in out and "being built" not in out and "base is being built: " in told
        assert {b["name"] for b in json.loads(cli("doctor", "--json")[1])["builds"]} == {"base", "node"}
        assert "is being built: " in cli("doctor")[1]
        daemon.kill_parts("gateway")
        assert sorted(b["id"] for b in listed_builds(daemon)) == sorted(b["id"] for b in builds)
        for b in builds:
            call(daemon, "DELETE", f"/v1/builds/{b['id']}")
        wait_for(lambda: all(b["state"] == "cancelled" for b in listed_builds(daemon)), what="the end of both")
        assert "being built" not in cli("template", "ls")[2]


def test_a_recipe_that_does_not_come_with_cloche_is_refused_at_the_start():
    with pytest.raises(RuntimeError, match="templates.build: no recipe 'basic' comes with cloche"):
        Daemon("--templates-build", "basic").start()


NODE = '#!/bin/sh\n[ "$1" = --version ] && echo v24.1.0 || echo "node has $2"\n'
VERCEL = "/vercel/api/v3/sandboxes"


@pytest.fixture(scope="module")
def with_node(mirror):
    mirror.add("node-of-a-test", {"/usr/bin/node": NODE})
    mirror.publish()


@pytest.fixture
def tongues(internet, with_node, tmp_path_factory):
    """A daemon whose default template has no JavaScript, and an archive that has."""
    sources = tmp_path_factory.mktemp("tongues") / "apt.list"
    sources.write_text(f"deb [trusted=yes] http://mirror.test:{PORT} {SUITE} main\n")
    options = ("--templates-sources", str(sources), "--pool-max", "0", "--default-template", "plain")
    with running(internet.daemon(*options)) as daemon, Client(f"unix:{daemon.socket}", daemon.key) as client:
        client.build_template(recipe("plain"), shared=True)
        yield daemon, client


def test_a_language_finds_a_template_that_has_it(tongues, mirror):
    daemon, client = tongues
    with pytest.raises(ClocheError, match="language: no template here has javascript") as refused:
        client.create(language="javascript")
    assert "cloche template build --shared universal" in refused.value.hint and "cloche template builds" in refused.value.hint
    with pytest.raises(ClocheError, match="must be one of python"):
        client.create(language="cobol")
    status, error = call(daemon, "POST", VERCEL, {"persistent": False})
    assert status == 404 and "cloche template build --shared universal" in json.dumps(error)

    wait = f"until /usr/lib/apt/apt-helper download-file http://mirror.test:{PORT}/tongues /tmp/go; do :; done"
    build = client.start_build(recipe("universal", packages=["node-of-a-test"], run=["echo now", wait]), shared=True)
    for event in client.build_events(build["id"]):
        if event.get("text") == "now\n":
            break
    with Cli(daemon).start("run", "-l", "javascript", "-c", "6*7", stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as waiting:
        assert "waiting for the template 'universal', which is being built" in waiting.stderr.readline()
        (mirror.root / "tongues").write_text("go")
        assert (waiting.stdout.read(), waiting.wait()) == ("node has 6*7\n", 0)

    for language, template in (("javascript", "universal"), ("typescript", "universal"), ("bash", "plain"), (None, "plain")):
        with client.create(language=language) as sandbox:
            assert sandbox.info.template == template
    with client.create(language="javascript", template="plain") as sandbox:
        assert sandbox.info.template == "plain"
    assert client.template("node24")["name"] == client.template("code-interpreter-v1")["name"] == "universal"


def test_a_runtime_of_another_number_is_never_given(tongues):
    daemon, client = tongues
    client.build_template(recipe("universal", packages=["node-of-a-test"]), shared=True)
    for body in ({"runtime": "node24"}, {}):
        status, made = call(daemon, "POST", VERCEL if not body else VERCEL.replace("v3", "v2"), {"persistent": False, **body})
        assert status == 200, made
        (sandbox,) = client.list()
        assert sandbox.info.template == "universal"
        sandbox.delete()
    client.delete_template("plain")
    client.build_template(recipe("plain"))  # the project's own is its default, and has no Node either
    assert call(daemon, "POST", VERCEL, {"persistent": False})[0] == 200
    (sandbox,) = client.list()
    assert sandbox.info.template == "universal"
    sandbox.delete()
    for body in ({"runtime": "node22"}, {"image": "vercel/sandbox/node:26"}):
        status, error = call(daemon, "POST", VERCEL.replace("v3", "v2"), {"persistent": False, **body})
        assert status == 404 and f"cloche template build --shared node{json.dumps(body)[-4:-2]}" in json.dumps(error)
    assert not list(client.list())
