// SPDX-License-Identifier: Apache-2.0
#include "base/digest.h"

#include <string.h>

static const char digits[] = "0123456789abcdef";

bool digest_is_zero(const struct digest *d)
{
	return digest_equal(d, &(struct digest){0});
}

bool digest_equal(const struct digest *a, const struct digest *b)
{
	return memcmp(a->bytes, b->bytes, DIGEST_LEN) == 0;
}

void digest_to_hex(const struct digest *d, char ret[DIGEST_HEX])
{
	for (size_t i = 0; i < DIGEST_LEN; i++) {
		ret[2 * i] = digits[d->bytes[i] >> 4];
		ret[2 * i + 1] = digits[d->bytes[i] & 15];
	}
	ret[DIGEST_HEX - 1] = '\0';
}

static int digit(char c)
{
	const char *at = c ? strchr(digits, c) : NULL;

	return at ? (int)(at - digits) : -1;
}

int digest_parse(const char *hex, struct digest *ret)
{
	struct digest d;

	if (strnlen(hex, DIGEST_HEX) != DIGEST_HEX - 1)
		return -EINVAL;
	for (size_t i = 0; i < DIGEST_LEN; i++) {
		int high = digit(hex[2 * i]), low = digit(hex[2 * i + 1]);

		if (high < 0 || low < 0)
			return -EINVAL;
		d.bytes[i] = (uint8_t)(high << 4 | low);
	}
	*ret = d;
	return 0;
}
