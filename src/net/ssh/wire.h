// SPDX-License-Identifier: Apache-2.0
#pragma once
/* Strings and numbers as SSH has them (RFC 4251, 5). What reads past the end of a piece fails for
 * good, as any cursor. */
#include "base/buf.h"
#include "net/packet/cursor.h"

#include <string.h>

static inline struct cursor ssh_string(struct cursor *c)
{
	uint32_t n = cursor_u32(c);

	return cursor_piece(c, n);
}

static inline bool ssh_is_text(const struct cursor *c, const char *text)
{
	return !c->failed && c->left == strlen(text) && memcmp(c->at, text, c->left) == 0;
}

/* All of it was read, and nothing is left. */
static inline bool ssh_is_over(const struct cursor *c)
{
	return !c->failed && c->left == 0;
}

static inline int ssh_put_u32(struct buf *out, uint32_t n)
{
	const uint8_t bytes[] = {(uint8_t)(n >> 24), (uint8_t)(n >> 16), (uint8_t)(n >> 8),
	                         (uint8_t)n};

	return buf_append(out, bytes, sizeof(bytes));
}

static inline int ssh_put_string(struct buf *out, const void *data, size_t len)
{
	int r = ssh_put_u32(out, (uint32_t)len);

	return r < 0 || len == 0 ? r : buf_append(out, data, len);
}

static inline int ssh_put_text(struct buf *out, const char *text)
{
	return ssh_put_string(out, text, strlen(text));
}
