// SPDX-License-Identifier: Apache-2.0
#include "api/account/usage_nodes.h"

#include "api/frame/access.h"
#include "api/frame/cursor.h"
#include "api/frame/late_reply.h"
#include "api/nodes/node_rows.h"
#include "base/log.h"
#include "tenant/day.h"

#include <stdio.h>
#include <string.h>
#include <uthash.h>

#define PAGES_MAX  200 /* of the database: 40,000 rows */
#define FIGURE_MAX INT64_C(9000000000000000)

struct sum {
	char name[2 * ID_SIZE + 16]; /* what is added up */
	char project_id[ID_SIZE], sandbox_id[ID_SIZE];
	int32_t day;
	struct usage usage;
	UT_hash_handle hh;
};

struct part { /* another node */
	uint32_t node;
	char name[PEER_NAME_SIZE], why[PEER_WHY_SIZE];
	uint64_t as_of_us; /* of what the database has of it; 0: nothing */
};

struct usage_gather {
	struct late_reply late;
	const struct api *api;
	struct usage_query query;
	char project_id[ID_SIZE]; /* of the query */
	struct sum *sums;
	struct part *parts;
	size_t n_parts;
	char unsure[PEER_WHY_SIZE];
	bool has_floor; /* behind this sandbox not all are known */
	char floor_id[ID_SIZE];
	json_t *but; /* nodes that have answered */
	char after_project[ID_SIZE];
	int32_t after_day;
	unsigned n_pages;
};

static void add(const struct usage_row *row, void *arg)
{
	struct usage_gather *g = arg;
	const bool has_day = g->query.group == GROUP_DAY;
	struct sum wanted = {.day = has_day ? row->day : 0}, *s = NULL;

	(void)snprintf(wanted.project_id, ID_SIZE, "%s", row->project_id);
	if (g->query.group == GROUP_SANDBOX)
		(void)snprintf(wanted.sandbox_id, ID_SIZE, "%s", row->sandbox_id);
	(void)snprintf(wanted.name, sizeof(wanted.name), "%s %s %d", wanted.project_id,
	               wanted.sandbox_id, wanted.day);
	HASH_FIND_STR(g->sums, wanted.name, s);
	if (!s) {
		s = xnew0(struct sum);
		*s = wanted;
		HASH_ADD_STR(g->sums, name, s);
	}
	usage_add(&s->usage, &row->usage);
}

static void lower_floor(struct usage_gather *g, const char *id)
{
	if (g->has_floor && strcmp(id, g->floor_id) >= 0)
		return;
	g->has_floor = true;
	(void)snprintf(g->floor_id, sizeof(g->floor_id), "%s", id);
}

static const char *id_of(const json_t *object, const char *name)
{
	const char *text = json_string_value(json_object_get(object, name));

	return text && text[0] && strlen(text) < ID_SIZE ? text : NULL;
}

static bool read_figure(const json_t *value, uint64_t *ret)
{
	const json_int_t n = json_integer_value(value);

	*ret = n > 0 ? (uint64_t)n : 0;
	return json_is_integer(value) && n >= 0 && n <= FIGURE_MAX;
}

static bool is_asked_for(const struct usage_gather *g, const char *project_id)
{
	return !g->query.project_id || strcmp(g->query.project_id, project_id) == 0;
}

static int add_peer_row(struct usage_gather *g, const json_t *one)
{
	const char *day = json_string_value(json_object_get(one, "day"));
	struct usage_row row = {.project_id = id_of(one, "project_id"),
	                        .sandbox_id = id_of(one, "sandbox_id")};

	if (!row.project_id || !is_asked_for(g, row.project_id) ||
	    (g->query.group == GROUP_SANDBOX && !row.sandbox_id) ||
	    (g->query.group == GROUP_DAY && (!day || day_parse(day, &row.day) < 0)))
		return -EPROTO;
	for (unsigned i = 0; i < USAGE_FIGURE_COUNT; i++)
		if (!read_figure(json_object_get(one, usage_figure_name((enum usage_figure)i)),
		                 &row.usage.of[i]))
			return -EPROTO;
	add(&row, g);
	return 0;
}

/* Where a page of sandboxes ends, it ends for all. */
static int read_peer_end(struct usage_gather *g, const json_t *body)
{
	static const char *const kinds[] = {"sb", "sn", "vo"};
	const char *cursor = json_string_value(json_object_get(body, "next_cursor"));
	char id[ID_SIZE];

	if (!cursor)
		return 0;
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++)
		if (cursor_parse(cursor, kinds[i], id, NULL) == 0) {
			lower_floor(g, id);
			return 0;
		}
	return -EPROTO;
}

static int check_peer(const json_t *body)
{
	const json_t *rows = json_object_get(body, "rows"), *one;
	size_t i;

	json_array_foreach(rows, i, one)
	{
		if (!json_is_object(one))
			return -EPROTO;
	}
	return json_is_array(rows) ? 0 : -EPROTO;
}

static int add_peer(struct usage_gather *g, const json_t *body)
{
	const json_t *rows = json_object_get(body, "rows"), *one;
	int r = check_peer(body);
	size_t i;

	if (r == 0)
		r = read_peer_end(g, body);
	json_array_foreach(rows, i, one)
	{
		if (r == 0)
			r = add_peer_row(g, one);
	}
	return r;
}

static void usage_gather_done(struct usage_gather *g)
{
	struct sum *s;

	while ((s = g->sums)) {
		HASH_DEL(g->sums, s);
		free(s);
	}
	free(g->parts);
	json_decref(g->but);
}

static int in_order(const struct sum *a, const struct sum *b)
{
	int order = strcmp(a->sandbox_id, b->sandbox_id);

	if (order == 0)
		order = strcmp(a->project_id, b->project_id);
	return order ? order : (a->day > b->day) - (a->day < b->day);
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

static void put_incomplete(struct json_writer *w, const void *arg)
{
	const struct usage_gather *g = arg;

	json_open_array(w, "incomplete");
	for (size_t i = 0; i < g->n_parts; i++)
		if (g->parts[i].why[0])
			put_one(w, g->parts[i].name, g->parts[i].why, g->parts[i].as_of_us);
	if (g->unsure[0])
		put_one(w, NULL, g->unsure, 0);
	json_close_array(w);
}

static int reply(struct http_req *req, struct usage_gather *g, struct err *err)
{
	const bool is_paged = g->query.group == GROUP_SANDBOX;
	char cursor[CURSOR_SIZE], last[ID_SIZE] = "";
	struct usage_page page;
	struct usage_rows rows;
	bool has_more = false;
	uint64_t n = 0;
	int r = usage_own_rows(g->api, &g->query, add, g, &page, err);

	if (r < 0)
		return r;
	if (page.has_more)
		lower_floor(g, page.last_id);
	HASH_SORT(g->sums, in_order);
	usage_rows_begin(&rows, g->api, &g->query);
	rows.put_more = put_incomplete;
	rows.more_arg = g;
	for (const struct sum *s = g->sums; s; s = s->hh.next) {
		if (is_paged && g->has_floor && strcmp(s->sandbox_id, g->floor_id) > 0)
			break;
		has_more = is_paged && n++ == g->query.limit;
		if (has_more)
			break;
		(void)snprintf(last, sizeof(last), "%s", s->sandbox_id);
		usage_rows_put(&rows, &(struct usage_row){.project_id = s->project_id,
		                                          .sandbox_id = s->sandbox_id,
		                                          .key_id = "",
		                                          .day = s->day,
		                                          .usage = s->usage});
	}
	if (has_more)
		cursor_make(last, cursor);
	else if (g->has_floor)
		cursor_make(g->floor_id, cursor);
	return usage_rows_send(&rows, req, has_more || g->has_floor ? cursor : NULL, err);
}

/* The late reply is its first member, and is freed with it. */
static void finish(struct usage_gather *g)
{
	struct usage_gather own = *g;
	struct http_req *req = late_reply_take(&g->late, NULL);
	struct err err = {0};

	if (own.query.project_id)
		own.query.project_id = own.project_id;
	if (req) {
		access_enter_again(req);
		if (reply(req, &own, &err) < 0)
			http_reply_err(req, &err);
		access_leave(req);
	}
	usage_gather_done(&own);
}

/* [project, day, [figures]] */
static int add_told_row(struct usage_gather *g, const json_t *one)
{
	const char *project = json_string_value(json_array_get(one, 0));
	const json_int_t day = json_integer_value(json_array_get(one, 1));
	const json_t *figures = json_array_get(one, 2);
	struct usage_row row = {.project_id = project, .sandbox_id = "", .day = (int32_t)day};

	if (!project || strlen(project) >= ID_SIZE || !is_asked_for(g, project) || day < 0 ||
	    day > DAY_MAX || !json_is_array(figures))
		return -EPROTO;
	for (unsigned i = 0; i < USAGE_FIGURE_COUNT; i++)
		if (json_array_get(figures, i) &&
		    !read_figure(json_array_get(figures, i), &row.usage.of[i]))
			return -EPROTO;
	add(&row, g);
	(void)snprintf(g->after_project, sizeof(g->after_project), "%s", project);
	g->after_day = row.day;
	return 0;
}

static void read_told(struct usage_gather *g, const json_t *told)
{
	const json_t *one;
	size_t i;

	json_array_foreach(told, i, one)
	{
		const json_int_t node = json_integer_value(json_object_get(one, "node"));
		const json_int_t us = json_integer_value(json_object_get(one, "as_of_us"));

		for (size_t k = 0; k < g->n_parts; k++)
			if (g->parts[k].node == node && us > 0)
				g->parts[k].as_of_us = (uint64_t)us;
	}
}

static void ask_database(struct usage_gather *g);

static void on_database(const json_t *answer, const struct err *err, void *arg)
{
	struct usage_gather *g = arg;
	const json_t *rows = json_object_get(answer, "rows"), *one;
	int r = err || !json_is_array(rows) ? -EPROTO : 0;
	size_t i;

	json_array_foreach(r == 0 ? rows : NULL, i, one)
	{
		if (r == 0)
			r = add_told_row(g, one);
	}
	if (r == 0)
		read_told(g, json_object_get(answer, "told"));
	else
		(void)snprintf(g->unsure, sizeof(g->unsure),
		               "what nodes had told before cannot be had: "
		               "%.60s",
		               err ? err->message : "the answer has another shape");
	if (r == 0 && i > 0 && json_is_true(json_object_get(answer, "has_more")) &&
	    ++g->n_pages < PAGES_MAX && g->late.req)
		ask_database(g);
	else
		finish(g);
}

static void ask_database(struct usage_gather *g)
{
	const bool has_rows = g->query.group != GROUP_SANDBOX;
	auto_json json_t *call =
		json_pack("{ss ss* sO si si sb ss si}", "call", "usage_of", "project_id",
	                  g->query.project_id ? g->project_id : NULL, "but", g->but, "from_day",
	                  has_rows ? g->query.from : 1, "to_day", has_rows ? g->query.to : 0,
	                  "by_day", g->query.group == GROUP_DAY, "after_project", g->after_project,
	                  "after_day", g->after_day);

	node_call(g->api->node, call, on_database, g);
}

static void take_answer(struct usage_gather *g, const struct peer_answer *a)
{
	struct part *part = &g->parts[g->n_parts++];
	struct sum *kept = g->sums;
	struct usage_gather alone = *g;

	part->node = a->node;
	(void)snprintf(part->name, sizeof(part->name), "%s", a->name);
	(void)snprintf(part->why, sizeof(part->why), "%s", a->why);
	if (part->why[0])
		return;
	/* All of it or nothing: what one has told in part is taken from the database. */
	alone.sums = NULL;
	if (add_peer(&alone, a->body) < 0)
		(void)snprintf(part->why, sizeof(part->why), "its answer has another shape");
	g->sums = kept;
	if (!part->why[0]) {
		(void)json_array_append_new(g->but, json_integer(part->node));
		g->has_floor = alone.has_floor;
		memcpy(g->floor_id, alone.floor_id, sizeof(g->floor_id));
	}
	for (struct sum *s = alone.sums, *next; s; s = next) {
		next = s->hh.next;
		if (!part->why[0])
			add(&(struct usage_row){.project_id = s->project_id,
			                        .sandbox_id = s->sandbox_id,
			                        .day = s->day,
			                        .usage = s->usage},
			    g);
	}
	while (alone.sums) {
		struct sum *s = alone.sums;

		HASH_DEL(alone.sums, s);
		free(s);
	}
}

static void on_peers(const struct peer_answers *answers, void *arg)
{
	struct usage_gather *g = arg;

	if (g->query.project_id)
		g->query.project_id = g->project_id;
	g->parts = xnew0n(struct part, answers->n + 1);
	g->but = json_pack("[i]", (int)node_number(g->api->node));
	(void)snprintf(g->unsure, sizeof(g->unsure), "%s", answers->unsure);
	for (size_t i = 0; i < answers->n; i++)
		take_answer(g, &answers->at[i]);
	if (g->late.req)
		node_tell_incomplete(g->late.req, answers);
	if (!g->late.req || node_check(g->api->node, NULL) < 0)
		finish(g);
	else
		ask_database(g);
}

int usage_nodes_begin(struct http_req *req, const struct usage_query *q, struct err *err)
{
	const struct api *api = http_app_arg(req);
	struct usage_gather *g;
	int r;

	if (!api->ask_peers || !node_is_in(api->node))
		return 0;
	g = late_reply_new(req, sizeof(*g));
	g->api = api;
	g->query = *q;
	(void)snprintf(g->project_id, sizeof(g->project_id), "%s",
	               q->project_id ? q->project_id : "");
	r = api->ask_peers(req, on_peers, g, err);
	return r <= 0 ? late_reply_drop(g, r) : r;
}
