# SPDX-License-Identifier: Apache-2.0
"""Template.build() of E2B's published client: steps, files, tags and start commands become templates of ours; what cannot be is refused by name."""

import socket
from contextlib import contextmanager

import pytest
from cloche import Client
from harness.daemon import LEAST_S, PATIENCE, Daemon, free_port, wait_for
from harness.dockerfiles import base_layer
from harness.oci import Tar, layout_of
from harness.registry import Registry
from harness.running import running
from harness.vm import make_template

e2b = pytest.importorskip("e2b")

# A root of some 2 MB with all that busybox can do.
MAKE_TREE = """
set -e
mkdir -p /template/bin /template/etc /template/tmp /template/root /template/home/user
chmod 1777 /template/tmp
cp /bin/busybox /template/bin/
for i in $(busybox --list); do [ $i = busybox ] || ln -sf busybox /template/bin/$i; done
printf '#!/bin/sh\\nexec /bin/sh "$@"\\n' > /template/bin/bash
chmod 755 /template/bin/bash
printf 'root:x:0:0::/root:/bin/sh\\nuser:x:1000:1000::/home/user:/bin/sh\\n' > /template/etc/passwd
printf 'root:x:0:\\nuser:x:1000:\\n' > /template/etc/group
chown 1000:1000 /template/home/user
"""


@pytest.fixture(scope="module")
def builder():
    with running(Daemon("--pool-max", "0", "--network-may-open", "127.0.0.1/32")) as daemon, Client(daemon.url, daemon.key, timeout=60) as client, pytest.MonkeyPatch.context() as patch:
        make_template(client, "small-1.0", MAKE_TREE)
        patch.setenv("E2B_API_URL", daemon.url)
        patch.setenv("E2B_SANDBOX_URL", daemon.url)
        patch.setenv("E2B_API_KEY", f"e2b_{daemon.key.removeprefix('clo_')}")
        yield client


def template(**fields):
    return e2b.Template(**fields).from_image("small:1.0")  # as `docker save small:1.0 | cloche template import --name small-1.0 -` names it


@contextmanager
def sandbox_of(name):
    sandbox = e2b.Sandbox.create(name, timeout=60)
    try:
        yield sandbox
    finally:
        sandbox.kill()


def in_sandbox(name, command):
    with sandbox_of(name) as sandbox:
        return sandbox.commands.run(command).stdout


def test_steps_run_in_order_and_their_end_is_how_sandboxes_start(builder, tmp_path):
    (tmp_path / "app" / "inner").mkdir(parents=True)
    (tmp_path / "app" / "inner" / "data.txt").write_text("sent\n")
    (tmp_path / "one.sh").write_text("echo one\n")
    steps = (
        template(file_context_path=tmp_path)
        .set_envs({"GREETING": "it's \"here\"", "WHERE": "$GREETING $HOME"})
        .run_cmd("echo \"$GREETING\" > greeting; whoami >> greeting")
        .run_cmd("whoami > /root/by", user="root")
        .set_workdir("/srv/app")
        .copy("app", "files")
        .copy("one.sh", "/srv/bin/", mode=0o755, user="root")
        .run_cmd("cat files/inner/data.txt > copied")
    )
    lines = []
    made = e2b.Template.build(steps, "stepped", tags=["v1"], cpu_count=1, memory_mb=256, on_build_logs=lambda entry: lines.append(entry.message))
    assert made.name == "stepped" and any("[builder 2/7] RUN echo" in line for line in lines), lines
    told = in_sandbox("stepped:v1", "cat /home/user/greeting copied; echo $WHERE; pwd; /srv/bin/one.sh; stat -c %U copied /srv/bin/one.sh; sudo cat /root/by; nproc")
    assert told.splitlines() == ["it's \"here\"", "user", "sent", "it's \"here\"", "/srv/app", "one", "user", "root", "root", "1"], told


def test_a_step_that_fails_is_named_with_its_place_in_the_program(builder):
    steps = template().run_cmd("echo fine").run_cmd("echo out of luck; exit 3")
    with pytest.raises(e2b.BuildException) as failed:
        e2b.Template.build(steps, "failing")
    assert "RUN echo out of luck" in str(failed.value)
    assert not e2b.Template.exists("failing")


def test_files_that_were_sent_once_serve_other_builds(builder, tmp_path):
    (tmp_path / "a").write_text("a")
    steps = template(file_context_path=tmp_path).copy("a", "/srv/a").run_cmd("cat /srv/a")
    for name in ("sent-once", "sent-twice"):
        e2b.Template.build(steps, name)
    assert [t["name"] for t in builder.templates() if t["name"].startswith("sent-")] == ["sent-once", "sent-twice"]


def test_a_start_command_runs_before_a_create_is_answered(builder):
    steps = template().set_start_cmd("echo started > /tmp/started; exec sleep 600", e2b.wait_for_file("/tmp/started"))
    e2b.Template.build(steps, "starting", cpu_count=1, memory_mb=128)
    with sandbox_of("starting") as sandbox:
        assert sandbox.files.read("/tmp/started") == "started\n"
        assert any("exec sleep 600" in " ".join(process.args) for process in sandbox.commands.list())


@pytest.mark.parametrize("whole", [True, False], ids=["build", "step"])
def test_a_build_that_skips_the_cache_runs_its_steps_anew(builder, whole):
    def made(name, skipped):
        steps = template() if whole or not skipped else template().skip_cache()
        e2b.Template.build(steps.run_cmd(f"cat /proc/sys/kernel/random/uuid > one-{whole}"), name, skip_cache=whole and skipped)
        return in_sandbox(name, f"cat one-{whole}")

    first, again, fresh = (made(f"made-{i}", skipped=i == 2) for i in range(3))
    assert first == again != fresh


def test_what_ready_commands_ask_is_answered_where_the_image_has_no_such_program(builder):
    web = template().run_cmd("! command -v ss && ! command -v pgrep").set_start_cmd("exec httpd -f -p 8080", e2b.wait_for_port(8080))
    e2b.Template.build(web, "listening", cpu_count=1, memory_mb=128)
    with sandbox_of("listening") as sandbox:
        assert ":1F90 " in sandbox.commands.run("cat /proc/net/tcp /proc/net/tcp6").stdout
    steps = template().set_start_cmd("exec sleep 600", e2b.wait_for_process("sleep"))
    e2b.Template.build(steps, "sleeping", cpu_count=1, memory_mb=128)
    with sandbox_of("sleeping") as sandbox:
        assert any("exec sleep 600" in " ".join(process.args) for process in sandbox.commands.list())


def test_a_template_under_the_name_of_one_of_e2b_s_comes_before_ours(builder):
    assert e2b.Template.exists("code-interpreter-v1")
    e2b.Template.build(template().run_cmd("echo mine > /home/user/whose"), "code-interpreter-v1")
    try:
        assert in_sandbox("code-interpreter-v1", "cat whose") == "mine\n"
        e2b.Template.build(e2b.Template().from_template("code-interpreter-v1").run_cmd("echo too >> /home/user/whose"), "of-mine")
        assert in_sandbox("of-mine", "cat whose") == "mine\ntoo\n"
    finally:
        builder.delete_template("code-interpreter-v1")


def test_tags_are_listed_given_taken_and_started_from(builder):
    e2b.Template.build(template().run_cmd("echo tagged > /home/user/tag"), "tagged")
    e2b.Template.assign_tags("tagged", ["stable", "v2"])
    assert sorted(t.tag for t in e2b.Template.get_tags("tagged")) == ["default", "stable", "v2"]
    assert in_sandbox("tagged:stable", "cat tag") == "tagged\n"
    e2b.Template.remove_tags("tagged", ["stable"])
    assert not e2b.Template.exists("tagged:stable") and e2b.Template.exists("tagged:v2")


def test_an_image_of_a_registry_is_pulled_and_built_upon(builder, tmp_path):
    registry = Registry("127.0.0.1", free_port())
    try:
        shell = Tar().add("bin/bash", b'#!/bin/sh\nexec /bin/sh "$@"\n', mode=0o755)
        layout_of(base_layer(), shell, config={"Env": ["PATH=/bin", "STAGE=pulled"], "User": "user", "WorkingDir": "/home/user"}).write(tmp_path)
        registry.push(tmp_path, "team/app:1")
        e2b.Template.build(e2b.Template().from_image(f"{registry.at}/team/app:1").run_cmd("echo $STAGE > made"), "of_registry__0a")
        with pytest.raises(e2b.BuildException, match="has no image team/none:1"):
            e2b.Template.build(e2b.Template().from_image(f"{registry.at}/team/none:1").run_cmd("true"), "of-nothing")
    finally:
        registry.close()
    assert in_sandbox("of_registry__0a", "cat made") == "pulled\n"


def test_an_image_without_e2b_s_user_gets_one(builder, tmp_path):
    """Hardly an image of a registry has it, and all are root's by themselves: builds and sandboxes of E2B's are user's in /home/user."""
    registry = Registry("127.0.0.1", free_port())
    try:
        shell = Tar().add("bin/bash", b'#!/bin/sh\nexec /bin/sh "$@"\n', mode=0o755)
        people = Tar().add("etc/passwd", b"root:x:0:0::/root:/bin/sh\napp:x:1000:1000::/srv:/bin/sh\n").add("etc/group", b"root:x:0:\napp:x:1000:\n")
        for name in ("grep", "id", "whoami"):
            people.link(f"bin/{name}", "busybox")
        layout_of(base_layer(), shell, people, config={"Env": ["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"], "WorkingDir": "/srv"}).write(tmp_path)
        registry.push(tmp_path, "team/plain:1")
        image = e2b.Template().from_image(f"{registry.at}/team/plain:1")
        e2b.Template.build(image.run_cmd("whoami > by; pwd >> by"), "of-plain")
        with pytest.raises(e2b.BuildException, match="invalid username: 'nobody-here'"):
            e2b.Template.build(e2b.Template().from_image(f"{registry.at}/team/plain:1").run_cmd("true", user="nobody-here"), "of-nobody")
    finally:
        registry.close()
    assert in_sandbox("of-plain", "cat by; whoami; pwd; sudo whoami").split() == ["user", "/home/user"] * 2 + ["root"]


def test_a_build_whose_image_takes_long_is_answered_at_once(builder):
    """The registry takes the call and says nothing: the client has its answer, and the build tells what it waits for."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        image = f"127.0.0.1:{silent.getsockname()[1]}/team/slow:1"
        info = e2b.Template.build_in_background(e2b.Template().from_image(image).run_cmd("true"), "of-slow")
        silent.settimeout(LEAST_S * PATIENCE)
        peer, _ = silent.accept()  # the pull has begun, and the start was answered
        wait_for(lambda: any(image in entry.message for entry in e2b.Template.get_build_status(info).log_entries), what="the pull in the build's log")
        assert str(e2b.Template.get_build_status(info).status.value) == "building"
        peer.close()
    wait_for(lambda: str(e2b.Template.get_build_status(info).status.value) == "error", what="the build to fail")
    status = e2b.Template.get_build_status(info)
    assert image in status.reason.message and status.reason.step == "base"


@pytest.mark.parametrize("steps, why", [
    (lambda: e2b.Template().from_image("ubuntu:22.04"), "'ubuntu:22.04' names no registry"),
    (lambda: e2b.Template().from_template("no-such"), "template 'no-such' not found"),
    (lambda: e2b.Template().from_template("host"), "this machine's own programs"),
], ids=["image", "template", "host"])
def test_what_no_build_can_start_from_is_refused_with_what_to_do(builder, steps, why):
    with pytest.raises(e2b.BuildException) as refused:
        e2b.Template.build(steps().run_cmd("true"), "refused")
    assert why in str(refused.value)
