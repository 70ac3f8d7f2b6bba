// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * The spawner: where sandboxes and zygotes hatch. A small process of ours that makes them in a user
 * namespace T between the host's and their own:
 *
 *	host's --> T --> a sandbox's
 *	           +---> net namespaces, one a sandbox
 *
 * A zygote (zygote.h) is a process of T that has to enter sandboxes, and the kernel lets it only if
 * T is the parent of their user namespaces and the owner of their net namespaces. So both are made
 * from inside T, and as no process can go there and come back, the spawner sends a helper there for
 * each of them.
 *
 * T maps every id to itself: the sandboxes' ranges and a few of its own, and not the host's root.
 * A helper's ids are of those few, and different for each sandbox, because the kernel counts what a
 * sandbox has by the owner of its user namespace, too (spawner_limits.h). The ids that files are
 * opened with (fsuid) are still root's, so that the child finds its way to the staging directory
 * and into its cgroup before it gives up all there is.
 *
 * It holds its socket, the agent's binary, T and what the broker's memory held at probe(); it ends
 * when the broker does. What it begets are children of the broker's, not its own: a spawner that
 * died is made anew for the same T, and nobody notices. T lives on in its sandboxes, and a later
 * broker finds it through any of them.
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
	SPAWNER_FOUNDER, /* of a copy (memory.h): makes its root, hands that out and goes */
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
/* T is the parent of this process's user namespace, unless that is the host's. */
void spawner_find(struct spawner *n, pid_t guest);

/*
 * Asks for a child that gets go_fd and status_fd; each ask must be followed by a take. What happens
 * between the two happens at the same time. group_fd: its cgroup (CLONE_INTO_CGROUP), or -1.
 */
must_check int spawner_ask(struct spawner *n, enum spawner_kind kind, uint32_t slot, int go_fd,
                           int status_fd, int group_fd, struct err *err);
must_check int spawner_take(struct spawner *n, struct hatched *ret, struct err *err);
