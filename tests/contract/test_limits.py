# SPDX-License-Identifier: Apache-2.0
"""The table of limits (src/engine/limits.h), and those that say the same in other languages."""

import re
import subprocess

from contract.description import TEXT
from harness.daemon import BUILD, ROOT

ROW = re.compile(r"X\(a, (\w+), +(\w+), +(CPUS|SIZE|COUNT|COUNT64), +([\w *]+?)[,)]")
UNITS = {"CPUS": 1000, "SIZE": 2**20, "COUNT": 1, "COUNT64": 1}


def table(macro):
    """Rows of a macro: {name in the API: the least there}."""
    text = (ROOT / "src" / "engine" / "limits.h").read_text()
    rows = ROW.findall(text.partition(f"#define {macro}(X, a)")[2].partition("\n\n")[0])
    return {name: eval(least, {"MIB": 2**20}) / UNITS[kind] for _, name, kind, least in rows}


GUEST, EXECS = table("GUEST_LIMITS"), table("EXEC_LIMITS")
NAMES = [*GUEST, *EXECS]


def test_the_table_is_read():
    assert len(GUEST) >= 6 and len(EXECS) >= 2


def test_the_description_has_each_limit_with_its_least():
    described = TEXT["components"]["schemas"]["Limits"]["properties"]
    assert list(described) == NAMES
    assert {name: described[name]["minimum"] for name in GUEST} == GUEST


def test_each_limit_can_be_a_ceiling():
    assert list(TEXT["components"]["schemas"]["Ceilings"]["properties"]) == NAMES


def test_both_sdks_have_each_limit():
    typescript = (ROOT / "sdk" / "typescript" / "src" / "options.ts").read_text()
    fields = typescript.partition("export interface Limits {")[2].partition("}")[0]
    assert re.findall(r"(\w+)\?:", fields) == NAMES
    python = (ROOT / "sdk" / "python" / "cloche" / "_fields.py").read_text()
    words = python.partition("limits: Optional[Mapping[str, Any]]")[2].split('"""')[1]
    assert re.findall(r"\w+", words) == NAMES


def test_the_settings_have_a_default_and_a_ceiling_of_each():
    text = subprocess.run([BUILD / "cloche", "serve", "--print-config"], check=True, capture_output=True, text=True).stdout
    for section in ("defaults", "ceilings"):
        body = text.partition(f"[{section}]\n")[2].partition("\n[")[0]
        assert len(re.findall(r"^#?\w+ = ", body, re.M)) == len(GUEST) + 1  # and timeout


def test_the_help_of_quotas_names_each():
    text = subprocess.run([BUILD / "cloche", "quota", "set", "--help"], check=True, capture_output=True, text=True).stdout
    assert [name for name in NAMES if name not in text] == []
