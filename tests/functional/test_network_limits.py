# SPDX-License-Identifier: Apache-2.0
"""How fast a sandbox may be at the network wall, and that what passes is counted exactly."""

import pytest
from harness.daemon import PATIENCE, wait_for
from harness.internet import ALLOWED

GREETING = b"SSH-2.0-test\r\n"  # of the server that speaks first
RAW = {"rules": [{"match": {"cidrs": [f"{ALLOWED}/32"], "ports": [22]}, "action": "allow"}]}
WAYS = {"proxied": "http://allowed.test", "passed-on": "https://allowed.test"}


def slow(per_second, **more):
    return {"allow": ["allowed.test"], "limits": {"bytes_per_second": per_second}, **more}


@pytest.mark.parametrize("url", WAYS.values(), ids=WAYS.keys())
def test_a_download_is_not_faster_than_the_policy_says(walled, url):
    box = walled(slow(100_000))
    done = box.sandbox.run(["curl", "-sk", "--http1.1", "-o", "/dev/null", "-w", "%{time_total} %{size_download}", f"{url}/bytes/60000"])
    took_s, size = done.stdout.split()
    assert int(size) == 60000
    assert float(took_s) > 0.45  # a tenth of a second can be saved up


def test_an_upload_is_not_faster_than_the_policy_says(walled):
    box = walled(slow(100_000))
    send = ["curl", "-s", "-o", "/dev/null", "-w", "%{time_total}", "-H", "Expect:", "--data-binary", "@-", "http://allowed.test/"]
    assert float(box.sandbox.run(send, stdin="x" * 60000).stdout) > 0.45


@pytest.mark.parametrize("url", WAYS.values(), ids=WAYS.keys())
def test_a_new_pace_holds_for_a_download_that_runs(walled, internet, url):
    box = walled(slow(4096))
    seen = len(internet.seen("request", path="/bytes/5000000"))
    download = box.sandbox.start(["curl", "-sk", "--http1.1", "-o", "/dev/null", f"{url}/bytes/5000000"])  # of twenty minutes
    wait_for(lambda: len(internet.seen("request", path="/bytes/5000000")) > seen, 10, "the download")
    box.sandbox.set_network({"allow": ["allowed.test"]})
    assert download.wait(60 * PATIENCE).exit_code == 0


def test_bytes_are_metered_to_the_byte_also_before_a_delete(walled, walled_client):
    box = walled(RAW)
    program = f"""if 1:
        import socket
        s = socket.create_connection(("{ALLOWED}", 22))
        got = s.recv(100)
        s.sendall(b"x" * 12345)
        s.shutdown(socket.SHUT_WR)
        while s.recv(100):
            pass
        print(len(got))
    """
    assert box.sandbox.run(["python3", "-c", program]).stdout == f"{len(GREETING)}\n"
    box.sandbox.delete()
    row = next(r for r in walled_client.usage(group_by="sandbox") if r["sandbox_id"] == box.sandbox.id)
    assert (row["network_in_bytes"], row["network_out_bytes"]) == (len(GREETING), 12345)
