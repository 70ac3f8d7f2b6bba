# SPDX-License-Identifier: Apache-2.0
"""Harbor's environments in cloche: the contract of its base class, and `harbor run` of a task with the agent that follows its solution."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from cloche import AsyncClient
from cloche.integrations.harbor import ClocheEnvironment
from conftest import FIELDS
from harbor.models.task.config import EnvironmentConfig, NetworkMode, NetworkPolicy
from harbor.models.trial.paths import TrialPaths

OWN = {name: FIELDS[name] or {"template": "host"}.get(name) for name in ("engine", "template")}


def environment(tmp_path, fields=OWN, **named):
    (tmp_path / "environment").mkdir(exist_ok=True)
    config = EnvironmentConfig(**{"cpus": 1, "memory_mb": 256, "workdir": "/app", **named.pop("config", {})})
    return ClocheEnvironment(tmp_path / "environment", "task", "trial__env", TrialPaths(tmp_path / "trial"), config, fields=fields, **named)


@pytest.fixture
async def started(tmp_path):
    made = environment(tmp_path, network_policy=NetworkPolicy(network_mode=NetworkMode.NO_NETWORK))
    await made.start(force_build=False)
    yield made
    await made.stop(delete=True)


async def test_commands_end_as_they_do(started):
    done = await started.exec("echo out; echo err >&2; pwd; whoami; echo $A; exit 3", env={"A": "a"})
    assert (done.stdout, done.stderr, done.return_code) == ("out\n/app\nroot\na\n", "err\n", 3)
    assert (await started.exec("whoami", user="user")).stdout == "user\n"
    assert (await started.exec("true", cwd="/nowhere")).return_code == 126
    with pytest.raises(RuntimeError, match="timed out after 1 seconds"):
        await started.exec("sleep 7654", timeout_sec=1)
    assert not (await started.exec("pgrep -x sleep")).stdout
    limits = started.sandbox.info.limits
    assert (limits["vcpus"], limits["memory_mib"]) == (1, 256)


async def test_trees_go_both_ways_with_modes_and_links(started, tmp_path):
    tree = tmp_path / "tree"
    (tree / "deep").mkdir(parents=True)
    (tree / "deep" / "run.sh").write_text("#!/bin/sh\necho ran\n")
    (tree / "deep" / "run.sh").chmod(0o750)
    os.symlink("deep/run.sh", tree / "link")
    await started.upload_dir(tree, "/in")
    assert (await started.exec("/in/link")).stdout == "ran\n"
    await started.exec("mkfifo /in/pipe; ln -s /etc/passwd /in/out")
    with pytest.raises(Exception, match="absolute path"):
        await started.download_dir("/in", tmp_path / "back")
    await started.exec("rm /in/out")
    await started.download_dir("/in", tmp_path / "back")
    assert (tmp_path / "back/deep/run.sh").stat().st_mode & 0o777 == 0o750 and os.readlink(tmp_path / "back/link") == "deep/run.sh"
    assert not (tmp_path / "back/pipe").exists()
    await started.upload_file(tree / "deep" / "run.sh", "/in/copy.sh")
    await started.download_file("/in/copy.sh", tmp_path / "copy.sh")
    assert (tmp_path / "copy.sh").read_text() == "#!/bin/sh\necho ran\n"
    assert await started.is_dir("/in") and await started.is_file("/in/copy.sh")
    with pytest.raises(FileNotFoundError, match="/none"):
        await started.download_file("/none", tmp_path / "none")
    assert not (tmp_path / "none").exists()


async def test_policies_are_kept_exactly_and_change_between_phases(started):
    async def reaches(url):
        return (await started.sandbox.explain_network(url))["allowed"]

    assert not await reaches("https://a.test/")
    hosts = ["a.test", "*.b.test", "192.0.2.7", "198.51.100.0/24"]
    await started.set_network_policy(NetworkPolicy(network_mode=NetworkMode.ALLOWLIST, allowed_hosts=hosts))
    for url in ("https://a.test/", "https://x.b.test/", "http://192.0.2.7/", "http://198.51.100.9/"):
        assert await reaches(url), url
    for url in ("https://x.a.test/", "https://b.test/", "http://192.0.2.8/", "https://c.test/"):
        assert not await reaches(url), url
    await started.set_network_policy(NetworkPolicy(network_mode=NetworkMode.PUBLIC))
    assert await reaches("https://c.test/")


@pytest.mark.parametrize("hosts, words", [(["127.0.0.1"], "host's own"), (["169.254.0.0/16"], "host's own"), (["2001:db8::1"], "IPv6")])
def test_a_policy_that_cannot_be_kept_is_refused_before_the_start(tmp_path, hosts, words):
    with pytest.raises(ValueError, match=words):
        environment(tmp_path, network_policy=NetworkPolicy(network_mode=NetworkMode.ALLOWLIST, allowed_hosts=hosts))


def test_what_is_not_supported_is_refused_by_name(tmp_path):
    with pytest.raises(RuntimeError, match="GPU"):
        environment(tmp_path, config={"gpus": 1})
    with pytest.raises(FileNotFoundError, match="Dockerfile"):
        environment(tmp_path, fields={})
    for text, words in (("services: {}\n", "main has no image or build"), ("services: []\n", "no services"), ("a: [\n", "docker-compose.yaml")):
        (tmp_path / "environment" / "docker-compose.yaml").write_text(text)
        with pytest.raises(ValueError, match=words):
            environment(tmp_path, fields={})
    with pytest.raises(ValueError, match="tags, env cannot be given"):
        environment(tmp_path, fields={"tags": {"a": "b"}, "env": {"A": "b"}})
    extra = tmp_path / "extra.yaml"
    extra.write_text("services: {}\n")
    with pytest.raises(ValueError, match="--extra-docker-compose"):
        environment(tmp_path, extra_docker_compose=[extra])
    with pytest.raises(TypeError, match="did you mean 'template'"):
        environment(tmp_path, fields={"templates": "x"})


COMPOSE = f"""
services:
  main:
    environment: ["FROM_FILE=file", "WORD=file"]
    volumes: ["${{HOST_VERIFIER_LOGS_PATH}}:${{ENV_VERIFIER_LOGS_PATH}}"]
    deploy: {{resources: {{limits: {{memory: "${{MEMORY}}"}}}}}}
    depends_on: {{db: {{condition: service_healthy}}}}
  db:
    x-cloche: {{template: {OWN["template"]}}}
    working_dir: /srv
    user: root
    command: ["sh", "-c", "echo of-the-db > /srv/data; exec python3 -m http.server 7000"]
    healthcheck: {{test: [CMD, python3, -c, "import socket; socket.create_connection(('127.0.0.1', 7000))"], interval: 1s, retries: 600}}
    volumes: ["./site:/srv/site:ro"]
"""
MOUNTS = [{"type": "bind", "source": "/nowhere", "target": f"/logs/{name}"} for name in ("verifier", "agent")]


@pytest.fixture
async def project(tmp_path):
    (tmp_path / "environment" / "site").mkdir(parents=True)
    (tmp_path / "environment" / "site" / "index").write_text("of the task\n")
    (tmp_path / "environment" / "docker-compose.yaml").write_text(COMPOSE)
    config = {"env": {"WORD": "task's $HOME"}, "storage_mb": 700}
    made = environment(tmp_path, config=config, mounts=MOUNTS, network_policy=NetworkPolicy(network_mode=NetworkMode.NO_NETWORK))
    await made.start(force_build=False)
    yield made
    await made.stop(delete=True)


ASK = "python3 -c 'import urllib.request as u; print(u.urlopen(\"http://db:7000/{}\").read().decode(), end=\"\")'"


async def test_a_task_of_several_containers_is_a_project_of_sandboxes(project, tmp_path):
    """The agent is in main; it reaches the others by name, and nobody else does."""
    assert (await project.exec(ASK.format("site/index"))).stdout == "of the task\n"
    assert (await project.exec("pwd; echo $FROM_FILE; echo $WORD; whoami")).stdout == "/app\nfile\ntask's $HOME\nroot\n"
    limits = project.sandbox.info.limits
    assert (limits["vcpus"], limits["memory_mib"], limits["disk_mib"]) == (1, 256, 700)
    assert (await project.exec("touch /logs/verifier/reward.txt")).return_code == 0
    (tmp_path / "up").mkdir()
    (tmp_path / "up" / "run.sh").write_text("#!/bin/sh\necho ran\n")
    (tmp_path / "up" / "run.sh").chmod(0o755)
    await project.upload_dir(tmp_path / "up", "/in")
    assert (await project.exec("/in/run.sh")).stdout == "ran\n"

    asked = await project.service_exec("cat /srv/data; echo $WORD", service="db")
    assert asked.stdout == "of-the-db\n\n"
    await project.service_download_file("/srv/data", tmp_path / "data", service="db")
    await project.service_download_dir("/srv/site", tmp_path / "back", service="db")
    assert (tmp_path / "data").read_text() == "of-the-db\n" and (tmp_path / "back" / "index").read_text() == "of the task\n"
    assert await project.service_is_dir("/srv", service="db") and await project.service_is_dir("/app")
    with pytest.raises(ValueError, match="no service 'cache'"):
        await project.service_exec("true", service="cache")

    await project.stop_service("main")  # what it left running cannot interfere; the others go on
    assert (await project.sandbox.refresh()).state == "paused"
    assert (await project.service_exec("cat /srv/data", service="db")).return_code == 0
    group = project.sandbox.info.group
    await project.stop(delete=True)
    async with AsyncClient() as client:
        assert [one.id async for one in client.list(group=group) if one.info.ended is None] == []


async def test_a_policy_holds_for_every_service_and_changes_for_all(project):
    async def open_to(url):
        return [(await one.explain_network(url))["allowed"] for one in project._sandboxes]

    assert await open_to("https://a.test/") == [False, False]
    await project.set_network_policy(NetworkPolicy(network_mode=NetworkMode.ALLOWLIST, allowed_hosts=["a.test"]))
    assert await open_to("https://a.test/") == [True, True] and await open_to("https://pip.test/") == [False, False]


async def test_a_field_that_cannot_be_kept_is_told_with_its_name_and_leaves_nothing(tmp_path):
    (tmp_path / "environment").mkdir()
    (tmp_path / "environment" / "docker-compose.yaml").write_text(COMPOSE + "    privileged: true\n")
    made = environment(tmp_path)
    with pytest.raises(Exception, match=r"environment/docker-compose.yaml: services.db.privileged: is not taken.*no rights over the host"):
        await made.start(force_build=False)
    await made.stop(delete=True)


def score(tmp_path, *words, dockerfile="FROM scratch\n", place="/app", image="", more=()):
    """What `harbor run` says of a task with the agent that follows its solution."""
    task = tmp_path / "answer"
    named = f'docker_image = "{image}"\n' if image else ""
    files = {
        "task.toml": f'version = "1.0"\n[environment]\n{named}memory_mb = 512\nnetwork_mode = "no-network"\nworkdir = "{place}"\n',
        "instruction.md": "Write 42 into answer.txt.\n",
        "environment/Dockerfile": dockerfile,
        "solution/solve.sh": "#!/bin/bash\necho 42 > answer.txt\n",
        "tests/test.sh": f'#!/bin/bash\nif [ "$(cat {place}/answer.txt)" = 42 ]; then echo 1; else echo 0; fi > /logs/verifier/reward.txt\n',
    }
    for name, text in {**files, **dict(more)}.items():
        (task / name).parent.mkdir(parents=True, exist_ok=True)
        (task / name).write_text(text)
    harbor = [str(Path(sys.executable).parent / "harbor"), "run", "-p", str(task), "-a", "oracle", "-o", str(tmp_path / "jobs"), *words]
    done = subprocess.run(harbor, env={**os.environ, "LITELLM_LOCAL_MODEL_COST_MAP": "True"}, capture_output=True, text=True, timeout=300)
    rewards = [path.read_text() for path in (tmp_path / "jobs").rglob("reward.txt")]
    assert rewards == ["1\n"], done.stdout + done.stderr


def test_harbor_run_scores_a_task_in_a_sandbox(tmp_path):
    own = f"fields={json.dumps({name: value for name, value in OWN.items() if value})}"
    score(tmp_path, "--env", "cloche.integrations.harbor:ClocheEnvironment", "--ek", own)


def test_harbor_run_scores_a_task_of_several_containers_and_fetches_what_a_sidecar_made(tmp_path):
    """The verifier's answer is in the database's sandbox, and so is an artifact."""
    own = f"fields={json.dumps({name: value for name, value in OWN.items() if value})}"
    toml = (
        'schema_version = "1.3"\nartifacts = [{source = "/srv/data", service = "db"}]\n'
        '[environment]\nmemory_mb = 512\nnetwork_mode = "no-network"\nworkdir = "/app"\n'
    )
    more = {
        "task.toml": toml,
        "environment/docker-compose.yaml": COMPOSE,
        "environment/site/index": "42\n",
        "solution/solve.sh": f"#!/bin/bash\n{ASK.format('site/index')} > answer.txt\n",
    }
    score(tmp_path, "--env", "cloche.integrations.harbor:ClocheEnvironment", "--ek", own, more=more)
    assert [path.read_text() for path in (tmp_path / "jobs").rglob("data")] == ["of-the-db\n"]


@pytest.mark.skipif("ROLLOUT_BASH" not in os.environ, reason="needs a template with a bash")
@pytest.mark.parametrize("by", ["dockerfile", "image"])
def test_harbor_s_own_environment_of_e2b_s_scores_a_task_here(tmp_path, by):
    base = os.environ["ROLLOUT_BASH"]
    fields = {"dockerfile": {"dockerfile": f"FROM {base}\nWORKDIR /app\nRUN echo built > /built\n"}, "image": {"image": base, "place": "/srv"}}
    score(tmp_path, "--env", "e2b", **fields[by])


@pytest.mark.skipif("ROLLOUT_BASE" not in os.environ, reason="needs a template that a Dockerfile can begin with")
async def test_a_task_s_dockerfile_is_built_once(tmp_path):
    (tmp_path / "environment").mkdir()
    (tmp_path / "environment" / "Dockerfile").write_text(f"FROM {os.environ['ROLLOUT_BASE']}\nWORKDIR /work\nRUN echo built > /built; rm -f /bin/bash /usr/bin/bash\nCOPY a.txt deep/\n")
    (tmp_path / "environment" / "a.txt").write_text("copied\n")
    names = []
    for _ in range(2):
        made = environment(tmp_path, fields={"engine": OWN["engine"]}, config={"workdir": None})
        await made.start(force_build=False)
        try:
            done = await made.exec("pwd; cat /built deep/a.txt")  # it has no bash
            assert done.stdout == "/work\nbuilt\ncopied\n", done
            names.append(made.sandbox.info.template)
        finally:
            await made.stop(delete=True)
    async with AsyncClient() as client:
        assert names[0] == names[1]
        await client.delete_template(names[0])
