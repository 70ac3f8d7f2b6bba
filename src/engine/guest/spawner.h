// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * The spawner: a small process that makes sandboxes and zygotes, in a user namespace T between the
 * host's and their own:
 *
 *	host's --> T --> a sandbox's
 *	           +---> net namespaces, one a sandbox
 *
 * A zygote (zygote.h) is a process of T that must enter sandboxes. The kernel allows that only if T
 * is the parent of their user namespaces and the owner of their net namespaces. So both are made
 * inside T. No process can enter T and come back, so the spawner sends a helper there for each
 * sandbox.
 *
 * T maps ids to themselves: the ranges of the sandboxes and a few of its own, but not the host's
 * root. A helper's uid is one of those few, a different one for each sandbox, because the kernel
 * also charges a sandbox's resources to the owner of its user namespace (spawner_limits.h). The ids
 * for file access (fsuid) are still root's, so that the child can reach the staging directory and
 * its cgroup before it gives up all rights.
 *
 * It holds its socket, the agent's binary, T and the broker's memory as of probe(); it ends when
 * the broker does. The processes that it makes are children of the broker, not its own: if it dies,
 * a new one is started for the same T, and nothing is lost. T lives on in its sandboxes, and a
 * later broker finds it through any of them.
 */
#include "engine/guest/spawner_orphan.h"
#include "loop/loop.h"

#include <stdbool.h>
#include <sys/types.h>

enum spawner_kind {
	SPAWNER_GUEST = 1,
	SPAWNER_ZYGOTE,
	SPAWNER_IMAGE_BUILD,
	SPAWNER_VM,
	SPAWNER_FOUNDER, /* of a copy (memory.h): makes its root, hands it out and exits */
	SPAWNER_KINDS
};

struct spawner {
	struct guest_host *host;
	int fd;        /* -1: there is none */
	int userns_fd; /* T; -1: not made or found yet */
	pid_t pid;
	struct loop_child *child;
	struct list orphans; /* what dead ones have left */
};

struct hatched {
	pid_t pid; /* a child of ours, which waits for its orders */
	int pidfd;
	int socket_fd; /* a guest's or founder's: a stream socket of its net namespace, not bound
	                  yet */
};

void spawner_init(struct spawner *n, struct guest_host *host);
void spawner_done(struct spawner *n); /* ends the process; T lives as long as a sandbox in it */
/* Starts it if there is none. */
must_check int spawner_need(struct spawner *n, struct err *err);
/* Finds T as the parent of this process's user namespace, unless that parent is the host's. */
void spawner_find(struct spawner *n, pid_t guest);

/*
 * Asks for a child that gets go_fd and status_fd; each ask must be followed by a take. The spawner
 * works while the caller does other things between the two. group_fd: its cgroup
 * (CLONE_INTO_CGROUP), or -1.
 */
must_check int spawner_ask(struct spawner *n, enum spawner_kind kind, uint32_t slot, int go_fd,
                           int status_fd, int group_fd, struct err *err);
must_check int spawner_take(struct spawner *n, struct hatched *ret, struct err *err);
