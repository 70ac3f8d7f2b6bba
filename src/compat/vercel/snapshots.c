// SPDX-License-Identifier: Apache-2.0
/* Lists, shows and deletes snapshots of sandboxes, and shows their tree. */
#include "api/frame/find.h"
#include "api/frame/reply.h"

#include "compat/vercel/handlers.h"
#include "compat/vercel/wire.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define LIST_DEFAULT 20
#define LIST_MAX     50
#define TREE_MAX     10

static void put_item(struct json_writer *w, const void *object)
{
	put_vercel_snapshot(w, NULL, object);
}

static void collect(struct http_req *req, const struct page_query *q, struct page_items *ret)
{
	struct vercel *v = vercel_of(req);
	char theirs[ID_SIZE];

	list_for_each (&v->snapshots, struct vercel_snapshot, snapshot, link) {
		if (strcmp(snapshot->project_id, caller_project(req)) != 0 ||
		    strcmp(snapshot->space, space_of(req)) != 0 ||
		    (q->name && strcmp(snapshot->sandbox, q->name) != 0))
			continue;
		vercel_snapshot_look(v, snapshot);
		vercel_snapshot_id_out(snapshot->id, theirs);
		page_add(ret, theirs, snapshot, snapshot->created_ms, NULL);
	}
}

int vercel_list_snapshots(struct http_req *req, struct err *err)
{
	static const struct page_kind kind = {.array = "snapshots",
	                                      .id_field = "id",
	                                      .sorts = {"createdAt"},
	                                      .limit_default = LIST_DEFAULT,
	                                      .limit_max = LIST_MAX,
	                                      .collect = collect,
	                                      .put = put_item};

	return page_list(req, &kind, err);
}

static int find_vercel_snapshot(const struct http_req *req, const char *theirs,
                                struct vercel_snapshot **ret, struct err *err)
{
	struct vercel *v = vercel_of(req);
	char id[ID_SIZE];

	vercel_snapshot_id_in(theirs, id);
	*ret = id[0] ? vercel_snapshot_find(v, caller_project(req), id) : NULL;
	if (!*ret)
		return err_set(err, ERR_NOT_FOUND, 0, "no snapshot '%.64s'", theirs);
	vercel_snapshot_look(v, *ret);
	return 0;
}

static int reply_vercel_snapshot(struct http_req *req, const struct vercel_snapshot *snapshot,
                                 struct err *err)
{
	struct reply reply;

	put_vercel_snapshot(reply_begin(&reply), "snapshot", snapshot);
	return reply_send(&reply, req, 200, err);
}

int vercel_get_snapshot(struct http_req *req, struct err *err)
{
	struct vercel_snapshot *snapshot;
	int r = find_vercel_snapshot(req, http_param(req, "snapshot_id"), &snapshot, err);

	return r < 0 ? r : reply_vercel_snapshot(req, snapshot, err);
}

int vercel_delete_snapshot(struct http_req *req, struct err *err)
{
	struct vercel_snapshot *snapshot;
	int r = find_vercel_snapshot(req, http_param(req, "snapshot_id"), &snapshot, err);

	if (r == 0)
		r = vercel_snapshot_delete(vercel_of(req), snapshot, err);
	return r < 0 ? r : reply_vercel_snapshot(req, snapshot, err);
}

static struct vercel_snapshot *parent_of(const struct vercel *v,
                                         const struct vercel_snapshot *snapshot)
{
	return snapshot->parent_id[0]
	               ? vercel_snapshot_find(v, snapshot->project_id, snapshot->parent_id)
	               : NULL;
}

/* The oldest snapshot that came from it. */
static struct vercel_snapshot *child_of(const struct vercel *v, const struct vercel_snapshot *of)
{
	list_for_each (&v->snapshots, struct vercel_snapshot, snapshot, link)
		if (strcmp(snapshot->parent_id, of->id) == 0 &&
		    strcmp(snapshot->project_id, of->project_id) == 0)
			return snapshot;
	return NULL;
}

/* One node of the path: the snapshot and its siblings. */
static void put_node(struct json_writer *w, const char *name, const struct vercel *v,
                     const struct vercel_snapshot *node)
{
	uint64_t n = 1;
	char count[24];

	json_open_object(w, name);
	put_vercel_snapshot(w, "snapshot", node);
	json_open_array(w, "siblings");
	list_for_each (&v->snapshots, const struct vercel_snapshot, snapshot, link) {
		if (snapshot == node || !node->parent_id[0] ||
		    strcmp(snapshot->parent_id, node->parent_id) != 0 ||
		    strcmp(snapshot->project_id, node->project_id) != 0)
			continue;
		put_vercel_snapshot(w, NULL, snapshot);
		n++;
	}
	json_close_array(w);
	(void)snprintf(count, sizeof(count), "%" PRIu64, n);
	json_put_str(w, "count", count);
	json_close_object(w);
}

static void put_pagination(struct json_writer *w, uint64_t count,
                           const struct vercel_snapshot *next)
{
	char theirs[ID_SIZE];

	json_open_object(w, "pagination");
	json_put_u64(w, "count", count);
	if (next) {
		vercel_snapshot_id_out(next->id, theirs);
		json_put_str(w, "next", theirs);
	} else {
		json_put_null(w, "next");
	}
	json_close_object(w);
}

/* From a snapshot towards its ancestors, or along the first of its descendants. */
int vercel_get_tree(struct http_req *req, struct err *err)
{
	const char *theirs = http_query(req, "snapshotId");
	struct vercel *v = vercel_of(req);
	struct json_writer *w;
	struct page_query q;
	struct reply reply;
	struct vercel_snapshot *snapshot = NULL, *next;
	uint64_t n = 0;
	int r = page_read(req, TREE_MAX, TREE_MAX, &q, err);

	if (r == 0)
		r = lead_elsewhere(req, err);
	if (r > 0)
		return r;
	if (r == 0)
		r = theirs ? find_vercel_snapshot(req, theirs, &snapshot, err)
		           : err_field(err, "snapshotId", "is missing");
	if (r < 0)
		return r;
	w = reply_begin(&reply);
	put_node(w, "anchor", v, snapshot);
	json_open_array(w, "snapshots");
	for (next = snapshot; next && n < q.limit; n++) {
		put_node(w, NULL, v, next);
		next = q.is_ascending ? child_of(v, next) : parent_of(v, next);
	}
	json_close_array(w);
	put_pagination(w, n, next);
	return reply_send(&reply, req, 200, err);
}
