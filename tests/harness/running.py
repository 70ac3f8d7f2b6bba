# SPDX-License-Identifier: Apache-2.0
"""A daemon for as long as something is tried on it, and the look at the host behind it."""

from contextlib import contextmanager

from . import audit


@contextmanager
def running(daemon):
    """Starts it; at the end it must stop with 0, have lost no part by a crash, and leave nothing on the host."""
    try:
        daemon.start()
        yield daemon
        ids = daemon.ids()
    finally:
        status = daemon.stop()
    left = audit.left_after_stop(daemon, ids)
    log = daemon.log()
    try:
        daemon.check_parts()
    finally:
        daemon.remove()
    assert status == 0, f"the daemon ended with {status}; its log ends:\n{log[-4000:]}"
    assert not left, "left on the host: " + ", ".join(left)
