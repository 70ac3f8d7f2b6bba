// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * Patterns for paths and values:
 *	?	one byte
 *	*	any number of bytes
 *	**	the same, and across dividers
 * everything else stands for itself. Of a path the divider is '/', which '?' and '*' do not match;
 * a value has none. Matching takes one step per byte of the text, whatever the pattern: nothing is
 * ever tried twice, so that no pattern of one side and text of the other make it slow together.
 */
#include "net/match/why.h"

#include <stdbool.h>

#define GLOB_MAX 255 /* bytes of a pattern */

must_check int glob_check(const char *pattern, const char **why);
/* All of the text. divider is '\0' where there is none. pattern has passed glob_check(). */
bool glob_matches(const char *pattern, const char *text, char divider);
