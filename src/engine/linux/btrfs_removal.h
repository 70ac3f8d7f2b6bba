// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * The removal of a subvolume by a child that costs little. The call itself may take long: in it the
 * kernel drops all cached files of the subvolume, and waits for the disk.
 *
 * A fork of the broker for each removal was a fifth of the broker's CPU time: page tables are
 * copied, and torn down again. This child shares the broker's memory and descriptors. It makes two
 * system calls whose arguments were prepared for it, and ends with status 0, or 1 if the subvolume
 * is still there.
 */
#include "base/auto.h"

/* Returns 1: *ret_pidfd is the child. 0: this cannot be done so, and nothing was begun: it is no
 * subvolume, or many removals are under way. For the main thread only. */
must_check int btrfs_removal_start(int dir_fd, const char *name, int *ret_pidfd);
