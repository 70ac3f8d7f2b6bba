# SPDX-License-Identifier: Apache-2.0
"""What idle sandboxes cost: memory by PSS of all their processes, and what a call costs with many of them alive."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Dict, List, Sequence

from calls import hot
from daemon import Daemon, read_text
from floor import Floors
from link import Link
from measure import Row, row

SECTION = "density"


def processes(ids: Sequence[str]) -> Dict[str, List[int]]:
    """The processes of each sandbox, by its cgroups."""
    found: Dict[str, List[int]] = {id: [] for id in ids}
    for proc in Path("/proc").glob("[0-9]*"):
        for id in set(re.findall(r"sb_[a-z0-9]{26}", read_text(f"{proc}/cgroup"))):
            if id in found:
                found[id].append(int(proc.name))
    return found


def pss_mib(pid: int) -> float:
    match = re.search(r"^Pss:\s+(\d+)", read_text(f"/proc/{pid}/smaps_rollup"), re.M)
    return int(match.group(1)) / 1024 if match else 0.0


def memory(ids: Sequence[str]) -> List[float]:
    return [sum(pss_mib(pid) for pid in pids) for pids in processes(ids).values()]


def in_turn(link: Link, sandboxes: Sequence[str], count: int) -> List[float]:
    """Calls that go from sandbox to sandbox."""
    actions = [hot(link, one, "1+1") for one in sandboxes[:: max(len(sandboxes) // 100, 1)]]
    return [actions[i % len(actions)]() for i in range(count)]


def run(daemon: Daemon, floors: Floors, live: int, count: int) -> List[Row]:
    link = daemon.unix()
    ids = [link.create()]
    call = hot(link, ids[0], "1+1")
    alone = [call() for _ in range(count)]
    try:
        while len(ids) < live:
            ids.append(link.create())
        bare = memory(ids[1:])
        for one in ids:
            link.code(one, "1")
        python = memory(ids)
        crowd = [call() for _ in range(count)]
        spread = in_turn(link, ids, count)
        floors.warm.many(live)
        bare_calls = [floors.warm.call(i % min(live, 100) * max(live // 100, 1)) for i in range(count)]  # as in_turn() goes
        rss = daemon.gateway_rss_mib()
    finally:
        for one in ids:
            link.delete(one)
    mib = {"unit": "MiB"}
    return [
        row(SECTION, f"PSS of an idle sandbox, {live} live", bare, limit=1, **mib),
        row(SECTION, f"PSS of one with idle Python, {live} live", python, limit=4, **mib),
        row(SECTION, f"1+1 in one, {live} live", crowd, peer="the same, 1 live", peer_took=alone, times=0.5),
        row(SECTION, f"1+1 in each in turn, {live} live", spread, limit=0.3, peer="in one, 1 live", peer_took=alone),
        row(SECTION, f"1+1 in each in turn, {live} live", spread, peer="floor: over a socket, in each of as many forks", peer_took=bare_calls),
        row(SECTION, f"gateway RSS, {live} live", [rss], limit=50, **mib),
    ]
