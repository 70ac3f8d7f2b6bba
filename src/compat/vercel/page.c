// SPDX-License-Identifier: Apache-2.0
/* A cursor is the id of the last item of the page before, so it stays valid while others come and
 * go.
 */
#include "compat/vercel/wire.h"

#include <string.h>

int page_read(const struct http_req *req, uint64_t limit_default, uint64_t limit_max,
              struct page_query *ret, struct err *err)
{
	const char *order = http_query(req, "sortOrder");
	int r;

	*ret = (struct page_query){.cursor = http_query(req, "cursor"),
	                           .sort_by = http_query(req, "sortBy"),
	                           .name = http_query(req, "name"),
	                           .name_prefix = http_query(req, "namePrefix"),
	                           .tag = http_query(req, "tags"),
	                           .is_ascending = order && strcmp(order, "asc") == 0,
	                           .limit = limit_default};
	r = http_query_u64(req, "limit", 1, UINT32_MAX, &ret->limit, err);
	ret->limit = MIN(ret->limit, limit_max);
	return r;
}

static int by_key(const void *a, const void *b)
{
	const struct page_item *x = a, *y = b;
	int order =
		x->text ? strcmp(x->text, y->text) : (x->at_ms > y->at_ms) - (x->at_ms < y->at_ms);

	/* Items of the same millisecond keep their order. */
	return order ? order : (x->place > y->place) - (x->place < y->place);
}

static void sort(struct page_item *items, size_t n, bool is_ascending)
{
	for (size_t i = 0; i < n; i++)
		items[i].place = i;
	if (n > 1)
		qsort(items, n, sizeof(*items), by_key);
	for (size_t i = 0; !is_ascending && i < n / 2; i++) {
		struct page_item item = items[i];

		items[i] = items[n - 1 - i];
		items[n - 1 - i] = item;
	}
}

void page_put(struct json_writer *w, const char *name, const struct page_query *q,
              struct page_item *items, size_t n,
              void (*put)(struct json_writer *w, const void *object))
{
	size_t from = 0, count;

	sort(items, n, q->is_ascending);
	for (size_t i = 0; q->cursor && i < n; i++)
		if (strcmp(items[i].id, q->cursor) == 0)
			from = i + 1;
	count = MIN(n - from, (size_t)q->limit);
	json_open_array(w, name);
	for (size_t i = 0; i < count; i++)
		put(w, items[from + i].object);
	json_close_array(w);
	json_open_object(w, "pagination");
	json_put_u64(w, "count", count);
	if (from + count < n)
		json_put_str(w, "next", items[from + count - 1].id);
	else
		json_put_null(w, "next");
	json_close_object(w);
}
