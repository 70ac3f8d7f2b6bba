// SPDX-License-Identifier: Apache-2.0
/*
 * A run keeps the set of places in the program that the text so far leads to, and each byte moves
 * all of them. A place is in the set only once, so a byte costs at most one step per place.
 */
#include "net/match/regex_private.h"

#include <ctype.h>
#include <string.h>

/* The places of a run. Each is there only once; they are handled in the order in which they
 * came. */
struct places {
	int list[REGEX_STATES_MAX];
	int n;
	uint64_t has[REGEX_STATES_MAX / 64];
};

static void add_place(struct places *s, int at)
{
	if (s->has[at / 64] & BIT64(at % 64))
		return;
	s->has[at / 64] |= BIT64(at % 64);
	s->list[s->n++] = at;
}

static bool is_word(const char *text, const char *at, int behind)
{
	if (behind > 0 && at == text)
		return false;
	at -= behind;
	return *at == '_' || (*at > 0 && isalnum((unsigned char)*at));
}

/* Whether an assertion holds at this point of the text. */
static bool holds(enum op op, const char *text, const char *at)
{
	bool is_edge = is_word(text, at, 1) != is_word(text, at, 0);

	switch (op) {
	case OP_BEGIN:
		return at == text;
	case OP_END:
		return *at == '\0';
	case OP_WORD_EDGE:
		return is_edge;
	case OP_NO_WORD_EDGE:
		return !is_edge;
	case OP_BYTE:
	case OP_CLASS:
	case OP_FORK:
	case OP_JUMP:
	case OP_MATCH:
		break;
	}
	return false;
}

/* Follows the steps that take no byte, and puts the places behind the next byte into *next. True if
 * it has matched. */
static bool run_places(const struct regex *r, struct places *now, struct places *next,
                       const char *text, const char *at)
{
	unsigned char byte = (unsigned char)*at;

	for (int i = 0; i < now->n; i++) {
		const struct step *s = &r->steps[now->list[i]];
		int here = now->list[i];

		switch (s->op) {
		case OP_MATCH:
			return true;
		case OP_FORK:
			add_place(now, here + s->x);
			add_place(now, here + s->y);
			break;
		case OP_JUMP:
			add_place(now, here + s->x);
			break;
		case OP_BYTE:
			if (byte != '\0' && byte == s->x)
				add_place(next, here + 1);
			break;
		case OP_CLASS:
			if (byte != '\0' && set_has(&r->classes[s->x], byte))
				add_place(next, here + 1);
			break;
		case OP_BEGIN:
		case OP_END:
		case OP_WORD_EDGE:
		case OP_NO_WORD_EDGE:
			if (holds(s->op, text, at))
				add_place(now, here + 1);
			break;
		}
	}
	return false;
}

bool regex_matches(const struct regex *r, const char *text)
{
	struct places sets[2] = {0};
	struct places *now = &sets[0], *next = &sets[1];

	for (const char *at = text;; at++) {
		struct places *spare = now;

		add_place(now, 0); /* it may begin anywhere */
		if (run_places(r, now, next, text, at))
			return true;
		if (*at == '\0')
			return false;
		now = next;
		next = spare;
		next->n = 0;
		memset(next->has, 0, sizeof(next->has));
	}
}
