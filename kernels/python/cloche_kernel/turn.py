# SPDX-License-Identifier: Apache-2.0
"""A process goes on as its own child, in the same memory.

A pid namespace takes only those that are born in it. A fork would do, but copies the page tables, and each page that the
child then writes to, which is most of what a fork costs. Here nothing is copied: the child is made with CLONE_VM on the
parent's own stack, and the parent ends by its next instruction. From then on the child is all there is, with all that
the parent had in memory.

Parent and child run at the same time for a moment, so the parent may touch nothing but registers after the call. Neither
Python nor C can promise that: it is the few instructions below. In the end the child waits until its parents are gone: who
can write to the memory of one that still has its privileges, has them too. What the kernel keeps for a thread and libc relies on
is told to it anew: the thread's id where libc has its copy, and the list of robust locks. rseq is not, so it must be off
(glibc.pthread.rseq=0).
"""

from __future__ import annotations

import _signal
import ctypes
import mmap
import os
import sys

CLONE_VM, CLONE_PARENT, CLONE_CHILD_SETTID = 0x100, 0x8000, 0x01000000
PR_GET_TID_ADDRESS = 40

# long turn(long flags, void *stack, int *parent_tid, …, …): the last two are the address of the child's tid and that of
# its thread-local storage, in an order of each architecture's own; the latter is not looked at without CLONE_SETTLS.
_X86_64 = bytes.fromhex(
    "4989ca"  # mov   r10, rcx      the fourth argument, where the kernel looks for it
    "b838000000"  # mov   eax, 56       clone
    "0f05"  # syscall
    "4885c0"  # test  rax, rax
    "7f01"  # jg    1f
    "c3"  # ret                 the child; or an error
    "31ff"  # 1: xor  edi, edi      the parent
    "b8e7000000"  # mov   eax, 231      exit_group
    "0f05"  # syscall
)
_AARCH64 = bytes.fromhex(
    "881b80d2"  # mov   x8, #220      clone
    "010000d4"  # svc   #0
    "1f0000f1"  # cmp   x0, #0
    "4c000054"  # b.gt  1f
    "c0035fd6"  # ret                 the child; or an error
    "000080d2"  # 1: mov  x0, #0        the parent
    "c80b80d2"  # mov   x8, #94       exit_group
    "010000d4"  # svc   #0
)
# With the numbers of set_tid_address, set_robust_list and get_robust_list.
_MACHINES = {"x86_64": (_X86_64, 218, 273, 274), "aarch64": (_AARCH64, 96, 99, 100)}

_libc = ctypes.CDLL(None, use_errno=True)
_libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
_libc.prctl.argtypes = [ctypes.c_int] + [ctypes.c_ulong] * 4
_libc.syscall.argtypes = [ctypes.c_long] + [ctypes.c_void_p] * 3


class Turn:
    """To be made once, before the first fork."""

    def __init__(self) -> None:
        code, self._set_tid_address, self._set_robust_list, get_robust_list = _MACHINES[os.uname().machine]
        self._memory = mmap.mmap(-1, mmap.PAGESIZE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        self._memory.write(code)
        address = ctypes.addressof(ctypes.c_char.from_buffer(self._memory))
        if _libc.mprotect(address, mmap.PAGESIZE, mmap.PROT_READ | mmap.PROT_EXEC) < 0:
            raise OSError(ctypes.get_errno(), "mprotect")
        # Holds on to the interpreter's lock: who returns is another process, but the same thread to Python.
        self._turn = ctypes.PYFUNCTYPE(ctypes.c_long, *[ctypes.c_long] * 2, *[ctypes.c_void_p] * 3)(address)
        self._parents: list[int] = []  # what each held one end of
        self._tid = self._find_tid()
        head, size = ctypes.c_void_p(), ctypes.c_size_t()
        if _libc.syscall(get_robust_list, None, ctypes.addressof(head), ctypes.addressof(size)) < 0:
            raise OSError(ctypes.get_errno(), "get_robust_list")
        self._robust = head.value, size.value

    @staticmethod
    def _find_tid() -> int:
        """Where libc keeps the main thread's id: the kernel was told, to clear it at the thread's end."""
        address = ctypes.c_void_p()
        if _libc.prctl(PR_GET_TID_ADDRESS, ctypes.addressof(address), 0, 0, 0) < 0:
            raise OSError(ctypes.get_errno(), "PR_GET_TID_ADDRESS: the kernel lacks CONFIG_CHECKPOINT_RESTORE")
        if not address.value or ctypes.c_int.from_address(address.value).value != os.getpid():
            raise NotImplementedError("libc keeps the id of its thread elsewhere")
        return address.value

    def begin(self) -> None:
        """Before the first turn of a process: its end must leave the id alone, which is the child's by then."""
        _libc.syscall(self._set_tid_address, None, None, None)

    def turn(self, flags: int = 0) -> None:
        """Returns in the child. With CLONE_PARENT its parent is who was the parent's."""
        flags |= CLONE_VM | CLONE_CHILD_SETTID | _signal.SIGCHLD
        ended, holds = os.pipe()
        result = self._turn(flags, 0, None, self._tid, self._tid)
        if result < 0:
            raise OSError(-result, f"clone: {os.strerror(-result)}")
        os.close(holds)
        self._parents.append(ended)

    def end(self) -> None:
        """After the last one. Tells the kernel what libc has told it of the thread at its start."""
        for ended in self._parents:
            os.read(ended, 1)  # nothing comes: the kernel lets go of a process's memory before it closes its fds
            os.close(ended)
        _libc.syscall(self._set_tid_address, self._tid, None, None)
        _libc.syscall(self._set_robust_list, *self._robust, None)
        if threading := sys.modules.get("threading"):
            threading.main_thread()._set_native_id()
