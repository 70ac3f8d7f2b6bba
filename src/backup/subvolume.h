// SPDX-License-Identifier: Apache-2.0
#pragma once
/* Btrfs subvolumes for backups: their properties, and sending and receiving them as streams.
 * Streams keep what a tar does not: sparse files, extended attributes, devices, shared extents. */
#include "backup/manifest.h"

struct subvolume_info {
	uint64_t id;                                  /* greater than its origin's */
	uint64_t transid;                             /* of its last change */
	char uuid[UUID_SIZE], parent_uuid[UUID_SIZE]; /* parent "": it was made empty */
	char stream_uuid[UUID_SIZE];                  /* its UUID in streams */
};

must_check int subvolume_info(int fd, struct subvolume_info *ret, struct err *err);

/*
 * Sends the read-only subvolume fd as a stream. shared_id: another read-only subvolume, whose
 * extents are referred to rather than copied; 0 = none. fn may end it with < 0.
 */
must_check int subvolume_send(int fd, uint64_t shared_id,
                              int (*fn)(const void *data, size_t len, void *arg, struct err *err),
                              void *arg, struct err *err);
/* Makes a read-only subvolume in dir, with the name that the stream gives it. fn returns the
 * stream: > 0 bytes of *ret, 0 at the end. */
must_check int subvolume_receive(const char *dir,
                                 int (*fn)(const void **ret, size_t *ret_len, void *arg,
                                           struct err *err),
                                 void *arg, struct err *err);
/* Marks it as received: later streams refer to it by this UUID. */
must_check int subvolume_name(int fd, const char *uuid, uint64_t transid);
/* Clears the mark of a received subvolume, and makes it writable or not. */
must_check int subvolume_settle(int fd, bool is_read_only);
