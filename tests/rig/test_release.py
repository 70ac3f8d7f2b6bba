# SPDX-License-Identifier: Apache-2.0
"""What else a sandbox can do, on a host of another release than the suites': with its own programs, libraries, CRIU and languages (template `host`). On jails;
what an engine does by itself is in test_smoke.py."""

import shutil
import urllib.request

import pytest
from cloche import Client, errors

from harness.daemon import Daemon, end, wait_for
from harness.running import running

# A cell of each language that tells what the one before it has left, and what it says.
LANGUAGES = {
    "python": ("python3", "x = 41", "print(x + 1)"),
    "javascript": ("node", "let x = 41", "console.log(x + 1)"),
    "typescript": ("node", "let x: number = 41", "console.log(x + 1)"),
    "bash": ("bash", "x=41", "echo $((x + 1))"),
    "r": ("Rscript", "x <- 41", "cat(x + 1, '\\n')"),
    "java": ("java", "int x = 41;", "System.out.println(x + 1);"),
}


@pytest.fixture(scope="module")
def rig():
    with running(Daemon("--pool-max", "0")) as daemon:
        yield daemon


@pytest.fixture(scope="module")
def rig_client(rig):
    with Client(f"unix:{rig.socket}", rig.key, timeout=900) as client:
        yield client


@pytest.fixture(scope="module")
def sandbox(rig_client):
    with rig_client.create(template="host", limits={"memory_mib": 1024, "pids": 256}, timeout=7200) as sandbox:
        yield sandbox


def run_cell(sandbox, code, language):
    """An interpreter has half a minute to start, which an emulated host may not be able to keep: then it is started again."""

    def attempt():
        try:
            return sandbox.run_code(code, language=language, timeout=600)
        except errors.Unavailable:
            return None

    return wait_for(attempt, what=language)


@pytest.mark.parametrize("language", LANGUAGES)
def test_cells_of_every_language_share_their_state(sandbox, language):
    program, first, second = LANGUAGES[language]
    assert shutil.which(program), f"this host has no {program}: tools/test-rig installs it"
    told = run_cell(sandbox, first, language).error
    if language == "typescript" and told:  # Debian's own Node is older than that
        assert "needs Node" in told.message
        return
    assert told is None
    assert run_cell(sandbox, second, language).stdout.strip() == "42"


def test_what_runs_is_saved_to_disk_and_goes_on(rig_client):
    with rig_client.create(template="host", timeout=7200) as sandbox:
        counting = sandbox.start("i=0; while true; do i=$((i+1)); echo $i > n; sleep 0.1; done")
        count = lambda: int(sandbox.run("cat n").stdout or 0)  # noqa: E731
        before = wait_for(count, what="a count")
        assert sandbox.pause(to="disk").paused_to == "disk"
        assert sandbox.resume().state == "running"
        after = count()
        assert after >= before and wait_for(lambda: count() > after, what="a higher count")
        counting.kill()


def test_a_snapshot_starts_others(rig_client):
    with rig_client.create(template="host", timeout=7200) as source:
        source.files.write("/home/user/note", b"saved")
        sleeper = source.start("exec sleep 7201")
        snapshot = source.snapshot(memory=True)["id"]
        source.files.write("/home/user/note", b"later")
        sleeper.kill()
    try:
        with rig_client.create(snapshot=snapshot, timeout=7200) as copy:
            assert copy.files.read("/home/user/note") == b"saved"
            assert "sleep 7201" in copy.run("cat /proc/[0-9]*/cmdline | tr '\\0' ' '").stdout
    finally:
        rig_client.delete_snapshot(snapshot)


def test_copies_have_numbers_of_their_own(rig_client):
    with rig_client.create(template="host", timeout=7200) as source:
        run_cell(source, "import uuid, random; seen = uuid.uuid4(), random.random()", "python")
        forks = source.fork(2)
        try:
            told = {run_cell(one, "print(uuid.uuid4(), random.random())", "python").stdout for one in (source, *forks)}
            assert len(told) == 3
        finally:
            for fork in forks:
                end(fork)


def test_a_volume_outlives_its_sandbox(rig_client):
    name = rig_client.create_volume("kept")["name"]
    try:
        with rig_client.create(template="host", volumes={"/data": name}) as first:
            assert first.run("echo kept > /data/note").exit_code == 0
        with rig_client.create(template="host", volumes={"/data": name}) as second:
            assert second.run("cat /data/note").stdout == "kept\n"
    finally:
        rig_client.delete_volume(name)


def test_the_dashboard_is_served(rig):
    with urllib.request.urlopen(rig.url, timeout=300) as reply:
        assert reply.status == 200 and "<title>cloche" in reply.read().decode().lower()
