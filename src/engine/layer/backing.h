// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * The file below the layers' filesystem, DATA/layers.btrfs.
 *
 *	|<------ the filesystem ------->|
 *	| chunks | chunks |  not yet    |  .  .  .  .  .  .  .  .  .  .  .  .  .|
 *	|<-- allocated on the disk ---->|<------------ a hole ----------------->|
 *
 * A btrfs whose device has an error in the middle of a transaction gives up: it is read-only from
 * then on, and what was written since the last transaction is lost. A write into a hole of a file
 * on a full disk is such an error. So the filesystem is never larger than what the file has
 * allocated: it begins small, and grows step by step, each time after the file has got the blocks.
 * When the disk has no more to give, the filesystem stays as it is, and whoever writes gets ENOSPC
 * from it, as from any that is full. For the same reason nothing of it is discarded: that would
 * make holes. What is behind its last chunk is given back instead.
 *
 * Where the disk cannot allocate (ZFS and some others say EOPNOTSUPP), the filesystem is kept as
 * small all the same, and backing_missing() says what the disk still has to keep free for it.
 */
#include "base/err.h"

#define BACKING_SIZE_MIN (UINT64_C(256) << 20) /* a smaller btrfs has no room for its metadata */

/* Makes the file with an empty filesystem of that many bytes, all allocated. */
must_check int backing_make(const char *path, uint64_t bytes, struct err *err);
/* So long that the filesystem can grow to the whole disk; before it is attached to a loop device.
 */
void backing_stretch(int file_fd);
/* Bytes of the filesystem, which has so many, that the file has not got on the disk yet. */
uint64_t backing_missing(int file_fd, uint64_t fs_bytes);

/* These take their time. -ENOSPC: the disk has not got it, and nothing was changed. */
must_check int backing_grow(int file_fd, int fs_fd, uint64_t by);
/* Gives back what is behind the last chunk and spare bytes more, and allocates the rest. 1: all but
 * that the disk cannot allocate. */
must_check int backing_fit(int file_fd, int fs_fd, uint64_t spare);
/* Another file, which only holds so many bytes. 1 likewise. */
must_check int backing_hold(int file_fd, uint64_t bytes);
