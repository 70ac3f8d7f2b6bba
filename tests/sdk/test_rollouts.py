# SPDX-License-Identifier: Apache-2.0
"""Frameworks for evaluations and training, in their real packages: each check runs in a process of its own, with the packages of
rollouts/requirements.txt and the SDK as pip installs it. The guide on rollouts is followed as it stands."""

import io
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from cloche import Client
from harness.daemon import BUILD, PATIENCE, ROOT, Daemon, end
from harness.dockerfiles import base_layer
from harness.models import Models
from harness.npm import made_once
from harness.oci import busybox_layer
from harness.running import running
from harness.samples import samples_of
from harness.vm import CLIENT_S, EMULATED, MAKE_SUITE_TREE, await_warm_copy, give_kernel, make_template, need_vms

HERE = Path(__file__).parent / "rollouts"
PIP = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet", "install"]
GUIDE = "docs/guides/rollouts.md"
VM_S = 3600  # for a suite whose machines are emulated


def blocks(words):
    """Of the guide, those that have these words."""
    return [sample for sample in samples_of(GUIDE) if sample.language in ("sh", "python") and words in sample.code]


@pytest.fixture(scope="session")
def packages(tmp_path_factory):
    """A directory with the frameworks and, by the guide's own command, the SDK."""

    def make(path):
        words = ["--no-deps", "--no-compile", "--target", str(path), "-r", str(HERE / "requirements.txt")]
        done = subprocess.run([*PIP, *words], capture_output=True, text=True, timeout=600)
        assert done.returncode == 0, done.stderr[-4000:]
        clone = tmp_path_factory.mktemp("clone")
        shutil.copytree(ROOT / "sdk" / "python", clone / "sdk" / "python", ignore=shutil.ignore_patterns("build", "*.egg-info", "__pycache__"))
        told = {"PIP_TARGET": str(path), "PIP_NO_DEPS": "1", "PIP_NO_BUILD_ISOLATION": "0", "PIP_UPGRADE": "1"}
        env = {**os.environ, **told, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
        (install,) = blocks("pip install")
        done = subprocess.run(["bash", "-euc", install.code], cwd=clone, env=env, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stderr[-4000:]

    return made_once(tmp_path_factory, "rollouts", make)


@pytest.fixture
def env(packages, environment):
    """Of a program that has the frameworks."""
    paths = {"PYTHONPATH": str(packages), "PATH": f"{packages}/bin:{Path(sys.executable).parent}:{environment['PATH']}"}
    kept = {"PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": f"{packages}/.pycache"}  # they bring much, and many processes read it
    return {**environment, **paths, **kept, "HOME": str(packages), "CLOCHE_PROGRAM": str(BUILD / "cloche")}


def check(env, name, *words, python=sys.executable, seconds=300 * PATIENCE):
    """A suite beside this."""
    pytest_words = [python, "-m", "pytest", "-q", "-c", os.devnull, "--rootdir", str(HERE), "--confcutdir", str(HERE), "-p", "no:cacheprovider", "-p", "pytest_asyncio.plugin",
                    "-o", "asyncio_mode=auto", "-W", "ignore", str(HERE / f"check_{name}.py"), *words]
    done = subprocess.run(pytest_words, env={**env, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          timeout=seconds)
    assert done.returncode == 0, done.stdout[-6000:]
    return done.stdout


def follow(env, directory, sample):
    """What a block prints, which is what it promises."""
    words = ["bash", "-euo", "pipefail", "-c", sample.code] if sample.language == "sh" else [sys.executable, "-c", sample.code]
    done = subprocess.run(words, env=env, cwd=directory, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300 * PATIENCE)
    assert done.returncode == 0 and not sample.broken_promises(done.stdout), f"{sample.place}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def live(client, tag):
    return [s for s in client.list(tag=tag) if s.info.ended is None]


def wait_until(is_so):
    deadline = time.monotonic() + 120 * PATIENCE
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def test_inspect_s_own_suite_for_sandboxes_passes_whole(env):
    assert "44 passed" in check(env, "inspect_suite")


def test_what_inspect_s_suite_does_not_ask_for(env):
    check(env, "inspect")


def test_swe_rex_works_in_sandboxes(env):
    check(env, "swerex")


def test_verifiers_works_in_sandboxes(env):
    check(env, "verifiers")


def test_rollouts_of_verifiers_s_ask_their_model_through_the_wall(env):
    models = Models()
    models.steps = ["echo 42 > answer", "echo 43 > answer", "echo 42 > answer", "echo 42 > answer"]
    try:
        with running(Daemon("--network-may-open", "127.0.0.1/32")) as daemon:
            own = {"CLOCHE_URL": daemon.url, "CLOCHE_API_KEY": daemon.key, "ROLLOUT_MODEL": f"{models.url}/v1"}
            check({**env, **own}, "verifiers", "-k", "scored")
    finally:
        models.close()
    assert len(models.asked) == 4


HARBOR = "harbor[e2b]==0.24.0"


def works(python):
    """One of pyenv's is a script that may lead nowhere."""
    return subprocess.run([python, "-c", ""], capture_output=True).returncode == 0


def python_with(package, into):
    """A virtualenv's Python that has a package which needs a newer one than Debian 12 has: any that is in the path."""
    named = (shutil.which(name, path=place) for name in ("python3.14", "python3.13", "python3.12") for place in os.get_exec_path())
    found = next((path for path in named if path and works(path)), None)
    assert found, f"{package} needs Python 3.12 or newer: there is none in the path"
    python = str(into / "bin/python")
    subprocess.run([found, "-m", "venv", into], check=True, timeout=120)
    words = ["-m", "pip", "--disable-pip-version-check", "--quiet", "install", package, "pytest", "pytest-asyncio==1.5.0"]
    subprocess.run([python, *words], check=True, timeout=600)
    return python


@pytest.fixture(scope="module")
def harbor(tmp_path_factory):
    return python_with(HARBOR, tmp_path_factory.mktemp("harbor"))


@pytest.mark.skipif(not os.environ.get("CLOCHE_TEST_HARBOR"), reason="it is run by make test-harbor")
def test_harbor_s_trials_run_in_sandboxes(harbor, tmp_path):
    with running(Daemon()) as daemon, Client(daemon.url, daemon.key) as client:  # one of its own: layers that were built stay for the next build
        own = {"CLOCHE_URL": daemon.url, "CLOCHE_API_KEY": daemon.key, "PYTHONPATH": str(ROOT / "sdk" / "python"), "ROLLOUT_BASE": "rollout-base", "CLOCHE_PROGRAM": str(BUILD / "cloche")}
        own |= {"E2B_API_URL": daemon.url, "E2B_SANDBOX_URL": daemon.url, "E2B_API_KEY": f"e2b_{daemon.key.removeprefix('clo_')}", "ROLLOUT_BASH": "rollout-bash-1"}
        client.import_template("rollout-base", io.BytesIO(busybox_layer().bytes()))
        client.import_template("rollout-bash-1", io.BytesIO(base_layer().add("bin/bash", b'#!/bin/sh\nexec /bin/sh "$@"\n', mode=0o755).bytes()))
        check({**os.environ, **own, "PYTHONDONTWRITEBYTECODE": "1", "HOME": str(tmp_path)}, "harbor", python=harbor)


# Inspect's own suite makes a user with these words. Debian's program for that needs a whole Perl.
ADDUSER = r"""
cat > /template/bin/adduser << 'END'
#!/bin/sh
[ "$1" = --help ] && exec echo "adduser [--comment COMMENT] [--disabled-password] USER"
[ "$1 $3 $#" = "--comment --disabled-password 4" ] && exec useradd -m -c "$2" "$4"
echo "adduser: cannot do this: $*" >&2
exit 2
END
chmod 755 /template/bin/adduser
"""


@pytest.fixture(scope="module")
def machines():
    """The variables that lead to a daemon and to vms on it, which are copies of one that has booted."""
    need_vms()
    daemon = give_kernel(Daemon(*EMULATED, "--pool-min", "0", "--pool-max", "1", "--default-memory", "1GiB"))
    with running(daemon), Client(daemon.url, daemon.key, timeout=CLIENT_S) as client:
        make_template(client, "suite", MAKE_SUITE_TREE + ADDUSER)
        await_warm_copy(client, "suite")
        yield {"CLOCHE_URL": daemon.url, "CLOCHE_API_KEY": daemon.key, "ROLLOUT_ENGINE": "vm", "ROLLOUT_TEMPLATE": "suite", "CLOCHE_PROGRAM": str(BUILD / "cloche")}


IN_VMS = pytest.mark.skipif(not os.environ.get("CLOCHE_TEST_ROLLOUTS_VM"), reason="it is run by make test-rollouts-vm")


@IN_VMS
@pytest.mark.parametrize("name", ["inspect", "inspect_suite", "swerex", "verifiers"])
def test_an_adapter_works_in_vms(env, machines, name):
    said = check({**env, **machines}, name, "-k", "not scored", seconds=VM_S)
    assert name != "inspect_suite" or "44 passed" in said


@IN_VMS
def test_harbor_s_trials_run_in_vms(harbor, machines, tmp_path):
    own = {"PYTHONPATH": str(ROOT / "sdk" / "python"), "PYTHONDONTWRITEBYTECODE": "1", "HOME": str(tmp_path)}
    check({**os.environ, **own, **machines}, "harbor", python=harbor, seconds=VM_S)


@pytest.mark.parametrize("words", ["ClocheDeployment", "cloche_runtime"])
def test_the_guide_s_programs_run(env, tmp_path, words):
    (sample,) = blocks(words)
    follow(env, tmp_path, sample)


def test_the_guide_s_task_of_inspect_s_is_done_and_leaves_nothing(env, client, tmp_path):
    (sample,) = blocks("inspect eval")
    follow(env, tmp_path, sample)
    assert not live(client, "inspect:sorting")


SLEEPS = """
import asyncio
import cloche.integrations._rollouts as rollouts
from inspect_ai import Task, task
from inspect_ai.dataset import Sample
from inspect_ai.solver import solver
from inspect_ai.util import sandbox

rollouts.LEASE_S = SECONDS

@solver
def sleeps():
    async def solve(state, generate):
        await sandbox().write_file("begun", "")
        WORK
        return state
    return solve

@task
def endless():
    return Task(dataset=[Sample(input="x")], solver=sleeps(), sandbox="cloche")
"""


def hears_interrupts():
    """Whoever started these tests may not."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@pytest.fixture
def endless(env, client, tmp_path):
    """A function that starts `inspect eval` of a task that does `work`, and gives its process and its sandbox."""
    started, made = [], []

    def start(work, *words, lease=600):
        (tmp_path / "endless.py").write_text(SLEEPS.replace("SECONDS", str(lease)).replace("WORK", work))
        words = ["inspect", "eval", "endless.py", "--model", "mockllm/model", "--display", "plain", *words]
        started.append(subprocess.Popen(words, env=env, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, preexec_fn=hears_interrupts))
        wait_until(lambda: started[-1].poll() is not None or any(s.files.exists("begun") for s in live(client, "inspect:endless")))
        assert started[-1].poll() is None, started[-1].stdout.read()
        made.extend(live(client, "inspect:endless"))
        return started[-1], made[-1]

    yield start
    for process in started:
        process.kill()
        process.communicate()
    for sandbox in made:
        end(sandbox)  # one that ended by itself has left what it printed


def test_a_sample_that_is_interrupted_deletes_its_sandbox(endless):
    process, sandbox = endless("await sandbox().exec(['sleep', '7654'])")
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=120 * PATIENCE)
    assert sandbox.refresh().ended["cause"] == "deleted"


def test_a_sandbox_outlives_its_lease_while_inspect_runs_and_ends_when_it_is_killed(endless):
    process, sandbox = endless("await sandbox().exec(['sleep', '7654'])", lease=4)
    first = sandbox.refresh().expires_us
    wait_until(lambda: sandbox.refresh().expires_us > first + 4_000_000)  # it is renewed, past its first end
    assert sandbox.info.state == "running"
    process.kill()
    wait_until(lambda: sandbox.refresh().ended is not None)
    assert sandbox.info.ended["cause"] == "timeout"


def test_without_cleanup_the_sandbox_stays_and_is_named(endless):
    process, sandbox = endless("await asyncio.sleep(1)", "--no-sandbox-cleanup", "--sandbox", "cloche")
    said, _ = process.communicate(timeout=120 * PATIENCE)
    assert process.returncode == 0 and f"cloche shell {sandbox.id}" in said, said
    assert sandbox.refresh().ended is None and 3500 < (sandbox.info.expires_us - time.time() * 1e6) / 1e6 <= 3600
