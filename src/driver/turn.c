// SPDX-License-Identifier: Apache-2.0
/*
 * The part of the Python driver that Python cannot say: how a process goes on as its own child, in
 * the same memory. kernels/python/cloche_kernel/turn.py loads it and tells why this is done.
 *
 * The child is made with CLONE_VM on the parent's own stack, and both run at the same time for a
 * moment. So after the call the parent may touch nothing but registers, and its next instruction
 * ends it. No compiler promises that for two calls, so they are one piece of assembly.
 *
 * What a call returns is the kernel's answer: 0 or more, or a negative errno.
 */
#include "driver/system_call.h"

#include <linux/prctl.h>
#include <linux/sched.h>
#include <signal.h>

EXPORT long turn_init(void);
EXPORT void turn_begin(void);
EXPORT long turn_make(long flags);
EXPORT void turn_end(void);
EXPORT void turn_drop_bounds(long count);

#if defined(__x86_64__)
static long clone_and_end(long flags, int *tid)
{
	register int *r10 __asm__("r10") = tid;
	register long r8 __asm__("r8") = 0;
	long result = __NR_clone, unused = flags;

	__asm__ volatile(CALL "\n\t"
	                      "test %%rax, %%rax\n\t"
	                      "jle 1f\n\t" /* the child, or an error */
	                      "xor %%edi, %%edi\n\t"
	                      "mov %[exit_group], %%eax\n\t" CALL "\n"
	                      "1:"
	                 : "+a"(result), "+D"(unused)
	                 : "S"(0L), "d"(0L), "r"(r10), "r"(r8), [exit_group] "i"(__NR_exit_group)
	                 : "rcx", "r11", "memory", "cc");
	return result;
}
#elif defined(__aarch64__)
static long clone_and_end(long flags, int *tid)
{
	register long x8 __asm__("x8") = __NR_clone;
	register long x0 __asm__("x0") = flags;
	register long x1 __asm__("x1") = 0;
	register long x2 __asm__("x2") = 0;
	register long x3 __asm__("x3") = 0;
	register int *x4 __asm__("x4") = tid;

	__asm__ volatile(CALL "\n\t"
	                      "cmp x0, #0\n\t"
	                      "b.le 1f\n\t" /* the child, or an error */
	                      "mov x0, #0\n\t"
	                      "mov x8, %[exit_group]\n\t" CALL "\n"
	                      "1:"
	                 : "+r"(x0), "+r"(x8)
	                 : "r"(x1), "r"(x2), "r"(x3), "r"(x4), [exit_group] "i"(__NR_exit_group)
	                 : "memory", "cc");
	return x0;
}
#endif

/* What libc has told the kernel of the main thread: where its id is, and its list of robust locks.
 */
static int *tid;
static void *robust;
static unsigned long robust_size;

/* Before the first fork. A positive result: libc keeps the thread's id elsewhere, and no turn can
 * be made. */
long turn_init(void)
{
	long r = call(__NR_prctl, PR_GET_TID_ADDRESS, (long)&tid, 0);

	if (r == 0)
		r = call(__NR_get_robust_list, 0, (long)&robust, (long)&robust_size);
	return r < 0 ? r : !tid || *tid != call(__NR_getpid, 0, 0, 0);
}

/* Before the first turn of a process: its end must leave the id alone, which is the child's by
 * then. */
void turn_begin(void)
{
	(void)call(__NR_set_tid_address, 0, 0, 0);
}

/* Returns in the child. */
long turn_make(long flags)
{
	return clone_and_end(flags | CLONE_VM | CLONE_CHILD_SETTID | SIGCHLD, tid);
}

/* After the last one: tells the kernel what libc had told it. */
void turn_end(void)
{
	(void)call(__NR_set_tid_address, (long)tid, 0, 0);
	(void)call(__NR_set_robust_list, (long)robust, (long)robust_size, 0);
}

/* Takes the first count capabilities out of the bounding set. There are forty, and Python takes
 * longer to make a call than the kernel to answer it. A failure shows: the agent looks at the set.
 */
void turn_drop_bounds(long count)
{
	for (long i = 0; i < count; i++)
		(void)call(__NR_prctl, PR_CAPBSET_DROP, i, 0);
}
