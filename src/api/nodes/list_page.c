// SPDX-License-Identifier: Apache-2.0
#include "api/nodes/list_page.h"

#include "api/frame/cursor.h"
#include "api/frame/reply.h"

#define LIMIT_DEFAULT 20
#define LIMIT_MAX     100

int list_page_read(const struct http_req *req, const char *kind, struct node_list_place *ret,
                   struct err *err)
{
	const char *cursor = http_query(req, "cursor");
	int r;

	*ret = (struct node_list_place){.limit = LIMIT_DEFAULT};
	r = http_query_u64(req, "limit", 1, LIMIT_MAX, &ret->limit, err);
	return r == 0 && cursor ? cursor_parse_at(cursor, kind, ret->id, &ret->us, err) : r;
}

bool list_page_is_ordered(const struct http_req *req, const struct node_list_place *place)
{
	return http_hop_from(req) || place->us != 0;
}

void list_page_put_cursor(struct json_writer *w, const char *last_id, uint64_t last_us)
{
	char cursor[CURSOR_SIZE];

	if (last_id && last_us)
		cursor_make_at(last_id, last_us, cursor);
	else if (last_id)
		cursor_make(last_id, cursor);
	json_put_str(w, "next_cursor", last_id ? cursor : NULL);
}

int list_page_reply(struct http_req *req, struct node_list *l, uint64_t limit,
                    void (*put)(const struct node_row *row, struct json_writer *w), struct err *err)
{
	const struct node_row *last = NULL;
	struct reply reply;
	struct json_writer *w;

	node_list_merge(l, (size_t)limit);
	w = reply_begin(&reply);
	json_open_array(w, l->kind->array);
	for (size_t i = 0; i < l->n_rows; i++) {
		last = &l->rows[i];
		if (last->row)
			json_put_value(w, NULL, last->row);
		else
			put(last, w);
	}
	json_close_array(w);
	if (!l->has_more)
		last = NULL;
	list_page_put_cursor(w, last ? last->id : NULL, last ? last->us : 0);
	node_list_put_incomplete(l, w);
	return reply_send(&reply, req, 200, err);
}
