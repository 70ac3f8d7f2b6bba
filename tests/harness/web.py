# SPDX-License-Identifier: Apache-2.0
"""A web server that runs inside a sandbox and tells what it was sent; and a browser's half of a connection to it."""

import http.client
import json
import socket

from harness.daemon import wait_for

PORT = 3000

# Stdlib only. Answers are made by hand, so that it can also answer what no server should.
SERVER = r'''
import base64, hashlib, json, socket, sys, threading

def read_head(f):
    line = f.readline().decode().split()
    fields = []
    while True:
        field = f.readline().decode().rstrip("\r\n")
        if not field:
            return line, fields
        fields.append(field.split(": ", 1))

def read_body(f, fields):
    names = {k.lower(): v for k, v in fields}
    if "content-length" in names:
        return f.read(int(names["content-length"]))
    body = b""
    while names.get("transfer-encoding") == "chunked":
        size = int(f.readline(), 16)
        body += f.read(size)
        f.readline()
        if not size:
            break
    return body

def serve(c):
    f = c.makefile("rb")
    (method, path, _), fields = read_head(f)
    plain = path.split("?")[0]
    if plain == "/ws":
        key = dict((k.lower(), v) for k, v in fields)["sec-websocket-key"]
        accept = base64.b64encode(hashlib.sha1((key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11").encode()).digest())
        c.sendall(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: " + accept + b"\r\n\r\n")
        while True:
            data = f.read1(65536)
            if not data:
                return
            c.sendall(data)
    body = read_body(f, fields)
    if plain == "/silent":
        f.read(1)
        return
    if plain == "/slow-events":
        c.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: first\n\n")
        f.read(1)
        return
    if plain == "/raw":
        c.sendall(base64.b64decode(path.split("?")[1]))
        return
    if plain == "/big":
        c.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 100000000\r\n\r\n")
        for _ in range(100):
            c.sendall(b"x" * 1000000)
        return
    reply = json.dumps({"method": method, "path": path, "fields": fields, "length": len(body), "hash": hashlib.sha256(body).hexdigest()}).encode()
    c.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(reply))
    if method != "HEAD":
        c.sendall(reply)

def run(c):
    try:
        serve(c)
    except OSError:
        pass
    finally:
        try:
            c.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        c.close()

l = socket.socket(socket.AF_INET6 if ":" in sys.argv[1] else socket.AF_INET)
l.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
l.bind((sys.argv[1], int(sys.argv[2])))
l.listen(64)
while True:
    threading.Thread(target=run, args=(l.accept()[0],), daemon=True).start()
'''


def start_server(sandbox, host="127.0.0.1", port=PORT):
    """Starts it and returns when it listens."""
    sandbox.files.write("/tmp/server.py", SERVER)
    server = sandbox.start(["python3", "-I", "/tmp/server.py", host, str(port)])
    probe = ["python3", "-I", "-c", f"import socket; socket.create_connection(('{host}', {port})).close()"]
    wait_for(lambda: sandbox.run(probe).exit_code == 0, 20, "a server in the sandbox")
    return server


class Web:
    """One port of a sandbox as a browser reaches it."""

    def __init__(self, daemon, url, host=None):
        self.daemon, self.host = daemon, host or f"127.0.0.1:{daemon.port}"
        self.base = url[url.index("/", url.index("://") + 3) :].rstrip("/")

    def ask(self, path="/", method="GET", body=None, headers=(), timeout=60.0):
        """(status, [(name, value)], body)"""
        conn = http.client.HTTPConnection("127.0.0.1", self.daemon.port, timeout=timeout)
        try:
            conn.putrequest(method, self.base + path, skip_host=True, skip_accept_encoding=True)
            conn.putheader("Host", self.host)
            for name, value in headers:
                conn.putheader(name, value)
            if isinstance(body, bytes):
                conn.putheader("Content-Length", str(len(body)))
            elif body is not None:
                conn.putheader("Transfer-Encoding", "chunked")
            conn.endheaders(body, encode_chunked=body is not None and not isinstance(body, bytes))
            reply = conn.getresponse()
            return reply.status, [(k.lower(), v) for k, v in reply.getheaders()], reply.read()
        finally:
            conn.close()

    def seen(self, path="/", **kwargs):
        """What the server inside was sent."""
        status, _, body = self.ask(path, **kwargs)
        assert status == 200, (status, body)
        return json.loads(body)

    def connect(self):
        return socket.create_connection(("127.0.0.1", self.daemon.port), timeout=60)

    def upgrade(self):
        """A socket behind the answer to a WebSocket's first request; the server echoes what comes."""
        s = self.connect()
        s.sendall(
            f"GET {self.base}/ws HTTP/1.1\r\nHost: {self.host}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
            "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n".encode()
        )
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            part = s.recv(1)
            assert part, head
            head += part
        assert head.startswith(b"HTTP/1.1 101 ") and b"Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n" in head
        return s
