# SPDX-License-Identifier: Apache-2.0
"""Dockerfiles whose FROM is an image of a registry: pulled by reference and digest, told, kept for the next build, and refused with the reason."""

import json
import re
import subprocess
from pathlib import Path

import pytest
from cloche import Client, errors
from harness.cli import Cli
from harness.daemon import Daemon, free_port, wait_for
from harness.internet import HUB
from harness.certificates import Authority
from harness.oci import Tar, busybox_layer, layout_of
from harness.registry import PASSWORD, Registry, htpasswd
from harness.running import running

CONFIG = {"Env": ["PATH=/bin", "STAGE=pulled"], "User": "app", "WorkingDir": "/etc", "Entrypoint": ["/bin/sh"], "Cmd": ["-c", "env"]}


def push(registry, directory, name, *, config=CONFIG, mark=b"1\n"):
    layout_of(busybox_layer().add("etc/second", mark), config=config).write(directory)
    return registry.push(directory, name)


@pytest.fixture(scope="module")
def registry(tmp_path_factory):
    registry = Registry("127.0.0.1", free_port())
    registry.pinned = push(registry, tmp_path_factory.mktemp("image"), "library/app:1")
    yield registry
    registry.close()


@pytest.fixture(scope="module")
def own(registry):
    """Names without a registry are looked for in the real one on this host."""
    with running(Daemon("--pool-max", "0", "--network-may-open", "127.0.0.1/32", "--registry-default", f"{registry.at}/library")) as daemon:
        yield daemon


@pytest.fixture(scope="module")
def client(own):
    with Client(own.url, own.key) as client:
        yield client


@pytest.fixture
def build(client):
    def make(text, name="from-made", **more):
        log = []
        done = client.build_template(dockerfile=text, name=name, on_log=log.append, **more)
        return client.template(name), done, "".join(log)

    yield make
    try:
        client.delete_template("from-made")
    except errors.NotFound:
        pass


def pulls(registry, what="library/app"):
    return registry.log().count(f"GET /v2/{what}/manifests/")


def test_an_unknown_base_is_pulled_once_and_the_build_starts_from_what_it_says(client, build, registry, own):
    before = pulls(registry)
    text = "FROM app:1 AS base\nRUN cat second > /tmp/seen; pwd >> /tmp/seen; id -un >> /tmp/seen; echo $STAGE >> /tmp/seen; cat /tmp/seen\n"
    made, done, log = build(text)
    assert "== pull: app:1" in log and "\n1\n/etc\napp\npulled\n" in log, log
    assert (made["manifest"]["user"], made["manifest"]["cwd"], made["manifest"]["env"]["STAGE"]) == ("app", "/etc", "pulled")
    assert "source" not in made["manifest"]["recipe"] and "pulls" not in made["manifest"]["recipe"]
    assert pulls(registry) == before + 1
    _, again, log = build(text)
    assert again["cached"] and "== pull" not in log and pulls(registry) == before + 1
    assert build(text, fresh=True)[1]["state"] == "ready" and pulls(registry) == before + 2


def test_a_digest_pins_the_base_and_a_moved_tag_does_not_matter(client, build, registry, tmp_path):
    push(registry, tmp_path, "library/moved:1", mark=b"old\n")
    old = registry.pinned
    assert push(registry, tmp_path / "new", "library/app:2", mark=b"new\n") != old
    _, _, log = build(f"FROM {registry.at}/library/app:2@{old}\nUSER root\nRUN cat /etc/second\n")
    assert f"@{old}" in log and "\n1\n" in log
    with pytest.raises(errors.NotFound, match="has no image library/app@sha256:000"):
        build(f"FROM {registry.at}/library/app@sha256:{'0' * 64}\n")


def test_stages_and_copies_take_images_too_and_one_that_nobody_needs_is_not_pulled(client, build, registry, tmp_path):
    push(registry, tmp_path, "library/tools:1", mark=b"tool\n")
    text = """FROM nobody-needs-it:9 AS unused
RUN true
FROM app:1
USER root
COPY --from=tools:1 /etc/second /tool
RUN --mount=type=bind,from=tools:1,source=/etc,target=/in cat /in/second /tool
"""
    _, _, log = build(text)
    assert "== pull: tools:1" in log and "\ntool\ntool\n" in log and "nobody-needs-it" not in log


def test_a_base_that_is_not_there_ends_the_build_with_the_reason_and_leaves_nothing(client, build):
    with pytest.raises(errors.NotFound, match=r"FROM 'none:1', which is no template: .* has no image library/none:1"):
        build("FROM none:1\nRUN true\n")
    with pytest.raises(errors.InvalidField, match=r"line 1: there is no template 'Not_A_Name'.* is no image's name"):
        build("FROM Not_A_Name\n")
    with pytest.raises(errors.InvalidField, match=r"line 2: there is no instruction 'RUNN'"):
        build("FROM none:1\nRUNN x\n")
    with pytest.raises(errors.InvalidField, match="there is no template 'bun'") as refused:
        build("FROM bun\n")
    assert "cloche template build bun" in refused.value.hint and "bun:latest" in refused.value.hint
    assert "from-made" not in [t["name"] for t in client.templates()]


def test_the_command_line_shows_the_pull_and_a_restart_in_the_middle_of_one_begins_it_again(own, client, registry, tmp_path):
    push(registry, tmp_path / "image", "library/slow:1")
    (tmp_path / "Dockerfile").write_text("FROM slow:1\nUSER root\nRUN cat /etc/second > /made\n")
    registry.process.send_signal(19)  # it answers nothing
    try:
        build = client.start_build(name="from-slow", dockerfile=(tmp_path / "Dockerfile").read_text())
        wait_for(lambda: (client.get_build(build["id"])["progress"] or {}).get("step") == "pull", what="the pull to begin")
        own.kill_parts("gateway")
        wait_for(lambda: (client.get_build(build["id"])["progress"] or {}).get("step") == "pull", what="the pull to begin again")
    finally:
        registry.process.send_signal(18)
    wait_for(lambda: client.get_build(build["id"])["state"] == "ready", what="the build")
    client.delete_template("from-slow")
    said = Cli(own).ok("template", "build", "--dockerfile", str(tmp_path), "--name", "from-slow")
    assert said.startswith("from-slow ")
    client.delete_template("from-slow")


def test_a_build_that_waits_for_its_base_can_be_cancelled(client, registry, tmp_path):
    push(registry, tmp_path, "library/stuck:1")
    registry.process.send_signal(19)
    try:
        build = client.start_build(name="from-stuck", dockerfile="FROM stuck:1\n")
        wait_for(lambda: (client.get_build(build["id"])["progress"] or {}).get("step") == "pull", what="the pull to begin")
        client.cancel_build(build["id"])
        assert client.get_build(build["id"])["state"] == "cancelled"
    finally:
        registry.process.send_signal(18)


def test_a_base_brings_its_labels_ports_and_onbuild_and_its_group(client, build, registry, tmp_path):
    config = {**CONFIG, "User": "app:1000", "Labels": {"of": "base"}, "ExposedPorts": {"80/tcp": {}}, "OnBuild": ["ARG WHAT", "RUN echo onbuild $WHAT"], "StopSignal": "SIGINT"}
    push(registry, tmp_path, "library/rich:1", config=config)
    made, _, log = build("FROM rich:1\nEXPOSE 81\nLABEL mine=1\nRUN id -g\n", build_args={"WHAT": "given"})
    assert "\nonbuild given\n" in log and "\n1000\n" in log and made["manifest"]["user"] == "app:1000"
    assert made["manifest"]["config"] == {"labels": {"of": "base", "mine": "1"}, "exposed_ports": ["80/tcp", "81/tcp"], "stop_signal": "SIGINT"}
    with client.create(template="from-made") as box:
        box.files.write("/etc/../tmp/x", "y")
        assert box.run("id -g; cat /tmp/x").stdout == "1000\ny"


@pytest.mark.parametrize("config", [1, {"exposed_ports": [1]}, {"labels": {"a": 1}}, {"shell": []}, {"onbuild": "RUN x"}, {"healthcheck": {"test": [1]}}, {"volumes": [None]}])
def test_a_manifest_that_lies_about_its_types_is_refused_at_the_door(own, client, config):
    """A build that starts from the image would read it. The control: with none of that, the same image is taken."""
    label = {"dev.cloche.template": json.dumps({"config": config, "user": "root"})}
    with pytest.raises(errors.InvalidField):
        client.import_template("lying", layout_of(busybox_layer(), config={"Labels": label}).tar())
    label = {"dev.cloche.template": json.dumps({"config": {}, "user": "root"})}
    client.import_template("lying", layout_of(busybox_layer(), config={"Labels": label}).tar())
    client.delete_template("lying")


def test_a_create_says_whether_the_registry_is_asked_again(own, client, registry, tmp_path):
    def seen(**fields):
        with client.create(image="asked:1", **fields) as box:
            return box.run("cat /etc/second").stdout, pulls(registry, "library/asked")

    push(registry, tmp_path / "one", "library/asked:1", mark=b"one\n")
    assert seen() == ("one\n", 1)
    push(registry, tmp_path / "two", "library/asked:1", mark=b"two\n")
    before = pulls(registry, "library/asked")
    assert seen(pull="missing") == seen() == ("one\n", before)
    assert seen(pull="always") == ("two\n", before + 1)
    assert Cli(own).ok("run", "--image", "asked:1", "--pull", "always", "--", "cat", "/etc/second") == "two\n"
    assert pulls(registry, "library/asked") == before + 2
    with pytest.raises(errors.InvalidField, match="pull"):
        client.create(image="asked:1", pull="often")
    with pytest.raises(errors.InvalidField, match="pull: is of an `image`"):
        client.create(template="host", pull="always")


def test_events_of_a_create_that_waited_for_its_image_say_whose_it_is(own, client, registry, tmp_path):
    """As those of one that did not wait."""
    push(registry, tmp_path / "image", "library/waited:1")
    waited, did_not = (client.create(image="waited:1") for _ in range(2))
    said = {box.id: {e["type"]: e for e in client.events(sandbox=box.id)} for box in (waited, did_not)}
    for box in (waited, did_not):
        created = said[box.id]["sandbox.created"]
        assert created["key_id"] and created["request_id"] and created["from"], created
        box.delete()
    assert said[waited.id]["sandbox.created"]["key_id"] == said[did_not.id]["sandbox.created"]["key_id"]


def test_a_private_registry_is_opened_by_the_settings(internet, tmp_path):
    pair = Authority.of(internet.ca_file).issue("hub.test")
    hub = Registry(HUB, 5070, prefix=internet.enter(internet.outer), pair=pair, options=htpasswd(tmp_path, "bot"))
    open_hub = Registry(HUB, 5071, prefix=internet.enter(internet.outer), pair=pair, data=hub.data)
    internet.set_zone({"hub.test": [HUB]})
    try:
        push(open_hub, tmp_path / "image", "team/app:1")
        with running(internet.daemon("--registry-credentials", "hub.test:5070=bot:REGISTRY")) as daemon:
            with Client(f"unix:{daemon.socket}", daemon.key, timeout=600) as client:
                with pytest.raises(errors.SourceFailed, match="no credentials are known") as refused:
                    client.build_template(name="private", dockerfile="FROM hub.test:5070/team/app:1\n")
                assert "no secret 'REGISTRY'" in refused.value.hint
                client.set_secret("REGISTRY", PASSWORD)
                client.build_template(name="private", dockerfile="FROM hub.test:5070/team/app:1\nRUN true\n")
                assert client.template("private")["manifest"]["user"] == "app"
                assert PASSWORD not in daemon.log()
    finally:
        internet.set_zone({})
        open_hub.close()
        hub.close()


def python_layer():
    """The host's own Python, with its libraries and modules."""
    said = subprocess.run(["bash", "-c", "ldd $(realpath /usr/bin/python3) /usr/lib/python3.*/lib-dynload/*.so"], check=True, capture_output=True, text=True).stdout
    modules = [path for path in Path("/usr/lib").glob("python3.[0-9]*/**/*.py") if not {"test", "dist-packages"} & set(path.parts)]
    extensions = list(Path("/usr/lib").glob("python3.[0-9]*/lib-dynload/*.so"))
    libraries = [Path(one) for one in sorted(set(re.findall(r"(/\S+\.so\S*) \(", said)))]
    tar = Tar().add("usr/bin/python3", Path("/usr/bin/python3").read_bytes(), mode=0o755).link("usr/bin/python", "python3")
    for path in [*modules, *extensions, *libraries]:
        tar.add(str(path)[1:], path.read_bytes(), mode=0o755)
    return tar


def test_a_newcomer_s_first_words_run_an_image_and_what_is_built_over_it(registry, own, client, tmp_path):
    """Typed as a stranger would: `cloche run --image python:3.12-slim -- python -V`, then `cloche template build --dockerfile .`"""
    config = {"Env": ["PATH=/usr/bin:/bin"], "Cmd": ["python3"]}
    layout_of(busybox_layer().link("bin/chmod", "busybox").dir("root", 0o700), python_layer(), config=config).write(tmp_path / "image")
    registry.push(tmp_path / "image", "library/python:3.12-slim")
    app = tmp_path / "hello"
    app.mkdir()
    (app / "hello.py").write_text("import json, sys\nprint(json.dumps({'hello': sys.argv[1:]}))\n")
    (app / "Dockerfile").write_text('FROM python:3.12-slim\nWORKDIR /app\nCOPY hello.py .\nRUN python -m compileall -q .\nENTRYPOINT ["python", "hello.py"]\nCMD ["there"]\n')
    cli = Cli(own)
    version = subprocess.run(["/usr/bin/python3", "-V"], check=True, capture_output=True, text=True).stdout
    for _ in range(2):
        assert cli.ok("run", "--image", "python:3.12-slim", "--", "python", "-V") == version
    assert pulls(registry, "library/python") == 1  # the second run has it
    build = cli.start("template", "build", "--dockerfile", ".", cwd=app)
    out, err = build.communicate(timeout=300)
    assert build.returncode == 0 and out.startswith(b"hello "), err
    assert pulls(registry, "library/python") == 1
    assert json.loads(cli.ok("run", "-T", "hello")) == {"hello": ["there"]}
    assert json.loads(cli.ok("run", "-T", "hello", "--", "python", "hello.py", "you")) == {"hello": ["you"]}
    assert cli.ok("run", "-T", "hello", "--", "ls", "/app/__pycache__").startswith("hello.")
    (app / "more.py").write_text("import os, sys\nprint(os.getcwd(), sys.argv[0], sorted(os.listdir('.')))\n")
    said = cli.ok("run", "-T", "hello", str(app / "more.py"))  # where its WORKDIR is
    assert said == "/app /tmp/more.py ['__pycache__', 'hello.py']\n"
    assert cli.ok("run", "--image", "python:3.12-slim", "-w", "/etc", str(app / "more.py")).startswith("/etc /tmp/more.py ")
    (app / "Dockerfile").write_text("FROM hello\nUSER root\nRUN chmod 777 /app\nUSER user\n")
    cli.ok("template", "build", "--dockerfile", str(app), "--name", "open")
    cases = '[case.a]\ntemplate = "open"\ncommand = "cat data.txt > out.txt"\n[case.a.files]\n"data.txt" = "here"\n[case.a.file]\n"out.txt" = "here"\n'
    (app / "more.toml").write_text(cases + '[case.b]\ntemplate = "hello"\ncode = "import os; print(os.getcwd(), len(os.listdir()))"\noutput = "/app 2"\n')
    assert "2 of 2 cases passed" in cli.ok("eval", str(app / "more.toml"))
    client.delete_template("open")
    client.delete_template("hello")
    (app / "evals.toml").write_text('template = "none"\n[case.sum]\nimage = "python:3.12-slim"\ncode = "print(6 * 7)"\noutput = "42"\n')
    assert "1 of 1 cases passed" in cli.ok("eval", str(app / "evals.toml"))
