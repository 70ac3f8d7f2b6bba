// SPDX-License-Identifier: Apache-2.0
/*
 * Output of a sandbox in which hints are looked for. Whatever was printed, a hint is one line of
 * plain text: it goes to terminals, logs and models.
 */
#include "base/text/missing.h"

#include <assert.h>
#include <stdint.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char hint[MISSING_HINT_SIZE];

	memset(hint, 'x', sizeof(hint));
	if (!missing_hint_in((const char *)data, size, hint))
		return 0;
	assert(memchr(hint, '\0', sizeof(hint)) && hint[0] != '\0');
	for (const char *p = hint; *p; p++)
		assert(*p >= ' ' && *p <= '~');
	return 0;
}
