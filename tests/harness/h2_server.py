# SPDX-License-Identifier: Apache-2.0
"""An HTTP/2 server of harness/internet.py's namespace, frame by frame: h2_server.py PAIR PORT LOG. What it does, the path says.
It ends with its stdin.

    /echo…      tells the request and the frames so far as JSON, and in a field and a trailer the credential that came; /echo/encoded says that it is compressed
    /long       sends until the window of its stream is wider than it was at first
    /speak/1    speaks HTTP/1.1 alone on connections to come; /speak/2 HTTP/2 too
    /endless    sends as much as it may, and logs how much that was when it may not go on
    /early      replies before the request is over
    /refuse     refuses the stream as one that was not looked at
    /bye        replies, and says that it wants no more on this connection
    /cut        ends the stream in the middle of its reply
    /hint       says 103 first
    /bad/…      what no server should do: see BAD

A client that does not want HTTP/2 gets a reply of HTTP/1.1.
"""

import json
import socketserver
import ssl
import sys
import threading
from pathlib import Path

from hpack import Decoder, Encoder
from hyperframe.frame import ContinuationFrame, DataFrame, Frame, GoAwayFrame, HeadersFrame, PingFrame, PushPromiseFrame, RstStreamFrame, SettingsFrame, WindowUpdateFrame

PAIR, PORT, LOG = sys.argv[1], int(sys.argv[2]), Path(sys.argv[3])
LOCK = threading.Lock()
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"


def note(kind, **facts):
    with LOCK, open(LOG, "a") as f:
        f.write(json.dumps({"kind": kind, **facts}) + "\n")


def speak(path):
    CONTEXT.set_alpn_protocols(["h2", "http/1.1"] if path == "/speak/2" else ["http/1.1"])


class Handler(socketserver.StreamRequestHandler):
    def setup(self):
        self.request = CONTEXT.wrap_socket(self.request, server_side=True)
        super().setup()

    def send(self, frame):
        self.wfile.write(frame.serialize())

    def headers(self, stream, fields, *flags, kind=HeadersFrame):
        frame = kind(stream, self.encoder.encode(fields))
        frame.flags |= {"END_HEADERS", *flags}
        self.send(frame)

    def data(self, stream, data, *flags):
        for at in range(0, len(data), 16384):
            self.send(DataFrame(stream, data[at : at + 16384]))
        self.send(DataFrame(stream, b"", flags=flags))

    def handle(self):
        if self.connection.selected_alpn_protocol() != "h2":
            self.reply_http1()
            return
        first = self.rfile.read(len(PREFACE))
        if first != PREFACE:
            note("h2-left", first=first.decode("latin-1"))
            return
        self.encoder, self.decoder = Encoder(), Decoder(max_header_list_size=1 << 24)
        self.frames = {}  # how many, by type
        self.requests, self.windows, self.initial = {}, {0: 65535}, 65535
        self.send(SettingsFrame(0))
        note("h2-connection", port=self.connection.getpeername()[1])
        try:
            while self.step():
                pass
        except (AssertionError, OSError, ValueError):
            pass
        note("h2-end")

    def step(self):
        head = self.rfile.read(9)
        if not head:
            return False
        frame, length = Frame.parse_frame_header(memoryview(head))
        frame.parse_body(memoryview(self.rfile.read(length)))
        self.take(frame)
        return True

    def reply_http1(self):
        while line := self.rfile.readline():
            path, fields = line.split()[1].decode(), {}
            while (field := self.rfile.readline()) not in (b"\r\n", b""):
                name, _, value = field.decode().partition(":")
                fields[name.lower()] = value.strip()
            self.rfile.read(int(fields.get("content-length", 0)))
            note("h1-request", path=path, fields=fields)
            if path.startswith("/speak/"):
                speak(path)
            self.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nold")

    def take(self, frame):
        kind = type(frame).__name__
        self.frames[kind] = self.frames.get(kind, 0) + 1
        if isinstance(frame, SettingsFrame) and "ACK" not in frame.flags:
            self.initial = frame.settings.get(SettingsFrame.INITIAL_WINDOW_SIZE, self.initial)
            self.send(SettingsFrame(0, flags=["ACK"]))
        elif isinstance(frame, PingFrame) and "ACK" not in frame.flags:
            self.send(PingFrame(0, frame.opaque_data, flags=["ACK"]))
        elif isinstance(frame, WindowUpdateFrame):
            self.windows[frame.stream_id] = self.windows.get(frame.stream_id, self.initial) + frame.window_increment
        elif isinstance(frame, RstStreamFrame):
            note("h2-reset", stream=frame.stream_id, code=frame.error_code)
        elif isinstance(frame, HeadersFrame):
            fields = self.decoder.decode(frame.data)
            if frame.stream_id in self.requests:
                self.requests[frame.stream_id]["trailers"] = fields
            else:
                self.requests[frame.stream_id] = {"fields": fields, "body": b"", "trailers": []}
                if dict(fields).get(":path") == "/early":
                    self.reply(frame.stream_id)
        elif isinstance(frame, DataFrame):
            self.requests.setdefault(frame.stream_id, {"fields": [], "body": b"", "trailers": []})["body"] += frame.data
            if frame.data:
                for stream in (0, frame.stream_id):
                    self.send(WindowUpdateFrame(stream, window_increment=len(frame.data)))
        if isinstance(frame, (HeadersFrame, DataFrame)) and "END_STREAM" in frame.flags:
            self.reply(frame.stream_id)

    def reply(self, stream):
        request = self.requests[stream]
        fields = dict(request["fields"])
        path = fields.get(":path", "")
        note("h2-request", method=fields.get(":method"), path=path, fields=fields, trailers=dict(request["trailers"]), body=len(request["body"]))
        came = fields.get("authorization", "none")
        if path.startswith("/bad/"):
            BAD[path.removeprefix("/bad/")](self, stream)
        elif path == "/endless":
            self.endless(stream)
        elif path == "/long":
            self.long(stream)
        elif path.startswith("/speak/"):
            speak(path)
            self.headers(stream, [(":status", "200")], "END_STREAM")
        elif path == "/early":
            self.headers(stream, [(":status", "413")], "END_STREAM")
        elif path == "/refuse":
            self.send(RstStreamFrame(stream, 7))
        elif path == "/cut":
            self.headers(stream, [(":status", "200")])
            self.data(stream, b"x" * 100)
            self.send(RstStreamFrame(stream, 2))
        else:
            if path == "/bye":
                self.send(GoAwayFrame(0, stream, 0))
            if path == "/hint":
                self.headers(stream, [(":status", "103"), ("link", came)])
            encoding = [("grpc-encoding", "gzip")] if path == "/echo/encoded" else []
            assert self.windows[0] > 10000, "there is no room for a reply"
            self.headers(stream, [(":status", "200"), ("content-type", "application/json"), ("x-seen", came), *encoding])
            told = {"fields": fields, "n_fields": len(request["fields"]), "frames": self.frames}
            self.data(stream, json.dumps({**told, "length": len(request["body"]), "body": request["body"][:1000].decode("latin-1")}).encode())
            self.headers(stream, [("behind", "the reply"), ("x-seen-last", came)], "END_STREAM")

    def long(self, stream):
        self.headers(stream, [(":status", "200")])
        self.windows.setdefault(stream, self.initial)
        left = 4 * self.initial
        while self.windows[stream] <= self.initial:
            n = min(self.windows[0], self.windows[stream], left, 16384)
            if n > 0:
                self.windows[0] -= n
                self.windows[stream] -= n
                left -= n
                self.send(DataFrame(stream, bytes(n)))
            elif not self.step():
                return
        note("h2-long", window=self.windows[stream])
        self.data(stream, b"", "END_STREAM")

    def endless(self, stream):
        """Keeps to the windows; what it may send at once is logged."""
        self.headers(stream, [(":status", "200")])
        left = min(self.windows[0], self.windows.get(stream, self.initial))
        self.windows[0] -= left
        self.data(stream, b"x" * left)
        note("h2-endless", sent=left)


def flood(make, n=20000):
    def send(handler, stream):
        handler.wfile.write(make(stream).serialize() * n)
        handler.headers(stream, [(":status", "200")], "END_STREAM")

    return send


def settings(stream):
    return SettingsFrame(0, {SettingsFrame.ENABLE_PUSH: 0})


def push(handler, stream):
    frame = PushPromiseFrame(stream, 2, handler.encoder.encode([(":method", "GET"), (":scheme", "https"), (":authority", "allowed.test"), (":path", "/")]))
    frame.flags.add("END_HEADERS")
    handler.send(frame)


def continuations(handler, stream):
    handler.send(HeadersFrame(stream, handler.encoder.encode([(":status", "200")])))
    for _ in range(1000):
        handler.send(ContinuationFrame(stream, b""))


def bomb(handler, stream):
    """A field of 4 KB that is said a hundred times at a byte each."""
    handler.headers(stream, [(":status", "200"), *[("x-large", "x" * 3900)] * 100], "END_STREAM")


def headed(*fields, body=b"", flags=("END_STREAM",)):
    def send(handler, stream):
        handler.headers(stream, [(":status", "200"), *fields])
        handler.data(stream, body, *flags)

    return send


def overrun(handler, stream):
    handler.headers(stream, [(":status", "200")])
    handler.data(stream, bytes(3 << 20), "END_STREAM")


BAD = {
    "ping": flood(lambda s: PingFrame(0, b"12345678")),
    "settings": flood(settings),
    "empty": lambda h, s: (h.headers(s, [(":status", "200")]), flood(lambda s: DataFrame(s, b""))(h, s)),
    "push": push,
    "continuation": continuations,
    "bomb": bomb,
    "capital": headed(("X-Capital", "x")),
    "crlf": headed(("x-field", "a\r\nset-cookie: b")),
    "connection": headed(("transfer-encoding", "chunked")),
    "long": headed(("content-length", "3"), body=b"four"),
    "short": headed(("content-length", "9"), body=b"four"),
    "status": lambda h, s: h.headers(s, [(":status", "2x0")], "END_STREAM"),
    "window": lambda h, s: (h.send(WindowUpdateFrame(s, window_increment=0x7FFFFFFF)), h.send(WindowUpdateFrame(s, window_increment=0x7FFFFFFF))),
    "overrun": overrun,
    "garbage": lambda h, s: h.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n" * 130000),  # as long as a frame that begins so
}


class Server(socketserver.ThreadingTCPServer):
    import socket

    address_family = socket.AF_INET6
    allow_reuse_address = daemon_threads = True

    def handle_error(self, request, client_address):
        note("broken", error=repr(sys.exc_info()[1]))


CONTEXT = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
CONTEXT.load_cert_chain(PAIR)
CONTEXT.set_alpn_protocols(["h2", "http/1.1"])
with Server(("::", PORT), Handler) as server:
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print("up", flush=True)
    sys.stdin.read()
    server.shutdown()
