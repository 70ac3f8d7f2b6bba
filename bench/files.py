# SPDX-License-Identifier: Apache-2.0
"""Files in and out, beside tar over a pipe on the host."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Callable, List

from daemon import Daemon
from floor import relayed
from link import request
from measure import Row, interleave, row, timed

SECTION = "files"
SIZE = 64 << 20
SMALL_FILES = 1000


def pipe(source: Path, into: Path) -> None:
    """tar cf - | tar xf -, all of the source."""
    into.mkdir()
    pack = subprocess.Popen(["tar", "-C", str(source), "-cf", "-", "."], stdout=subprocess.PIPE)
    subprocess.run(["tar", "-C", str(into), "-xf", "-"], stdin=pack.stdout, check=True)
    pack.stdout.close()
    if pack.wait() != 0:
        raise SystemExit("bench: tar failed")


def rate(action: Callable[[], object], size: int) -> float:
    return size / (1 << 20) / (timed(action) / 1000)


def run(daemon: Daemon, rounds: int) -> List[Row]:
    link = daemon.unix()
    sandbox = link.create(limits={"disk_mib": 4096})
    at = f"/v1/sandboxes/{sandbox}/files"
    work = daemon.dir / "files"
    big, small, out = work / "big", work / "small", work / "out"
    big.mkdir(parents=True)
    small.mkdir()
    data = os.urandom(1 << 20) * (SIZE >> 20)
    (big / "data").write_bytes(data)
    for i in range(SMALL_FILES):
        (small / f"{i}.txt").write_bytes(data[i : i + 4096])
    upload, download = request("PUT", f"{at}?path=/tmp/data", data), request("GET", f"{at}?path=/tmp/kept")
    link.call("PUT", f"{at}?path=/tmp/kept", data)
    tree = subprocess.run(["tar", "-C", str(small), "-cf", "-", "."], capture_output=True, check=True).stdout
    unpack = request("PUT", f"{at}/tar?path=/tmp/tree&parents=true", tree)

    def host(source: Path, size: int) -> Callable[[], float]:
        def once() -> float:
            took = rate(lambda: pipe(source, out), size)
            shutil.rmtree(out)
            return took

        return once

    def fetch() -> None:
        """Counts what comes; a reply of this size is not worth gathering."""
        link.sock.sendall(download)
        left = SIZE
        head = link.sock.recv(65536)
        left -= len(head) - head.index(b"\r\n\r\n") - 4
        while left > 0:
            left -= link.sock.recv_into(room)

    def relay() -> float:
        took = rate(lambda: relayed(data, work / "relayed"), SIZE)
        (work / "relayed").unlink()
        return took

    def send() -> float:
        """A new file, as tar makes one: btrfs writes a file to the disk at once that takes another's place."""
        took = rate(lambda: link.exchange(upload).body(), SIZE)
        link.call("DELETE", f"{at}?path=/tmp/data")
        return took

    room = bytearray(1 << 20)
    took = interleave(
        {
            "upload": (send, rounds),
            "download": (lambda: rate(fetch, SIZE), rounds),
            "tree": (lambda: rate(lambda: link.exchange(unpack).body(), len(tree)), rounds),
            "relay": (relay, rounds),
            "tar": (host(big, SIZE), rounds),
            "tar tree": (host(small, len(tree)), rounds),
        }
    )
    link.delete(sandbox)
    more = {"unit": "MiB/s", "more_is_better": True, "times": 0.5}
    one, many = {"peer": "tar over a pipe", "peer_took": took["tar"]}, {"peer": "tar over a pipe", "peer_took": took["tar tree"]}
    return [
        row(SECTION, "upload of 64 MiB", took["upload"], **{**more, "times": 0.8}, **one),
        row(SECTION, "upload of 64 MiB", took["upload"], unit="MiB/s", more_is_better=True, peer="floor: two sockets and a file", peer_took=took["relay"]),
        row(SECTION, "download of 64 MiB", took["download"], **more, **one),
        row(SECTION, f"upload of {SMALL_FILES} files as tar", took["tree"], **more, **many),
    ]
