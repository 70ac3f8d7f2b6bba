# SPDX-License-Identifier: Apache-2.0
"""Servers of sources and packages in harness/internet.py's outer namespace (harness/source_servers.py), with a repository."""

import json
import subprocess
import sys
from pathlib import Path

from harness.certificates import Authority

SERVERS = Path(__file__).resolve().parent / "source_servers.py"
PORT, TLS_PORT = 8000, 8444
BASE, TLS_BASE = f"http://allowed.test:{PORT}", f"https://allowed.test:{TLS_PORT}"
PASSWORD = "s3cret-of-source"
ENCODED = "Ym90OnMzY3JldC1vZi1zb3VyY2U="  # of bot and that


def git(*words, cwd):
    argv = ["git", "-c", "user.name=t", "-c", "user.email=t@example.com", "-c", "init.defaultBranch=main", *words]
    return subprocess.run(argv, cwd=cwd, check=True, capture_output=True, text=True).stdout.strip()


class Sources:
    def __init__(self, directory):
        self.dir, self.log_path = directory / "root", directory / "log"
        self.dir.mkdir()
        self.log_path.touch()
        work = directory / "work"
        work.mkdir()
        git("init", "-q", cwd=work)
        self.commits = []
        for i in range(3):
            (work / "README").write_text(f"version {i}\n")
            git("add", ".", cwd=work)
            git("commit", "-qm", f"commit {i}", cwd=work)
            self.commits.append(git("rev-parse", "HEAD", cwd=work))
        git("tag", "v1", self.commits[1], cwd=work)
        git("update-ref", "refs/pull/7/head", self.commits[0], cwd=work)
        git("clone", "-q", "--mirror", str(work), str(self.dir / "app.git"), cwd=directory)
        git("config", "uploadpack.allowAnySHA1InWant", "true", cwd=self.dir / "app.git")

    def start(self, internet, address="::", ports=(PORT, TLS_PORT), names=("sources.test", "allowed.test")):
        argv = [*internet.enter(internet.outer), sys.executable, str(SERVERS), str(self.dir), str(self.log_path), address]
        argv += [*map(str, ports), str(Authority.of(internet.ca_file).issue(*names))]
        self.server = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert self.server.stdout.readline() == b"up\n"
        return self

    def close(self):
        self.server.stdin.close()
        self.server.wait(60)
        self.server.stdout.close()

    def log(self):
        return [json.loads(line) for line in self.log_path.read_text().splitlines()]
