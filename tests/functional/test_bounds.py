# SPDX-License-Identifier: Apache-2.0
"""What tenants make the host keep has bounds, and whoever makes much of it holds up nobody."""

import http.client
import json
import re
import socket
from concurrent.futures import ThreadPoolExecutor

import pytest
from cloche import Client
from harness.daemon import IS_SANITIZED, Daemon, call, memory_kib, wait_for
from harness.running import running

pytestmark = pytest.mark.turns

MIB = 1024 * 1024


@pytest.fixture
def bounded():
    """A daemon that keeps 2 MiB of output of a sandbox, 3 of a project and 5 in all."""
    options = ["--output-sandbox", "2MiB", "--output-project", "3MiB", "--output-host", "5MiB", "--pool-max", "0"]
    with running(Daemon(*options)) as daemon, Client(daemon.url, daemon.key) as client:
        yield daemon, client


def say(sandbox, letter):
    """An exec with a megabyte of output, of one letter."""
    return sandbox.exec(sandbox.run(f"head -c {MIB - 100000} /dev/zero | tr '\\0' {letter}").exec.id)


def told(exec):
    """(letters, gaps) of its output as it is kept now."""
    events = list(exec.output(follow=False))
    return "".join(sorted({chr(c) for e in events for c in set(e.data)})), [e.lost_bytes for e in events if e.lost_bytes]


def kept_on_disk(daemon):
    return sum(f.stat().st_blocks * 512 for f in (daemon.data / "gateway" / "spool").iterdir())


def figure(daemon, name):
    page = call(daemon, "GET", "/metrics")[1].decode()
    return float(re.search(rf"^{re.escape(name)} (\S+)$", page, re.M).group(1))


def test_past_the_bound_of_a_sandbox_its_oldest_output_goes_and_a_gap_says_so(bounded):
    daemon, client = bounded
    with client.create() as sandbox:
        execs = [say(sandbox, letter) for letter in "abcd"]
        assert [told(e) for e in execs] == [("", [MIB - 100000]), ("", [MIB - 100000]), ("c", []), ("d", [])]
        assert kept_on_disk(daemon) <= 2 * MIB
        assert figure(daemon, "cloche_output_kept_bytes") <= 2 * MIB
        assert figure(daemon, "cloche_outputs_dropped_total") == 2
        # The next gateway knows the same.
        daemon.kill_parts("gateway")
        assert [told(e) for e in execs] == [("", [MIB - 100000]), ("", [MIB - 100000]), ("c", []), ("d", [])]
        say(sandbox, "e")
        assert told(execs[2]) == ("", [MIB - 100000])


def test_past_the_bound_of_a_project_the_oldest_output_of_its_sandboxes_goes(bounded):
    daemon, client = bounded
    with client.create() as one, client.create() as other:
        execs = [say(one, "a"), say(other, "b"), say(one, "c"), say(other, "d")]
        assert [told(e)[0] for e in execs] == ["", "b", "c", "d"]


def test_for_the_hosts_sake_the_project_that_keeps_most_loses_output(bounded):
    daemon, client = bounded
    project = client.create_project("quiet")["id"]
    key = client.create_key("tenant", scope="write", project=project)["secret"]
    with Client(daemon.url, key) as tenant, tenant.create() as theirs, client.create() as one, client.create() as other:
        quiet = say(theirs, "q")
        for sandbox in (one, other, one):
            say(sandbox, "n")
        also_quiet = say(theirs, "r")
        for sandbox in (one, other, one, other):
            say(sandbox, "n")
        assert (told(quiet), told(also_quiet)) == (("q", []), ("r", []))
        assert kept_on_disk(daemon) <= 5 * MIB


def test_an_exec_that_still_runs_loses_its_own_oldest_output(bounded):
    daemon, client = bounded
    with client.create() as sandbox:
        exec = sandbox.start(f"head -c {4 * MIB} /dev/zero | tr '\\0' a; echo; echo the end; sleep 600")
        wait_for(lambda: "\n" in told(exec)[0])
        letters, gaps = told(exec)
        assert "e" in letters and gaps and gaps[0] >= 2 * MIB
        assert kept_on_disk(daemon) <= 2 * MIB + 131072  # what one read may bring, and the disk's own blocks


def longest_turn(daemon):
    return figure(daemon, 'cloche_loop_longest_turn_cpu_seconds{process="gateway"}')


@pytest.mark.skipif(IS_SANITIZED, reason="a sanitized program takes several times its time")
def test_the_delete_of_a_sandbox_with_thousands_of_execs_holds_up_nobody():
    with running(Daemon("--execs-max", "10000", "--pool-max", "0")) as daemon, Client(daemon.url, daemon.key) as client:
        sandbox = client.create()

        def run_many(n):
            connection = http.client.HTTPConnection("127.0.0.1", daemon.port, timeout=120)
            for _ in range(n):
                headers = {"Authorization": f"Bearer {daemon.key}", "Content-Type": "application/json"}
                connection.request("POST", f"/v1/sandboxes/{sandbox.id}/execs", body='{"argv": ["/bin/true"]}', headers=headers)
                assert connection.getresponse().read()

        with ThreadPoolExecutor(8) as pool:
            list(pool.map(run_many, [375] * 8))
        sandbox.delete()
        assert longest_turn(daemon) < 0.05
        status, execs = call(daemon, "GET", f"/v1/sandboxes/{sandbox.id}/execs")
        assert (status, execs["execs"]) == (200, [])
        assert kept_on_disk(daemon) == 0


@pytest.mark.skipif(IS_SANITIZED, reason="a sanitized program takes several times its time and memory")
def test_readers_that_never_read_hold_up_nobody_and_their_memory_is_given_back():
    with running(Daemon("--pool-max", "0")) as daemon, Client(daemon.url, daemon.key) as client, client.create() as sandbox:
        exec = sandbox.start(f"head -c {12 * MIB} /dev/zero | tr '\\0' a; sleep 600")
        wait_for(lambda: figure(daemon, "cloche_output_kept_bytes") > 12 * MIB)
        before = memory_kib(daemon.gateway_pid)
        head = f"GET /v1/sandboxes/{sandbox.id}/execs/{exec.id}/output HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept: application/x-ndjson\r\nAuthorization: Bearer {daemon.key}\r\n\r\n"
        readers = [socket.create_connection(("127.0.0.1", daemon.port)) for _ in range(400)]
        for reader in readers:
            reader.sendall(head.encode())
        for reader in readers:
            assert reader.recv(12) == b"HTTP/1.1 200"
        taken = memory_kib(daemon.gateway_pid) - before
        assert longest_turn(daemon) < 0.05
        for reader in readers:
            reader.close()
        wait_for(lambda: memory_kib(daemon.gateway_pid) - before < 16 * 1024, what=f"the memory of 400 readers ({taken} KiB) back at the host")
