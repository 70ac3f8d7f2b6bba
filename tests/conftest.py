# SPDX-License-Identifier: Apache-2.0
"""Fixtures of all Python suites: one daemon for the session, a sandbox per test and engine, and an
audit of the host around every test."""

import os
import shutil
import uuid
from contextlib import contextmanager

import pytest
from cloche import Client

from harness import audit
from harness.daemon import PATIENCE, ROOT, SANDBOX_ENV, Daemon, end
from harness.internet import Internet
from harness.npm import NPM, run
from harness.running import running
from harness.vm import MAKE_SUITE_TREE, VM_OPTIONS, Machines, give_kernel, make_template, need_vms
from harness.walled import Walled

TYPESCRIPT = ROOT / "sdk" / "typescript"
# What the sandboxes that fixtures make are: vms start from a template that these tests make for them.
ENGINE = os.environ.get("CLOCHE_ENGINE", "jail")
TEMPLATE = {"jail": None, "vm": "suite"}[ENGINE]
CALL_S = {"jail": 60, "vm": 150}[ENGINE] * PATIENCE


@contextmanager
def of_suite(daemon):
    """A daemon that runs, with what its sandboxes start from."""
    if ENGINE == "vm":
        need_vms()
        give_kernel(daemon)
    with running(daemon):
        if ENGINE == "vm":
            with Client(f"unix:{daemon.socket}", daemon.key, timeout=CALL_S) as client:
                make_template(client, TEMPLATE, MAKE_SUITE_TREE)
        yield daemon


def pytest_collection_modifyitems(items):
    for item in items:
        if ENGINE == "vm" and (mark := item.get_closest_marker("jail")):
            item.add_marker(pytest.mark.skip(reason=f"not on a vm: {mark.args[0]}"))


@pytest.fixture(scope="session")
def daemon():
    pool = VM_OPTIONS if ENGINE == "vm" else ("--pool-min", "2", "--pool-max", "2")  # as many before a test as after it
    with of_suite(Daemon(*pool)) as daemon:
        yield daemon


@pytest.fixture(scope="session")
def client(daemon):
    with Client(daemon.url, daemon.key, timeout=CALL_S) as client:
        yield client


@pytest.fixture
def engine():
    return ENGINE


@pytest.fixture
def template():
    """What sandboxes of the engine start from; None: the default."""
    return TEMPLATE


@pytest.fixture(scope="session")
def machines(client):
    machines = Machines(client, TEMPLATE, SANDBOX_ENV)
    yield machines
    machines.close()


@pytest.fixture
def sandbox(request, client, engine):
    if engine == "vm":
        machines = request.getfixturevalue("machines")
        sandbox = machines.take()
        yield sandbox
        machines.give(sandbox)
        return
    with client.create(engine=engine, env=SANDBOX_ENV) as sandbox:
        yield sandbox


@pytest.fixture
def make_sandbox(client, engine):
    """A function that makes sandboxes with given fields; all are deleted at the end."""
    made = []

    def make(**fields):
        sandbox = client.create(**{"engine": engine, "template": TEMPLATE, **fields})
        made.append(sandbox)
        return sandbox

    yield make
    for sandbox in made:
        end(sandbox)


@pytest.fixture(scope="session")
def project_keys(client):
    """Secrets by scope: read, write and admin of the project default, and `other` of another one."""
    secrets = {s: client.create_key(f"test-{s}", scope=s)["secret"] for s in ("read", "write", "admin")}
    project = client.create_project(f"other-{uuid.uuid4().hex[:8]}")
    secrets["other"] = client.create_key("other", scope="write", project=project["id"])["secret"]
    return secrets


@pytest.fixture(scope="session")
def internet():
    """Servers in a namespace of the test's own, and another for a daemon that reaches them."""
    internet = Internet()
    yield internet
    internet.close()


@pytest.fixture(scope="session")
def walled_daemon(internet):
    with of_suite(internet.daemon(*(VM_OPTIONS if ENGINE == "vm" else ()), "--network-never", "93.184.216.99/32")) as daemon:
        yield daemon


@pytest.fixture(scope="session")
def walled_client(walled_daemon):
    with Client(f"unix:{walled_daemon.socket}", walled_daemon.key, timeout=CALL_S) as client:
        yield client


@pytest.fixture(scope="session")
def walled_machines(walled_client):
    machines = Machines(walled_client, TEMPLATE, SANDBOX_ENV)
    yield machines
    machines.close()


@pytest.fixture
def walled(request, walled_client, internet, engine):
    """A function that makes a sandbox with a policy, behind the wall of a daemon that has an internet."""
    made, taken = [], []

    def make(policy=None, **fields):
        internet.set_zone({})
        if engine == "vm" and not fields:
            sandbox = request.getfixturevalue("walled_machines").take()
            taken.append(sandbox)
            sandbox.set_network(policy or "deny-all")
            return Walled(sandbox)
        sandbox = walled_client.create(engine=engine, template=TEMPLATE, network=policy, env=SANDBOX_ENV, **fields)
        made.append(sandbox)
        return Walled(sandbox)

    yield make
    for sandbox in made:
        end(sandbox)
    for sandbox in taken:
        request.getfixturevalue("walled_machines").give(sandbox)


@pytest.fixture(scope="session")
def typescript_package(tmp_path_factory):
    """The tarball of the TypeScript SDK that would be published."""
    copy = tmp_path_factory.mktemp("sdk")
    shutil.copytree(TYPESCRIPT, copy, dirs_exist_ok=True, ignore=shutil.ignore_patterns("node_modules", "dist"))
    run(*NPM, "ci", cwd=copy)
    run(*NPM, "pack", cwd=copy)
    (package,) = copy.glob("cloche-*.tgz")
    return package


@pytest.fixture
def environment(daemon):
    """Of programs that use the daemon as its users' do."""
    return {**os.environ, "CLOCHE_URL": daemon.url, "CLOCHE_API_KEY": daemon.key}


# The picture after a test is the one before the next, unless a fixture of several tests comes or goes in between.
last_picture = []


def pytest_fixture_setup(fixturedef):
    if fixturedef.scope != "function":
        last_picture.clear()


def pytest_fixture_post_finalizer(fixturedef):
    if fixturedef.scope != "function":
        last_picture.clear()


@pytest.fixture(autouse=True)
def host_is_left_as_it_was(request):
    """Fails a test that leaves a process, mount, cgroup, loop device, file or fd behind."""
    is_shared = ENGINE == "vm"  # machines go from test to test: the end of the session tells
    if is_shared or ("daemon" not in request.fixturenames and "client" not in request.fixturenames):
        yield
        return
    daemon = request.getfixturevalue("daemon")
    before = last_picture.pop() if last_picture else audit.picture(daemon)
    yield
    left, after = audit.settled_leaks(daemon, before)
    last_picture[:] = [after]
    assert not left, "left on the host: " + ", ".join(left)
