// SPDX-License-Identifier: Apache-2.0
/*
 * The nodes of the cluster, for its operators. The member keeps what their beats tell and gives it
 * in pages (member/heard_nodes.c); nobody asks the database. Like everything from there it is read
 * as a stranger's text: what has another type is null.
 */
#include "api/api.h"
#include "api/frame/find.h"
#include "api/frame/late_reply.h"
#include "api/frame/reply.h"
#include "api/handlers.h"

#include <string.h>

#define PAGES_MAX 600

struct nodes_reply {
	struct late_reply late;
	struct node *node;
	json_t *first; /* the first page: what is said of the cluster; NULL: none came yet */
	json_t *rows;
	unsigned n_pages;
};

static void put_text(struct json_writer *w, const char *name, const json_t *object, const char *of)
{
	json_put_str(w, name, json_string_value(json_object_get(object, of)));
}

static void put_number(struct json_writer *w, const char *name, const json_t *object,
                       const char *of)
{
	const json_t *value = json_object_get(object, of);

	if (json_is_integer(value) && json_integer_value(value) >= 0)
		json_put_u64(w, name, (uint64_t)json_integer_value(value));
	else
		json_put_null(w, name);
}

static void put_problem(struct json_writer *w, const char *name, const json_t *problem)
{
	if (!json_is_object(problem)) {
		json_put_null(w, name);
		return;
	}
	json_open_object(w, name);
	put_text(w, "code", problem, "code");
	put_text(w, "message", problem, "message");
	put_text(w, "hint", problem, "hint");
	json_close_object(w);
}

static void put_load(struct json_writer *w, const json_t *load)
{
	static const char *const names[] = {"sandboxes",      "sandboxes_max", "spares",
	                                    "cpu_milli",      "cpus",          "memory_mib",
	                                    "memory_max_mib", "disk_mib",      "disk_max_mib"};

	json_open_object(w, "load");
	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		put_number(w, names[i], load, names[i]);
	json_close_object(w);
}

static void put_node(struct json_writer *w, const json_t *node)
{
	json_open_object(w, NULL);
	put_text(w, "name", node, "name");
	put_number(w, "number", node, "node");
	put_text(w, "address", node, "address");
	json_put_bool(w, "this_node", json_is_true(json_object_get(node, "is_here")));
	put_text(w, "state", node, "state");
	json_put_bool(w, "cordoned", json_is_true(json_object_get(node, "is_cordoned")));
	put_text(w, "version", node, "version");
	put_number(w, "beat_age_ms", node, "seen_ms_ago");
	put_load(w, json_object_get(node, "load"));
	put_problem(w, "problem", json_object_get(node, "problem"));
	json_close_object(w);
}

static void put_cluster(struct json_writer *w, const json_t *cluster)
{
	const json_t *one;
	size_t i;

	json_open_object(w, "cluster");
	put_text(w, "id", cluster, "id");
	put_text(w, "state", cluster, "state");
	put_number(w, "right_ms", cluster, "right_ms");
	put_number(w, "lost_in_ms", cluster, "lost_in_ms");
	put_number(w, "fence_after_ms", cluster, "fence_after_ms");
	put_number(w, "lost_after_ms", cluster, "lost_after_ms");
	json_open_array(w, "problems");
	json_array_foreach(json_object_get(cluster, "problems"), i, one)
	{
		put_problem(w, NULL, one);
	}
	json_close_array(w);
	json_close_object(w);
}

static void put_all(struct json_writer *w, const json_t *first, const json_t *rows)
{
	const json_t *one;
	size_t i;

	if (first)
		put_cluster(w, json_object_get(first, "cluster"));
	else
		json_put_null(w, "cluster");
	put_number(w, "as_of_us", first, "as_of_us");
	json_open_array(w, "nodes");
	json_array_foreach(rows, i, one)
	{
		put_node(w, one);
	}
	json_close_array(w);
}

static void finish(struct nodes_reply *n, const struct err *err)
{
	json_t *first = n->first, *rows = n->rows;
	struct http_req *req = late_reply_take(n, err);
	struct reply reply;

	if (req) {
		put_all(reply_begin(&reply), first, rows);
		reply_send_late(&reply, req, 200);
	}
	json_decref(first);
	json_decref(rows);
}

static void ask(struct nodes_reply *n, json_int_t after);

static void on_page(const json_t *answer, const struct err *failure, void *arg)
{
	struct nodes_reply *n = arg;
	json_t *rows = json_object_get(answer, "nodes");
	const json_t *last = json_array_get(rows, json_array_size(rows) - 1);
	const json_int_t number = json_integer_value(json_object_get(last, "node"));

	if (failure) {
		finish(n, failure);
		return;
	}
	if (!n->first)
		n->first = json_incref(unconst(answer));
	if (rows)
		(void)json_array_extend(n->rows, rows);
	if (json_is_true(json_object_get(answer, "has_more")) && number > 0 &&
	    ++n->n_pages < PAGES_MAX && n->late.req)
		ask(n, number);
	else
		finish(n, NULL);
}

static void ask(struct nodes_reply *n, json_int_t after)
{
	auto_json json_t *call = json_pack("{ss sI}", "call", "nodes", "after", after);

	node_call(n->node, call, on_page, n);
}

int list_nodes(struct http_req *req, struct err *err)
{
	const struct api *api = http_app_arg(req);
	struct nodes_reply *n;
	struct reply reply;
	int r = check_is_default(req, err);

	if (r < 0)
		return r;
	if (!api->node) {
		put_all(reply_begin(&reply), NULL, NULL);
		return reply_send(&reply, req, 200, err);
	}
	n = late_reply_new(req, sizeof(*n));
	n->node = api->node;
	n->rows = json_array();
	ask(n, 0);
	return 0;
}
