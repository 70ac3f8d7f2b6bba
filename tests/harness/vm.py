# SPDX-License-Identifier: Apache-2.0
"""A daemon whose sandboxes can be vms: with a guest kernel, fetched once per build directory, and a template small enough to boot."""

import os
import shutil
import subprocess

import pytest

from harness.daemon import BUILD, IS_SANITIZED, ROOT, Daemon, read_text, end

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


# Programs that the suites run inside, with their libraries, and Python's own modules.
PROGRAMS = """
bash cat chmod chown cp curl cut date dd df diff du echo env false find free getconf git grep gzip head hostname id kill ln ls mkdir mkfifo
mktemp mount mv nproc openssl pgrep pkill ps pwd python3 readlink rm rmdir script sed seq setsid sh sha256sum sleep sort stat stty sync tail
tar tee test timeout touch tr true truncate tty ulimit uname unshare wc wget which whoami xargs yes awk mknod umount getent ip ss nc strace
"""
TREE_WITH_PYTHON = """
set -e
cd /
mkdir -p /template/bin /template/etc /template/tmp /template/usr/lib
chmod 1777 /template/tmp
ln -s bin /template/sbin
for i in PROGRAMS; do
    path=$(type -P $i) || continue
    cp -L "$path" /template/bin/$i
    for lib in $(ldd "$path" 2>/dev/null | grep -o "/[^ ]*"); do [ -e "/template$lib" ] || cp --parents -L "$lib" /template; done
done
for i in /usr/lib/python3.[0-9]*; do
    mkdir -p /template$i
    tar -C $i --exclude=test --exclude=__pycache__ --exclude='config-*' --exclude=dist-packages -c . | tar -C /template$i -x
    for lib in $(ldd $i/lib-dynload/*.so 2>/dev/null | grep -o "/[^ ]*" | grep -v ':$' | sort -u); do
        [ -e "/template$lib" ] || cp --parents -L "$lib" /template
    done
done
mkdir -p /template/usr/bin /template/usr/local
ln -s ../../bin/python3 /template/usr/bin/python3
ln -s ../../bin/env /template/usr/bin/env
for lib in /lib/*-linux-gnu/libnss_*.so.2 /lib/*-linux-gnu/libresolv.so.2; do cp --parents -L $lib /template; done
cp -r --parents -L /etc/ssl/certs/ca-certificates.crt /etc/services /etc/protocols /template 2>/dev/null || true
[ ! -d /usr/lib/git-core ] || { mkdir -p /template/usr/lib/git-core; cp -L /usr/lib/git-core/git-remote-http* /template/usr/lib/git-core/; }
printf 'root:x:0:0::/root:/bin/bash\nuser:x:1000:1000::/home/user:/bin/bash\nnobody:x:65534:65534::/:/bin/sh\n' > /template/etc/passwd
printf 'root:x:0:\ntty:x:5:\nuser:x:1000:\nnogroup:x:65534:\n' > /template/etc/group
"""


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


VM_OPTIONS = ("--vm-emulate", "--pool-max", "0")


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


class Machines:
    """Booted vms that tests take turns with: booting one takes longer than most tests. What a test may have left inside is removed, and
    one that is not as it was is replaced."""

    CLEAN = "for i in 1 2 3; do pkill -9 -u user; done; rm -rf /tmp/* /tmp/.[!.]* /home/user/* /home/user/.[!.]*; true"
    SAME = ("name", "tags", "limits", "persistent", "auto_resume", "idle_timeout_ms", "on_timeout", "ports")

    def __init__(self, client, template, env):
        self.client, self.fields = client, {"engine": "vm", "template": template, "env": env, "timeout": 7200}
        self.free, self.first = [], {}

    def take(self):
        if self.free:
            return self.free.pop()
        machine = self.client.create(**self.fields)
        self.first[machine.id] = self.picture(machine)
        return machine

    def picture(self, machine):
        raw = self.client.get(machine.id).info.raw
        return raw["state"], {name: raw.get(name) for name in self.SAME}

    def give(self, machine):
        try:
            machine.set_network("deny-all")
            for port in machine.ports():
                machine.close_port(port["port"])
            for context in machine.contexts.list():
                machine.contexts.remove(context.id)
            is_clean = machine.run(["sh", "-c", self.CLEAN], user="root", timeout=30).exit_code == 0
            if is_clean and self.picture(machine) == self.first[machine.id]:
                self.free.append(machine)
                return
        except Exception:  # whatever it is, this one is not used again
            pass
        end(machine)

    def close(self):
        for machine in self.free:
            end(machine)


def vmm_of(machine):
    """The process on the host that is the parent of its QEMU."""
    pids = [int(p) for p in os.listdir("/proc") if p.isdigit() and read_text(f"/proc/{p}/comm").strip() == "cloche-vmm"]
    return next(pid for pid in pids if machine.id in read_text(f"/proc/{pid}/cgroup"))
