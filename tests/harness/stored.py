# SPDX-License-Identifier: Apache-2.0
"""A store of objects for nodes of a cluster: a directory that all of them see."""

import contextlib
import http.client
import os
import signal

from .daemon import children_of, read_text, wait_for

TREE = """
set -e
mkdir -p /template/bin /template/tmp /template/etc /template/data
cp /bin/busybox /template/bin/busybox
for name in sh bash cat echo sleep sha256sum env id; do ln -s busybox /template/bin/$name; done
for i in $(ldd /opt/cloche/bin/sudo 2>/dev/null | grep -o "/[^ ]*"); do cp --parents -L $i /template; done
printf 'root:x:0:0::/root:/bin/sh\\nuser:x:1000:1000::/home/user:/bin/sh\\n' > /template/etc/passwd
echo "$1" > /template/mark
head -c "$2" /dev/urandom > /template/data/noise
"""


class Directory:
    """A directory that all nodes see."""

    def __init__(self, path):
        self.path = path
        path.mkdir(mode=0o777)
        path.chmod(0o777)
        self.options = ["--cluster-objects", f"dir://{path}"]

    def objects(self, kind):
        return sorted(p for p in (self.path / "v1" / kind).rglob("*") if p.is_file())


def place_of(tmp_path):
    """A folder that the workers' user can reach."""
    for parent in (tmp_path, *tmp_path.parents):
        if parent.stat().st_uid == os.getuid() and str(parent) not in ("/", "/tmp", "/var/tmp"):
            parent.chmod(parent.stat().st_mode | 0o011)
    return tmp_path


def make_template(node, key, name, mark="one", size=1000, **more):
    client = node.client(key)
    with client.create(template="host") as sandbox:
        done = sandbox.run(["sh", "-c", TREE, "sh", mark, str(size)], user="root", timeout=120)
        assert done.exit_code == 0, done.stderr
        return client.create_template(name, sandbox, tree=True, **more)


def workers(node):
    return [p for p in children_of(node.member_pid()) if read_text(f"/proc/{p}/comm").strip() == "cloche-objects"]


@contextlib.contextmanager
def store_stands_still(node):
    """Its workers do nothing until it is over; those that died meanwhile are left alone."""
    stopped = workers(node)
    assert len(stopped) == 8
    for p in stopped:
        os.kill(p, signal.SIGSTOP)
    try:
        yield
    finally:
        for p in stopped:
            with contextlib.suppress(ProcessLookupError):
                os.kill(p, signal.SIGCONT)


def await_up(node):
    def up():
        with contextlib.suppress(OSError, http.client.HTTPException):
            return node.call("GET", "/v1/health", key="")[0] == 200
        return False

    wait_for(up, 60, "it answers again")
