// SPDX-License-Identifier: Apache-2.0
#pragma once
/* The file `below` in a layer that is a copy of a snapshot: how much it had from the snapshot.
 * Those bytes count for the layer that wrote them, but take part of this sandbox's disk too
 * (disk_snapshot.c). */
#include <stdint.h>

#define DISK_SNAPSHOT_BELOW "below"

struct disk_snapshot_below {
	uint64_t bytes; /* that it began with */
	uint64_t line;  /* of struct snapshot_info */
};
