// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * A checksum over much data (XXH64 with seed 0): as fast as memory can be read. It finds damage; it
 * stops nobody who wants two texts with one sum, so it stands only for what no stranger can write.
 */
#include <stddef.h>
#include <stdint.h>

struct checksum {
	uint64_t lanes[4], total;
	unsigned char rest[32]; /* what has come since the last full stripe */
};

void checksum_init(struct checksum *c);
void checksum_add(struct checksum *c, const void *data, size_t len);
uint64_t checksum_end(const struct checksum *c); /* of all that was added so far */
