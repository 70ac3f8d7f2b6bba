// SPDX-License-Identifier: Apache-2.0
/*
 * What differs between two snapshots or sandboxes, sent on as the agent of a view tells it: a
 * hundred thousand changes cost no more memory than some. The first changes are gathered before
 * anything is sent, so that whatever goes wrong by then is an ordinary error.
 */
#include "api/files/diff.h"

#include "api/files/file_job.h"
#include "api/frame/find.h"
#include "api/handlers.h"
#include "build/transfer/view.h"

#include <stdio.h>

#define LIMIT_DEFAULT 1000
#define LIMIT_MAX     100000
#define NAME_MAX_LEN  64
#define OUT_BYTES_MAX                                                                              \
	((size_t)2 << 20) /* with a last change: path and patch of 64 KiB, escaped                 \
	                   */
#define SEND_BYTES ((size_t)512 << 10)

struct differing {
	struct http_req *req;
	struct view *view;
	struct file_call *call; /* NULL: none is under way */
	struct start op;
	struct buf out;
	size_t n; /* changes so far */
	bool is_begun;
};

static const char *kind_of(uint32_t changes)
{
	return changes & CHANGE_ADDED ? "added" : changes & CHANGE_DELETED ? "deleted" : "modified";
}

static void put_side(struct json_writer *w, const char *const names[5], uint32_t mode,
                     uint64_t size, uint32_t uid, uint32_t gid)
{
	char text[8];

	if (mode == 0) {
		for (size_t i = 0; i < 5; i++)
			json_put_null(w, names[i]);
		return;
	}
	(void)snprintf(text, sizeof(text), "%04o", mode & 07777);
	json_put_str(w, names[0], file_type_name(mode));
	json_put_u64(w, names[1], size);
	json_put_str(w, names[2], text);
	json_put_u64(w, names[3], uid);
	json_put_u64(w, names[4], gid);
}

static void put_changed(struct json_writer *w, uint32_t changes)
{
	static const struct {
		uint32_t bit;
		const char *name;
	} rows[] = {
		{CHANGE_TYPE, "type"},   {CHANGE_CONTENT, "content"},       {CHANGE_MODE, "mode"},
		{CHANGE_OWNER, "owner"}, {CHANGE_ATTRIBUTES, "attributes"},
	};

	json_open_array(w, "changed");
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		if (changes & rows[i].bit)
			json_put_str(w, NULL, rows[i].name);
	json_close_array(w);
}

void change_to_json(const struct record *r, struct json_writer *w, const char *name)
{
	static const char *const now[] = {"type", "size", "mode", "uid", "gid"};
	static const char *const old[] = {"old_type", "old_size", "old_mode", "old_uid", "old_gid"};

	json_open_object(w, name);
	json_put_str(w, "path", r->path);
	json_put_str(w, "kind", kind_of(r->changes));
	put_changed(w, r->changes);
	put_side(w, now, r->mode, r->size, r->uid, r->gid);
	put_side(w, old, r->old.mode, r->old.size, r->old.uid, r->old.gid);
	if (r->patch && r->patch[0])
		json_put_str(w, "patch", r->patch);
	else if (r->changes & (CHANGE_BINARY | CHANGE_TOO_LARGE))
		json_put_str(w, "patch_omitted",
		             r->changes & CHANGE_BINARY ? "binary" : "too_large");
	json_close_object(w);
}

static void on_client_done(void *arg)
{
	struct differing *d = arg;

	if (d->call)
		file_call_cancel(d->call);
	view_close(d->view);
	buf_done(&d->out);
	free(d);
}

static void on_drain(void *arg)
{
	const struct differing *d = arg;

	if (d->call)
		file_call_pause(d->call, false);
}

static void send_out(struct differing *d)
{
	if (!d->is_begun) {
		d->is_begun = true;
		http_stream_start(d->req, 200, "application/json", -1);
	}
	if (http_stream_write(d->req, d->out.data, d->out.len) < 0)
		return; /* on_client_done() follows */
	buf_truncate(&d->out, 0);
	if (d->call && http_stream_pending(d->req) >= HTTP_HIGH_WATER)
		file_call_pause(d->call, true);
}

static void on_record(const struct record *r, void *arg)
{
	struct differing *d = arg;
	struct json_writer w;

	if (r->kind != RECORD_CHANGE)
		return;
	json_writer_init(&w, &d->out);
	w.comma[0] = d->n++ > 0; /* it goes on with an array */
	change_to_json(r, &w, NULL);
	if (json_writer_end(&w) < 0)
		http_stream_abort(d->req);
	else if (d->out.len >= SEND_BYTES)
		send_out(d);
}

static void fail(struct differing *d, const struct err *err)
{
	if (d->is_begun)
		http_stream_abort(d->req);
	else
		http_reply_err(d->req, err);
}

static void on_end(const struct err *err, void *arg)
{
	struct differing *d = arg;
	bool is_truncated = file_call_is_truncated(d->call);

	d->call = NULL;
	if (err) {
		fail(d, err);
		return;
	}
	if (buf_printf(&d->out, "],\"truncated\":%s}", is_truncated ? "true" : "false") == 0)
		send_out(d);
	http_stream_end(d->req);
}

static void on_ready(const struct err *err, void *arg)
{
	static const struct file_call_ops ops = {.on_record = on_record, .on_end = on_end};
	struct differing *d = arg;
	struct err why = {0};

	if (!err && view_call(d->view, &d->op, &ops, d, &d->call, &why) < 0)
		err = &why;
	if (err)
		fail(d, err);
}

static int read_value(const struct http_req *req, const char *name, const char **ret,
                      struct err *err)
{
	*ret = http_query(req, name);
	if (!*ret || !**ret || strlen(*ret) > NAME_MAX_LEN)
		return err_field(err, name, "must be the id or name of a sandbox or snapshot");
	return 0;
}

static int read_query(const struct http_req *req, struct view_spec *ret, struct start *op,
                      struct err *err)
{
	uint64_t limit = LIMIT_DEFAULT;
	bool has_patch = false;
	int r;

	*ret = (struct view_spec){.project_id = caller_project(req)};
	r = read_value(req, "from", &ret->values[0], err);
	if (r == 0)
		r = read_value(req, "to", &ret->values[1], err);
	if (r == 0 && strcmp(ret->values[0], ret->values[1]) == 0)
		r = err_field(err, "to", "is the same as from");
	if (r == 0)
		r = http_query_bool(req, "patch", &has_patch, err);
	if (r == 0)
		r = http_query_u64(req, "limit", 1, LIMIT_MAX, &limit, err);
	*op = (struct start){.op = FILE_COMPARE,
	                     .flags = has_patch ? (uint32_t)FILE_PATCH : 0,
	                     .limit = (uint32_t)limit};
	return r;
}

int get_diff(struct http_req *req, struct err *err)
{
	const struct api *api = http_app_arg(req);
	struct differing *d;
	struct view_spec spec;
	int r = lead_elsewhere(req, err);

	if (r != 0)
		return r;
	d = xnew0(struct differing);
	*d = (struct differing){.req = req, .out = BUF_INIT(OUT_BYTES_MAX)};
	r = read_query(req, &spec, &d->op, err);
	if (r == 0)
		r = buf_append_str(&d->out, "{\"changes\":[");
	if (r == 0)
		r = view_open(api->builds, &spec, on_ready, d, &d->view, err);
	if (r < 0) {
		buf_done(&d->out);
		free(d);
		return r;
	}
	http_on_done(req, on_client_done, d);
	http_on_drain(req, on_drain, d);
	return 0;
}
