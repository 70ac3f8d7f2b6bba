// SPDX-License-Identifier: Apache-2.0
/* A manifest of a stored thing, as it is inside its encryption. What is accepted holds together and
 * is written again as it was, byte for byte. */
#include "object/object_manifest.h"

#include <assert.h>
#include <stdint.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct buf text = BUF_INIT(OBJECT_MANIFEST_MAX);
	struct object_manifest m;
	uint64_t sum = 0;

	if (object_manifest_read(data, size, &m) < 0)
		return 0;
	assert(m.n_chunks == object_chunks_of(m.claim.size) && m.n_bases <= OBJECT_BASES_MAX);
	for (size_t i = 0; i < m.n_chunks; i++) {
		const size_t len = object_chunk_len(m.claim.size, i);

		assert(len > 0 && len <= OBJECT_CHUNK);
		sum += len;
	}
	assert(sum == m.claim.size);
	assert(object_manifest_write(&m, &text) == 0);
	assert(text.len == size && memcmp(text.data, data, size) == 0);
	object_manifest_done(&m);
	buf_done(&text);
	return 0;
}
