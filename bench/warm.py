# SPDX-License-Identifier: Apache-2.0
"""A warm Python as a zygote is one, without a daemon, walls or a sandbox: warm.py KERNELS. It is told by lines what to do, and answers by a line each:

    life        forks, runs a call in the fork, and waits until it has ended: milliseconds, and those of CPU of both
    many N      forks N that wait for calls: how many there are
    call I      has the I-th of them run 1+1: milliseconds
    end         ends those, and itself
"""

from __future__ import annotations

import gc
import os
import resource
import socket
import sys
import time

ROUNDS = 10  # as a zygote warms itself


def cpu_ms() -> float:
    both = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in both) * 1000


def life(rehearse) -> str:
    cpu, start = cpu_ms(), time.perf_counter()
    pid = os.fork()
    if not pid:
        rehearse()
        os._exit(0)
    os.waitpid(pid, 0)
    return f"{(time.perf_counter() - start) * 1000:.4f} {cpu_ms() - cpu:.4f}"


def serve(own: socket.socket, rehearse) -> None:
    """As a fork that waits in a sandbox: it has run a call before."""
    rehearse()
    while code := own.recv(4096):
        own.sendall(repr(eval(compile(code, "call", "eval"))).encode())
    os._exit(0)


def main() -> None:
    sys.path.insert(0, f"{sys.argv[1]}/python")
    from cloche_kernel import driver
    from cloche_kernel.reseed import reseed

    lines, answers = os.fdopen(os.dup(0)), os.fdopen(os.dup(1), "w", buffering=1)
    null = os.open("/dev/null", os.O_RDWR)
    for fd in range(3):
        os.dup2(null, fd)

    def rehearse() -> None:
        reseed(os.urandom(32))
        driver.rehearse()
        gc.freeze()

    driver.prepare()
    for _ in range(ROUNDS):
        rehearse()
    gc.collect()
    gc.freeze()
    forks: list[socket.socket] = []
    for line in lines:
        word, *more = line.split()
        if word == "life":
            answers.write(life(rehearse) + "\n")
        elif word == "many":
            while len(forks) < int(more[0]):
                ours, its = socket.socketpair()
                if not os.fork():
                    for one in (*forks, ours):
                        one.close()
                    serve(its, rehearse)
                its.close()
                forks.append(ours)
            answers.write(f"{len(forks)}\n")
        elif word == "call":
            start = time.perf_counter()
            forks[int(more[0])].sendall(b"1+1")
            forks[int(more[0])].recv(64)
            answers.write(f"{(time.perf_counter() - start) * 1000:.4f}\n")
        else:
            break


main()
