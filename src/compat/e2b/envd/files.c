// SPDX-License-Identifier: Apache-2.0
/* Sends a file. A file with content but without a size (/proc) is read to its end. */
#include "compat/e2b/envd/envd.h"

#include "api/files/file_job.h"
#include "api/frame/body.h"

#include <string.h>

static void on_record(const struct record *r, void *arg)
{
	struct file_job *job = arg;

	if (job->is_begun || r->kind != RECORD_ENTRY)
		return;
	job->left = r->size == 0 ? -1 : (int64_t)MIN(r->size, (uint64_t)INT64_MAX);
	if (job->left < 0)
		return; /* the first byte, or the end, tells whether it is empty */
	job->is_begun = true;
	http_stream_start(job->req, 200, "application/octet-stream", job->left);
}

static void on_data(const char *data, size_t len, void *arg)
{
	struct file_job *job = arg;

	if (!job->is_begun) {
		job->is_begun = true;
		http_stream_start(job->req, 200, "application/octet-stream", -1);
	}
	if (job->left >= 0) { /* a file that grows is sent as long as it was at first */
		len = MIN(len, (size_t)job->left);
		job->left -= (int64_t)len;
	}
	file_job_send(job, data, len);
}

static void on_end(const struct err *err, void *arg)
{
	struct file_job *job = arg;

	job->call = NULL;
	if (err)
		file_job_fail(job, err);
	else if (!job->is_begun)
		http_reply(job->req, 200, "application/octet-stream", "", 0);
	else if (job->left > 0)
		http_stream_abort(job->req); /* it became shorter meanwhile */
	else
		http_stream_end(job->req);
}

int envd_read_file(struct http_req *req, struct err *err)
{
	static const struct file_call_ops ops = {
		.on_record = on_record, .on_data = on_data, .on_end = on_end};
	struct start op = {
		.kind = START_FILE, .op = FILE_READ, .flags = FILE_FOR_USER, .size = INT64_MAX};
	const char *query = http_query(req, "path");
	auto_free char *path = NULL;
	struct envd_caller caller;
	struct file_job *job;
	int r = envd_find_signed(req, "read", &caller, err);

	if (r == 0)
		r = body_check_user(caller.user[0] ? caller.user : NULL, "username", err);
	if (r != 0)
		return r;
	path = envd_path(caller.s, query ? query : "");
	if (strlen(path) > START_PATH_MAX)
		return err_field(err, "path", "is too long");
	op.path = path;
	op.user = unconst(caller.user);
	op.cwd = unconst("");
	http_reply_header(req, "Content-Disposition", "inline");
	http_reply_header(req, "Content-Security-Policy", "sandbox; default-src 'none'");
	return file_job_start_in(req, caller.s, &op, &ops, &job, err);
}
