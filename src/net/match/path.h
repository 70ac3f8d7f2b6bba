// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * The path of a request, normalised. It is judged and sent on in this form:
 *	%61 to a (letters, digits, - . _ ~), other escapes in capitals; // to /; . and .. resolved.
 * Refused: a '%' without two hex digits, encoded control bytes, bytes that are not UTF-8 (also the
 * overlong forms of '.' and '/'), '..' above the root, and '.' or '..' that only some servers see:
 * beside an encoded slash or backslash, or with a parameter ("..;x").
 *
 * An encoded slash is data to some servers and a slash to others. Some servers decode twice, so
 * "%252e" is a dot to them. Such a path has a second, fully decoded form. A rule that allows must
 * match both forms; a rule that denies needs to match only one.
 */
#include "net/match/why.h"

#include <stdbool.h>

#define PATH_LEN_MAX 16384

struct path {
	char *text;
	char *loose; /* the second reading, or NULL */
};

/* text is the path without the query. On success the caller owns *ret. */
must_check int path_parse(const char *text, size_t len, struct path *ret, const char **why);
void path_done(struct path *p);
