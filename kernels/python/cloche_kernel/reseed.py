# SPDX-License-Identifier: Apache-2.0
"""New randomness for a process that was forked or restored from another.

The host's bytes and the kernel's are mixed: after a fork the kernel's alone would do, after the restore of a machine's
memory they may be those that its twin got. Only generators of modules that are loaded have a state to renew; `secrets`
and `uuid4` read the kernel each time. String hashing is seeded once per process image and cannot be renewed.
"""

from __future__ import annotations

import os
import struct
import sys


def reseed(seed: bytes) -> None:
    """Seeds every global generator anew."""
    modules = sys.modules
    fresh = seed + os.urandom(32)
    if random := modules.get("random"):
        random.seed(fresh)
    if numpy_random := modules.get("numpy.random"):
        numpy_random.seed(struct.unpack(f"={len(fresh) // 4}I", fresh[: len(fresh) // 4 * 4]))
    if torch := modules.get("torch"):
        torch.manual_seed(int.from_bytes(fresh[-8:], "little") >> 1)
    if tempfile := modules.get("tempfile"):
        tempfile._name_sequence = None
    if uuid := modules.get("uuid"):
        uuid._node = None
        uuid._last_timestamp = None
    if ssl := modules.get("_ssl"):
        ssl.RAND_add(fresh, float(len(fresh)))
    if process := modules.get("multiprocessing.process"):
        process.current_process().authkey = os.urandom(32)
