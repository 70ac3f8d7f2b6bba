# SPDX-License-Identifier: Apache-2.0
"""An HTTP/2 client that sends whatever it is told: h2_client.py NAME PORT SCRIPT. SCRIPT is Python that is given `c`; what it
leaves in `said` is printed as JSON. It runs inside, with hpack and hyperframe in /tmp/lib."""

import json
import os
import socket
import ssl
import sys

sys.path.insert(0, "/tmp/lib")
from hpack import Decoder, Encoder  # noqa: E402
from hyperframe.frame import ContinuationFrame, DataFrame, Frame, GoAwayFrame, HeadersFrame, PingFrame, PriorityFrame, RstStreamFrame, SettingsFrame, WindowUpdateFrame  # noqa: E402

NAME, PORT, SCRIPT = sys.argv[1], int(sys.argv[2]), sys.argv[3]

CONTEXT = ssl._create_unverified_context() if os.environ.get("UNVERIFIED") else ssl.create_default_context()
CONTEXT.set_alpn_protocols(["h2"])


class Client:
    """Streams have the ids that they are given. What comes is kept by stream."""

    def __init__(self):
        self.s = CONTEXT.wrap_socket(socket.create_connection((NAME, PORT), 20), server_hostname=NAME)
        self.encoder, self.decoder, self.inbox = Encoder(), Decoder(max_header_list_size=1 << 24), b""
        self.fields, self.trailers, self.bodies, self.resets, self.over, self.interim = {}, {}, {}, {}, set(), {}
        self.goaway, self.is_closed, self.is_reading = None, False, True
        self.settings, self.window = {}, 65535
        self.frames, self.n_fields = {}, 0  # frames by type, and fields of all heads
        self.raw(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + SettingsFrame(0).serialize())

    def raw(self, data):
        try:
            self.s.sendall(data)
        except OSError:  # it is read what came before
            pass

    def send(self, *frames):
        self.raw(b"".join(f.serialize() for f in frames))

    def head(self, stream, *fields, path="/echo", method="GET", authority=None, scheme="https", end=True):
        """Its frame; a pseudo field of None is left out."""
        pseudo = {":method": method, ":scheme": scheme, ":authority": authority or f"{NAME}:{PORT}", ":path": path}
        frame = HeadersFrame(stream, self.encoder.encode([(k, v) for k, v in pseudo.items() if v is not None] + list(fields), huffman=False))
        frame.flags |= {"END_HEADERS", "END_STREAM"} if end else {"END_HEADERS"}
        return frame

    def ask(self, stream, *fields, **how):
        self.send(self.head(stream, *fields, **how))

    def read(self):
        """One frame, or False at the end."""
        while True:
            if len(self.inbox) >= 9:
                frame, length = Frame.parse_frame_header(memoryview(self.inbox[:9]))
                if len(self.inbox) >= 9 + length:
                    frame.parse_body(memoryview(self.inbox[9 : 9 + length]))
                    self.inbox = self.inbox[9 + length :]
                    return self.take(frame)
            try:
                part = self.s.recv(65536)
            except TimeoutError:
                raise SystemExit("nothing more comes") from None
            except OSError:
                part = b""
            if not part:
                self.is_closed = True
                return False
            self.inbox += part

    def take(self, frame):
        stream, kind = frame.stream_id, type(frame).__name__
        self.frames[kind] = self.frames.get(kind, 0) + 1
        if isinstance(frame, HeadersFrame):
            decoded = self.decoder.decode(frame.data)
            self.n_fields += len(decoded)
            fields = dict(decoded)
            if fields.get(":status", "").startswith("1"):
                self.interim[stream] = fields
            else:
                (self.trailers if stream in self.fields else self.fields)[stream] = fields
        elif isinstance(frame, DataFrame):
            self.bodies[stream] = self.bodies.get(stream, b"") + frame.data
            if self.is_reading and frame.data:
                self.send(*(WindowUpdateFrame(s, window_increment=len(frame.data)) for s in (0, stream)))
        elif isinstance(frame, RstStreamFrame):
            self.resets.setdefault(stream, frame.error_code)
        elif isinstance(frame, GoAwayFrame):
            self.goaway = frame.error_code
        elif isinstance(frame, SettingsFrame) and "ACK" not in frame.flags:
            self.settings = frame.settings
            self.send(SettingsFrame(0, flags=["ACK"]))
        elif isinstance(frame, WindowUpdateFrame) and stream == 0:
            self.window += frame.window_increment
        if isinstance(frame, (HeadersFrame, DataFrame)) and "END_STREAM" in frame.flags:
            self.over.add(stream)
        return True

    def wait(self, *streams):
        """Until they are over, reset, or the connection is."""
        while not all(s in self.over or s in self.resets for s in streams) and self.read():
            pass

    def wait_end(self):
        while self.read():
            pass

    def result(self, stream):
        """(status, body), or ("reset", code), or ("closed", the code of GOAWAY)."""
        self.wait(stream)
        if stream in self.over:
            return int(self.fields[stream][":status"]), self.bodies.get(stream, b"").decode("latin-1")
        if stream in self.resets:
            return "reset", self.resets[stream]
        return "closed", self.goaway


c, said = Client(), {}
exec(SCRIPT)  # noqa: S102 - the test's own
print(json.dumps(said))
