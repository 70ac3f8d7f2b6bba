# SPDX-License-Identifier: Apache-2.0
"""What stands between a node and its database: it can be cut, and mended."""

import contextlib
import socket
import threading


class Relay:
    def __init__(self, database):
        self.database, self.is_cut, self.open = database, False, set()
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.serve, daemon=True).start()

    def conninfo(self, name, more="sslmode=disable"):
        return f"host=127.0.0.1 port={self.port} dbname={name} {more}"

    def serve(self):
        with contextlib.suppress(OSError):
            while True:
                client = self.listener.accept()[0]
                threading.Thread(target=self.take, args=[client], daemon=True).start()

    def take(self, client):
        if self.is_cut:
            client.close()
            return
        try:
            server = socket.create_connection((self.database.address, self.database.port), timeout=10)
        except OSError:
            client.close()
            return
        server.settimeout(None)
        self.open |= {client, server}
        for a, b in ((client, server), (server, client)):
            threading.Thread(target=self.pump, args=[a, b], daemon=True).start()

    def pump(self, source, sink):
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                sink.sendall(data)
        for end in (source, sink):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            self.open.discard(end)

    def cut(self, is_cut=True):
        self.is_cut = is_cut
        for end in list(self.open) if is_cut else ():
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def close(self):
        self.cut()
        self.listener.close()
