# SPDX-License-Identifier: Apache-2.0
"""Many images over few: what each takes on disk beside its base, what it takes to make one, and a create from any of them."""

from __future__ import annotations

import itertools
from typing import Callable, List

from daemon import Daemon
from measure import Row, interleave, row, timed
from template import TREE

SECTION = "images"
SMALL_FILES = 2000
OWN_MIB = 1
# Of 1 GiB, so that 500 images over ten bases of 1 GiB take 30 GiB: twenty are left for what is their own.
OWN_MOST = (30 - 10) / 500
BASE = (
    TREE.replace("{mib}", "0")
    + """
mkdir /template/data /template/data/small; cd /template/data; cp /bin/busybox ../bin/; for i in rm mkdir head seq; do ln -sf busybox ../bin/$i; done
for i in $(seq {mib}); do head -c 1M /dev/urandom >part-$i; done
for i in $(seq {small}); do head -c $((i % 3000)) /dev/urandom >small/file-$i; done
"""
)
CHANGE = f"cd /data; head -c {OWN_MIB * 2**20} /dev/urandom >own; rm small/file-7 part-1; head -c 5000 /dev/urandom >small/file-9"


def make(daemon: Daemon, name: str, template: str, script: str, mib: int, is_tree: bool) -> float:
    """Milliseconds that the image alone took."""
    link = daemon.unix()
    sandbox = link.create(template=template, limits={"disk_mib": 2 * mib + 128})
    made = link.call("POST", f"/v1/sandboxes/{sandbox}/execs", {"argv": ["sh", "-ec", script], "user": "root"})
    if made["exec"]["exit_code"] != 0:
        raise SystemExit(f"bench: the files of an image could not be made: {made}")
    took = timed(lambda: link.call("POST", "/v1/templates", {"from": sandbox, "name": name, "tree": is_tree}))
    link.delete(sandbox)
    return took


def disk_mib(daemon: Daemon) -> float:
    return sum(p.stat().st_blocks * 512 for p in (daemon.dir / "data").glob("templates/*/image.erofs")) / 2**20


def create(daemon: Daemon, names: List[str]) -> Callable[[], float]:
    """From each of them in turn."""
    link, turn = daemon.unix(), itertools.cycle(names)

    def once() -> float:
        made: List[str] = []
        name = next(turn)
        took = timed(lambda: made.append(link.create(template=name)))
        link.delete(made[0])
        return took

    return once


def run(direct: Daemon, count: int, images: int, bases: int, mib: int) -> List[Row]:
    base_names = [f"bench-base-{i}" for i in range(bases)]
    names = [f"bench-image-{i}" for i in range(images)]
    script = BASE.replace("{mib}", str(mib)).replace("{small}", str(SMALL_FILES))
    alone = [make(direct, name, "host", script, mib, is_tree=True) for name in base_names]
    before = disk_mib(direct)
    over = [make(direct, name, base_names[i % bases], CHANGE, mib, is_tree=False) for i, name in enumerate(names)]
    each = (disk_mib(direct) - before) / images
    took = interleave({"any": (create(direct, names), max(count, images)), "base": (create(direct, base_names[:1]), max(count, images))})
    for name in names + base_names:
        direct.unix().call("DELETE", f"/v1/templates/{name}")
    return [
        row(SECTION, f"disk of one, {images} of {mib} MiB over {bases}", [each], unit="MiB", peer="an image of its own", peer_took=[before / bases], limit=OWN_MOST * mib),
        row(SECTION, "making one over a base", over, peer="an image of its own", peer_took=alone),
        row(SECTION, f"create, each of {images} in turn", took["any"], peer="of one base", peer_took=took["base"], times=0.8),
    ]
