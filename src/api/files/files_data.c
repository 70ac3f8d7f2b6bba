// SPDX-License-Identifier: Apache-2.0
/* A file's bytes, out and in, of any size. */
#include "api/files/file_job.h"

#include "api/frame/body.h"
#include "api/handlers.h"

static void guest_error(struct file_job *job, const char *what)
{
	struct err err;

	(void)err_set(&err, ERR_GUEST, 0, "%s", what);
	if (job->call)
		file_call_cancel(take_ptr(job->call));
	file_job_fail(job, &err);
}

/* A read tells the file's stat first: how much will come. */
static void read_on_record(const struct record *r, void *arg)
{
	struct file_job *job = arg;
	const char *path = http_query(job->req, "path"); /* of another face it may be elsewhere */
	uint64_t size = r->size;

	if (job->is_begun || r->kind != RECORD_ENTRY)
		return;
	if (job->left >= 0) { /* a range was asked for: is it all there? */
		size = size > job->offset ? size - job->offset : 0;
		size = MIN(size, (uint64_t)job->left);
	}
	/* Files of /proc and /sys have no size and yet content. */
	job->left = r->size == 0 ? -1 : (int64_t)MIN(size, (uint64_t)INT64_MAX);
	job->is_begun = true;
	file_reply_headers(job->req, path ? path : "file", "");
	http_stream_start(job->req, 200, "application/octet-stream", job->left);
	if (http_req_method(job->req) == HTTP_HEAD) {
		file_call_cancel(take_ptr(job->call));
		http_stream_end(job->req);
	}
}

static void read_on_data(const char *data, size_t len, void *arg)
{
	struct file_job *job = arg;

	if (!job->is_begun) {
		guest_error(job, "the sandbox sent a file's bytes before its size");
		return;
	}
	if (job->left >= 0) { /* a file that grows is sent as long as it was at first */
		len = MIN(len, (size_t)job->left);
		job->left -= (int64_t)len;
	}
	file_job_send(job, data, len);
}

static void read_on_end(const struct err *err, void *arg)
{
	struct file_job *job = arg;

	job->call = NULL;
	if (err)
		file_job_fail(job, err);
	else if (!job->is_begun)
		guest_error(job, "the sandbox told nothing of the file");
	else if (job->left > 0)
		http_stream_abort(job->req); /* it became shorter meanwhile */
	else
		http_stream_end(job->req);
}

const struct file_call_ops file_read_ops = {
	.on_record = read_on_record, .on_data = read_on_data, .on_end = read_on_end};

int read_file(struct http_req *req, struct err *err)
{
	struct start op = {.kind = START_FILE, .op = FILE_READ, .size = INT64_MAX};
	struct file_job *job;
	int r = file_query(req, &op, err);

	if (r == 0)
		r = http_query_u64(req, "offset", 0, INT64_MAX, &op.offset, err);
	if (r == 0)
		r = http_query_u64(req, "length", 0, INT64_MAX, &op.size, err);
	if (r < 0)
		return r;
	if (http_query(req, "offset") || http_query(req, "length"))
		op.flags |= FILE_RANGE;
	r = file_job_start(req, &op, &file_read_ops, &job, err);
	if (r == 0 && op.flags & FILE_RANGE)
		job->left = (int64_t)op.size;
	if (r == 0)
		job->offset = op.offset;
	return r;
}

int write_file(struct http_req *req, struct err *err)
{
	static const struct file_flag flags[] = {
		{"append", FILE_APPEND}, {"parents", FILE_PARENTS}, {"exclusive", FILE_EXCLUSIVE}};
	const char *mode = http_query(req, "mode");
	struct start op = {.kind = START_FILE, .op = FILE_WRITE, .size = UINT64_MAX};
	struct file_job *job;
	int r = file_query(req, &op, err);

	if (r == 0)
		r = file_query_flags(req, flags, ARRAY_SIZE(flags), &op, err);
	if (r == 0 && mode) {
		op.flags |= FILE_MODE;
		r = body_file_mode(mode, "mode", &op.mode, err);
	}
	if (r == 0 && http_query(req, "if_mtime_us")) {
		op.flags |= FILE_UNCHANGED;
		r = http_query_u64(req, "if_mtime_us", 0, INT64_MAX, &op.offset, err);
	}
	if (r == 0 && op.flags & FILE_UNCHANGED && op.flags & FILE_EXCLUSIVE)
		r = err_field(err, "exclusive", "cannot be given with if_mtime_us");
	if (r == 0 && http_content_length(req) >= 0)
		op.size = (uint64_t)http_content_length(req);
	if (r == 0)
		r = file_job_start(req, &op, &file_entry_ops, &job, err);
	if (r != 0)
		return r;
	if (op.flags & FILE_EXCLUSIVE)
		job->status = 201;
	file_job_take_body(job);
	return 0;
}
