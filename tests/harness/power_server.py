# SPDX-License-Identifier: Apache-2.0
"""Serves the file of a disk that can lose its power (power.py) as a FUSE filesystem: PLACE PLATTER."""

import ctypes
import os
import signal
import struct
import subprocess
import sys

BLOCK = 4096
MIB = 1 << 20
NAME = "disk"
ROOT_NODE, FILE_NODE = 1, 2
LOOKUP, FORGET, GETATTR, SETATTR, OPEN, READ, WRITE, STATFS, RELEASE = 1, 2, 3, 4, 14, 15, 16, 17, 18
FSYNC, FLUSH, INIT, INTERRUPT, DESTROY, BATCH_FORGET = 20, 25, 26, 36, 38, 42
ENOENT, ENOSYS = 2, 38
LIBC = ctypes.CDLL(None, use_errno=True)


class Server:
    """Serves one file; runs in a process of its own. SIGUSR1: an image of the platter is asked for at its standard input."""

    def __init__(self, place, platter):
        self.platter = os.open(platter, os.O_RDWR)
        self.size = os.fstat(self.platter).st_size
        self.unflushed = {}  # block number: its bytes
        self.fd = os.open("/dev/fuse", os.O_RDWR)
        options = f"fd={self.fd},rootmode=40000,user_id=0,group_id=0".encode()
        if LIBC.mount(b"power", os.fsencode(place), b"fuse", 0x2 | 0x4, options) < 0:
            raise OSError(ctypes.get_errno(), "cannot mount")

    def attr(self, node):
        mode, size = (0o40755, 0) if node == ROOT_NODE else (0o100600, self.size)
        return struct.pack("<6Q10I", node, size, size // 512, 0, 0, 0, 0, 0, 0, mode, 1, 0, 0, 0, BLOCK, 0)

    def block(self, number):
        return self.unflushed.get(number) or os.pread(self.platter, BLOCK, number * BLOCK).ljust(BLOCK, b"\0")

    def read(self, offset, size):
        first, last = offset // BLOCK, (offset + size - 1) // BLOCK
        data = bytearray(os.pread(self.platter, (last - first + 1) * BLOCK, first * BLOCK).ljust((last - first + 1) * BLOCK, b"\0"))
        for number in range(first, last + 1):
            if number in self.unflushed:
                data[(number - first) * BLOCK : (number - first + 1) * BLOCK] = self.unflushed[number]
        return bytes(data[offset - first * BLOCK :][:size])

    def write(self, offset, data):
        at = 0
        while at < len(data):
            number, inside = divmod(offset + at, BLOCK)
            n = min(BLOCK - inside, len(data) - at)
            part = data[at : at + n]
            if n < BLOCK:
                old = self.block(number)
                part = old[:inside] + part + old[inside + n :]
            self.unflushed[number] = part
            at += n

    def flush(self):
        for number, data in self.unflushed.items():
            os.pwrite(self.platter, data, number * BLOCK)
        self.unflushed.clear()

    def answer(self, op, node, body):
        """The reply's bytes, or an errno."""
        if op == INIT:
            return struct.pack("<IIIIHHIIHHI28x", 7, 31, MIB, 1 << 5 | 1 << 22, 16, 12, MIB, 1, 256, 0, 0)
        if op == LOOKUP:
            if body.rstrip(b"\0") != NAME.encode():
                return ENOENT
            return struct.pack("<4Q2I", FILE_NODE, 1, 1, 1, 0, 0) + self.attr(FILE_NODE)
        if op in (GETATTR, SETATTR):
            return struct.pack("<QII", 1, 0, 0) + self.attr(node)
        if op == OPEN:
            return struct.pack("<QII", 1, 0, 0)
        if op == READ:
            _, offset, size = struct.unpack_from("<QQI", body)
            return self.read(offset, min(size, max(self.size - offset, 0)))
        if op == WRITE:
            _, offset, size = struct.unpack_from("<QQI", body)
            self.write(offset, body[40 : 40 + size])
            return struct.pack("<II", size, 0)
        if op == FSYNC:
            self.flush()
            return b""
        if op == STATFS:
            return struct.pack("<5Q4I24x", 1 << 20, 1 << 20, 1 << 20, 1, 1, BLOCK, 255, BLOCK, 0)
        return b"" if op in (FLUSH, RELEASE, DESTROY) else ENOSYS

    def run(self):
        signal.signal(signal.SIGUSR1, lambda *_: self.copy())
        print("ready", flush=True)
        while True:
            try:
                request = os.read(self.fd, MIB + 65536)
            except OSError:
                return  # unmounted
            _, op, unique, node = struct.unpack_from("<IIQQ", request)
            if op in (FORGET, BATCH_FORGET, INTERRUPT):
                continue
            reply = self.answer(op, node, request[40:])
            error, reply = (-reply, b"") if isinstance(reply, int) else (0, reply)
            os.write(self.fd, struct.pack("<IiQ", 16 + len(reply), error, unique) + reply)

    def copy(self):
        """Python runs this between two requests: no block is half written."""
        target = sys.stdin.readline().strip()
        subprocess.run(["cp", "--sparse=always", f"/proc/{os.getpid()}/fd/{self.platter}", target], check=True)
        print("copied", flush=True)


if __name__ == "__main__":
    Server(sys.argv[1], sys.argv[2]).run()
