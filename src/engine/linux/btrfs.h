// SPDX-License-Identifier: Apache-2.0
#pragma once
/* The few btrfs ioctls that layers need: subvolumes, and quota groups as their limits. All return 0
 * or a negative errno. */
#include "base/auto.h"

#include <stdbool.h>

must_check int btrfs_quota_on(int fs_fd); /* simple quotas where the kernel has them (6.7) */
must_check int btrfs_subvol_make(int dir_fd, const char *name);
must_check int btrfs_snapshot(int dir_fd, int subvol_fd, const char *name); /* read-only */
must_check int btrfs_clone(int dir_fd, int subvol_fd, const char *name);    /* to be written to */
bool btrfs_is_subvol(int fd, uint64_t *ret_id); /* whether fd is the root of one; its number */
must_check int btrfs_subvol_delete(int dir_fd, const char *name); /* its quota group too */
must_check int btrfs_limit(int subvol_fd, uint64_t bytes);
must_check int btrfs_get_limit(int subvol_fd, uint64_t *ret_bytes); /* 0 = none */
must_check int btrfs_usage(int subvol_fd, uint64_t *ret_bytes);     /* as of the last commit */
/* Includes what is written but not committed yet, if /sys shows it. */
must_check int btrfs_usage_now(int subvol_fd, uint64_t *ret_bytes);
/* Whether quotas are simple: a byte then counts for the subvolume that wrote it, as long as it
 * exists anywhere. */
bool btrfs_counts_once(int fs_fd);
void btrfs_prune_quota(int fs_fd); /* drops the quota groups of subvolumes that are gone */

/* Groups of subvolumes, numbered below 2^48; with simple quotas. */
must_check int btrfs_group_make(int fs_fd, uint64_t number); /* one that is there is fine */
must_check int btrfs_group_limit(int fs_fd, uint64_t number, uint64_t bytes);
void btrfs_group_unlimit(int fs_fd, uint64_t number);
/* Calls fn for each group that has members, and removes the empty ones. */
void btrfs_each_group(int fs_fd, void (*fn)(uint64_t number, void *arg), void *arg);
must_check int btrfs_group_join(int subvol_fd, uint64_t number); /* to be in it already is fine */

/* Bytes of data that are written and still in memory: their room is taken, and statfs() counts it
 * as free. 0 if /sys does not show it. */
uint64_t btrfs_in_memory(int fs_fd);

/* Its one device: how much of it the filesystem uses, and how much of that is in chunks. */
struct btrfs_device {
	uint64_t bytes, allocated_bytes;
};
must_check int btrfs_device(int fs_fd, struct btrfs_device *ret);
must_check int btrfs_last_chunk_end(int fs_fd, uint64_t *ret); /* on that device */
/* Blocks for a transaction; data beyond the new end is moved first. */
must_check int btrfs_resize(int fs_fd, uint64_t bytes);
