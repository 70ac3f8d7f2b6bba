// SPDX-License-Identifier: Apache-2.0
/* A Cookie field, by which the dashboard's login is known: what is found is what a plain cut at
 * each semicolon finds, in its order, and lies in the field. */
#include "base/auto.h"
#include "http/cookie.h"

#include <assert.h>
#include <stdint.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define NAME "cloche_login"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	auto_free char *field = xcalloc(size + 1, 1);
	auto_free char *copy = NULL;
	const char *rest = field;
	struct cookie found;
	char *left;

	memcpy(field, data, size);
	copy = xstrndup(field, size);
	left = copy;
	for (char *part; (part = strsep(&left, ";"));) {
		part += strspn(part, " \t");
		if (strncmp(part, NAME "=", sizeof(NAME)) != 0)
			continue;
		part += sizeof(NAME);
		assert(cookie_next(&rest, NAME, &found));
		assert(found.value - field == part - copy);
		assert(found.len == strcspn(part, " \t"));
		assert(memcmp(found.value, part, found.len) == 0);
		assert(rest > found.value - 1 && rest <= field + strlen(field));
	}
	assert(!cookie_next(&rest, NAME, &found));
	return 0;
}
