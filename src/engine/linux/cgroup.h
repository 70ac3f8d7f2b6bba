// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * Control groups of either version. A sandbox's group is a set of directories, one in each tree
 * that we use, all with the same name:
 *
 *	TREE/PARENT/ID/init	the agent alone, with bounds that user code cannot reach
 *	TREE/PARENT/ID/user	everything else: here are the sandbox's limits
 *
 * Only a v2 tree with limits needs `init`: there a group with groups below it may hold no process.
 * In all others the agent is in ID itself, whose limits are those of the sandbox and of the agent
 * together. That saves a third of the directories and of their cost.
 *
 * v1 has a tree for each controller. v2 has one tree. Hybrid hosts have v1 trees for the limits and
 * a v2 tree without controllers, which still counts CPU time, freezes and kills, and is used for
 * that. No state is kept per sandbox: everything is found by id, so an adopted sandbox is not a
 * special case.
 *
 * On a host with systemd every group belongs to a unit, and only below a unit with Delegate= may
 * others make groups: elsewhere systemd may take controllers away that no unit asks for. The
 * package's unit for that is HOME.
 */
#include "engine/engine.h"

#define CGROUP_TREES_MAX 6

enum cgroup_part { /* what a tree can do for us */
	           CGROUP_MEMORY,
	           CGROUP_CPU,
	           CGROUP_PIDS,
	           CGROUP_FREEZE,
	           CGROUP_CPU_USAGE,
	           CGROUP_PART_COUNT,
};

struct cgroup_host {
	struct cgroup_tree {
		int top_fd; /* the tree's root, or HOME */
		int fd;     /* PARENT in it */
		bool is_v2;
		bool is_flat;   /* the agent is in ID itself */
		unsigned parts; /* bits of enum cgroup_part that it is used for */
	} trees[CGROUP_TREES_MAX];
	size_t n;
	unsigned parts; /* of all trees */
	char parent[64];
};

/*
 * Finds the trees in mountinfo (the text of /proc/self/mountinfo) and makes PARENT in each. prefix
 * is put before each mount point: "" on a host, a directory in tests. A part that no tree offers is
 * missing from parts; that is not an error.
 *
 * home, if it is not NULL, is a group in the v2 tree that its owner has handed to us: where it
 * exists, PARENT is made there and not in the tree's root.
 */
must_check int cgroup_host_open(struct cgroup_host *h, const char *prefix, const char *mountinfo,
                                const char *home, const char *parent, struct err *err);
void cgroup_host_close(struct cgroup_host *h);
void cgroup_host_remove(struct cgroup_host *h); /* PARENT too; sandboxes left in it keep it */
/*
 * Turns the option favordynmods of the v2 tree on or off. It belongs to the whole host. Without it,
 * who moves a process into another group stops all forks and exits of the host for a grace period
 * of all CPUs, 5 to 20 ms. With it, forks and exits are dearer by some atomic operations. 1: it has
 * changed; 0: it was so, or there is no v2 tree; < 0: -errno, as in a container.
 */
int cgroup_set_favor_moves(const char *mountinfo, bool is_on);
/* The tree that does this, or NULL. */
const struct cgroup_tree *cgroup_find_tree(const struct cgroup_host *h, enum cgroup_part part);
/* In v2, lets groups below dir have its controllers. Returns the parts that were enabled. */
unsigned cgroup_enable(int dir_fd, const char *dir);

must_check int cgroup_make(const struct cgroup_host *h, const char *id,
                           const struct guest_limits *limits, struct err *err);
must_check int cgroup_set_limits(const struct cgroup_host *h, const char *id,
                                 const struct guest_limits *limits, struct err *err);
/* For CLONE_INTO_CGROUP; may be called before cgroup_make(). -1 if there is no v2 tree. */
int cgroup_open_agent(const struct cgroup_host *h, const char *id);
/* Moves a new agent into the trees that CLONE_INTO_CGROUP does not cover. */
must_check int cgroup_join_agent(const struct cgroup_host *h, const char *id, pid_t pid,
                                 struct err *err);
/* The same for an agent that moves itself: opens what it writes "0" to, in each of those trees;
 * returns their number. Whoever moves another process, or a whole one, stops all forks and exits of
 * the host for it, and waits for a grace period of all CPUs. A thread that moves itself does not.
 */
must_check int cgroup_open_join(const struct cgroup_host *h, const char *id,
                                int fds[CGROUP_TREES_MAX], struct err *err);
/* Opens cgroup.procs of `user` in each tree for writing; returns their number. */
must_check int cgroup_open_user(const struct cgroup_host *h, const char *id,
                                int fds[CGROUP_TREES_MAX], struct err *err);
/* Makes a group for our own use with such a `user`, if it does not exist, and puts a process into
 * it.
 */
must_check int cgroup_confine(const struct cgroup_host *h, const char *name,
                              const struct guest_limits *limits, pid_t pid, struct err *err);
/* The sandbox's CPU weight in units of v1: 1024 is the default. */
must_check int cgroup_set_weight(const struct cgroup_host *h, const char *id, uint32_t weight,
                                 struct err *err);
/* The weight of all sandboxes together, unless it is no longer the kernel's default: an operator
 * has set that one. */
must_check int cgroup_set_weight_of_all(const struct cgroup_host *h, uint32_t weight,
                                        struct err *err);
/* CPU time of all processes that were ever in it, also the agent; id "." means all sandboxes. */
uint64_t cgroup_cpu_ns(const struct cgroup_host *h, const char *id);
void cgroup_usage(const struct cgroup_host *h, const char *id, struct guest_usage *usage);
void cgroup_shortage(const struct cgroup_host *h, const char *id, struct guest_shortage *ret);
/* 1: not all of it is frozen yet; to be called again. */
must_check int cgroup_freeze(const struct cgroup_host *h, const char *id, bool on, struct err *err);
void cgroup_kill(const struct cgroup_host *h, const char *id);
must_check int cgroup_remove(const struct cgroup_host *h,
                             const char *id); /* -EBUSY while something in it lives */
/* Calls fn for each sandbox id that has a group. */
void cgroup_each(const struct cgroup_host *h, void (*fn)(const char *id, void *arg), void *arg);
