// SPDX-License-Identifier: Apache-2.0
#include "cluster/tag.h"

#include "base/id.h"

#include <assert.h>
#include <string.h>

static const char *letters_of(const char *id)
{
	const char *kind_end = strchr(id, '_');

	return kind_end ? kind_end + 1 : id;
}

int32_t tag_of(const char *id)
{
	const char *p = letters_of(id);
	int32_t tag = 0;

	if (strlen(p) != ID_RANDOM_LEN)
		return -1;
	for (size_t i = 0; i < ID_RANDOM_LEN; i++) {
		int bits = id_letter_bits(p[i]);

		if (bits < 0)
			return -1;
		if (i < TAG_LETTERS)
			tag = tag << 5 | bits;
	}
	return tag;
}

void tag_put(char *id, uint32_t tag)
{
	char *p = id + (letters_of(id) - id);

	assert(tag < TAG_COUNT && strlen(p) == ID_RANDOM_LEN);
	for (size_t i = 0; i < TAG_LETTERS; i++)
		p[i] = id_letter(tag >> (5 * (TAG_LETTERS - 1 - i)));
}

static int by_tag(const void *a, const void *b)
{
	const struct tag_row *x = a, *y = b;

	return (x->tag > y->tag) - (x->tag < y->tag);
}

int tag_map_set(struct tag_map *map, const struct tag_row *rows, size_t n)
{
	auto_free struct tag_row *sorted = xnew0n(struct tag_row, n + 1);

	if (n)
		memcpy(sorted, rows, n * sizeof(*rows));
	qsort(sorted, n, sizeof(*sorted), by_tag);
	for (size_t i = 0; i < n; i++) {
		if (sorted[i].tag >= TAG_COUNT || sorted[i].node == 0)
			return -EINVAL;
		if (i > 0 && sorted[i].tag == sorted[i - 1].tag)
			return -EEXIST;
	}
	free(map->rows);
	map->rows = take_ptr(sorted);
	map->n = n;
	return 0;
}

uint32_t tag_map_find(const struct tag_map *map, uint32_t tag)
{
	struct tag_row key = {.tag = tag};
	const struct tag_row *row =
		map->n ? bsearch(&key, map->rows, map->n, sizeof(key), by_tag) : NULL;

	return row ? row->node : 0;
}

void tag_map_done(struct tag_map *map)
{
	free(map->rows);
	*map = (struct tag_map){0};
}
