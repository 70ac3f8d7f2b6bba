# SPDX-License-Identifier: Apache-2.0
"""Servers in sandboxes of a group, and what the others get from them."""

import json

from harness.daemon import PATIENCE, wait_for

PORT = 7000
RESET = {"ECONNRESET", "ENOTCONN", "EPIPE"}  # after the connect, which the wall takes before it knows more
# Says who it is and how many bytes it got, when the other side has ended its own.
SERVE = """
import socket, sys, threading
def serve(c):
    with c:
        n = 0
        while data := c.recv(65536): n += len(data)
        c.sendall(f"{sys.argv[1]} {n}".encode())
s = socket.create_server(("0.0.0.0", int(sys.argv[2])), backlog=200)
open(f"/tmp/serves-{sys.argv[2]}", "w").close()
while True: threading.Thread(target=serve, args=[s.accept()[0]], daemon=True).start()
"""
ASK = """
import errno, json, socket, sys
host, port, size = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
try:
    with socket.create_connection((host, port), timeout=60) as c:
        peer = c.getpeername()[0]
        c.sendall(b"x" * size); c.shutdown(socket.SHUT_WR)
        said = b""
        while data := c.recv(65536): said += data
        print(json.dumps({"said": said.decode(), "peer": peer}))
except socket.gaierror as e: print(json.dumps({"error": "no such name"}))
except OSError as e: print(json.dumps({"error": errno.errorcode.get(e.errno, str(e))}))
"""
# Holds as many connections as it is told, and says how many were not ended by the other side.
HOLD = """
import select, socket, sys, time
held = []
for _ in range(int(sys.argv[3])):
    try: held.append(socket.create_connection((sys.argv[1], int(sys.argv[2])), timeout=5))
    except OSError: pass
time.sleep(1)
ended = select.select(held, [], [], 0)[0]
print(len(held) - len(ended), flush=True)
time.sleep(1000)
"""
# A stream that goes on until it is cut.
STREAM = """
import socket, sys
c = socket.create_connection((sys.argv[1], int(sys.argv[2])), timeout=60)
print("open", flush=True)
try:
    while c.send(b"x" * 1000): pass
except OSError: pass
print("cut", flush=True)
"""


def serve(sandbox, port=PORT):
    """Its server says its id."""
    sandbox.start(["python3", "-S", "-c", SERVE, sandbox.id, str(port)], user="root")
    wait_for(lambda: sandbox.run(["test", "-e", f"/tmp/serves-{port}"]).exit_code == 0, 30 * PATIENCE, "a server")
    return sandbox


def ask(sandbox, host, port=PORT, size=5):
    """What a server says, or why there is none."""
    done = sandbox.run(["python3", "-S", "-c", ASK, host, str(port), str(size)], timeout=120)
    assert done.exit_code == 0, done.stderr
    return json.loads(done.stdout)


def reaches(sandbox, host, other, port=PORT):
    """Whether it is answered by that one."""
    return ask(sandbox, host, port).get("said") == f"{other.id} 5"
