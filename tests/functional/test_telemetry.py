# SPDX-License-Identifier: Apache-2.0
"""What operators are given for Prometheus and Grafana: names that promtool accepts, alerts that fire when they should and stay quiet when they should not, and a
dashboard. Neither names a metric that the daemon does not have."""

import json
import re
import shutil
import subprocess

import pytest
import yaml
from cloche import errors
from harness.daemon import ROOT
from harness.metrics import SAMPLE, page_of
from harness.samples import samples_of

ALERTS = ROOT / "packaging" / "prometheus" / "alerts.yml"
DASHBOARD = ROOT / "packaging" / "grafana" / "cloche.json"
RULES = {rule["alert"]: rule for group in yaml.safe_load(ALERTS.read_text())["groups"] for rule in group["rules"]}

needs_promtool = pytest.mark.skipif(not shutil.which("promtool"), reason="no promtool")


def promtool(*words, text=None):
    done = subprocess.run(["promtool", *map(str, words)], input=text, capture_output=True, text=True)
    assert done.returncode == 0 and not done.stderr, f"promtool {words}\n{done.stdout}{done.stderr}"


@pytest.fixture
def page(daemon, client):
    """/metrics after some work of every kind: some samples are there only once they count something."""
    with client.create() as box:
        box.run(["true"])
        box.run_code("1+1")
    with pytest.raises(errors.NotFound):
        client.get("sb_none")
    return page_of(daemon)


@needs_promtool
def test_promtool_finds_nothing_wrong_with_the_metrics(page):
    promtool("check", "metrics", text=page)


def test_every_metric_has_help_and_a_type(page):
    told = {kind: re.findall(rf"^# {kind} (\S+) \S", page, re.M) for kind in ("HELP", "TYPE")}
    assert told["HELP"] == told["TYPE"] and len(set(told["HELP"])) == len(told["HELP"]) > 40
    for line in page.splitlines():
        if not line.startswith("#"):
            name = SAMPLE.match(line).group(1)
            assert name in told["TYPE"] or re.sub("_(bucket|sum|count)$", "", name) in told["TYPE"], line


def queries_of_dashboard():
    board = json.loads(DASHBOARD.read_text())
    variables = [v["query"]["query"] for v in board["templating"]["list"] if v["type"] == "query"]
    return [target["expr"] for panel in board["panels"] for target in panel.get("targets", [])] + variables


def queries_of_alerts():
    return [rule["expr"] for rule in RULES.values()]


@pytest.mark.parametrize("queries", [queries_of_dashboard(), queries_of_alerts()], ids=["dashboard", "alerts"])
def test_what_is_asked_for_is_what_a_daemon_has(page, queries):
    names = {SAMPLE.match(line).group(1) for line in page.splitlines() if not line.startswith("#")}
    for query in queries:
        asked = set(re.findall(r"\bcloche_\w+", query))
        assert asked <= names, f"{query}: there is no {asked - names}"
        assert asked or re.search(r"\bup\{", query), query
        for name, matchers in re.findall(r"\b(cloche_\w+)\{([^}]*)\}", query):
            for label, values in re.findall(r'\b(code|state|part|process)=~?"([^"]*)"', matchers):
                for value in values.split("|"):
                    assert re.search(rf'^{name}{{[^}}]*{label}="{value}"', page, re.M), f"{query}: no sample has {label} {value}"


def test_every_problem_that_health_can_tell_has_an_alert(page):
    codes = re.findall(r'^cloche_problem\{code="(\w+)"\}', page, re.M)
    named = " ".join(queries_of_alerts())
    assert len(codes) > 5 and [c for c in codes if not re.search(rf"\b{c}\b", named)] == []


@needs_promtool
def test_the_queries_of_the_dashboard_can_be_parsed(tmp_path):
    queries = [q for q in queries_of_dashboard() if not q.startswith("label_values(")]
    rules = [{"record": f"panel:{i}", "expr": q.replace("$__rate_interval", "5m").replace("$instance", ".*")} for i, q in enumerate(queries)]
    (tmp_path / "rules.yml").write_text(yaml.safe_dump({"groups": [{"name": "dashboard", "rules": rules}]}))
    promtool("check", "rules", tmp_path / "rules.yml")


def test_the_dashboard_is_whole():
    board = json.loads(DASHBOARD.read_text())
    panels = board["panels"]
    assert board["uid"] == "cloche" and len({p["id"] for p in panels}) == len(panels) > 20
    cells = [(x, y) for p in panels for x in range(p["gridPos"]["x"], p["gridPos"]["x"] + p["gridPos"]["w"])
             for y in range(p["gridPos"]["y"], p["gridPos"]["y"] + p["gridPos"]["h"])]
    assert len(set(cells)) == len(cells) and all(x < 24 for x, _ in cells), "panels overlap"
    for panel in panels:
        assert panel["type"] == "row" or (panel["targets"] and panel["datasource"]["uid"] == "${datasource}"), panel["title"]


HOST = {"instance": "a", "job": "cloche"}


def problem(*codes):
    """An alert of a problem, with the labels that it fires with."""
    return {"fires": {f'cloche_problem{{code="{c}"}}': "1x90" for c in codes}, "quiet": {f'cloche_problem{{code="{c}"}}': "0x90" for c in codes},
            "labels": [{**HOST, "code": c} for c in codes]}


def buckets(*counts):
    return {f'cloche_create_seconds_bucket{{le="{le}"}}': count for le, count in zip(("1.000000", "5.000000", "30.000000", "+Inf"), counts, strict=True)}


# Of each alert: series (a sample a minute) with which it fires, series with which it does not, and (by default: those of the host) the labels of what fires.
CASES = {
    "ClocheDown": {"fires": {"up": "0x90"}, "quiet": {"up": "1x90"}},
    "ClocheNotScraped": {"fires": {"other": "1x90"}, "quiet": {"up": "0x90"}, "labels": [{"job": "cloche"}]},
    "ClocheDatabaseFailing": problem("database_failing"),
    "ClocheLayersReadOnly": problem("layers_read_only"),
    "ClocheDiskFull": problem("host_disk_full"),
    "ClocheDiskFillsUp": {"fires": {"cloche_disk_free_bytes": "1900x90", "cloche_disk_reserve_bytes": "1000x90"},
                          "quiet": {"cloche_disk_free_bytes": "2100x90", "cloche_disk_reserve_bytes": "1000x90"}},
    "ClochePartStuck": problem("broker_stuck", "wall_stuck", "dialer_stuck"),
    "ClochePartReplaced": {"fires": {'cloche_part_replaced_timestamp_seconds{part="wall"}': "3000x90"},  # it is looked at an hour after 1970 began
                           "quiet": {'cloche_part_replaced_timestamp_seconds{part="wall"}': "0x90", 'cloche_part_replaced_timestamp_seconds{part="broker"}': "2600x90"},
                           "labels": [{**HOST, "part": "wall"}]},
    "ClocheCreatesFailing": problem("creates_failing"),
    "ClocheCreatesSlow": {"fires": buckets("0x90", "0+90x90", "0+100x90", "0+100x90"), "quiet": buckets("0+90x90", "0+96x90", "0+100x90", "0+100x90"),
                          "labels": [{"instance": "a"}]},
    "ClochePoolFailing": problem("pool_failing", "zygotes_dying"),
    "ClocheKeyLost": problem("key_lost"),
    "ClocheCollectorFailing": problem("collector_failing"),
    "ClocheLoginFailing": problem("login_failing"),
    "ClocheClusterFailing": problem("cluster_failing"),
    "ClocheAuditNotSent": problem("audit_store_failing", "audit_syslog_failing"),
    "ClocheAuditLost": {"fires": {'cloche_audit_lost_total{sink="s3"}': "0x30 5x60"}, "quiet": {'cloche_audit_lost_total{sink="s3"}': "5x90"},
                        "labels": [{**HOST, "sink": "s3"}]},
    "ClocheNoCapacity": {"fires": {"cloche_sandboxes_alive": "10x90", "cloche_sandboxes_max": "10x90"},
                         "quiet": {"cloche_sandboxes_alive": "9x90", "cloche_sandboxes_max": "10x90"}},
    "ClocheCapacityLow": {"fires": {"cloche_sandboxes_alive": "9x90", "cloche_sandboxes_max": "10x90"},
                          "quiet": {"cloche_sandboxes_alive": "8x90", "cloche_sandboxes_max": "10x90"}},
    "ClocheRequestsFailing": {"fires": {'cloche_http_requests_total{status="2xx"}': "0+90x90", 'cloche_http_requests_total{status="5xx"}': "0+10x90"},
                              "quiet": {'cloche_http_requests_total{status="2xx"}': "0+90x90", 'cloche_http_requests_total{status="5xx"}': "0+1x90"},
                              "labels": [{"instance": "a"}]},
    "ClocheLoopBusy": {"fires": {"cloche_loop_busy_seconds_total": "0+58x90"}, "quiet": {"cloche_loop_busy_seconds_total": "0+30x90"}},
    "ClocheWebhooksFailing": {"fires": {"cloche_webhooks_failing": "1x90"}, "quiet": {"cloche_webhooks_failing": "1x40 0x50"}},
    "ClocheWebhookEventsDropped": {"fires": {"cloche_webhook_dropped_total": "0x30 1x60"}, "quiet": {"cloche_webhook_dropped_total": "1x90"}},
    "ClocheEventsLost": {"fires": {"cloche_events_lost_total": "0x30 5x60"}, "quiet": {"cloche_events_lost_total": "5x90"}},
}


def of_host(series):
    name, _, labels = series.partition("{")
    return f'{name}{{instance="a",job="{"another" if name == "other" else "cloche"}",{labels.rstrip("}")}}}'


def case_of(alert, series, fired):
    rule = RULES[alert]
    told = [{"exp_labels": {**rule["labels"], **labels}, "exp_annotations": rule["annotations"]} for labels in fired]
    return {"interval": "1m", "input_series": [{"series": of_host(s), "values": v} for s, v in series.items()],
            "alert_rule_test": [{"eval_time": "1h", "alertname": alert, "exp_alerts": told}]}


def test_every_alert_has_a_case_and_says_what_to_do():
    assert sorted(CASES) == sorted(RULES)
    for rule in RULES.values():
        assert rule["labels"]["severity"] in ("critical", "warning") and set(rule["annotations"]) == {"summary", "description"}


@needs_promtool
def test_promtool_finds_nothing_wrong_with_the_alerts():
    promtool("check", "rules", ALERTS)


@needs_promtool
@pytest.mark.parametrize("alert", RULES)
def test_an_alert_fires_when_it_should_and_not_when_it_should_not(alert, tmp_path):
    case = CASES[alert]
    tests = [case_of(alert, case["fires"], case.get("labels", [HOST])), case_of(alert, case["quiet"], [])]
    (tmp_path / "tests.yml").write_text(yaml.safe_dump({"rule_files": [str(ALERTS)], "evaluation_interval": "1m", "tests": tests}))
    promtool("test", "rules", tmp_path / "tests.yml")


@needs_promtool
def test_prometheus_takes_the_settings_of_the_guide(tmp_path):
    found = [sample.code for sample in samples_of("docs/guides/operate.md") if sample.language == "yaml"]
    assert len(found) == 1 and yaml.safe_load(found[0])["scrape_configs"][0]["job_name"] == "cloche"
    (tmp_path / "prometheus.yml").write_text(found[0])
    promtool("check", "config", "--syntax-only", tmp_path / "prometheus.yml")


def formats_of_log():
    """(place, format) of every call that logs, with `N` for what a macro puts in."""
    for path in sorted((ROOT / "src").rglob("*.c")):
        text = path.read_text()
        for call in re.finditer(r'\blog_(?:debug|info|warn|error|write)\((?:[^";]*,)?\s*"[^"]*",\s*((?:"(?:[^"\\]|\\.)*"|\b[A-Z]\w+|\s)+)[,)]', text):
            parts = re.findall(r'"((?:[^"\\]|\\.)*)"|([A-Z]\w+)', call.group(1))
            words = "".join(literal or {"PRIu64": "lu", "PRId64": "ld", "PRIu32": "u"}.get(macro, "N") for literal, macro in parts)
            yield f"{path.relative_to(ROOT)}:{text.count(chr(10), 0, call.start()) + 1}", words


CONVERSION = r"%(?:(?:\.\d+)?s|c|(?:l|ll|z)?[dux])"
PAIR = rf"([a-z_]+)=(?:'(?:[^'%]|{CONVERSION})*'|(?:[^ '%]|{CONVERSION})+)"


def test_every_line_of_the_log_is_made_of_fields():
    formats = dict(formats_of_log())
    calls = sum(len(re.findall(r"^\s*log_(?:debug|info|warn|error|write)\(", p.read_text(), re.M)) for p in (ROOT / "src").rglob("*.c"))
    assert len(formats) == calls > 250
    for place, words in formats.items():
        assert re.fullmatch(rf"{PAIR}(?: {PAIR})*", words), f"{place}: {words}"
        names = re.findall(r"(?:^| )([a-z_]+)=", re.sub(r"'[^']*'", "''", words))
        assert len(set(names)) == len(names) and not {"time", "level", "program", "event"}.intersection(names), f"{place}: {words}"


def test_every_line_that_a_daemon_logs_is_json(daemon, page):
    lines = [json.loads(line) for line in daemon.log().rpartition("\n")[0].splitlines() if line.startswith("{")]
    assert {"time", "level", "program", "event"} <= set.intersection(*map(set, lines))
    assert any(e["event"] == "sandbox.moved" and e["id"].startswith("sb_") and e["to"] == "running" for e in lines)
