# SPDX-License-Identifier: Apache-2.0
"""Machines: from a copy that was booted ahead against a boot, what they do then, and what they share."""

from __future__ import annotations

import re
import shutil
import statistics
import subprocess
import time
from pathlib import Path
from typing import Callable, Dict, List

from daemon import Daemon, children_of, read_text
from density import memory
from link import Link
from measure import Row, interleave, row, timed
from template import TREE

SECTION = "vm"
MACHINE = {"engine": "vm", "template": "bench-vm", "limits": {"memory_mib": 192, "disk_mib": 64}}
JAIL = {**MACHINE, "engine": "jail"}
BASH = """
cp /bin/bash /template/bin/
for i in $(ldd /bin/bash | grep -o '/[^ ]*'); do cp --parents -L $i /template; done
for i in cat mkdir rm env; do ln -sf busybox /template/bin/$i; done
"""
PYTHON = """
python=$(readlink -f /usr/bin/python3) && lib=/usr/lib/${python##*/}
mkdir -p /template/usr/bin /template/usr/lib && cp $python /template/usr/bin/python3 && cp -r $lib /template/usr/lib/
for i in test idlelib lib2to3 ensurepip; do rm -rf /template$lib/$i; done
for i in $(ldd $python $lib/lib-dynload/*.so | grep -o '/lib[^ ]*'); do cp --parents -L $i /template 2>/dev/null || true; done
"""
CALLS = {"python": "1+1", "bash": "true"}
SHARERS = 4
COPY_S = 300
ASKED = 3  # times, before a size gets spares
SPARE_S = 10


def make_template(link: Link) -> None:
    sandbox = link.create(template="host", limits={"disk_mib": 512})
    made = link.call("POST", f"/v1/sandboxes/{sandbox}/execs", {"argv": ["sh", "-ec", TREE.replace("{mib}", "0") + BASH + PYTHON], "user": "root"})
    if made["exec"]["exit_code"] != 0:
        raise SystemExit(f"bench: cannot make the template: {made['stderr']}")
    link.call("POST", "/v1/templates", {"from": sandbox, "name": "bench-vm", "tree": True})
    link.delete(sandbox)


def make_copy(link: Link) -> None:
    """By the first machine, beside which it is made."""
    first = link.create(**MACHINE)
    deadline = time.monotonic() + COPY_S
    while link.call("GET", "/v1/templates/bench-vm")["warm_copies"] == 0:
        if time.monotonic() > deadline:
            raise SystemExit("bench: no warm copy came to be")
        time.sleep(0.1)
    link.delete(first)
    link.delete(link.create(**MACHINE))  # reads it


def create(daemon: Daemon, fields: dict) -> Callable[[], float]:
    def once() -> float:
        link = daemon.unix()  # a boot takes longer than a connection may rest
        made: List[str] = []
        took = timed(lambda: made.append(link.create(**fields)))
        link.delete(made[0])
        return took

    return once


def has_spare(daemon: Daemon, seconds: float) -> bool:
    link, deadline = daemon.unix(), time.monotonic() + seconds
    while link.call("GET", "/v1/health")["pool"]["ready_vms"] == 0:
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


def create_ready(daemon: Daemon) -> Callable[[], float]:
    """One that waits is taken. Others' samples may take so long that the pool forgets that it is wanted: then it is asked for again."""
    once = create(daemon, MACHINE)

    def ready() -> float:
        deadline = time.monotonic() + COPY_S
        while not has_spare(daemon, SPARE_S):
            if time.monotonic() > deadline:
                raise SystemExit("bench: no machine waits ready")
            for _ in range(ASKED):
                once()
        return once()

    return ready


def exec_true(daemon: Daemon, box: str) -> Callable[[], float]:
    def once() -> float:
        link = daemon.unix()
        return timed(lambda: link.call("POST", f"/v1/sandboxes/{box}/execs", {"argv": ["/bin/busybox", "true"]}))

    return once


def code(daemon: Daemon, box: str, language: str) -> Callable[[], float]:
    def once() -> float:
        link = daemon.unix()
        return timed(lambda: link.code(box, CALLS[language], language))

    return once


def fork(daemon: Daemon, box: str) -> Callable[[], float]:
    def once() -> float:
        link = daemon.unix()
        made: Dict[str, list] = {}
        took = timed(lambda: made.update(link.call("POST", f"/v1/sandboxes/{box}/fork", {"count": 1})))
        link.delete(made["sandboxes"][0]["id"])
        return took

    return once


def memory_of_machines(boxes: List[str]) -> List[Dict[str, int]]:
    """Of each guest's RAM, as QEMU has it mapped: Rss, Pss in KiB."""
    found = []
    for vmm in Path("/proc").glob("[0-9]*"):
        groups = read_text(f"{vmm}/cgroup")
        if read_text(f"{vmm}/comm").strip() != "cloche-vmm" or not any(box in groups for box in boxes):
            continue
        for qemu in children_of(int(vmm.name)):
            entries = re.split(r"^[0-9a-f]+-[0-9a-f]+ ", read_text(f"/proc/{qemu}/smaps"), flags=re.M)
            ram = next((e for e in entries if "/memfd:cloche-ram" in e), "")
            found.append({key: int(kib) for key, kib in re.findall(r"^(\w+): +(\d+) kB", ram, flags=re.M)})
    return [f for f in found if f]


def sharing(link: Link) -> Dict[str, List[float]]:
    boxes = [link.create(**MACHINE) for _ in range(SHARERS)]
    jails = [link.create(**JAIL) for _ in range(SHARERS)]
    ram = memory_of_machines(boxes)
    used = {key: [statistics.mean(u[key] for u in ram) / 1024] for key in ("Rss", "Pss")}
    used["machine"], used["jail"] = memory(boxes), memory(jails)
    for box in boxes + jails:
        link.delete(box)
    return used


def run(build: str, count: int) -> List[Row]:
    made = subprocess.run(["tools/guest-kernel", f"{build}/guest"], capture_output=True)
    if made.returncode or not (shutil.which("qemu-system-x86_64") or shutil.which("qemu-system-aarch64")):
        return []
    kernels = Path(build, "guest/kernels").resolve()
    warm = Daemon(build, pool=True, options=("--pool-memory", "0", "--pool-language", "bash"), kernels=kernels)
    ready = Daemon(build, pool=True, options=("--pool-min", "0", "--pool-max", "3", "--pool-language", "bash"), kernels=kernels)
    cold = Daemon(build, pool=False, kernels=kernels)
    try:
        for daemon in (warm, ready, cold):
            make_template(daemon.unix())
        for daemon in (warm, ready):
            make_copy(daemon.unix())
        link = warm.unix()
        box, jail = link.create(**MACHINE), link.create(**JAIL)
        took = interleave({
            "warm": (create(warm, MACHINE), count),
            "ready": (create_ready(ready), count),
            "cold": (create(cold, MACHINE), 3),
            "exec": (exec_true(warm, box), count),
            "jail": (exec_true(warm, jail), count),
            "python": (code(warm, box, "python"), count),
            "jail python": (code(warm, jail, "python"), count),
            "bash": (code(warm, box, "bash"), count),
            "jail bash": (code(warm, jail, "bash"), count),
            "fork": (fork(warm, box), max(count // 3, 3)),
        })
        link = warm.unix()
        for each in (box, jail):
            link.delete(each)
        used = sharing(link)
    finally:
        for daemon in (warm, ready, cold):
            daemon.close()
    return [
        row(SECTION, "create, from a warm copy", took["warm"], limit=200, peer="boot", peer_took=took["cold"], times=15),
        row(SECTION, "create, one that waits ready", took["ready"], limit=20, peer="from a warm copy", peer_took=took["warm"]),
        row(SECTION, "exec true", took["exec"], peer="in a jail", peer_took=took["jail"]),
        row(SECTION, "hot call, Python", took["python"], limit=10, peer="in a jail", peer_took=took["jail python"]),
        row(SECTION, "hot call, bash", took["bash"], limit=10, peer="in a jail", peer_took=took["jail bash"]),
        row(SECTION, "a fork with memory", took["fork"]),
        row(SECTION, f"RAM of a machine, its part, {SHARERS} of them", used["Pss"], unit="MiB", peer="all that it uses", peer_took=used["Rss"]),
        row(SECTION, f"PSS of a machine, QEMU and all, {SHARERS} of them", used["machine"], unit="MiB", peer="a jail of the template", peer_took=used["jail"]),
    ]
