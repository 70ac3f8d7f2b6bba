# SPDX-License-Identifier: Apache-2.0
"""A collector for tests: takes OTLP over HTTP and reads it with OpenTelemetry's own definitions, strictly: a field that they do not have, or of another type, is
an error. JSON of OTLP has ids in hexadecimal where protobuf's has base64; that is the one thing that is translated before."""

import base64
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from google.protobuf import json_format
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

REQUESTS = {"/v1/metrics": ExportMetricsServiceRequest, "/v1/traces": ExportTraceServiceRequest, "/v1/logs": ExportLogsServiceRequest}
IDS = {"traceId": 32, "spanId": 16, "parentSpanId": 16}


def _translated(value):
    if isinstance(value, list):
        return [_translated(item) for item in value]
    if not isinstance(value, dict):
        return value
    for name, length in IDS.items():
        if name in value:
            assert len(value[name]) == length and value[name] == value[name].lower(), value
    return {name: base64.b64encode(bytes.fromhex(item)).decode() if name in IDS else _translated(item) for name, item in value.items()}


def plain(attributes):
    return {a.key: getattr(a.value, a.value.WhichOneof("value")) for a in attributes}


class Collector:
    """answer(path, n) gives (status, headers, body) for the n-th request of a path; the usual one is 200."""

    def __init__(self, answer=None):
        self.answer = answer or (lambda path, n: (200, {}, b"{}"))
        self.requests, self.refused, self.wrong = [], [], []  # (path, headers, message), those with another status, and what was no OTLP
        self._counts = {}
        collector = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                status, headers, answer = collector._take(self.path, dict(self.headers.items()), body)
                self.send_response(status)
                for name, value in {"Content-Length": str(len(answer)), **headers}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, *_):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def _take(self, path, headers, body):
        self._counts[path] = self._counts.get(path, 0) + 1
        status, more, answer = self.answer(path, self._counts[path])
        try:
            assert headers["Content-Type"] == "application/json", headers
            message = json_format.Parse(json.dumps(_translated(json.loads(body))), REQUESTS[path]())
        except Exception as error:  # told where the test looks
            self.wrong.append((path, error, body[:2000]))
            return 400, {}, b""
        (self.requests if status == 200 else self.refused).append((path, headers, message))
        return status, more, answer

    def of(self, path):
        assert not self.wrong, self.wrong[0]
        return [(headers, message) for at, headers, message in list(self.requests) if at == path]

    def resources(self):
        return [plain(r.resource.attributes) for path, _, message in list(self.requests)
                for r in getattr(message, {"/v1/metrics": "resource_metrics", "/v1/traces": "resource_spans", "/v1/logs": "resource_logs"}[path])]

    def spans(self):
        return [s for _, message in self.of("/v1/traces") for r in message.resource_spans for scope in r.scope_spans for s in scope.spans]

    def lines(self):
        return [line for _, message in self.of("/v1/logs") for r in message.resource_logs for scope in r.scope_logs for line in scope.log_records]

    def metrics(self):
        """The metrics of the last batch, by name."""
        batches = self.of("/v1/metrics")
        return {m.name: m for r in batches[-1][1].resource_metrics for scope in r.scope_metrics for m in scope.metrics} if batches else {}

    def close(self):
        self.server.shutdown()
        self.server.server_close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
