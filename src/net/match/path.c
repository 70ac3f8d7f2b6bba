// SPDX-License-Identifier: Apache-2.0
/*
 * First the escapes are decoded, byte by byte; then the segments are resolved, so "%2e%2e" is a
 * '..' like any other. The result is never longer than the input.
 */
#include "net/match/path.h"

#include "base/parse.h"

#include <string.h>

/* RFC 3986: unreserved. Encoded or not, these mean the same everywhere. */
static bool is_unreserved(unsigned char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
	       (c != '\0' && strchr("-._~", c));
}

static bool is_path_byte(unsigned char c)
{
	return is_unreserved(c) || (c != '\0' && strchr("!$&'()*+,;=:@/[]", c));
}

/* text has room for len bytes and a NUL; plain gets all bytes decoded. */
static int unescape(const char *from, size_t len, char *text, char *plain, const char **why)
{
	static const char hex[] = "0123456789ABCDEF";
	size_t n_plain = 0;

	for (size_t i = 0; i < len; i++) {
		unsigned char byte = (unsigned char)from[i];
		uint64_t value;

		if (byte != '%') {
			if (!is_path_byte(byte))
				return refuse_as(why, "has a character that must be encoded");
			*text++ = (char)byte;
		} else {
			if (len - i < 3 || parse_hex(from + i + 1, 2, &value) < 0)
				return refuse_as(why, "has a '%' without two hex digits");
			i += 2;
			byte = (unsigned char)value;
			if (byte < 0x20 || byte == 0x7f)
				return refuse_as(why, "has an encoded control byte");
			if (is_unreserved(byte)) {
				*text++ = (char)byte;
			} else {
				*text++ = '%';
				*text++ = hex[byte >> 4];
				*text++ = hex[byte & 15];
			}
		}
		plain[n_plain++] = (char)byte;
	}
	*text = '\0';
	return utf8_is_valid(plain, n_plain) ? 0 : refuse_as(why, "is not UTF-8");
}

static bool is_dots(const char *text, size_t len)
{
	return (len == 1 && text[0] == '.') || (len == 2 && text[0] == '.' && text[1] == '.');
}

static bool is_escape_of(const char *text, const char *digits)
{
	return text[0] == '%' && memcmp(text + 1, digits, 2) == 0;
}

static bool is_encoded_slash(const char *text)
{
	return is_escape_of(text, "2F") || is_escape_of(text, "5C");
}

/* Whether a segment has dots that only some servers see: those that decode it, or that cut off
 * parameters. */
static bool has_hidden_dots(const char *segment, size_t len)
{
	size_t from = 0;
	bool is_parameter = false; /* what follows a ';', until the next slash */

	for (size_t i = 0; i <= len; i++) {
		bool is_slash = i < len && is_encoded_slash(segment + i);
		bool is_end = is_slash || i == len || segment[i] == ';' ||
		              is_escape_of(segment + i, "3B");

		if (!is_end)
			continue;
		if (!is_parameter && is_dots(segment + from, i - from))
			return true;
		is_parameter = !is_slash;
		if (is_slash)
			from = i + 3;
	}
	return false;
}

static size_t drop_segment(const char *text, size_t len)
{
	while (text[len - 1] != '/')
		len--;
	return len > 1 ? len - 1 : 0;
}

/* In place: text begins with '/' and so does the result. */
static int resolve(char *text, const char **why)
{
	const char *from = text + 1;
	size_t len = 0;      /* of what is done; each segment is written with its '/' before it */
	bool is_open = true; /* whether a '/' ends it */

	for (;;) {
		size_t n = strcspn(from, "/");
		bool is_last = from[n] == '\0';

		is_open = true;
		if (n == 2 && is_dots(from, 2)) {
			if (len == 0)
				return refuse_as(why, "has a '..' above its root");
			len = drop_segment(text, len);
		} else if (n > 0 && !is_dots(from, n)) {
			if (has_hidden_dots(from, n))
				return refuse_as(why, "has a '..' that not every server sees");
			text[len++] = '/';
			memmove(text + len, from, n);
			len += n;
			is_open = false;
		}
		if (is_last)
			break;
		from += n + 1;
	}
	if (is_open)
		text[len++] = '/';
	text[len] = '\0';
	return 0;
}

/* The length of an escape at text that stands for a slash, or that becomes an unreserved character
 * in *ret when it is decoded repeatedly ("%25" is '%'). 0 if there is none. */
static size_t loose_escape(const char *text, char *ret)
{
	size_t n = 1;
	uint64_t byte;

	if (text[0] != '%')
		return 0;
	while (text[n] == '2' && text[n + 1] == '5')
		n += 2;
	if (text[n] == '\0' || parse_hex(text + n, 2, &byte) < 0)
		return 0;
	if (byte == '/' || byte == '\\')
		*ret = '/';
	else if (n > 1 && is_unreserved((unsigned char)byte))
		*ret = (char)byte;
	else
		return 0;
	return n + 2;
}

/* The path as a server reads it that decodes more; *ret is NULL if that is the same. */
static int make_loose(const char *text, char **ret, const char **why)
{
	auto_free char *loose = xstrdup(text);
	char *to = loose;

	for (const char *from = text; *from;) {
		size_t len = loose_escape(from, to);

		if (len == 0)
			*to = *from;
		to++;
		from += len ? len : 1;
	}
	*to = '\0';
	if (strlen(loose) == strlen(text))
		return 0;
	if (resolve(loose, why) < 0)
		return -EINVAL;
	*ret = take_ptr(loose);
	return 0;
}

int path_parse(const char *text, size_t len, struct path *ret, const char **why)
{
	auto_free char *copy = NULL, *plain = NULL;

	if (len == 0 || text[0] != '/')
		return refuse_as(why, "does not begin with '/'");
	if (len > PATH_LEN_MAX)
		return refuse_as(why, "is longer than 16 KiB");
	copy = xcalloc(len + 1, 1);
	plain = xcalloc(len + 1, 1);
	ret->loose = NULL;
	if (unescape(text, len, copy, plain, why) < 0 || resolve(copy, why) < 0 ||
	    make_loose(copy, &ret->loose, why) < 0)
		return -EINVAL;
	ret->text = take_ptr(copy);
	return 0;
}

void path_done(struct path *p)
{
	free(p->text);
	free(p->loose);
	*p = (struct path){0};
}
