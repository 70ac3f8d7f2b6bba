// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * The confinement of each thread of a guest, as the kernel reports it. It is recorded while a guest
 * is stopped to be saved, and compared with each copy before the copy runs: every thread must be in
 * the record, with the same confinement. A copy that is weaker, or has another thread, is not used.
 */
#include "base/buf.h"
#include "base/err.h"

#include <sys/types.h>

struct confinement {       /* of a thread */
	int32_t tid;       /* inside */
	uint32_t uid, gid; /* inside */
	uint32_t filters;  /* of seccomp, in force */
	uint32_t is_no_new_privs;
	uint32_t reserved;
	uint64_t caps[5]; /* inheritable, permitted, effective, bounding, ambient */
};
#define CONFINEMENT_MAX 65536 /* threads; a sandbox has fewer */

/* Appends one entry for each thread in the pid namespace whose first process is pid. first_id: the
 * guest's first id on the host. */
must_check int confinement_read(pid_t pid, uint32_t first_id, struct buf *ret, struct err *err);
/* The same for the threads of one process. */
must_check int confinement_read_process(pid_t pid, uint32_t first_id, struct buf *ret,
                                        struct err *err);
/* Checks that the copy is not weaker. Both are results of confinement_read(). */
must_check int confinement_compare(const struct buf *original, const struct buf *copy,
                                   struct err *err);

struct confinement_around { /* what all processes of a copy have in common */
	pid_t pid;          /* its first process */
	uint32_t first_id;  /* 65536 ids from here on are its own, and no other */
	uint64_t net_inode; /* its net namespace */
	const char *group;  /* "/PARENT/ID": its cgroups, in so many trees */
	size_t n_trees;
};
/* Checks that its namespaces are its own and its processes are in its groups. */
must_check int confinement_check_around(const struct confinement_around *around, struct err *err);
