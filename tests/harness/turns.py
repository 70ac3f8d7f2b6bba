# SPDX-License-Identifier: Apache-2.0
"""Judges the turns of the daemons' event loops: none may take over 50 ms of CPU time of an ordinary core."""

import gc
import json
import re
import statistics
import time
from collections import Counter

from .daemon import Daemon

LONG_MS = 50
SAMPLE = json.dumps([{"a": [1, 2, "x"]}] * 40000)
SAMPLE_MS = 33  # for reading the sample, on an ordinary core that nothing else uses
SAMPLES = 5


def _read_sample_ms():
    start = time.thread_time()
    json.loads(SAMPLE)
    return (time.thread_time() - start) * 1000


def _slowness():
    """How many times longer than on an ordinary core the same work takes here and now, in CPU time. The kernel counts the hypervisor's pauses, interrupts
    and a neighbour on the same core as the time of whoever runs."""
    is_enabled = gc.isenabled()
    gc.disable()
    try:
        return max(1.0, statistics.median(_read_sample_ms() for _ in range(SAMPLES)) / SAMPLE_MS)
    finally:
        if is_enabled:
            gc.enable()


def _cpu_ms(turn):
    return int(re.search(r"\bcpu_us=(\d+)", turn).group(1)) / 1000


def check_turns(is_strict, is_told=True):
    """Fails if turns of a part's loop were long since the last call, and says which callbacks took the time. On hosts that are busy with other tests there is a
    long turn here and there: it takes two of one callback, or one in a test whose subject it is."""
    for daemon in Daemon.started:
        daemon.ids()
    turns, Daemon.long_turns = Daemon.long_turns, []
    if not turns or not is_told:
        return
    most = LONG_MS * _slowness()
    turns = [t for t in turns if _cpu_ms(t) > most]
    callbacks = Counter(" ".join(re.findall(r"^\w+|callback=\S+", t)) for t in turns)
    is_long = any(n >= (1 if is_strict else 2) for n in callbacks.values())
    assert not is_long, f"a turn of an event loop took over {most:.0f} ms of CPU time, and everybody waited for it:\n" + "\n".join(turns)
