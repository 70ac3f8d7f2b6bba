// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * Which walls stand around each thread of a guest, as the kernel tells of them. Written down while
 * a guest that is saved stands still, and held against its copy before that runs: who is there must
 * have been there, with the same walls. A copy that lacks one, or has one who was not there, is not
 * served.
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

/* Appends one for each thread in the pid namespace whose first process is pid. first_id: where the
 * guest's ids begin outside. */
must_check int confinement_read(pid_t pid, uint32_t first_id, struct buf *ret, struct err *err);
/* The same for the threads of one process. */
must_check int confinement_read_process(pid_t pid, uint32_t first_id, struct buf *ret,
                                        struct err *err);
/* Is the copy no weaker? Both as confinement_read() gives them. */
must_check int confinement_compare(const struct buf *original, const struct buf *copy,
                                   struct err *err);

struct confinement_around { /* what all processes of a copy have in common */
	pid_t pid;          /* its first process */
	uint32_t first_id;  /* 65536 ids from here on are its own, and no other */
	uint64_t net_inode; /* its net namespace */
	const char *group;  /* "/PARENT/ID": its cgroups, in so many trees */
	size_t n_trees;
};
/* Are its namespaces its own, and its processes in its groups? */
must_check int confinement_check_around(const struct confinement_around *around, struct err *err);
