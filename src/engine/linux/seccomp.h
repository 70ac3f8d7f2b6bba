// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * The jail's system call filter: an allow-list for the host's native ABI. The broker builds it
 * once; each jail's child loads it as its last step, so everything inside has it.
 *
 *	another ABI (i386, x32, AArch32)	the process is killed
 *	allowed					allowed, some only with certain arguments
 *	has a fallback in libraries		ENOSYS (clone3, io_uring, keyctl, …),
 *						EINVAL (splice)
 *	known and not allowed			EPERM
 *	newer than this list			ENOSYS, so that libraries fall back
 */
#include "base/err.h"

#include <linux/filter.h>

#define SECCOMP_PROGRAM_MAX 2048

struct seccomp_program {
	unsigned short len;
	struct sock_filter code[SECCOMP_PROGRAM_MAX];
};

must_check int seccomp_build(struct seccomp_program *ret, struct err *err);
/* Needs no_new_privs. Cannot be undone. 0 or a negative errno. */
must_check int seccomp_load_program(const struct seccomp_program *program);
