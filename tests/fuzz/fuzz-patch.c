// SPDX-License-Identifier: Apache-2.0
/* Two texts that sandboxes wrote: their patch is made within its bound, or there is none. */
#include "agent/archive/patch.h"

#include <assert.h>

#define PATCH_MAX 65536

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	auto_call(buf_done) struct buf out = BUF_INIT(PATCH_MAX);
	size_t cut = size > 0 ? (size_t)data[0] * size / 256 : 0;
	const char *text = (const char *)data;

	(void)patch_is_text(text, size);
	if (patch_make(text, cut, text + cut, size - cut, &out) < 0)
		assert(out.len == 0);
	assert(out.len <= PATCH_MAX);
	return 0;
}
