// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * The memory of a guest: all its processes as they are at one moment. CRIU (criu.h) saves them,
 * they go on, and they can be restored in other guests any number of times.
 *
 *	save	agent lets go of the host --> CRIU stops all, writes --> still() --> goes on
 *	        --> agent has hold again --> images put right, hashed --> done()
 *	revive	spawner lays the ground (user and net namespace, root) --> CRIU builds on it, all
 *	        stands still --> walls are looked at --> it goes on, agent has hold
 *
 * A copy has its own range of ids, net namespace, host name and control groups. Its clock goes on
 * (CLOCK_MONOTONIC never goes back), and its processes keep their pids. The gateway reseeds the
 * random generators of interpreters.
 */
#include "engine/guest/guest_kind.h"

#include <sched.h>

/* Notes that this broker has made or checked it, so that it is not read completely again. */
void memory_remember_whole(int images_fd);

/* Saves a running guest into the empty directory dir_fd. One at a time for each guest. */
must_check int memory_save(struct guest *g, int dir_fd, const struct snapshot_spec *spec,
                           const struct memory_ops *ops, void *arg, struct err *err);
void memory_release(struct guest *g); /* behind still() */
void memory_go_on(struct guest *g);   /* after done(), for a guest that was not to go on */

/* What a start has made for a copy; the callee owns all fds. */
struct memory_ground {
	pid_t pid; /* the spawner's child, which makes the root */
	int pidfd, go_fd;
	int listen_fd; /* the agent's, of the copy's net namespace */
	int ready_fd;  /* the writing end of g->status_fd */
	cpu_set_t cpus;
};
/* Revives the memory in images_fd as g. Success is reported on g->status_fd as for any start,
 * failure by failed(), from the loop. on_exit is called for the copy's first process. */
must_check int memory_revive(struct guest *g, int images_fd, const struct memory_ground *ground,
                             loop_child_fn on_exit,
                             void (*failed)(struct guest *g, const struct err *err),
                             struct err *err);
void memory_leave(void);           /* the broker leaves: nobody is revived any more */
void memory_drop(struct guest *g); /* the guest is to be removed: ends a save or revival */
