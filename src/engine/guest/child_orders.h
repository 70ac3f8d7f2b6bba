// SPDX-License-Identifier: Apache-2.0
#pragma once
/* What the first process of a guest, a zygote or an image build is given, and how it gets it. */
#include "engine/engine.h"
#include "engine/linux/cgroup.h"
#include "engine/linux/seccomp.h"

#include <sched.h>

enum jail_mount { /* detached mounts, made by the broker */
	          JAIL_MOUNT_TEMPLATE,
	          JAIL_MOUNT_BASE, /* the template's image, or the host's /usr */
	          JAIL_MOUNT_LAYER,
	          JAIL_MOUNT_MACHINE_VIEW,
	          JAIL_MOUNT_COUNT,
};

struct jail_orders { /* with the mounts, listen_fd, join_fds and user_fds */
	struct guest_spec spec;
	cpu_set_t cpus;
	uint64_t boot_max_us; /* of a vm */
	uint32_t n_join_fds;
	uint32_t n_bases; /* of a vm's template */
};
/* The most fds: the mounts, the listener, the cgroups, and last the volumes and what is shown
 * (snapshots, an image). */
#define JAIL_ORDER_FDS (JAIL_MOUNT_COUNT + 1 + 2 * CGROUP_TREES_MAX + VOLUMES_MAX + SHOWN_MAX + 1)

struct jail {
	const struct guest_spec *spec;
	const char *staging; /* a directory of the host that the child's staging is mounted on */
	uint32_t owner;      /* of the staging: the id of root inside */
	const struct seccomp_program *filter;
	const uint64_t *shares; /* of kernel resources (kernel_share.h) */
	cpu_set_t cpus;
	int go_fd, status_fd, listen_fd, agent_fd;
	int join_fds[CGROUP_TREES_MAX]; /* of the agent's own group; orders.n_join_fds */
	int user_fds[CGROUP_TREES_MAX]; /* cgroup.procs of `user` */
	size_t n_user_fds;
	int mounts[JAIL_MOUNT_COUNT];
	int shown_fd;                     /* a mount too; -1 = none */
	int disk_snapshot_fds[SHOWN_MAX]; /* likewise, of shown snapshots */
	int volume_fds[VOLUMES_MAX];
	struct jail_orders orders;
};
