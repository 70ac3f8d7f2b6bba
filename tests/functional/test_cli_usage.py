# SPDX-License-Identifier: Apache-2.0
"""cloche usage, quota and top, as a script and as a person at a terminal meet them."""

import csv
import io
import json
import signal

from harness.cli import Terminal


def test_usage_is_a_table_csv_or_json(cli, sandbox):
    sandbox.run("true")
    rows = json.loads(cli.ok("usage", "--by", "sandbox", "--json"))
    assert sandbox.id in [r["sandbox_id"] for r in rows]
    lines = list(csv.DictReader(io.StringIO(cli.ok("usage", "--by", "sandbox", "--csv"))))
    assert sandbox.id in [r["sandbox_id"] for r in lines] and lines[0]["currency"] == "EUR"
    table = cli.ok("usage")
    assert table.startswith("PROJECT ") and "\ndefault " in table
    assert cli.ok("usage", "--by", "day", "--from", "2026-01-01", "--to", "2026-01-02") == cli.ok("usage", "--by", "day", "--from", "2026-01-02", "--to", "2026-01-02")


def test_usage_names_a_bad_day(cli):
    status, out, err = cli("usage", "--from", "yesterday")
    assert (status, out) == (125, "") and "must be a day such as" in err


def test_a_quota_is_shown_and_set(cli, client):
    client.create_project("cli-quota")
    shown = cli.ok("quota", "set", "--project", "cli-quota", "sandboxes=3", "vcpus=1.5", "budget=2.50")
    assert [line.split() for line in shown.splitlines()[2:5]] == [["sandboxes", "0", "3"], ["vcpus", "0", "1.5"], ["memory_mib", "0", "unlimited"]]
    assert "budget" in shown and "2.50" in shown
    assert cli.ok("quota", "show", "--project", "cli-quota") == shown
    assert cli.ok("quota").startswith("project prj_")
    assert json.loads(cli.ok("quota", "--json"))["key"] is None


def test_ceilings_of_a_single_sandbox_are_set_and_shown(cli, client):
    client.create_project("cli-ceilings")
    shown = cli.ok("quota", "set", "--project", "cli-ceilings", "max_limits.vcpus=0.5", "max_limits.memory_mib=2048", "max_timeout_ms=60000")
    ceilings = [line.split() for line in shown.splitlines() if line.lstrip().startswith("max_")]
    assert ceilings == [["max_limits.vcpus", "-", "0.5"], ["max_limits.memory_mib", "-", "2048"], ["max_timeout_ms", "-", "60000"]]
    assert "max_" not in cli.ok("quota", "set", "--project", "cli-ceilings", "sandboxes=3")


def test_a_bad_limit_is_named(cli):
    for word, complaint in (("sandboxes", "is not LIMIT=VALUE"), ("sandboxes=many", "sandboxes: must be"), ("nothing=1", "nothing:"), ("max_limits.pids=none", "max_limits.pids: must be")):
        status, out, err = cli("quota", "set", word)
        assert (status, out) == (125, "") and complaint in err


def test_top_once_is_a_plain_table(cli, client):
    with client.create(name="top-spin") as spin, client.create(name="top-idle") as idle:
        spin.start(["python3", "-c", "while True: pass"])
        rows = {r["sandbox_id"]: r for r in json.loads(cli.ok("top", "--once", "--json"))}
        assert rows[spin.id]["cpu_percent"] > 5 > rows[idle.id]["cpu_percent"]
        out = cli.ok("top", "--once")
        names = [line.split()[0] for line in out.splitlines()[3:]]
        assert "\x1b" not in out and "running, CPU" in out.splitlines()[0]
        assert names.index("top-spin") < names.index("top-idle")


def test_top_draws_on_the_other_screen_and_leaves_the_terminal_as_it_was(cli, client):
    with client.create(name="top-seen"):
        t = Terminal(cli, "top", "-d", "100ms")
        for text in ("\x1b[?1049h", "top-seen", "\x1b[H", "top-seen"):
            t.expect(text)
        t.type("\x03")
        t.expect("\x1b[?1049l")
        assert t.finish() == 0


def test_top_follows_itself_into_a_pipe_until_a_signal(cli, sandbox):
    p = cli.start("top", "-d", "100ms")
    seen = [p.stdout.readline() for _ in range(12)]
    p.send_signal(signal.SIGTERM)
    rest, err = p.communicate(timeout=60)
    assert (p.returncode, err) == (0, b"") and sum(b"running, CPU" in line for line in seen) >= 2


def test_an_unknown_order_is_named(cli):
    status, _, err = cli("top", "--sort", "luck")
    assert status == 125 and "--sort: must be cpu, memory or disk" in err
