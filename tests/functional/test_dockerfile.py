# SPDX-License-Identifier: Apache-2.0
"""Templates from Dockerfiles: what instructions do, what is cached, and what is refused with its line."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from cloche import Client, errors
from harness.cli import Cli
from harness.daemon import Daemon
from harness.oci import Tar, busybox_layer, layout_of
from harness.running import running

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@pytest.fixture(scope="module")
def own():
    """A daemon of its own: what builds keep for the next ones stays mounted."""
    with running(Daemon("--pool-max", "0")) as daemon:
        yield daemon


@pytest.fixture(scope="module")
def client(own):
    with Client(own.url, own.key) as client:
        yield client


@pytest.fixture(scope="module")
def small(client):
    """A template of some 2 MB, with a shell; its environment is as of an image."""
    client.import_template("docker-small", layout_of(busybox_layer(), config={"Env": [f"PATH={PATH}", "BASE=1"], "WorkingDir": "/etc"}).tar())
    yield "docker-small"
    client.delete_template("docker-small")


@pytest.fixture
def build(client, small, tmp_path):
    """Builds a Dockerfile's text beside files; the template is deleted at the end."""
    made = set()

    def make(text, files=None, name="docker-made", **more):
        for path, content in (files or {}).items():
            (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / path).write_text(content)
        log = []
        made.add(name)
        context = str(tmp_path) if files is not None else None
        done = client.build_template(dockerfile=text, name=name, context=context, on_log=log.append, **more)
        return client.template(name), done, "".join(log)

    yield make
    for name in made:
        try:
            client.delete_template(name)
        except errors.NotFound:
            pass


def listing(client, *paths, template="docker-made"):
    """Mode, owner and kind of what is there, by path."""
    with client.create(template=template) as box:
        said = box.run(["find", *paths, "-exec", "stat", "-c", "%n %a %u:%g %F", "{}", ";"], user="root").stdout
    return dict(line.split(" ", 1) for line in said.splitlines())


def test_a_dockerfile_becomes_a_template_with_its_files_and_settings(client, build):
    made, done, log = build(
        r"""# a comment
FROM docker-small
ENV APP=/srv/app \
    # between two lines
    MODE="for real"
WORKDIR $APP
COPY hello.txt .
COPY --chown=1000:1000 --chmod=640 hello.txt ${APP}/mine.txt
RUN echo "$MODE $BASE" > made && pwd >> made
USER app
RUN id -un > /tmp/who && cat /tmp/who
EXPOSE 80 53/udp
LABEL a=b "c d"="e f"
VOLUME ["/data"]
HEALTHCHECK --interval=5s CMD true
STOPSIGNAL SIGINT
ENTRYPOINT ["/bin/sh", "-c"]
CMD ["cat hello.txt"]
""",
        {"hello.txt": "hello\n"},
    )
    assert done["state"] == "ready" and "line 9: RUN" in log and "\napp\n" in log
    manifest = made["manifest"]
    assert manifest["env"] == {"PATH": PATH, "BASE": "1", "APP": "/srv/app", "MODE": "for real"}
    assert (manifest["user"], manifest["cwd"], manifest["entrypoint"], manifest["cmd"]) == ("app", "/srv/app", ["/bin/sh", "-c"], ["cat hello.txt"])
    assert manifest["config"] == {
        "exposed_ports": ["80/tcp", "53/udp"],
        "labels": {"a": "b", "c d": "e f"},
        "volumes": ["/data"],
        "healthcheck": {"interval": "5s", "test": ["CMD-SHELL", "true"]},
        "stop_signal": "SIGINT",
    }
    found = listing(client, "/srv/app")
    assert found["/srv/app/hello.txt"] == "644 0:0 regular file" and found["/srv/app/mine.txt"] == "640 1000:1000 regular file"
    with client.create(template="docker-made") as box:
        assert box.run(["cat", "made"]).stdout == "for real 1\n/srv/app\n"


def test_a_root_is_made_from_scratch_and_commands_run_in_it(client, build, tmp_path):
    shutil.copy("/bin/busybox", tmp_path / "busybox")
    text = """FROM scratch
COPY --chmod=755 busybox /bin/
COPY --chmod=755 busybox /bin/sh
WORKDIR /data
COPY .hidden* note[0-9].txt /data/
RUN ["/bin/busybox", "sh", "-c", "echo made > made"]
"""
    made, _, _ = build(text, {".hidden1": "h", "note1.txt": "1", "note2.txt": "2", "notes.txt": "no"})
    assert made["manifest"]["cwd"] == "/data" and made["manifest"]["user"] == "root"
    with client.create(template="docker-made") as box:
        assert box.run(["/bin/busybox", "ls", "-A"]).stdout.split() == [".hidden1", "made", "note1.txt", "note2.txt"]


def test_a_step_runs_again_only_if_what_it_copies_has_changed(build):
    text = """FROM docker-small
COPY needs.txt /
RUN cat /needs.txt > /tmp/installed
COPY . /src
RUN cat /tmp/installed /src/code.txt > /made
"""
    _, first, _ = build(text, {"needs.txt": "a\n", "code.txt": "1\n"})
    _, again, log = build(text, {"code.txt": "1\n"})
    assert not first["cached"] and again["cached"] and again["digest"] == first["digest"]
    _, changed, log = build(text, {"code.txt": "2\n"})
    assert "line 3: RUN" not in log and "line 5: RUN" in log and changed["digest"] != first["digest"]
    _, _, log = build(text, {"needs.txt": "b\n"})
    assert "line 3: RUN" in log
    _, _, log = build(text.replace("made", "other"), {})
    assert "line 3: RUN" not in log and "line 5: RUN" in log


def test_mounts_of_a_run_are_there_while_it_runs_and_not_in_the_template(client, build):
    text = """FROM docker-small
RUN mkdir -p /cache && echo old > /cache/old
RUN --mount=type=cache,target=/cache --mount=type=tmpfs,target=/new/dir --mount=type=bind,source=in,target=/in \\
    test ! -e /cache/old && echo x > /cache/x && echo x > /new/dir/x && cat /in/file > /seen
"""
    build(text, {"in/file": "bound\n"})
    found = listing(client, "/cache", "/new", "/seen")
    assert sorted(found) == ["/cache", "/cache/old", "/new", "/new/dir", "/seen"]


def test_a_user_has_the_group_that_it_is_given_or_that_docker_would_give_it(client, build):
    text = """FROM docker-small
RUN echo team:x:777:other >> /etc/group && chmod 1777 /tmp
USER app:team
RUN echo "is $(id -u):$(id -g):$(id -G)"
USER app:778
RUN echo "is $(id -u):$(id -g):$(id -G)"
USER 4321
RUN echo "is $(id -u):$(id -g):$(id -G)"
USER 4321:team
RUN echo "is $(id -u):$(id -g):$(id -G) $HOME"
"""
    made, _, log = build(text)
    said = [line for line in log.splitlines() if line.startswith("is ")]
    assert said == ["is 1234:777:777", "is 1234:778:778", "is 4321:0:0", "is 4321:777:777 /"]
    assert made["manifest"]["user"] == "4321:team"
    with client.create(template="docker-made") as box:
        assert box.run(["id", "-G"]).stdout == "777\n"
        assert box.run(["id", "-G"], user="4321").stdout == "0\n"
    with pytest.raises(errors.InvalidField, match=r"line 4: RUN true: exit status 127"):
        build("FROM docker-small\nENV A=b\nUSER app:nobodies\nRUN true\n")


STAGES = """FROM docker-small AS build
RUN mkdir -p /out/lib && echo tool > /out/tool && chmod 750 /out/tool && echo a > /out/lib/a.so && echo b > /out/lib/b.txt && \\
    chown -R 1234:1234 /out/lib && ln -s lib/a.so /out/link && ln -s /out/tool /entry && ln -s /etc/os-release /leak && echo t > /tmp/made
FROM docker-small
COPY --from=build /out/tool /entry /tmp/made /bin/
COPY --from=0 /out/lib/*.so /only/
COPY --from=build --chown=7:8 --chmod=700 /out/lib /mine
COPY --from=BUILD out /kept
COPY --from=docker-small /etc/mark /marked
RUN --mount=type=bind,from=build,source=/out,target=/in cat /in/tool > /seen
"""


def test_a_stage_copies_from_others_with_modes_owners_and_links(client, build):
    build(STAGES)
    found = listing(client, "/bin/tool", "/bin/entry", "/bin/made", "/only", "/mine", "/kept", "/marked", "/seen")
    assert found == {
        "/bin/tool": "750 0:0 regular file",
        "/bin/entry": "750 0:0 regular file",
        "/bin/made": "644 0:0 regular file",
        "/only": "755 0:0 directory",
        "/only/a.so": "644 1234:1234 regular file",
        "/mine": "755 7:8 directory",
        "/mine/a.so": "700 7:8 regular file",
        "/mine/b.txt": "700 7:8 regular file",
        "/kept": "755 0:0 directory",
        "/kept/tool": "750 0:0 regular file",
        "/kept/lib": "755 1234:1234 directory",
        "/kept/lib/a.so": "644 1234:1234 regular file",
        "/kept/lib/b.txt": "644 1234:1234 regular file",
        "/kept/link": "777 0:0 symbolic link",
        "/marked": "644 0:0 regular file",
        "/seen": "644 0:0 regular file",
    }
    with client.create(template="docker-made") as box:
        assert box.run("cat /bin/entry /bin/made /kept/link /marked /seen").stdout == "tool\nt\na\nlowest\ntool\n"


def test_what_is_copied_from_a_stage_is_copied_again_if_the_stage_has_changed(build):
    _, first, log = build(STAGES)
    assert "line 10: RUN" in log
    _, again, log = build(STAGES)
    assert again["cached"] and again["digest"] == first["digest"] and "== carry" not in log
    _, changed, log = build(STAGES.replace("echo tool", "echo other"))
    assert changed["digest"] != first["digest"] and "line 5: COPY" in log


def test_a_root_from_scratch_takes_what_another_stage_has_made(client, build):
    build("""FROM docker-small AS build
RUN echo made > /tmp/app
FROM scratch
COPY --from=docker-small / /
COPY --from=build /tmp/app /srv/
RUN cat /srv/app > /seen
""")
    found = listing(client, "/srv/app", "/seen", "/etc/mark", "/proc/1/comm")
    assert len(found) == 4 and found["/srv/app"] == "644 0:0 regular file"


def test_a_copy_from_a_stage_takes_nothing_but_what_is_in_it(build):
    with pytest.raises(errors.InvalidField, match=r"line 5: there is no '/gone' in what is copied from"):
        build(STAGES.replace("/out/tool /entry", "/gone"))
    assert os.path.exists("/etc/os-release")  # of the programs that pack it
    with pytest.raises(errors.InvalidField, match=r"line 5: there is no '/leak'"):
        build(STAGES.replace("/out/tool /entry", "/leak"))
    with pytest.raises(errors.InvalidField, match=r"there is no template 'later'"):
        build("FROM docker-small\nCOPY --from=later /x /\nFROM docker-small AS later\n")
    with pytest.raises(errors.InvalidField, match=r"line 2: --from=me: a stage copies from earlier ones only"):
        build("FROM docker-small AS me\nCOPY --from=me /x /\n")


def test_a_build_that_fails_tells_its_line_and_leaves_no_template(client, build):
    with pytest.raises(errors.InvalidField, match=r"dockerfile: line 3: RUN exit 7: exit status 7"):
        build("FROM docker-small\nENV A=1\nRUN exit 7\n")
    with pytest.raises(errors.InvalidField, match=r"nothing matches 'gone\*'"):
        build("FROM docker-small\nCOPY gone* /\n", {"here": ""})
    with pytest.raises(errors.InvalidField, match=r"line 2: there is no instruction 'RUNN'"):
        build("FROM docker-small\nRUNN x\n")
    with pytest.raises(errors.InvalidField, match=r"no template 'debian:13'.* names no registry") as refused:
        build("FROM debian:13\n")
    assert "registries.default" in refused.value.hint
    with pytest.raises(errors.InvalidField, match=r"files: the Dockerfile copies files"):
        build("FROM docker-small\nCOPY x /\n")
    with pytest.raises(errors.InvalidField, match=r"build_args: the Dockerfile has no ARG X"):
        build("FROM docker-small\n", build_args={"X": "1"})
    assert "docker-made" not in [t["name"] for t in client.templates()]


def test_files_of_another_project_cannot_be_named(own, client):
    files = client.upload_build_files(b"\0" * 1024)
    project = client.create_project("docker-other")
    key = client.create_key("docker", project=project["id"], scope="write")["secret"]
    with Client(own.url, key) as other, pytest.raises(errors.InvalidField, match="files: these files are not here"):
        other.start_build(name="x", dockerfile="FROM scratch\nCOPY . /\n", files=files)
    client.delete_project(project["id"])


def test_the_command_line_sends_what_dockerignore_leaves(own, client, small, tmp_path):
    app = tmp_path / "My_App"
    (app / "deep").mkdir(parents=True)
    (app / "deep" / "x.log").write_text("x")
    (app / "deep" / "keep.log").write_text("k")
    (app / "y.txt").write_text("y")
    (app / ".dockerignore").write_text("**/*.log\n!deep/keep.log\nDockerfile\n")
    (app / "Dockerfile").write_text("FROM docker-small\nARG WHAT\nCOPY . /app\nRUN echo $WHAT > /what\n")
    cli = Cli(own)
    assert cli.ok("template", "build", "--dockerfile", str(app), "--build-arg", "WHAT=this").startswith("my-app ")
    assert sorted(listing(client, "/app", "/what", template="my-app")) == ["/app", "/app/.dockerignore", "/app/deep", "/app/deep/keep.log", "/app/y.txt", "/what"]
    client.delete_template("my-app")
    status, _, said = cli("template", "build", "--dockerfile", str(app / "none"))
    assert status != 0 and "cannot read" in said


def test_run_without_a_command_runs_the_templates_own(own, client, build):
    build('FROM docker-small\nWORKDIR /srv\nENTRYPOINT ["/bin/sh", "-c", "pwd; echo \\"$0\\"; exit 7"]\nCMD ["its own words"]\n')
    cli = Cli(own)
    assert cli("run", "--template", "docker-made")[:2] == (7, "/srv\nits own words\n")
    assert cli.ok("run", "--template", "docker-made", "--", "echo", "another") == "another\n"
    status, _, said = cli("run", "--template", "docker-small")
    assert status == 125 and "the template 'docker-small' has no command of its own" in said and "--template docker-small -- COMMAND" in said
    assert list(client.list(state="running")) == []


def test_who_names_a_dockerfile_as_a_recipe_is_told_how(own, tmp_path):
    (tmp_path / "Dockerfile").write_text("FROM scratch\n")
    cli = Cli(own)
    for word in (str(tmp_path), str(tmp_path / "Dockerfile")):
        status, _, said = cli("template", "build", word)
        assert status != 0 and f"cloche template build --dockerfile {word}" in said
    status, _, said = cli("template", "build", "--dockerfile", str(tmp_path), str(tmp_path / "none"))
    assert status != 0 and "there is no directory" in said


def test_an_image_without_the_usual_programs_is_told_what_is_missing(client, build):
    bare = Tar().add("bin/sh", Path("/bin/dash").read_bytes(), mode=0o755).add("etc/passwd", b"root:x:0:0::/:/bin/sh\n")
    for library in re.findall(r"(/\S+)", subprocess.run(["ldd", "/bin/dash"], check=True, capture_output=True, text=True).stdout):
        bare.add(library.lstrip("/"), Path(library).read_bytes(), mode=0o755)
    client.import_template("docker-bare", layout_of(bare).tar())
    try:
        with pytest.raises(errors.InvalidField, match="no program '[a-z0-9]+'"):
            build("FROM docker-bare\nCOPY a /a\n", {"a": "1"})
    finally:
        client.delete_template("docker-bare")
