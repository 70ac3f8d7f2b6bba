// SPDX-License-Identifier: Apache-2.0
#pragma once
/* The program that an expression is compiled to. Shared by regex.c, which compiles it, and
 * regex_run.c, which runs it. */
#include "net/match/regex.h"

#define CLASSES_MAX 64

enum op {
	OP_BYTE,  /* takes this byte */
	OP_CLASS, /* takes a byte of this class */
	OP_FORK,  /* goes on at both */
	OP_JUMP,
	OP_BEGIN, /* only here */
	OP_END,
	OP_WORD_EDGE,
	OP_NO_WORD_EDGE,
	OP_MATCH,
};

struct step {
	enum op op;
	int x, y; /* the byte or class; or relative jump targets */
};

struct set {
	uint64_t bits[4];
};

struct regex {
	struct step steps[REGEX_STATES_MAX];
	int n;
	struct set classes[CLASSES_MAX];
	int n_classes;
};

static inline bool set_has(const struct set *s, unsigned byte)
{
	return s->bits[byte / 64] & BIT64(byte % 64);
}
