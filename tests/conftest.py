# SPDX-License-Identifier: Apache-2.0
"""Fixtures of all Python suites: one daemon for the session, a sandbox per test and engine, and an
audit of the host around every test."""

import os
import shutil
import sys
import uuid
from contextlib import contextmanager, suppress

import pytest
from cloche import Client

from harness import audit, progress
from harness.daemon import ENGINE, PATIENCE, ROOT, SANDBOX_ENV, Crashed, Daemon, check_parts, end, remove_abandoned
from harness.internet import Internet
from harness.npm import NPM, made_once, run
from harness.running import running
from harness.turns import check_turns
from harness.vm import MAKE_SUITE_TREE, WARM_OPTIONS, await_warm_copy, give_kernel, make_template, need_vms
from harness.walled import Walled

# What pytest makes of the tests is kept there for its other processes. Programs that tests start keep nothing.
if place := os.environ.get("CLOCHE_BYTECODE"):
    sys.pycache_prefix, sys.dont_write_bytecode = place, False

TYPESCRIPT = ROOT / "sdk" / "typescript"
# What the sandboxes that fixtures make are: vms start from a template that these tests make for them.
TEMPLATE = {"vm": "suite", "bare": "host"}.get(ENGINE)
CALL_S = 60 * PATIENCE


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
                await_warm_copy(client, TEMPLATE)
        yield daemon


def pytest_configure(config):
    config.pluginmanager.register(progress)
    if "PYTEST_XDIST_WORKER" not in os.environ:
        remove_abandoned()


def has_machine(item):
    """Is its sandbox one that the engine is chosen for, or a vm by its own word?"""
    return not {"engine", "sandbox", "make_sandbox", "walled"}.isdisjoint(item.fixturenames) or hasattr(item.module, "need_vms")


def pytest_collection_modifyitems(config, items):
    """With vms for sandboxes: what has no sandbox, or jails by its own word, is the same as without. With the tests' own engine: what every engine promises."""
    if ENGINE == "bare":
        config.hook.pytest_deselected(items=[item for item in items if not item.get_closest_marker("neutral")])
        items[:] = [item for item in items if item.get_closest_marker("neutral")]
    if ENGINE != "vm":
        return
    config.hook.pytest_deselected(items=[item for item in items if not has_machine(item)])
    items[:] = [item for item in items if has_machine(item)]
    for item in items:
        if mark := item.get_closest_marker("jail"):
            item.add_marker(pytest.mark.skip(reason=f"not on a vm: {mark.args[0]}"))


@pytest.fixture(scope="session")
def daemon():
    pool = WARM_OPTIONS if ENGINE == "vm" else ("--pool-min", "2", "--pool-max", "2")  # as many before a test as after it
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


@pytest.fixture
def sandbox(client, engine):
    with client.create(engine=engine, template=TEMPLATE, env=SANDBOX_ENV) as sandbox:
        yield sandbox


@pytest.fixture
def make_sandbox(client, engine):
    """A function that makes sandboxes with given fields; all are deleted at the end."""
    made = []

    def make(**fields):
        origin = {} if "snapshot" in fields else {"template": TEMPLATE}
        sandbox = client.create(**{"engine": engine, **origin, **fields})
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
    with of_suite(internet.daemon(*(WARM_OPTIONS if ENGINE == "vm" else ()), "--network-never", "93.184.216.99/32", "--identity-issuer", "https://cloche.test")) as daemon:
        yield daemon


@pytest.fixture(scope="session")
def walled_client(walled_daemon):
    with Client(f"unix:{walled_daemon.socket}", walled_daemon.key, timeout=CALL_S) as client:
        yield client


@pytest.fixture
def walled(walled_client, internet, engine):
    """A function that makes a sandbox with a policy, behind the wall of a daemon that has an internet."""
    made = []

    def make(policy=None, **fields):
        internet.set_zone({})
        origin = {} if "snapshot" in fields else {"template": TEMPLATE}
        sandbox = walled_client.create(**{"engine": engine, "network": policy, "env": SANDBOX_ENV, **origin, **fields})
        made.append(sandbox)
        return Walled(sandbox)

    yield make
    for sandbox in made:
        end(sandbox)


@pytest.fixture(scope="session")
def typescript_package(tmp_path_factory):
    """The tarball of the TypeScript SDK that would be published."""

    def make(copy):
        shutil.copytree(TYPESCRIPT, copy, dirs_exist_ok=True, ignore=shutil.ignore_patterns("node_modules", "dist"))
        run(*NPM, "ci", cwd=copy)
        run(*NPM, "pack", cwd=copy)

    (package,) = made_once(tmp_path_factory, "sdk", make).glob("cloche-*.tgz")
    return package


@pytest.fixture
def environment(daemon):
    """Of programs that use the daemon as its users' do."""
    return {**os.environ, "CLOCHE_URL": daemon.url, "CLOCHE_API_KEY": daemon.key}


@pytest.fixture
def e2b_settings(daemon):
    """The variables that lead E2B's clients to it."""
    return {"E2B_API_URL": daemon.url, "E2B_SANDBOX_URL": daemon.url, "E2B_API_KEY": f"e2b_{daemon.key.removeprefix('clo_')}"}


LOG_LINES = 15


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_makereport(item, call):
    """What a daemon wrote last is told with a failure, as output of the test's own."""
    if not call.excinfo or call.excinfo.errisinstance(pytest.skip.Exception):
        return
    for daemon in {d for d in getattr(item, "funcargs", {}).values() if isinstance(d, Daemon)}:
        item.add_report_section(call.when, "stdout of the daemon,", "\n".join(daemon.log().splitlines()[-LOG_LINES:]))


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_teardown(item):
    """A test during which a part of a daemon crashed fails with the daemon's log. No later test uses what has crashed: all fixtures
    end here, those of the session too, and the next test starts a daemon of its own."""
    try:
        check_parts()
    except Crashed as crashed:
        with suppress(Exception):  # what they find follows from the crash
            item.session._setupstate.teardown_exact(None)
        Daemon.started.clear()
        raise crashed from None


# The picture after a test is the one before the next, unless a fixture of several tests comes or goes in between.
last_picture = []


def pytest_fixture_setup(fixturedef):
    if fixturedef.scope != "function":
        last_picture.clear()


def pytest_fixture_post_finalizer(fixturedef):
    if fixturedef.scope != "function":
        last_picture.clear()


@pytest.fixture(autouse=True)
def turns_are_short(request):
    """Fails a test during which everybody waited for one callback of a daemon's loop. Where a test makes the host itself slow (chaos), nothing is said."""
    yield
    check_turns(is_strict=bool(request.node.get_closest_marker("turns")), is_told="chaos" not in request.path.parts)


@pytest.fixture(autouse=True)
def host_is_left_as_it_was(request):
    """Fails a test that leaves a process, mount, cgroup, loop device, file or fd behind."""
    is_busy = ENGINE == "vm"  # spares and warm copies come and go by themselves: the end of the session tells
    if is_busy or ("daemon" not in request.fixturenames and "client" not in request.fixturenames):
        yield
        return
    daemon = request.getfixturevalue("daemon")
    before = last_picture.pop() if last_picture else audit.picture(daemon)
    yield
    left, after = audit.settled_leaks(daemon, before)
    last_picture[:] = [after]
    assert not left, "left on the host: " + ", ".join(left)
