// SPDX-License-Identifier: Apache-2.0
#pragma once
/* Eight bytes of text at a time. Each test is true if it holds for at least one byte of the
 * word. */
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define WORD_SIZE         sizeof(uint64_t)
#define WORD_EACH(byte)   (UINT64_C(0x0101010101010101) * (byte))
#define WORD_HIGHEST_BITS WORD_EACH(0x80)

static inline uint64_t word_load(const char *data)
{
	uint64_t word;

	memcpy(&word, data, sizeof(word));
	return word;
}

static inline bool word_has_above_ascii(uint64_t word)
{
	return (word & WORD_HIGHEST_BITS) != 0;
}

/* limit: up to 0x80. */
static inline bool word_has_below(uint64_t word, unsigned char limit)
{
	return ((word - WORD_EACH(limit)) & ~word & WORD_HIGHEST_BITS) != 0;
}

static inline bool word_has(uint64_t word, unsigned char byte)
{
	return word_has_below(word ^ WORD_EACH(byte), 1);
}
