// SPDX-License-Identifier: Apache-2.0
#include "api/nodes/node_list.h"

#include "api/frame/find.h"
#include "api/nodes/node_rows.h"
#include "base/log.h"
#include "base/text/wall_time.h"

#include <stdio.h>
#include <string.h>

static void list_free(struct node_list *l)
{
	for (size_t i = 0; i < l->n_parts; i++)
		json_decref(l->parts[i].body);
	free(l->parts);
	free(l->rows);
	json_decref(l->told);
}

/* The late reply is its first member, and is freed with it. */
static void finish(struct node_list *l)
{
	struct node_list own = *l;
	struct http_req *req = late_reply_take(&l->late, NULL);
	struct err err;

	if (req && own.kind->finish(req, &own, &err) < 0)
		http_reply_err(req, &err);
	list_free(&own);
}

static struct node_list_part *find_part(struct node_list *l, const char *name)
{
	for (size_t i = 0; name && i < l->n_parts; i++)
		if (strcmp(l->parts[i].name, name) == 0)
			return &l->parts[i];
	return NULL;
}

/* {rows: [{node, row}], has_more, told: [{node, as_of_us}]} */
static void on_directory(const json_t *answer, const struct err *err, void *arg)
{
	struct node_list *l = arg;
	const json_t *all = json_object_get(answer, "told"), *one;
	size_t i;

	if (err)
		log_debug("cluster.list_of", "error='%s'", err->message);
	else if (!json_is_array(all) || !json_is_array(json_object_get(answer, "rows")))
		log_warn("cluster.list_refused", "error='the answer has another shape'");
	else
		l->told = json_incref((json_t *)unconst(answer));
	json_array_foreach(l->told ? all : NULL, i, one)
	{
		struct node_list_part *part =
			find_part(l, json_string_value(json_object_get(one, "node")));
		json_int_t us = json_integer_value(json_object_get(one, "as_of_us"));

		if (part && us > 0)
			part->as_of_us = (uint64_t)us;
	}
	finish(l);
}

/* Of those that have not answered. False: there is none, or nobody to ask. */
static bool ask_directory(struct node_list *l)
{
	auto_json json_t *nodes = json_array(), *filter = json_object(), *call = NULL;
	struct node_list_place place = {0};
	struct err err;

	for (size_t i = 0; i < l->n_parts; i++)
		if (l->parts[i].why[0])
			(void)json_array_append_new(nodes, json_integer(l->parts[i].node));
	if (!l->late.req || json_array_size(nodes) == 0 || !l->kind->read ||
	    node_check(l->api->node, NULL) < 0 ||
	    l->kind->read(l->late.req, &place, filter, &err) < 0)
		return false;
	call = json_pack("{ss ss sO sI ss sI sO}", "call", "list_of", "project_id", l->project_id,
	                 "nodes", nodes, "before_us",
	                 place.us ? (json_int_t)place.us : (json_int_t)INT64_MAX, "before_id",
	                 place.id, "most", (json_int_t)place.limit, "filter", filter);
	node_call(l->api->node, call, on_directory, l);
	return true;
}

static void on_peers(const struct peer_answers *answers, void *arg)
{
	struct node_list *l = arg;

	if (l->late.req)
		node_tell_incomplete(l->late.req, answers);
	(void)snprintf(l->self, sizeof(l->self), "%s", answers->self);
	(void)snprintf(l->unsure, sizeof(l->unsure), "%s", answers->unsure);
	l->parts = xnew0n(struct node_list_part, answers->n + 1);
	for (size_t i = 0; i < answers->n; i++) {
		const struct peer_answer *a = &answers->at[i];
		struct node_list_part *part = &l->parts[l->n_parts++];

		(void)snprintf(part->name, sizeof(part->name), "%s", a->name);
		(void)snprintf(part->why, sizeof(part->why), "%s", a->why);
		part->node = a->node;
		part->body = json_incref(a->body);
		part->has_more = a->has_more;
		part->total = a->total;
	}
	if (!ask_directory(l))
		finish(l);
}

int node_list_begin(struct http_req *req, const struct node_list_kind *kind, struct err *err)
{
	const struct api *api = http_app_arg(req);
	struct node_list *l;
	int r;

	if (!api->ask_peers || !node_is_in(api->node))
		return 0;
	l = late_reply_new(req, sizeof(*l));
	l->kind = kind;
	l->api = api;
	(void)snprintf(l->project_id, sizeof(l->project_id), "%s", caller_project(req));
	r = api->ask_peers(req, on_peers, l, err);
	return r <= 0 ? late_reply_drop(l, r) : r;
}

static struct node_row *add_row(struct node_list *l, uint64_t us, const char *id)
{
	struct node_row *row;

	if (l->n_rows == l->size) {
		l->size = l->size ? 2 * l->size : 64;
		l->rows = xrealloc(l->rows, l->size * sizeof(*l->rows));
	}
	row = &l->rows[l->n_rows++];
	*row = (struct node_row){.us = us};
	(void)snprintf(row->id, sizeof(row->id), "%s", id);
	return row;
}

void node_list_add_own(struct node_list *l, uint64_t us, const char *id, const void *own)
{
	struct node_row *row = add_row(l, us, id);

	row->own = own;
	row->node = l->self;
}

/* Below 0: x comes first. */
static int compare(const struct node_list *l, uint64_t x_us, const char *x_id, uint64_t y_us,
                   const char *y_id)
{
	int order = x_us != y_us ? (x_us < y_us ? -1 : 1) : strcmp(x_id, y_id);

	return l->kind->is_ascending ? order : -order;
}

static int by_place(const void *a, const void *b, void *list)
{
	const struct node_row *x = a, *y = b;
	int order = compare(list, x->us, x->id, y->us, y->id);

	return order ? order : (y->own != NULL) - (x->own != NULL);
}

/* The page ends at the last row of a part that has more. */
static void set_floor(struct node_list *l, const struct node_row *last)
{
	l->has_more = true;
	if (l->has_floor && compare(l, last->us, last->id, l->floor_us, l->floor_id) > 0)
		return;
	l->has_floor = true;
	l->floor_us = last->us;
	(void)snprintf(l->floor_id, sizeof(l->floor_id), "%s", last->id);
}

void node_list_own_has_more(struct node_list *l)
{
	if (l->n_rows > 0)
		set_floor(l, &l->rows[l->n_rows - 1]);
}

static bool read_row(const struct node_list_kind *kind, const json_t *row, uint64_t *ret_us,
                     char ret_id[ID_SIZE])
{
	const char *id = json_string_value(json_object_get(row, kind->id_field));
	const json_t *time = json_object_get(row, kind->time_field);
	int n;

	if (!id)
		return false;
	n = snprintf(ret_id, ID_SIZE, "%s%s%s", strchr(id, '_') ? "" : kind->id_kind,
	             strchr(id, '_') ? "" : "_", id);
	if (n >= ID_SIZE || !id_is_valid(ret_id, kind->id_kind))
		return false;
	if (kind->is_time_text)
		return json_is_string(time) &&
		       wall_time_parse(json_string_value(time), ret_us) == 0;
	*ret_us = (uint64_t)json_integer_value(time);
	return json_integer_value(time) > 0;
}

static void add_part(struct node_list *l, struct node_list_part *part)
{
	const char *array = l->kind->array;
	json_t *rows = array ? json_object_get(part->body, array) : part->body, *one;
	char id[ID_SIZE];
	uint64_t us;
	size_t i;

	json_array_foreach(rows, i, one)
	{
		struct node_row *row;

		if (!read_row(l->kind, one, &us, id))
			break;
		row = add_row(l, us, id);
		row->row = one;
		row->node = part->name;
	}
	if (!json_is_array(rows) || i < json_array_size(rows)) {
		(void)snprintf(part->why, sizeof(part->why), "its answer has another shape");
		return;
	}
	if (i > 0 && (part->has_more || json_is_string(json_object_get(part->body, "next_cursor"))))
		set_floor(l, &l->rows[l->n_rows - 1]);
}

static void add_told(struct node_list *l)
{
	const json_t *all = json_object_get(l->told, "rows"), *one;
	char id[ID_SIZE];
	uint64_t us;
	size_t i, n = 0;

	json_array_foreach(all, i, one)
	{
		const struct node_list_part *part =
			find_part(l, json_string_value(json_object_get(one, "node")));
		struct node_row *row;

		if (!part || !part->why[0] ||
		    !read_row(l->kind, json_object_get(one, "row"), &us, id))
			continue;
		row = add_row(l, us, id);
		row->row = json_object_get(one, "row");
		row->node = part->name;
		n++;
	}
	if (n > 0 && json_is_true(json_object_get(l->told, "has_more")))
		set_floor(l, &l->rows[l->n_rows - 1]);
}

void node_list_merge(struct node_list *l, size_t limit)
{
	size_t n = 0;

	for (size_t i = 0; i < l->n_parts; i++)
		if (!l->parts[i].why[0])
			add_part(l, &l->parts[i]);
	add_told(l);
	if (l->n_rows > 1)
		qsort_r(l->rows, l->n_rows, sizeof(*l->rows), by_place, l);
	for (size_t i = 0; i < l->n_rows; i++) {
		const struct node_row *row = &l->rows[i];

		if (n > 0 && strcmp(l->rows[n - 1].id, row->id) == 0)
			continue; /* two nodes say that it is theirs: one is enough */
		if (n == limit) {
			l->has_more = true;
			break;
		}
		if (l->has_floor && compare(l, row->us, row->id, l->floor_us, l->floor_id) > 0)
			break;
		l->rows[n++] = *row;
	}
	l->n_rows = n;
	for (size_t i = 0; i < n; i++)
		if (l->rows[i].row && l->kind->tells_node)
			(void)json_object_set_new(l->rows[i].row, "node",
			                          json_string(l->rows[i].node));
}

static void put_one(struct json_writer *w, const char *node, const char *why, uint64_t as_of_us)
{
	json_open_object(w, NULL);
	json_put_str(w, "node", node);
	json_put_str(w, "why", why);
	if (as_of_us)
		json_put_u64(w, "as_of_us", as_of_us);
	else
		json_put_null(w, "as_of_us");
	json_close_object(w);
}

void node_list_put_incomplete(const struct node_list *l, struct json_writer *w)
{
	json_open_array(w, "incomplete");
	for (size_t i = 0; i < l->n_parts; i++)
		if (l->parts[i].why[0])
			put_one(w, l->parts[i].name, l->parts[i].why, l->parts[i].as_of_us);
	if (l->unsure[0])
		put_one(w, NULL, l->unsure, 0);
	json_close_array(w);
}

void node_tell_name(struct http_req *req)
{
	const struct api *api = http_app_arg(req);
	const char *name = node_own_name(api->node);

	if (name[0])
		http_reply_header(req, "Cloche-Node", name);
}
