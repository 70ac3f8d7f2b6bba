// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * Patterns for paths and values:
 *	?	one byte
 *	*	any number of bytes
 *	**	the same, and across dividers
 * All other bytes match themselves. In a path the divider is '/', which '?' and '*' do not match; a
 * value has no divider. Matching takes one step per byte of the text for every pattern and never
 * backtracks, so nobody can choose a pattern or a text that makes it slow.
 */
#include "net/match/why.h"

#include <stdbool.h>

#define GLOB_MAX 255 /* bytes of a pattern */

must_check int glob_check(const char *pattern, const char **why);
/* Matches the whole text. divider is '\0' for none. pattern must have passed glob_check(). */
bool glob_matches(const char *pattern, const char *text, char divider);
