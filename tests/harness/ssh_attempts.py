# SPDX-License-Identifier: Apache-2.0
"""Logs in by SSH through a liar between ssh and the socket that signs. Runs inside a sandbox, and as a control beside a plain ssh-agent.

	python3 -S ssh_attempts.py LIE RECORD ssh …

RECORD is a file: the lie `honest` writes what was bound there, others read it. Prints a JSON object: `exit` and `error` of ssh, and `answers`, the kinds of the
answers to what was to be signed (14: signed, 5: refused)."""

import json
import os
import socket
import struct
import subprocess
import sys
import threading

LIE, RECORD, SSH = sys.argv[1], sys.argv[2], sys.argv[3:]
REAL, OURS = os.environ["SSH_AUTH_SOCK"], f"/tmp/liar-{os.getpid()}.sock"
BIND = b"session-bind@openssh.com"
SUCCESS, SIGN, EXTENSION = 6, 13, 27
answers = []


def string(data):
    return struct.pack(">I", len(data)) + data


def strings(data, n):
    """n strings, and what is behind them."""
    found = []
    for _ in range(n):
        (size,) = struct.unpack(">I", data[:4])
        found.append(data[4 : 4 + size])
        data = data[4 + size :]
    return found, data


def receive(sock):
    def exactly(n):
        data = b""
        while len(data) < n:
            piece = sock.recv(n - len(data))
            if not piece:
                raise EOFError
            data += piece
        return data

    return exactly(struct.unpack(">I", exactly(4))[0])


def changed_binding(parts, forwarded):
    """What is told instead of the binding of this session; None: nothing."""
    host_key, session_id, signature = parts
    recorded = [bytes.fromhex(p) for p in json.load(open(RECORD))] if LIE != "honest" else None
    if LIE == "honest":
        json.dump([p.hex() for p in parts], open(RECORD, "w"))
    elif LIE == "unbound":
        return None
    elif LIE == "replayed":
        host_key, session_id, signature = recorded
    elif LIE == "forged":
        host_key = recorded[0]  # that of an allowed host, for a session with another
    elif LIE == "crossed":
        host_key, signature = recorded[0], recorded[2]  # its signature, too, which is over another session
    elif LIE == "forwarded":
        forwarded = b"\x01"
    return string(BIND) + string(host_key) + string(session_id) + string(signature) + forwarded


def changed_request(message):
    (key, data), flags = strings(message[1:], 2)
    if LIE == "foreign":
        data = b"SSHSIG" + string(b"file") + string(b"") + string(b"sha512") + string(b"\0" * 64)
    elif LIE == "behind":
        data += b"\0"
    elif LIE == "service":
        data = data.replace(string(b"ssh-connection"), string(b"other-services"))
    elif LIE == "sha1":
        flags = b"\0\0\0\0"
    return message[:1] + string(key) + string(data) + flags


def lie_to(visitor):
    real = socket.socket(socket.AF_UNIX)
    real.connect(REAL)
    try:
        while True:
            message = receive(visitor)
            if message[0] == EXTENSION and message[1:].startswith(string(BIND)):
                parts, forwarded = strings(message[1 + 4 + len(BIND) :], 3)
                told = changed_binding(parts, forwarded)
                if told is None:
                    visitor.sendall(string(bytes([SUCCESS])))
                    continue
                message = bytes([EXTENSION]) + told
            is_request = message[0] == SIGN
            if is_request:
                message = changed_request(message)
            real.sendall(string(message))
            answer = receive(real)
            if is_request:
                answers.append(answer[0])
            visitor.sendall(string(answer))
    except (EOFError, OSError):
        visitor.close()
        real.close()


def serve(listener):
    while True:
        threading.Thread(target=lie_to, args=(listener.accept()[0],), daemon=True).start()


listener = socket.socket(socket.AF_UNIX)
listener.bind(OURS)
listener.listen()
threading.Thread(target=serve, args=(listener,), daemon=True).start()
done = subprocess.run(SSH, env={**os.environ, "SSH_AUTH_SOCK": OURS}, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
os.unlink(OURS)
print(json.dumps({"exit": done.returncode, "said": done.stdout, "error": done.stderr, "answers": answers}))
