# SPDX-License-Identifier: Apache-2.0
"""A gRPC server of harness/internet.py's namespace: grpc_server.py PAIR PORT LOG. Messages are bytes. It ends with its stdin.

    Unary     replies what it was told, and the metadata that came
    Count     so many messages as the request says
    Chat      each message comes back
    Slow      waits until the call is over, and logs that
"""

import json
import sys
import threading
from concurrent import futures
from pathlib import Path

import grpc

PAIR, PORT, LOG = Path(sys.argv[1]).read_bytes(), sys.argv[2], Path(sys.argv[3])
LOCK = threading.Lock()


def note(kind, **facts):
    with LOCK, open(LOG, "a") as f:
        f.write(json.dumps({"kind": kind, **facts}) + "\n")


def metadata(context):
    return {m.key: m.value for m in context.invocation_metadata()}


def unary(request, context):
    note("grpc", method="Unary", fields=metadata(context))
    context.set_trailing_metadata((("behind", "the reply"), ("echo", metadata(context).get("authorization", "none"))))
    return json.dumps({"said": request.decode(), "fields": metadata(context)}).encode()


def count(request, context):
    for i in range(int(request)):
        yield b"%d" % i


def chat(requests, context):
    for request in requests:
        yield b"<" + request + b">"


def slow(request, context):
    over = threading.Event()
    context.add_callback(over.set)
    note("grpc", method="Slow", said=request.decode())
    over.wait(60)
    note("grpc-over", said=request.decode())
    return b""


def sink(requests, context):
    return b"%d" % sum(len(r) for r in requests)


METHODS = {
    "Unary": grpc.unary_unary_rpc_method_handler(unary),
    "Count": grpc.unary_stream_rpc_method_handler(count),
    "Chat": grpc.stream_stream_rpc_method_handler(chat),
    "Slow": grpc.unary_unary_rpc_method_handler(slow),
    "Sink": grpc.stream_unary_rpc_method_handler(sink),
}

server = grpc.server(futures.ThreadPoolExecutor(max_workers=16), compression=grpc.Compression.NoCompression)
server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("test.Test", METHODS),))
server.add_secure_port(f"[::]:{PORT}", grpc.ssl_server_credentials([(PAIR, PAIR)]))
server.start()
print("up", flush=True)
sys.stdin.read()
server.stop(0)
