// SPDX-License-Identifier: Apache-2.0
/*
 * A template as one archive. Bytes pass at the client's pace. The last one waits until the export's
 * sandbox is gone: whoever has all of the archive may remove the template.
 */
#include "api/frame/find.h"
#include "api/handlers.h"
#include "api/templates/templates.h"
#include "build/transfer/export.h"

#include <string.h>

#define TAR_TYPE "application/x-tar"

struct departure {
	struct http_req *req;
	struct export *export; /* NULL: it has ended */
	bool is_begun;
	uint64_t left; /* of what was promised */
	char last;
};

static void on_client_done(void *arg)
{
	struct departure *d = arg;

	if (d->export)
		export_leave(d->export);
	free(d);
}

static void on_drain(void *arg)
{
	const struct departure *d = arg;

	if (d->export)
		export_pause(d->export, false);
}

static void on_begin(uint64_t bytes, void *arg)
{
	struct departure *d = arg;
	char name[128];

	(void)snprintf(name, sizeof(name), "attachment; filename=\"%.64s.tar\"",
	               http_param(d->req, "template"));
	d->is_begun = true;
	d->left = bytes;
	http_reply_header(d->req, "Content-Disposition", name);
	http_stream_start(d->req, 200, TAR_TYPE, (int64_t)MIN(bytes, (uint64_t)INT64_MAX));
}

static void on_data(const char *data, size_t len, void *arg)
{
	struct departure *d = arg;

	bool is_last = len == d->left;

	if (len == 0 || len > d->left)
		return; /* on_client_done() or on_end() follows */
	d->left -= len;
	d->last = data[len - 1];
	if (http_stream_write(d->req, data, len - is_last) < 0)
		return;
	if (d->export && http_stream_pending(d->req) >= HTTP_HIGH_WATER)
		export_pause(d->export, true);
}

static void on_end(const struct err *err, void *arg)
{
	struct departure *d = arg;
	struct err none;

	d->export = NULL;
	if (!err && !d->is_begun) {
		(void)err_set(&none, ERR_GUEST, 0, "the sandbox did not pack the template");
		err = &none;
	}
	if (!d->is_begun)
		http_reply_err(d->req, err);
	else if (err || d->left > 0 || http_stream_write(d->req, &d->last, 1) < 0)
		http_stream_abort(d->req);
	else
		http_stream_end(d->req);
}

static const struct export_ops ops = {.on_begin = on_begin, .on_data = on_data, .on_end = on_end};

int export_template(struct http_req *req, struct err *err)
{
	static const char *const types[] = {TAR_TYPE, NULL};
	const struct api *api = http_app_arg(req);
	struct departure *d;
	struct template *t;
	int r = check_accept(req, types, err);

	if (r == 0 && strcmp(http_param(req, "template"), TEMPLATE_HOST) == 0)
		r = err_set(err, ERR_CONFLICT, 0,
		            "'" TEMPLATE_HOST
		            "' is this machine's own programs: it has no image to export");
	if (r == 0)
		r = find_template(req, &t, err);
	if (r < 0)
		return r;
	if (http_req_method(req) == HTTP_HEAD) { /* its length is not known before it is packed */
		http_stream_start(req, 200, TAR_TYPE, -1);
		http_stream_end(req);
		return 0;
	}
	d = xnew0(struct departure);
	d->req = req;
	r = export_start(api->builds, caller_project(req), t, &ops, d, &d->export, err);
	if (r < 0) {
		free(d);
		return r;
	}
	http_on_done(req, on_client_done, d);
	http_on_drain(req, on_drain, d);
	return 0;
}
