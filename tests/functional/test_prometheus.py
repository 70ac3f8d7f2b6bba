# SPDX-License-Identifier: Apache-2.0
"""A real Prometheus, with the settings of the guide and the rules of the package, scrapes a real daemon, and an alert fires."""

import json
import os
import shutil
import signal
import subprocess
import urllib.request

import pytest
import yaml
from harness.daemon import ROOT, Daemon, free_port, wait_for
from harness.samples import samples_of

ALERTS = ROOT / "packaging" / "prometheus" / "alerts.yml"


@pytest.fixture
def scraped():
    daemon = Daemon("--pool-max", "0").start()
    try:
        yield daemon
    finally:
        daemon.stop()
        daemon.remove()


def settings_of(daemon, tmp_path):
    """Those of the guide for this daemon, looked at more often."""
    (text,) = [sample.code for sample in samples_of("docs/guides/operate.md") if sample.language == "yaml"]
    settings = yaml.safe_load(text)
    (job,) = settings["scrape_configs"]
    job["static_configs"] = [{"targets": [f"127.0.0.1:{daemon.port}"]}]
    job["authorization"]["credentials_file"] = str(tmp_path / "cloche.key")
    (tmp_path / "cloche.key").write_text(daemon.key)
    settings["rule_files"] = [str(ALERTS)]
    settings["global"] = {"scrape_interval": "1s", "evaluation_interval": "1s"}
    (tmp_path / "prometheus.yml").write_text(yaml.safe_dump(settings))
    return tmp_path / "prometheus.yml"


class Prometheus:
    def __init__(self, settings, tmp_path):
        self.address = f"127.0.0.1:{free_port()}"
        self.log = open(tmp_path / "log", "w+")
        self.process = subprocess.Popen(
            ["prometheus", f"--config.file={settings}", f"--storage.tsdb.path={tmp_path / 'data'}", f"--web.listen-address={self.address}"],
            stdout=self.log, stderr=self.log)

    def ask(self, path):
        """What its API says; None while it is not up."""
        assert self.process.poll() is None, (self.log.seek(0), self.log.read())
        try:
            with urllib.request.urlopen(f"http://{self.address}/api/v1/{path}", timeout=10) as reply:
                return json.load(reply)["data"]
        except OSError:
            return None

    def alerts(self):
        return {(a["labels"]["alertname"], a["state"]): a for a in (self.ask("alerts") or {"alerts": []})["alerts"]}

    def end(self):
        self.process.terminate()
        self.process.wait(30)
        self.log.close()


@pytest.mark.skipif(not shutil.which("prometheus"), reason="no prometheus")
def test_an_alert_fires_in_a_prometheus_that_scrapes_the_daemon(scraped, tmp_path):
    prometheus = Prometheus(settings_of(scraped, tmp_path), tmp_path)
    try:
        def is_scraped():
            targets = (prometheus.ask("targets") or {"activeTargets": []})["activeTargets"]
            return [t["health"] for t in targets] == ["up"] and (prometheus.ask("query?query=cloche_sandboxes_max") or {}).get("result")
        wait_for(is_scraped, 60, "a scrape")

        def all_evaluated():
            groups = (prometheus.ask("rules") or {"groups": []})["groups"]
            return groups and all(rule["health"] == "ok" for group in groups for rule in group["rules"])
        wait_for(all_evaluated, 60, "the rules")
        assert ("ClochePartReplaced", "firing") not in prometheus.alerts()
        os.kill(scraped.wall_pid, signal.SIGKILL)
        alert = wait_for(lambda: prometheus.alerts().get(("ClochePartReplaced", "firing")), 60, "the alert")
        assert alert["labels"]["part"] == "wall" and alert["labels"]["job"] == "cloche" and alert["labels"]["severity"] == "warning", alert
        assert alert["labels"]["instance"] == f"127.0.0.1:{scraped.port}" and alert["annotations"]["summary"]
    finally:
        prometheus.end()
