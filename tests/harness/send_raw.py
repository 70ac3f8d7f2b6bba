# SPDX-License-Identifier: Apache-2.0
"""Sends texts as they are: send_raw.py ADDRESS PORT < JSON {name: text (latin-1)}, one connection each. Prints
{name: status of the reply, or 0 where none came}. Stdlib only: it is also run inside a sandbox."""

import json
import socket
import sys
from concurrent.futures import ThreadPoolExecutor

TIMEOUT_S = 5


def send(text):
    reply = b""
    try:
        with socket.create_connection((sys.argv[1], int(sys.argv[2])), TIMEOUT_S) as s:
            s.sendall(text.encode("latin-1"))
            while part := s.recv(65536):
                reply += part
    except OSError:
        pass  # what came before counts
    words = reply.split(None, 2)
    return int(words[1]) if len(words) > 1 and words[0].startswith(b"HTTP/") and words[1].isdigit() else 0


texts = json.load(sys.stdin)
with ThreadPoolExecutor(24) as pool:
    print(json.dumps(dict(zip(texts, pool.map(send, texts.values())))))
