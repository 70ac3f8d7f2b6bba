// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * All processes that an exec began: its leader, everything in the leader's session, everything that
 * carries CLOCHE_EXEC=tag in its environment, and the descendants of all these. One that leaves its
 * session, loses its parents and wipes its environment is no longer found; the sandbox's cgroup
 * still holds it.
 */
#include <stdbool.h>
#include <sys/types.h>

/* Signals each, and says how many there were. leader_lives: the leader is not reaped yet. */
int process_tree_signal(pid_t leader, bool leader_lives, const char *tag, int signo);
/* A living process of the sandbox that is none of those and not this one; 0: there is none. */
pid_t process_tree_find_other(const pid_t *known, size_t n);
/* Stops each until no new one appears, then kills; how many were found. Call again until 0. */
int process_tree_kill(pid_t leader, bool leader_lives, const char *tag);
