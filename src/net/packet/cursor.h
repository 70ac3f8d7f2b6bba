// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * Reads packets with length-prefixed parts. A cursor is a piece of the packet. Reading past its end
 * gives zeros and marks it as failed for good, so a series of reads needs one check at its end.
 */
#include "base/auto.h"

#include <stdbool.h>

struct cursor {
	const uint8_t *at;
	size_t left;
	bool failed;
};

static inline const uint8_t *cursor_bytes(struct cursor *c, size_t n)
{
	const uint8_t *at = c->at;

	if (c->failed || c->left < n) {
		c->failed = true;
		c->left = 0;
		return NULL;
	}
	c->at += n;
	c->left -= n;
	return at;
}

static inline uint8_t cursor_u8(struct cursor *c)
{
	const uint8_t *p = cursor_bytes(c, 1);

	return p ? p[0] : 0;
}

static inline uint16_t cursor_u16(struct cursor *c)
{
	const uint8_t *p = cursor_bytes(c, 2);

	if (!p)
		return 0;
	return (uint16_t)((unsigned)p[0] << 8 | p[1]);
}

static inline uint32_t cursor_u32(struct cursor *c)
{
	uint32_t high = cursor_u16(c);

	return high << 16 | cursor_u16(c);
}

/* A piece of n bytes; an empty, failed one if the cursor has failed. */
static inline struct cursor cursor_piece(struct cursor *c, size_t n)
{
	const uint8_t *p = cursor_bytes(c, n);

	return (struct cursor){p, p ? n : 0, !p};
}
