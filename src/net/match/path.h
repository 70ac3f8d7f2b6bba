// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * The path of a request, brought to the one form in which it is judged and in which it is sent on:
 *	%61 to a (letters, digits, - . _ ~), other escapes in capitals; // to /; . and .. resolved.
 * Refused: a '%' without two hex digits, encoded control bytes, what does not decode to UTF-8 (the
 * overlong forms of '.' and '/' among it), '..' above the root, and '.' or '..' that only some
 * servers see: beside an encoded slash or backslash, or with a parameter ("..;x").
 *
 * An encoded slash is data to one server and a slash to the next. Some servers decode twice, so
 * that "%252e" is a dot to them. Such a path has a second reading, in which all of it is decoded; a
 * rule that allows must match both, a rule that denies either.
 */
#include "net/match/why.h"

#include <stdbool.h>

#define PATH_LEN_MAX 16384

struct path {
	char *text;
	char *loose; /* the second reading, or NULL */
};

/* The path alone: what is before a query. On success the caller owns *ret. */
must_check int path_parse(const char *text, size_t len, struct path *ret, const char **why);
void path_done(struct path *p);
