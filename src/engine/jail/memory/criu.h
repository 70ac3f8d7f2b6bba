// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * CRIU as a child of ours. It needs nearly all that root may do, so what it is given is little: a
 * mount namespace of its own in which /tmp and /run are empty, the sandbox's net namespace, six
 * fds, a fixed row of words. no_new_privs, a session keyring of its own, and in a restore the
 * sandbox's control groups, CPUs and cgroup namespace are set before it starts: CRIU restores none
 * of them, and what it begets has what it has itself.
 *
 *	criu --> "post-dump" or "pre-resume PID", a line on a pipe: all stands still
 *	     <-- "go", a line on another; or its end: what is being restored is killed, what was
 *	         dumped goes on
 *
 * In the middle of a dump a part of it is inside of the sandbox's processes. If it is killed then,
 * they are put right by the process that traces them in its place (src/criu/tracer.c) and go on. If
 * the broker dies, it comes to its end by itself.
 */
#include "engine/guest/guest.h"
#include "loop/loop.h"

#include <sched.h>

struct criu_spec {
	bool is_restore;
	int images_fd;           /* of a dump: images of an earlier try are removed */
	int net_fd;              /* a net namespace */
	const char *mounts;      /* the guest's, as memory_image.h has them */
	pid_t pid;               /* of a dump: the guest's first process */
	bool closes_connections; /* else one that is open fails the dump */
	/* of a restore */
	int root_fd, usr_fd, machine_view_fd; /* detached mounts; usr_fd may be -1 */
	const struct guest_spec *guest;
	cpu_set_t cpus;
};

struct criu {
	pid_t pid;
	int pidfd;
	int up_fd, down_fd; /* the control pipes */
	int words_fd;       /* what it has complained of: a file */
};

void criu_open(struct guest_host *host); /* what all runs share, where CRIU is there */
void criu_close(void);                   /* the broker leaves */
/* Is it there? err says which package. */
must_check int criu_probe(struct guest_host *host, struct err *err);
void criu_init(struct criu *c);
void criu_done(struct criu *c); /* closes all */
must_check int criu_start(struct guest_host *host, const struct criu_spec *spec, struct criu *ret,
                          struct err *err);
/* When up_fd can be read: 0 when all stands still, with the pid of what was restored. */
must_check int criu_hear(const struct criu *c, pid_t *ret_pid);
must_check int criu_let_go_on(const struct criu *c);
void criu_hang_up(struct criu *c); /* the other answer */
/* What went wrong, from how it ended and what it said. True: the next try may well succeed. */
bool criu_explain(int words_fd, int wait_status, bool is_restore, struct err *ret);
