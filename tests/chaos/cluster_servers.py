# SPDX-License-Identifier: Apache-2.0
"""A PostgreSQL with a synchronous standby, and what may befall the two: a restart, a promotion, one that loses what the standby had not got yet, a backup that is
set back. The nodes' setting names both and never changes."""

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path

from harness.cluster import Database
from harness.daemon import free_port, wait_for

NAME = "one"  # of the database


class Standby(Database):
    """Another server, with all that the first one has."""

    def __init__(self, primary, port):
        self.programs, self.address, self.port = primary.programs, primary.address, port
        self.folder = Path(tempfile.mkdtemp(prefix="cloche-test-pg-", dir="/tmp"))
        shutil.chown(self.folder, "postgres")
        copy(primary, self.folder / "data", "--write-recovery-conf")
        with open(self.folder / "data" / "postgresql.conf", "a") as conf:
            conf.write(f"port = {port}\nunix_socket_directories = '{self.folder}'\n")
        self.start()


def copy(server, folder, *words):
    argv = [server.programs / "pg_basebackup", "-h", server.folder, "-p", str(server.port), "-U", "owner", "-D", folder, "--checkpoint=fast", "--no-sync", *words]
    subprocess.run(argv, user="postgres", group="postgres", extra_groups=[], cwd="/", check=True, stdout=subprocess.DEVNULL)


def processes_in(folder):
    found = []
    for p in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            found += [p.name] if os.readlink(p / "cwd") == str(folder) else []
    return found


class Servers:
    def __init__(self, address):
        self.address = address
        self.primary, self.kept = Database(address=address), None
        with open(self.primary.folder / "data" / "pg_hba.conf", "a") as hba:
            hba.write("local replication all trust\n")
        self.primary.ask("SELECT pg_reload_conf()", "postgres")
        self.primary.make(NAME)
        self.ports = (self.primary.port, free_port())
        self.follow()

    def conninfo(self, name, more="sslmode=disable"):
        return f"host={self.address},{self.address} port={self.ports[0]},{self.ports[1]} dbname={name} {more}"

    def owner(self, name):
        return self.primary.owner(name)

    def ask(self, sql):
        return self.primary.ask(sql, NAME)

    def wait_for_standby(self, is_waiting):
        self.primary.ask(f"ALTER SYSTEM SET synchronous_standby_names = '{'*' if is_waiting else ''}'", "postgres")
        self.primary.ask("SELECT pg_reload_conf()", "postgres")

    def follow(self):
        """A new standby, which each commit waits for."""
        port = next(p for p in self.ports if p != self.primary.port)
        self.standby = Standby(self.primary, port)
        wait_for(lambda: self.primary.ask("SELECT count(*) FROM pg_stat_replication WHERE state = 'streaming'", "postgres") == "1", 60, "a standby that follows")
        self.wait_for_standby(True)

    def kill(self, server):
        os.kill(int((server.folder / "data" / "postmaster.pid").read_text().split("\n", 1)[0]), signal.SIGKILL)
        wait_for(lambda: subprocess.run([server.programs / "pg_isready", "-q", "-h", server.folder, "-p", str(server.port)]).returncode == 2, 30, "an end of the server")
        # Its children go a moment later, and hold its memory until then.
        wait_for(lambda: not processes_in(server.folder / "data"), 60, "an end of its children")

    def start(self):
        """The primary, as an init system does: again, where what was killed has not gone yet."""

        def starts():
            with contextlib.suppress(subprocess.CalledProcessError):
                self.primary.start()
                return True
            return False

        wait_for(starts, 60, "a server that starts")

    def restart(self):
        """As after a crash of the server alone."""
        self.kill(self.primary)
        self.start()

    def promote(self):
        """The primary dies, and the standby takes its place."""
        old, new = self.primary, self.standby
        self.kill(old)
        new.ask("ALTER SYSTEM SET synchronous_standby_names = ''", "postgres")
        new.run("pg_ctl", "--wait", "promote")
        self.primary = new
        shutil.rmtree(old.folder)
        self.follow()

    def lose(self, seconds):
        """The standby stops to follow, the primary goes on without it for so long, and dies: what was written meanwhile is lost."""
        self.wait_for_standby(False)
        self.standby.ask("ALTER SYSTEM SET primary_conninfo = ''", "postgres")
        self.standby.ask("SELECT pg_reload_conf()", "postgres")
        wait_for(lambda: self.primary.ask("SELECT count(*) FROM pg_stat_replication", "postgres") == "0", 60, "a standby that does not follow")
        time.sleep(seconds)
        self.promote()

    def back_up(self):
        if self.kept:
            shutil.rmtree(self.kept)
        self.kept = self.primary.folder.parent / f"{self.primary.folder.name}-kept"
        copy(self.primary, self.kept)

    def restore(self):
        """The database as it was when it was backed up last."""
        self.standby.close()
        self.kill(self.primary)
        data = self.primary.folder / "data"
        shutil.rmtree(data)
        shutil.copytree(self.kept, data)
        for p in (data, *data.rglob("*")):
            shutil.chown(p, "postgres", "postgres")
        data.chmod(0o700)
        with open(data / "postgresql.conf", "a") as conf:  # of the server that it was copied from
            conf.write(f"port = {self.primary.port}\nunix_socket_directories = '{self.primary.folder}'\n")
        (data / "postgresql.auto.conf").write_text("")
        self.start()
        self.follow()

    def close(self):
        for server in (self.standby, self.primary):
            if server.folder.exists():
                server.close()
        if self.kept:
            shutil.rmtree(self.kept, ignore_errors=True)
