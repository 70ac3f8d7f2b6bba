# SPDX-License-Identifier: Apache-2.0
"""The server that the network wall is measured with: wall_server.py PLAIN_PORT TLS_PORT CERTIFICATE. GET /N has N bytes. Who offers
HTTP/2 alone gets the frames of a gRPC reply for each call."""

import socket
import socketserver
import ssl
import struct
import sys
import threading

CONTEXT = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
CONTEXT.load_cert_chain(sys.argv[3])
CONTEXT.set_alpn_protocols(["http/1.1", "h2"])
BYTES = b"x" * (1 << 20)
DATA, HEADERS, SETTINGS, PING, WINDOW_UPDATE = 0, 1, 4, 6, 8
END_STREAM, END_HEADERS, ACK = 1, 4, 1


def frame(kind, flags, stream, data=b""):
    return struct.pack(">HBBBL", len(data) >> 8, len(data) & 255, kind, flags, stream) + data


def field(name, value):
    """Of HPACK: said in full, and not to be remembered."""
    return b"\0" + bytes([len(name)]) + name + bytes([len(value)]) + value


HEAD = b"\x88" + field(b"content-type", b"application/grpc")
TRAILERS = field(b"grpc-status", b"0")
MESSAGE = b"\0\0\0\0\x64" + b"x" * 100


class Handler(socketserver.BaseRequestHandler):
    tls = False

    def handle(self):
        self.request.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            with CONTEXT.wrap_socket(self.request, server_side=True) if self.tls else self.request as s:
                if self.tls and s.selected_alpn_protocol() == "h2":
                    self.calls(s.makefile("rb"), s)
                while data := s.recv(4096):
                    self.reply(s, int(data[5 : data.index(b" ", 5)]))
        except (OSError, ValueError):
            pass  # it has ended

    @staticmethod
    def calls(source, s):
        source.read(24)
        s.sendall(frame(SETTINGS, 0, 0))
        while head := source.read(9):
            high, low, kind, flags, stream = struct.unpack(">HBBBL", head)
            data = source.read(high << 8 | low)
            if kind in (SETTINGS, PING) and not flags & ACK:
                s.sendall(frame(kind, ACK, 0, data if kind == PING else b""))
            if kind == DATA and data:
                s.sendall(frame(WINDOW_UPDATE, 0, 0, struct.pack(">L", len(data))))
            if kind in (DATA, HEADERS) and flags & END_STREAM:
                s.sendall(frame(HEADERS, END_HEADERS, stream, HEAD) + frame(DATA, 0, stream, MESSAGE) + frame(HEADERS, END_HEADERS | END_STREAM, stream, TRAILERS))

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
