# SPDX-License-Identifier: Apache-2.0
"""Run inside a sandbox and outside of one: wall_client.py KIND ADDRESS PORT NAME N. NAME is said to TLS; "-" is plain HTTP.
Prints milliseconds as a JSON list.

    connections   N connections with a request each
    requests      N requests on one connection
    calls         N unary calls of gRPC on one connection of HTTP/2
    download      one of N bytes
    hold          N connections with a request each; prints [] and keeps them until its stdin ends
"""

import json
import socket
import ssl
import struct
import sys
import time

KIND, ADDRESS, PORT, NAME, N = sys.argv[1:]
CONTEXT = ssl._create_unverified_context()


def dial():
    s = socket.create_connection((ADDRESS, int(PORT)))
    s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return s if NAME == "-" else CONTEXT.wrap_socket(s, server_hostname=NAME)


def get(s, size):
    s.sendall(f"GET /{size} HTTP/1.1\r\nHost: kept.test:{PORT}\r\n\r\n".encode())
    data = b""
    while b"\r\n\r\n" not in data:
        data += s.recv(65536)
    left = size - len(data.partition(b"\r\n\r\n")[2])
    while left > 0:
        left -= len(s.recv(1 << 18))


class Calls:
    """The frames of gRPC, with no library between them and the wall."""

    DATA, HEADERS, SETTINGS, PING, WINDOW_UPDATE = 0, 1, 4, 6, 8
    END_STREAM, END_HEADERS, ACK = 1, 4, 1

    def __init__(self):
        CONTEXT.set_alpn_protocols(["h2"])
        self.s, self.stream = dial(), -1
        self.source = self.s.makefile("rb")
        said = [(":method", "POST"), (":scheme", "https"), (":authority", f"{NAME}:{PORT}"), (":path", "/bench.Bench/Call"), ("te", "trailers"), ("content-type", "application/grpc")]
        self.head = b"".join(b"\0" + bytes([len(n)]) + n.encode() + bytes([len(v)]) + v.encode() for n, v in said)
        self.s.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + self.frame(self.SETTINGS, 0, 0) + self.frame(self.WINDOW_UPDATE, 0, 0, struct.pack(">L", 1 << 30)))

    @staticmethod
    def frame(kind, flags, stream, data=b""):
        return struct.pack(">HBBBL", len(data) >> 8, len(data) & 255, kind, flags, stream) + data

    def call(self):
        self.stream += 2
        message = self.frame(self.DATA, self.END_STREAM, self.stream, b"\0\0\0\0\x64" + b"x" * 100)
        self.s.sendall(self.frame(self.HEADERS, self.END_HEADERS, self.stream, self.head) + message)
        while True:
            high, low, kind, flags, stream = struct.unpack(">HBBBL", self.source.read(9))
            data = self.source.read(high << 8 | low)
            if kind in (self.SETTINGS, self.PING) and not flags & self.ACK:
                self.s.sendall(self.frame(kind, self.ACK, 0, data if kind == self.PING else b""))
            if stream == self.stream and kind in (self.DATA, self.HEADERS) and flags & self.END_STREAM:
                return


def timed(action):
    start = time.perf_counter()
    action()
    return (time.perf_counter() - start) * 1000


def connection():
    with dial() as s:
        get(s, 100)


if KIND == "connections":
    connection()
    print(json.dumps([timed(connection) for _ in range(int(N))]))
elif KIND == "requests":
    with dial() as kept:
        get(kept, 100)
        print(json.dumps([timed(lambda: get(kept, 100)) for _ in range(int(N))]))
elif KIND == "calls":
    calls = Calls()
    calls.call()
    print(json.dumps([timed(calls.call) for _ in range(int(N))]))
elif KIND == "download":
    with dial() as kept:
        get(kept, 100)
        print(json.dumps([timed(lambda: get(kept, int(N)))]))
else:
    held = []
    for _ in range(int(N)):
        held.append(dial())
        get(held[-1], 100)
    print("[]", flush=True)
    sys.stdin.read()
