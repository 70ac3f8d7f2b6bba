# SPDX-License-Identifier: Apache-2.0
"""The server that the network wall is measured with: wall_server.py PLAIN_PORT TLS_PORT CERTIFICATE. GET /N has N bytes."""

import socket
import socketserver
import ssl
import sys
import threading

CONTEXT = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
CONTEXT.load_cert_chain(sys.argv[3])
BYTES = b"x" * (1 << 20)


class Handler(socketserver.BaseRequestHandler):
    tls = False

    def handle(self):
        self.request.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            with CONTEXT.wrap_socket(self.request, server_side=True) if self.tls else self.request as s:
                while data := s.recv(4096):
                    self.reply(s, int(data[5 : data.index(b" ", 5)]))
        except (OSError, ValueError):
            pass  # it has ended

    @staticmethod
    def reply(s, size):
        s.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % size + BYTES[: min(size, 1000)])
        left = size - min(size, 1000)
        while left > 0:
            s.sendall(BYTES[: min(left, len(BYTES))])
            left -= min(left, len(BYTES))


class TlsHandler(Handler):
    tls = True


class Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = daemon_threads = True
    request_queue_size = 256


for port, handler in ((sys.argv[1], Handler), (sys.argv[2], TlsHandler)):
    threading.Thread(target=Server(("", int(port)), handler).serve_forever, daemon=True).start()
print("up", flush=True)
sys.stdin.read()
