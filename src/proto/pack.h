// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * Numbers and byte strings in frames: little endian, no padding, strings as u32 length and bytes.
 * Reading never goes past the payload and errors stick, so a decoder reads all its fields and calls
 * unpack_end() once.
 */
#include "base/buf.h"

#include <stdbool.h>

/* Writing: errors are the buf's, returned by each and collected by the caller with |= or checked
 * once by pack_* order. */
struct pack {
	struct buf *out;
	int error; /* sticks */
};
void pack_u8(struct pack *p, uint8_t v);
void pack_u16(struct pack *p, uint16_t v);
void pack_u32(struct pack *p, uint32_t v);
void pack_u64(struct pack *p, uint64_t v);
void pack_bytes(struct pack *p, const void *data, size_t len); /* u32 length, then the bytes */
void pack_str(struct pack *p, const char *s);                  /* the same; NULL packs as "" */

struct unpack {
	const unsigned char *data;
	size_t len;
	bool is_bad; /* sticks; what is read after it is 0 or empty */
};
uint8_t unpack_u8(struct unpack *u);
uint16_t unpack_u16(struct unpack *u);
uint32_t unpack_u32(struct unpack *u);
uint64_t unpack_u64(struct unpack *u);
const void *unpack_bytes(struct unpack *u, size_t max,
                         size_t *ret_len); /* borrowed from the payload */
/* A string without NUL inside, copied; NULL when bad. The caller frees. */
char *unpack_str(struct unpack *u, size_t max);
must_check int unpack_end(
	const struct unpack *u); /* -EPROTO if anything was bad or bytes are left over */
