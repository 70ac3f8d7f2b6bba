# SPDX-License-Identifier: Apache-2.0
"""The servers of harness/internet.py, in one process: DNS from a file of names, HTTP, TLS, a server that speaks
first. Each thing seen is a line of the log. They end with their stdin."""

import base64
import gzip
import hashlib
import json
import select
import socket
import socketserver
import ssl
import struct
import sys
import threading
import time
import warnings
from pathlib import Path

from certificates import Authority
from internet_proxies import OWN, Connect, Socks, Through

ZONE, LOG, RESOLVER, CERTIFICATES = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3], Path(sys.argv[4])
LOCK = threading.Lock()
KEPT = "kept.test"  # the one name whose answer may be kept
SLOW, SLOW_S = "slow.test", 1.2  # and one whose answers take so long


def note(kind, **facts):
    with LOCK, open(LOG, "a") as f:
        f.write(json.dumps({"kind": kind, **facts}) + "\n")


def address_of(sock):
    return sock.getsockname()[0].removeprefix("::ffff:")


def read_name(query):
    labels, at = [], 12
    while query[at]:
        labels.append(query[at + 1 : at + 1 + query[at]].decode())
        at += 1 + query[at]
    return ".".join(labels), struct.unpack(">H", query[at + 1 : at + 3])[0], at + 5


def write_name(name):
    return b"".join(bytes([len(x)]) + x.encode() for x in name.split(".")) + b"\0"


def record(owner, kind, data, ttl_s=0):
    return owner + struct.pack(">HHIH", kind, 1, ttl_s, len(data)) + data


def answer(query):
    name, kind, end = read_name(query)
    note("dns", name=name, type=kind)
    zone = json.loads(ZONE.read_text())
    addresses = zone.get(name.lower())
    family = {1: socket.AF_INET, 28: socket.AF_INET6}.get(kind)
    records, owner, n = b"", b"\xc0\x0c", 0
    if addresses and addresses[0].startswith("="):  # an alias
        alias = addresses[0][1:]
        records, owner, n = record(owner, 5, write_name(alias)), write_name(alias), 1
        addresses = zone[alias]
    for a in addresses or []:
        if (":" in a) == (family == socket.AF_INET6):
            records += record(owner, kind, socket.inet_pton(family, a), 60 if name == KEPT else 0)
            n += 1
    rcode = 0 if addresses is not None else 3
    return query[:2] + struct.pack(">HHHHH", 0x8180 | rcode, 1, n, 0, 0) + query[12:end] + records


class Dns(socketserver.BaseRequestHandler):
    def handle(self):
        data, sock = self.request
        if read_name(data)[0] == SLOW:
            time.sleep(SLOW_S)
        sock.sendto(answer(data), self.client_address)


class Http(socketserver.StreamRequestHandler):
    """Replies what it was asked, and where; /endless never ends, /bytes/N has so many; the second of /events comes after /next."""

    count = 0  # of requests on this connection
    is_next = threading.Event()

    def handle(self):
        while self.one():
            pass

    def one(self):
        try:
            line = self.rfile.readline().decode("latin-1").split()
        except (ConnectionError, ssl.SSLError):
            return False
        if len(line) != 3:
            return False
        fields, names = {}, []
        while True:
            name, colon, value = self.rfile.readline().decode("latin-1").partition(":")
            if not colon:
                break
            fields[name.lower()] = value.strip()
            names.append(name)
        body = self.rfile.read(int(fields.get("content-length", 0)))
        seen = {"method": line[0], "path": line[1], "host": fields.get("host"), "fields": fields, "names": names, "body": body.decode("latin-1")}
        if isinstance(self.connection, ssl.SSLSocket):
            seen["alpn"] = self.connection.selected_alpn_protocol()
        seen["address"], seen["port"] = address_of(self.connection), self.connection.getsockname()[1]
        note("request", **seen)
        self.count += 1
        if line[1].startswith("/fickle"):
            return self.fickle(line[1])
        if line[1].startswith("/echo"):
            return self.echo(line[1], fields)
        if line[1].startswith("/endless"):
            return self.endless()
        if line[1].startswith("/events"):
            return self.events()
        if line[1].startswith("/next"):
            self.is_next.set()
        if line[1].startswith("/bytes/"):
            return self.bytes(int(line[1].removeprefix("/bytes/")))
        if fields.get("upgrade", "").lower() == "websocket" and line[1].startswith("/ws"):
            return self.websocket(fields["sec-websocket-key"])
        if line[1].startswith("/redirect"):  # to another host, with all that a client would send there
            self.wfile.write(b"HTTP/1.1 302 Found\r\nLocation: https://other.test/landed\r\nContent-Length: 0\r\n\r\n")
            return True
        text = b"{}" if line[1].endswith("/quiet") else json.dumps(seen).encode()
        if line[1].startswith("/repo.git/info/refs"):  # git's plain form
            text = b"0123456789abcdef0123456789abcdef01234567\trefs/heads/main\n"
        self.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(text) + text)
        return True

    def echo(self, path, fields):
        """Tells the credential that came in every place of a reply, cut into pieces; /gzip: compressed, whatever was asked for."""
        came = fields.get("authorization", "none")
        text = json.dumps(fields)
        if came.startswith("Basic "):
            text += base64.b64decode(came.split()[1]).decode()
        head = f"HTTP/1.1 200 {came.split()[-1]}\r\nX-Seen: {came}\r\nX-{came.split()[-1].rstrip('=')}: seen\r\n"
        if path.endswith("/gzip"):
            body = gzip.compress(text.encode())
            self.wfile.write(f"{head}Content-Encoding: gzip\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)
            return True
        if path.endswith("/length"):
            self.wfile.write(f"{head}Content-Length: {len(text)}\r\n\r\n".encode())
            pieces = [text[i : i + 11].encode() for i in range(0, len(text), 11)]
        else:
            self.wfile.write(f"HTTP/1.1 103 {came.split()[-1]}\r\nX-Seen: {came}\r\n\r\n{head}Transfer-Encoding: chunked\r\n\r\n".encode())
            pieces = [b"%x\r\n%s\r\n" % (len(text[i : i + 7]), text[i : i + 7].encode()) for i in range(0, len(text), 7)] + [b"0\r\n\r\n"]
        self.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for piece in pieces:
            self.wfile.write(piece)
        return True

    def fickle(self, path):
        """A connection's first request is replied to; what follows on it never is. What kind of end that is, the path says."""
        if self.count == 1 and not path.endswith("/never"):
            if path.endswith("/bye"):  # the reply and the end arrive as one
                self.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_CORK, 1)
            self.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")
            return not path.endswith("/bye")
        if path.endswith("/half"):
            self.wfile.write(b"HTTP/1.1 2")
        if path.endswith("/reset"):
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        return False

    def websocket(self, key):
        """Says hello with its 101, then sends back what comes."""
        accept = base64.b64encode(hashlib.sha1((key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11").encode()).digest())
        head = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: " + accept
        self.wfile.write(head + b"\r\n\r\nhello")
        try:
            while part := self.connection.recv(65536):
                self.wfile.write(part)
        except OSError:
            pass
        note("websocket-end")
        return False

    def bytes(self, n):
        self.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % n)
        try:
            self.wfile.write(b"x" * n)
        except OSError:
            return False
        return True

    def events(self):
        self.is_next.clear()
        self.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
        self.wfile.write(b"d\r\ndata: first\n\n\r\n")
        self.is_next.wait(60)
        self.wfile.write(b"e\r\ndata: second\n\n\r\n0\r\n\r\n")
        return True

    def endless(self):
        self.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000000\r\n\r\n")
        try:
            while True:
                self.wfile.write(b"x" * 1000)
                time.sleep(0.01)
        except OSError:
            note("cut")
        return False


class Tls(Http):
    context = None

    def setup(self):
        self.request = self.context.wrap_socket(self.request, server_side=True)
        super().setup()


class OldTls(Tls):
    """TLS 1.1 at most."""


class First(socketserver.BaseRequestHandler):
    def handle(self):
        note("connection", address=address_of(self.request))
        self.request.sendall(b"SSH-2.0-test\r\n")
        while self.request.recv(65536):
            pass


class Deaf(socketserver.BaseRequestHandler):
    """Reads nothing until the other side is gone."""

    def handle(self):
        poll = select.poll()
        poll.register(self.request, select.POLLRDHUP)
        poll.poll(60_000)


class Server(socketserver.ThreadingTCPServer):
    address_family = socket.AF_INET6
    allow_reuse_address = allow_reuse_port = daemon_threads = True  # harness/sources.py takes one address of all for itself
    request_queue_size = 64

    def handle_error(self, request, client_address):
        note("broken", error=repr(sys.exc_info()[1]))


def server_context(pair):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pair)
    context.set_alpn_protocols(["http/1.1"])  # whether a client asked for it is told in each reply
    return context


def make_contexts():
    """By the name that the client says: one good certificate for most, and others that nobody should believe."""
    good, stranger = Authority(CERTIFICATES, "good"), Authority(CERTIFICATES, "stranger")
    zone = json.loads(ZONE.read_text())
    contexts = {
        "expired.test": server_context(good.issue("expired.test", dates=("20200101000000Z", "20210101000000Z"))),
        "stranger.test": server_context(stranger.issue("stranger.test")),
        "wrong.test": server_context(good.issue("wrong.example")),
    }
    pair = good.issue(*OWN, *(n for n in zone if n not in contexts), *{a for n in zone.values() for a in n})
    context, old = server_context(pair), server_context(pair)
    old.set_ciphers("ALL:@SECLEVEL=0")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        old.minimum_version, old.maximum_version = ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1

    def choose(sock, name, _):
        if name in contexts:
            sock.context = contexts[name]

    context.sni_callback = choose
    return context, old


def main():
    Through.note, Through.resolve = note, lambda name: json.loads(ZONE.read_text()).get(name, [name])[0]
    Tls.context, OldTls.context = make_contexts()
    servers = [socketserver.ThreadingUDPServer((RESOLVER, 53), Dns)]
    for handler, port in ((Http, 80), (Http, 8080), (Tls, 443), (OldTls, 8443), (Deaf, 23), (Socks, 1080), (Connect, 3128)):
        servers.append(Server(("::", port), handler))
    servers += [Server((f"::ffff:{address}", 22), First) for address in sys.argv[5:]]  # not on all: another may have a real one
    for s in servers:
        s.daemon_threads = True
        threading.Thread(target=s.serve_forever, daemon=True).start()
    print("up", flush=True)
    sys.stdin.read()


main()
