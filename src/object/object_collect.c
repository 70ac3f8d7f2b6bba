// SPDX-License-Identifier: Apache-2.0
#include "object/object_collect.h"

#include <string.h>

static int compare(const void *a, const void *b)
{
	return memcmp(a, b, DIGEST_LEN);
}

static bool is_older(uint64_t written_us, uint64_t now_us, uint64_t than_us)
{
	return now_us > written_us && now_us - written_us > than_us;
}

bool object_is_fresh(uint64_t written_us, uint64_t now_us)
{
	return !is_older(written_us, now_us, OBJECT_FRESH_US);
}

size_t object_collect(struct object_row *rows, size_t n, struct digest *needed, size_t n_needed,
                      uint64_t began_us, bool is_whole)
{
	size_t n_removed = 0;

	if (!is_whole)
		return 0;
	if (n_needed > 0)
		qsort(needed, n_needed, sizeof(*needed), compare);
	for (size_t i = 0; i < n; i++) {
		const struct object_row row = rows[i];

		if (!is_older(row.written_us, began_us, OBJECT_GRACE_US) ||
		    (n_needed > 0 &&
		     bsearch(&row.name, needed, n_needed, sizeof(*needed), compare)))
			continue;
		rows[i] = rows[n_removed];
		rows[n_removed++] = row;
	}
	return n_removed;
}
