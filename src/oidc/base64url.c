// SPDX-License-Identifier: Apache-2.0
#include "oidc/base64url.h"

static int digit(char c)
{
	if (c >= 'A' && c <= 'Z')
		return c - 'A';
	if (c >= 'a' && c <= 'z')
		return c - 'a' + 26;
	if (c >= '0' && c <= '9')
		return c - '0' + 52;
	if (c == '-')
		return 62;
	return c == '_' ? 63 : -1;
}

ssize_t base64url_decode(const char *text, size_t len, void *ret)
{
	unsigned char *out = ret;
	unsigned bits = 0, n_bits = 0;
	ssize_t n = 0;

	if (len % 4 == 1)
		return -EINVAL;
	for (size_t i = 0; i < len; i++) {
		int d = digit(text[i]);

		if (d < 0)
			return -EINVAL;
		bits = bits << 6 | (unsigned)d;
		n_bits += 6;
		if (n_bits < 8)
			continue;
		n_bits -= 8;
		out[n++] = (unsigned char)(bits >> n_bits);
		bits &= BIT(n_bits) - 1;
	}
	return bits == 0 ? n : -EINVAL;
}
