// SPDX-License-Identifier: Apache-2.0
/* A directory's entries, sent on as the agent tells them: ten thousand cost no more memory than
 * one. */
#include "api/files/file_job.h"

#include "api/handlers.h"

#define LIMIT_DEFAULT 1000
#define LIMIT_MAX     10000
#define DEPTH_MAX     1000

static void begin(struct file_job *job)
{
	job->is_begun = true;
	http_stream_start(job->req, 200, "application/json", -1);
	file_job_send(job, "{\"entries\":[", 12);
}

static void on_record(const struct record *r, void *arg)
{
	struct file_job *job = arg;
	struct json_writer w;

	if (r->kind != RECORD_ENTRY)
		return;
	buf_truncate(&job->out, 0);
	json_writer_init(&w, &job->out);
	w.comma[0] = job->is_begun; /* it goes on with an array */
	if (!job->is_begun)
		begin(job);
	file_entry_to_json(r, &w, NULL);
	if (json_writer_end(&w) == 0)
		file_job_send(job, job->out.data, job->out.len);
	else
		http_stream_abort(job->req);
}

static void on_end(const struct err *err, void *arg)
{
	struct file_job *job = arg;
	bool is_truncated = file_call_is_truncated(job->call);

	job->call = NULL;
	if (err) {
		file_job_fail(job, err);
		return;
	}
	buf_truncate(&job->out, 0);
	if (!job->is_begun)
		begin(job);
	if (buf_printf(&job->out, "],\"truncated\":%s}", is_truncated ? "true" : "false") == 0)
		file_job_send(job, job->out.data, job->out.len);
	http_stream_end(job->req);
}

int list_files(struct http_req *req, struct err *err)
{
	static const struct file_flag flags[] = {{"recursive", FILE_RECURSIVE}};
	static const struct file_call_ops ops = {.on_record = on_record, .on_end = on_end};
	struct start op = {.kind = START_FILE, .op = FILE_LIST};
	uint64_t depth = 0, limit = LIMIT_DEFAULT;
	struct file_job *job;
	int r = file_query(req, &op, err);

	if (r == 0)
		r = file_query_flags(req, flags, ARRAY_SIZE(flags), &op, err);
	if (r == 0)
		r = http_query_u64(req, "depth", 0, DEPTH_MAX, &depth, err);
	if (r == 0)
		r = http_query_u64(req, "limit", 1, LIMIT_MAX, &limit, err);
	if (r < 0)
		return r;
	op.depth = (uint32_t)depth;
	op.limit = (uint32_t)limit;
	return file_job_start(req, &op, &ops, &job, err);
}
