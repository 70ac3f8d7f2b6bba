// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * Regular expressions in the syntax of RE2, as far as they are regular: literals, '.', classes,
 * groups, '|', '*', '+', '?', {n,m} (also lazy), ^ $ \A \z \b \B, \d \w \s and their opposites,
 * (?i) and (?s). They are found anywhere in the text unless anchored. What RE2 has beside (Unicode
 * classes, named POSIX classes, (?m)) is refused, and so is what only backtracking can do.
 *
 * Matching takes at most as many steps per byte of the text as the expression has states, whatever
 * the two are: all places that it could be at are followed at once. Bytes are compared, not
 * characters: '.' is one byte.
 */
#include "net/match/why.h"

#include <stdbool.h>

#define REGEX_TEXT_MAX   1024
#define REGEX_STATES_MAX 256

struct regex;

/* On success the caller owns *ret. */
must_check int regex_new(const char *text, bool ignores_case, struct regex **ret, const char **why);
void regex_free(struct regex *r); /* NULL is fine */
size_t regex_states(const struct regex *r);
bool regex_matches(const struct regex *r, const char *text);
