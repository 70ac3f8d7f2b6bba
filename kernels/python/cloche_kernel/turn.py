# SPDX-License-Identifier: Apache-2.0
"""A process goes on as its own child, in the same memory.

A pid namespace takes only those that are born in it. A fork would do, but copies the page tables, and each page that the
child then writes to, which is most of what a fork costs. Here nothing is copied: the child is made with CLONE_VM on the
parent's own stack, and the parent ends by its next instruction. From then on the child is all there is, with all that
the parent had in memory.

Parent and child run at the same time for a moment, so the parent may touch nothing but registers after the call. Python
cannot promise that: src/driver/turn.c does it, a library that lies beside this file and needs no libc. In the end the child
waits until its parents are gone: who can write to the memory of one that still has its privileges, has them too. What the
kernel keeps for a thread and libc relies on is told to it anew: the thread's id where libc has its copy, and the list of
robust locks. rseq is not, so it must be off (glibc.pthread.rseq=0).

Where the library cannot be loaded, or this cannot be done, there is no zygote: the host starts interpreters the ordinary way.
"""

from __future__ import annotations

import ctypes
import os
import sys

CLONE_PARENT = 0x8000


class Turn:
    """To be made once, before the first fork."""

    def __init__(self) -> None:
        # PyDLL holds on to the interpreter's lock: who returns is another process, but the same thread to Python.
        library = ctypes.PyDLL(os.path.join(os.path.dirname(__file__), "libturn.so"))
        self._begin, self._make, self._end = library.turn_begin, library.turn_make, library.turn_end
        self._make.argtypes, self._make.restype = [ctypes.c_long], ctypes.c_long
        library.turn_init.restype = ctypes.c_long
        self._drop_bounds = library.turn_drop_bounds
        self._drop_bounds.argtypes, self._drop_bounds.restype = [ctypes.c_long], None
        self._parents: list[int] = []  # what each held one end of
        result = library.turn_init()
        if result < 0:
            raise OSError(-result, "the kernel lacks CONFIG_CHECKPOINT_RESTORE")
        if result:
            raise NotImplementedError("libc keeps the id of its thread elsewhere")

    def begin(self) -> None:
        """Before the first turn of a process: its end must leave the id alone, which is the child's by then."""
        self._begin()

    def turn(self, flags: int = 0) -> None:
        """Returns in the child. With CLONE_PARENT its parent is who was the parent's."""
        ended, holds = os.pipe()
        result = self._make(flags)
        if result < 0:
            raise OSError(-result, f"clone: {os.strerror(-result)}")
        os.close(holds)
        self._parents.append(ended)

    def drop_bounds(self, count: int) -> None:
        """Takes the first capabilities out of the bounding set, in one call of Python."""
        self._drop_bounds(count)

    def end(self) -> None:
        """After the last one. Tells the kernel what libc has told it of the thread at its start."""
        for ended in self._parents:
            os.read(ended, 1)  # nothing comes: the kernel lets go of a process's memory before it closes its fds
            os.close(ended)
        self._end()
        if threading := sys.modules.get("threading"):
            threading.main_thread()._set_native_id()
