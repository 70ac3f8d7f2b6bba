// SPDX-License-Identifier: Apache-2.0
#include "api/files/file_job.h"

#include "api/frame/body.h"
#include "api/frame/wake.h"

#include "base/parse.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define HELD_BYTES_MAX (1024 * 1024) /* more than the server hands over at once */
#define OUT_BYTES_MAX  (64 * 1024)   /* an entry: two paths of 4 KiB, escaped */

static void on_done(void *arg)
{
	struct file_job *job = arg;

	if (job->call)
		file_call_cancel(job->call);
	loop_timer_free(job->keepalive);
	buf_done(&job->out);
	buf_done(&job->held);
	free(job);
}

static void on_drain(void *arg)
{
	struct file_job *job = arg;

	if (job->call)
		file_call_pause(job->call, false);
}

int file_job_start_in(struct http_req *req, struct sandbox *s, const struct start *op,
                      const struct file_call_ops *ops, struct file_job **ret, struct err *err)
{
	struct file_job *job = xnew0(struct file_job);
	int r;

	*job = (struct file_job){.req = req,
	                         .out = BUF_INIT(OUT_BYTES_MAX),
	                         .held = BUF_INIT(HELD_BYTES_MAX),
	                         .left = -1,
	                         .status = 200};
	r = file_call_start(s, op, ops, job, &job->call, err);
	if (r < 0) {
		free(job);
		return r;
	}
	http_on_done(req, on_done, job);
	http_on_drain(req, on_drain, job);
	*ret = job;
	return 0;
}

int file_job_start(struct http_req *req, const struct start *op, const struct file_call_ops *ops,
                   struct file_job **ret, struct err *err)
{
	struct sandbox *s;
	int r = find_awake(req, &s, err);

	return r != 0 ? r : file_job_start_in(req, s, op, ops, ret, err);
}

static void push_held(struct file_job *job)
{
	while (job->held.len > 0) {
		ssize_t n = file_call_write(job->call, job->held.data, job->held.len);

		if (n <= 0)
			return; /* on_room goes on, or on_end tells why not */
		buf_consume(&job->held, (size_t)n);
	}
	if (job->is_input_whole)
		file_call_finish(job->call);
	else
		http_body_pause(job->req, false);
}

void file_job_on_room(void *arg)
{
	struct file_job *job = arg;

	if (job->held.len > 0)
		push_held(job);
}

static void on_body(struct http_req *req, const char *data, size_t len, void *arg)
{
	struct file_job *job = arg;
	struct err err;

	if (!job->call)
		return; /* it ended early, and that was answered */
	if (!data) {
		job->is_input_whole = true;
		if (job->held.len == 0)
			file_call_finish(job->call);
		return;
	}
	/* What the agent has room for goes there at once; the rest is held. */
	while (job->held.len == 0 && len > 0) {
		ssize_t n = file_call_write(job->call, data, len);

		if (n <= 0)
			break;
		data += n;
		len -= (size_t)n;
	}
	if (len == 0)
		return;
	if (buf_append(&job->held, data, len) < 0) {
		(void)err_set(&err, ERR_INTERNAL, 0, "a piece of the body is too large");
		file_call_cancel(take_ptr(job->call));
		http_reply_err(req, &err);
		return;
	}
	http_body_pause(req, true);
	push_held(job);
}

void file_job_take_body(struct file_job *job)
{
	http_on_body(job->req, on_body, job);
}

void file_job_send(struct file_job *job, const void *data, size_t len)
{
	if (http_stream_write(job->req, data, len) < 0)
		return; /* on_done follows */
	if (job->call && http_stream_pending(job->req) >= HTTP_HIGH_WATER)
		file_call_pause(job->call, true); /* on_drain ends it */
}

void file_job_fail(struct file_job *job, const struct err *err)
{
	if (job->is_begun)
		http_stream_abort(job->req);
	else
		http_reply_err(job->req, err);
}

void file_job_on_end(const struct err *err, void *arg)
{
	struct file_job *job = arg;
	struct err guest;

	job->call = NULL;
	if (!err && job->out.len == 0) {
		(void)err_set(&guest, ERR_GUEST, 0, "the sandbox sent no result");
		err = &guest;
	}
	if (err)
		file_job_fail(job, err);
	else
		http_reply_json(job->req, job->status, &job->out);
}

int file_query(const struct http_req *req, struct start *op, struct err *err)
{
	const char *user = http_query(req, "user");
	int r = body_file_path(http_query(req, "path"), "path", err);

	if (r == 0)
		r = body_check_user(user, "user", err);
	if (r < 0)
		return r;
	op->path = unconst(http_query(req, "path"));
	op->user = unconst(user ? user : "");
	return 0;
}

int file_query_flags(const struct http_req *req, const struct file_flag *flags, size_t n,
                     struct start *op, struct err *err)
{
	for (size_t i = 0; i < n; i++) {
		bool on = false;
		int r = http_query_bool(req, flags[i].name, &on, err);

		if (r < 0)
			return r;
		if (on)
			op->flags |= flags[i].flag;
	}
	return 0;
}

const char *file_type_name(uint32_t mode)
{
	switch (mode & S_IFMT) {
	case S_IFREG:
		return "file";
	case S_IFDIR:
		return "directory";
	case S_IFLNK:
		return "symlink";
	case S_IFIFO:
		return "fifo";
	case S_IFSOCK:
		return "socket";
	default:
		return "device";
	}
}

/* The last part of a path, or all of it where it has none ("/"). */
static const char *base_name(const char *path, size_t *ret_len)
{
	size_t end = strlen(path);
	size_t from;

	while (end > 1 && path[end - 1] == '/')
		end--;
	for (from = end; from > 0 && path[from - 1] != '/'; from--)
		;
	if (from == end)
		from = 0;
	*ret_len = end - from;
	return path + from;
}

void file_entry_to_json(const struct record *r, struct json_writer *w, const char *name)
{
	char mode[8];
	size_t len;
	const char *base = base_name(r->path, &len);

	(void)snprintf(mode, sizeof(mode), "%04o", r->mode & 07777);
	json_open_object(w, name);
	json_put_str(w, "path", r->path);
	json_put_strn(w, "name", base, len);
	json_put_str(w, "type", file_type_name(r->mode));
	json_put_u64(w, "size", r->size);
	json_put_str(w, "mode", mode);
	json_put_u64(w, "uid", r->uid);
	json_put_u64(w, "gid", r->gid);
	json_put_str(w, "user", r->user && *r->user ? r->user : NULL);
	json_put_str(w, "group", r->group && *r->group ? r->group : NULL);
	json_put_u64(w, "mtime_us", r->mtime_us);
	if (S_ISLNK(r->mode) && r->path2)
		json_put_str(w, "target", r->path2);
	json_close_object(w);
}

static bool is_plain(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
	       c == '.' || c == '_' || c == '-';
}

/* RFC 6266: an ASCII name that any client takes, and the true one (RFC 8187) where it differs. */
void file_reply_headers(struct http_req *req, const char *path, const char *suffix)
{
	struct buf value = BUF_INIT(4096);
	size_t len;
	const char *base = base_name(path, &len);
	int r = buf_append_str(&value, "attachment; filename=\"");

	len = MIN(len, 255); /* no longer than a name can be */
	for (size_t i = 0; r == 0 && i < len; i++)
		r = buf_printf(&value, "%c", is_plain(base[i]) ? base[i] : '_');
	if (r == 0)
		r = buf_printf(&value, "%s\"", suffix);
	if (r == 0 && utf8_is_valid(base, len)) {
		r = buf_append_str(&value, "; filename*=UTF-8''");
		for (size_t i = 0; r == 0 && i < len; i++)
			r = buf_printf(&value, is_plain(base[i]) ? "%c" : "%%%02X",
			               (unsigned char)base[i]);
		if (r == 0)
			r = buf_append_str(&value, suffix);
	}
	http_reply_header(req, "Content-Disposition", r == 0 ? value.data : "attachment");
	http_reply_header(req, "Content-Security-Policy", "sandbox; default-src 'none'");
	buf_done(&value);
}
