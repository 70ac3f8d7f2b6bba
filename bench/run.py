#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The figures of cloche on this machine, each beside a peer measured in the same run, in turns with it.

Starts daemons of its own (one with a pool, one without) on private directories and leaves nothing behind. Prints a table and
keeps the figures as JSON, from which bench/report.py makes docs/performance.md. Timings are noisy: read the ratios.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from pathlib import Path
from typing import Callable, Dict, List

import burst
import calls
import cluster
import density
import execs
import fairness
import files
import growth
import images
import machine
import memory
import neighbour
import pulls
import rollout
import snapshots
import start
import template
import throughput
import vm
import wall
from daemon import Daemon
from floor import Floors
from measure import Row, table, verdict

SECTIONS: Dict[str, Callable[[Daemon, Daemon, argparse.Namespace], List[Row]]] = {
    "start": lambda pooled, direct, o: start.run(pooled, direct, o.floors, o.count),
    "call": lambda pooled, direct, o: calls.run(pooled, o.count * 5),
    "exec": lambda pooled, direct, o: execs.run(pooled, o.count * 2),
    "burst": lambda pooled, direct, o: burst.run(pooled, max(o.count // 20, 3)),
    "throughput": lambda pooled, direct, o: throughput.run(pooled, o.account, o.floors, max(o.count // 20, 3)),
    "rollout": lambda pooled, direct, o: rollout.run(pooled, o.build, o.count * 10),
    "files": lambda pooled, direct, o: files.run(direct, max(o.count // 10, 3)),
    "template": lambda pooled, direct, o: template.run(direct, o.count),
    "images": lambda pooled, direct, o: images.run(direct, o.count, o.images, o.image_bases, o.image_mib),
    "pulls": lambda pooled, direct, o: pulls.run(o.build, o.count, o.images, o.image_bases, o.image_mib),
    "snapshots": lambda pooled, direct, o: snapshots.run(direct, o.floors, max(o.count // 3, 3)),
    "memory": lambda pooled, direct, o: memory.run(direct, o.floors, max(o.count // 10, 3)),
    "vm": lambda pooled, direct, o: vm.run(o.build, max(o.count // 5, 3)),
    "neighbour": lambda pooled, direct, o: neighbour.run(pooled, o.count),
    "fairness": lambda pooled, direct, o: fairness.run(pooled),
    "wall": lambda pooled, direct, o: wall.run(o.build, o.count),
    "growth": lambda pooled, direct, o: growth.run(pooled, direct, o.build, max(o.count // 5, 2), o.density, o.state_mb, o.paused),
    "cluster": lambda pooled, direct, o: cluster.run(pooled, o.build, o.count),
    "density": lambda pooled, direct, o: density.run(direct, o.floors, o.density, o.count * 5),
}

STOLEN_MOST = 5  # percent of the CPU time, before it is told


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sections", nargs="*", metavar="SECTION", help=f"only these of: {', '.join(SECTIONS)}")
    parser.add_argument("--build", default="build", help="build directory (default build)")
    parser.add_argument("--json", type=Path, help="where the figures go (default BUILD/bench.json)")
    parser.add_argument("--keep", action="store_true", help="sections that are not run keep the figures that the file has of them")
    parser.add_argument("--count", type=int, default=100, help="samples of a slow figure; quick ones have more (default 100)")
    parser.add_argument("--density", type=int, default=50, metavar="N", help="idle sandboxes at once (default 50)")
    parser.add_argument("--state-mb", type=int, default=64, metavar="MB", help="the most memory that is forked and paused, for curves (default 64)")
    parser.add_argument("--paused", type=int, default=100, metavar="N", help="the most Pythons that are paused to disk at once, for curves; the disk may end it before (default 100)")
    parser.add_argument("--images", type=int, default=20, metavar="N", help="images over a few others (default 20)")
    parser.add_argument("--image-bases", type=int, default=2, metavar="N", help="those others (default 2)")
    parser.add_argument("--image-mib", type=int, default=256, metavar="MIB", help="size of each (default 256)")
    options = parser.parse_args()
    unknown = [name for name in options.sections if name not in SECTIONS]
    if unknown:
        parser.error(f"no section '{unknown[0]}': {', '.join(SECTIONS)} are")
    return options


def main() -> int:
    options = parse_args()
    if os.geteuid() != 0:
        raise SystemExit("bench: needs root, as the daemon does")
    described = machine.describe(options.build)
    if machine.is_busy(described):
        print(f"bench: this machine is busy (load {described['load']:.1f}): the figures will be poor, the ratios less so")
    rows: List[dict] = []
    options.account = machine.Account()  # before the daemons: what they start is in it
    options.floors = Floors(options.build)
    pooled = direct = None
    try:
        pooled = Daemon(options.build, pool=True)
        direct = Daemon(options.build, pool=False, sandboxes_max=max(1000, options.density + 100, options.paused + 100))
        if not pooled.has_pool:
            print("bench: this daemon has no pool: figures of a warm one are left out")
        for name, run in SECTIONS.items():
            if options.sections and name not in options.sections:
                continue
            began, stolen = time.monotonic(), machine.Stolen()
            rows += [one.to_json() for one in run(pooled, direct, options)]
            print(f"bench: {name}: {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)
            if stolen.percent() >= STOLEN_MOST:
                print(f"bench: {name}: the hypervisor gave {stolen.percent():.0f} % of the CPU time to others: take these figures again at another time")
    finally:
        for one in (pooled, direct, options.floors, options.account):
            if one:
                one.close()
    path = options.json or Path(options.build) / "bench.json"
    kept = json.loads(path.read_text())["rows"] if options.keep and path.exists() else []
    ran = {one["section"] for one in rows}
    result = {"machine": described, "rows": [one for one in kept if one["section"] not in ran] + rows}
    print(f"\n{described['cpu']}, {described['cores']} cores, {described['arch']}, Linux {described['kernel']}\n")
    print(table(rows))
    print(f"\n{verdict(rows)}")
    path.write_text(json.dumps(result, indent=2, ensure_ascii=False) + "\n")
    print(f"\nThe figures are in {path}.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
