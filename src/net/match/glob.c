// SPDX-License-Identifier: Apache-2.0
/*
 * The pattern is a state machine; its states are the places in the pattern. The set of places that
 * the text so far may have reached is kept as bits. Each byte of the text moves all of them at
 * once: a place before a matching byte moves on by one, a place before a star stays. A star may
 * match nothing, so a place before it is also a place behind it. Two stars never follow each other,
 * so one step completes the set.
 */
#include "net/match/glob.h"

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

/* The places of each kind of character in a pattern. */
struct marks {
	struct places star, deep_star; /* the first of its two */
	struct places any;             /* '?' */
	struct places bytes[256];
};

static void mark(struct places *set, size_t at)
{
	set->bits[at / 64] |= BIT64(at % 64);
}

static void find_marks(const char *pattern, struct marks *ret)
{
	for (size_t at = 0; pattern[at]; at++) {
		if (pattern[at] == '*' && pattern[at + 1] == '*')
			mark(&ret->deep_star, at++);
		else if (pattern[at] == '*')
			mark(&ret->star, at);
		else if (pattern[at] == '?')
			mark(&ret->any, at);
		else
			mark(&ret->bytes[(unsigned char)pattern[at]], at);
	}
}

/* Adds the places of from that are in where to *to, shifted by n. */
static void move(struct places *to, const struct places *from, const struct places *where,
                 unsigned n)
{
	uint64_t carry = 0;

	for (size_t i = 0; i < WORDS; i++) {
		uint64_t bits = from->bits[i] & where->bits[i];

		to->bits[i] |= bits << n | carry;
		carry = n > 0 ? bits >> (64 - n) : 0;
	}
}

static struct places step(const struct marks *marks, const struct places *from, unsigned char byte,
                          bool is_divider)
{
	struct places to = {0};

	move(&to, from, &marks->bytes[byte], 1);
	move(&to, from, &marks->deep_star, 0);
	if (!is_divider) {
		move(&to, from, &marks->any, 1);
		move(&to, from, &marks->star, 0);
	}
	return to;
}

static void pass_stars(const struct marks *marks, struct places *set)
{
	struct places before = *set;

	move(set, &before, &marks->star, 1);
	move(set, &before, &marks->deep_star, 2);
}

bool glob_matches(const char *pattern, const char *text, char divider)
{
	size_t len = strlen(pattern);
	struct places set = {.bits = {1}};
	struct marks marks = {0};

	find_marks(pattern, &marks);
	pass_stars(&marks, &set);
	for (; *text; text++) {
		set = step(&marks, &set, (unsigned char)*text, divider != '\0' && *text == divider);
		pass_stars(&marks, &set);
	}
	return set.bits[len / 64] & BIT64(len % 64);
}
