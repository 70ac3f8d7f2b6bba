// SPDX-License-Identifier: Apache-2.0
/* Code at a prompt, maybe pasted from somewhere: is it a whole cell? Two empty lines end everything
 * but Python, and Python's quotes and brackets alone. */
#include "base/auto.h"
#include "cli/prompt/cell_complete.h"

#include <assert.h>
#include <stdint.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char *const languages[] = {"python", "javascript", "typescript", "bash", "r"};
	auto_free char *text = xstrndup((const char *)data, size);
	auto_free char *ended = xasprintf("%s\n\n\n", text);

	for (size_t i = 0; i < ARRAY_SIZE(languages); i++) {
		(void)cell_is_complete(languages[i], text);
		assert(cell_is_complete(languages[i], ended) || i == 0);
	}
	return 0;
}
