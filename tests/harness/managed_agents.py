# SPDX-License-Identifier: Apache-2.0
"""The provider's side of Claude Managed Agents with a self-hosted environment: one work item in a queue, whose session's agent follows
a script. A step is a list of tool calls made at once; the next comes when all of them are answered. It keeps what a worker did."""

import base64
import json
import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

NOW = "2026-11-15T12:00:00Z"
ENVIRONMENT, WORK, SESSION = "env_1", "work_1", "sesn_1"
ENVIRONMENT_KEY, SESSIONS_TOKEN = "sk-ant-environment", "sk-ant-item"
DEADLINE = 60


def work_item():
    secret = base64.urlsafe_b64encode(json.dumps({"sessions_token": SESSIONS_TOKEN}).encode()).decode()
    return {"type": "work", "id": WORK, "environment_id": ENVIRONMENT, "created_at": NOW, "metadata": {}, "state": "queued",
            "secret": secret, "data": {"type": "session", "id": SESSION}}


def session():
    agent = {"type": "agent", "id": "agent_1", "name": "coder", "skills": [], "tools": [], "mcp_servers": [], "version": 1,
             "model": {"id": "scripted"}, "system": None, "description": None}
    return {"type": "session", "id": SESSION, "agent": agent, "environment_id": ENVIRONMENT, "created_at": NOW, "updated_at": NOW,
            "metadata": {}, "resources": [], "outcome_evaluations": [], "stats": {}, "usage": {}, "vault_ids": [], "status": "running"}


class ManagedAgents:
    """`results` are what the agent was told, by the calls' ids; `calls` the worker's requests as (verb, key)."""

    def __init__(self, steps):
        self.results, self.calls = {}, []
        self.stopped = threading.Event()
        self._steps = [[{"type": "agent.tool_use", "id": id, "name": name, "input": input, "processed_at": NOW, "evaluated_permission": "allow"}
                        for id, name, input in step] for step in steps]
        self._is_claimed = False
        self._change = threading.Condition()
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                server.answer(self, b"")

            def do_POST(self):
                server.answer(self, self.rfile.read(int(self.headers["Content-Length"] or 0)))

            def log_message(self, *_):
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))
        self._thread.start()

    def answer(self, to, body):
        path = to.path.partition("?")[0]
        verb = re.sub(rf"/v1/(environments/{ENVIRONMENT}/work(/{WORK})?|sessions/{SESSION})/?", "", path)
        self.calls.append((verb, to.headers["Authorization"]))
        told = {
            "poll": self.claim,
            "ack": work_item,
            "heartbeat": lambda: {"type": "work_heartbeat", "last_heartbeat": NOW, "lease_extended": True, "state": "active", "ttl_seconds": 60},
            "stop": self.stop,
            "": session,
            "events": lambda: self.take(json.loads(body)) if body else {"data": [], "next_page": None},
        }.get(verb)
        if verb == "events/stream":
            self.stream(to)
        elif told:
            send(to, told())
        else:
            send(to, {"type": "error", "error": {"type": "not_found_error", "message": path}}, 404)

    def claim(self):
        if self._is_claimed:
            return None
        self._is_claimed = True
        return work_item()

    def stop(self):
        self.stopped.set()
        return {**work_item(), "state": "stopped"}

    def take(self, body):
        with self._change:
            for event in body["events"]:
                text = "".join(part["text"] for part in event.get("content") or [] if part["type"] == "text")
                self.results[event["tool_use_id"]] = (text, bool(event.get("is_error")))
            self._change.notify_all()
        return {"data": body["events"]}

    def stream(self, to):
        to.send_response(200)
        to.send_header("Content-Type", "text/event-stream")
        to.send_header("Connection", "close")
        to.end_headers()
        to.close_connection = True

        def tell(event):
            to.wfile.write(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode())
            to.wfile.flush()

        try:
            for step in self._steps:
                for event in step:
                    tell(event)
                with self._change:
                    if not self._change.wait_for(lambda: all(event["id"] in self.results for event in step), DEADLINE):
                        return
            tell({"type": "session.status_terminated", "id": "evt_end", "processed_at": NOW})
        except OSError:
            pass  # the worker went

    def close(self):
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


def send(to, told, status=200):
    body = json.dumps(told).encode()
    to.send_response(status)
    to.send_header("Content-Type", "application/json")
    to.send_header("Content-Length", str(len(body)))
    to.end_headers()
    to.wfile.write(body)
