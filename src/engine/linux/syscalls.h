// SPDX-License-Identifier: Apache-2.0
#pragma once
/* System calls for which glibc 2.36 has no function. */
#include <linux/sched.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

/* Like fork(): only ever without CLONE_VM, so the child has its own copy of everything. */
static inline pid_t sys_clone3(struct clone_args *args)
{
	return (pid_t)syscall(SYS_clone3, args, sizeof(*args));
}

static inline int sys_pivot_root(const char *new_root, const char *put_old)
{
	return (int)syscall(SYS_pivot_root, new_root, put_old);
}
