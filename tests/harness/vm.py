# SPDX-License-Identifier: Apache-2.0
"""A daemon whose sandboxes can be vms: with a guest kernel, fetched once per build directory, and a template small enough to boot."""

import os
import shutil
import subprocess

import pytest

from harness.daemon import BUILD, IS_SANITIZED, ROOT, Daemon, read_text, wait_for

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


# Programs that the suites run inside, with their libraries, and Python's own modules, compiled: an emulated start would take a minute without.
PROGRAMS = """
awk base64 basename bash busybox cat chmod chown cksum cmp comm cp curl cut date dd df diff dirname du echo env expand expr false find flock fold free
getconf getent git grep gzip head hostname id install ip join kill less link ln ls md5sum mkdir mkfifo mknod mktemp mount mv nc nice node nohup nproc od
openssl paste pgrep pkill printenv printf ps pwd python3 readlink realpath rev rm rmdir script sed seq setpriv setsid sh sha1sum sha256sum shuf sleep
sort split ss stat stdbuf strace stty su sync tac tail tar tee test timeout touch tr true truncate tty umount uname uniq unlink unshare uptime useradd wc wget
which whoami xargs yes
"""
TREE_WITH_PYTHON = """
set -e
cd /
mkdir -p /template/bin /template/etc /template/root /template/tmp /template/usr/lib /template/var/tmp
chmod 700 /template/root
chmod 1777 /template/tmp /template/var/tmp
ln -s bin /template/sbin
programs=$(type -P PROGRAMS) || true
cp -L $programs /template/bin
for i in /usr/lib/python3.[0-9]*; do
    mkdir -p /template$i
    tar -C $i --exclude=test --exclude='config-*' --exclude=dist-packages -c . | tar -C /template$i -x
done
for lib in $(ldd $programs /usr/lib/python3.[0-9]*/lib-dynload/*.so /usr/lib/git-core/git-remote-http /usr/lib/apt/apt-helper /usr/lib/apt/methods/http 2>/dev/null | grep -o "/[^ ]*" | grep -v ':$' | sort -u); do
    [ -e "/template$lib" ] || cp --parents -L "$lib" /template
done
mkdir -p /template/usr/bin /template/usr/local/share /template/usr/local/lib /template/usr/share
ln -s ../../bin/python3 /template/usr/bin/python3
ln -s ../../bin/env /template/usr/bin/env
for lib in /lib/*-linux-gnu/libnss_*.so.2 /lib/*-linux-gnu/libresolv.so.2 /lib/*-linux-gnu/libgcc_s.so.1; do cp --parents -L $lib /template; done
cp --parents -a /etc/ssl/certs /etc/ssl/openssl.cnf /usr/lib/ssl /usr/share/ca-certificates /template 2>/dev/null || true
cp --parents -L /etc/services /etc/protocols /etc/login.defs /etc/issue /template 2>/dev/null || true
[ ! -d /usr/lib/git-core ] || { mkdir -p /template/usr/lib/git-core; cp -L /usr/lib/git-core/git-remote-http* /template/usr/lib/git-core/; }
if [ -x /usr/lib/apt/apt-helper ]; then
    mkdir -p /template/etc/apt/apt.conf.d /template/var/lib/apt /template/var/lib/dpkg
    touch /template/var/lib/dpkg/status
    cp --parents -a /usr/lib/apt/apt-helper /usr/lib/apt/methods/http /usr/lib/apt/methods/https /usr/share/dpkg/cputable /usr/share/dpkg/tupletable /template
fi
[ ! -d /usr/share/common-licenses ] || cp -rL /usr/share/common-licenses /template/usr/share
printf 'root:x:0:0::/root:/bin/bash\nuser:x:1000:1000::/home/user:/bin/bash\ndaemon:x:1:1::/:/bin/sh\nnobody:x:65534:65534::/:/bin/sh\n' > /template/etc/passwd
printf 'root:x:0:\ndaemon:x:1:\ntty:x:5:\nsudo:x:27:\nuser:x:1000:\nnogroup:x:65534:\n' > /template/etc/group
printf 'root:*:1::::::\nuser:*:1::::::\n' > /template/etc/shadow
chmod 600 /template/etc/shadow
"""

# Of tests that say what a process may ask of the kernel.
of_a_shared_kernel = pytest.mark.jail("a vm's kernel is its own, and what QEMU may ask of the host's is tried by test_breach.py")


def tree_with_python(programs):
    """The words that make a root with these programs, which has a Python."""
    return TREE_WITH_PYTHON.replace("PROGRAMS", " ".join(programs.split()))


MAKE_SUITE_TREE = tree_with_python(PROGRAMS)


def need_vms():
    """Skips where the host cannot have vms; the daemon itself says how to change that."""
    if IS_SANITIZED:
        pytest.skip("a sanitized agent needs libraries, and there are none where a kernel starts it")
    if not shutil.which("qemu-system-x86_64") and not shutil.which("qemu-system-aarch64"):
        pytest.skip("no QEMU")
    made = subprocess.run([ROOT / "tools/guest-kernel", BUILD / "guest"], capture_output=True, text=True, timeout=300)
    if made.returncode:
        pytest.skip("no guest kernel: " + made.stderr.strip()[-200:])


# How long an emulated boot takes says how busy the host is, and nothing of the daemon.
BOOT_S = 600
CLIENT_S = BOOT_S + 300
EMULATED = ("--vm-emulate", "--vm-boot-max", f"{BOOT_S}s")
VM_OPTIONS = (*EMULATED, "--pool-max", "0")
# With a warm copy for each size, which all of a suite's machines start from, and one of them ready ahead.
WARM_OPTIONS = (*EMULATED, "--pool-min", "0", "--pool-max", "1")


def vm_daemon(*options, **fields):
    """One that is emulated: the same on every host."""
    return give_kernel(Daemon(*VM_OPTIONS, *options, **fields))


def give_kernel(daemon):
    daemon.data.mkdir(mode=0o711, parents=True)
    (daemon.data / "kernels").symlink_to(BUILD / "guest/kernels")
    return daemon


def make_template(client, name, script=MAKE_TREE, **fields):
    with client.create(engine="jail", template="host") as sandbox:
        made = sandbox.run(["bash", "-c", script], user="root")
        assert made.exit_code == 0, made.stderr
        client.create_template(name, sandbox, tree=True, **fields)


def await_warm_copy(client, name):
    """From here on machines of the default size are copies: booting one takes longer than most tests."""
    with client.create(engine="vm", template=name):
        wait_for(lambda: client.template(name)["warm_copies"], 60, "a warm copy")


def vmm_of(machine):
    """The process on the host that is the parent of its QEMU."""
    pids = [int(p) for p in os.listdir("/proc") if p.isdigit() and read_text(f"/proc/{p}/comm").strip() == "cloche-vmm"]
    return next(pid for pid in pids if machine.id in read_text(f"/proc/{pid}/cgroup"))
