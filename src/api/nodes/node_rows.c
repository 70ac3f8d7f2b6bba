// SPDX-License-Identifier: Apache-2.0
#include "api/nodes/node_rows.h"

#include "api/frame/late_reply.h"
#include "api/frame/reply.h"

struct node_rows {
	struct late_reply late;
	const struct node_rows_kind *kind;
};

void node_tell_incomplete(struct http_req *req, const struct peer_answers *answers)
{
	auto_call(buf_done) struct buf names = BUF_INIT(4096);

	for (size_t i = 0; i < answers->n; i++)
		if (answers->at[i].why[0] &&
		    buf_printf(&names, "%s%s", names.len ? ", " : "", answers->at[i].name) < 0)
			break;
	if (answers->unsure[0] && buf_printf(&names, "%s*", names.len ? ", " : "") < 0)
		buf_truncate(&names, 0);
	if (names.len)
		http_reply_header(req, "Cloche-Incomplete", buf_str(&names));
}

const char *node_of_rows(const struct http_req *req)
{
	const struct api *api = http_app_arg(req);

	return node_is_in(api->node) ? node_own_name(api->node) : "";
}

static void put_part(const struct node_rows_kind *kind, const struct peer_answer *a,
                     struct json_writer *w)
{
	const json_t *rows = kind->array ? json_object_get(a->body, kind->array) : a->body;
	json_t *row;
	size_t i;

	json_array_foreach(rows, i, row)
	{
		if (!json_is_object(row))
			continue;
		if (kind->tells_node)
			(void)json_object_set_new(row, "node", json_string(a->name));
		json_put_value(w, NULL, row);
	}
}

static void put_missing(struct json_writer *w, const char *node, const char *why)
{
	json_open_object(w, NULL);
	json_put_str(w, "node", node);
	json_put_str(w, "why", why);
	json_put_null(w, "as_of_us");
	json_close_object(w);
}

static void put_incomplete(const struct peer_answers *answers, struct json_writer *w)
{
	json_open_array(w, "incomplete");
	for (size_t i = 0; i < answers->n; i++)
		if (answers->at[i].why[0])
			put_missing(w, answers->at[i].name, answers->at[i].why);
	if (answers->unsure[0])
		put_missing(w, NULL, answers->unsure);
	json_close_array(w);
}

static void on_peers(const struct peer_answers *answers, void *arg)
{
	const struct node_rows_kind *kind = ((struct node_rows *)arg)->kind;
	struct http_req *req = late_reply_take(arg, NULL);
	struct json_writer *w;
	struct reply reply;

	if (!req)
		return;
	node_tell_incomplete(req, answers);
	w = kind->array ? reply_begin(&reply) : reply_begin_bare(&reply);
	if (kind->put_more)
		kind->put_more(req, answers, w);
	json_open_array(w, kind->array);
	kind->put_own(req, w);
	for (size_t i = 0; i < answers->n; i++)
		put_part(kind, &answers->at[i], w);
	json_close_array(w);
	if (kind->array)
		put_incomplete(answers, w);
	reply_send_late(&reply, req, 200);
}

int node_rows_begin(struct http_req *req, const struct node_rows_kind *kind, struct err *err)
{
	const struct api *api = http_app_arg(req);
	struct node_rows *n;
	int r;

	if (!api->ask_peers || !node_is_in(api->node))
		return 0;
	n = late_reply_new(req, sizeof(*n));
	n->kind = kind;
	r = api->ask_peers(req, on_peers, n, err);
	return r <= 0 ? late_reply_drop(n, r) : r;
}
