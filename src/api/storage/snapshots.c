// SPDX-License-Identifier: Apache-2.0
/* Snapshots. To take one the broker needs a moment: that is answered later. */
#include "sandbox/snapshot/snapshot.h"

#include "api/frame/body.h"
#include "api/frame/find.h"
#include "api/frame/late_reply.h"
#include "api/frame/reply.h"
#include "api/handlers.h"
#include "api/nodes/list_page.h"
#include "api/sandboxes/sandbox_reply.h"

#include <stdio.h>
#include <string.h>

#define KEEP_LAST_MAX 1000

int find_snapshot(const struct http_req *req, struct snapshot **ret, struct err *err)
{
	const struct api *api = http_app_arg(req);
	const char *name = http_param(req, "snapshot");

	*ret = snapshot_find(api->fleet, caller_project(req), name);
	if (*ret)
		return 0;
	(void)err_set(err, ERR_NOT_FOUND, 0, "no snapshot '%.64s'", name);
	return err_hint(err, "'cloche snapshot ls' lists those of your project");
}

static void on_taken(struct snapshot *sn, const struct err *err, void *arg)
{
	struct http_req *req = late_reply_take(arg, err);
	struct reply reply;

	if (!req)
		return;
	snapshot_to_json(sn, reply_begin_bare(&reply), NULL);
	reply_send_late(&reply, req, 201);
}

static int read_wish(const json_t *body, struct snapshot_wish *ret, struct err *err)
{
	const char *on_connection = NULL;
	/* clang-format off */
	const struct json_field fields[] = {
		{"name",          JSON_FIELD_STRING, &ret->name, .min = 1, .max = SNAPSHOT_NAME_MAX},
		{"memory",        JSON_FIELD_BOOL,   &ret->has_memory},
		{"on_connection", JSON_FIELD_STRING, &on_connection},
		{"expires_in_ms", JSON_FIELD_U64,    &ret->expires_in_ms, .min = 1, .max = TIMEOUT_MS_MAX},
		{"keep_last",     JSON_FIELD_U64,    &ret->keep_last, .min = 1, .max = KEEP_LAST_MAX},
	};
	/* clang-format on */

	int r;

	*ret = (struct snapshot_wish){0};
	r = body ? json_read(body, "", fields, ARRAY_SIZE(fields), err) : 0;
	return r < 0 ? r : body_read_on_connection(on_connection, &ret->closes_connections, err);
}

int create_snapshot(struct http_req *req, struct err *err)
{
	struct snapshot_wish wish;
	struct late_reply *late;
	struct sandbox *s;
	int r = read_wish(http_json(req), &wish, err);

	if (r == 0)
		r = find_sandbox(req, &s, err);
	if (r < 0)
		return r;
	late = late_reply_new(req, sizeof(*late));
	r = snapshot_take(s, &wish, on_taken, late, err);
	return r < 0 ? late_reply_drop(late, r) : r;
}

int get_snapshot(struct http_req *req, struct err *err)
{
	struct snapshot *sn;
	struct reply reply;
	int r = find_snapshot(req, &sn, err);

	if (r < 0)
		return r;
	snapshot_to_json(sn, reply_begin_bare(&reply), NULL);
	return reply_send(&reply, req, 200, err);
}

int update_snapshot(struct http_req *req, struct err *err)
{
	struct snapshot_patch patch = {0};
	/* clang-format off */
	const struct json_field fields[] = {
		{"name",          JSON_FIELD_STRING, &patch.name, .max = SNAPSHOT_NAME_MAX},
		{"expires_in_ms", JSON_FIELD_U64,    &patch.expires_in_ms, .ret_given = &patch.has_expiry,
		 .max = TIMEOUT_MS_MAX},
	};
	/* clang-format on */
	const json_t *body = http_json(req);
	struct snapshot *sn;
	struct reply reply;
	int r = 0;

	if (body)
		r = json_read(body, "", fields, ARRAY_SIZE(fields), err);
	if (r == 0)
		r = find_snapshot(req, &sn, err);
	if (r == 0)
		r = snapshot_update(sn, &patch, err);
	if (r < 0)
		return r;
	snapshot_to_json(sn, reply_begin_bare(&reply), NULL);
	return reply_send(&reply, req, 200, err);
}

int delete_snapshot(struct http_req *req, struct err *err)
{
	struct snapshot *sn;
	struct reply reply;
	char id[ID_SIZE];
	int r = find_snapshot(req, &sn, err);

	if (r < 0)
		return r;
	(void)snprintf(id, sizeof(id), "%s", snapshot_id(sn));
	r = snapshot_remove(sn, err);
	if (r < 0)
		return r;
	json_put_str(reply_begin(&reply), "id", id);
	return reply_send(&reply, req, 200, err);
}

struct list_query {
	struct snapshot_filter filter;
	struct node_list_place place;
};

static int read_list(const struct http_req *req, struct list_query *q, struct err *err)
{
	const struct api *api = http_app_arg(req);
	const char *of = http_query(req, "sandbox");
	int r = list_page_read(req, "sn", &q->place, err);

	q->filter = (struct snapshot_filter){.project_id = caller_project(req),
	                                     .after_id = q->place.id[0] ? q->place.id : NULL,
	                                     .after_us = q->place.us,
	                                     .limit = (size_t)q->place.limit};
	if (of) { /* by its name while it is there; its id does for one that is forgotten */
		const struct sandbox *s = sandbox_find(api->fleet, q->filter.project_id, of);

		q->filter.source_id = s ? sandbox_id(s) : of;
	}
	return r;
}

struct page {
	struct json_writer *w;
	const struct snapshot *last;
};

static void put_snapshot(const struct snapshot *sn, void *arg)
{
	struct page *page = arg;

	page->last = sn;
	snapshot_to_json(sn, page->w, NULL);
}

/* What this node has: for a client of a node that is alone, or for another node that asks. */
static int reply_page(struct http_req *req, struct list_query *q, struct err *err)
{
	const struct api *api = http_app_arg(req);
	struct page page = {};
	struct reply reply;
	bool has_more;

	q->filter.is_ordered = list_page_is_ordered(req, &q->place);
	page.w = reply_begin(&reply);
	json_open_array(page.w, "snapshots");
	snapshot_list(api->fleet, &q->filter, put_snapshot, &page, &has_more);
	json_close_array(page.w);
	list_page_put_cursor(page.w, has_more ? snapshot_id(page.last) : NULL,
	                     has_more && q->filter.is_ordered ? snapshot_created_us(page.last) : 0);
	return reply_send(&reply, req, 200, err);
}

static void add_own(const struct snapshot *sn, void *arg)
{
	node_list_add_own(arg, snapshot_created_us(sn), snapshot_id(sn), sn);
}

static void put_row(const struct node_row *row, struct json_writer *w)
{
	snapshot_to_json(row->own, w, NULL);
}

/* Of all nodes of the cluster. */
static int reply_all(struct http_req *req, struct node_list *l, struct err *err)
{
	struct list_query q;
	bool has_more = false;
	int r = read_list(req, &q, err);

	if (r < 0)
		return r;
	q.filter.is_ordered = true;
	snapshot_list(l->api->fleet, &q.filter, add_own, l, &has_more);
	if (has_more)
		node_list_own_has_more(l);
	return list_page_reply(req, l, q.place.limit, put_row, err);
}

int list_snapshots(struct http_req *req, struct err *err)
{
	static const struct node_list_kind kind = {.array = "snapshots",
	                                           .id_kind = "sn",
	                                           .id_field = "id",
	                                           .time_field = "created_us",
	                                           .finish = reply_all};
	struct list_query q;
	int r = read_list(req, &q, err);

	if (r == 0)
		r = node_list_begin(req, &kind, err);
	return r == 0 ? reply_page(req, &q, err) : r;
}

static int reply_tree(struct http_req *req, const char *id, struct err *err)
{
	const struct api *api = http_app_arg(req);
	struct reply reply;

	lineage_to_json(api->fleet, caller_project(req), id, reply_begin(&reply));
	return reply_send(&reply, req, 200, err);
}

int get_snapshot_tree(struct http_req *req, struct err *err)
{
	struct snapshot *sn = NULL;
	int r = find_snapshot(req, &sn, err);

	return r < 0 ? r : reply_tree(req, snapshot_id(sn), err);
}

int get_sandbox_tree(struct http_req *req, struct err *err)
{
	struct sandbox *s = NULL;
	int r = find_sandbox(req, &s, err);

	return r < 0 ? r : reply_tree(req, sandbox_id(s), err);
}

int roll_back_sandbox(struct http_req *req, struct err *err)
{
	const char *name = NULL;
	const struct json_field fields[] = {
		{"snapshot", JSON_FIELD_STRING, &name, /* required= */ true, .min = 1, .max = 64},
	};
	const json_t *body = http_json(req);
	struct sandbox *s;
	struct sandbox_reply *a;
	int r = body ? json_read(body, "", fields, ARRAY_SIZE(fields), err)
	             : err_field(err, "snapshot", "is missing");

	if (r == 0)
		r = lead_elsewhere(req, err);
	if (r == 0)
		r = find_sandbox(req, &s, err);
	if (r != 0)
		return r;
	a = sandbox_reply_new(req, 200);
	r = sandbox_roll_back(s, name, sandbox_reply_send, a, err);
	return r < 0 ? late_reply_drop(a, r) : r;
}
