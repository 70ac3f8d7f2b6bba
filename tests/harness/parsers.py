# SPDX-License-Identifier: Apache-2.0
"""nginx and haproxy beside the servers of harness/internet.py, each with a server behind it that keeps every byte."""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

from harness.daemon import wait_for
from harness.internet import RESOLVER

HERE = Path(__file__).resolve().parent
OURS = 8100  # what is sent there is what the wall sent
PEERS = {"nginx": (8111, 8110), "haproxy": (8121, 8120)}  # where it listens, and where it leads to

NGINX = """daemon off; master_process off; user root; pid {dir}/nginx.pid; error_log {dir}/nginx.log;
events {{ worker_connections 512; }}
http {{
    access_log off; client_body_temp_path {dir}/b; proxy_temp_path {dir}/p; fastcgi_temp_path {dir}/f; uwsgi_temp_path {dir}/u; scgi_temp_path {dir}/s;
    server {{ listen {listen}; location / {{ proxy_http_version 1.1; proxy_set_header Host $http_host; proxy_pass http://127.0.0.1:{to}; }} }}
}}
"""
HAPROXY = """global
    maxconn 512
defaults
    mode http
    timeout connect 5s
    timeout client 5s
    timeout server 5s
frontend in
    bind :{listen}
    default_backend out
backend out
    server out 127.0.0.1:{to}
"""


class Parsers:
    def __init__(self, internet):
        self.internet = internet
        self.dir = tempfile.TemporaryDirectory(prefix="cloche-parsers-", dir="/var/tmp")
        self.log = Path(self.dir.name) / "log"
        self.log.touch()
        self.children = []
        ports = [OURS, *(to for _, to in PEERS.values())]
        raw = self._start(sys.executable, "-S", str(HERE / "raw_server.py"), str(self.log), *map(str, ports), stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert raw.stdout.readline() == b"up\n"
        self._start("/usr/sbin/nginx", "-p", self.dir.name, "-c", self._config("nginx", NGINX), stderr=subprocess.DEVNULL)
        self._start("/usr/sbin/haproxy", "-db", "-q", "-f", self._config("haproxy", HAPROXY))
        for name in PEERS:
            wait_for(lambda name=name: self.send(name, {"up": "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"})["up"] == 200, 10, name)

    def _config(self, name, text):
        path = Path(self.dir.name) / f"{name}.conf"
        listen, to = PEERS[name]
        path.write_text(text.format(dir=self.dir.name, listen=listen, to=to))
        return str(path)

    def _start(self, *argv, **fields):
        p = subprocess.Popen([*self.internet.enter(self.internet.outer), *argv], **fields)
        self.children.append(p)
        return p

    def send(self, name, texts):
        """{name of the text: status}, by a peer."""
        argv = [*self.internet.enter(self.internet.inner), sys.executable, "-S", str(HERE / "send_raw.py"), RESOLVER, str(PEERS[name][0])]
        done = subprocess.run(argv, input=json.dumps(texts).encode(), capture_output=True, timeout=60, check=True)
        return json.loads(done.stdout)

    def passed_on(self, port):
        """What came to a server, connection by connection."""
        lines = [json.loads(line) for line in self.log.read_text().splitlines()]
        return [line["bytes"] for line in lines if line["port"] == port]

    def close(self):
        for p in self.children:
            p.terminate()
        for p in self.children:
            p.wait(60)
            for pipe in (p.stdin, p.stdout):
                if pipe:
                    pipe.close()
        self.dir.cleanup()
