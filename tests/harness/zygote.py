# SPDX-License-Identifier: Apache-2.0
"""A daemon whose Python contexts are forks of a zygote: how tests find it, and tell forks from fresh starts."""

import contextlib

from cloche import Client

from .daemon import Daemon, children_of, read_text, wait_for

# A fork stands behind two filters: the zygote's, and the one that takes setns() away again.
IS_FORK = (
    "[l.split()[1] == '2' for l in open('/proc/self/status') if l.startswith('Seccomp_filters')] == [True]"
)


def await_ready(daemon, times=1):
    """Returns when so many zygotes have got ready, one after the other."""
    wait_for(lambda: daemon.log().count('"zygote.ready"') >= times, 60, f"{times} zygotes")


def pid_of(daemon):
    return next(p for p in children_of(daemon.broker_pid) if read_text(f"/proc/{p}/comm").strip() == "python3")


def is_fork(sandbox, context=None):
    r = sandbox.run_code(IS_FORK, context=context)
    assert r.status == "ok", r.error
    return r.text == "True"


@contextlib.contextmanager
def daemon_with_zygote(*options):
    """(daemon, client): no pool, so that interpreters begin when they are asked for."""
    daemon = Daemon("--pool-max", "0", "--log-level", "debug", *options).start()
    try:
        await_ready(daemon)
        with Client(daemon.url, daemon.key) as client:
            yield daemon, client
    finally:
        status = daemon.stop()
        log = daemon.log()
        daemon.remove()
    assert status == 0, log[-4000:]
