// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * Runs CRIU as a child. It needs nearly all of root's rights, so it is given little else: its own
 * mount namespace in which /tmp and /run are empty, the sandbox's net namespace, six fds, a fixed
 * command line. Set before it starts are no_new_privs, its own session keyring, and in a restore
 * the sandbox's control groups, CPUs and cgroup namespace: CRIU restores none of these, and its
 * children inherit them.
 *
 *	criu --> "post-dump" or "pre-resume PID", a line on a pipe: all stands still
 *	     <-- "go", a line on another; or its end: what is being restored is killed, what was
 *	         dumped goes on
 *
 * In the middle of a dump some of its code is inside the sandbox's processes. If CRIU is killed
 * then, the process that traces them in its place (src/criu/tracer.c) restores them, and they go
 * on. If the broker dies, CRIU ends by itself.
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
	bool closes_connections; /* else an open one fails the dump */
	/* of a restore */
	int root_fd, usr_fd, machine_view_fd; /* detached mounts; usr_fd may be -1 */
	const struct guest_spec *guest;
	cpu_set_t cpus;
};

struct criu {
	pid_t pid;
	int pidfd;
	int up_fd, down_fd; /* the control pipes */
	int words_fd;       /* a file with its messages */
};

void criu_open(struct guest_host *host); /* what all runs share, where CRIU is there */
void criu_close(void);                   /* the broker leaves */
/* Whether CRIU is installed; if not, err names the package. */
must_check int criu_probe(struct guest_host *host, struct err *err);
void criu_init(struct criu *c);
void criu_done(struct criu *c); /* closes all */
must_check int criu_start(struct guest_host *host, const struct criu_spec *spec, struct criu *ret,
                          struct err *err);
/* Called when up_fd is readable. 0 if everything is stopped, with the pid of the restored
 * process. */
must_check int criu_hear(const struct criu *c, pid_t *ret_pid);
must_check int criu_let_go_on(const struct criu *c);
void criu_hang_up(struct criu *c); /* the other answer */
/* Explains a failure by CRIU's status and messages. True if another try may succeed. */
bool criu_explain(int words_fd, int wait_status, bool is_restore, struct err *ret);
