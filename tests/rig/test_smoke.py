# SPDX-License-Identifier: Apache-2.0
"""The promises that depend most on kernel, processor and cgroups, on an emulated host (tests/rig/boot): CLOCHE_ENGINE says which engine's. On a vm
it is KVM that runs it, else nothing of this passes."""

import contextlib
import os
import platform

import pytest
from cloche import Client, errors

from harness import audit
from harness.daemon import end
from harness.internet import ALLOWED, OTHER
from harness.running import running
from harness.vm import give_kernel, make_template, tree_with_python
from harness.walled import Walled

ENGINE = os.environ.get("CLOCHE_ENGINE", "jail")
GRADE = {"vm": "hardware", "jail": "process"}[ENGINE]
PROGRAMS = "bash cat echo env id kill mkdir ls python3 rm setsid sh sleep uname"
MAKE_TREE = tree_with_python(PROGRAMS)
POLICY = {"allow": ["allowed.test"]}
REQUEST = "GET / HTTP/1.1\\r\\nHost: allowed.test\\r\\n\\r\\n"
LIMITS = {"memory_mib": 256, "disk_mib": 128, "pids": 64}


@pytest.fixture(scope="module")
def rig(internet):
    with running(give_kernel(internet.daemon("--pool-max", "0", "--vm-boot-max", "40m"))) as daemon:
        yield daemon


@pytest.fixture(scope="module")
def rig_client(rig):
    with Client(f"unix:{rig.socket}", rig.key, timeout=600) as client:
        make_template(client, "suite", MAKE_TREE)
        yield client


@pytest.fixture(scope="module")
def sandbox(rig_client):
    with rig_client.create(engine=ENGINE, template="suite", limits=LIMITS, timeout=7200) as sandbox:
        yield sandbox


def test_a_sandbox_is_of_the_grade_that_was_asked_for(rig, sandbox):
    isolation = sandbox.info.isolation
    assert (isolation["engine"], isolation["grade"]) == (ENGINE, GRADE), rig.log()[-4000:]
    if ENGINE == "vm":  # whose kernel may be of the same version
        assert rig.log_of("vm.kvm_served")
    else:
        assert sandbox.run("uname -r").stdout.strip() == platform.release()
    assert sandbox.run("uname -m").stdout.strip() == platform.machine()


def test_commands_run_and_files_are_carried(sandbox):
    done = sandbox.run("id -u; echo err >&2; exit 3")
    assert (done.exit_code, done.stdout, done.stderr) == (3, "1000\n", "err\n")
    body = bytes(range(256)) * 1024
    sandbox.files.write("/home/user/blob", body)
    assert sandbox.files.read("/home/user/blob") == body


def await_interpreter(sandbox):
    """It has half a minute to start, which an emulated host beside other work may not be able to keep: then it is started again."""
    for _ in range(10):
        with contextlib.suppress(errors.Unavailable):
            return sandbox.run_code("None", timeout=300)
    raise AssertionError("no interpreter in ten tries")


def test_code_keeps_its_state(sandbox):
    await_interpreter(sandbox)
    assert sandbox.run_code("x = 41", timeout=300).error is None
    assert sandbox.run_code("x + 1", timeout=300).text == "42"


def test_a_fork_goes_on_where_its_source_was(sandbox):
    sandbox.run_code("y = 'kept'", timeout=300)
    sandbox.files.write("/home/user/note", b"forked")
    (fork,) = sandbox.fork(1)
    try:
        assert fork.files.read("/home/user/note") == b"forked"
        assert fork.run_code("y", timeout=300).text == "'kept'"
        fork.files.write("/home/user/note", b"its own")
        assert sandbox.files.read("/home/user/note") == b"forked"
        assert fork.info.isolation["grade"] == GRADE
    finally:
        end(fork)


def test_a_pause_stops_all_and_a_resume_goes_on(sandbox):
    counting = sandbox.start("i=0; while true; do i=$((i+1)); echo $i; sleep 0.1; done")
    output = (e for e in counting.output() if e.type == "stdout")
    next(output)
    assert sandbox.pause().state == "paused"
    assert sandbox.resume().state == "running"
    next(output)
    counting.kill()
    assert counting.wait(60).signal == 9


def test_the_wall_lets_through_what_the_policy_allows_and_nothing_else(internet, sandbox):
    for address in (ALLOWED, OTHER):  # they are there, without a wall
        assert internet.run("curl", "-sf", "-m", "120", f"http://{address}/").returncode == 0
    walled = Walled(sandbox)
    sandbox.set_network("deny-all")
    assert walled.raw(ALLOWED, REQUEST)[0] != 200
    sandbox.set_network(POLICY)
    assert walled.get("allowed.test")[0] == 200
    assert walled.raw(OTHER, REQUEST.replace("allowed", "other"))[0] != 200
    sandbox.set_network("deny-all")


def test_a_limit_that_a_command_meets_is_its_cause(sandbox):
    eaten = sandbox.run(["python3", "-c", "x = []\nwhile True: x.append(b'x' * (1 << 20))"], timeout=1200)
    assert eaten.cause == "oom"
    assert sandbox.run("echo on").stdout == "on\n"


def test_a_kill_takes_all_and_leaves_nothing(rig_client, engine):
    sandbox = rig_client.create(engine=engine, template="suite", limits=LIMITS, timeout=7200)
    sandbox.start("setsid sleep 1000 & sleep 1000")
    sandbox.delete()
    assert not audit.processes_of_cgroups({sandbox.id})
    assert not audit.cgroup_dirs({sandbox.id})
