// SPDX-License-Identifier: Apache-2.0
/* Records of a bundle: what is taken is sound, and comes out again as the same bytes. */
#include "proto/bundle.h"

#include <assert.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct bundle_record r;
	size_t used;

	while (bundle_decode(data, size, &r, &used) == 1) {
		auto_call(buf_done) struct buf out = BUF_INIT(BUNDLE_RECORD_MAX);

		assert(used <= size);
		assert(!r.path || bundle_path_is_good(r.path));
		assert(bundle_encode(&r, &out) == 0);
		assert(out.len == used && memcmp(out.data, data, used) == 0);
		bundle_record_done(&r);
		data += used;
		size -= used;
	}
	return 0;
}
