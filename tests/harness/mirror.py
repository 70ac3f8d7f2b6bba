# SPDX-License-Identifier: Apache-2.0
"""A Debian archive of the test's own: a handful of packages, made of this host's programs, that apt and dpkg install as they
would the real ones. Served by one process in a net namespace (harness/internet.py)."""

import hashlib
import os
import shutil
import subprocess
import sys
import time
from email.utils import formatdate
from pathlib import Path

from .daemon import BUILD

# What dpkg, apt and the scripts of guest/build call.
PROGRAMS = """sh bash cat chmod chown cp cut date dirname env find grep gzip head id ln ls mkdir mktemp mv printf readlink rm sed sha256sum sort
tail tar touch tr true base64 awk diff ldconfig start-stop-daemon dpkg dpkg-deb dpkg-query dpkg-split apt-get""".split()
EXTRA = [*(f"/usr/lib/apt/methods/{m}" for m in ("http", "store", "file", "copy")), "/usr/lib/apt/apt-helper"]
EXTRA += [f"/usr/share/dpkg/{t}table" for t in ("cpu", "os", "tuple")]
SUITE = "trixie"


def arch():
    return subprocess.run(["dpkg", "--print-architecture"], capture_output=True, text=True, check=True).stdout.strip()


def needed_by(path):
    """The libraries that a program loads."""
    lines = subprocess.run(["ldd", path], capture_output=True, text=True, check=False).stdout.splitlines()
    return [word for line in lines for word in line.split() if word.startswith("/")]


class Mirror:
    def __init__(self, root):
        self.root = Path(root)
        self.packages = []
        self.server = None
        (self.root / "pool").mkdir(parents=True)
        self._base()
        self.add("apt", {"/usr/share/doc/apt/copyright": "License: GPL-2+\n"})
        self.add("hello", {"/usr/bin/hello": "#!/bin/sh\necho hello, template\n", "/usr/share/doc/hello/copyright": "License: MIT\n"})
        self.publish()

    def _base(self):
        """The one essential package: everything that runs."""
        tree = self.root / "base"
        done = set()
        found = [shutil.which(p, path="/usr/bin:/usr/sbin:/bin:/sbin") for p in PROGRAMS]
        for path in found + EXTRA:
            for name in [path, *needed_by(path)]:
                self._take(tree, name, done)
        for name in needed_by(BUILD / "cloche-agent"):  # a sanitized one is not static
            self._take(tree, name, done)
        for name in ("bin", "sbin", "lib", "lib64"):
            (tree / name).symlink_to(f"usr/{name}")
        for name in ("dev", "proc", "sys", "tmp", "run", "root", "home", "var/tmp", "var/log/apt", "var/cache/apt/archives/partial", "etc/skel"):
            (tree / name).mkdir(parents=True)
        for name in ("etc/apt/apt.conf.d", "etc/apt/preferences.d", "etc/apt/trusted.gpg.d", "etc/dpkg/dpkg.cfg.d", "usr/share/doc/base"):
            (tree / name).mkdir(parents=True, exist_ok=True)
        (tree / "etc/passwd").write_text("root:x:0:0:root:/root:/bin/bash\n_apt:x:42:65534::/nonexistent:/bin/false\n")
        (tree / "etc/group").write_text("root:x:0:\nshadow:x:42:\n")
        (tree / "usr/share/doc/base/copyright").write_text("License: GPL-3\n")
        self._pack("base", tree, "Essential: yes\n")

    @staticmethod
    def _take(tree, name, done):
        """A file under the name that it is called by, links on the way resolved into copies."""
        place = os.path.normpath(name)
        for top in ("/bin/", "/sbin/", "/lib/", "/lib64/"):
            if place.startswith(top):
                place = "/usr" + place
        if place in done:
            return
        done.add(place)
        target = tree / place.lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(os.path.realpath(name), target)

    def add(self, name, files, version="1.0", postinst=None, fields=""):
        tree = self.root / f"tree-{name}-{version}"
        for path, text in files.items():
            target = tree / path.lstrip("/")
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text)
            target.chmod(0o755 if "/bin/" in path else 0o644)
        if postinst:
            (tree / "DEBIAN").mkdir(parents=True)
            (tree / "DEBIAN/postinst").write_text(f"#!/bin/sh\n{postinst}\n")
            (tree / "DEBIAN/postinst").chmod(0o755)
        tree.mkdir(exist_ok=True)  # one that only depends on others has no files
        self._pack(name, tree, fields, version)

    def _pack(self, name, tree, fields, version="1.0"):
        control = f"Package: {name}\nVersion: {version}\nArchitecture: {arch()}\nMaintainer: Nobody <nobody@example.org>\nDescription: a test's\n{fields}"
        (tree / "DEBIAN").mkdir(exist_ok=True)
        (tree / "DEBIAN/control").write_text(control)
        deb = self.root / "pool" / f"{name}_{version}_{arch()}.deb"
        subprocess.run(["dpkg-deb", "--root-owner-group", "-Znone", "--build", str(tree), str(deb)], check=True, capture_output=True)
        shutil.rmtree(tree)
        data = deb.read_bytes()
        about = f"Filename: pool/{deb.name}\nSize: {len(data)}\nSHA256: {hashlib.sha256(data).hexdigest()}\n"
        self.packages.append(control + about)

    def publish(self):
        """The lists as they are now; an archive that changes has another date."""
        dist = self.root / "dists" / SUITE
        lists = dist / "main" / f"binary-{arch()}"
        lists.mkdir(parents=True, exist_ok=True)
        text = "\n".join(self.packages).encode()
        (lists / "Packages").write_bytes(text)
        release = f"Origin: Test\nSuite: {SUITE}\nCodename: {SUITE}\nDate: {formatdate(time.time(), usegmt=True)}\nArchitectures: {arch()}\n"
        release += f"Components: main\nSHA256:\n {hashlib.sha256(text).hexdigest()} {len(text)} main/binary-{arch()}/Packages\n"
        (dist / "Release").write_text(release)

    def serve(self, prefix, address, port):
        argv = [*prefix, sys.executable, "-u", "-m", "http.server", "--bind", address, "--directory", str(self.root), str(port)]
        self.server = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        self.server.stdout.readline()

    def close(self):
        if self.server:
            self.server.terminate()
            self.server.wait(60)
            self.server.stdout.close()
