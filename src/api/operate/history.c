// SPDX-License-Identifier: Apache-2.0
/*
 * What was used in the past, and what ran then (history/history.h). A caller sees its own project
 * and its sandboxes, also those that are forgotten; an admin of the project "default" sees every
 * project and the host.
 */
#include "api/frame/find.h"
#include "api/frame/reply.h"
#include "api/handlers.h"
#include "base/clock.h"
#include "base/parse.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define RUNS_DEFAULT 100
#define RUNS_MAX     1000

struct query {
	enum history_scope scope;
	const char *project_id, *id; /* id: of the sandbox, where it is one's */
	const struct history_range *range;
};

static int read_scope(const struct http_req *req, struct query *q, struct err *err)
{
	const char *text = http_query(req, "scope");

	q->scope = HISTORY_PROJECT;
	if (!text)
		return 0;
	for (unsigned i = 0; i < HISTORY_SCOPE_COUNT; i++)
		if (strcmp(text, history_scope_name((enum history_scope)i)) == 0) {
			q->scope = (enum history_scope)i;
			return 0;
		}
	return err_field(err, "scope", "must be host, project or sandbox");
}

static int read_range(const struct http_req *req, struct query *q, struct err *err)
{
	const char *text = http_query(req, "range");

	q->range = history_find_range(text ? text : "1h");
	return q->range ? 0 : err_field(err, "range", "must be 1h, 24h, 7d or 30d");
}

static int check_host(const struct http_req *req, const char *id, struct err *err)
{
	const struct api *api = http_app_arg(req);

	if (id)
		return err_field(err, "id", "the host has none: leave it out");
	if (is_host_admin(api, http_user(req)))
		return 0;
	return err_set(err, ERR_FORBIDDEN, 0,
	               "the host's history needs an admin key of the project 'default'");
}

/* By id or name; one's own may always be named. */
static int find_owner(const struct http_req *req, const char *name, const char **ret,
                      struct err *err)
{
	const struct api *api = http_app_arg(req);
	const char *own = caller_project(req);
	const char *found = name ? keyring_find_project(api->keyring, name) : own;

	if (found && strcmp(found, own) == 0) {
		*ret = own;
		return 0;
	}
	if (!is_host_admin(api, http_user(req)))
		return err_set(
			err, ERR_FORBIDDEN, 0,
			"another project's history needs an admin key of the project 'default'");
	if (!found)
		return err_set(err, ERR_NOT_FOUND, 0, "no project '%.64s'", name);
	*ret = found;
	return 0;
}

static int find_ran(const struct http_req *req, const char *id, struct query *q, struct err *err)
{
	const struct api *api = http_app_arg(req);
	const struct sandbox *s;
	int r;

	if (!id)
		return err_field(err, "id", "is missing: the sandbox's id or name");
	q->project_id = caller_project(req);
	s = sandbox_find(api->fleet, q->project_id, id);
	q->id = s ? sandbox_id(s) : id;
	r = s ? 1 : history_has(api->history, q->project_id, id, err);
	if (r != 0)
		return MIN(r, 0);
	(void)err_set(err, ERR_NOT_FOUND, 0, "no sandbox '%.64s' has a history", id);
	return err_hint(err, "'cloche ps --at' lists what ran at a moment");
}

static int read_query(const struct http_req *req, struct query *q, struct err *err)
{
	const char *id = http_query(req, "id");
	int r = read_scope(req, q, err);

	if (r == 0)
		r = read_range(req, q, err);
	if (r < 0)
		return r;
	switch (q->scope) {
	case HISTORY_HOST:
		return check_host(req, id, err);
	case HISTORY_PROJECT:
		return find_owner(req, id, &q->project_id, err);
	case HISTORY_SANDBOX:
	case HISTORY_SCOPE_COUNT:
		break;
	}
	return find_ran(req, id, q, err);
}

static void put_values(struct json_writer *w, const struct history_view *view, size_t figure)
{
	json_open_array(w, "values");
	for (size_t i = 0; i < view->n; i++)
		if (view->is_known[i])
			json_put_u64(w, NULL, view->values[i * view->n_figures + figure]);
		else
			json_put_null(w, NULL);
	json_close_array(w);
}

static void put_series(struct json_writer *w, const struct query *q,
                       const struct history_view *view)
{
	size_t n;
	const struct history_figure *figures = history_figures(q->scope, &n);

	json_open_array(w, "series");
	for (size_t i = 0; i < n; i++) {
		json_open_object(w, NULL);
		json_put_str(w, "name", figures[i].name);
		json_put_str(w, "unit", figures[i].unit);
		json_put_str(w, "aggregate", history_way_name(figures[i].way));
		put_values(w, view, i);
		json_close_object(w);
	}
	json_close_array(w);
}

int get_history(struct http_req *req, struct err *err)
{
	const struct api *api = http_app_arg(req);
	struct query q = {0};
	struct history_view view;
	struct json_writer *w;
	struct reply reply;
	int r = read_query(req, &q, err);

	if (r == 0)
		r = history_view(api->history, q.project_id, q.id, q.range, &view, err);
	if (r < 0)
		return r;
	w = reply_begin(&reply);
	json_put_str(w, "scope", history_scope_name(q.scope));
	json_put_str(w, "id", q.id ? q.id : q.project_id);
	json_put_str(w, "range", q.range->name);
	json_put_u64(w, "from_us", view.from_us);
	json_put_u64(w, "step_ms", view.step_us / 1000);
	json_put_u64(w, "count", view.n);
	put_series(w, &q, &view);
	history_view_done(&view);
	return reply_send(&reply, req, 200, err);
}

/* A cursor is the end of the last run of a page, and its sandbox. */
static int read_cursor(const char *cursor, struct history_moment *m, struct err *err)
{
	char number[32];
	const char *dot = strchr(cursor, '.');
	size_t len = dot ? (size_t)(dot - cursor) : 0;

	if (len > 0 && len < sizeof(number) && id_is_valid(dot + 1, "sb")) {
		(void)snprintf(number, sizeof(number), "%.*s", (int)len, cursor);
		(void)snprintf(m->after_id, sizeof(m->after_id), "%s", dot + 1);
		if (parse_u64(number, INT64_MAX, &m->after_us) == 0)
			return 0;
	}
	return err_field(err, "cursor", "is not a next_cursor of an earlier page");
}

static void put_run(const struct history_run *run, void *arg)
{
	struct json_writer *w = arg;

	json_open_object(w, NULL);
	json_put_str(w, "id", run->sandbox_id);
	json_put_str(w, "name", run->name[0] ? run->name : NULL);
	json_put_str(w, "template", run->template);
	json_put_u64(w, "began_us", run->began_us);
	if (run->ended_us)
		json_put_u64(w, "ended_us", run->ended_us);
	else
		json_put_null(w, "ended_us");
	if (run->has_figures) {
		json_put_u64(w, "cpu_milli", run->cpu_milli);
		json_put_u64(w, "memory_bytes", run->memory_bytes);
	} else {
		json_put_null(w, "cpu_milli");
		json_put_null(w, "memory_bytes");
	}
	json_close_object(w);
}

int list_history_running(struct http_req *req, struct err *err)
{
	const struct api *api = http_app_arg(req);
	const char *cursor = http_query(req, "cursor");
	struct history_moment m = {.at_us = clock_wall_us()};
	uint64_t limit = RUNS_DEFAULT;
	char next[80];
	struct json_writer *w;
	struct reply reply;
	int r = find_owner(req, http_query(req, "project"), &m.project_id, err);

	if (r == 0)
		r = http_query_u64(req, "at_us", 0, INT64_MAX, &m.at_us, err);
	if (r == 0)
		r = http_query_u64(req, "limit", 1, RUNS_MAX, &limit, err);
	if (r == 0 && cursor)
		r = read_cursor(cursor, &m, err);
	if (r < 0)
		return r;
	m.limit = (size_t)limit;
	w = reply_begin(&reply);
	json_put_u64(w, "at_us", m.at_us);
	json_open_array(w, "sandboxes");
	r = history_running(api->history, &m, put_run, w, err);
	json_close_array(w);
	if (r < 0) {
		buf_done(&reply.body);
		return r;
	}
	(void)snprintf(next, sizeof(next), "%" PRIu64 ".%s", m.after_us, m.after_id);
	json_put_str(w, "next_cursor", r > 0 ? next : NULL);
	return reply_send(&reply, req, 200, err);
}
