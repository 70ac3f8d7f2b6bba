// SPDX-License-Identifier: Apache-2.0
/* Unary calls about files: each is one operation of the agent, with complete entries
 * (FILE_WHOLE). */
#include "compat/e2b/envd/rpc.h"
#include "compat/e2b/frame/body.h"

#include "api/files/file_job.h"
#include "api/frame/reply.h"

#include <string.h>

#define DEPTH_MAX   1000
#define ENTRIES_MAX 100000

struct call {                 /* one operation, from the request to its reply */
	struct http_req *req; /* NULL: the client is gone */
	struct file_call *file;
	struct envd_entry entry;
	struct reply reply;
	struct json_writer *w;
	bool is_list, has_entry;
};

static void call_free(struct call *c)
{
	if (c->file)
		file_call_cancel(c->file);
	envd_entry_done(&c->entry);
	buf_done(&c->reply.body);
	free(c);
}

static void on_client_done(void *arg)
{
	call_free(arg);
}

static void on_record(const struct record *r, void *arg)
{
	struct call *c = arg;

	if (envd_entry_note(&c->entry, r) || r->kind != RECORD_ENTRY ||
	    (c->has_entry && !c->is_list))
		return;
	c->has_entry = true;
	envd_put_entry(&c->entry, r, c->w, c->is_list ? NULL : "entry");
}

static void on_end(const struct err *err, void *arg)
{
	struct call *c = arg;
	struct http_req *req = c->req;

	c->file = NULL;
	http_on_done(req, NULL, NULL);
	if (err) {
		http_reply_err(req, err);
	} else {
		if (c->is_list)
			json_close_array(c->w);
		reply_send_late(&c->reply, req, 200);
	}
	call_free(c);
}

static int start(struct http_req *req, const struct envd_caller *caller, struct start *op,
                 struct err *err)
{
	static const struct file_call_ops ops = {.on_record = on_record, .on_end = on_end};
	struct call *c = xnew0(struct call);
	int r;

	op->kind = START_FILE;
	op->flags |= FILE_WHOLE | FILE_FOR_USER;
	op->user = unconst(caller->user);
	op->cwd = unconst("");
	op->owner = unconst(ENVD_ATTRIBUTES);
	c->req = req;
	c->is_list = op->op == FILE_LIST;
	c->w = reply_begin(&c->reply);
	if (c->is_list)
		json_open_array(c->w, "entries");
	r = file_call_start(caller->s, op, &ops, c, &c->file, err);
	if (r < 0) {
		call_free(c);
		return r;
	}
	http_on_done(req, on_client_done, c);
	return 0;
}

/* The path in a field of the message; the caller owns it. */
static int read_path(const struct http_req *req, const struct sandbox *s, const char *field,
                     char **ret, struct err *err)
{
	const char *text = "";
	auto_free char *path = NULL;
	int r = body_text(http_json(req), field, &text, err);

	if (r < 0)
		return r;
	path = envd_path(s, text);
	if (strlen(path) > START_PATH_MAX)
		return err_field(err, field, "is too long");
	*ret = take_ptr(path);
	return 0;
}

/* Finds out who asks, and about which path. */
static int begin(struct http_req *req, const char *field, struct envd_caller *caller, char **path,
                 struct err *err)
{
	int r = envd_find(req, caller, err);

	return r != 0 ? r : read_path(req, caller->s, field, path, err);
}

int envd_stat(struct http_req *req, struct err *err)
{
	auto_free char *path = NULL;
	struct envd_caller caller;
	int r = begin(req, "path", &caller, &path, err);
	struct start op = {.op = FILE_STAT, .path = path};

	return r != 0 ? r : start(req, &caller, &op, err);
}

int envd_list_dir(struct http_req *req, struct err *err)
{
	auto_free char *path = NULL;
	struct envd_caller caller;
	int64_t depth = 1;
	int r = begin(req, "path", &caller, &path, err);
	struct start op = {
		.op = FILE_LIST, .path = path, .flags = FILE_RECURSIVE, .limit = ENTRIES_MAX};

	if (r == 0)
		r = body_int(http_json(req), "depth", &depth, NULL, err);
	if (r != 0)
		return r;
	if (depth < 0 || depth > DEPTH_MAX)
		return err_field(err, "depth", "must be from 1 to %d", DEPTH_MAX);
	op.depth = depth == 0 ? 1 : (uint32_t)depth;
	return start(req, &caller, &op, err);
}

int envd_make_dir(struct http_req *req, struct err *err)
{
	auto_free char *path = NULL;
	struct envd_caller caller;
	int r = begin(req, "path", &caller, &path, err);
	struct start op = {.op = FILE_MKDIR, .path = path, .flags = FILE_PARENTS | FILE_EXCLUSIVE};

	return r != 0 ? r : start(req, &caller, &op, err);
}

int envd_move(struct http_req *req, struct err *err)
{
	auto_free char *from = NULL, *to = NULL;
	struct envd_caller caller;
	int r = begin(req, "source", &caller, &from, err);
	struct start op = {.op = FILE_MOVE, .path = from, .flags = FILE_PARENTS};

	if (r == 0)
		r = read_path(req, caller.s, "destination", &to, err);
	op.path2 = to;
	return r != 0 ? r : start(req, &caller, &op, err);
}

int envd_remove(struct http_req *req, struct err *err)
{
	auto_free char *path = NULL;
	struct envd_caller caller;
	int r = begin(req, "path", &caller, &path, err);
	struct start op = {
		.op = FILE_REMOVE, .path = path, .flags = FILE_RECURSIVE | FILE_MISSING_OK};

	return r != 0 ? r : start(req, &caller, &op, err);
}
