// SPDX-License-Identifier: Apache-2.0
/*
 * The files of a volume, without a sandbox of its owner. For each request a view of the volume
 * (build/transfer/view.h) is opened, which is a separate sandbox as long as the request lasts. In
 * it up to four operations run one after the other: the requested one, setting mode and owner, and
 * reading the result. So links and ".." in a path cannot leave that sandbox.
 *
 *	request ─► view opens ─► operation … ─► view closes ─► reply
 */
#include "api/frame/find.h"
#include "api/frame/reply.h"
#include "base/parse.h"
#include "build/transfer/view.h"
#include "compat/e2b/control/volume.h"
#include "compat/e2b/frame/body.h"
#include "compat/e2b/frame/objects.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#define STEPS_MAX   4
#define ENTRIES_MAX 100000
#define DEPTH_MAX   1000
#define IN_MAX      ((size_t)1024 * 1024)
#define ID_MOST     65534

struct content {
	struct http_req *req;
	char volume_id[ID_SIZE];
	struct view *view;
	struct file_call *call; /* NULL: none is under way */
	struct start steps[STEPS_MAX];
	size_t n_steps, at;
	char *path, *owner; /* inside */
	int status;         /* of the reply; 204: without an entry */
	bool has_entry, is_begun;
	bool is_over;       /* all is done but the reply, or it failed */
	struct err failure; /* or none */
	struct buf in;      /* of a write, that the agent had no room for */
	bool is_in_whole;
	struct reply reply;
	struct json_writer *w;
};

static void on_done(void *arg)
{
	struct content *c = arg;

	if (c->call)
		file_call_cancel(c->call);
	view_close(c->view);
	buf_done(&c->in);
	buf_done(&c->reply.body);
	free(c->path);
	free(c->owner);
	free(c);
}

static void reply(struct content *c)
{
	const enum file_op op = c->steps[0].op;

	if (c->failure.code != ERR_NONE && c->is_begun) {
		http_stream_abort(c->req);
	} else if (c->failure.code != ERR_NONE) {
		http_reply_err(c->req, &c->failure);
	} else if (op == FILE_READ && c->is_begun) {
		http_stream_end(c->req);
	} else if (op == FILE_READ) {
		http_reply(c->req, 200, "application/octet-stream", "", 0);
	} else if (c->status == 204) {
		http_reply(c->req, 204, NULL, NULL, 0);
	} else {
		if (op == FILE_LIST)
			json_close_array(c->w);
		reply_send_late(&c->reply, c->req, c->status);
	}
}

static void on_closed(void *arg)
{
	struct content *c = arg;

	c->view = NULL;
	reply(c);
}

/* Replies when the view is closed, so that the volume is free by then. */
static void finish(struct content *c, const struct err *err)
{
	if (c->is_over)
		return;
	c->is_over = true;
	if (err)
		c->failure = *err;
	if (c->call)
		file_call_cancel(take_ptr(c->call));
	view_close_then(c->view, on_closed, c);
}

static const char *type_name(uint32_t mode)
{
	return S_ISREG(mode)   ? "file"
	       : S_ISDIR(mode) ? "directory"
	       : S_ISLNK(mode) ? "symlink"
	                       : "unknown";
}

/* Paths of a list are relative to the listed directory. */
static void put_entry(struct content *c, const struct record *r)
{
	const char *place = c->path + strlen(VIEW_VOLUME), *slash;
	auto_free char *path = c->steps[0].op == FILE_LIST
	                               ? xasprintf("%s/%s", place[1] ? place : "", r->path)
	                               : xstrdup(place);

	slash = strrchr(path, '/');
	json_open_object(c->w, NULL);
	json_put_str(c->w, "name", slash ? slash + 1 : path);
	json_put_str(c->w, "type", type_name(r->mode));
	json_put_str(c->w, "path", path);
	json_put_u64(c->w, "size", r->size);
	json_put_u64(c->w, "mode", r->mode & 07777);
	json_put_u64(c->w, "uid", r->uid);
	json_put_u64(c->w, "gid", r->gid);
	e2b_put_time(c->w, "atime", r->mtime_us);
	e2b_put_time(c->w, "mtime", r->mtime_us);
	e2b_put_time(c->w, "ctime", r->mtime_us);
	if (S_ISLNK(r->mode))
		json_put_str(c->w, "target", r->path2);
	json_close_object(c->w);
}

static void on_record(const struct record *r, void *arg)
{
	struct content *c = arg;
	const enum file_op op = c->steps[c->at].op;

	if (r->kind != RECORD_ENTRY || (op != FILE_LIST && (op != FILE_STAT || c->has_entry)))
		return;
	c->has_entry = true;
	put_entry(c, r);
}

static void on_data(const char *data, size_t len, void *arg)
{
	struct content *c = arg;

	if (!c->is_begun)
		http_stream_start(c->req, 200, "application/octet-stream", -1);
	c->is_begun = true;
	if (http_stream_write(c->req, data, len) < 0)
		return; /* on_done() follows */
	if (http_stream_pending(c->req) >= HTTP_HIGH_WATER)
		file_call_pause(c->call, true); /* on_drain() ends it */
}

static void on_drain(void *arg)
{
	struct content *c = arg;

	if (c->call)
		file_call_pause(c->call, false);
}

/* Writes the received part of the body into the file. */
static void push(struct content *c)
{
	if (!c->call || c->steps[c->at].op != FILE_WRITE)
		return;
	while (c->in.len > 0) {
		ssize_t n = file_call_write(c->call, c->in.data, c->in.len);

		if (n <= 0)
			return;
		buf_consume(&c->in, (size_t)n);
	}
	if (c->is_in_whole)
		file_call_finish(c->call);
	else
		http_body_pause(c->req, false);
}

static void on_room(void *arg)
{
	push(arg);
}

static void on_body(struct http_req *req, const char *data, size_t len, void *arg)
{
	struct content *c = arg;
	struct err err;

	if (c->is_over)
		return;
	if (!data) {
		c->is_in_whole = true;
	} else if (buf_append(&c->in, data, len) < 0) {
		(void)err_set(&err, ERR_TOO_LARGE, 0, "the body came in too large a stretch");
		finish(c, &err);
		return;
	} else {
		http_body_pause(req, true);
	}
	push(c);
}

static void next(struct content *c);

static void on_end(const struct err *err, void *arg)
{
	struct content *c = arg;

	c->call = NULL;
	if (err) {
		finish(c, err);
		return;
	}
	c->at++;
	next(c);
}

static void next(struct content *c)
{
	static const struct file_call_ops ops = {
		.on_record = on_record, .on_data = on_data, .on_room = on_room, .on_end = on_end};
	struct err err;

	if (c->is_over)
		return;
	if (c->at == c->n_steps)
		finish(c, NULL);
	else if (view_call(c->view, &c->steps[c->at], &ops, c, &c->call, &err) < 0)
		finish(c, &err);
	else if (c->steps[c->at].op == FILE_WRITE)
		http_on_body(c->req, on_body, c);
}

static void on_ready(const struct err *err, void *arg)
{
	if (err)
		finish(arg, err);
	else
		next(arg);
}

static void add(struct content *c, struct start op)
{
	op.path = c->path;
	op.user = unconst(op.flags & FILE_FOR_USER ? "" : "root");
	c->steps[c->n_steps++] = op;
}

static int query_number(const struct http_req *req, const char *name, uint64_t most, int64_t *ret,
                        struct err *err)
{
	const char *text = http_query(req, name);
	uint64_t number = 0;

	if (!text)
		return 0;
	if (parse_u64(text, most, &number) < 0)
		return err_field(err, name, "must be a number up to %" PRIu64, most);
	*ret = (int64_t)number;
	return 0;
}

struct wish { /* -1: not said */
	int64_t uid, gid, mode;
};

/* Adds the operations for mode and owner, if given, and for reading the result. */
static void add_rest(struct content *c, const struct wish *w)
{
	if (w->mode >= 0)
		add(c, (struct start){.op = FILE_CHMOD, .mode = (uint32_t)w->mode});
	if (w->uid >= 0 || w->gid >= 0) {
		c->owner = w->gid < 0   ? xasprintf("%" PRId64, w->uid)
		           : w->uid < 0 ? xasprintf(":%" PRId64, w->gid)
		                        : xasprintf("%" PRId64 ":%" PRId64, w->uid, w->gid);
		add(c, (struct start){.op = FILE_CHOWN, .owner = c->owner});
	}
	add(c, (struct start){.op = FILE_STAT});
}

static int read_wish(const struct http_req *req, struct wish *ret, struct err *err)
{
	int r = query_number(req, "uid", ID_MOST, &ret->uid, err);

	if (r == 0)
		r = query_number(req, "gid", ID_MOST, &ret->gid, err);
	return r < 0 ? r : query_number(req, "mode", 07777, &ret->mode, err);
}

static bool is_forced(const struct http_req *req)
{
	const char *word = http_query(req, "force");

	return word && strcasecmp(word, "true") == 0;
}

/* Finds out who asks, and for which path. */
static int content_new(struct http_req *req, int status, struct content **ret, struct err *err)
{
	const char *path = http_query(req, "path");
	char id[ID_SIZE];
	struct content *c;
	int r = e2b_find_content(req, id, err);

	if (r < 0)
		return r;
	if (!path || !path[0])
		return err_field(err, "path", "is required");
	if (strlen(path) > START_PATH_MAX - sizeof(VIEW_VOLUME) - 1)
		return err_field(err, "path", "is too long");
	c = xnew0(struct content);
	c->req = req;
	c->status = status;
	memcpy(c->volume_id, id, sizeof(id));
	buf_init(&c->in, IN_MAX);
	c->path = xasprintf("%s%s%s", VIEW_VOLUME, path[0] == '/' ? "" : "/", path);
	c->w = reply_begin_bare(&c->reply);
	*ret = c;
	return 0;
}

static int begin(struct content *c, struct err *err)
{
	const struct api *api = http_app_arg(c->req);
	struct http_req *req = c->req;
	int r = view_open_volume(api->builds, caller_project(req), c->volume_id, on_ready, c,
	                         &c->view, err);

	if (r < 0) {
		on_done(c);
		return r;
	}
	http_on_done(req, on_done, c);
	http_on_drain(req, on_drain, c);
	return 0;
}

static int drop(struct content *c, int r)
{
	on_done(c);
	return r;
}

static int begin_one(struct http_req *req, int status, struct start op, struct err *err)
{
	struct content *c;
	int r = content_new(req, status, &c, err);

	if (r < 0)
		return r;
	add(c, op);
	return begin(c, err);
}

int volume_stat(struct http_req *req, struct err *err)
{
	return begin_one(req, 200, (struct start){.op = FILE_STAT}, err);
}

int volume_list_dir(struct http_req *req, struct err *err)
{
	int64_t depth = 1;
	struct content *c;
	int r = content_new(req, 200, &c, err);

	if (r < 0)
		return r;
	r = query_number(req, "depth", DEPTH_MAX, &depth, err);
	if (r < 0)
		return drop(c, r);
	add(c, (struct start){.op = FILE_LIST,
	                      .flags = depth > 1 ? FILE_RECURSIVE : 0,
	                      .limit = ENTRIES_MAX,
	                      .depth = depth > 1 ? (uint32_t)depth : 0});
	json_open_array(c->w, NULL);
	return begin(c, err);
}

int volume_make_dir(struct http_req *req, struct err *err)
{
	struct wish wish = {-1, -1, -1};
	struct content *c;
	int r = content_new(req, 201, &c, err);

	if (r < 0)
		return r;
	r = read_wish(req, &wish, err);
	if (r < 0)
		return drop(c, r);
	add(c, (struct start){.op = FILE_MKDIR,
	                      .flags = FILE_FOR_USER | (is_forced(req) ? FILE_PARENTS : 0)});
	add_rest(c, &wish);
	return begin(c, err);
}

int volume_change(struct http_req *req, struct err *err)
{
	struct wish wish = {-1, -1, -1};
	struct content *c;
	int r = content_new(req, 200, &c, err);

	if (r < 0)
		return r;
	r = body_int(http_json(req), "uid", &wish.uid, NULL, err);
	if (r == 0)
		r = body_int(http_json(req), "gid", &wish.gid, NULL, err);
	if (r == 0)
		r = body_int(http_json(req), "mode", &wish.mode, NULL, err);
	if (r == 0 && (wish.uid > ID_MOST || wish.gid > ID_MOST || wish.mode > 07777))
		r = err_field(err, "uid, gid, mode", "one is too large");
	if (r < 0)
		return drop(c, r);
	add_rest(c, &wish);
	return begin(c, err);
}

int volume_remove_path(struct http_req *req, struct err *err)
{
	return begin_one(req, 204, (struct start){.op = FILE_REMOVE, .flags = FILE_RECURSIVE}, err);
}

int volume_read_file(struct http_req *req, struct err *err)
{
	struct content *c;
	int r = content_new(req, 200, &c, err);

	if (r < 0)
		return r;
	http_reply_header(req, "Content-Security-Policy", "sandbox; default-src 'none'");
	add(c, (struct start){.op = FILE_READ, .size = INT64_MAX});
	return begin(c, err);
}

int volume_write_file(struct http_req *req, struct err *err)
{
	struct wish wish = {-1, -1, -1};
	struct content *c;
	int r = content_new(req, 201, &c, err);

	if (r < 0)
		return r;
	r = read_wish(req, &wish, err);
	if (r < 0)
		return drop(c, r);
	add(c, (struct start){.op = FILE_WRITE,
	                      .flags = FILE_FOR_USER | (is_forced(req) ? 0 : FILE_EXCLUSIVE),
	                      .size = UINT64_MAX});
	add_rest(c, &wish);
	return begin(c, err);
}
