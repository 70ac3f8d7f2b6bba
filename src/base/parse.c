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

/* A table, since bodies of megabytes are read in one turn of a loop. */
#define KNOWN 0x40
static const unsigned char base64_values[256] = {
	['A'] = KNOWN | 0,  ['B'] = KNOWN | 1,  ['C'] = KNOWN | 2,  ['D'] = KNOWN | 3,
	['E'] = KNOWN | 4,  ['F'] = KNOWN | 5,  ['G'] = KNOWN | 6,  ['H'] = KNOWN | 7,
	['I'] = KNOWN | 8,  ['J'] = KNOWN | 9,  ['K'] = KNOWN | 10, ['L'] = KNOWN | 11,
	['M'] = KNOWN | 12, ['N'] = KNOWN | 13, ['O'] = KNOWN | 14, ['P'] = KNOWN | 15,
	['Q'] = KNOWN | 16, ['R'] = KNOWN | 17, ['S'] = KNOWN | 18, ['T'] = KNOWN | 19,
	['U'] = KNOWN | 20, ['V'] = KNOWN | 21, ['W'] = KNOWN | 22, ['X'] = KNOWN | 23,
	['Y'] = KNOWN | 24, ['Z'] = KNOWN | 25, ['a'] = KNOWN | 26, ['b'] = KNOWN | 27,
	['c'] = KNOWN | 28, ['d'] = KNOWN | 29, ['e'] = KNOWN | 30, ['f'] = KNOWN | 31,
	['g'] = KNOWN | 32, ['h'] = KNOWN | 33, ['i'] = KNOWN | 34, ['j'] = KNOWN | 35,
	['k'] = KNOWN | 36, ['l'] = KNOWN | 37, ['m'] = KNOWN | 38, ['n'] = KNOWN | 39,
	['o'] = KNOWN | 40, ['p'] = KNOWN | 41, ['q'] = KNOWN | 42, ['r'] = KNOWN | 43,
	['s'] = KNOWN | 44, ['t'] = KNOWN | 45, ['u'] = KNOWN | 46, ['v'] = KNOWN | 47,
	['w'] = KNOWN | 48, ['x'] = KNOWN | 49, ['y'] = KNOWN | 50, ['z'] = KNOWN | 51,
	['0'] = KNOWN | 52, ['1'] = KNOWN | 53, ['2'] = KNOWN | 54, ['3'] = KNOWN | 55,
	['4'] = KNOWN | 56, ['5'] = KNOWN | 57, ['6'] = KNOWN | 58, ['7'] = KNOWN | 59,
	['8'] = KNOWN | 60, ['9'] = KNOWN | 61, ['+'] = KNOWN | 62, ['/'] = KNOWN | 63,
};

/* The 24 bits of four characters, or UINT32_MAX. */
static uint32_t base64_word(const unsigned char text[4])
{
	const uint32_t a = base64_values[text[0]], b = base64_values[text[1]];
	const uint32_t c = base64_values[text[2]], d = base64_values[text[3]];

	if (!(a & b & c & d & KNOWN))
		return UINT32_MAX;
	return (a & 0x3f) << 18 | (b & 0x3f) << 12 | (c & 0x3f) << 6 | (d & 0x3f);
}

/* The last four, of which one or two may be padding. Returns how many bytes they stand for. */
static ssize_t base64_decode_end(const char *text, unsigned char *ret)
{
	const int pad = (text[3] == '=') + (text[3] == '=' && text[2] == '=');
	unsigned char four[] = {(unsigned char)text[0], (unsigned char)text[1],
	                        (unsigned char)(pad > 1 ? 'A' : text[2]),
	                        (unsigned char)(pad > 0 ? 'A' : text[3])};
	const uint32_t word = base64_word(four);

	if (word == UINT32_MAX || (pad == 1 && (word & 0xff)) || (pad == 2 && (word & 0xffff)))
		return -EINVAL;
	for (int i = 0; i < 3 - pad; i++)
		ret[i] = (unsigned char)(word >> (16 - 8 * i));
	return 3 - pad;
}

ssize_t base64_decode(const char *text, size_t len, void *ret)
{
	unsigned char *q = ret;
	ssize_t n;

	if (len % 4 != 0)
		return -EINVAL;
	if (len == 0)
		return 0;
	for (size_t i = 0; i < len - 4; i += 4) {
		const uint32_t word = base64_word((const unsigned char *)text + i);

		if (word == UINT32_MAX)
			return -EINVAL;
		*q++ = (unsigned char)(word >> 16);
		*q++ = (unsigned char)(word >> 8);
		*q++ = (unsigned char)word;
	}
	n = base64_decode_end(text + len - 4, q);
	return n < 0 ? n : q + n - (unsigned char *)ret;
}
