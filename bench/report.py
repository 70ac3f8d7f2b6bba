#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""docs/performance.md from the figures of a run, with its charts beside it: report.py BENCH.JSON PERFORMANCE.MD"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Dict, List

from chart import CHARTS, charts
from machine import is_busy
from measure import cells

HEADS = ("what", "p50", "p99", "peer", "its p50", "ratio", "aim", "")

# What each section is, in the order of the page.
SECTIONS: Dict[str, str] = {
    "start": "From the request for a sandbox to the answer of the first thing in it, over the unix socket with keep-alive. *Warm pool*: a ready "
    "sandbox is claimed, and the pool is full again before the next sample. *Pool empty*: the daemon runs without one, and the sandbox is made "
    "while its caller waits. *Floor*: the kernel's calls for one jail and nothing else (bench/floor.c), and a fork of a warm Python that runs a call (bench/warm.py). runsc runs `do` with the platform ptrace, without network; a Jupyter kernel is started and asked through jupyter_client.",
    "hot call": "Code in an interpreter that is already there. The floor is what a request costs that does nothing, client included.",
    "exec": "A process in a sandbox that is already there. *posix_spawn inside*: the same program started by a process in that sandbox, under the same limits, filter and root.",
    "burst": "Creates that are sent at the same instant, each over a connection of its own: when the first and the last answer is there.",
    "throughput": "Whole lives of sandboxes per second. Client and daemon share the machine. CPU of a life is that of the daemon, the sandboxes and the client, without the kernel's own threads. *Floor*: the CPU that one jail takes by the kernel's calls alone (bench/floor.c: no daemon, no limits, no filter, no layer of a disk), and a fork of a warm Python that runs one call and ends (bench/warm.py). No order of our own work can go below it.",
    "rollout": "As a trainer makes them: each creates a sandbox (and waits if there is no room), writes a file, runs three commands, reads a file and checks it, and deletes the sandbox. The time is that of all of them. "
    "The peer has a directory for each and starts bubblewrap for each command: no limits, no agent, nothing that lives between the commands. On one CPU there are client, daemon and sandboxes, or client and bubblewraps. "
    "*On paper*: what 16 CPUs give at most, from the CPU time of a rollout here, and from that of the daemon's busiest thread, which can use one CPU alone. What threads wait for each other in the kernel is not in it, nor a client that is slower.",
    "files": "Content over the unix socket into the sandbox's layer and out of it. The peer is `tar cf - | tar xf -` on the host. *Floor*: the same bytes through two sockets with a process between them, into a file.",
    "images": "Templates over others: each holds what is different, and the kernel reads the rest from the image below. A create is from each of them in turn, so most of them have to be mounted.",
    "pulls": "Images of a registry on loopback over others that were pulled before: only the layers that are not here are fetched and stored. A create is from each of them in turn.",
    "template": "A create without a pool on templates whose images differ in nothing but their size: the image is mounted once, and a create does not read it.",
    "vm": "Machines of 192 MiB, emulated or with KVM as the host has it. A boot ends where the agent serves, as the start from a warm copy does. *One that waits ready*: resumed ahead, by the pool. "
    "Emulated, a start from a copy is bound by QEMU's own start and by the translation of guest code that runs for the first time (docs/design/vm-copies.md).",
    "memory": "Forks and pauses of a sandbox whose Python holds 100 MB that cannot be compressed: from the call to the answer, which a pause to disk gives when all is synced. "
    "*Floor* of forks: the CPU of as many jails and forks of a warm Python, over all processors (bench/floor.py); nothing is copied there. *Floor* of a resume: CRIU by itself, with a Python that holds as much, in no namespaces, nothing checked. A web app is a program of its own, so its clones go by CRIU.",
    "neighbour": "Calls to one sandbox while another uses up all that it has, until it is killed; the peer is the same call without that, in turns. The one that misbehaves has "
    "half a CPU, 96 MiB, 40 processes and 64 MiB of disk; what its flood of output costs the daemon is bounded by turns (src/sandbox/agentlink/link.c).",
    "fairness": "Calls of one project alone, and beside a flood of another project, in turns. The flood's clients run at the lowest priority of the machine, as if they were on others. "
    "*Output floods*: `yes` in a sandbox each. *Big deletes*: of sandboxes with 2,000 files and 32 MiB. The aim: p50 at most 3 times and p99 at most 5 times what they are alone.",
    "wall": "What the network wall adds to what a program inside does: the same client, with the wall less without it, to a server in another net namespace. *Passed on*: only the name that is said to TLS is judged. *Looked into*: each request is judged, TLS ends at the wall and begins anew. mitmproxy runs as a reverse proxy with large bodies streamed, the client beside it. The wall has looked the name up before, as for most connections; a lookup adds what the resolver takes. Memory is RSS with 100 idle connections.",
    "snapshots": "Of files, without memory. A fork of 20 is one call; its time is divided by their number. *Floor*: the CPU of one jail by the kernel's calls alone, over all processors.",
    "growth": "How the figures grow. The charts have logarithmic axes. *Lives a second* are creates with a print and a delete; client and daemon have the same CPUs. *Paused*: each Python is called as often as Zipf's law with the exponent 1.1 says, and is paused again behind each call.",
    "cluster": "A node of a cluster of two beside a machine that is alone, in turns, with a PostgreSQL on the same machine that syncs each commit. *What it adds* is the difference of two that were measured in the same round. "
    "CPU time of a statement is all of the server's, for one client; how many a thousand nodes send a second is counted by docs/design/cluster.md.",
    "density": "Memory is PSS: what processes share is divided among them. *In turn*: each call goes to another sandbox, whose interpreter has left the CPU's caches. *Floor*: `1+1` over a socket pair in each of as many forks of a warm Python, without a daemon or a sandbox.",
}


def escape(word: str) -> str:
    return word.replace("|", "\\|")


def section_table(rows: List[dict]) -> List[str]:
    lines = ["| " + " | ".join(HEADS) + " |", "|---|--:|--:|---|--:|--:|---|---|"]
    lines += ["| " + " | ".join(escape(word) for word in cells(one)) + " |" for one in rows]
    return lines


def page(result: dict) -> str:
    machine, rows = result["machine"], result["rows"]
    aims = [one for one in rows if one["ok"] is not None]
    missed = [one for one in aims if not one["ok"]]
    packages = ", ".join(f"{name} {version}" for name, version in machine["packages"].items())
    lines = [
        "# Performance",
        "",
        "Made by `make performance` (bench/): not written by hand. Every figure stands beside a peer that was measured in the same run, in turns with it, so that",
        "noise on the machine hits both; the ratio tells how many times better than the peer's ours is. Figures of another machine will differ, ratios less so.",
        "",
        f"**Machine**: {machine['cpu']}, {machine['cores']} cores, {machine['memory_mib'] // 1024} GiB, {machine['arch']}, Linux {machine['kernel']}; "
        f"load {machine['load']:.1f} before the run; {machine['date']}.",
        f"**Programs**: {machine['cloche']}, built as {machine['buildtype']}; {packages}.",
        "",
        *(["**The machine was busy with other things**: the ratios say more than the figures.", ""] if is_busy(machine) else []),
        f"{len(aims) - len(missed)} of {len(aims)} aims are met.",
    ]
    for name, about in SECTIONS.items():
        of_section = [one for one in rows if one["section"] == name]
        pictures = [f"![{CHARTS[one][0]}](performance-{one}.svg)\n" for one in charts(of_section)]
        if of_section:
            lines += ["", f"## {name[0].upper()}{name[1:]}", "", about, "", *pictures, *section_table(of_section)]
    return "\n".join(lines) + "\n"


def main() -> int:
    if len(sys.argv) != 3:
        raise SystemExit(__doc__)
    result, into = json.loads(Path(sys.argv[1]).read_text()), Path(sys.argv[2])
    into.write_text(page(result))
    for name, drawing in charts(result["rows"]).items():
        into.with_name(f"performance-{name}.svg").write_text(drawing)
    print(f"report: wrote {sys.argv[2]}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
