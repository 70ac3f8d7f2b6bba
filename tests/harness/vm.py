# SPDX-License-Identifier: Apache-2.0
"""A daemon whose sandboxes can be vms: with a guest kernel, fetched once per build directory, and a template small enough to boot."""

import shutil
import subprocess

import pytest

from harness.daemon import BUILD, IS_SANITIZED, ROOT, Daemon

# A root of some 2 MB: a busybox, and what the agent needs of a machine.
MAKE_TREE = """
set -e
mkdir -p /template/bin /template/etc
cp /bin/busybox /template/bin/
for i in sh bash cat ls id rm env pwd sleep echo touch true mkdir uname df dd nproc hostname mount kill head sync ps; do
    ln -s busybox /template/bin/$i
done
for i in $(ldd /opt/cloche/bin/sudo 2>/dev/null | grep -o "/[^ ]*"); do cp --parents -L $i /template; done
printf 'root:x:0:0::/root:/bin/sh\\nuser:x:1000:1000::/home/user:/bin/sh\\n' > /template/etc/passwd
"""


def need_vms():
    """Skips where the host cannot have vms; the daemon itself says how to change that."""
    if IS_SANITIZED:
        pytest.skip("a sanitized agent needs libraries, and there are none where a kernel starts it")
    if not shutil.which("qemu-system-x86_64") and not shutil.which("qemu-system-aarch64"):
        pytest.skip("no QEMU")
    made = subprocess.run([ROOT / "tools/guest-kernel", BUILD / "guest"], capture_output=True, text=True, timeout=300)
    if made.returncode:
        pytest.skip("no guest kernel: " + made.stderr.strip()[-200:])


def vm_daemon(*options, **fields):
    """One that is emulated: the same on every host."""
    daemon = Daemon("--vm-emulate", "--pool-max", "0", *options, **fields)
    daemon.data.mkdir(mode=0o711, parents=True)
    (daemon.data / "kernels").symlink_to(BUILD / "guest/kernels")
    return daemon


def make_template(client, name):
    with client.create(template="host") as sandbox:
        made = sandbox.run(["sh", "-c", MAKE_TREE], user="root")
        assert made.exit_code == 0, made.stderr
        client.create_template(name, sandbox, tree=True)
