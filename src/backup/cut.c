// SPDX-License-Identifier: Apache-2.0
#include "backup/cut.h"

#include "backup/content.h"

#define LEAST (256U << 10)
#define MASK  ((UINT64_C(1) << 20) - 1) /* a cut each MiB, on average */

/* A pseudo-random number for each byte, the same on every machine (splitmix64). */
static uint64_t gear(unsigned char byte)
{
	uint64_t z = (byte + UINT64_C(1)) * UINT64_C(0x9e3779b97f4a7c15);

	z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
	return z ^ z >> 31;
}

size_t cut_find(const unsigned char *data, size_t len)
{
	static uint64_t table[256];
	uint64_t hash = 0;

	if (len <= LEAST)
		return len;
	len = MIN(len, (size_t)CHUNK_MAX);
	if (table[0] == 0)
		for (unsigned i = 0; i < 256; i++)
			table[i] = gear((unsigned char)i);
	for (size_t i = LEAST - 64; i < len; i++) {
		hash = (hash << 1) + table[data[i]];
		if (i >= LEAST && (hash >> 44 & MASK) == 0)
			return i + 1;
	}
	return len;
}
