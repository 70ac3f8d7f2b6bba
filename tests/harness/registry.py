# SPDX-License-Identifier: Apache-2.0
"""A real registry (Debian's docker-registry) in harness/internet.py's outer namespace, or on loopback, and images in it that real tools put there."""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

from harness.certificates import Authority
from harness.daemon import wait_for

SERVERS = Path(__file__).resolve().parent / "registry_servers.py"
PASSWORD = "s3cret-of-registry"


class Registry:
    """options: further lines of its configuration; data: what another one keeps, which this one gives away, too."""

    def __init__(self, address, port, *, prefix=(), pair=None, options="", data=None):
        self.dir = tempfile.TemporaryDirectory(prefix="cloche-registry-", dir="/var/tmp")
        self.root, self.prefix, self.is_tls = Path(self.dir.name), list(prefix), pair is not None
        self.at, self.log_path, self.data = f"{address}:{port}", self.root / "log", data or self.root / "data"
        tls = f"  tls: {{certificate: {pair}, key: {pair}}}\n" if pair else ""
        text = f"version: 0.1\nlog: {{accesslog: {{disabled: false}}, level: info}}\nstorage: {{filesystem: {{rootdirectory: {self.data}}}, delete: {{enabled: true}}}}\n"
        (self.root / "config.yml").write_text(f"{text}http:\n  addr: '{self.at}'\n{tls}{options}")
        log = open(self.log_path, "ab")
        self.process = subprocess.Popen([*self.prefix, "docker-registry", "serve", self.root / "config.yml"], stdout=log, stderr=log)
        log.close()
        wait_for(lambda: "listening on" in self.log() or self.process.poll() is not None, what="a registry")
        assert self.process.poll() is None, self.log()

    def log(self):
        return self.log_path.read_text()

    def push(self, layout, name, *words):
        """From a directory of an OCI image layout, with what is in it, by skopeo. Returns the digest that the registry has."""
        argv = [*self.prefix, "skopeo", "--insecure-policy", "copy", "--quiet", "--dest-tls-verify=false", *words]
        made = self.root / "digest"
        subprocess.run([*argv, "--digestfile", made, f"oci:{layout}", f"docker://{self.at}/{name}"], check=True, capture_output=True, text=True)
        return made.read_text()

    def blob(self, digest):
        """The file that it keeps a blob in."""
        return self.data / "docker/registry/v2/blobs/sha256" / digest[7:9] / digest[7:] / "data"

    def close(self):
        self.process.terminate()
        self.process.wait(60)
        self.dir.cleanup()


def htpasswd(directory, user):
    """Lines of a configuration that ask for that user. The registry takes bcrypt alone, which perl has from the C library."""
    path = Path(directory) / "htpasswd"
    hashed = subprocess.run(["perl", "-e", "print crypt(shift, '$2b$04$' . 'a' x 21 . 'u')", PASSWORD], check=True, capture_output=True, text=True).stdout
    path.write_text(f"{user}:{hashed}\n")
    return f"auth: {{htpasswd: {{realm: test, path: {path}}}}}\n"


class Servers:
    """harness/registry_servers.py: a server of tokens for the real registry, and registries that are broken or hostile, at one address."""

    def __init__(self, internet, address, port, *names):
        self.dir = tempfile.TemporaryDirectory(prefix="cloche-registry-", dir="/var/tmp")
        self.root, self.at, self.log_path = Path(self.dir.name), f"{names[0]}:{port}", Path(self.dir.name) / "log"
        self.log_path.touch()
        key = ["-newkey", "rsa:2048", "-nodes", "-keyout", self.root / "signer.key", "-out", self.root / "signer.pem"]
        subprocess.run(["openssl", "req", "-x509", *key, "-days", "2", "-subj", "/CN=tokens"], check=True, capture_output=True)
        pair = Authority.of(internet.ca_file).issue(*names)
        argv = [*internet.enter(internet.outer), sys.executable, SERVERS, self.root, address, str(port), pair]
        self.process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert self.process.stdout.readline() == b"up\n"

    def auth(self, where):
        """Lines of a registry's configuration that make it want these tokens."""
        return f"auth: {{token: {{realm: 'https://{where}/token', service: test, issuer: test, rootcertbundle: {self.root}/signer.pem}}}}\n"

    def add(self, layout):
        """Its blobs and index, for all the broken ones."""
        layout.write(self.root / "layout")

    def log(self):
        return [json.loads(line) for line in self.log_path.read_text().splitlines()]

    def close(self):
        self.process.stdin.close()
        self.process.wait(60)
        self.process.stdout.close()
        self.dir.cleanup()
