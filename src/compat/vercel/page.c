// SPDX-License-Identifier: Apache-2.0
/*
 * Lists, page by page. A cursor has the sort key and the id of the last item of the page before
 * ("KEY.ID"), so it stays good while others come and go, and every node of a cluster can go on
 * behind it.
 *
 * In a cluster the page begins with the same request to all other nodes. Each answers with its
 * first items behind the cursor, as many as the page may have, so the first ones of all together
 * are the page.
 */
#include "api/frame/late_reply.h"
#include "api/frame/reply.h"
#include "api/nodes/node_rows.h"
#include "base/parse.h"
#include "compat/vercel/wire.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define PAGE_CURSOR_SIZE 300 /* the longest key and the longest id */

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

bool page_sorts_by(const struct page_query *q, const char *field)
{
	return q->sort_by && strcmp(q->sort_by, field) == 0;
}

static struct page_item *add(struct page_items *items)
{
	if (items->n == items->size) {
		items->size = items->size ? 2 * items->size : 64;
		items->at = xrealloc(items->at, items->size * sizeof(*items->at));
	}
	items->at[items->n] = (struct page_item){0};
	return &items->at[items->n++];
}

void page_add(struct page_items *items, const char *id, const void *object, uint64_t at_ms,
              const char *text)
{
	struct page_item *item = add(items);

	(void)snprintf(item->id, sizeof(item->id), "%s", id);
	item->object = object;
	item->at_ms = at_ms;
	item->text = text;
}

static int compare(const struct page_item *x, const struct page_item *y)
{
	int order = x->text && y->text ? strcmp(x->text, y->text)
	                               : (x->at_ms > y->at_ms) - (x->at_ms < y->at_ms);

	return order ? order : strcmp(x->id, y->id);
}

static int rising(const void *a, const void *b)
{
	return compare(a, b);
}

static int falling(const void *a, const void *b)
{
	return compare(b, a);
}

/* "KEY.ID"; an id has no dot. False: it is none. text keeps the key. */
static bool read_cursor(const char *cursor, bool is_text, char *text, struct page_item *ret)
{
	char *dot;

	(void)snprintf(text, PAGE_CURSOR_SIZE, "%s", cursor);
	dot = strrchr(text, '.');
	if (!dot)
		return false;
	*dot = '\0';
	*ret = (struct page_item){.text = is_text ? text : NULL};
	(void)snprintf(ret->id, sizeof(ret->id), "%.*s", (int)sizeof(ret->id) - 1, dot + 1);
	return is_text || parse_u64(text, UINT64_MAX, &ret->at_ms) == 0;
}

static void put_cursor(struct json_writer *w, const struct page_item *last)
{
	char cursor[PAGE_CURSOR_SIZE];

	if (last->text)
		(void)snprintf(cursor, sizeof(cursor), "%s.%s", last->text, last->id);
	else
		(void)snprintf(cursor, sizeof(cursor), "%" PRIu64 ".%s", last->at_ms, last->id);
	json_put_str(w, "next", cursor);
}

static const char *sort_of(const struct page_kind *kind, const struct page_query *q)
{
	for (size_t i = 0; i < ARRAY_SIZE(kind->sorts) && kind->sorts[i]; i++)
		if (page_sorts_by(q, kind->sorts[i]))
			return kind->sorts[i];
	return kind->sorts[0];
}

/* Rows of another node are read as a stranger's. */
static void add_part(const struct page_kind *kind, const char *sort, const struct peer_answer *a,
                     struct page_items *items)
{
	const json_t *rows = json_object_get(a->body, kind->array), *row;
	size_t i;

	json_array_foreach(rows, i, row)
	{
		const char *id = json_string_value(json_object_get(row, kind->id_field));
		const json_t *key = json_object_get(row, sort);
		struct page_item *item;

		if (!id || strlen(id) >= PAGE_ID_SIZE || strchr(id, '.') ||
		    (!json_is_string(key) && json_integer_value(key) <= 0))
			continue;
		item = add(items);
		(void)snprintf(item->id, sizeof(item->id), "%s", id);
		item->row = row;
		item->text = json_string_value(key);
		item->at_ms = item->text ? 0 : (uint64_t)json_integer_value(key);
	}
}

static bool has_more_there(const struct peer_answers *answers)
{
	for (size_t i = 0; answers && i < answers->n; i++)
		if (json_is_string(json_object_get(
			    json_object_get(answers->at[i].body, "pagination"), "next")))
			return true;
	return false;
}

static size_t first_behind(const struct page_items *items, const struct page_query *q, bool is_text)
{
	char text[PAGE_CURSOR_SIZE];
	struct page_item cursor;
	size_t from = 0;

	if (!q->cursor || !read_cursor(q->cursor, is_text, text, &cursor))
		return 0;
	while (from < items->n && (q->is_ascending ? compare(&items->at[from], &cursor) <= 0
	                                           : compare(&items->at[from], &cursor) >= 0))
		from++;
	return from;
}

/* answers: of the other nodes; NULL: this node's part is all. */
static int reply_page(struct http_req *req, const struct page_kind *kind,
                      const struct peer_answers *answers, struct err *err)
{
	struct page_items items = {0};
	size_t from, count;
	struct page_query q;
	struct json_writer *w;
	struct reply reply;
	const char *sort;
	int r = page_read(req, kind->limit_default, kind->limit_max, &q, err);

	if (r < 0)
		return r;
	sort = sort_of(kind, &q);
	kind->collect(req, &q, &items);
	for (size_t i = 0; answers && i < answers->n; i++)
		add_part(kind, sort, &answers->at[i], &items);
	if (items.n > 1)
		qsort(items.at, items.n, sizeof(*items.at), q.is_ascending ? rising : falling);
	from = first_behind(&items, &q, strcmp(sort, "name") == 0);
	count = MIN(items.n - from, (size_t)q.limit);
	w = reply_begin(&reply);
	json_open_array(w, kind->array);
	for (const struct page_item *item = items.at + from; item < items.at + from + count; item++)
		if (item->object)
			kind->put(w, item->object);
		else
			json_put_value(w, NULL, item->row);
	json_close_array(w);
	json_open_object(w, "pagination");
	json_put_u64(w, "count", count);
	if (count > 0 && (from + count < items.n || has_more_there(answers)))
		put_cursor(w, &items.at[from + count - 1]);
	else
		json_put_null(w, "next");
	json_close_object(w);
	free(items.at);
	return reply_send(&reply, req, 200, err);
}

struct page_waiting {
	struct late_reply late;
	const struct page_kind *kind;
};

static void on_peers(const struct peer_answers *answers, void *arg)
{
	const struct page_kind *kind = ((struct page_waiting *)arg)->kind;
	struct http_req *req = late_reply_take(arg, NULL);
	struct err err;

	if (!req)
		return;
	node_tell_incomplete(req, answers);
	if (reply_page(req, kind, answers, &err) < 0)
		http_reply_err(req, &err);
}

int page_list(struct http_req *req, const struct page_kind *kind, struct err *err)
{
	const struct api *api = http_app_arg(req);
	struct page_waiting *p;
	struct page_query q;
	int r = page_read(req, kind->limit_default, kind->limit_max, &q, err);

	if (r < 0)
		return r;
	if (!api->ask_peers || !node_is_in(api->node))
		return reply_page(req, kind, /* answers= */ NULL, err);
	p = late_reply_new(req, sizeof(*p));
	p->kind = kind;
	r = api->ask_peers(req, on_peers, p, err);
	if (r > 0)
		return r;
	(void)late_reply_drop(p, r);
	return r < 0 ? r : reply_page(req, kind, /* answers= */ NULL, err);
}
