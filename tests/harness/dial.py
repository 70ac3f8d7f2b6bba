# SPDX-License-Identifier: Apache-2.0
"""One attempt to reach something, as a JSON line: run inside a sandbox, and outside as its control. Stdlib only; it is
copied into the sandbox as it is.

    dial.py tcp ADDRESS PORT [SECONDS]   connects and reads what the server says first, for half a second
    dial.py send ADDRESS PORT TEXT       sends the text (escapes such as \\r\\n are read), gives what comes back
    dial.py tls ADDRESS PORT NAME        a GET by TLS that says this name ("-": none)
    dial.py udp ADDRESS PORT             sends a datagram
    dial.py dns NAME TYPE [tcp]          asks the resolver of /etc/resolv.conf
"""

import errno
import json
import socket
import ssl
import struct
import sys

TIMEOUT_S = 5


def connect(address, port):
    return socket.create_connection((address, int(port)), TIMEOUT_S)


def read_all(s):
    data = b""
    while len(data) < 65536:
        part = s.recv(4096)
        if not part:
            break
        data += part
        if b"\r\n\r\n" in data:
            head, _, body = data.partition(b"\r\n\r\n")
            length = [line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
            if length and len(body) >= int(length[0].split(b":")[1]):
                break
    return data.decode("latin-1")


def tcp(address, port, seconds=0.5):
    with connect(address, port) as s:
        s.settimeout(float(seconds))
        try:
            said = s.recv(100)
        except socket.timeout:
            return {"said": None}
        return {"said": said.decode("latin-1")} if said else {"error": "closed"}


def send(address, port, text):
    with connect(address, port) as s:
        s.sendall(text.encode("latin-1").decode("unicode_escape").encode("latin-1"))
        return {"reply": read_all(s)}


def tls(address, port, name):
    context = ssl._create_unverified_context()
    with connect(address, port) as raw, context.wrap_socket(raw, server_hostname=None if name == "-" else name) as s:
        s.sendall(f"GET / HTTP/1.1\r\nHost: {name}\r\n\r\n".encode())
        return {"reply": read_all(s)}


def udp(address, port):
    with socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_DGRAM) as s:
        s.settimeout(0.5)
        s.connect((address, int(port)))
        s.send(b"hello")
        try:
            s.recv(10)
        except socket.timeout:
            pass
        return {"sent": True}


def dns(name, kind, way="udp"):
    types = {"A": 1, "AAAA": 28, "TXT": 16, "HTTPS": 65, "ANY": 255, "MX": 15}
    labels = b"".join(bytes([len(x)]) + x.encode() for x in name.split("."))
    query = struct.pack(">HHHHHH", 4711, 0x100, 1, 0, 0, 0) + labels + b"\0" + struct.pack(">HH", types[kind], 1)
    server = open("/etc/resolv.conf").read().split("nameserver")[1].split()[0]
    if way == "tcp":
        with connect(server, 53) as s:
            s.sendall(struct.pack(">H", len(query)) + query)
            reply = s.recv(2000)[2:]
    else:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
            s.settimeout(TIMEOUT_S)
            s.sendto(query, (server, 53))
            reply = s.recv(2000)
    _, flags, _, answers, _, _ = struct.unpack(">HHHHHH", reply[:12])
    return {"rcode": flags & 15, "answers": answers}


def main():
    try:
        found = globals()[sys.argv[1]](*sys.argv[2:])
    except socket.timeout:
        found = {"error": "timeout"}
    except socket.gaierror:
        found = {"error": "no such name"}
    except ssl.SSLError as e:
        found = {"error": "tls: " + str(e)}
    except OSError as e:
        found = {"error": errno.errorcode.get(e.errno, str(e))}
    print(json.dumps(found))


main()
