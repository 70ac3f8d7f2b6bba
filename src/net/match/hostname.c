// SPDX-License-Identifier: Apache-2.0
/*
 * A name is copied label by label, and each byte is checked as it is copied. Nothing is decoded:
 * NUL, blank, '%', '@', '#', ':' and every byte beyond ASCII are refused like any other byte that
 * is not in the alphabet. So a resolver cannot read the name in another way.
 *
 * A pattern is a name in which a label may be '*'. It is matched label by label from the last to
 * the first, so "evilexample.com" and "example.com.evil.tld" do not match "*.example.com".
 */
#include "net/match/hostname.h"

#include <string.h>

#define LABEL_MAX 63

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static char lower(char c)
{
	return (char)(c >= 'A' && c <= 'Z' ? c + ('a' - 'A') : c);
}

static bool is_label_byte(char c)
{
	return is_digit(c) || (c >= 'a' && c <= 'z') || c == '-' || c == '_';
}

static int check_byte(char c, const char **why)
{
	if (is_label_byte(c))
		return 0;
	if ((unsigned char)c >= 0x80)
		return refuse_as(why, "has letters outside of ASCII: write its 'xn--' form");
	if (c == '*')
		return refuse_as(why, "has a '*' that does not stand alone before the first dot");
	return refuse_as(why, "has a character that no host name has");
}

/* The bytes of label are checked already; this checks its form. */
static int check_label(const char *label, size_t len, const char **why)
{
	if (len == 0)
		return refuse_as(why, "has an empty label");
	if (len > LABEL_MAX)
		return refuse_as(why, "has a label of more than 63 characters");
	if (label[0] == '-' || label[len - 1] == '-')
		return refuse_as(why, "has a label that begins or ends with '-'");
	return 0;
}

/* What inet_aton() would take for the last part of an address: digits, or 0x and hex digits. */
static bool is_number(const char *label, size_t len)
{
	size_t from = len >= 2 && label[0] == '0' && label[1] == 'x' ? 2 : 0;

	for (size_t i = from; i < len; i++)
		if (!is_digit(label[i]) && !(from && label[i] >= 'a' && label[i] <= 'f'))
			return false;
	return true;
}

/* Appends one label to *name; *label_len is the number of bytes taken from text. */
static int copy_label(struct hostname *name, const char *text, size_t len, bool stars,
                      size_t *label_len, const char **why)
{
	const char *dot = memchr(text, '.', len);
	size_t n = dot ? (size_t)(dot - text) : len;
	char *to = name->text + name->len;

	*label_len = n;
	if ((size_t)name->len + n > HOSTNAME_MAX)
		return refuse_as(why, "has more than 253 characters");
	name->len = (uint8_t)(name->len + n);
	if (stars && n == 1 && text[0] == '*') {
		*to = '*';
		return 0;
	}
	for (size_t i = 0; i < n; i++) {
		to[i] = lower(text[i]);
		if (check_byte(to[i], why) < 0)
			return -EINVAL;
	}
	return check_label(to, n, why);
}

static int parse(const char *text, size_t len, bool stars, struct hostname *ret, const char **why)
{
	struct hostname name = {0};
	size_t at = 0, n = 0;

	if (len == 0)
		return refuse_as(why, "is empty");
	if (text[len - 1] == '.')
		len--;
	for (;;) {
		if (copy_label(&name, text + at, len - at, stars, &n, why) < 0)
			return -EINVAL;
		at += n;
		if (at == len)
			break;
		if (name.len == HOSTNAME_MAX)
			return refuse_as(why, "has more than 253 characters");
		name.text[name.len++] = '.';
		at++;
	}
	if (is_number(name.text + name.len - n, n))
		return refuse_as(why, "ends in a number, so it is neither a name nor an address "
		                      "in its full form");
	*ret = name;
	return 0;
}

int hostname_parse(const char *text, size_t len, struct hostname *ret, const char **why)
{
	return parse(text, len, /* stars= */ false, ret, why);
}

bool hostname_is_equal(const struct hostname *a, const struct hostname *b)
{
	return a->len == b->len && memcmp(a->text, b->text, a->len) == 0;
}

int hostname_compare(const struct hostname *a, const struct hostname *b)
{
	return strcmp(a->text, b->text);
}

bool hostname_is_local(const struct hostname *name)
{
	static const char word[] = "localhost";
	size_t len = sizeof(word) - 1;

	return name->len >= len && memcmp(name->text + name->len - len, word, len) == 0 &&
	       (name->len == len || name->text[name->len - len - 1] == '.');
}

int hostname_pattern_parse(const char *text, size_t len, struct hostname_pattern *ret,
                           const char **why)
{
	struct hostname_pattern p = {0};

	if (len == 1 && text[0] == '*') {
		ret->name = (struct hostname){.len = 1, .text = "*"};
		return 0;
	}
	if (parse(text, len, /* stars= */ true, &p.name, why) < 0)
		return -EINVAL;
	if (p.name.text[p.name.len - 1] == '*')
		return refuse_as(why, "ends in '*', which would match names of anybody");
	*ret = p;
	return 0;
}

/* The last label of the first *len bytes; *len becomes the length before it and its dot. */
static const char *pop_label(const char *text, size_t *len, size_t *label_len)
{
	const char *dot = memrchr(text, '.', *len);
	size_t from = dot ? (size_t)(dot - text) + 1 : 0;

	*label_len = *len - from;
	*len = dot ? from - 1 : 0;
	return text + from;
}

bool hostname_pattern_matches(const struct hostname_pattern *pattern, const struct hostname *name)
{
	size_t p_len = pattern->name.len, n_len = name->len;

	while (p_len > 0 && n_len > 0) {
		size_t p_label_len, n_label_len;
		const char *p_label = pop_label(pattern->name.text, &p_len, &p_label_len);
		const char *n_label = pop_label(name->text, &n_len, &n_label_len);
		bool is_star = p_label_len == 1 && p_label[0] == '*';

		if (is_star && p_len == 0)
			return true; /* the first label: this one and all before it */
		if (!is_star &&
		    (p_label_len != n_label_len || memcmp(p_label, n_label, p_label_len) != 0))
			return false;
	}
	return p_len == 0 && n_len == 0;
}
