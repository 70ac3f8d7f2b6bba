# SPDX-License-Identifier: Apache-2.0
"""`cloche serve --print-config`: all settings, as a file that gives them again."""

import subprocess
import tomllib

import pytest
from harness.cli import CLOCHE


def printed(*options):
    done = subprocess.run([CLOCHE, "serve", "--print-config", *options], capture_output=True, text=True, timeout=20)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def nothing(tmp_path):
    (tmp_path / "none.toml").write_text("")
    return str(tmp_path / "none.toml")


def test_what_is_as_it_is_without_a_file_is_commented_out(nothing):
    text = printed("--config", nothing)
    assert all(line.startswith(("#", "[")) for line in text.splitlines() if line), text
    assert '#listen = ["127.0.0.1:7070"]' in text and "[network]" in text


def test_what_was_printed_gives_the_same_again(nothing, tmp_path):
    options = ["--pool-min", "3", "--spool", "1MiB", "--default-timeout", "90s", "--max-vcpus", "1.5", "--price-create", "0.25", "--metrics-open",
               "--host", 'a"b\\c', "--network-never", "192.0.2.0/24", "--network-never", "198.51.100.0/24", "--log-level", "warn", "--quota-sandboxes", "5"]
    first = printed("--config", nothing, *options)
    got = tomllib.loads(first)
    assert got["pool"]["min"] == 3 and got["hosts"] == ['a"b\\c'] and got["network"]["never"] == ["192.0.2.0/24", "198.51.100.0/24"]
    assert got["spool"] == "1MiB" and got["defaults"] == {"timeout": "90s"} and got["log_level"] == "warn" and got["quota"] == {"sandboxes": 5}
    (tmp_path / "again.toml").write_text(first)
    assert printed("--config", str(tmp_path / "again.toml")) == first


def test_every_setting_that_is_shown_is_known(nothing, tmp_path):
    """Without its comment sign each line is a setting: none is misspelt, none in a wrong section."""
    is_set = lambda line: line.startswith("#") and not line.startswith("# ") and not line.endswith("= ")
    lines = [line[1:] if is_set(line) else line for line in printed("--config", nothing).splitlines()]
    (tmp_path / "all.toml").write_text("\n".join(lines))
    assert printed("--config", str(tmp_path / "all.toml")) == printed("--config", nothing)
