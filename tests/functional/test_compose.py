# SPDX-License-Identifier: Apache-2.0
"""Compose files: their services as sandboxes of one group, from `cloche compose up` to `down`."""

import asyncio
import json
import os
import signal
import uuid

import pytest
from cloche import AsyncClient, Client, ClocheError, compose
from harness.cli import CLOCHE, Cli
from harness.daemon import PATIENCE, Daemon, wait_for
from harness.oci import busybox_layer, layout_of
from harness.running import running

# A web application with a database and a cache: PostgreSQL itself, and a server that answers as Redis does.
SHOP = r"""
name: shop
x-here: &here
  x-cloche: {template: host}
  restart: "no"
services:
  web:
    <<: *here
    command: ["python3", "/srv/app/web.py"]
    environment:
      GREETING: ${GREETING:-hello}
      DATABASE: db:5432
    env_file: [web.env, {path: missing.env, required: false}]
    depends_on:
      db: {condition: service_healthy}
      cache: {condition: service_healthy}
      migrate: {condition: service_completed_successfully}
    volumes:
      - ./app:/srv/app:ro
    healthcheck: {test: curl -fsS http://127.0.0.1:8000/, interval: 1s, retries: 30}
    ports: ["8080:8000"]
    deploy: {resources: {limits: {cpus: "0.5", memory: 256M}}}
  db:
    <<: *here
    entrypoint: ["sh", "-c"]
    command:
      - |
        export PATH=$$PATH:$$(ls -d /usr/lib/postgresql/*/bin | tail -1)
        initdb -D /tmp/pg -U postgres -A trust > /dev/null && exec postgres -D /tmp/pg -k /tmp -h 127.0.0.1
    mem_limit: 512m
    healthcheck:
      test: ["CMD-SHELL", "psql -h 127.0.0.1 -U postgres -c 'select 1'"]
      interval: 1s
      retries: 60
  cache:
    <<: *here
    command: python3 -u /srv/cache.py
    volumes: ["./cache.py:/srv/cache.py:ro", "kept:/var/kept"]
    healthcheck: {test: ["CMD", "python3", "-c", "import socket; socket.create_connection(('127.0.0.1', 6379))"], interval: 1s, retries: 30}
    expose: ["6379"]
  migrate:
    <<: *here
    depends_on: {db: {condition: service_healthy}}
    command: sh -c 'until psql -h db -U postgres -c "create table visits (n int); insert into visits values (41)"; do sleep 0.1; done'
  tools:
    <<: *here
    profiles: [debug]
    command: sleep infinity
volumes: {kept: }
networks: {default: {internal: true}}
"""
WEB = r"""
import http.server, os, socket, subprocess
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        n = subprocess.run(["psql", "-h", "db", "-U", "postgres", "-tAc", "update visits set n = n + 1 returning n"], capture_output=True, text=True).stdout
        with socket.create_connection(("cache", 6379)) as c:
            c.sendall(b"PING\r\n")
            said = c.recv(100).decode().strip()
        body = f"{os.environ['GREETING']} {os.environ['FROM_FILE']} {n.split()[0]} {said}\n".encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
print("serves", flush=True)
http.server.HTTPServer(("0.0.0.0", 8000), Handler).serve_forever()
"""
CACHE = """
import socket
s = socket.create_server(("0.0.0.0", 6379))
print("ready", flush=True)
while True:
    with s.accept()[0] as c:
        if c.recv(100): c.sendall(b"+PONG\\r\\n")
"""


class Project:
    """A directory with a Compose file, and a name of its own. What is there of jails, `template: host`, is the suite's own on the others."""

    def __init__(self, cli, client, dir, engine="jail", template=None):
        self.cli, self.client, self.dir, self.engine, self.template = cli, client, dir, engine, template or "host"
        self.name = f"t-{uuid.uuid4().hex[:10]}"

    def write(self, files):
        for path, text in files.items():
            (self.dir / path).parent.mkdir(parents=True, exist_ok=True)
            (self.dir / path).write_text(text.replace("{template: host}", f"{{template: {self.template}}}"))

    def words(self, word, *more):
        on = ["--engine", self.engine] if word == "up" else []
        return ["compose", word, "-f", str(self.dir / "compose.yaml"), "-p", self.name, *on, *more]

    def __call__(self, word, *more, timeout=300):
        return self.cli(*self.words(word, *more), timeout=timeout * PATIENCE)

    def ok(self, word, *more):
        status, out, err = self(word, *more)
        assert status == 0, (status, out, err)
        return out

    def refused(self, text, *more, word="config"):
        """The error of a file with this text."""
        self.write({"compose.yaml": text})
        status, out, err = self(word, *more)
        assert status == 125 and not out, (status, out, err)
        return err

    def config(self, text, *more):
        self.write({"compose.yaml": text})
        return json.loads(self.ok("config", *more))

    def states(self):
        return {one["service"]: one["state"] for one in json.loads(self.ok("ps", "--json"))}

    def left(self):
        """What the daemon has of it."""
        named = [t["name"] for t in self.client.templates()] + [v["name"] for v in self.client.volumes()]
        return [s.id for s in self.client.list(group=self.name)] + [n for n in named if n.startswith(f"compose.{self.name}.")]


@pytest.fixture
def project(cli, client, tmp_path, engine, template):
    project = Project(cli, client, tmp_path, engine, template)
    yield project
    cli("compose", "down", "-p", project.name)
    assert not project.left()


@pytest.mark.jail("the suite's root has no PostgreSQL")
def test_a_web_application_with_its_database_and_cache(project):
    """Health gates, a one-shot migration, files, variables, a volume, profiles; and all is gone after down."""
    project.write({"compose.yaml": SHOP, "app/web.py": WEB, "cache.py": CACHE, "web.env": "# of a file\nexport FROM_FILE='a b' # here\n"})
    status, out, err = project("up")
    assert status == 0, err
    order = [line for line in err.splitlines() if line.endswith((": healthy", ": completed")) or ": started" in line]
    first = {line.split(":")[0] + line.split(":")[1]: i for i, line in reversed(list(enumerate(order)))}
    assert first["db healthy"] < first["migrate started"] < first["migrate completed"] < first["web started"] < first["web healthy"]
    assert project.states() == {"web": "running", "db": "running", "cache": "running", "migrate": "exited (0)"}
    said = project.ok("exec", "web", "curl", "-sS", "http://127.0.0.1:8000/").split()
    assert said[:3] == ["hello", "a", "b"] and int(said[3]) > 41 and said[4] == "+PONG"
    # Any member reaches any other by its name, and nobody the outside.
    assert project.ok("exec", "migrate", "curl", "-sS", "--retry", "5", "--retry-all-errors", "http://web:8000/").startswith("hello a b ")
    assert project("exec", "web", "curl", "-sS", "-m", "20", "-f", "http://example.com/")[0] != 0
    assert "serves" in project.ok("logs", "web") and "cache   | ready" in project.ok("logs")
    members = {s.info.raw["alias"]: s for s in project.client.list(group=project.name)}
    assert members["web"].info.raw["limits"]["memory_mib"] == 256 and members["web"].info.raw["limits"]["vcpus"] == 0.5
    # Said again it changes nothing; with another variable, only what has it.
    project.ok("up")
    assert {s.id for s in project.client.list(group=project.name)} == {s.id for s in members.values()}
    project.cli.env["GREETING"] = "servus"
    project.ok("up")
    after = {s.info.raw["alias"]: s.id for s in project.client.list(group=project.name)}
    assert {name for name, id in after.items() if id != members[name].id} == {"web"}
    assert project.ok("exec", "web", "curl", "-sS", "http://127.0.0.1:8000/").startswith("servus a b ")
    project.ok("up", "--profile", "debug")
    assert project.states()["tools"] == "running"
    project.ok("down")
    assert not project.left()


@pytest.mark.vm
def test_nobody_else_reaches_a_project(project, cli, client, make_sandbox):
    """The same file twice: each has a db of its own, and a sandbox outside has none."""
    text = "services:\n  db:\n    x-cloche: {template: host}\n    command: ['sh', '-c', 'echo $$WHO > index.html; exec python3 -m http.server 7000']\n    environment: {WHO: '${WHO}'}\n"
    other = Project(cli, client, project.dir, project.engine, project.template)
    project.write({"compose.yaml": text})
    fetch = ["curl", "-sS", "-m", "60", "--retry", "20", "--retry-all-errors", "--retry-delay", "0", "http://db:7000/"]
    try:
        for one in (project, other):
            cli.env["WHO"] = one.name
            one.ok("up")
            assert one.ok("exec", "db", *fetch) == f"{one.name}\n"
        outside = make_sandbox()
        assert outside.run(["curl", "-sS", "-m", "20", "http://db:7000/"]).exit_code != 0
    finally:
        other("down")
    assert not other.left() and project.states() == {"db": "running"}


@pytest.fixture(scope="module")
def builder():
    """A daemon of its own: what builds keep for the next ones stays mounted."""
    with running(Daemon("--pool-max", "0")) as daemon, Client(daemon.url, daemon.key) as client:
        yield Cli(daemon), client


def test_images_are_built_from_the_project(builder, tmp_path):
    """A Dockerfile with arguments and a target, whose own health check and command are used."""
    cli, client = builder
    project = Project(cli, client, tmp_path)
    base = f"base-{project.name}"
    client.import_template(base, layout_of(busybox_layer().link("bin/sleep", "busybox").link("bin/test", "busybox"), config={"Env": ["PATH=/bin"]}).tar())
    docker = f"""
FROM {base} AS base
ARG WORD=none
COPY word /word
RUN echo "$WORD" >> /word
HEALTHCHECK --interval=1s --retries=20 CMD test -e /tmp/up
ENTRYPOINT ["/bin/sh", "-c"]
CMD ["echo > /tmp/up; cat /word; exec sleep 1000"]
FROM base AS other
RUN echo other > /word
"""
    text = """
services:
  app_1:
    build: {context: ./app, dockerfile: Dockerfile, target: base, args: {WORD: "${WORD:-two}"}}
  after:
    build: {context: app, target: other}
    command: ["cat /word"]
    depends_on: {app_1: {condition: service_healthy}}
"""
    project.write({"compose.yaml": text, "app/Dockerfile": docker, "app/word": "one\n"})
    try:
        status, out, err = project("up")
        assert status == 0, err
        assert project.ok("logs", "app_1") == "app_1 | one\napp_1 | two\n"
        assert project.ok("logs", "after") == "after | other\n"
        assert {n for n in project.left() if n.startswith("compose.")} == {f"compose.{project.name}.app..1", f"compose.{project.name}.after"}
        project.ok("down")
        assert not project.left()
    finally:
        project("down")
        client.delete_template(base)


@pytest.mark.parametrize("how", ["exits", "unhealthy", "missing"])
def test_a_service_that_fails_is_told_with_what_it_said(project, how):
    service = {
        "exits": "command: ['sh', '-c', 'echo no such table >&2; exit 3']",
        "unhealthy": "command: ['sleep', '100']\n    healthcheck: {test: ['CMD-SHELL', 'echo still cold; exit 1'], interval: 100ms, retries: 3}",
        "missing": "command: ['/no/such/program']",
    }[how]
    said = {"exits": "service bad ended with 3: no such table", "unhealthy": "service bad is unhealthy: its check has failed 3 times: still cold", "missing": "service bad could not be started: argv"}[how]
    after = "  after:\n    x-cloche: {template: host}\n    command: ['true']\n    depends_on: {bad: {condition: service_completed_successfully}}\n"
    project.write({"compose.yaml": f"services:\n  bad:\n    x-cloche: {{template: host}}\n    {service}\n{after}"})
    status, out, err = project("up")
    assert status == 125 and said in err, err
    assert "after" not in project.states()


def test_a_service_starts_again_where_it_says_so(project):
    text = """
services:
  bad:
    x-cloche: {template: host}
    command: ["sh", "-c", "echo try; test -e /tmp/second && exit 0; touch /tmp/second; exit 1"]
    restart: on-failure:2
  never:
    x-cloche: {template: host}
    command: ["sh", "-c", "echo never; exit 4"]
    restart: on-failure:1
"""
    project.write({"compose.yaml": text})
    project("up")
    wait_for(lambda: project.states() == {"bad": "exited (0)", "never": "exited (4)"}, 30 * PATIENCE, "both to end")
    assert project.ok("logs", "bad") == "bad   | try\nbad   | try\n" and project.ok("logs", "never") == "never | never\nnever | never\n"


@pytest.mark.jail("a vm has no volumes")
def test_down_removes_all_after_a_kill_in_the_middle(project):
    text = "volumes: {v: }\nservices:\n  a:\n    x-cloche: {template: host}\n    command: sleep 1000\n    volumes: ['v:/var/v']\n"
    text += "    healthcheck: {test: ['CMD', 'false'], interval: 60s}\n  b:\n    x-cloche: {template: host}\n    command: sleep 1000\n    depends_on: {a: {condition: service_healthy}}\n"
    project.write({"compose.yaml": text})
    up = project.cli.start(*project.words("up"))
    wait_for(lambda: project.states() == {"a": "running"}, 30 * PATIENCE, "the first")
    up.kill()
    up.communicate()
    assert len(project.left()) == 2
    project.ok("down")
    assert not project.left()


def test_what_an_engine_does_not_have_is_told_with_the_service(project):
    """Volumes on a vm; a jail has them."""
    project.write({"compose.yaml": "volumes: {v: }\nservices:\n  a:\n    x-cloche: {template: host}\n    command: sleep 1000\n    volumes: ['v:/var/v']\n"})
    status, out, err = project("up")
    if project.engine == "vm":
        assert status == 125 and "service a: engine vm has no volumes\n  hint: ask for engine jail" in err, err
        assert "a" not in project.states()
    else:
        assert status == 0 and project.states() == {"a": "running"}, err


def test_watch_prints_and_takes_all_down_at_an_interrupt(project):
    project.write({"compose.yaml": "services:\n  a:\n    x-cloche: {template: host}\n    command: sh -c 'echo is here; exec sleep 1000'\n"})
    up = project.cli.start(*project.words("up", "--watch"))
    assert up.stdout.readline() == b"a | is here\n"
    up.send_signal(signal.SIGINT)
    out, err = up.communicate(timeout=60 * PATIENCE)
    assert up.returncode == 128 + signal.SIGINT and b"taken down" in err
    assert not project.left()


def test_watch_ends_with_the_last_service(project):
    project.write({"compose.yaml": "services:\n  a:\n    x-cloche: {template: host}\n    command: echo done\n"})
    assert project("up", "--watch")[:2] == (0, "a | done\n")
    assert not project.left()


ONE = "services:\n  web:\n    image: app\n"


@pytest.mark.parametrize(("lines", "line", "words"), [
    ("    privileged: true", 4, "services.web.privileged: is not taken"),
    ("    cap_add: [NET_ADMIN]", 4, "services.web.cap_add: is not taken"),
    ("    devices: [/dev/kvm]", 4, "services.web.devices: is not taken"),
    ("    network_mode: host", 4, "services.web.network_mode: 'host' is not taken"),
    ("    pid: host", 4, "services.web.pid: is not taken"),
    ("    read_only: true", 4, "services.web.read_only: is not taken"),
    ("    extends: {service: other}", 4, "<<: *name"),
    ("    secrets: [key]", 4, "services.web.secrets: is not taken"),
    ("    entry_point: ls", 4, "did you mean 'entrypoint'?"),
    ("    security_opt: [seccomp=unconfined]", 4, "'seccomp=unconfined' is not taken"),
    ("    deploy:\n      resources:\n        reservations:\n          devices: [{driver: nvidia}]", 7, "services.web.deploy.resources.reservations.devices: is not taken"),
    ("    deploy: {replicas: 3}", 4, "should be 1"),
    ("    ports: ['53:53/udp']", 4, "ports are TCP alone"),
    ("    ports: ['3000-3005']", 4, "ranges are not taken"),
    ("    ports: [http]", 4, "'http' should be a port"),
    ("    volumes: ['data:/data']", 4, "'data' is not among the file's volumes"),
    ("    volumes: ['./a:b']", 4, "'b' should be an absolute path inside"),
    ("    volumes: [{type: npipe, source: a, target: /b}]", 4, "'npipe' should be bind, volume or tmpfs"),
    ("    mem_limit: lots", 4, "'lots' should be a size such as 512m or 2g"),
    ("    cpus: -1", 4, "'-1' should be a number of CPUs"),
    ("    healthcheck: {test: [RUN, x]}", 4, "begins with CMD"),
    ("    healthcheck: {interval: soon}", 4, "'soon' should be a time such as 30s or 1m30s"),
    ("    depends_on: [db]", 2, "'db' is no service"),
    ("    depends_on: [web]", 2, "waits for itself"),
    ("    depends_on: {web: {condition: ready}}", 4, "'ready' should be service_started"),
    ("    restart: sometimes", 4, "'sometimes' should be"),
    ("    environment: {A: [1]}", 4, "should be text, not a list"),
    ("    command: 'sh -c \"x'", 4, "a quote is not closed"),
    ("    environment: ['A=${B:?say which}']", 4, "the variable B is needed: say which"),
    ("    environment: ['A=${B:=c}']", 4, "cannot be read"),
    ("    networks: [front]", 4, "'front' is not among the file's networks"),
    ("    networks: {default: {aliases: [db]}}", 4, "'db' is not the service's name"),
    ("    image: other", 4, "'image' comes twice"),
    ("    tty: !!bool yes", 4, "tags such as"),
    ("include: [a.yaml]", 4, "include: is not taken"),
    ("volumes: {a: {external: true}}", 4, "volumes.a.external: is not taken"),
    ("networks: {a: {driver: macvlan}}", 4, "networks.a.driver: 'macvlan' is not taken"),
    ("---\nservices: {}", 4, "there is a second document"),
    ("  Web: {image: a}", 4, "a service's name is its host name"),
    ("  db: {command: a}", 4, "it needs image or build"),
    ("    command: *nowhere", 4, "there is no anchor 'nowhere'"),
    ("    command: [a", 5, "this is no YAML"),
])  # fmt: skip
def test_what_cannot_be_kept_is_refused_with_file_line_and_name(project, lines, line, words):
    said = project.refused(ONE + lines + "\n")
    assert f"compose.yaml:{line}: " in said and words in said, said


def test_services_that_are_kept_apart_are_refused(project):
    """All members of a project reach each other: less than the file asks for would be given in silence."""
    text = "networks: {front: , back: }\nservices:\n  proxy: {image: a, networks: [front]}\n  db: {image: b, networks: [back]}\n"
    assert "shares no network with 'db'" in project.refused(text) and "--one-network" in project.refused(text)
    assert list(project.config(text, "--one-network")["services"]) == ["proxy", "db"]
    assert project.config(text.replace("[back]", "[back, front]"))


def test_what_people_write_becomes_one_form(project):
    project.write({".env": "TAG=1.2\nBOTH=file\n"})
    project.cli.env["BOTH"] = "caller"
    service = project.config("""
x-common: &common
  environment: &env {A: 1, B: "${TAG}-${BOTH}", NOT_SET: }
services:
  web:
    <<: *common
    image: registry.test:5000/app:${TAG}
    command: run --name "two words" it\\'s $$HOME ${NONE:+x}
    ports: ["127.0.0.1:8080:80", 443, {target: 9000, published: "9001"}, "80/tcp"]
    volumes: ["named:/a:ro", "./b:/b", "/c", {type: tmpfs, target: /d, tmpfs: {size: 10m}}, {type: bind, source: ./e, target: /e, read_only: true}]
    tmpfs: /f:size=64m
    healthcheck: {test: curl -f http://x, interval: 1m30s, timeout: 500ms, start_period: 0s}
    mem_limit: 1.5g
    depends_on: [db]
    stdin_open: true
    tty: true
  db: {build: ., environment: {<<: *env, A: 2}}
volumes: {named: }
""")["services"]  # fmt: skip
    web = service["web"]
    assert web["image"] == "registry.test:5000/app:1.2" and web["environment"] == {"A": "1", "B": "1.2-caller"}
    assert web["command"] == ["run", "--name", "two words", "it's", "$HOME"]
    assert web["ports"] == [80, 443, 9000]
    assert web["volumes"] == [{"volume": "named", "path": "/a", "read_only": True}]
    assert [(f["source"], f["target"]) for f in web["files"]] == [("./b", "/b"), ("./e", "/e")] and web["directories"] == ["/c", "/d", "/f"]
    assert web["healthcheck"] == {"test": ["CMD-SHELL", "curl -f http://x"], "interval_ms": 90000, "timeout_ms": 500, "start_period_ms": 0}
    assert web["limits"] == {"memory_mib": 1536} and web["depends_on"] == {"db": "service_started"}
    assert service["db"]["environment"] == {"A": "2", "B": "1.2-caller"} and service["db"]["build"] == {"context": "."}


def test_hostile_yaml_is_refused_at_once(project):
    """Each is small and asks for much; what is as long and asks for little is taken."""
    bomb = "a: &a [x,x,x,x,x,x,x,x,x,x]\n" + "".join(f"x{i}: &{c} [{','.join([f'*{p}'] * 10)}]\n" for i, (p, c) in enumerate(zip("abcdefgh", "bcdefghi")))
    assert "too large" in project.refused(bomb)
    assert "nested too deeply" in project.refused("services: " + "[" * 5000)
    assert "nested too deeply" in project.refused("services: {web: {image: a, x-a: " + "{a: " * 30 + "}" * 30 + "}}")
    assert "too many values" in project.refused("services:\n" + "".join(f"  a{i}: b\n" for i in range(20000)))
    assert "is too long" in project.refused("#" * 300_000)
    assert "no anchor" in project.refused("services: &a {web: {image: a, x-a: *a}}")
    assert "nested too deeply" in project.refused(ONE + "    environment: {A: '" + "${A:-" * 20 + "}" * 20 + "'}\n")
    project.cli.env["B"] = "x" * 2000
    assert "too long" in project.refused(ONE + "    environment: {A: '" + "${B}" * 100 + "'}\n")
    assert "there are more than 64" in project.refused("services:\n" + "".join(f"  a{i}: {{image: a}}\n" for i in range(65)))
    assert len(project.config("services:\n" + "".join(f"  a{i}: {{image: a}}\n" for i in range(64)))["services"]) == 64
    (project.dir / "compose.yaml").write_bytes(b"services:\n  web: {image: \"a\\0b\"}\n")
    assert "NUL" in project("config")[2]
    (project.dir / "compose.yaml").write_bytes(b"services:\n  web: {image: \xff\xfe}\n")
    assert "this is no YAML" in project("config")[2]


@pytest.mark.parametrize("what", ["volumes: ['{}:/x']", "env_file: '{}'", "build: '{}'", "build: {{context: ., dockerfile: '{}'}}"])
def test_nothing_outside_of_the_project_is_read(project, what):
    """Not by name, not by .., not through a link; with --within it is."""
    secret = project.dir / "outside"
    secret.mkdir()
    (secret / "Dockerfile").write_text("FROM nothing\n")
    (secret / "env").write_text("KEY=s3cret\n")
    inside = project.dir / "inside"
    inside.mkdir()
    is_dir = what.startswith("build: '")
    name = "" if is_dir else "Dockerfile" if "dockerfile" in what else "env"
    (inside / "link").symlink_to(secret)
    project.dir, outer = inside, project.dir
    for path in (f"../outside/{name}", f"{secret}/{name}", f"./link/{name}", *(["~/x"] if "dockerfile" not in what else []), "/etc" if is_dir else "/etc/passwd"):
        said = project.refused("services:\n  web:\n    x-cloche: {template: host}\n    " + what.format(path) + "\n", word="up")
        assert "is outside of the project's directory" in said and "compose.yaml:" in said, (path, said)
    assert not project.left()
    if "env_file" in what:
        project.write({"compose.yaml": "services:\n  web:\n    x-cloche: {template: host}\n    command: env\n    env_file: ../outside/env\n"})
        project.ok("up", "--within", str(outer))
        wait_for(lambda: "KEY=s3cret" in project.ok("logs"), 20 * PATIENCE, "the variable")


def test_paths_begin_in_the_project_s_directory_wherever_the_file_is(project, tmp_path_factory):
    """A program may write the file elsewhere; what lies beside that file is then outside."""
    project.write({"site/index.html": "of the project\n", ".env": "WORD=given\n"})
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    (elsewhere / "secret").write_text("outside\n")
    text = "services:\n  web:\n    x-cloche: {template: host, disk_mib: 300}\n    environment: {WORD: $WORD}\n    volumes: ['./MOUNT:/srv/x']\n"
    outer, project.dir = project.dir, elsewhere
    project.write({"compose.yaml": text.replace("MOUNT", "secret")})
    assert "is not there" in project("up", "--project-directory", str(outer))[2]
    project.write({"compose.yaml": text.replace("./MOUNT", str(elsewhere / "secret"))})
    assert "is outside of the project's directory" in project("up", "--project-directory", str(outer))[2]
    project.write({"compose.yaml": text.replace("MOUNT", "site")})
    project.ok("up", "--project-directory", str(outer))
    assert project.ok("exec", "web", "sh", "-c", "cat /srv/x/index.html; echo $WORD") == "of the project\ngiven\n"
    assert [s.info.limits["disk_mib"] for s in project.client.list(group=project.name)] == [300]
    assert "--project-directory: cannot read" in project("config", "--project-directory", "/nowhere")[2]


def test_the_key_of_the_daemon_is_no_variable_of_a_file(project):
    project.cli.env["CLOCHE_API_KEY"], project.cli.env["OTHER"] = "ck_secret", "other"
    assert project.config(ONE + "    environment: ['A=${CLOCHE_API_KEY}', 'B=${OTHER}', CLOCHE_API_KEY]\n")["services"]["web"]["environment"] == {"A": "", "B": "other"}


TASK = """
services:
  db:
    x-cloche: {template: host}
    command: ["sh", "-c", "echo ready; exec python3 -m http.server 7000"]
    environment: {WORD: "${WORD:-none}"}
    healthcheck: {test: "curl -f http://127.0.0.1:7000/", interval: 1s, retries: 60}
  agent:
    x-cloche: {template: host}
    depends_on: {db: {condition: service_healthy}}
"""


@pytest.fixture
def program(monkeypatch):
    monkeypatch.setenv("CLOCHE_PROGRAM", CLOCHE)


def test_a_program_brings_a_file_up_and_removes_it(client, program, tmp_path):
    (tmp_path / "compose.yaml").write_text(TASK)
    told = []
    with compose.up(str(tmp_path / "compose.yaml"), client=client, variables={"WORD": "given"}, timeout=600, on_progress=told.append) as project:
        assert list(project) == ["db", "agent"] and len(project) == 2
        assert "Directory" in project["agent"].run("curl -sS http://db:7000/").stdout
        assert project["db"].run("echo $WORD").stdout == "given\n" and project["db"].info.raw["timeout_ms"] == 600_000
        assert project.logs("db").startswith("db    | ready\n")
    assert ("db", "healthy") in [(e["service"], e["state"]) for e in told]
    assert not list(client.list(group=project.name))


def test_a_program_hears_why_a_file_fails_and_nothing_is_left(client, program, tmp_path):
    path = tmp_path / "compose.yaml"
    path.write_text(TASK.replace("exec python3 -m http.server 7000", "echo no disk; exit 7"))
    with pytest.raises(ClocheError, match="service db ended with 7: no disk"):
        compose.up(str(path), "fails", client=client)
    assert not list(client.list(group="fails"))
    path.write_text(TASK + "    privileged: true\n")
    with pytest.raises(ClocheError, match="compose.yaml:11: services.agent.privileged: is not taken") as refused:
        compose.up(str(path), client=client)
    assert "no rights over the host" in refused.value.hint
    with pytest.raises(TypeError, match="'netwrk'"):
        compose.up(str(path), client=client, netwrk="allow-all")


def test_many_copies_of_one_file_run_side_by_side(daemon, program, tmp_path):
    (tmp_path / "compose.yaml").write_text(TASK)

    async def rollout(client, i):
        async with await compose.up_async(str(tmp_path / "compose.yaml"), client=client, variables={"WORD": f"w{i}"}) as project:
            seen = await project["agent"].run("curl -sS http://db:7000/")
            return "Directory" in seen.stdout, (await project["db"].run("echo $WORD")).stdout, project.name

    async def main():
        async with AsyncClient(daemon.url, daemon.key) as client:
            done = await asyncio.gather(*(rollout(client, i) for i in range(4)))
            return done, [s.id async for s in client.list() if s.info.tags.get("compose")]

    done, left = asyncio.run(main())
    assert [(ok, word) for ok, word, _ in done] == [(True, f"w{i}\n") for i in range(4)] and not left
    assert len({name for _, _, name in done}) == 4
