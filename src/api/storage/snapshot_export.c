// SPDX-License-Identifier: Apache-2.0
/* A snapshot's files as one bundle, at the client's pace. */
#include "api/frame/find.h"
#include "api/handlers.h"
#include "build/transfer/view.h"
#include "sandbox/snapshot/snapshot.h"

#include <stdio.h>
#include <string.h>

#define BUNDLE_TYPE "application/x-cloche-bundle"

struct departure {
	struct http_req *req;
	struct view *view;
	struct file_call *call; /* NULL: none is under way */
	char *text;
	size_t len, sent;
	bool is_begun;
};

static void on_client_done(void *arg)
{
	struct departure *d = arg;

	if (d->call)
		file_call_cancel(d->call);
	view_close(d->view);
	free(d->text);
	free(d);
}

static void on_drain(void *arg)
{
	const struct departure *d = arg;

	if (d->call)
		file_call_pause(d->call, false);
}

static void begin(struct departure *d)
{
	char name[128];

	if (d->is_begun)
		return;
	d->is_begun = true;
	(void)snprintf(name, sizeof(name), "attachment; filename=\"%.64s.cloche\"",
	               http_param(d->req, "snapshot"));
	http_reply_header(d->req, "Content-Disposition", name);
	http_stream_start(d->req, 200, BUNDLE_TYPE, -1);
}

static void on_data(const char *data, size_t len, void *arg)
{
	struct departure *d = arg;

	begin(d);
	if (http_stream_write(d->req, data, len) < 0)
		return; /* on_client_done() follows */
	if (http_stream_pending(d->req) >= HTTP_HIGH_WATER)
		file_call_pause(d->call, true);
}

static void on_end(const struct err *err, void *arg)
{
	struct departure *d = arg;

	d->call = NULL;
	if (err && !d->is_begun)
		http_reply_err(d->req, err);
	else if (err || !d->is_begun)
		http_stream_abort(d->req);
	else
		http_stream_end(d->req);
}

static void tell_text(struct departure *d)
{
	while (d->sent < d->len) {
		ssize_t n = file_call_write(d->call, d->text + d->sent, d->len - d->sent);

		if (n <= 0)
			return; /* on_room goes on */
		d->sent += (size_t)n;
		if (d->sent == d->len)
			file_call_finish(d->call);
	}
}

static void on_room(void *arg)
{
	tell_text(arg);
}

static void on_ready(const struct err *err, void *arg)
{
	static const struct file_call_ops ops = {
		.on_data = on_data, .on_room = on_room, .on_end = on_end};
	struct departure *d = arg;
	struct start op = {.op = FILE_BUNDLE_OUT};
	struct err why;

	if (!err && view_call(d->view, &op, &ops, d, &d->call, &why) < 0)
		err = &why;
	if (err)
		http_reply_err(d->req, err);
	else
		tell_text(d);
}

static int check_memory(const struct http_req *req, const struct snapshot *sn, struct err *err)
{
	const char *memory = http_query(req, "memory");

	if (memory && strcmp(memory, "omit") != 0)
		return err_field(err, "memory", "can only be 'omit'");
	if (memory || !snapshot_has_memory(sn))
		return 0;
	(void)err_set(err, ERR_UNSUPPORTED, 0,
	              "snapshot %s has memory, which only this machine can use", snapshot_id(sn));
	return err_hint(err, "export its files alone with memory=omit (`--omit-memory`)");
}

int export_snapshot(struct http_req *req, struct err *err)
{
	static const char *const types[] = {BUNDLE_TYPE, NULL};
	const struct api *api = http_app_arg(req);
	struct view_spec spec = {.project_id = caller_project(req)};
	auto_json json_t *text = NULL;
	struct departure *d;
	struct snapshot *sn;
	int r = check_accept(req, types, err);

	if (r == 0)
		r = find_snapshot(req, &sn, err);
	if (r == 0)
		r = check_memory(req, sn, err);
	if (r < 0)
		return r;
	if (http_req_method(req) == HTTP_HEAD) { /* its length is not known before it is made */
		http_stream_start(req, 200, BUNDLE_TYPE, -1);
		http_stream_end(req);
		return 0;
	}
	text = snapshot_describe_bundle(sn);
	d = xnew0(struct departure);
	*d = (struct departure){.req = req, .text = json_dumps(text, JSON_COMPACT)};
	d->len = d->text ? strlen(d->text) : 0;
	spec.values[0] = snapshot_id(sn);
	r = d->len > 0 ? view_open(api->builds, &spec, on_ready, d, &d->view, err)
	               : err_set(err, ERR_INTERNAL, 0, "the snapshot cannot be described");
	if (r < 0) {
		free(d->text);
		free(d);
		return r;
	}
	http_on_done(req, on_client_done, d);
	http_on_drain(req, on_drain, d);
	return 0;
}
