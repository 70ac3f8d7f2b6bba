# SPDX-License-Identifier: Apache-2.0
"""A server that keeps every byte it gets: raw_server.py LOG PORT… A connection is a line of the log once it has ended:
{"port", "bytes" (as latin-1)}. It replies 200 to what it takes for the first request, says that this was the
last, and reads on until the other side ends. It ends with its stdin."""

import json
import re
import socket
import socketserver
import sys
import threading

LOG, PORTS = sys.argv[1], sys.argv[2:]
LOCK = threading.Lock()
REPLY = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok"


def is_whole(data):
    """The plainest reading: whoever sends something that needs more thought is found out by what it sent."""
    head, end, body = data.partition(b"\r\n\r\n")
    if not end:
        return False
    length = re.search(rb"(?im)^content-length: *(\d+)", head)
    if length:
        return len(body) >= int(length[1])
    return not re.search(rb"(?im)^transfer-encoding:", head) or re.search(rb"(^|\r\n)0\r\n([^\r\n]+\r\n)*\r\n$", body)


class Raw(socketserver.BaseRequestHandler):
    def handle(self):
        data, has_replied = b"", False
        self.request.settimeout(10)
        try:
            while part := self.request.recv(65536):
                data += part
                if not has_replied and is_whole(data):
                    self.request.sendall(REPLY)
                    self.request.shutdown(socket.SHUT_WR)
                    has_replied = True
        except OSError:
            pass
        with LOCK, open(LOG, "a") as f:
            f.write(json.dumps({"port": self.server.server_address[1], "bytes": data.decode("latin-1")}) + "\n")


class Server(socketserver.ThreadingTCPServer):
    address_family = socket.AF_INET6
    allow_reuse_address = daemon_threads = True
    request_queue_size = 128


for port in PORTS:
    threading.Thread(target=Server(("::", int(port)), Raw).serve_forever, daemon=True).start()
print("up", flush=True)
sys.stdin.read()
