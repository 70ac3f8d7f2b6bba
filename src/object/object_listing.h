// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * A page of a bucket's listing, as S3 answers ListObjectsV2: XML, of which only the keys with their
 * times and sizes are read, and whether there are more. Written by a stranger: what is not as
 * expected is -EPROTO, and a key that is no name of ours is left out. Pure: no I/O.
 */
#include "base/auto.h"

#include <stdbool.h>
#include <stdint.h>

#define OBJECT_KEY_MAX 1024 /* of a key; S3's own limit */

struct object_entry {
	const char *key; /* the whole key */
	uint64_t written_us, bytes;
};

typedef int (*object_entry_fn)(const struct object_entry *one, void *arg); /* < 0 ends it */

/* text is changed, and ends with a NUL. Returns 1: there are more behind the last key, 0: no more.
 * ret_last: the last key, "" if there was none. */
must_check int object_listing_read(char *text, object_entry_fn fn, void *arg,
                                   char ret_last[OBJECT_KEY_MAX + 1]);
/* "2009-10-12T17:50:30.000Z"; -EPROTO. */
must_check int object_time_parse(const char *text, uint64_t *ret_us);
