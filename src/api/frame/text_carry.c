// SPDX-License-Identifier: Apache-2.0
#include "api/frame/text_carry.h"

#include "base/parse.h"

#include <string.h>

/* How many bytes at the end (0 to 3) begin a character whose rest is missing. What stands before
 * them does not matter: UTF-8 can be read from any character's first byte. */
static unsigned cut_length(const char *data, size_t len)
{
	for (unsigned n = 1; n <= 3 && n <= len; n++) {
		bool is_cut;

		if (((unsigned char)data[len - n] & 0xc0) == 0x80)
			continue; /* a later byte of one: its first is further back */
		return utf8_valid_prefix(data + len - n, n, &is_cut) == 0 && is_cut ? n : 0;
	}
	return 0;
}

int text_flush(struct text_carry *c, struct buf *out)
{
	int r = buf_append(out, c->bytes, c->len);

	if (r == 0)
		c->len = 0;
	return r;
}

int text_take(struct text_carry *c, const char *data, size_t len, struct buf *out)
{
	size_t before = out->len;
	unsigned cut;
	int r = text_flush(c, out);

	if (r == 0)
		r = buf_append(out, data, len);
	if (r < 0)
		return r;
	cut = cut_length(buf_str(out) + before, out->len - before);
	if (cut > 0) {
		memcpy(c->bytes, out->data + out->len - cut, cut);
		buf_truncate(out, out->len - cut);
		c->len = cut;
	}
	return 0;
}
