// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * The standby: a child that was forked before anybody asked. It has joined the sandbox's cgroup and
 * waits for its START and its fds; so a channel that begins after a pause costs a message, where a
 * fork and the moves between groups take longer than most programs, and on cgroup v1 may wait for
 * a grace period of all CPUs.
 *
 * There is at most one, made when nothing was launched for a moment: a sandbox that runs one thing
 * and goes never pays for it. It counts as a process of the sandbox, whose root may kill or stop
 * it; then, also while it is only about to die, and for a START that is too long, launch()
 * forks as if there were none.
 */
#include "agent/process/launch.h"

struct standby;

struct standby *standby_new(struct agent *a);
/* A launch: the next standby is made a moment after the last of them. */
void standby_defer(struct standby *s);
/* The settings have changed: one that was made before is of no use. */
void standby_renew(struct standby *s);
/* Hands the fds and *start over. The pid of what runs now, or 0: there is no standby to do it. */
pid_t standby_take(struct standby *s, const struct start *start, const int fds[LAUNCH_FDS]);
pid_t standby_pid(const struct standby *s);           /* 0: there is none */
bool standby_on_reaped(struct standby *s, pid_t pid); /* true if it was the standby that waited */
