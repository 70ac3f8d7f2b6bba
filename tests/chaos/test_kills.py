# SPDX-License-Identifier: Apache-2.0
"""Crash-only: whatever of a daemon is killed, at whatever moment, nothing acknowledged is lost and nothing is left.

CLOCHE_CHAOS_KILLS says how often (`make chaos KILLS=1000`), CLOCHE_CHAOS_SEED what is chosen; `make chaos` draws one and prints it.
"""

import contextlib
import os
import subprocess

import pytest
from harness import audit
from harness.daemon import read_text, wait_for

from chaos.run import SEED, Run

KILLS = int(os.environ.get("CLOCHE_CHAOS_KILLS", "8"))


@pytest.fixture
def run(monkeypatch):
    run = Run(monkeypatch)
    yield run
    run.close()


NOBODYS = "a" * 26  # as an id ends


@contextlib.contextmanager
def planted_file(path):
    path.touch()
    yield
    path.unlink()


@contextlib.contextmanager
def planted_dir(path):
    path.mkdir()
    yield
    path.rmdir()


@contextlib.contextmanager
def planted_mount(path):
    with planted_dir(path):
        subprocess.run(["mount", "-t", "tmpfs", "left", str(path)], check=True)
        yield
        subprocess.run(["umount", str(path)], check=True)


@contextlib.contextmanager
def planted_process(command):
    """It has our mark from the environment."""
    with subprocess.Popen(["sh", "-c", f"{command} exec sleep 100"]) as p:
        try:
            yield
        finally:
            p.kill()


def test_whatever_is_left_on_the_host_is_found(run):
    data, group = run.daemon.data, next(m for m in audit._cgroup_mounts() if (m / run.host.top).is_dir()) / run.host.top
    plants = {
        "spool file": planted_file(data / "gateway" / "spool" / f"ex_{NOBODYS}"),
        "spares": planted_dir(run.daemon.run / "sandboxes" / f"sb_{NOBODYS}"),
        "cgroup": planted_dir(group / f"sb_{NOBODYS}"),
        "mount": planted_mount(run.daemon.dir / "left"),
        "processes": planted_process(""),
        "zombie": planted_process("sleep 0.1 &"),
    }
    if (data / "layers").is_dir():
        plants["layer"] = planted_dir(data / "layers" / f"sb_{NOBODYS}")
    assert run.host.look(run.listed) == []
    for kind, plant in plants.items():
        with plant:
            wait_for(lambda: [w for w in run.host.wrongs(run.listed()) if w.startswith(kind)], 20, kind)
    assert run.host.look(run.listed) == []


def test_O01_whatever_is_killed_nothing_acknowledged_is_lost_and_nothing_is_left(run, capsys):
    run.load.start()
    try:
        for _ in range(KILLS):
            run.kill_once()
        run.load.end()
        run.finish()
    except BaseException:
        print(f"seed {SEED}, kills {dict(run.kills)}; the log ends:\n{read_text(run.daemon.log_path)[-20000:]}")
        raise
    answers, steps = (sum(getattr(w, n) for w in run.load.workers) for n in ("answers", "steps"))
    with capsys.disabled():
        print(f"\nseed {SEED}: {sum(run.kills.values())} kills {dict(run.kills)}")
        print(f"{steps} steps, {answers} answers, {run.log.place} events, {run.reconciled} accounts reconciled")
