// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * The agent's children of fork(). Each has all fds of the agent until it closes them: for a moment,
 * on a busy host for longer. A connection that the agent has closed is open for the host until
 * then.
 */
#include "agent/agent.h"

struct forks;

struct forks *forks_new(struct agent *a);
pid_t forks_fork(struct forks *f); /* as fork() */
/* Calls done once, at once or from the loop, when no child has an fd of the agent's any more. */
void forks_await(struct forks *f, loop_fn done, void *arg);
void forks_stop_waiting(struct forks *f); /* done is not called any more */
