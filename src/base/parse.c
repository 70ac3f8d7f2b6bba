// SPDX-License-Identifier: Apache-2.0
#include "base/parse.h"

#include "base/word.h"

#include <string.h>

int parse_u64(const char *text, uint64_t max, uint64_t *ret)
{
	uint64_t value = 0;

	if (text[0] == '\0' || (text[0] == '0' && text[1] != '\0'))
		return -EINVAL;
	for (const char *p = text; *p; p++) {
		if (*p < '0' || *p > '9')
			return -EINVAL;
		if (__builtin_mul_overflow(value, 10, &value) ||
		    __builtin_add_overflow(value, (uint64_t)(*p - '0'), &value))
			return -ERANGE;
	}
	if (value > max)
		return -ERANGE;
	*ret = value;
	return 0;
}

static int hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	if (c >= 'A' && c <= 'F')
		return c - 'A' + 10;
	return -1;
}

int parse_hex(const char *text, size_t len, uint64_t *ret)
{
	uint64_t value = 0;

	if (len == 0 || len > 16)
		return -EINVAL;
	for (size_t i = 0; i < len; i++) {
		int digit = hex_digit(text[i]);

		if (digit < 0)
			return -EINVAL;
		value = value << 4 | (uint64_t)digit;
	}
	*ret = value;
	return 0;
}

int utf8_char(const char *data, size_t len)
{
	const unsigned char *p = (const unsigned char *)data;
	unsigned char lo = 0x80, hi = 0xbf;
	int need;

	if (p[0] < 0x80)
		return 1;
	if (p[0] < 0xc2 || p[0] > 0xf4)
		return 0;
	need = p[0] < 0xe0 ? 2 : p[0] < 0xf0 ? 3 : 4;
	if (p[0] == 0xe0)
		lo = 0xa0;
	else if (p[0] == 0xed)
		hi = 0x9f;
	else if (p[0] == 0xf0)
		lo = 0x90;
	else if (p[0] == 0xf4)
		hi = 0x8f;
	for (int i = 1; i < need; i++) {
		if ((size_t)i >= len)
			return -1;
		if (p[i] < lo || p[i] > hi)
			return 0;
		lo = 0x80;
		hi = 0xbf;
	}
	return need;
}

/* How many bytes at the beginning are ASCII, counted in whole words. Most text is ASCII, and this
 * is fast. */
static size_t skip_ascii(const char *data, size_t len)
{
	size_t at = 0;

	while (len - at >= WORD_SIZE && !word_has_above_ascii(word_load(data + at)))
		at += WORD_SIZE;
	return at;
}

size_t utf8_valid_prefix(const char *data, size_t len, bool *ret_cut)
{
	size_t at = 0;

	*ret_cut = false;
	while (at < len) {
		int n;

		at += skip_ascii(data + at, len - at);
		if (at == len)
			break;
		n = utf8_char(data + at, len - at);
		if (n <= 0) {
			*ret_cut = n < 0;
			break;
		}
		at += (size_t)n;
	}
	return at;
}

bool utf8_is_valid(const char *data, size_t len)
{
	bool cut;

	return utf8_valid_prefix(data, len, &cut) == len;
}

static const char base64_letters[] =
	"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

size_t base64_encode(const void *data, size_t len, char *ret)
{
	const unsigned char *p = data;
	char *q = ret;

	for (; len >= 3; len -= 3, p += 3) {
		*q++ = base64_letters[p[0] >> 2];
		*q++ = base64_letters[(p[0] & 3) << 4 | p[1] >> 4];
		*q++ = base64_letters[(p[1] & 15) << 2 | p[2] >> 6];
		*q++ = base64_letters[p[2] & 63];
	}
	if (len > 0) {
		unsigned char second = len == 2 ? p[1] : 0;

		*q++ = base64_letters[p[0] >> 2];
		*q++ = base64_letters[(p[0] & 3) << 4 | second >> 4];
		*q++ = len == 2 ? base64_letters[(second & 15) << 2] : '=';
		*q++ = '=';
	}
	*q = '\0';
	return (size_t)(q - ret);
}

size_t base64url_encode(const void *data, size_t len, char *ret)
{
	size_t n = base64_encode(data, len, ret);

	while (n > 0 && ret[n - 1] == '=')
		n--;
	ret[n] = '\0';
	for (char *p = ret; *p; p++)
		*p = (char)(*p == '+' ? '-' : *p == '/' ? '_' : *p);
	return n;
}

static int base64_value(char c)
{
	if (c >= 'A' && c <= 'Z')
		return c - 'A';
	if (c >= 'a' && c <= 'z')
		return c - 'a' + 26;
	if (c >= '0' && c <= '9')
		return c - '0' + 52;
	return c == '+' ? 62 : c == '/' ? 63 : -1;
}

ssize_t base64_decode(const char *text, size_t len, void *ret)
{
	unsigned char *q = ret;

	if (len % 4 != 0)
		return -EINVAL;
	for (size_t i = 0; i < len; i += 4) {
		int pad = i + 4 < len ? 0
		                      : (text[i + 3] == '=') +
		                                (text[i + 3] == '=' && text[i + 2] == '=');
		uint32_t word = 0;

		for (int k = 0; k < 4; k++) {
			int v = k >= 4 - pad ? 0 : base64_value(text[i + (size_t)k]);

			if (v < 0)
				return -EINVAL;
			word = word << 6 | (uint32_t)v;
		}
		if ((pad == 1 && (word & 0xff)) || (pad == 2 && (word & 0xffff)))
			return -EINVAL;
		*q++ = (unsigned char)(word >> 16);
		if (pad < 2)
			*q++ = (unsigned char)(word >> 8);
		if (pad < 1)
			*q++ = (unsigned char)word;
	}
	return q - (unsigned char *)ret;
}
