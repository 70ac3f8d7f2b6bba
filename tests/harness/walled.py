# SPDX-License-Identifier: Apache-2.0
"""A sandbox behind the network wall, and what it reaches."""

import json
import sys
from pathlib import Path

DIAL = Path(__file__).resolve().parent / "dial.py"
INSIDE = "/tmp/dial.py"
REFUSED = {"ECONNREFUSED", "ECONNRESET", "ENETUNREACH", "EPERM", "closed"}


class Walled:
    def __init__(self, sandbox):
        self.sandbox = sandbox
        sandbox.files.write(INSIDE, DIAL.read_bytes())

    def dial(self, *words):
        """harness/dial.py inside."""
        result = self.sandbox.run(["python3", "-S", INSIDE, *map(str, words)], timeout=120)  # seconds in a jail; an emulated Python takes its time
        assert result.exit_code == 0, result.stderr
        return json.loads(result.stdout)

    def get(self, host, path="/", port=80, method="GET", fields=""):
        """(status, body) of a plain request to the address that the name has inside."""
        reply = self.dial("send", host, port, f"{method} {path} HTTP/1.1\\r\\nHost: {host}\\r\\n{fields}\\r\\n")
        return parse(reply)

    def raw(self, address, text, port=80):
        return parse(self.dial("send", address, port, text))


def parse(reply):
    """(status, body) of the reply, or (0, error)."""
    if not reply.get("reply"):
        return 0, reply.get("error")
    head, _, body = reply["reply"].partition("\r\n\r\n")
    return int(head.split()[1]), json.loads(body) if body.startswith("{") else body


def control(internet, *words):
    """The same attempt from the daemon's namespace, where no wall is."""
    done = internet.run(sys.executable, "-S", str(DIAL), *map(str, words))
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)
