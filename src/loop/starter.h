// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * The starter: a process that makes children for one that is about to wall itself in. A seccomp
 * filter goes on to all children for ever, and some must have none of it: CRIU, since the kernel
 * lets nobody who has a filter look into a process that has one; and sandboxes, whose filter is
 * their own. So the owner forks a starter first, and asks it afterwards:
 *
 *	owner ---- a job's number, an order, fds ----> starter
 *	  ^ <---- a pid and a pidfd, or an errno ------   |
 *	  +----------------- child <----------------------+ clone3(CLONE_PARENT)
 *
 * What it makes are the owner's children. It can do no more than its table of jobs, which is fixed
 * when it is forked, and it has the memory and the fds that the owner had then. It dies with its
 * owner. Calls are made on the loop's thread and wait for a clone, never for more.
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
	/* In a new process: does not return. Or, with is_here, in the starter itself: the errno
	 * that it gives is the answer. */
	int (*run)(const struct starter_order *order, void *arg);
	void *arg;
	bool is_here;
};

struct starter_spec {
	const char *name; /* what ps -o comm shows */
	const struct starter_job *jobs;
	size_t n_jobs;
	loop_fn lost; /* it has died by itself, and nothing can be started any more */
	void *arg;
	const int *shed; /* fds that it closes; -1 is none */
	size_t n_shed;
};

struct starter;

must_check int starter_new(struct loop *loop, const struct starter_spec *spec,
                           struct starter **ret);
void starter_free(struct starter *s); /* NULL is fine; ends it */
/* 0, and of a job that has a process its pid and pidfd; or a negative errno. */
must_check int starter_ask(struct starter *s, size_t job, const struct starter_order *order,
                           pid_t *ret_pid, int *ret_pidfd);
