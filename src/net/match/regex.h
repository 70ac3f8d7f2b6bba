// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * Regular expressions in a part of RE2's syntax: literals, '.', classes, groups, '|', '*', '+',
 * '?', {n,m} (also lazy), ^ $ \A \z \b \B, \d \w \s and their opposites, (?i) and (?s). They match
 * anywhere in the text unless anchored. The rest of RE2 (Unicode classes, named POSIX classes,
 * (?m)) is refused, and so is everything that needs backtracking.
 *
 * For each byte of the text, matching takes at most as many steps as the expression has states: all
 * possible places are followed at once. Bytes are compared, not characters: '.' is one byte.
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
