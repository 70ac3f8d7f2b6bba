// SPDX-License-Identifier: Apache-2.0
/* A page of a bucket's listing. Each entry that is told has a key and a time, and only a page that
 * says so goes on behind its last key. */
#include "object/object_listing.h"

#include <assert.h>
#include <stdint.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int on_listed(const struct object_entry *one, void *arg)
{
	size_t *n = arg;

	assert(strlen(one->key) <= OBJECT_KEY_MAX);
	(*n)++;
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	auto_free char *text = xcalloc(size + 1, 1);
	char last[OBJECT_KEY_MAX + 1];
	size_t n = 0;
	int r;

	memcpy(text, data, size);
	r = object_listing_read(text, on_listed, &n, last);
	assert(strlen(last) <= OBJECT_KEY_MAX && (r != 1 || n > 0));
	return 0;
}
