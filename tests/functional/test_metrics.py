# SPDX-License-Identifier: Apache-2.0
"""/metrics: what Prometheus reads, for those who may."""

import http.client
import re

from harness.daemon import Daemon, memory_kib
from harness.metrics import figures


def scrape(daemon, key=None):
    connection = http.client.HTTPConnection("127.0.0.1", daemon.port, timeout=60)
    connection.request("GET", "/metrics", headers={"X-API-Key": key} if key else {})
    reply = connection.getresponse()
    data = reply.read().decode()
    connection.close()
    return reply.status, data


def test_what_is_done_is_counted(daemon, client, sandbox):
    before = figures(daemon)
    with client.create() as box:
        box.run(["true"])
        box.run_code("1+1")
        box.run_code("1+1")
        during = figures(daemon)
    after = figures(daemon)

    def grown(name):
        return after[name] - before.get(name, 0)

    assert (grown("cloche_creates_total"), grown("cloche_create_seconds_count")) == (1, 1)
    assert (grown("cloche_execs_total"), grown("cloche_code_call_seconds_count")) == (1, 2)
    assert grown("cloche_creates_failed_total") == 0
    assert during['cloche_sandboxes{state="running"}'] - before['cloche_sandboxes{state="running"}'] == 1
    route = 'cloche_http_requests_total{method="POST",route="/v1/sandboxes/{id}/code",status="2xx"}'
    assert grown(route) == 2
    assert grown("cloche_http_reply_bytes_total") > 0 and grown("cloche_loop_turns_total") > 0
    assert after["cloche_open_fds"] > 5 and after["cloche_store_bytes"] > 4096
    kib = memory_kib(daemon.gateway_pid)
    assert not kib or abs(after["cloche_resident_bytes"] / 1024 - kib) < kib / 2


def test_they_are_for_admins_of_the_default_project(daemon, client, project_keys):
    project = client.create_project("metrics-none")
    stranger = client.create_key("m", scope="admin", project=project["id"])["secret"]
    assert scrape(daemon)[0] in (401, 429)  # after many failed tries of other tests
    assert [scrape(daemon, k)[0] for k in (project_keys["write"], stranger, project_keys["admin"])] == [403, 403, 200]


def test_an_operator_may_open_them():
    daemon = Daemon("--metrics-open").start()
    try:
        status, page = scrape(daemon)
        assert status == 200 and "cloche_sandboxes" in page
        connection = http.client.HTTPConnection("127.0.0.1", daemon.port, timeout=60)
        connection.request("GET", "/v1/keys")
        assert connection.getresponse().status == 401  # nothing else is open
    finally:
        daemon.stop()
        daemon.remove()


def test_no_word_of_a_sandbox_project_or_client_is_in_them(daemon, client):
    word = "metricsword"
    with client.create(name=word, tags={"t": word}) as box:
        box.run(["echo", word])
        try:
            client.get(f"no-{word}")
        except Exception:
            pass
        connection = http.client.HTTPConnection("127.0.0.1", daemon.port, timeout=60)
        connection.request("GET", f"/{word}", headers={"X-API-Key": daemon.key, "User-Agent": word, "X-Request-Id": word})
        connection.getresponse().read()
        page = scrape(daemon, daemon.key)[1]
    assert word not in page and not re.search("[a-z]+_[a-z2-9]{26}", page)  # no id of anything
