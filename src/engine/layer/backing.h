// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * The file below the layers' filesystem, DATA/layers.btrfs.
 *
 *	|<------ the filesystem ------->|
 *	| chunks | chunks |  not yet    |  .  .  .  .  .  .  .  .  .  .  .  .  .|
 *	|<-- allocated on the disk ---->|<------------ a hole ----------------->|
 *
 * If its device fails in the middle of a transaction, btrfs gives up: it is read-only from then on,
 * and what was written since the last transaction is lost. Writing into a hole of a file on a full
 * disk is such a failure. So the filesystem is never larger than the allocated part of the file: it
 * starts small, and grows step by step, each time after the blocks were allocated. When the disk is
 * full, the filesystem stays as it is, and writers get ENOSPC as usual. For the same reason nothing
 * is discarded: that would make holes. Instead, space behind the last chunk is given back.
 *
 * If the disk cannot allocate (ZFS and some others return EOPNOTSUPP), the filesystem is kept just
 * as small, and backing_missing() says how much the disk must keep free for it.
 */
#include "base/err.h"

#define BACKING_SIZE_MIN (UINT64_C(256) << 20) /* a smaller btrfs has no room for its metadata */

/* Makes the file with an empty filesystem of that many bytes, all allocated. */
must_check int backing_make(const char *path, uint64_t bytes, struct err *err);
/* Makes the file so long that the filesystem can grow to the whole disk. Called before it is
 * attached to a loop device.
 */
void backing_stretch(int file_fd);
/* How many of the filesystem's fs_bytes are not allocated on the disk yet. */
uint64_t backing_missing(int file_fd, uint64_t fs_bytes);

/* These may take long. -ENOSPC: the disk is full, and nothing was changed. */
must_check int backing_grow(int file_fd, int fs_fd, uint64_t by);
/* Keeps `spare` bytes after the last chunk, gives back the space behind them, and allocates the
 * rest. 1: done, but the disk cannot allocate. */
must_check int backing_fit(int file_fd, int fs_fd, uint64_t spare);
/* Allocates that many bytes in another file, which only reserves them. 1 likewise. */
must_check int backing_hold(int file_fd, uint64_t bytes);
