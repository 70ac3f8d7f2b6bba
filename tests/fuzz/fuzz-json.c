// SPDX-License-Identifier: Apache-2.0
/*
 * A JSON text. jansson's parser judges ours: what ours takes, jansson takes as the same value. What
 * only jansson takes is refused with words: it is deeper than ours goes, or a number that no field
 * can hold.
 */
#include "base/json/json.h"

#include <assert.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct err err = {0};
	json_t *ours = NULL, *theirs;

	if (size > 65536)
		return 0;
	theirs = json_loadb((const char *)data, size, JSON_REJECT_DUPLICATES, NULL);
	if (json_parse((const char *)data, size, &ours, &err) < 0) {
		assert(err.message[0]);
		assert(!ours);
		json_decref(theirs);
		return 0;
	}
	assert(theirs);
	assert(json_equal(ours, theirs));
	json_decref(ours);
	json_decref(theirs);
	return 0;
}
