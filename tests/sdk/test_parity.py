# SPDX-License-Identifier: Apache-2.0
"""The same calls in both languages, and in both faces of Python, give the same: one table, run through all of them."""

import json
import shutil
import sys
from pathlib import Path

import pytest
from harness.npm import run
from sdk.parity.table import TABLE

HERE = Path(__file__).parent / "parity"


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    path = tmp_path_factory.mktemp("parity") / "table.json"
    path.write_text(json.dumps(TABLE))
    return path


def check(printed):
    results = json.loads(printed)
    assert len(results) == len(TABLE)
    for row, result in zip(TABLE, results):
        said = f"{row['call']} {row['args']} {row['options']}: {result}"
        assert result.get("fails") == row["fails"], said
        if row["gives"] is not None:
            assert result["gives"] == row["gives"], said
    return [{k: v for k, v in r.items()} for r in results]


@pytest.fixture(scope="module")
def first():
    """What the first that ran gave, by engine."""
    return {}


def agree(first, engine, results):
    """Ids differ from run to run; all else that is shown must not."""
    def told(row, result):
        return None if row["show"] == ["id"] else result

    mine = [told(row, result) for row, result in zip(TABLE, results)]
    for row, a, b in zip(TABLE, first.setdefault(engine, mine), mine):
        assert a == b, row["call"]


@pytest.mark.parametrize("face", ["sync", "async"])
def test_python_gives_what_the_table_says(table, environment, engine, face, first):
    agree(first, engine, check(run(sys.executable, str(HERE / "drive.py"), face, str(table), engine, cwd=HERE, env=environment)))


@pytest.mark.skipif(not shutil.which("npm"), reason="this host has no npm")
def test_typescript_gives_what_the_table_says(table, environment, engine, first, typescript_project):
    shutil.copy(HERE / "drive.mjs", typescript_project)
    agree(first, engine, check(run("node", "drive.mjs", str(table), engine, cwd=typescript_project, env=environment)))
