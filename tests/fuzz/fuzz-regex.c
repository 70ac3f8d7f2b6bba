// SPDX-License-Identifier: Apache-2.0
/*
 * An expression and a text, divided by a newline. What is accepted stays the same with a group
 * around it, and with "anything" before it at the text's beginning.
 */
#include "net/match/regex.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define INPUT_MAX 2048

static void check_same(const char *before, const char *expression, const char *text, bool matches)
{
	char other[INPUT_MAX + 64];
	struct regex *r;

	(void)snprintf(other, sizeof(other), "%s(?:%s)", before, expression);
	if (regex_new(other, /* ignores_case= */ false, &r, NULL) < 0)
		return; /* too large by what was added */
	assert(regex_matches(r, text) == matches);
	regex_free(r);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char expression[INPUT_MAX + 1];
	const char *why = NULL;
	struct regex *r;
	char *text;
	bool matches;

	if (size > INPUT_MAX)
		return 0;
	memcpy(expression, data, size);
	expression[size] = '\0';
	text = strchr(expression, '\n');
	if (text)
		*text++ = '\0';
	else
		text = expression + strlen(expression);
	if (regex_new(expression, /* ignores_case= */ false, &r, &why) < 0) {
		assert(why);
		return 0;
	}
	assert(regex_states(r) <= REGEX_STATES_MAX);
	matches = regex_matches(r, text);
	regex_free(r);
	check_same("", expression, text, matches);
	check_same("\\A(?s:.*)", expression, text, matches);
	return 0;
}
