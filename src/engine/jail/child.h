// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * The jail's child: what the spawner's clone3() begets, from its first instruction to the exec of
 * the agent. It works down the table of steps in child.c; each step gives something up. A step
 * that fails is told to the broker through status_fd as a struct err, and the child ends.
 *
 * It is a clone of the spawner (spawner.h) and knows what that knows. All else, and the mounts,
 * which need the child's user namespace to exist, come from the broker over go_fd. If the broker
 * dies first, go_fd ends and the child with it.
 */
#include "engine/engine.h"
#include "engine/jail/cgroup.h"
#include "engine/jail/seccomp.h"

#include <sched.h>

enum jail_mount { /* detached mounts, made by the broker */
	          JAIL_MOUNT_TEMPLATE,
	          JAIL_MOUNT_BASE, /* the template's image, or the host's /usr */
	          JAIL_MOUNT_LAYER,
	          JAIL_MOUNT_SHARE,
	          JAIL_MOUNT_SHARED_TMPFS,
	          JAIL_MOUNT_COUNT,
};

struct jail_orders { /* with the mounts, listen_fd and user_fds */
	struct guest_spec spec;
	cpu_set_t cpus;
	uint64_t boot_max_us; /* of a vm */
};
/* At most: the mounts, the listener, the cgroups, and last volumes and what is shown: snapshots, an
 * image. */
#define JAIL_ORDER_FDS (JAIL_MOUNT_COUNT + 1 + CGROUP_TREES_MAX + VOLUMES_MAX + SHOWN_MAX + 1)

struct jail {
	const struct guest_spec *spec;
	const char *staging; /* a directory of the host that the child's staging is mounted on */
	uint32_t owner;      /* of the staging: who is root where it is mounted */
	const struct seccomp_program *filter;
	cpu_set_t cpus;
	int go_fd, status_fd, listen_fd, agent_fd;
	int user_fds[CGROUP_TREES_MAX]; /* cgroup.procs of `user` */
	size_t n_user_fds;
	int mounts[JAIL_MOUNT_COUNT];
	int shown_fd;                     /* a mount too; -1 = none */
	int disk_snapshot_fds[SHOWN_MAX]; /* likewise, of the snapshots that are shown */
	int volume_fds[VOLUMES_MAX];
	struct jail_orders orders;
};

_Noreturn void jail_child_run(struct jail *jail);
/* The founder's (spawner.h): as far as the root, whose mounts go out over go_fd with a byte: `/`
 * and, of `host`, /usr. It stays until go_fd ends: its user and net namespace are looked up by its
 * pid.
 */
_Noreturn void jail_founder_run(struct jail *jail);

/* The steps that live in files of their own. Paths are relative to the staging directory, where
 * the new root is "r", until jail_pivot(). */
int jail_mount_root(struct jail *jail, struct err *err);
int jail_mount_volumes(struct jail *jail, struct err *err);
int jail_mount_proc(struct jail *jail, struct err *err);
int jail_mount_sys(struct jail *jail, struct err *err);
int jail_mount_dev(struct jail *jail, struct err *err);
int jail_pivot(struct jail *jail, struct err *err);
int jail_drop_caps(struct jail *jail, struct err *err);

/* The steps that the children of zygotes and image builds take too. */
int jail_set_oom_score(struct jail *jail, struct err *err);
int jail_leave_session(struct jail *jail, struct err *err);
int jail_unshare_cgroup(struct jail *jail, struct err *err);
int jail_mount_staging(struct jail *jail, struct err *err);
int jail_set_rlimits(struct jail *jail, struct err *err);
int jail_leave_keyring(struct jail *jail, struct err *err);
int jail_become_root(struct jail *jail, struct err *err); /* inside */

/* What an exec as root keeps, as a mask of 1 << CAP_*: told to the agent. */
uint64_t jail_caps_of_root(void);
