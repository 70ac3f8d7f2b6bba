// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * What the kernel counts by user: it counts a process in its own user namespace, in the parent as
 * the owner of that namespace, and so on up to the host's.
 *
 *	counted as			bounded by
 *	a user of the sandbox		the process's own limit (jail_set_rlimits())
 *	its owner in T			the sandbox's share: limits are those of who made its user
 *					namespace, numbers of inotify those that are written in T
 *	T's owner on the host		what the host has
 *
 * Each sandbox has an owner of its own (namespaces_owner_id()), so in T each has a count of its
 * own, of all its users together.
 */
#include "engine/linux/kernel_share.h"

#include "base/err.h"

/* Before T is made: as much as we may have, for all sandboxes together. */
void spawner_limits_raise(void);
/* Before sandboxes are made: the share of one. */
void spawner_limits_lower(uint32_t sandboxes);
/* In T, when its ids are mapped: the most that one sandbox has. Kernels without these sysctls have
 * only the host's own limit. */
void spawner_limits_write(const uint64_t shares[SHARE_COUNT]);
