# SPDX-License-Identifier: Apache-2.0
"""Telemetry that is sent out: metrics, traces and log lines by OTLP, read with OpenTelemetry's own definitions; a client's trace that goes on inside; and a
daemon that does not mind whether anybody listens."""

import contextlib
import http.client
import json
import os
import re
import subprocess
import tempfile

import pytest
from harness.collector import Collector, plain
from harness.daemon import Daemon, free_port, refused_start, wait_for
from harness.metrics import figures, page_of

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
PARENT = f"00-{TRACE}-{SPAN}-01"
SECRET = "swordfish"
FAST = ("--telemetry-interval", "200ms")
SHOW = {
    "python": "import os; print(os.environ.get('TRACEPARENT'), os.environ.get('TRACESTATE'))",
    "bash": "echo $(printenv TRACEPARENT || echo None) $(printenv TRACESTATE || echo None)",
    "javascript": "console.log(process.env.TRACEPARENT ?? 'None', process.env.TRACESTATE ?? 'None')",
}


def call(daemon, path, body=None, headers=(), method="POST", status=range(200, 300)):
    connection = http.client.HTTPConnection("127.0.0.1", daemon.port, timeout=60)
    connection.putrequest(method, path)
    text = b"" if body is None else json.dumps(body).encode()
    for name, value in (("X-API-Key", daemon.key), ("Content-Type", "application/json"), ("Content-Length", str(len(text))), *headers):
        connection.putheader(name, value)
    connection.endheaders(text)
    reply = connection.getresponse()
    data = json.loads(reply.read() or b"{}")
    connection.close()
    assert reply.status in status, data
    return data


@contextlib.contextmanager
def daemon_with(url, *options):
    daemon = Daemon("--telemetry-otlp-url", url, *FAST, "--pool-max", "0", *options).start()
    try:
        yield daemon
    finally:
        daemon.stop()
        daemon.remove()


@pytest.fixture(scope="module")
def collector():
    with Collector() as collector:
        yield collector


@pytest.fixture(scope="module")
def own(collector):
    daemon = Daemon("--telemetry-otlp-url", collector.url, *FAST, "--pool-max", "0").start()
    yield daemon
    daemon.stop()
    daemon.remove()


@pytest.fixture(scope="module")
def box(own):
    return call(own, "/v1/sandboxes", {})["id"]


def spans_of(collector, trace_id, *names):
    """The spans of a trace by name, once those names are all there."""

    def found():
        spans = {s.name: s for s in collector.spans() if s.trace_id.hex() == trace_id}
        return spans if set(names) <= set(spans) else None

    return wait_for(found, what=f"spans {names} of {trace_id}")


def fresh_parent():
    trace_id = os.urandom(16).hex()
    return trace_id, f"00-{trace_id}-{SPAN}-01"


def test_a_create_is_traced_with_its_parts_below_the_clients_span(own, collector):
    trace_id, parent = fresh_parent()
    id = call(own, "/v1/sandboxes", {}, [("traceparent", parent)])["id"]
    spans = spans_of(collector, trace_id, "POST /v1/sandboxes", "sandbox.create", "broker", "agent")
    server, create = spans["POST /v1/sandboxes"], spans["sandbox.create"]
    assert server.parent_span_id.hex() == SPAN and server.kind == 2
    assert create.parent_span_id == server.span_id
    assert spans["broker"].parent_span_id == spans["agent"].parent_span_id == create.span_id
    assert server.start_time_unix_nano <= create.start_time_unix_nano <= spans["broker"].start_time_unix_nano
    assert spans["agent"].end_time_unix_nano <= create.end_time_unix_nano <= server.end_time_unix_nano
    told = plain(create.attributes)
    assert told["cloche.sandbox.id"] == id and told["cloche.pool"] == "miss" and told["cloche.template"] and told["cloche.engine"] in ("jail", "vm")
    assert told["cloche.project.id"].startswith("prj_")
    assert plain(server.attributes)["http.response.status_code"] == 201
    call(own, f"/v1/sandboxes/{id}", method="DELETE")


def test_an_exec_and_a_call_of_code_are_traced_with_their_parts(own, collector, box):
    trace_id, parent = fresh_parent()
    call(own, f"/v1/sandboxes/{box}/execs", {"argv": ["sleep", "0.1"]}, [("traceparent", parent)])
    spans = spans_of(collector, trace_id, "exec", "agent", "run")
    assert spans["agent"].parent_span_id == spans["run"].parent_span_id == spans["exec"].span_id
    assert spans["run"].end_time_unix_nano - spans["run"].start_time_unix_nano > 90e6
    assert plain(spans["exec"].attributes)["cloche.exec.exit_code"] == 0
    trace_id, parent = fresh_parent()
    call(own, f"/v1/sandboxes/{box}/code", {"code": "1"}, [("traceparent", parent)])
    spans = spans_of(collector, trace_id, "code", "interpreter", "run")
    assert spans["interpreter"].parent_span_id == spans["run"].parent_span_id == spans["code"].span_id
    assert plain(spans["code"].attributes)["cloche.code.status"] == "ok"


def test_one_call_that_does_all_is_one_trace(own, collector):
    trace_id, parent = fresh_parent()
    call(own, "/v1/run", {"argv": ["true"]}, [("traceparent", parent)])
    spans = spans_of(collector, trace_id, "POST /v1/run", "sandbox.create", "exec")
    assert spans["sandbox.create"].parent_span_id == spans["exec"].parent_span_id == spans["POST /v1/run"].span_id


def test_a_failed_call_says_so_by_a_word(own, collector):
    trace_id, parent = fresh_parent()
    id = call(own, "/v1/sandboxes", {})["id"]
    call(own, f"/v1/sandboxes/{id}/execs", {"argv": ["/no/such/program"]}, [("traceparent", parent)], status=[404])
    span = spans_of(collector, trace_id, "exec")["exec"]
    assert span.status.code == 2 and re.fullmatch("[a-z_]+", plain(span.attributes)["error.type"])


@pytest.mark.parametrize("language", SHOW)
def test_what_runs_inside_joins_the_clients_trace_for_that_call_alone(own, collector, box, language):
    trace_id, parent = fresh_parent()
    headers = [("traceparent", parent), ("tracestate", "vendor=1")]
    got = call(own, f"/v1/sandboxes/{box}/code", {"code": SHOW[language], "language": language}, headers)["stdout"]
    span = spans_of(collector, trace_id, "code")["code"]
    assert got == f"00-{trace_id}-{span.span_id.hex()}-01 vendor=1\n"
    assert call(own, f"/v1/sandboxes/{box}/code", {"code": SHOW[language], "language": language})["stdout"] == "None None\n"


def test_an_exec_is_told_of_its_span_unless_its_caller_says_otherwise(own, collector, box):
    trace_id, parent = fresh_parent()
    path, shell = f"/v1/sandboxes/{box}/execs", {"shell": "echo $TRACEPARENT $TRACESTATE"}
    got = call(own, path, shell, [("traceparent", parent), ("tracestate", "vendor=1")])["stdout"]
    assert got == f"00-{trace_id}-{spans_of(collector, trace_id, 'exec')['exec'].span_id.hex()}-01 vendor=1\n"
    assert call(own, path, {**shell, "env": {"TRACEPARENT": "mine"}}, [("traceparent", parent)])["stdout"] == "mine\n"
    assert call(own, path, shell)["stdout"] == "\n"


@pytest.mark.parametrize("headers", [
    [("traceparent", PARENT), ("traceparent", PARENT)],
    [("traceparent", f"00-{'0' * 32}-{SPAN}-01")],
    [("traceparent", f"00-{TRACE.upper()}-{SPAN}-01")],
    [("traceparent", PARENT + "-" + "a" * 4000)],
    [("traceparent", "00-é-01".encode())],
    [("tracestate", "vendor=1")],
], ids=["twice", "zero", "capitals", "long", "bytes", "state-alone"])
def test_a_hostile_context_is_as_if_it_were_not_there(own, collector, box, headers):
    assert call(own, f"/v1/sandboxes/{box}/execs", {"shell": "echo $TRACEPARENT $TRACESTATE"}, headers)["stdout"] == "\n"
    assert TRACE not in {s.trace_id.hex() for s in collector.spans()}


def test_a_bad_state_is_left_out_and_its_parent_stays(own, box):
    got = call(own, f"/v1/sandboxes/{box}/execs", {"shell": "echo $TRACEPARENT-$TRACESTATE"}, [("traceparent", f"00-{TRACE}-{SPAN}-00"), ("tracestate", "A=1")])
    assert got["stdout"] == f"00-{TRACE}-{SPAN}-00-\n"  # not recorded: the client's own span is the parent


def test_nothing_that_a_tenant_wrote_is_in_spans_or_lines(own, collector, box):
    trace_id, parent = fresh_parent()
    headers = [("traceparent", parent)]
    call(own, f"/v1/sandboxes/{box}/execs", {"shell": f"echo {SECRET}", "env": {"S": SECRET}, "stdin": SECRET}, headers)
    call(own, f"/v1/sandboxes/{box}/execs", {"argv": [f"/{SECRET}"]}, headers, status=[404])
    call(own, f"/v1/sandboxes/{box}/code", {"code": f"raise ValueError('{SECRET}')"}, headers)
    spans_of(collector, trace_id, "code")
    assert SECRET not in str(collector.spans()) and SECRET not in str(collector.lines())


def test_metrics_are_those_of_the_page_for_prometheus(own, collector, box):
    families = dict(re.findall(r"^# TYPE (\S+) (\S+)$", page_of(own), re.M))
    metrics = wait_for(collector.metrics, what="metrics")
    assert {name: m.WhichOneof("data") for name, m in metrics.items()} == {
        name: {"counter": "sum", "gauge": "gauge", "histogram": "histogram"}[kind] for name, kind in families.items()}
    creates = metrics["cloche_creates_total"].sum
    assert creates.is_monotonic and creates.aggregation_temporality == 2 and creates.data_points[0].as_int >= 1
    assert creates.data_points[0].start_time_unix_nano < creates.data_points[0].time_unix_nano
    point = metrics["cloche_create_seconds"].histogram.data_points[0]
    assert sum(point.bucket_counts) == point.count >= 1 and len(point.bucket_counts) == len(point.explicit_bounds) + 1
    assert metrics["cloche_resident_bytes"].unit == "By" and metrics["cloche_uptime_seconds"].unit == "s"
    states = {plain(p.attributes)["state"]: p.as_int for p in metrics["cloche_sandboxes"].gauge.data_points}
    assert states["running"] >= 1


def test_log_lines_come_with_their_fields_and_trace(own, collector):
    trace_id, parent = fresh_parent()
    id = call(own, "/v1/sandboxes", {}, [("traceparent", parent)])["id"]
    call(own, f"/v1/sandboxes/{id}", method="DELETE")

    def found():
        return [line for line in collector.lines() if line.body.string_value == "sandbox.moved" and plain(line.attributes)["id"] == id]

    line = wait_for(found, what="the line of the move")[0]
    assert line.severity_number == 9 and line.severity_text == "INFO" and plain(line.attributes)["program"] == "gateway"


def test_every_batch_says_who_sends_it(own, collector):
    wait_for(lambda: len(collector.requests) > 2)
    about = collector.resources()
    assert all(r == about[0] for r in about)
    assert about[0]["service.name"] == "cloche" and about[0]["host.name"] == os.uname().nodename
    assert about[0]["service.version"] and re.fullmatch("[0-9a-f]{16}", about[0]["service.instance.id"])


def test_a_tenant_that_marks_every_request_is_traced_up_to_its_rate():
    with Collector() as collector, daemon_with(collector.url, "--telemetry-traces-rate", "1") as daemon:
        id = call(daemon, "/v1/sandboxes", {})["id"]
        for _ in range(40):
            call(daemon, f"/v1/sandboxes/{id}/code", {"code": "1"}, [("traceparent", PARENT)])
        wait_for(lambda: figures(daemon).get("cloche_traces_over_rate_total", 0) > 0, what="the count of those left out")
        roots = [s for s in collector.spans() if s.kind == 2]
        assert 1 <= len(roots) < 40


def test_a_busy_collector_gets_it_again_when_it_says_and_nothing_is_lost():
    def answer(path, n):
        return (503, {"Retry-After": "1"}, b"") if path == "/v1/traces" and n == 1 else (200, {}, b"{}")

    with Collector(answer) as collector, daemon_with(collector.url) as daemon:
        call(daemon, "/v1/sandboxes", {}, [("traceparent", PARENT)])
        spans = spans_of(collector, TRACE, "POST /v1/sandboxes", "sandbox.create")
        assert len(collector.refused) == 1 and len({s.span_id for s in collector.spans()}) == len(collector.spans()) >= len(spans)
        assert figures(daemon)['cloche_otlp_failures_total{signal="traces"}'] == 1
        assert figures(daemon)['cloche_otlp_dropped_total{signal="traces"}'] == 0


def test_what_is_refused_for_good_is_dropped_and_counted_and_so_is_what_is_refused_in_part():
    def answer(path, n):
        if path == "/v1/traces":
            return 400, {}, b"no"
        return 200, {}, b'{"partialSuccess":{"rejectedLogRecords":"2"}}' if path == "/v1/logs" else b"{}"

    with Collector(answer) as collector, daemon_with(collector.url) as daemon:
        call(daemon, "/v1/sandboxes", {}, [("traceparent", PARENT)])
        wait_for(lambda: figures(daemon)['cloche_otlp_dropped_total{signal="traces"}'] >= 2)
        wait_for(lambda: figures(daemon)['cloche_otlp_dropped_total{signal="logs"}'] >= 2)
        assert not collector.wrong


def test_a_collector_that_is_away_slows_nothing_and_is_told_of_once():
    port = free_port()
    with daemon_with(f"http://127.0.0.1:{port}") as daemon:
        id = call(daemon, "/v1/sandboxes", {})["id"]
        wait_for(lambda: figures(daemon)['cloche_otlp_failures_total{signal="metrics"}'] >= 2, what="two attempts")
        assert call(daemon, f"/v1/sandboxes/{id}/execs", {"shell": "echo on"})["stdout"] == "on\n"
        assert len(re.findall(r'"event":"telemetry.failing"[^\n]*/v1/metrics', daemon.log())) == 1


def test_headers_come_from_a_file_and_are_shown_nowhere():
    with tempfile.NamedTemporaryFile("w", suffix=".headers") as file, Collector() as collector:
        file.write(f"# the key\nAuthorization: Bearer {SECRET}\nX-Team: cloche\n")
        file.flush()
        with daemon_with(collector.url + "/", "--telemetry-headers-file", file.name, "--telemetry-signal", "metrics") as daemon:
            headers = wait_for(lambda: collector.of("/v1/metrics"))[0][0]
            assert headers["Authorization"] == f"Bearer {SECRET}" and headers["X-Team"] == "cloche"
            assert SECRET not in json.dumps(call(daemon, "/v1/settings", method="GET")) and SECRET not in daemon.log()
            assert {path for path, _, _ in collector.requests} == {"/v1/metrics"}


@pytest.mark.parametrize(("options", "field"), [
    (("--telemetry-otlp-url", "ftp://x"), "telemetry.otlp_url"),
    (("--telemetry-otlp-url", "http://127.0.0.1:1", "--telemetry-headers-file", "/nowhere/headers"), "telemetry.headers_file"),
    (("--telemetry-signal", "gossip"), "telemetry.signals"),
])
def test_a_wrong_setting_is_named(tmp_path, options, field):
    assert field in refused_start(tmp_path, *options)


def test_a_webhook_does_not_reach_the_collector_by_its_name():
    with Collector() as collector:
        url = collector.url.replace("127.0.0.1", "localhost")
        with daemon_with(url) as daemon:
            wait_for(collector.metrics, what="metrics")  # the daemon itself may
            call(daemon, "/v1/webhooks", {"url": f"{url}/hook"})
            call(daemon, "/v1/sandboxes", {})  # something to tell of
            wait_for(lambda: figures(daemon)["cloche_webhook_failures_total"] > 0, what="an attempt")
            assert not collector.wrong and figures(daemon)["cloche_webhook_deliveries_total"] == 0


def test_what_waits_is_sent_when_the_daemon_stops():
    with Collector() as collector:
        daemon = Daemon("--telemetry-otlp-url", collector.url, "--telemetry-interval", "1h", "--pool-max", "0").start()
        call(daemon, "/v1/sandboxes", {}, [("traceparent", PARENT)])
        daemon.stop()
        daemon.remove()
        assert "sandbox.create" in {s.name for s in collector.spans()} and collector.lines() and collector.metrics()


COLLECTOR = os.environ.get("CLOCHE_COLLECTOR")
CONFIG = """
receivers: {{otlp: {{protocols: {{http: {{endpoint: "127.0.0.1:{port}"}}}}}}}}
exporters: {{debug: {{verbosity: detailed}}}}
service:
  telemetry: {{metrics: {{level: none}}}}
  pipelines:
    metrics: {{receivers: [otlp], exporters: [debug]}}
    traces: {{receivers: [otlp], exporters: [debug]}}
    logs: {{receivers: [otlp], exporters: [debug]}}
"""


@pytest.mark.skipif(not COLLECTOR, reason="no OpenTelemetry collector: make test-collector builds one")
def test_the_real_collector_takes_all_three_signals(tmp_path):
    port, log = free_port(), tmp_path / "log"
    (tmp_path / "config.yaml").write_text(CONFIG.format(port=port))
    with open(log, "w") as out, subprocess.Popen([COLLECTOR, "--config", f"file:{tmp_path}/config.yaml"], stdout=out, stderr=out) as process:
        try:
            wait_for(lambda: "Everything is ready" in log.read_text(), what="the collector")
            with daemon_with(f"http://127.0.0.1:{port}") as daemon:
                id = call(daemon, "/v1/sandboxes", {}, [("traceparent", PARENT)])["id"]
                call(daemon, f"/v1/sandboxes/{id}/execs", {"argv": ["true"]}, [("traceparent", PARENT)])
                call(daemon, f"/v1/sandboxes/{id}/code", {"code": "1"}, [("traceparent", PARENT)])
                for name in ("POST /v1/sandboxes", "sandbox.create", "exec", "code"):
                    wait_for(lambda: re.search(rf"Trace ID +: {TRACE}\n(.*\n){{2}} +Name +: {re.escape(name)}\n", log.read_text()), what=f"the span {name}")
                wait_for(lambda: f"id: Str({id})" in log.read_text() and "Body: Str(sandbox.moved)" in log.read_text(), what="a line of the log")
                wait_for(lambda: "Name: cloche_create_seconds\n" in log.read_text() and "DataType: Histogram" in log.read_text(), what="metrics")
                told = figures(daemon)
                assert all(told[f'cloche_otlp_dropped_total{{signal="{s}"}}'] == 0 < told[f'cloche_otlp_sent_total{{signal="{s}"}}'] for s in ("metrics", "traces", "logs"))
        finally:
            process.terminate()
