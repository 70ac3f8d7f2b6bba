// SPDX-License-Identifier: Apache-2.0
#pragma once
/* The file `below` in a layer that is a copy of a snapshot: what was in it from the beginning,
 * which counts for who wrote it, and yet takes of the sandbox's disk (disk_snapshot.c). */
#include <stdint.h>

#define DISK_SNAPSHOT_BELOW "below"

struct disk_snapshot_below {
	uint64_t bytes; /* that it began with */
	uint64_t line;  /* of struct snapshot_info */
};
