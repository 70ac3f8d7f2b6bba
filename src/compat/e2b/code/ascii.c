// SPDX-License-Identifier: Apache-2.0
#include "compat/e2b/code/code.h"

#include "base/parse.h"

/* A character of more than one byte, and how many it has. */
static uint32_t decode(const unsigned char *p, size_t *ret_len)
{
	size_t len = p[0] >= 0xf0 ? 4 : p[0] >= 0xe0 ? 3 : 2;
	uint32_t c = p[0] & (0xffU >> (len + 1));

	for (size_t i = 1; i < len; i++)
		c = c << 6 | (p[i] & 0x3fU);
	*ret_len = len;
	return c;
}

int ascii_escape(const char *json, size_t len, struct buf *out)
{
	const unsigned char *p = (const unsigned char *)json, *end = p + len;
	int r = 0;

	if (!utf8_is_valid(json, len))
		return -EINVAL;
	while (r == 0 && p < end) {
		const unsigned char *from = p;
		uint32_t c;
		size_t n;

		while (p < end && *p < 0x80)
			p++;
		r = buf_append(out, from, (size_t)(p - from));
		if (r < 0 || p == end)
			break;
		c = decode(p, &n);
		p += n;
		if (c < 0x10000)
			r = buf_printf(out, "\\u%04x", c);
		else
			r = buf_printf(out, "\\u%04x\\u%04x", 0xd800 + ((c - 0x10000) >> 10),
			               0xdc00 + ((c - 0x10000) & 0x3ff));
	}
	return r;
}
