// SPDX-License-Identifier: Apache-2.0
/*
 * CSV as in RFC 4180, with a header line. Nothing in it needs quotes: ids, days and numbers are all
 * there is, so that no spreadsheet can take a name for a formula.
 */
#include "api/account/usage_rows.h"

#include "base/text/decimal.h"
#include "build/build.h"
#include "tenant/day.h"

#include <inttypes.h>

static const char *const group_names[] = {
	[GROUP_PROJECT] = "project",
	[GROUP_SANDBOX] = "sandbox",
	[GROUP_DAY] = "day",
};

const char *usage_group_name(enum usage_group group)
{
	return group_names[group];
}

static void csv(struct usage_rows *rows, const char *text, char end)
{
	if (rows->error == 0)
		rows->error = buf_printf(&rows->reply.body, "%s%c", text, end);
	if (rows->error == 0 && end == '\r')
		rows->error = buf_append(&rows->reply.body, "\n", 1);
}

static void csv_figures(struct usage_rows *rows, const struct usage *u)
{
	char number[DECIMAL_SIZE];

	for (unsigned i = 0; i < USAGE_FIGURE_COUNT; i++) {
		(void)snprintf(number, sizeof(number), "%" PRIu64, u->of[i]);
		csv(rows, number, ',');
	}
	decimal_format(price_cost(&rows->api->prices, u), number);
	csv(rows, number, ',');
	csv(rows, rows->api->currency, '\r');
}

static void csv_header(struct usage_rows *rows)
{
	csv(rows, "project_id", ',');
	if (rows->group == GROUP_SANDBOX)
		csv(rows, "sandbox_id", ',');
	if (rows->group == GROUP_DAY)
		csv(rows, "day", ',');
	for (unsigned i = 0; i < USAGE_FIGURE_COUNT; i++)
		csv(rows, usage_figure_name((enum usage_figure)i), ',');
	csv(rows, "cost", ',');
	csv(rows, "currency", '\r');
}

void usage_put_figures(const struct api *api, struct json_writer *w, const struct usage *u)
{
	char cost[DECIMAL_SIZE];

	for (unsigned i = 0; i < USAGE_FIGURE_COUNT; i++)
		json_put_u64(w, usage_figure_name((enum usage_figure)i), u->of[i]);
	decimal_format(price_cost(&api->prices, u), cost);
	json_put_str(w, "cost", cost);
}

void usage_rows_begin(struct usage_rows *rows, const struct api *api, const struct usage_query *q)
{
	char from[DAY_TEXT_SIZE], to[DAY_TEXT_SIZE];
	struct json_writer *w;

	*rows = (struct usage_rows){.api = api, .group = q->group, .is_csv = q->is_csv};
	if (q->is_csv) {
		(void)reply_begin_bare(&rows->reply);
		csv_header(rows);
		return;
	}
	day_format(q->from, from);
	day_format(q->to, to);
	w = reply_begin(&rows->reply);
	json_put_str(w, "group_by", group_names[q->group]);
	json_put_str(w, "from", from);
	json_put_str(w, "to", to);
	json_put_str(w, "currency", api->currency);
	json_open_array(w, "rows");
}

static void put_json(struct usage_rows *rows, const struct usage_row *row, const char *day)
{
	struct json_writer *w = &rows->reply.w;

	json_open_object(w, NULL);
	json_put_str(w, "project_id", row->project_id);
	if (rows->group == GROUP_PROJECT)
		json_put_str(w, "project",
		             strcmp(row->project_id, BUILD_PROJECT) == 0
		                     ? "builds"
		                     : keyring_project_name(rows->api->keyring, row->project_id));
	if (rows->group == GROUP_SANDBOX)
		json_put_str(w, "sandbox_id", row->sandbox_id);
	if (rows->group == GROUP_DAY)
		json_put_str(w, "day", day);
	usage_put_figures(rows->api, w, &row->usage);
	json_close_object(w);
}

void usage_rows_put(struct usage_rows *rows, const struct usage_row *row)
{
	char day[DAY_TEXT_SIZE];

	day_format(row->day, day);
	usage_add(&rows->total, &row->usage);
	if (!rows->is_csv) {
		put_json(rows, row, day);
		return;
	}
	csv(rows, row->project_id, ',');
	if (rows->group == GROUP_SANDBOX)
		csv(rows, row->sandbox_id, ',');
	if (rows->group == GROUP_DAY)
		csv(rows, day, ',');
	csv_figures(rows, &row->usage);
}

static int send_csv(struct usage_rows *rows, struct http_req *req, const char *next_cursor,
                    struct err *err)
{
	struct buf *body = &rows->reply.body;

	if (rows->error == 0) {
		if (next_cursor)
			http_reply_header(req, "X-Next-Cursor", next_cursor);
		http_reply(req, 200, "text/csv; charset=utf-8", body->data, body->len);
	}
	buf_done(body);
	return rows->error == 0 ? 0 : err_set(err, ERR_TOO_LARGE, 0, "the answer is too large");
}

int usage_rows_send(struct usage_rows *rows, struct http_req *req, const char *next_cursor,
                    struct err *err)
{
	struct json_writer *w = &rows->reply.w;

	if (rows->is_csv)
		return send_csv(rows, req, next_cursor, err);
	json_close_array(w);
	json_open_object(w, "total");
	usage_put_figures(rows->api, w, &rows->total);
	json_close_object(w);
	json_put_str(w, "next_cursor", next_cursor);
	if (rows->put_more)
		rows->put_more(w, rows->more_arg);
	return reply_send(&rows->reply, req, 200, err);
}
