// SPDX-License-Identifier: Apache-2.0
/*
 * Changes settings and deletes sandboxes. A change applies to the next session; only ports change
 * at once. (Vercel's client makes further calls if it wants more than that.)
 */
#include "api/frame/find.h"
#include "api/frame/late_reply.h"
#include "api/frame/reply.h"

#include "base/log.h"
#include "compat/vercel/handlers.h"
#include "compat/vercel/wire.h"

#include <stdio.h>
#include <string.h>

/* 1: answered. */
static int read_snapshot(struct http_req *req, const struct vercel_sandbox_body *body,
                         char ret[ID_SIZE])
{
	const struct api *api = http_app_arg(req);

	ret[0] = '\0';
	if (!body->has_snapshot)
		return 0;
	vercel_snapshot_id_in(body->snapshot_id, ret);
	if (ret[0] && snapshot_find(api->fleet, caller_project(req), ret))
		return 0;
	vercel_refuse(req, 404, "not_found", "The snapshot does not exist.");
	return 1;
}

static int reply_vercel_sandbox(struct http_req *req, const struct vercel_sandbox *box,
                                bool with_routes, struct err *err)
{
	struct reply reply;
	struct json_writer *w = reply_begin(&reply);

	put_vercel_sandbox(w, "sandbox", box);
	if (with_routes)
		put_routes(w, "routes", box);
	return reply_send(&reply, req, 200, err);
}

int vercel_update_sandbox(struct http_req *req, struct err *err)
{
	auto_call(vercel_sandbox_config_done) struct vercel_sandbox_config config = {0};
	auto_call(vercel_sandbox_body_done) struct vercel_sandbox_body body = {0};
	struct vercel_sandbox_config before;
	char snapshot[ID_SIZE];
	struct sandbox *native;
	struct vercel_sandbox *box;
	int r = lead_elsewhere(req, err);

	if (r == 0)
		r = find_vercel_sandbox(req, &box, err);
	if (r != 0)
		return r;
	vercel_sandbox_config_copy(&config, &box->config);
	r = body_read_vercel_sandbox(http_json(req), BODY_UPDATE, &config, &body, err);
	if (r == 0)
		r = read_snapshot(req, &body, snapshot);
	if (r != 0)
		return r;
	before = box->config;
	box->config = config;
	config = before; /* to be freed */
	box->updated_ms = vercel_now_ms();
	if (snapshot[0])
		memcpy(box->snapshot, snapshot, sizeof(box->snapshot));
	r = vercel_sandbox_save(box, err);
	if (r < 0)
		return r;
	native = vercel_sandbox_session(box) ? vercel_session_sandbox(vercel_sandbox_session(box))
	                                     : NULL;
	if (body.has_ports && native)
		vercel_sandbox_open_ports(box, native);
	return reply_vercel_sandbox(req, box, body.has_ports, err);
}

static void on_stopped(struct vercel_sandbox *box, const struct err *err, void *arg)
{
	struct http_req *req = late_reply_take(arg, err);
	struct err failure;

	if (req && reply_vercel_sandbox(req, box, false, &failure) < 0)
		http_reply_err(req, &failure);
}

static bool is_used(const struct vercel *v, const struct vercel_snapshot *snapshot,
                    const struct vercel_sandbox *but)
{
	list_for_each (&v->sandboxes, const struct vercel_sandbox, box, link)
		if (box != but && strcmp(box->snapshot, snapshot->id) == 0 &&
		    strcmp(box->project_id, snapshot->project_id) == 0)
			return true;
	return false;
}

/* Deletes snapshots from which no other sandbox goes on. */
static void delete_orphans(struct vercel_sandbox *box)
{
	struct err err;

	list_for_each (&box->vercel->snapshots, struct vercel_snapshot, snapshot, link) {
		if (snapshot->is_deleted || strcmp(snapshot->project_id, box->project_id) != 0 ||
		    strcmp(snapshot->space, box->space) != 0 ||
		    strcmp(snapshot->sandbox, box->name) != 0 ||
		    is_used(box->vercel, snapshot, box))
			continue;
		if (vercel_snapshot_delete(box->vercel, snapshot, &err) < 0)
			log_warn("vercel.snapshot_not_removed", "id=%s error='%s'", snapshot->id,
			         err.message);
	}
}

int vercel_delete_sandbox(struct http_req *req, struct err *err)
{
	const char *orphans = http_query(req, "deleteOrphanSnapshots");
	const struct vercel_sandbox_stop how = {.is_last = true};
	struct vercel_sandbox *box;
	int r = find_vercel_sandbox(req, &box, err);

	if (r < 0)
		return r;
	if (orphans && strcmp(orphans, "true") == 0)
		delete_orphans(box);
	vercel_sandbox_stop(box, &how, on_stopped, late_reply_new(req, sizeof(struct late_reply)));
	return 0;
}
