// SPDX-License-Identifier: Apache-2.0
/*
 * The pattern is an automaton whose states are the places in it. The set of places that the text so
 * far can have led to is kept as bits, and each byte of the text moves all of them at once.
 */
#include "net/glob.h"

#include <string.h>

#define WORDS ((GLOB_MAX + 1) / 64)

struct places {
	uint64_t bits[WORDS];
};

int glob_check(const char *pattern, const char **why)
{
	if (*pattern == '\0')
		return refuse_as(why, "is empty");
	if (strlen(pattern) > GLOB_MAX)
		return refuse_as(why, "has more than 255 bytes");
	if (strstr(pattern, "***"))
		return refuse_as(why, "has three stars in a row, which mean nothing");
	return 0;
}

static size_t star_len(const char *at)
{
	return at[0] != '*' ? 0 : at[1] == '*' ? 2 : 1;
}

/* A star may match nothing, so that being before it is also being behind it. */
static void add(struct places *set, const char *pattern, size_t at)
{
	size_t n;

	do {
		set->bits[at / 64] |= BIT64(at % 64);
		n = star_len(pattern + at);
		at += n;
	} while (n > 0);
}

static bool has(const struct places *set, size_t at)
{
	return set->bits[at / 64] & BIT64(at % 64);
}

static struct places step(const struct places *from, const char *pattern, size_t len, char byte,
                          bool is_divider)
{
	struct places to = {0};

	for (size_t at = 0; at < len; at++) {
		size_t n = star_len(pattern + at);

		if (!has(from, at))
			continue;
		if (n == 2 || (n == 1 && !is_divider))
			add(&to, pattern, at);
		else if (n == 0 && (pattern[at] == '?' ? !is_divider : pattern[at] == byte))
			add(&to, pattern, at + 1);
	}
	return to;
}

bool glob_matches(const char *pattern, const char *text, char divider)
{
	size_t len = strlen(pattern);
	struct places set = {0};

	add(&set, pattern, 0);
	for (; *text; text++)
		set = step(&set, pattern, len, *text, divider != '\0' && *text == divider);
	return has(&set, len);
}
