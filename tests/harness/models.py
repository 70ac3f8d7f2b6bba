# SPDX-License-Identifier: Apache-2.0
"""A model server that follows a script, and speaks what providers speak: Anthropic's Messages, OpenAI's chat completions (whole and
streamed) and responses, and the AI SDK's gateway. A step is a text, a call of one tool, or a list of calls; each request gets the
next."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


def call(tool, **arguments):
    return {"tool": tool, "arguments": arguments}


def anthropic(texts, calls):
    content = [{"type": "text", "text": t} for t in texts]
    content += [{"type": "tool_use", "id": c["id"], "name": c["tool"], "input": c["arguments"]} for c in calls]
    return {"id": "msg_1", "type": "message", "role": "assistant", "model": "scripted", "content": content, "stop_sequence": None,
            "stop_reason": "tool_use" if calls else "end_turn", "usage": {"input_tokens": 1, "output_tokens": 1}}


def chat(texts, calls):
    made = [{"index": i, "id": c["id"], "type": "function", "function": {"name": c["tool"], "arguments": json.dumps(c["arguments"])}}
            for i, c in enumerate(calls)]
    message = {"role": "assistant", "content": "".join(texts) or None, **({"tool_calls": made} if made else {})}
    return {"id": "chat_1", "object": "chat.completion", "created": 1, "model": "scripted",
            "choices": [{"index": 0, "message": message, "logprobs": None, "finish_reason": "tool_calls" if calls else "stop"}],
            "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}}


def chat_chunks(texts, calls):
    whole = chat(texts, calls)
    (choice,) = whole.pop("choices")
    whole["object"] = "chat.completion.chunk"
    yield {**whole, "usage": None, "choices": [{"index": 0, "delta": choice["message"], "finish_reason": None}]}
    yield {**whole, "choices": [{"index": 0, "delta": {}, "finish_reason": choice["finish_reason"]}]}


def responses(texts, calls):
    output = [{"type": "message", "id": "msg_1", "role": "assistant", "status": "completed",
               "content": [{"type": "output_text", "text": t, "annotations": []}]} for t in texts]
    output += [{"type": "function_call", "id": f"fc_{c['id']}", "call_id": c["id"], "name": c["tool"], "status": "completed",
                "arguments": json.dumps(c["arguments"])} for c in calls]
    usage = {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2, "input_tokens_details": {"cached_tokens": 0},
             "output_tokens_details": {"reasoning_tokens": 0}}
    return {"id": "resp_1", "object": "response", "created_at": 1, "status": "completed", "model": "scripted", "output": output,
            "parallel_tool_calls": True, "tool_choice": "auto", "tools": [], "usage": usage}


def gateway(texts, calls):
    content = [{"type": "text", "text": t} for t in texts]
    content += [{"type": "tool-call", "toolCallId": c["id"], "toolName": c["tool"], "input": json.dumps(c["arguments"])} for c in calls]
    return {"content": content, "finishReason": "tool-calls" if calls else "stop", "warnings": [],
            "usage": {"inputTokens": 1, "outputTokens": 1, "totalTokens": 2}}


WIRES = {"/v1/messages": anthropic, "/v1/chat/completions": chat, "/v1/responses": responses, "/v1/ai/language-model": gateway}


class Models:
    """`steps` is the script; `asked` are the requests' bodies so far, `keys` what they were opened with. Requests are refused first by
    what is in `failures`: a status, and how long to wait or None."""

    def __init__(self):
        self.steps, self.asked, self.keys = [], [], []
        self.failures, self.refused = [], []
        models = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                models.answer(self, asked)

            def log_message(self, *_):
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))
        self._thread.start()

    def refuse(self, to):
        status, wait = self.failures.pop(0)
        self.refused.append(status)
        fields = {} if wait is None else {"Retry-After": str(wait)}
        send(to, "application/json", json.dumps({"error": {"message": "not today"}}), status, fields)

    def answer(self, to, asked):
        if self.failures:
            self.refuse(to)
            return
        self.asked.append(asked)
        self.keys.append(to.headers["Authorization"] or to.headers["x-api-key"])
        number = len(self.asked)
        step = self.steps[number - 1] if number <= len(self.steps) else "the script is over"
        texts = [step] if isinstance(step, str) else []
        calls = [] if texts else step if isinstance(step, list) else [step]
        calls = [{"id": f"call_{number}_{i}", **c} for i, c in enumerate(calls)]
        path = to.path.partition("?")[0]
        if asked.get("stream") and WIRES[path] is chat:
            events = [f"data: {json.dumps(chunk)}\n\n" for chunk in chat_chunks(texts, calls)]
            send(to, "text/event-stream", "".join([*events, "data: [DONE]\n\n"]))
        else:
            send(to, "application/json", json.dumps(WIRES[path](texts, calls)))

    def close(self):
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


def send(to, kind, text, status=200, fields=None):
    body = text.encode()
    to.send_response(status)
    for name, value in (fields or {}).items():
        to.send_header(name, value)
    to.send_header("Content-Type", kind)
    to.send_header("Content-Length", str(len(body)))
    to.end_headers()
    to.wfile.write(body)
