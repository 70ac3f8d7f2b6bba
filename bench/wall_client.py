# SPDX-License-Identifier: Apache-2.0
"""Run inside a sandbox and outside of one: wall_client.py KIND ADDRESS PORT NAME N. NAME is said to TLS; "-" is plain HTTP.
Prints milliseconds as a JSON list.

    connections   N connections with a request each
    requests      N requests on one connection
    download      one of N bytes
    hold          N connections with a request each; prints [] and keeps them until its stdin ends
"""

import json
import socket
import ssl
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
