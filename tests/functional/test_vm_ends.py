# SPDX-License-Identifier: Apache-2.0
"""How a vm ends that nobody ended: each way has its own cause. Nothing inside can bring these about, so the agent of these vms is a frail one
(tests/security/frail-init.c)."""

import contextlib
import os
import shutil
import signal
import struct

import pytest
from cloche import Client, errors

from harness import audit
from harness.daemon import BUILD, children_of, wait_for
from harness.vm import CLIENT_S, make_template, need_vms, vm_daemon, vmm_of

pytestmark = pytest.mark.slow

# A boot, or more than a minute of silence, each.
whole = pytest.mark.skipif(os.environ.get("CLOCHE_ENGINE") != "vm", reason="takes its time: a part of `make test-vm`")
LIMITS = {"memory_mib": 128, "disk_mib": 32, "pids": 64}
END_S = 60
HANG_S = 150  # a minute of silence, after a ping that had its time


def frail_programs(directory):
    """The daemon's programs, with another agent beside them."""
    for name in ("cloche", "cloche-vmm"):
        shutil.copy(BUILD / name, directory / name)
    (directory / "kernels-beside").symlink_to(os.path.realpath(BUILD / "kernels-beside"))
    agent = (BUILD / "cloche-agent").read_bytes()
    stub = (BUILD / "tests/security/frail-init").read_bytes()
    (directory / "cloche-agent").write_bytes(stub + agent + struct.pack("=Q", len(agent)))
    (directory / "cloche-agent").chmod(0o755)
    return directory / "cloche"


@pytest.fixture(scope="module")
def frail(tmp_path_factory):
    need_vms()
    daemon = vm_daemon().start()
    with Client(daemon.url, daemon.key) as client:
        make_template(client, "tiny")
    assert daemon.stop() == 0
    daemon.program = frail_programs(tmp_path_factory.mktemp("frail"))
    daemon.start()
    try:
        yield daemon
        ids = daemon.ids()
    finally:
        status = daemon.stop()
    left = audit.left_after_stop(daemon, ids)
    daemon.remove()
    assert status == 0 and not left, (status, left)


@pytest.fixture(scope="module")
def frail_client(frail):
    with Client(frail.url, frail.key, timeout=CLIENT_S) as client:
        yield client


@pytest.fixture
def machine(frail_client):
    with frail_client.create(engine="vm", template="tiny", limits=LIMITS, timeout=600) as sandbox:
        yield sandbox


def ended(client, machine, seconds=END_S):
    """(cause, machine's word, what is said of it)"""
    end = wait_for(lambda: client.get(machine.id).info.ended, seconds, "its end")
    return end["cause"], end["detail"]["machine"], end["message"]


@pytest.mark.parametrize("fate", ["init", pytest.param("panic", marks=whole)])
def test_a_vm_whose_kernel_or_init_dies_ends_with_that_cause(frail_client, machine, fate):
    """The kernel gives up in both cases: it lives no longer than its init."""
    running = machine.start("echo begun; sleep 1000")
    assert next(iter(running.output())).data == b"begun\n"
    with contextlib.suppress(errors.ClocheError):  # it may be gone before it answers
        machine.files.write("/home/user/fate", fate.encode())
    cause, word, message = ended(frail_client, machine)
    assert (cause, word) == ("guest_crash", "panic") and "kernel" in message
    assert frail_client.get(machine.id).exec(running.id).info.ended["cause"] == "guest_crash"


@whole
def test_a_vm_that_answers_no_more_ends_with_that_cause(frail_client, machine):
    assert machine.run("echo on").stdout == "on\n"
    os.kill(children_of(vmm_of(machine))[0], signal.SIGSTOP)
    cause, word, _ = ended(frail_client, machine, HANG_S)
    assert (cause, word) == ("guest_crash", "hang")
