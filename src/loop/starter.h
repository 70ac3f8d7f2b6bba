// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * The starter: a process that makes children for an owner that is about to install a seccomp
 * filter. All children inherit a filter for ever, and some must not have the owner's: CRIU, because
 * a process with a filter may not read another process's filter; and sandboxes, which have a filter
 * of their own. So the owner forks a starter first, and asks it afterwards:
 *
 *	owner ---- a job's number, an order, fds ----> starter
 *	  ^ <---- a pid and a pidfd, or an errno ------   |
 *	  +----------------- child <----------------------+ clone3(CLONE_PARENT)
 *
 * The new processes are the owner's children. The starter can only run the jobs in its table, which
 * is fixed when it is forked, and it has the memory and fds that the owner had then. It dies with
 * its owner. Calls are made on the loop's thread and wait for one clone, never longer.
 */
#include "loop/loop.h"

#define STARTER_ORDER_MAX 2048

struct starter_order {
	const void *data;
	size_t len;
	const int *fds; /* the new process's own, from here on */
	size_t n_fds;
};

struct starter_job {
	/* Runs in a new process, and does not return. Or, with is_here, it runs in the starter
	 * itself, and the errno that it returns is the answer. */
	int (*run)(const struct starter_order *order, void *arg);
	void *arg;
	bool is_here;
};

struct starter_spec {
	const char *name; /* what ps -o comm shows */
	const struct starter_job *jobs;
	size_t n_jobs;
	loop_fn lost; /* called when it has died; nothing can be started any more */
	void *arg;
	const int *shed; /* fds that it closes; -1 is none */
	size_t n_shed;
};

struct starter;

must_check int starter_new(struct loop *loop, const struct starter_spec *spec,
                           struct starter **ret);
void starter_free(struct starter *s); /* NULL is fine; ends it */
/* Returns 0, and the pid and pidfd if the job makes a process; or a negative errno. */
must_check int starter_ask(struct starter *s, size_t job, const struct starter_order *order,
                           pid_t *ret_pid, int *ret_pidfd);
