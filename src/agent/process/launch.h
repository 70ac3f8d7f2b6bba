// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * Forks the process of a channel. In the child the fds are fixed:
 *
 *	0  stdin or /dev/null     1  stdout, or a file operation's data
 *	2  stderr, or its records 3  a kernel's socket, else closed
 *	4  report: why it failed; closed by a successful execve()
 *
 * and nothing else is open.
 */
#include "agent/agent.h"
#include "agent/users/report.h"
#include "proto/start.h"

#include <stdnoreturn.h>

#define LAUNCH_SOCKET_FD 3
#define LAUNCH_FDS       5

struct launched { /* the agent's ends, all non-blocking; the caller's to close */
	pid_t pid;
	int report_fd, in_fd, out_fd, aux_fd, socket_fd; /* in, aux and socket may be -1; a
	                                                    kernel's in is its socket again */
};
must_check int launch(struct agent *a, const struct start *s, struct launched *ret,
                      struct err *err);

/*
 * In the child, once it is a member of the sandbox (become.h), or has failed to be one: runs what
 * *s asks for. fds stand where the child has them; none is below 3, and only 0 must be there.
 */
noreturn void launch_run(const struct settings *settings, const struct start *s,
                         const int fds[LAUNCH_FDS], const struct err *failure);

/* For a kernel that comes by itself: ret has no process and no report, theirs gets what would be
 * its fds 0 to 3. */
must_check int launch_without_fork(struct agent *a, const struct start *s, struct launched *ret,
                                   int theirs[LAUNCH_SOCKET_FD + 1], struct err *err);

/* In a child of fork(): puts the fds at their places and closes the rest, with that the place of
 * one that is -1. None of them is below 3. */
must_check int launch_place_fds(const int fds[LAUNCH_FDS], struct err *err);
