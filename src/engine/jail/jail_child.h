// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * The jail's child: the process that the spawner clones, from its first instruction to the exec of
 * the agent. It runs the table of steps in jail_child.c; each step gives something up. If a step
 * fails, the child sends a struct err to the broker through status_fd and exits.
 *
 * It is a clone of the spawner (spawner.h) and has its memory. The rest comes from the broker over
 * go_fd, with the mounts, which can be made only when the child's user namespace exists. If the
 * broker dies first, go_fd ends, and the child exits.
 */
#include "engine/guest/child_orders.h"

_Noreturn void jail_child_run(struct jail *jail);
/* The founder (spawner.h) stops after it has made the root. It sends the mounts of the root over
 * go_fd with a byte: `/` and, for `host`, /usr. It stays until go_fd ends, because its user and net
 * namespaces are looked up by its pid.
 */
_Noreturn void jail_founder_run(struct jail *jail);

struct jail_step {
	const char *name;
	int (*run)(struct jail *jail, struct err *err);
};
/* Runs the steps in order; the last one execs. The first failure is reported to the broker. */
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
/* Binds the machine view at "p" again, read-only: as "q" without devices, as "s" with them. */
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
/* The standard fds are /dev/null, and all others close at the exec. -errno. */
must_check int jail_forget_fds(void);
/* Drops all other capabilities (1 << CAP_*), also for later execs, and sets no_new_privs, which the
 * filter needs. */
must_check int jail_keep_caps(uint64_t caps, uint64_t inheritable, struct err *err);

/* What an exec as root keeps, as a mask of 1 << CAP_*: told to the agent. */
uint64_t jail_caps_of_root(void);
