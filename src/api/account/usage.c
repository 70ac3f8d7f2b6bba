// SPDX-License-Identifier: Apache-2.0
/*
 * Usage: of projects, days and sandboxes as it is written, and of one sandbox live. What is told
 * here may end up on a bill, so it is on the disk before it is told; the live figures are not, and
 * a client may ask for them as often as it likes.
 *
 * A caller sees its own project. An admin of the project "default" sees all.
 */
#include "api/account/usage_nodes.h"
#include "api/frame/cursor.h"
#include "api/frame/find.h"
#include "api/frame/late_reply.h"
#include "api/handlers.h"
#include "base/clock.h"
#include "build/build.h"
#include "tenant/day.h"

#include <stdio.h>
#include <string.h>

#define ROWS_DEFAULT 100
#define ROWS_MAX     1000
#define DAYS_MAX     366
#define SCAN_MAX     20000 /* rows of the store that one call looks at: some milliseconds */

static int read_day(const struct http_req *req, const char *name, int32_t *ret, struct err *err)
{
	const char *text = http_query(req, name);

	if (text && day_parse(text, ret) < 0)
		return err_field(err, name, "must be a day such as 2026-11-15");
	return 0;
}

static int read_days(const struct http_req *req, struct usage_query *q, struct err *err)
{
	int32_t today = day_of(clock_wall_us());
	int r;

	q->to = today;
	r = read_day(req, "to", &q->to, err);
	q->from = day_month(q->to);
	if (r == 0)
		r = read_day(req, "from", &q->from, err);
	if (r < 0)
		return r;
	if (q->from > q->to)
		return err_field(err, "from", "must not be behind to");
	if (q->to - q->from >= DAYS_MAX)
		return err_field(err, "from", "is more than %d days before to", DAYS_MAX - 1);
	return 0;
}

static int read_group(const struct http_req *req, struct usage_query *q, struct err *err)
{
	const char *text = http_query(req, "group_by");

	q->group = GROUP_PROJECT;
	if (!text)
		return 0;
	for (unsigned i = 0; i < GROUP_COUNT; i++)
		if (strcmp(text, usage_group_name((enum usage_group)i)) == 0) {
			q->group = (enum usage_group)i;
			return 0;
		}
	return err_field(err, "group_by", "must be project, sandbox or day");
}

static int read_project(const struct http_req *req, struct usage_query *q, struct err *err)
{
	const struct api *api = http_app_arg(req);
	const char *name = http_query(req, "project");
	const char *own = caller_project(req), *found;
	bool rules_all = is_host_admin(api, http_user(req));

	q->project_id = q->group == GROUP_PROJECT && rules_all ? NULL : own;
	if (!name)
		return 0;
	/* Builds have an account, but are no project that anybody could have keys of. */
	found = strcmp(name, BUILD_PROJECT) == 0 ? BUILD_PROJECT
	                                         : keyring_find_project(api->keyring, name);
	if (!rules_all && (!found || strcmp(found, own) != 0))
		return err_set(
			err, ERR_FORBIDDEN, 0,
			"another project's usage needs an admin key of the project 'default'");
	if (!found)
		return err_set(err, ERR_NOT_FOUND, 0, "no project '%.64s'", name);
	q->project_id = found;
	return 0;
}

/* Snapshots and volumes have accounts among those of sandboxes. */
static int read_cursor(const char *cursor, struct usage_query *q, struct err *err)
{
	static const char *const kinds[] = {"sb", "sn", "vo"};
	int r = -EINVAL;

	for (size_t i = 0; r < 0 && i < ARRAY_SIZE(kinds); i++)
		r = cursor_parse(cursor, kinds[i], q->after_id, err);
	return r;
}

static int read_query(const struct http_req *req, struct usage_query *q, struct err *err)
{
	static const char *const types[] = {"application/json", "text/csv", NULL};
	const char *accept = http_header(req, "Accept");
	const char *cursor = http_query(req, "cursor");
	int r = check_accept(req, types, err);

	*q = (struct usage_query){.limit = ROWS_DEFAULT,
	                          .is_csv = !http_hop_from(req) && accept &&
	                                    strstr(accept, "text/csv")};
	if (r == 0)
		r = read_group(req, q, err);
	if (r == 0)
		r = read_days(req, q, err);
	if (r == 0)
		r = read_project(req, q, err);
	if (r == 0)
		r = http_query_u64(req, "limit", 1, ROWS_MAX, &q->limit, err);
	if (r == 0 && cursor && q->group != GROUP_SANDBOX)
		r = err_field(err, "cursor", "only group_by=sandbox has pages");
	if (r == 0 && cursor)
		r = read_cursor(cursor, q, err);
	return r;
}

struct walk { /* rows of the store that follow each other become one */
	const struct usage_query *query;
	usage_put_fn put;
	void *arg;
	struct usage_row sum;
	char project_id[ID_SIZE], sandbox_id[ID_SIZE];
	bool has_sum;
	size_t n, n_scanned;
	bool has_more;
	char last_id[ID_SIZE]; /* of the sandboxes that were looked at to the end */
};

static void put_sum(struct walk *w)
{
	if (w->has_sum) {
		w->put(&w->sum, w->arg);
		w->n++;
	}
	w->has_sum = false;
}

static bool belongs(const struct walk *w, const struct usage_row *row)
{
	if (!w->has_sum || strcmp(w->project_id, row->project_id) != 0)
		return false;
	switch (w->query->group) {
	case GROUP_SANDBOX:
		return strcmp(w->sandbox_id, row->sandbox_id) == 0;
	case GROUP_DAY:
		return w->sum.day == row->day;
	case GROUP_PROJECT:
	case GROUP_COUNT:
		break;
	}
	return true;
}

static int add_row(const struct usage_row *row, void *arg)
{
	struct walk *w = arg;

	if (!belongs(w, row)) {
		put_sum(w);
		(void)snprintf(w->project_id, sizeof(w->project_id), "%s", row->project_id);
		(void)snprintf(w->sandbox_id, sizeof(w->sandbox_id), "%s", row->sandbox_id);
		w->sum = (struct usage_row){.project_id = w->project_id,
		                            .sandbox_id = w->sandbox_id,
		                            .key_id = "",
		                            .day = row->day};
		w->has_sum = true;
	}
	usage_add(&w->sum.usage, &row->usage);
	return 0;
}

/* Days that do not count are passed over; a page also ends when enough were. */
static int add_sandbox_row(const struct usage_row *row, void *arg)
{
	struct walk *w = arg;
	bool is_next = strcmp(w->last_id, row->sandbox_id) != 0;

	if (is_next) {
		put_sum(w);
		w->has_more = w->n >= w->query->limit || w->n_scanned >= SCAN_MAX;
		if (w->has_more)
			return 1;
		(void)snprintf(w->last_id, sizeof(w->last_id), "%s", row->sandbox_id);
	}
	w->n_scanned++;
	if (row->day < w->query->from || row->day > w->query->to)
		return 0;
	return add_row(row, w);
}

int usage_own_rows(const struct api *api, const struct usage_query *q, usage_put_fn put, void *arg,
                   struct usage_page *ret, struct err *err)
{
	struct store_usage *store = meters_store(api->meters);
	struct walk w = {.query = q, .put = put, .arg = arg};
	int r;

	if (q->group == GROUP_SANDBOX)
		r = store_usage_each_sandbox(store, q->project_id, q->after_id, add_sandbox_row, &w,
		                             err);
	else
		r = store_usage_each_day(store, q->project_id, q->from, q->to, add_row, &w, err);
	if (r == 0)
		put_sum(&w);
	ret->has_more = w.has_more;
	(void)snprintf(ret->last_id, sizeof(ret->last_id), "%s", w.last_id);
	return r;
}

static void put_row(const struct usage_row *row, void *arg)
{
	usage_rows_put(arg, row);
}

int get_usage(struct http_req *req, struct err *err)
{
	const struct api *api = http_app_arg(req);
	char cursor[CURSOR_SIZE];
	struct usage_page page;
	struct usage_rows rows;
	struct usage_query q;
	int r = read_query(req, &q, err);

	if (r == 0)
		r = meters_write(api->meters, /* is_synced= */ true, err);
	if (r == 0)
		r = usage_nodes_begin(req, &q, err);
	if (r != 0)
		return MIN(r, 0);
	usage_rows_begin(&rows, api, &q);
	r = usage_own_rows(api, &q, put_row, &rows, &page, err);
	if (r < 0) {
		buf_done(&rows.reply.body);
		return r;
	}
	if (page.has_more)
		cursor_make(page.last_id, cursor);
	return usage_rows_send(&rows, req, page.has_more ? cursor : NULL, err);
}

static void put_now(struct json_writer *w, const struct sandbox_figures *f)
{
	if (!f->is_live) {
		json_put_null(w, "now");
		return;
	}
	json_open_object(w, "now");
	json_put_u64(w, "memory_bytes", f->now.memory_bytes);
	json_put_u64(w, "memory_peak_bytes", f->now.memory_peak_bytes);
	json_put_u64(w, "disk_bytes", f->now.files_bytes);
	json_put_u64(w, "pids", f->now.pids);
	json_close_object(w);
}

/* s NULL: it is forgotten, and only its account is left. */
static void put_figures(struct json_writer *w, const struct api *api, const char *project_id,
                        const struct sandbox *s, const struct sandbox_figures *f)
{
	json_put_str(w, "sandbox_id", f->id);
	json_put_str(w, "project_id", project_id);
	json_put_str(w, "state", s ? sandbox_state_name(sandbox_state(s)) : NULL);
	json_put_u64(w, "at_us", f->at_us);
	json_put_str(w, "currency", api->currency);
	json_open_object(w, "usage");
	usage_put_figures(api, w, &f->total);
	json_close_object(w);
	put_now(w, f);
}

static void on_figures(struct sandbox *s, const struct sandbox_figures *f, const struct err *err,
                       void *arg)
{
	struct http_req *req = late_reply_take(arg, err);
	struct reply reply;

	if (!req)
		return;
	put_figures(reply_begin(&reply), http_app_arg(req), caller_project(req), s, f);
	reply_send_late(&reply, req, 200);
}

static int reply_forgotten(struct http_req *req, struct err *err)
{
	const struct api *api = http_app_arg(req);
	const char *project_id = caller_project(req);
	struct sandbox_figures f;
	struct reply reply;
	struct err why;
	int r = sandbox_forgotten_usage(api->fleet, project_id, http_param(req, "id"), &f, &why);

	if (r == 0)
		return -ENOENT; /* err says so */
	if (r < 0) {
		*err = why;
		return r;
	}
	put_figures(reply_begin(&reply), api, project_id, NULL, &f);
	return reply_send(&reply, req, 200, err);
}

int get_sandbox_usage(struct http_req *req, struct err *err)
{
	struct sandbox *s;
	struct late_reply *late;
	int r;

	if (find_sandbox(req, &s, err) < 0)
		return reply_forgotten(req, err);
	late = late_reply_new(req, sizeof(*late));
	r = sandbox_usage(s, on_figures, late, err);
	return r < 0 ? late_reply_drop(late, r) : r;
}

static void put_sample(struct json_writer *w, const struct sandbox_sample *sample)
{
	json_open_object(w, NULL);
	json_put_u64(w, "at_us", sample->at_us);
	json_put_u64(w, "cpu_ns", sample->cpu_ns);
	json_put_u64(w, "memory_bytes", sample->memory_bytes);
	json_put_u64(w, "disk_bytes", sample->disk_bytes);
	json_put_u64(w, "pids", sample->pids);
	json_put_u64(w, "network_in_bytes", sample->network_in_bytes);
	json_put_u64(w, "network_out_bytes", sample->network_out_bytes);
	json_close_object(w);
}

int list_usage_samples(struct http_req *req, struct err *err)
{
	struct json_writer *w;
	struct sandbox *s;
	struct reply reply;
	int r = find_sandbox(req, &s, err);

	if (r < 0)
		return r;
	w = reply_begin(&reply);
	json_put_str(w, "sandbox_id", sandbox_id(s));
	json_open_array(w, "samples");
	for (size_t i = 0; i < sandbox_n_samples(s); i++)
		put_sample(w, sandbox_sample_at(s, i));
	json_close_array(w);
	return reply_send(&reply, req, 200, err);
}
