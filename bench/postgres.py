# SPDX-License-Identifier: Apache-2.0
"""A PostgreSQL for the bench, with fsync as a real one has it, and what statements cost it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import List, Tuple

from daemon import children_of, free_port, read_text


class Postgres:
    def __init__(self) -> None:
        found = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"), key=lambda p: int(p.parts[-3]))
        if not found:
            raise SystemExit("bench: no PostgreSQL: tools/install-deps cluster installs it")
        self.programs, self.port = found[-1].parent, free_port()
        self.dir = Path(tempfile.mkdtemp(prefix="cloche-bench-pg-", dir="/var/tmp"))
        shutil.chown(self.dir, "postgres")
        self.program("initdb", "--auth=trust", "--username=owner", "--encoding=UTF8", "--locale=C", "-D", f"{self.dir}/data")
        with open(self.dir / "data" / "postgresql.conf", "a") as conf:
            conf.write(f"listen_addresses = '127.0.0.1'\nport = {self.port}\nunix_socket_directories = '{self.dir}'\n")
        self.program("pg_ctl", "--wait", "-D", f"{self.dir}/data", "--log", f"{self.dir}/log", "start")
        self.ask("CREATE DATABASE one", "postgres")

    def program(self, name: str, *words: str) -> str:
        as_postgres = ["runuser", "-u", "postgres", "--", str(self.programs / name), *words]
        done = subprocess.run(as_postgres, cwd="/", check=True, stdout=subprocess.PIPE, text=True)
        return done.stdout if name == "pgbench" else ""

    def ask(self, sql: str, database: str = "one") -> str:
        argv = ["psql", "-X", "-q", "-A", "-t", "-h", str(self.dir), "-p", str(self.port), "-U", "owner", "-d", database, "-v", "ON_ERROR_STOP=1", "-c", sql]
        return subprocess.run(argv, check=True, stdout=subprocess.PIPE, text=True).stdout.strip()

    @property
    def owner(self) -> str:
        return f"host={self.dir} port={self.port} user=owner dbname=one"

    @property
    def conninfo(self) -> str:
        return f"host=127.0.0.1 port={self.port} dbname=one sslmode=disable"

    def _cpu_s(self) -> float:
        """Of the server, with all that it has waited for."""
        pid = int((self.dir / "data" / "postmaster.pid").read_text().split("\n", 1)[0])
        ticks = 0
        for one in [pid, *children_of(pid)]:
            fields = read_text(f"/proc/{one}/stat").rpartition(")")[2].split()
            ticks += sum(int(n) for n in fields[11:15 if one == pid else 13])
        return ticks / os.sysconf("SC_CLK_TCK")

    def cost(self, sql: str, count: int) -> Tuple[float, float]:
        """Milliseconds that a client waits for it over TCP, and milliseconds of CPU time that the server takes for it."""
        script = self.dir / "script"
        script.write_text(sql)
        script.chmod(0o644)
        before = self._cpu_s()
        words = ["-n", "-M", "prepared", "-c", "1", "-t", str(count), "-f", str(script), "-h", "127.0.0.1", "-p", str(self.port), "-U", "owner", "one"]
        told = self.program("pgbench", *words)
        cpu = self._cpu_s() - before
        (latency,) = re.findall(r"latency average = ([0-9.]+) ms", told)
        return float(latency), cpu * 1000 / count

    def commits(self, count: int) -> List[float]:
        """Milliseconds of a transaction that writes one row, one after the other."""
        return [self.cost("INSERT INTO public.bench DEFAULT VALUES;", 20)[0] for _ in range(max(count // 20, 3))]

    def close(self) -> None:
        self.program("pg_ctl", "--wait", "--mode=immediate", "-D", f"{self.dir}/data", "stop")
        shutil.rmtree(self.dir, ignore_errors=True)
