# SPDX-License-Identifier: Apache-2.0
"""One sandbox uses up all that it has; another goes on answering, and the first ends as its cause says.

No time is judged here: a machine that runs tests is busy. How much longer the neighbour took is printed.
"""

import statistics
import threading
import time

import pytest
from harness.daemon import wait_for

CALLS = 20
LIMITS = {"memory_mib": 96, "pids": 40, "disk_mib": 64, "vcpus": 0.5}
# name: command, its timeout in seconds, the cause of its end, the figures that come with it
ABUSES = {
    "fork bomb": ("f() { f | f & wait; }; f; exit 1", 3, ("pids", "timeout"), ()),
    "memory bomb": ("python3 -c 'a = []\nwhile True: a.append(bytearray(1 << 20))'", 60, ("oom",), ("limit_bytes", "peak_bytes", "kills")),
    "disk filler": ("cat /dev/zero > fill", 60, ("disk_full",), ("limit_bytes", "used_bytes")),
    "deaf sleeper": ("trap '' TERM INT HUP; while :; do sleep 1; done", 1, ("timeout",), ("timeout_ms",)),
    "output flood": ("yes", 2, ("timeout",), ("timeout_ms",)),
}


def answer_times(sandbox, n, is_over=lambda: True):
    """How long each of n calls, and more until something is over, took in seconds; each must be answered rightly."""
    times = []
    while len(times) < n or not is_over():
        began = time.monotonic()
        assert sandbox.run(["echo", str(began)], timeout=60).stdout == f"{began}\n"
        times.append(time.monotonic() - began)
    return times


@pytest.mark.parametrize("name", ABUSES)
def test_a_neighbour_goes_on_answering_and_the_abuse_ends_as_its_cause_says(make_sandbox, capsys, name):
    command, timeout, causes, figures = ABUSES[name]
    neighbour, abuser = make_sandbox(), make_sandbox(limits=LIMITS)
    if name == "disk filler" and "disk_limit" in abuser.info.isolation["gaps"]:
        pytest.skip("this host gives no disk limit")
    usual = statistics.median(answer_times(neighbour, CALLS))
    e = abuser.start(command, timeout=timeout)
    times = answer_times(neighbour, CALLS, lambda: e.refresh().is_over)
    info = e.info
    assert info.cause in causes, info
    assert set(figures) <= (info.raw["ended"]["detail"] or {}).keys(), info
    assert abuser.run(["echo", "alive"], timeout=60).stdout == "alive\n"
    with capsys.disabled():
        print(f"\n{name}: cause {info.cause}, the neighbour answered {len(times)} calls in {statistics.median(times) / usual:.1f} times its usual time")


def test_R17_a_sandbox_full_of_processes_is_gone_with_its_delete_while_a_neighbour_answers(make_sandbox):
    neighbour, crowded = make_sandbox(), make_sandbox(limits={"pids": 2000, "memory_mib": 512})
    spawn = "import os, time\nfor _ in range(1500):\n if os.fork() == 0:\n  time.sleep(1000)\nprint('full', flush=True)\ntime.sleep(1000)"
    e = crowded.start(["python3", "-uc", spawn])
    wait_for(lambda: any(b"full" in x.data for x in e.output(follow=False)), 60, "1500 processes")
    ended = threading.Thread(target=crowded.delete)
    ended.start()
    answer_times(neighbour, 5)
    ended.join(60)
    assert not ended.is_alive()
