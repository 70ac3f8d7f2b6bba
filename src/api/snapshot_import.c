// SPDX-License-Identifier: Apache-2.0
/* A snapshot from a bundle in the request's body, which is held back by the slower side. */
#include "build/snapshot_import.h"

#include "api/find.h"
#include "api/handlers.h"
#include "api/reply.h"
#include "sandbox/snapshot.h"

#define HELD_BYTES_MAX (1024 * 1024) /* more than the server hands over at once */

struct arrival {
	struct http_req *req;
	struct snapshot_import *import; /* NULL: it has ended */
	struct buf held;
	bool is_whole;
};

static void on_client_done(struct http_req *req, bool whole, void *arg)
{
	struct arrival *a = arg;

	(void)req;
	(void)whole;
	if (a->import)
		snapshot_import_leave(a->import);
	buf_done(&a->held);
	free(a);
}

static void push(struct arrival *a)
{
	while (a->held.len > 0) {
		size_t n = snapshot_import_write(a->import, a->held.data, a->held.len);

		if (n == 0)
			return; /* on_room goes on, or on_end tells why not */
		buf_consume(&a->held, n);
	}
	if (a->is_whole)
		snapshot_import_finish(a->import);
	else
		http_body_pause(a->req, false);
}

static void on_body(struct http_req *req, const char *data, size_t len, void *arg)
{
	struct arrival *a = arg;
	struct err err;

	if (!a->import)
		return; /* it ended early, and that was answered */
	if (!data) {
		a->is_whole = true;
		if (a->held.len == 0)
			snapshot_import_finish(a->import);
		return;
	}
	if (buf_append(&a->held, data, len) < 0) {
		(void)err_set(&err, ERR_INTERNAL, 0, "the body came in too large a stretch");
		snapshot_import_leave(take_ptr(a->import));
		http_reply_err(req, &err);
		return;
	}
	http_body_pause(req, true);
	push(a);
}

static void on_room(void *arg)
{
	struct arrival *a = arg;

	if (a->import && (a->held.len > 0 || !a->is_whole))
		push(a);
}

static void on_end(struct snapshot *sn, const struct err *err, void *arg)
{
	struct arrival *a = arg;
	struct reply reply;

	a->import = NULL;
	if (err) {
		http_reply_err(a->req, err);
		return;
	}
	snapshot_to_json(sn, reply_begin_bare(&reply), NULL);
	reply_send_late(&reply, a->req, 201);
}

int import_snapshot(struct http_req *req, struct err *err)
{
	static const struct snapshot_import_ops ops = {on_room, on_end};
	const struct api *api = http_app_arg(req);
	const struct snapshot_import_spec spec = {.project_id = caller_project(req),
	                                          .key_id = key_id(http_user(req)),
	                                          .name = http_param(req, "snapshot")};
	struct arrival *a;
	int r = no_query(req, err);

	if (r < 0)
		return r;
	a = xnew0(struct arrival);
	*a = (struct arrival){.req = req, .held = BUF_INIT(HELD_BYTES_MAX)};
	r = snapshot_import_start(api->builds, &spec, &ops, a, &a->import, err);
	if (r < 0) {
		free(a);
		return r;
	}
	http_on_done(req, on_client_done, a);
	http_on_body(req, on_body, a);
	return 0;
}
