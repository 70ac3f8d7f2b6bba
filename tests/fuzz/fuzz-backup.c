// SPDX-License-Identifier: Apache-2.0
/* A backup's manifest. What is accepted stays beneath the data directory, names parents that come
 * before, and is the same when it is written and read again. */
#include "backup/manifest.h"

#include <assert.h>
#include <stdint.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_part(const struct manifest *m, size_t i)
{
	const struct part *p = &m->parts[i];

	assert(p->path[0] != '/' && p->path[0] != '\0' && !strstr(p->path, "//"));
	assert(strcmp(p->path, "..") != 0 && strncmp(p->path, "../", 3) != 0 &&
	       !strstr(p->path, "/../"));
	if (p->parent)
		assert(manifest_find(m, p->parent) < p && manifest_find(m, p->parent));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct buf text = BUF_INIT(16 << 20), again = BUF_INIT(16 << 20);
	struct manifest m, second;
	struct err err = {0};

	if (manifest_parse((const char *)data, size, &m, &err) < 0) {
		assert(err.message[0] != '\0' && m.n_parts == 0);
		return 0;
	}
	for (size_t i = 0; i < m.n_parts; i++)
		check_part(&m, i);
	if (manifest_to_text(&m, &text, &err) == 0) {
		assert(manifest_parse(text.data, text.len, &second, &err) == 0);
		assert(manifest_to_text(&second, &again, &err) == 0);
		assert(text.len == again.len && memcmp(text.data, again.data, text.len) == 0);
		manifest_done(&second);
	}
	manifest_done(&m);
	buf_done(&text);
	buf_done(&again);
	return 0;
}
