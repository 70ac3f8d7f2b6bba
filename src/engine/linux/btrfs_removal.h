// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * The removal of a subvolume by a child that costs little. The call itself may take long: in it the
 * kernel drops all cached files of the subvolume, and waits for the disk.
 *
 * A fork of the broker for each removal was a fifth of the broker's CPU time: page tables are
 * copied, and torn down again. This child shares the broker's memory and descriptors. It makes a
 * few system calls whose arguments were prepared for it, and ends with status 0, or 1 if the
 * subvolume is still there.
 *
 * All that time the kernel holds the lock of the directory in which the subvolume is: while one
 * with 60,000 files was removed, no other could be made or removed for a second. So the child first
 * moves it aside, into a directory that no other removal uses. What a crash leaves there is moved
 * back by the next start, which then finds it as it finds all leftovers.
 */
#include "base/auto.h"

/* Makes the places aside, of which a process has one set, and moves back what is in them. Without
 * them subvolumes are removed where they are. */
void btrfs_removal_open(int dir_fd);
void btrfs_removal_close(void);
/* Returns 1: *ret_pidfd is the child. 0: this cannot be done so, and nothing was begun: it is no
 * subvolume, or many removals are under way. For the main thread only. */
must_check int btrfs_removal_start(int dir_fd, const char *name, int *ret_pidfd);
