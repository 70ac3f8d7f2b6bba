// SPDX-License-Identifier: Apache-2.0
/*
 * Lines of an export of the event log or the audit log, as whoever checks one gets them from
 * anybody. What is taken for an entry has the hash that it names, and a chain whose name fits.
 */
#include "event/verify.h"

#include <assert.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define INPUT_MAX 16384

static void try_line(struct chain_export *export, const char *line, size_t len)
{
	const char *key = memmem(line, len, ",\"hash\":\"", 9);
	struct chain_link link;
	unsigned char hash[32];
	char hex[CHAIN_HEX_SIZE];
	struct err err = {0};

	if (chain_check_line(line, len, &link, &err) < 0) {
		assert(err.message[0]);
		return;
	}
	for (const char *next = key; next;) {
		key = next;
		next = memmem(key + 1, len - (size_t)(key + 1 - line), ",\"hash\":\"", 9);
	}
	assert(key && link.seq > 0 && strlen(link.chain) < sizeof(link.chain));
	chain_hash(line, (size_t)(key - line), hash);
	chain_hex(hash, hex);
	assert(strcmp(hex, link.hash) == 0);
	if (chain_export_add(export, &link, /* is_partial= */ false, &err) < 0)
		assert(err.message[0]);
	else
		assert(chain_export_find(export, link.chain)->last.seq == link.seq);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct chain_export *export = chain_export_new();
	const char *at = (const char *)data, *end = at + size;

	while (size <= INPUT_MAX && at < end) {
		const char *line_end = memchr(at, '\n', (size_t)(end - at));
		size_t len = (size_t)((line_end ? line_end : end) - at);

		try_line(export, at, len);
		at += len + 1;
	}
	chain_export_free(export);
	return 0;
}
