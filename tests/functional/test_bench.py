# SPDX-License-Identifier: Apache-2.0
"""The bench itself works: it runs, its figures are whole, and a page comes of them. What they say is not judged here."""

import json
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


def test_an_unknown_section_is_named():
    r = subprocess.run([PYTHON, ROOT / "bench" / "run.py", "speed"], capture_output=True, text=True, timeout=60)
    assert r.returncode != 0 and "no section 'speed'" in r.stderr


@pytest.mark.skipif(IS_SANITIZED, reason="the figures of a sanitized build say nothing")
def test_what_grows_is_measured_and_drawn(tmp_path):
    figures, page = tmp_path / "bench.json", tmp_path / "performance.md"
    argv = [PYTHON, ROOT / "bench" / "run.py", "--build", BUILD, "--count", "1", "--density", "10", "--state-mb", "8", "--json", figures, "growth"]
    r = subprocess.run(argv, capture_output=True, text=True, timeout=300)
    assert r.returncode == 0, r.stdout + r.stderr
    subprocess.run([PYTHON, ROOT / "bench" / "report.py", figures, page], check=True, timeout=60)
    for chart, series in (("live", 3), ("state", 3), ("paused", 1)):
        assert f"performance-{chart}.svg" in page.read_text()
        assert len(ElementTree.parse(tmp_path / f"performance-{chart}.svg").findall("{http://www.w3.org/2000/svg}polyline")) == series


@pytest.mark.skipif(IS_SANITIZED, reason="the figures of a sanitized build say nothing")
def test_rollouts_are_measured_beside_bwrap(tmp_path):
    figures = tmp_path / "bench.json"
    argv = [PYTHON, ROOT / "bench" / "run.py", "--build", BUILD, "--count", "1", "--json", figures, "rollout"]
    r = subprocess.run(argv, capture_output=True, text=True, timeout=300)
    assert r.returncode == 0, r.stdout + r.stderr
    assert [one["what"] for one in json.loads(figures.read_text())["rows"]] == ["10 rollouts, 10 live"]
