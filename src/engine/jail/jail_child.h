// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * The jail's child: what the spawner's clone3() begets, from its first instruction to the exec of
 * the agent. It works down the table of steps in jail_child.c; each step gives something up. A step
 * that fails is told to the broker through status_fd as a struct err, and the child ends.
 *
 * It is a clone of the spawner (spawner.h) and knows what that knows. All else, and the mounts,
 * which need the child's user namespace to exist, come from the broker over go_fd. If the broker
 * dies first, go_fd ends and the child with it.
 */
#include "engine/guest/child_orders.h"

_Noreturn void jail_child_run(struct jail *jail);
/* The founder's (spawner.h): as far as the root, whose mounts go out over go_fd with a byte: `/`
 * and, of `host`, /usr. It stays until go_fd ends: its user and net namespace are looked up by its
 * pid.
 */
_Noreturn void jail_founder_run(struct jail *jail);

struct jail_step {
	const char *name;
	int (*run)(struct jail *jail, struct err *err);
};
/* One after the other; the last one execs. The first that fails is told to the broker. */
_Noreturn void jail_run_steps(struct jail *jail, const char *whose, const struct jail_step *steps,
                              size_t n);

/* The steps that live in files of their own. Paths are relative to the staging directory, where
 * the new root is "r", until jail_pivot(). */
int jail_mount_root(struct jail *jail, struct err *err);
int jail_mount_volumes(struct jail *jail, struct err *err);
int jail_mount_proc(struct jail *jail, struct err *err);
int jail_mount_sys(struct jail *jail, struct err *err);
int jail_mount_dev(struct jail *jail, struct err *err);
int jail_pivot(struct jail *jail, struct err *err);
/* The machine view at "p" again, read-only: as "q" without devices, as "s" with them. */
int jail_bind_machine_view(struct err *err);
int jail_drop_caps(struct jail *jail, struct err *err);

/* The steps that the children of zygotes and image builds take too. */
int jail_set_oom_score(struct jail *jail, struct err *err);
int jail_leave_session(struct jail *jail, struct err *err);
int jail_unshare_cgroup(struct jail *jail, struct err *err);
int jail_mount_staging(struct jail *jail, struct err *err);
int jail_set_rlimits(struct jail *jail, struct err *err);
int jail_leave_keyring(struct jail *jail, struct err *err);
int jail_become_root(struct jail *jail, struct err *err); /* inside */
int jail_load_filter(struct jail *jail, struct err *err);
/* Gives up all other capabilities (1 << CAP_*), for whatever is executed later too, and sets
 * no_new_privs, which the filter needs. */
must_check int jail_keep_caps(uint64_t caps, uint64_t inheritable, struct err *err);

/* What an exec as root keeps, as a mask of 1 << CAP_*: told to the agent. */
uint64_t jail_caps_of_root(void);
