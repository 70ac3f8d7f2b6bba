# SPDX-License-Identifier: Apache-2.0
"""DIR ADDRESS PORT PAIR: the other end of harness/registry.py's Servers, until stdin ends. /token gives tokens as Docker's registry takes them. Every
other path is of a registry that has the image of DIR/layout under all names; the first part of a name says what is wrong with it."""

import base64
import hashlib
import json
import ssl
import subprocess
import sys
import threading
import time
import urllib.parse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

root, address, port, pair = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), sys.argv[4]
cut = set()  # blobs that were cut once
lock = threading.Lock()
PIECE, PAUSE_S = 64 << 10, 0.02  # of what comes slowly


def coded(data):
    return base64.urlsafe_b64encode(data).rstrip(b"=")


def make_token(scopes):
    der = "".join((root / "signer.pem").read_text().splitlines()[1:-1])
    access = [{"type": t, "name": n, "actions": a.split(",")} for t, n, a in (s.split(":") for s in scopes)]
    now = int(time.time())
    claims = {"iss": "test", "sub": "", "aud": "test", "exp": now + 300, "nbf": now - 10, "iat": now, "jti": "1", "access": access}
    head = {"typ": "JWT", "alg": "RS256", "x5c": [der]}
    text = b".".join(coded(json.dumps(part).encode()) for part in (head, claims))
    signature = subprocess.run(["openssl", "dgst", "-sha256", "-sign", root / "signer.key"], input=text, capture_output=True, check=True).stdout
    return (text + b"." + coded(signature)).decode()


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *words):
        pass

    def answer(self, status, data=b"", kind="application/json", **fields):
        self.send_response(status)
        for name, value in {"Content-Type": kind, "Content-Length": len(data), **{k.replace("_", "-"): v for k, v in fields.items()}}.items():
            self.send_header(name, str(value))
        self.end_headers()
        self.wfile.write(data)

    def token(self, query):
        user = base64.b64decode(self.headers.get("Authorization", "Basic ").split(" ")[1] or b"").decode("utf-8", "replace")
        if user not in ("", "bot:s3cret-of-registry"):
            return self.answer(401)
        scopes = [s for s in query.get("scope", []) if user or "public" in s]
        return self.answer(200, json.dumps({"token": make_token(scopes)}).encode())

    def manifest(self, how, what):
        index = json.loads((root / "layout/index.json").read_text())["manifests"][0]
        data = (root / "layout/blobs/sha256" / index["digest"][7:]).read_bytes()
        if how == "swapped":
            data += b"\n"
        if how in ("huge", "endless", "wide"):
            value = json.loads(data)
            if how == "huge":
                value["layers"][0]["size"] = 1 << 50
            elif how == "wide":
                value["layers"] *= 1000
            data = json.dumps(value).encode() + (b" " * (5 << 20) if how == "endless" else b"")
        if how == "upwards":
            value = json.loads(data)
            value["layers"][0]["digest"] = "sha256:../../../../etc/passwd"
            data = json.dumps(value).encode()
        if what.startswith("sha256:") and what[7:] != hashlib.sha256(data).hexdigest() and how != "swapped":
            return self.answer(404)
        kind = "text/html" if how == "page" else index["mediaType"]
        return self.answer(200, b"<html>" if how == "page" else data, kind)

    def blob(self, how, digest):
        data = (root / "layout/blobs/sha256" / digest[7:]).read_bytes()
        begin = int(self.headers.get("Range", "bytes=0-")[6:-1])
        with lock:
            own = self.path if how == "flaky" else (how, digest)
            is_first = own not in cut
            cut.add(own)
        if how == "damaged":
            data = data[:-1] + bytes([data[-1] ^ 1])
        if how == "long":
            data += b"more"
        if how == "away":
            return self.answer(307, Location="https://private.test/blob")
        if how == "plain":
            return self.answer(307, Location=f"http://{self.headers['Host']}/blob")
        if how == "loop":
            return self.answer(307, Location=self.path)
        if how == "short":
            return self.answer(200, data[: len(data) // 2])
        if how == "anew":
            begin = 0
        self.send_response(206 if begin else 200)
        self.send_header("Content-Length", str(len(data) - begin))
        self.end_headers()
        if how == "stalled":  # until the test lets it go on
            self.wfile.write(data[begin : begin + (len(data) - begin) // 2])
            self.wfile.flush()
            while not (root / "go-on").exists():
                time.sleep(PAUSE_S)
            self.wfile.write(data[begin + (len(data) - begin) // 2 :])
            return None
        if how == "dead" or (how in ("cut", "anew", "flaky") and is_first):
            self.wfile.write(data[begin : begin + (len(data) - begin) // 2])
            self.close_connection = True
            return None
        if how in ("flaky", "slow"):
            for at in range(begin, len(data), PIECE):
                self.wfile.write(data[at : at + PIECE])
                time.sleep(PAUSE_S)
            return None
        self.wfile.write(data[begin:])
        return None

    def do_GET(self):
        url = urllib.parse.urlsplit(self.path)
        entry = {"path": url.path, "query": url.query, "authorization": self.headers.get("Authorization"), "range": self.headers.get("Range")}
        with lock, open(root / "log", "a") as f:
            f.write(json.dumps(entry) + "\n")
        if url.path == "/token":
            return self.token(urllib.parse.parse_qs(url.query))
        parts = url.path.split("/")
        how, kind, what = parts[2], parts[-2], parts[-1]
        if how == "bad-realm":
            return self.answer(401, WWW_Authenticate='Bearer realm="http://private.test/token",service="x"')
        if how == "greedy":  # wants what is meant for another
            return self.answer(401, WWW_Authenticate=f'Bearer realm="https://other.test:{port}/token",service="x"')
        if how == "busy":
            return self.answer(503)
        return self.manifest(how, what) if kind == "manifests" else self.blob(how, what)


server = ThreadingHTTPServer((address, port), Handler)
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(pair)
server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
threading.Thread(target=server.serve_forever, daemon=True).start()
print("up", flush=True)
sys.stdin.read()
