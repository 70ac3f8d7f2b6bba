# SPDX-License-Identifier: Apache-2.0
"""Two real servers of SSH in the test's own internet. Both take the same keys of the same users, and each has host keys of its own: ssh.test on port 22, and
twin.test on port 2222 of the same address. A git repository lies behind them."""

import shlex
import subprocess
import tempfile
from pathlib import Path

from harness.daemon import PATIENCE, wait_for
from harness.internet import HUB

KINDS = {"ed25519": ["-t", "ed25519"], "rsa": ["-t", "rsa", "-b", "2048"], "ecdsa": ["-t", "ecdsa", "-b", "256"], "p521": ["-t", "ecdsa", "-b", "521"], "pem": ["-t", "rsa", "-b", "2048", "-m", "PEM"]}
CONFIG = """ListenAddress {address}:{port}
HostKey {place}/host_ed25519
HostKey {place}/host_rsa
HostKey {place}/host_ecdsa
AuthorizedKeysFile {keys}
PidFile none
StrictModes no
UsePAM no
PermitRootLogin yes
PasswordAuthentication no
KbdInteractiveAuthentication no
LogLevel VERBOSE
"""
# sshd wants a directory of its own in /run, which is the host's. What it has started for a client goes on when the client is cut off, and would hold the mounts
# of all daemons of the host: so it is the first process of a pid namespace, which ends with it.
START = "mount -t tmpfs none /run && mkdir /run/sshd && exec /usr/sbin/sshd -D -e -f {config}"


def make_key(path, kind):
    subprocess.run(["ssh-keygen", "-q", "-N", "", "-C", "", *KINDS[kind], "-f", str(path)], check=True, stdin=subprocess.DEVNULL)
    return path


class SshServers:
    def __init__(self, internet):
        self.internet = internet
        self.dir = tempfile.TemporaryDirectory(prefix="cloche-ssh-", dir="/var/tmp")
        self.place = Path(self.dir.name)
        self.authorized, self.log_path = self.place / "authorized", self.place / "log"
        self.authorized.touch()
        self.place.chmod(0o755)  # sshd reads it as the user who logs in
        self.processes = [self._start("ssh.test", 22), self._start("twin.test", 2222)]
        self.repository = self.place / "repo"
        git = f"git init -q -b main {self.repository} && cd {self.repository} && echo behind ssh > told && git add told && git -c user.name=a -c user.email=a@b.test commit -qm one"
        subprocess.run(["sh", "-c", git + " && git config receive.denyCurrentBranch ignore"], check=True)

    def _start(self, name, port):
        place = self.place / name
        place.mkdir()
        for kind in ("ed25519", "rsa", "ecdsa"):
            make_key(place / f"host_{kind}", kind)
        config = place / "config"
        config.write_text(CONFIG.format(address=HUB, port=port, place=place, keys=self.authorized))
        argv = [*self.internet.enter(self.internet.outer), "unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-c", START.format(config=shlex.quote(str(config)))]
        with open(self.log_path, "ab") as log:
            process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        wait_for(lambda: f"Server listening on {HUB} port {port}" in self.log() or process.poll() is not None, 20 * PATIENCE)
        assert process.poll() is None, self.log()
        return process

    def log(self):
        return self.log_path.read_text(errors="replace")

    def host_key(self, name="ssh.test", kind="ed25519"):
        return " ".join((self.place / name / f"host_{kind}.pub").read_text().split()[:2])

    def user_key(self, kind="ed25519"):
        """The text of a new private key that both servers take, and the file with it."""
        path = make_key(self.place / f"user_{kind}_{len(list(self.place.iterdir()))}", kind)
        with open(self.authorized, "a") as f:
            f.write(path.with_name(path.name + ".pub").read_text())
        return path.read_text(), path

    def close(self):
        for process in self.processes:
            process.kill()  # unshare is deaf to less
        for process in self.processes:
            process.wait(20 * PATIENCE)
        self.dir.cleanup()


def ssh_rule(servers, key, host="ssh.test", kind="ed25519", users=("root",), **match):
    """A policy's rule by which a sandbox logs in there."""
    action = {"key": key, "users": list(users), "host_keys": [servers.host_key(host, kind)]}
    return {"match": {"domains": [host], **match}, "action": {"ssh": action}}
