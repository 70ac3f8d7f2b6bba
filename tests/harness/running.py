# SPDX-License-Identifier: Apache-2.0
"""A daemon for as long as something is tried on it, and the look at the host behind it."""

from contextlib import contextmanager, nullcontext, suppress

from . import audit


@contextmanager
def running(daemon, around=nullcontext()):
    """Starts it; at the end it must stop with 0, have lost no part by a crash, and leave nothing on the host. around: what is there from before its start
    until behind its stop."""
    with around:
        try:
            daemon.start()
            yield daemon
            ids = daemon.ids()
        except BaseException:
            with suppress(Exception):  # what was mounted may be in use; what failed is told
                daemon.stop()
                daemon.remove()
            raise
        status = daemon.stop()
    left = audit.left_after_stop(daemon, ids)
    log = daemon.log()
    try:
        daemon.check_parts()
    finally:
        daemon.remove()
    assert status == 0, f"the daemon ended with {status}; its log ends:\n{log[-4000:]}"
    assert not left, "left on the host: " + ", ".join(left)
