# SPDX-License-Identifier: Apache-2.0
"""A server of sources, for harness/internet.py's outer namespace: git repositories (by git's own http-backend) below /git/ and
at any place that has .git in it, files below /files/, the same below /private/ for who has the password, an endless archive and one
that stops. Each request is a line of the log. Usage: DIRECTORY LOG ADDRESS PORT TLS_PORT PAIR; it ends with its stdin."""

import http.server
import json
import os
import socket
import ssl
import subprocess
import sys
import tarfile
import threading
from pathlib import Path

ROOT, LOG, ADDRESS, PORT, TLS_PORT, PAIR = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3], int(sys.argv[4]), int(sys.argv[5]), sys.argv[6]
AUTHORIZATION = "Basic Ym90OnMzY3JldC1vZi1zb3VyY2U="  # bot:s3cret-of-source
LOCK = threading.Lock()


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *args):
        pass

    def note(self):
        with LOCK, open(LOG, "a") as f:
            f.write(json.dumps({"method": self.command, "path": self.path, "authorization": self.headers.get("Authorization")}) + "\n")

    def refuse(self, status, **fields):
        # Some servers tell more than they should.
        body = f"no: {self.headers.get('Authorization')}".encode()
        self.send_response(status)
        for name, value in fields.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        self.note()
        path = self.path
        if path.startswith("/private/"):
            if self.headers.get("Authorization") != AUTHORIZATION:
                self.refuse(401, WWW_Authenticate='Basic realm="sources"')
                return
            path = path.removeprefix("/private")
        if path.startswith("/git/"):
            self.backend(path.removeprefix("/git"))
        elif ".git/" in path:
            self.backend(path)
        elif path.startswith("/files/"):
            self.file(ROOT / path.split("?")[0].removeprefix("/files/"))
        elif path.startswith("/elsewhere/"):
            self.refuse(302, Location="http://other.test:80/archive.tar")
        elif path.startswith("/moved/"):  # to whatever follows
            self.refuse(302, Location=f"http://{path.removeprefix('/moved/')}")
        elif path == "/endless.tar":
            self.endless(os.urandom(65536))
        elif path == "/stuck.tar":
            self.endless(b"")
        else:
            self.refuse(404)

    do_POST = do_GET

    def body(self):
        if self.headers.get("Transfer-Encoding") != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length", 0)))
        data = b""
        while True:
            size = int(self.rfile.readline(), 16)
            data += self.rfile.read(size)
            self.rfile.readline()
            if not size:
                return data

    def backend(self, path):
        path, _, query = path.partition("?")
        body = self.body()
        env = {
            **os.environ,
            "GIT_PROJECT_ROOT": str(ROOT),
            "GIT_HTTP_EXPORT_ALL": "1",
            "PATH_INFO": path,
            "QUERY_STRING": query,
            "REQUEST_METHOD": self.command,
            "CONTENT_TYPE": self.headers.get("Content-Type", ""),
            "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""),
            "GIT_PROTOCOL": self.headers.get("Git-Protocol", ""),
            "CONTENT_LENGTH": str(len(body)),
        }
        reply = subprocess.run(["git", "http-backend"], input=body, env=env, capture_output=True, check=True).stdout
        head, _, data = reply.partition(b"\r\n\r\n")
        fields = dict(line.split(": ", 1) for line in head.decode().split("\r\n"))
        self.send_response(int(fields.pop("Status", "200 OK").split()[0]))
        for name, value in fields.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def file(self, path):
        path = path / "index.html" if path.is_dir() else path
        if not path.is_file():
            self.refuse(404)
            return
        data = path.read_bytes()
        self.send_response(200)
        self.send_header("Content-Type", {".html": "text/html", "": "application/json"}.get(path.suffix, "application/octet-stream"))
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def endless(self, data):
        self.close_connection = True
        self.send_response(200)
        self.end_headers()
        head = tarfile.TarInfo("endless")
        head.size = 1 << 40
        try:
            self.wfile.write(head.tobuf())
            while data:
                self.wfile.write(data)
            self.rfile.read(1)
        except OSError:
            pass


class Server(http.server.ThreadingHTTPServer):
    address_family = socket.AF_INET6
    request_queue_size = 64
    allow_reuse_port = True

    def handle_error(self, request, client_address):
        pass  # a client that leaves is no error here


class TlsHandler(Handler):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)

    def setup(self):
        self.request = self.context.wrap_socket(self.request, server_side=True)
        super().setup()


TlsHandler.context.load_cert_chain(PAIR)
for handler, port in ((Handler, PORT), (TlsHandler, TLS_PORT)):
    threading.Thread(target=Server((ADDRESS, port), handler).serve_forever, daemon=True).start()
print("up", flush=True)
sys.stdin.read()
