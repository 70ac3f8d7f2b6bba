# SPDX-License-Identifier: Apache-2.0
"""Assume breach: the probe in QEMU's place, as if a guest had taken it over. The daemon is a real one, and so is all that it puts around QEMU; only the
program of that name is another, in a /usr of this daemon's own."""

import contextlib
import json
import os
import shutil
import subprocess
import tempfile
import threading

import pytest
from cloche import Client, errors

from harness import audit
from harness.daemon import BUILD, Daemon, children_of, read_text, wait_for
from harness.vm import CLIENT_S, VM_OPTIONS, give_kernel, make_template, need_vms

pytestmark = pytest.mark.slow

QEMU = f"bin/qemu-system-{os.uname().machine}"
# Files as links: no copies. What is not named is not needed to start a daemon, a jail and a vm.
PARTS = ["bin", "sbin", f"lib/{os.uname().machine}-linux-gnu", "lib64", "lib/ssl", "share/qemu", "share/seabios"]
IN_ITS_PLACE = 'mount --bind "$0" /usr && exec "$@"'


@pytest.fixture(scope="module")
def taken_over():
    """A daemon whose QEMU is the probe."""
    need_vms()
    with tempfile.TemporaryDirectory(prefix="cloche-usr-", dir="/var/tmp") as usr:
        for part in PARTS:
            if os.path.isdir(f"/usr/{part}"):
                os.makedirs(os.path.dirname(f"{usr}/{part}"), exist_ok=True)
                subprocess.run(["cp", "-a", "--link", f"/usr/{part}", f"{usr}/{part}"], check=True)
        os.chmod(usr, 0o755)
        os.unlink(f"{usr}/{QEMU}")
        shutil.copy(BUILD / "tests/security/probe", f"{usr}/{QEMU}")
        daemon = give_kernel(Daemon(*VM_OPTIONS, prefix=["unshare", "--mount", "sh", "-c", IN_ITS_PLACE, usr])).start()
        try:
            yield daemon
            ids = daemon.ids()
        finally:
            status = daemon.stop()
        left = audit.left_after_stop(daemon, ids)
        daemon.remove()
    assert status == 0 and not left, (status, left)


def qemu_of(daemon):
    """(pid, path of the sandbox's disk) of the one that runs."""
    for id in os.listdir(daemon.run / "sandboxes"):
        for pid in audit.processes_of_cgroups({id}):
            for child in children_of(pid) if read_text(f"/proc/{pid}/comm") == "cloche-vmm\n" else []:
                for fd in os.listdir(f"/proc/{child}/fd"):
                    with contextlib.suppress(OSError):
                        if os.readlink(f"/proc/{child}/fd/{fd}").endswith("/disk"):
                            return child, f"/proc/{child}/fd/{fd}"
    return None


@pytest.fixture(scope="module")
def found(taken_over):
    """What the probe could do there, by attempt: an errno, or '' where it could."""
    with Client(taken_over.url, taken_over.key, timeout=CLIENT_S) as client:
        make_template(client, "tiny")

        def create():
            with contextlib.suppress(errors.ClocheError):  # no guest will ever answer
                client.create(engine="vm", template="tiny", limits={"memory_mib": 128, "disk_mib": 32})

        thread = threading.Thread(target=create)
        thread.start()
        pid, disk = wait_for(lambda: qemu_of(taken_over), 60, "the probe")
        wait_for(lambda: '"probe":"over"' in read_text(disk), 60, "its last words")
        lines = [json.loads(line) for line in read_text(disk).splitlines()]
        os.kill(pid, 9)
        thread.join()
    return {line["probe"]: line.get("errno", line.get("text")) for line in lines}


def of(found, *kinds):
    return {name for name in found if name.partition(":")[0] in kinds}


def test_E47_who_has_taken_qemu_over_sees_nothing_but_qemus_own_files(found):
    assert of(found, "root") == {f"root:{n}" for n in ("dev", "lib", "lib64", "proc", "usr")}
    assert of(found, "dev") == {"dev:null", "dev:urandom", "dev:zero"}
    assert of(found, "bin") == {f"bin:{os.path.basename(QEMU)}"} and found["shell"] == "ENOENT"
    # No process but cloche-vmm and its own.
    assert {n for n in of(found, "proc") if n[5:].isdigit()} == {"proc:1", "proc:2"} and found["kill_others"] == "ESRCH"
    for name in of(found, "read"):
        assert found[name] in ("ENOENT", "EACCES"), name
    fds = {name: target for name, target in found.items() if name.startswith("fd:")}
    allowed = ("socket:", "/memfd:", "/dev/null", "/", "pipe:")
    assert all(target.startswith(allowed) for target in fds.values()), fds


def test_E47_who_has_taken_qemu_over_can_do_nothing_to_its_host(found, control):
    tried = of(found, "reopen", "write", "chmod", "mkdir", "route", "write_open", "unshare", "clone", "setns", "mount", "chroot", "kill_others")
    assert len(tried) > 45
    assert {name: found[name] for name in tried if not found[name]} == {}
    outside = control("breach")
    could = {name for name, line in outside.items() if line.get("errno") == ""}
    assert {"mkdir:/", "mkdir:/usr", "shell", "root:etc", "bin:sh"} <= could, "the probe itself can do it where nothing holds it"


def test_E47_S07_who_has_taken_qemu_over_writes_to_no_file_that_others_have(found):
    for name in ("kernel", "initrd", "template", "fittings"):
        assert {found[f"{how}:{name}"] for how in ("write", "reopen", "chmod")} <= {"EBADF", "EACCES", "EROFS", "EPERM"}, name
