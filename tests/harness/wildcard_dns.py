# SPDX-License-Identifier: Apache-2.0
"""A DNS server on loopback that knows one thing: every name below a domain is 127.0.0.1, as a record *.DOMAIN says. Other names do not exist."""

import random
import socket
import struct
import threading

A, NO_SUCH_NAME = 1, 3


def name_of(query):
    """The name that is asked for, and where it ends."""
    labels, at = [], 12
    while query[at]:
        labels.append(query[at + 1:at + 1 + query[at]].decode("ascii").lower())
        at += 1 + query[at]
    return ".".join(labels), at + 1


class WildcardDns:
    def __init__(self, domain):
        self.domain = domain
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.address = f"127.{random.randint(1, 254)}.{random.randint(1, 254)}.{random.randint(1, 254)}"  # others run tests, too
        self.socket.bind((self.address, 53))
        self.thread = threading.Thread(target=self._serve, daemon=True)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *exception):
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"", (self.address, 53))  # wakes it up
        self.thread.join()
        self.socket.close()

    def _serve(self):
        while True:
            query, asker = self.socket.recvfrom(512)
            if not query:
                return
            name, end = name_of(query)
            kind, = struct.unpack_from("!H", query, end)
            is_ours = f".{name}".endswith(f".{self.domain}")
            answers = [b"\xc0\x0c" + struct.pack("!HHIH4s", A, 1, 60, 4, socket.inet_aton("127.0.0.1"))] if is_ours and kind == A else []
            flags = 0x8580 if is_ours else 0x8580 | NO_SUCH_NAME
            self.socket.sendto(query[:2] + struct.pack("!HHHHH", flags, 1, len(answers), 0, 0) + query[12:end + 4] + b"".join(answers), asker)
