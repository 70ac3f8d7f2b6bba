// SPDX-License-Identifier: Apache-2.0
/* A word of `packages`, as a client sends it. What is accepted has its kind in front, begins with
 * nothing that a program takes for an option, and is accepted again as it is spelt. */
#include "build/recipe/package.h"

#include <assert.h>
#include <stdint.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(const json_t *words)
{
	const char *word = json_string_value(json_array_get(words, 0));
	auto_json json_t *again = NULL;

	assert(word && strchr(word, ':') && !strpbrk(word, " \t\n;|&$`'\"\\?"));
	assert(!strchr("-./", strchr(word, ':')[1]));
	assert(package_read(words, PACKAGE_APT, &again, NULL) == 0 && json_equal(again, words));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	auto_json json_t *list = json_array();
	json_t *word = json_stringn((const char *)data, size);

	if (!word) /* no UTF-8 */
		return 0;
	json_array_append_new(list, word);
	for (enum package_kind k = 0; k < PACKAGE_KIND_COUNT; k++) {
		auto_json json_t *words = NULL;
		struct err err = {0};

		if (package_read(list, k, &words, &err) == 0)
			check(words);
		else
			assert(err.code == ERR_INVALID_FIELD && err.message[0] != '\0');
	}
	return 0;
}
