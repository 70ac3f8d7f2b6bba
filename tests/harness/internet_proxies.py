# SPDX-License-Identifier: Apache-2.0
"""Proxies of harness/internet.py: SOCKS5 with a name and password, and CONNECT of HTTP. They know a name of their own."""

import base64
import socket
import socketserver
import struct
import threading

USER, PASSWORD = "walter", "pr0xy-s3cret"
OWN = {"behind.test": "93.184.216.35"}


def pump(a, b):
    try:
        while part := a.recv(65536):
            b.sendall(part)
        b.shutdown(socket.SHUT_WR)
    except OSError:
        pass


class Through(socketserver.BaseRequestHandler):
    """What both have in common; note and resolve are set by who makes the servers."""

    note = resolve = None

    def take(self, n):
        data = b""
        while len(data) < n:
            part = self.request.recv(n - len(data))
            if not part:
                raise ConnectionError("ended early")
            data += part
        return data

    def lead(self, kind, name, port):
        Through.note(kind, name=name, port=port)
        with socket.create_connection((OWN.get(name) or Through.resolve(name), port), 5) as up:
            self.answer_good()
            back = threading.Thread(target=pump, args=(up, self.request))
            back.start()
            pump(self.request, up)
            back.join()


class Socks(Through):
    def handle(self):
        methods = self.take(self.take(2)[1])
        self.request.sendall(bytes([5, 2 if 2 in methods else 255]))
        user = self.take(self.take(2)[1])
        password = self.take(self.take(1)[0])
        good = (user.decode(), password.decode()) == (USER, PASSWORD)
        self.request.sendall(bytes([1, 0 if good else 1]))
        if not good:
            return
        kind = self.take(4)[3]
        name = self.take(self.take(1)[0]).decode() if kind == 3 else socket.inet_ntoa(self.take(4)) if kind == 1 else socket.inet_ntop(socket.AF_INET6, self.take(16))
        self.lead("socks", name, struct.unpack(">H", self.take(2))[0])

    def answer_good(self):
        self.request.sendall(bytes([5, 0, 0, 1, 0, 0, 0, 0, 0, 0]))


class Connect(Through):
    def handle(self):
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            head += self.take(1)
        method, target, _ = head.decode().split("\r\n")[0].split()
        proof = base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
        if method != "CONNECT" or f"\r\nProxy-Authorization: Basic {proof}\r\n" not in head.decode():
            self.request.sendall(b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n")
            return
        name, _, port = target.rpartition(":")
        self.lead("connect", name, int(port))

    def answer_good(self):
        self.request.sendall(b"HTTP/1.1 200 Connection established\r\nX-Proxy: test\r\n\r\n")
