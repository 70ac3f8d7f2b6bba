// SPDX-License-Identifier: Apache-2.0
/* A snapshot from a bundle in the request's body, which is held back by the slower side. */
#include "build/transfer/snapshot_import.h"

#include "api/frame/find.h"
#include "api/frame/reply.h"
#include "api/frame/upload.h"
#include "api/handlers.h"
#include "sandbox/snapshot/snapshot.h"

static size_t write_import(void *into, const void *data, size_t len)
{
	return snapshot_import_write(into, data, len);
}

static void finish_import(void *into)
{
	snapshot_import_finish(into);
}

static void leave_import(void *into)
{
	snapshot_import_leave(into);
}

static const struct upload_ops into_import = {write_import, finish_import, leave_import};

static void on_client_done(void *arg)
{
	struct upload *in = arg;

	upload_done(in);
	free(in);
}

static void on_room(void *arg)
{
	upload_go_on(arg);
}

static void on_end(struct snapshot *sn, const struct err *err, void *arg)
{
	struct upload *in = arg;
	struct reply reply;

	in->into = NULL;
	if (err) {
		http_reply_err(in->req, err);
		return;
	}
	snapshot_to_json(sn, reply_begin_bare(&reply), NULL);
	reply_send_late(&reply, in->req, 201);
}

int import_snapshot(struct http_req *req, struct err *err)
{
	static const struct snapshot_import_ops ops = {on_room, on_end};
	const struct api *api = http_app_arg(req);
	const struct snapshot_import_spec spec = {.project_id = caller_project(req),
	                                          .key_id = key_id(http_user(req)),
	                                          .name = http_param(req, "snapshot")};
	struct snapshot_import *import;
	struct upload *in;
	int r;

	in = xnew0(struct upload);
	*in = (struct upload)UPLOAD_INIT(req, &into_import);
	r = snapshot_import_start(api->builds, &spec, &ops, in, &import, err);
	if (r < 0) {
		free(in);
		return r;
	}
	in->into = import;
	http_on_done(req, on_client_done, in);
	upload_go_on(in);
	return 0;
}
