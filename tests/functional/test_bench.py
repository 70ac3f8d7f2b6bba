# SPDX-License-Identifier: Apache-2.0
"""The bench itself works: it runs, its figures are whole, and a page comes of them. What they say is not judged here."""

import json
import os
import subprocess
from xml.etree import ElementTree

import pytest
from harness.daemon import BUILD, IS_SANITIZED, ROOT

pytestmark = pytest.mark.slow


PYTHON = "/usr/bin/python3"


@pytest.mark.skipif(IS_SANITIZED, reason="the figures of a sanitized build say nothing")
def test_a_run_gives_a_table_figures_and_a_page(tmp_path):
    figures, page = tmp_path / "bench.json", tmp_path / "performance.md"
    argv = [PYTHON, ROOT / "bench" / "run.py", "--build", BUILD, "--count", "2", "--density", "2", "--images", "3", "--image-mib", "16", "--json", figures, "exec", "images", "pulls", "density"]
    r = subprocess.run(argv, capture_output=True, text=True, timeout=120)
    assert r.returncode == 0, r.stdout + r.stderr
    assert "disk of one, 3 of 16 MiB over 2" in r.stdout and "create, each of 3 in turn" in r.stdout and "pulling one over what is here" in r.stdout
    assert "posix_spawn inside" in r.stdout and "gateway RSS, 2 live" in r.stdout
    result = json.loads(figures.read_text())
    met = [one["ok"] for one in result["rows"] if one["ok"] is not None]
    told = r.stdout[r.stdout.index(f"\n{sum(met)} of {len(met)} aims are met") :].splitlines()
    assert len([line for line in told if line.startswith("  ")]) == len(met) - sum(met), r.stdout
    assert result["machine"]["cores"] >= 1 and result["machine"]["cpu"]
    assert all(one["p50"] > 0 and one["n"] > 0 for one in result["rows"]), result["rows"]
    subprocess.run([PYTHON, ROOT / "bench" / "report.py", figures, page], check=True, timeout=60)
    text = page.read_text()
    assert result["machine"]["cpu"] in text and "| exec true |" in text and "## Density" in text


@pytest.mark.skipif(IS_SANITIZED, reason="the figures of a sanitized build say nothing")
def test_the_network_wall_is_measured_beside_no_wall_and_mitmproxy(tmp_path):
    figures = tmp_path / "bench.json"
    argv = [PYTHON, ROOT / "bench" / "run.py", "--build", BUILD, "--count", "1", "--json", figures, "wall"]
    r = subprocess.run(argv, capture_output=True, text=True, timeout=300)
    assert r.returncode == 0, r.stdout + r.stderr
    rows = json.loads(figures.read_text())["rows"]
    assert len(rows) == 13 and all(one["p50"] > 0 for one in rows), rows


@pytest.mark.skipif(IS_SANITIZED, reason="the figures of a sanitized build say nothing")
def test_floors_are_measured_beside_the_rows_and_lie_below_them(tmp_path):
    figures = tmp_path / "bench.json"

    def run(section):
        argv = [PYTHON, ROOT / "bench" / "run.py", "--build", BUILD, "--count", "2", "--keep", "--json", figures, section]
        r = subprocess.run(argv, capture_output=True, text=True, timeout=300)
        assert r.returncode == 0, r.stdout + r.stderr
        return [one for one in json.loads(figures.read_text())["rows"] if (one["peer"] or "").startswith("floor: ")]

    floors = run("throughput")
    assert len(floors) <= 1  # a host without the tree `cpuacct` has no account of CPU time
    both = run("snapshots")
    assert both[: len(floors)] == floors and len(both) == len(floors) + 1  # those of the first run are kept
    assert all(0 < one["peer_p50"] < one["p50"] for one in both), both


def test_an_unknown_section_is_named():
    r = subprocess.run([PYTHON, ROOT / "bench" / "run.py", "speed"], capture_output=True, text=True, timeout=60)
    assert r.returncode != 0 and "no section 'speed'" in r.stderr


@pytest.mark.skipif(IS_SANITIZED, reason="the figures of a sanitized build say nothing")
def test_what_grows_is_measured_and_drawn(tmp_path):
    figures, page = tmp_path / "bench.json", tmp_path / "performance.md"
    argv = [PYTHON, ROOT / "bench" / "run.py", "--build", BUILD, "--count", "1", "--density", "10", "--state-mb", "8", "--paused", "10", "--json", figures, "growth"]
    r = subprocess.run(argv, capture_output=True, text=True, timeout=300)
    assert r.returncode == 0, r.stdout + r.stderr
    subprocess.run([PYTHON, ROOT / "bench" / "report.py", figures, page], check=True, timeout=60)
    for chart, series in (("live", 3), ("state", 3), ("paused", 1)):
        assert f"performance-{chart}.svg" in page.read_text()
        assert len(ElementTree.parse(tmp_path / f"performance-{chart}.svg").findall("{http://www.w3.org/2000/svg}polyline")) == series


@pytest.mark.skipif(IS_SANITIZED, reason="the figures of a sanitized build say nothing")
def test_rollouts_are_measured_beside_bwrap(tmp_path):
    figures, page = tmp_path / "bench.json", tmp_path / "performance.md"
    argv = [PYTHON, ROOT / "bench" / "run.py", "--build", BUILD, "--count", "1", "--json", figures, "rollout"]
    r = subprocess.run(argv, capture_output=True, text=True, timeout=300)
    assert r.returncode == 0, r.stdout + r.stderr
    rows = {one["what"]: one for one in json.loads(figures.read_text())["rows"]}
    most = len(os.sched_getaffinity(0))
    assert {"10 rollouts, 10 live", *(f"rollouts a second, {n} CPU{'s' * (n > 1)}" for n in (1, most))} < set(rows)
    serial = next(one for what, one in rows.items() if "busiest thread, cloche" in what)
    whole, paper = rows["CPU time of a rollout, without the client's"], rows["rollouts a second at most, 16 CPUs, on paper"]
    assert 0 < serial["p50"] < whole["p50"] and paper["p50"] == pytest.approx(min(16_000 / whole["p50"], 1000 / serial["p50"]))
    subprocess.run([PYTHON, ROOT / "bench" / "report.py", figures, page], check=True, timeout=60)
    drawn = ElementTree.parse(tmp_path / "performance-rollouts.svg").findall("{http://www.w3.org/2000/svg}circle")
    assert len(drawn) == len({1, most}) + 1
