# SPDX-License-Identifier: Apache-2.0
"""Many images of a registry over few: what each takes on disk, how long it takes to pull, and a create from any of them."""

from __future__ import annotations

import io
import os
import tarfile
from pathlib import Path
from typing import List, Tuple

from daemon import Daemon
from images import OWN_MIB, OWN_MOST, SMALL_FILES, create, disk_mib
from measure import Row, interleave, row, timed
from registry import Registry

SECTION = "pulls"


def add(tar: tarfile.TarFile, name: str, data: bytes, mode: int = 0o644) -> None:
    info = tarfile.TarInfo(name)
    info.size, info.mode = len(data), mode
    tar.addfile(info, io.BytesIO(data))


def write_base(path: Path, mib: int) -> None:
    """A root with a shell, whose files are as random as they can be: nothing of them can be packed."""
    with tarfile.open(path, "w") as tar:
        add(tar, "bin/busybox", Path("/bin/busybox").read_bytes(), 0o755)
        for name in ("sh", "true"):
            link = tarfile.TarInfo(f"bin/{name}")
            link.type, link.linkname = tarfile.SYMTYPE, "busybox"
            tar.addfile(link)
        add(tar, "etc/passwd", b"root:x:0:0::/:/bin/sh\n")
        for i in range(mib):
            add(tar, f"data/part-{i}", os.urandom(2**20))
        for i in range(SMALL_FILES):
            add(tar, f"data/small/file-{i}", os.urandom(i % 3000))


def write_task(path: Path) -> None:
    with tarfile.open(path, "w") as tar:
        add(tar, "data/own", os.urandom(OWN_MIB * 2**20))
        add(tar, "data/small/.wh.file-7", b"")
        add(tar, "data/.wh.part-1", b"")
        add(tar, "data/small/file-9", os.urandom(5000))


def pull(daemon: Daemon, name: str, ref: str) -> float:
    link = daemon.unix()
    return timed(lambda: link.call("POST", f"/v1/templates/{name}/pull", {"ref": ref}))


def pull_all(daemon: Daemon, registry: Registry, images: int, bases: int, mib: int) -> Tuple[List[Row], List[str]]:
    layers, alone, over, names = [], [], [], []
    for i in range(bases):
        path = registry.dir / f"base-{i}.tar"
        write_base(path, mib)
        layers.append(registry.layer(path))
        alone.append(pull(daemon, f"bench-base-{i}", registry.image(f"bench/base-{i}", [layers[-1]])))
        path.unlink()  # nobody fetches it again
    before = disk_mib(daemon)
    for i in range(images):
        path = registry.dir / f"task-{i}.tar"
        write_task(path)
        ref = registry.image(f"bench/task-{i}", [layers[i % bases], registry.layer(path)])
        over.append(pull(daemon, f"bench-task-{i}", ref))
        names.append(f"bench-task-{i}")
        path.unlink()
    each = (disk_mib(daemon) - before) / images
    what = f"{images} of {mib} MiB over {bases}"
    return [
        row(SECTION, f"disk of one, {what}", [each], unit="MiB", peer="stored whole", peer_took=[before / bases], limit=OWN_MOST * mib),
        row(SECTION, "pulling one over what is here", over, peer="pulling the whole image", peer_took=alone),
    ], names


def run(build: str, count: int, images: int, bases: int, mib: int) -> List[Row]:
    registry, daemon = Registry(), None
    try:
        daemon = Daemon(build, pool=False, options=["--network-may-open", "127.0.0.1/32"])
        rows, names = pull_all(daemon, registry, images, bases, mib)
        turns = max(count, images)
        took = interleave({"any": (create(daemon, names), turns), "base": (create(daemon, ["bench-base-0"]), turns)})
        return [*rows, row(SECTION, f"create, each of {images} in turn", took["any"], peer="of one base", peer_took=took["base"], times=0.8)]
    finally:
        registry.close()
        if daemon:
            daemon.close()
