# SPDX-License-Identifier: Apache-2.0
"""Real receivers of the audit log: an S3 server that checks signatures (s3rver), and rsyslog."""

import re
import shutil
import signal
import socket
import subprocess
from pathlib import Path

import pytest

from .daemon import free_port, wait_for
from .npm import NPM, made_once, run

PACKAGE = Path(__file__).parent.parent / "functional" / "s3"
KEY = "S3RVER"  # the id and the secret of s3rver's one account
CREDENTIALS = "[default]\naws_access_key_id = {id}\naws_secret_access_key = {secret}\n"
SUFFIX = "._S3rver_object"


def s3rver(tmp_path_factory):
    """Its folder, installed once; skips where it does not run."""
    if not shutil.which("npm"):
        pytest.skip("this host has no npm")
    if int(subprocess.check_output(["node", "--version"], text=True).lstrip("v").split(".")[0]) < 20:
        pytest.skip("this host's Node is older than 20, which s3rver needs")

    def make(path):
        shutil.copytree(PACKAGE, path, dirs_exist_ok=True)
        run(*NPM, "ci", cwd=path)

    return made_once(tmp_path_factory, "s3rver", make)


def listens(port):
    with socket.socket() as s:
        return s.connect_ex(("127.0.0.1", port)) == 0


class Server:
    """A program that listens on a port of loopback; it may be stopped and started again."""

    def __init__(self, directory):
        self.dir, self.port, self.process = Path(directory), free_port(), None
        self.dir.mkdir(parents=True, exist_ok=True)

    def words(self):
        raise NotImplementedError

    def start(self):
        with open(self.dir / "log", "ab") as log:
            self.process = subprocess.Popen(self.words(), stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        wait_for(lambda: listens(self.port), 30, f"{self.words()[0]} (see {self.dir}/log)")
        return self

    def stop(self, signo=signal.SIGTERM):
        if self.process and self.process.poll() is None:
            self.process.send_signal(signo)
            self.process.wait(20)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop(signal.SIGKILL)


class ObjectStore(Server):
    def __init__(self, directory, program, port=None):
        super().__init__(directory)
        self.program, self.data = program, self.dir / "data"
        self.port = port or self.port
        self.url = f"http://127.0.0.1:{self.port}/audit/host-1"

    def words(self):
        return ["node", str(self.program / "serve.js"), str(self.data), str(self.port)]

    def options(self, secret=KEY, interval="1s"):
        file = self.dir / "credentials"
        file.write_text(CREDENTIALS.format(id=KEY, secret=secret))
        return ["--audit-s3-url", self.url, "--audit-s3-credentials", str(file), "--audit-s3-interval", interval]

    def objects(self):
        """{name: content} of what is there."""
        top = self.data / "audit" / "host-1"
        return {str(p.relative_to(top))[: -len(SUFFIX)]: p.read_text() for p in sorted(top.rglob(f"*{SUFFIX}"))}

    def download(self, to):
        for name, content in self.objects().items():
            path = Path(to) / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content)
        return Path(to)


RSYSLOG = """global(workDirectory="{dir}" maxMessageSize="64k" {tls})
module(load="imtcp" {driver})
template(name="plain" type="string" string="%PRI% %TIMESTAMP:::date-rfc3339% %APP-NAME% %MSGID% %msg%\\n")
input(type="imtcp" address="127.0.0.1" port="{port}")
action(type="omfile" file="{dir}/messages" template="plain" flushOnTXEnd="on" asyncWriting="off")
"""
TLS = 'DefaultNetstreamDriverCAFile="{ca}" DefaultNetstreamDriverCertFile="{pair}" DefaultNetstreamDriverKeyFile="{pair}"'
DRIVER = 'StreamDriver.Name="gtls" StreamDriver.Mode="1" StreamDriver.AuthMode="anon"'


class Syslog(Server):
    def __init__(self, directory, authority=None):
        super().__init__(directory)
        tls = TLS.format(ca=authority.cert, pair=authority.issue("127.0.0.1", "localhost")) if authority else ""
        self.url = f"{'tls' if authority else 'tcp'}://127.0.0.1:{self.port}"
        (self.dir / "conf").write_text(RSYSLOG.format(dir=self.dir, port=self.port, tls=tls, driver=DRIVER if authority else ""))

    def words(self):
        return ["rsyslogd", "-n", "-f", str(self.dir / "conf"), "-i", str(self.dir / "pid")]

    def start(self):
        (self.dir / "pid").unlink(missing_ok=True)  # of one that was killed
        return super().start()

    def messages(self):
        """(priority, time, program, id, text) of each line that it has written."""
        file = self.dir / "messages"
        lines = file.read_text().splitlines() if file.exists() else []
        return [re.fullmatch(r"(\d+) (\S+) (\S+) (\S+) ?(.*)", line).groups() for line in lines]
