// SPDX-License-Identifier: Apache-2.0
/*
 * Settings that are changed, and lodges that go. A change is for the next session; only ports
 * change at once. (Their client follows up with calls of its own where it wants more than that.)
 */
#include "api/frame/find.h"
#include "api/frame/reply.h"

#include "base/log.h"
#include "compat/vercel/handlers.h"
#include "compat/vercel/wire.h"

#include <stdio.h>
#include <string.h>

/* 1: answered. */
static int read_snapshot(struct http_req *req, const struct lodge_body *body, char ret[ID_SIZE])
{
	const struct api *api = http_app_arg(req);

	ret[0] = '\0';
	if (!body->has_snapshot)
		return 0;
	still_id_in(body->snapshot_id, ret);
	if (ret[0] && snapshot_find(api->fleet, caller_project(req), ret))
		return 0;
	vercel_refuse(req, 404, "not_found", "The snapshot does not exist.");
	return 1;
}

static int reply_lodge(struct http_req *req, const struct lodge *b, bool with_routes,
                       struct err *err)
{
	struct reply reply;
	struct json_writer *w = reply_begin(&reply);

	put_lodge(w, "sandbox", b);
	if (with_routes)
		put_routes(w, "routes", b);
	return reply_send(&reply, req, 200, err);
}

int vercel_update_lodge(struct http_req *req, struct err *err)
{
	auto_call(lodge_config_done) struct lodge_config config = {0};
	auto_call(lodge_body_done) struct lodge_body body = {0};
	struct lodge_config before;
	char snapshot[ID_SIZE];
	struct sandbox *native;
	struct lodge *b;
	int r = find_lodge(req, &b, err);

	if (r < 0)
		return r;
	lodge_config_copy(&config, &b->config);
	r = body_read_lodge(http_json(req), BODY_UPDATE, &config, &body, err);
	if (r == 0)
		r = read_snapshot(req, &body, snapshot);
	if (r != 0)
		return r;
	before = b->config;
	b->config = config;
	config = before; /* to be freed */
	b->updated_ms = vercel_now_ms();
	if (snapshot[0])
		memcpy(b->snapshot, snapshot, sizeof(b->snapshot));
	r = lodge_save(b, err);
	if (r < 0)
		return r;
	native = lodge_stay(b) ? stay_sandbox(lodge_stay(b)) : NULL;
	if (body.has_ports && native)
		lodge_open_ports(b, native);
	return reply_lodge(req, b, body.has_ports, err);
}

struct leaving {
	struct http_req *req; /* NULL: the client is gone */
};

static void on_client_done(struct http_req *req, bool whole, void *arg)
{
	(void)req;
	(void)whole;
	((struct leaving *)arg)->req = NULL;
}

static void on_stopped(struct lodge *b, const struct err *err, void *arg)
{
	struct leaving l = *(struct leaving *)arg;
	struct err failure;

	free(arg);
	if (!l.req)
		return;
	http_on_done(l.req, NULL, NULL);
	if (err)
		http_reply_err(l.req, err);
	else if (reply_lodge(l.req, b, false, &failure) < 0)
		http_reply_err(l.req, &failure);
}

static bool is_used(const struct vercel *v, const struct still *still, const struct lodge *but)
{
	list_for_each (&v->lodges, const struct lodge, b, link)
		if (b != but && strcmp(b->snapshot, still->id) == 0 &&
		    strcmp(b->project_id, still->project_id) == 0)
			return true;
	return false;
}

/* Those that no other lodge goes on from. */
static void delete_orphans(struct lodge *b)
{
	struct err err;

	list_for_each (&b->vercel->stills, struct still, still, link) {
		if (still->is_deleted || strcmp(still->project_id, b->project_id) != 0 ||
		    strcmp(still->space, b->space) != 0 || strcmp(still->lodge, b->name) != 0 ||
		    is_used(b->vercel, still, b))
			continue;
		if (still_delete(b->vercel, still, &err) < 0)
			log_warn("vercel.snapshot_stays", "id=%s error='%s'", still->id,
			         err.message);
	}
}

int vercel_delete_lodge(struct http_req *req, struct err *err)
{
	const char *orphans = http_query(req, "deleteOrphanSnapshots");
	const struct lodge_stop how = {.is_last = true};
	struct leaving *l;
	struct lodge *b;
	int r = find_lodge(req, &b, err);

	if (r < 0)
		return r;
	if (orphans && strcmp(orphans, "true") == 0)
		delete_orphans(b);
	l = xnew0(struct leaving);
	l->req = req;
	http_on_done(req, on_client_done, l);
	lodge_stop(b, &how, on_stopped, l);
	return 0;
}
