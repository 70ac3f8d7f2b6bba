# SPDX-License-Identifier: Apache-2.0
"""The Debian package in a Debian of its own: installed, used, upgraded under running sandboxes, removed, purged. Run by `make test-deb`.

The root has no init: what systemd would do with the unit (start, restart) is done here with the unit's own words."""

import contextlib
import json
import os
import re
import shlex
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DEBS = Path(os.environ.get("CLOCHE_DEBS", ROOT / "build" / "deb"))
# What apt, dpkg and libraries write on their own; and what other packages bring, which are not ours to remove.
OTHERS = re.compile(r"^/(var/(cache|lib/(apt|dpkg|systemd)|log)|usr/(bin|sbin|lib|share)|etc/(alternatives|ld\.so\.cache|apt|initramfs-tools|adduser\.conf|deluser\.conf"
                    r"|(passwd|group|shadow|gshadow|subuid|subgid)-?$)|tmp|run|root|lib|boot)(/|$)|^/etc$")


def mirror():
    """(URI, suite) of the archive that this host's own Debian came from."""
    suite = re.search(r"^VERSION_CODENAME=(\w+)", Path("/etc/os-release").read_text(), re.M).group(1)
    for path in [Path("/etc/apt/sources.list"), *sorted(Path("/etc/apt/sources.list.d").glob("*"))]:
        text = path.read_text() if path.is_file() else ""
        found = re.search(rf"^deb (?:\[.*?\] )?(\S+) {suite} main", text, re.M) or re.search(rf"^URIs: (\S+)\nSuites: {suite}( |$)", text, re.M)
        if found:
            return found.group(1), suite
    pytest.fail(f"no archive of {suite} is in /etc/apt")


class Machine:
    """A Debian below a directory, in mount and process namespaces of its own that one process holds."""

    def __init__(self, path):
        self.path = path
        subprocess.run(["debootstrap", "--variant=minbase", "--include=ca-certificates", mirror()[1], path, mirror()[0]], check=True, stdout=subprocess.DEVNULL)
        subprocess.run(["cp", "-rT", "/etc/apt", f"{path}/etc/apt"], check=True)
        subprocess.run(["cp", "/etc/ssl/certs/ca-certificates.crt", f"{path}/etc/ssl/certs/"], check=True)
        subprocess.run(["cp", "-L", "/etc/resolv.conf", f"{path}/etc/resolv.conf"], check=True)
        # The root itself is replaced: in a chroot no user namespace can be made.
        script = f"""set -e
            mount --bind {path} {path} && cd {path}
            mount -t proc proc proc && mount --rbind /sys sys && mount --rbind /dev dev && mount -t tmpfs run run
            pivot_root . mnt && umount -l mnt
            echo up && exec sleep infinity"""
        self.keeper = subprocess.Popen(["unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-c", script], stdout=subprocess.PIPE, text=True)
        assert self.keeper.stdout.readline() == "up\n"
        self.pid = int(subprocess.run(["pgrep", "-P", str(self.keeper.pid)], capture_output=True, text=True, check=True).stdout)

    def argv(self, *words):
        return ["nsenter", "--mount", "--pid", "--target", str(self.pid), *words]

    def __call__(self, *words, status=0):
        env = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C.UTF-8"}
        done = subprocess.run(self.argv(*words), capture_output=True, text=True, env=env, stdin=subprocess.DEVNULL)
        assert done.returncode == status, f"{shlex.join(words)}: {done.returncode}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
        return done.stdout

    def files(self):
        found = subprocess.run(["find", self.path, "-xdev", "-printf", "/%P\n"], capture_output=True, text=True, check=True).stdout.splitlines()
        return {f for f in found if not OTHERS.search(f)}

    def close(self):
        self.keeper.kill()  # unshare heeds no other signal
        self.keeper.wait()


@pytest.fixture(scope="module")
def machine(tmp_path_factory):
    machine = Machine(str(tmp_path_factory.mktemp("debian")))
    yield machine
    machine.close()


@pytest.fixture(scope="module")
def package():
    found = sorted(DEBS.glob("cloche_*.deb"))
    assert found, f"no package in {DEBS}; 'make deb' makes it"
    return found[-1]


def newer(package, directory):
    """The same package with a higher version."""
    tree = directory / "tree"
    subprocess.run(["dpkg-deb", "-R", package, tree], check=True)
    control = tree / "DEBIAN" / "control"
    control.write_text(re.sub(r"^Version: (.*)$", r"Version: \1+next", control.read_text(), flags=re.M))
    subprocess.run(["dpkg-deb", "--root-owner-group", "-b", tree, directory / "next.deb"], check=True, stdout=subprocess.DEVNULL)
    return directory / "next.deb"


def install(machine, package):
    subprocess.run(["cp", package, f"{machine.path}/tmp/it.deb"], check=True)
    machine("apt-get", "install", "-y", "--no-install-recommends", "/tmp/it.deb")
    os.unlink(f"{machine.path}/tmp/it.deb")


class Unit:
    """The service, as its unit describes it."""

    def __init__(self, machine):
        self.machine = machine
        text = machine("cat", "/lib/systemd/system/cloche.service")
        self.start_words = shlex.split(re.search(r"^ExecStart=(.*)$", text, re.M).group(1))
        assert "KillMode=process" in text

    def start(self):
        read_end, write_end = os.pipe()
        self.process = subprocess.Popen(self.machine.argv(*self.start_words, "--ready-fd", str(write_end)), pass_fds=[write_end], stderr=subprocess.DEVNULL)
        os.close(write_end)
        with open(read_end) as ready:
            assert ready.readline() == "ready\n"

    def stop(self):
        pid = int(self.machine("cat", "/run/cloche/lock"))
        self.machine("sh", "-c", f"kill -TERM {pid}")
        self.process.wait(60)


def test_a_package_is_installed_used_upgraded_removed_and_purged(machine, package, tmp_path):
    machine("apt-get", "update")
    before = machine.files()

    install(machine, package)
    assert machine("getent", "passwd", "cloche").startswith("cloche:x:")
    assert "run AI-written code" in machine("zcat", "/usr/share/man/man1/cloche.1.gz").replace("\\", "")
    for shell in ("bash-completion/completions/cloche", "zsh/vendor-completions/_cloche", "fish/vendor_completions.d/cloche.fish"):
        machine("test", "-s", f"/usr/share/{shell}")
    assert "alert: ClocheDown" in machine("cat", "/usr/share/cloche/prometheus/alerts.yml")
    assert json.loads(machine("cat", "/usr/share/cloche/grafana/cloche.json"))["uid"] == "cloche"
    held = [p["name"] for p in json.loads(machine("cat", "/usr/share/doc/cloche/cloche.spdx.json"))["packages"]]
    notices = machine("zcat", "/usr/share/doc/cloche/NOTICES.gz")
    assert "uplot" in held and "@xterm/xterm" in held and all(f"\n{p} " in notices for p in ("uplot", "@xterm/xterm", "GNU C Library"))
    unit = Unit(machine)
    unit.start()
    try:
        assert machine("cloche", "run", "-T", "host", "--", "echo", "it works") == "it works\n"
        machine("cloche", "create", "-T", "host", "--name", "kept")
        machine("cloche", "exec", "-d", "kept", "sh", "-c", "while :; do sleep 1; done")

        install(machine, newer(package, tmp_path))
        unit.stop()
        unit.start()
        assert "kept" in machine("cloche", "ps")
        assert "running" in machine("cloche", "ps", "kept"), "an upgrade must end nothing"
    finally:
        with contextlib.suppress(AssertionError):
            unit.stop()
    machine("apt-get", "remove", "-y", "cloche")
    left = machine("sh", "-c", "cat /proc/[0-9]*/comm").split()
    assert "cloche-agent" not in left and "cloche" not in left, left
    assert os.path.exists(f"{machine.path}/etc/cloche/cloche.toml"), "settings stay until a purge"

    machine("apt-get", "purge", "-y", "cloche")
    assert machine.files() - before == set()
    machine("getent", "passwd", "cloche", status=2)


def test_two_builds_are_the_same_bytes(package):
    other = sorted((DEBS.parent / "deb-again" / "deb").glob("cloche_*.deb"))
    if not other:
        pytest.skip("was built once; 'make test-deb' builds it twice")
    assert package.read_bytes() == other[-1].read_bytes()
