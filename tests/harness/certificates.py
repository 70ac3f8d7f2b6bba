# SPDX-License-Identifier: Apache-2.0
"""A certificate authority of the test's own, by the openssl program, and what it has signed: good certificates and
such as nobody should believe."""

import subprocess
from pathlib import Path

NEW_KEY = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
CONFIG = """[ca]
default_ca = own
[own]
new_certs_dir = {dir}
database = {dir}/index
rand_serial = yes
default_md = sha256
policy = any
unique_subject = no
copy_extensions = copy
[any]
commonName = optional
"""


class Authority:
    def __init__(self, directory, name="ca"):
        self.dir = Path(directory) / name
        self.dir.mkdir()
        self.cert, self.key = self.dir / "ca.pem", self.dir / "ca.key"
        self._run("req", "-x509", *NEW_KEY, "-days", "2", "-subj", f"/CN=test {name}", "-keyout", self.key, "-out", self.cert)
        (self.dir / "index").touch()
        (self.dir / "config").write_text(CONFIG.format(dir=self.dir))

    @classmethod
    def of(cls, cert):
        """The one that is there already, by the file of its certificate."""
        self = cls.__new__(cls)
        self.dir = Path(cert).parent
        self.cert, self.key = self.dir / "ca.pem", self.dir / "ca.key"
        return self

    @staticmethod
    def _run(*words):
        subprocess.run(["openssl", *map(str, words)], check=True, capture_output=True)

    def issue(self, *names, dates=None):
        """A file with key and certificate for the names; dates: ("20200101000000Z", …) instead of two days."""
        pair, request = self.dir / f"{names[0]}.pem", self.dir / f"{names[0]}.csr"
        kinds = ",".join(f"{'IP' if n[0].isdigit() or ':' in n else 'DNS'}:{n}" for n in names)
        self._run("req", "-new", *NEW_KEY, "-subj", "/CN=test", "-addext", f"subjectAltName={kinds}", "-keyout", pair, "-out", request)
        when = ["-startdate", dates[0], "-enddate", dates[1]] if dates else ["-days", "2"]
        files = ["-config", self.dir / "config", "-cert", self.cert, "-keyfile", self.key, "-in", request, "-out", f"{pair}.crt"]
        self._run("ca", "-batch", "-notext", *files, *when)
        with open(pair, "a") as f:
            f.write(Path(f"{pair}.crt").read_text())
        return pair
