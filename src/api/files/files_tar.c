// SPDX-License-Identifier: Apache-2.0
/* A directory in one call, as a tar stream. Packed and unpacked inside; here only bytes pass. */
#include "api/files/file_job.h"

#include "api/frame/reply.h"
#include "api/handlers.h"

#include <assert.h>
#include <string.h>

#define ENTRIES_MAX 1000000

static const struct compress {
	const char *name;
	uint32_t flag;
	const char *type, *suffix;
} compresses[] = {
	{"none", 0, "application/x-tar", ".tar"},
	{"gzip", FILE_GZIP, "application/gzip", ".tar.gz"},
	{"zstd", FILE_ZSTD, "application/zstd", ".tar.zst"},
};

/* NULL if there is none of that name. */
static const struct compress *compress_of(const struct http_req *req)
{
	const char *name = http_query(req, "compress");

	for (size_t i = 0; i < ARRAY_SIZE(compresses); i++)
		if (strcmp(compresses[i].name, name ? name : "none") == 0)
			return &compresses[i];
	return NULL;
}

static int read_query(const struct http_req *req, struct start *op, struct err *err)
{
	const struct compress *compress = compress_of(req);
	int r = file_query(req, op, err);

	if (r < 0)
		return r;
	if (!compress)
		return err_field(err, "compress", "must be one of none, gzip, zstd");
	op->flags |= compress->flag;
	return 0;
}

static void begin(struct file_job *job)
{
	const struct compress *compress = compress_of(job->req);

	assert(compress); /* read_query() has seen to it */
	job->is_begun = true;
	file_reply_headers(job->req, http_query(job->req, "path"), compress->suffix);
	http_stream_start(job->req, 200, compress->type, -1);
}

static void out_on_data(const char *data, size_t len, void *arg)
{
	struct file_job *job = arg;

	if (!job->is_begun)
		begin(job);
	if (http_req_method(job->req) == HTTP_HEAD) {
		if (job->call)
			file_call_cancel(take_ptr(job->call));
		http_stream_end(job->req);
		return;
	}
	file_job_send(job, data, len);
}

static void out_on_end(const struct err *err, void *arg)
{
	struct file_job *job = arg;

	job->call = NULL;
	if (err) {
		file_job_fail(job, err);
		return;
	}
	if (!job->is_begun)
		begin(job);
	http_stream_end(job->req);
}

int read_tar(struct http_req *req, struct err *err)
{
	static const struct file_call_ops ops = {.on_data = out_on_data, .on_end = out_on_end};
	struct start op = {.kind = START_FILE, .op = FILE_TAR_OUT};
	struct file_job *job;
	int r = read_query(req, &op, err);

	return r < 0 ? r : file_job_start(req, &op, &ops, &job, err);
}

static void in_on_record(const struct record *r, void *arg)
{
	struct file_job *job = arg;
	struct json_writer w;

	if (r->kind != RECORD_COUNT)
		return;
	buf_truncate(&job->out, 0);
	json_writer_init(&w, &job->out);
	json_open_object(&w, NULL);
	json_put_u64(&w, "entries", r->count);
	json_put_u64(&w, "bytes", r->bytes);
	json_close_object(&w);
	if (json_writer_end(&w) < 0)
		buf_truncate(&job->out, 0);
}

int write_tar(struct http_req *req, struct err *err)
{
	static const struct file_flag flags[] = {{"parents", FILE_PARENTS}};
	static const struct file_call_ops ops = {
		.on_record = in_on_record, .on_room = file_job_on_room, .on_end = file_job_on_end};
	struct start op = {.kind = START_FILE, .op = FILE_TAR_IN, .limit = ENTRIES_MAX};
	struct file_job *job;
	int r = read_query(req, &op, err);

	if (r == 0)
		r = file_query_flags(req, flags, ARRAY_SIZE(flags), &op, err);
	if (r == 0)
		r = file_job_start(req, &op, &ops, &job, err);
	if (r == 0)
		file_job_take_body(job);
	return r;
}
