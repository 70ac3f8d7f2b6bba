// SPDX-License-Identifier: Apache-2.0
/* Three lines: Host, target, Cookie. Whatever is read from them is whole and bounded. */
#include "base/id.h"
#include "preview/preview_private.h"

#include <assert.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct preview preview = {.domain = "preview.test"};
	struct visit v = {.preview = &preview, .target = BUF_INIT(PREVIEW_TARGET_MAX)};
	char *text = xcalloc(size + 1, 1), *rest = text;
	const char *host, *target, *cookies;

	memcpy(text, data, size);
	host = strsep(&rest, "\n");
	target = rest ? strsep(&rest, "\n") : "/";
	cookies = rest;
	if (visit_read(&v, host, target) == 1) {
		assert(v.target.len > 0 && v.target.data[v.target.len - 1] == '\0');
		assert(strlen(v.target.data) + 1 == v.target.len);
		assert(!v.is_by_path || v.port == 0 ||
		       strncmp(target, v.prefix, strlen(v.prefix)) == 0);
		assert(!v.is_by_path || v.port == 0 || strncmp(v.prefix, "/p/", 3) == 0);
		assert(v.is_by_path || v.port == 0 || strncmp(v.id, "sb_", 3) == 0 ||
		       !id_is_valid(v.id, "sb"));
		while (visit_next_cookie(&cookies, v.token))
			assert(v.token[0] != '\0' && strlen(v.token) < ID_SIZE);
		assert(strlen(v.token) < ID_SIZE && strlen(v.id) < ID_SIZE);
	}
	buf_done(&v.target);
	free(text);
	return 0;
}
