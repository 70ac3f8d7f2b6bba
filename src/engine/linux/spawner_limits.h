// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * Limits that the kernel counts per user. It charges a process to its user in its own user
 * namespace, to the owner of that namespace in the parent, and so on up to the host's.
 *
 *	counted as			bounded by
 *	a user of the sandbox		the process's own limit (jail_set_rlimits())
 *	its owner in T			the sandbox's share: limits are those of who made its user
 *					namespace, numbers of inotify those that are written in T
 *	T's owner on the host		what the host has
 *
 * Each sandbox has its own owner (namespaces_owner_id()), so in T each has its own count, for all
 * its users together.
 */
#include "engine/linux/kernel_share.h"

#include "base/err.h"

/* Called before T is made: raises the limits to the maximum, for all sandboxes together. */
void spawner_limits_raise(void);
/* Called before sandboxes are made: lowers them to the share of one. */
void spawner_limits_lower(uint32_t sandboxes);
/* Called in T, when its ids are mapped: writes the maximum of one sandbox. Kernels without these
 * sysctls have only the host's limit. */
void spawner_limits_write(const uint64_t shares[SHARE_COUNT]);
