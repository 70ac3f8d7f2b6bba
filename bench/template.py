# SPDX-License-Identifier: Apache-2.0
"""What a template costs a create: two images, one of them many times as large, beside `host`, which has none."""

from __future__ import annotations

from typing import Callable, List

from daemon import Daemon
from measure import Row, interleave, row, timed

SECTION = "template"
LARGE_MIB = 512
# A shell and what the sandbox's own programs are linked with; random bytes are not made smaller.
TREE = """
mkdir -p /template/bin /template/etc && cp /bin/busybox /template/bin/ && ln -sf busybox /template/bin/sh
for i in $(ldd /opt/cloche/bin/sudo 2>/dev/null | grep -o '/[^ ]*'); do cp --parents -L $i /template; done
printf 'root:x:0:0::/root:/bin/sh\\nuser:x:1000:1000::/home/user:/bin/sh\\n' >/template/etc/passwd
[ {mib} = 0 ] || head -c {mib}M /dev/urandom >/template/ballast
"""


def make(daemon: Daemon, name: str, mib: int) -> None:
    link = daemon.unix()
    sandbox = link.create(template="host", limits={"disk_mib": 2 * mib + 64})
    link.call("POST", f"/v1/sandboxes/{sandbox}/execs", {"argv": ["sh", "-ec", TREE.replace("{mib}", str(mib))], "user": "root"})
    link.call("POST", "/v1/templates", {"from": sandbox, "name": name, "tree": True})
    link.delete(sandbox)


def create(daemon: Daemon, template: str) -> Callable[[], float]:
    link = daemon.unix()

    def once() -> float:
        made: List[str] = []
        took = timed(lambda: made.append(link.create(template=template)))
        link.delete(made[0])
        return took

    return once


def run(direct: Daemon, count: int) -> List[Row]:
    make(direct, "bench-small", 0)
    make(direct, "bench-large", LARGE_MIB)
    took = interleave({name: (create(direct, name), count) for name in ("host", "bench-small", "bench-large")})
    for name in ("bench-small", "bench-large"):
        direct.unix().call("DELETE", f"/v1/templates/{name}")
    return [
        row(SECTION, "create, small image", took["bench-small"], peer="create on host", peer_took=took["host"]),
        row(SECTION, f"create, image of {LARGE_MIB} MiB", took["bench-large"], peer="small image", peer_took=took["bench-small"], times=0.8),
    ]
