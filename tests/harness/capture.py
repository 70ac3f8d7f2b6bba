# SPDX-License-Identifier: Apache-2.0
"""Counts packets of this net namespace that carry one of the given words: capture.py WORD… Says "up", and with the end
of its stdin prints {word: packets}, as JSON."""

import json
import select
import socket
import sys

ALL_PROTOCOLS = 0x0003
found = dict.fromkeys(sys.argv[1:], 0)
with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ALL_PROTOCOLS)) as s:
    print("up", flush=True)
    is_over = False
    while True:
        readable, _, _ = select.select([s] if is_over else [s, sys.stdin], [], [], 0 if is_over else None)
        if s in readable:
            packet = s.recv(65536)
            for word in found:
                found[word] += word.encode() in packet
        elif is_over:
            break
        else:
            is_over = True  # and what is there already is still read
print(json.dumps(found))
