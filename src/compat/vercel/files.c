// SPDX-License-Identifier: Apache-2.0
/* Files in and out of a session. Paths are resolved inside; here only bytes pass. */
#include "api/files/file_job.h"

#include "api/frame/body.h"
#include "compat/vercel/handlers.h"
#include "compat/vercel/wire.h"

#include <stdio.h>
#include <string.h>

#define ENTRIES_MAX 1000000
#define PATH_BYTES  4096

/* Vercel's client gets an empty object as the reply to a change. */
static void reply_empty(const struct err *err, void *arg)
{
	struct file_job *job = arg;

	job->call = NULL;
	if (!err) {
		http_reply(job->req, 200, "application/json", "{}", 2);
		return;
	}
	/* A 404 would mean that the session is missing. */
	if (err->code == ERR_FILE_NOT_FOUND)
		vercel_refuse(job->req, 400, "bad_request", err->message);
	else
		file_job_fail(job, err);
}

static void ignore_record(const struct record *r, void *arg)
{
	(void)r;
	(void)arg;
}

/* A gzipped tar, whose names are relative to X-Cwd. */
int vercel_write_files(struct http_req *req, struct err *err)
{
	static const struct file_call_ops ops = {
		.on_record = ignore_record, .on_room = file_job_on_room, .on_end = reply_empty};
	const char *cwd = http_header(req, "X-Cwd");
	struct start op = {.kind = START_FILE,
	                   .op = FILE_TAR_IN,
	                   .flags = FILE_GZIP | FILE_PARENTS,
	                   .limit = ENTRIES_MAX};
	struct sandbox *native;
	struct file_job *job;
	struct vercel_session *s;
	int r = find_running(req, &s, &native, err);

	if (r != 0)
		return r;
	op.user = unconst(sandbox_user(native));
	op.path = unconst(cwd ? cwd : VERCEL_HOME);
	r = body_file_path(op.path, "x-cwd", err);
	if (r == 0)
		r = file_job_start_in(req, native, &op, &ops, &job, err);
	if (r == 0)
		file_job_take_body(job);
	return r;
}

/* The path in a body; relative to its cwd, or to the sessions' directory. */
static int read_path(const json_t *body, char ret[PATH_BYTES], struct err *err)
{
	const char *path = "", *cwd = VERCEL_HOME;
	const struct json_field fields[] = {
		{"path", JSON_FIELD_STRING, &path, true, .min = 1, .max = PATH_BYTES - 1},
		{"cwd", JSON_FIELD_STRING, &cwd, .min = 1, .max = PATH_BYTES - 1},
	};
	int r = body ? body_read(body, "", fields, ARRAY_SIZE(fields), err)
	             : err_field(err, "path", "is missing");
	int len;

	if (r < 0)
		return r;
	if (path[0] == '/')
		len = snprintf(ret, PATH_BYTES, "%s", path);
	else if (cwd[0] == '/')
		len = snprintf(ret, PATH_BYTES, "%s/%s", cwd, path);
	else
		len = snprintf(ret, PATH_BYTES, VERCEL_HOME "/%s/%s", cwd, path);
	if (len >= PATH_BYTES)
		return err_field(err, "path", "is too long");
	return body_file_path(ret, "path", err);
}

int vercel_read_file(struct http_req *req, struct err *err)
{
	struct start op = {.kind = START_FILE, .op = FILE_READ, .size = INT64_MAX};
	char path[PATH_BYTES];
	struct sandbox *native;
	struct file_job *job;
	struct vercel_session *s;
	int r = find_running(req, &s, &native, err);

	if (r == 0)
		r = read_path(http_json(req), path, err);
	if (r != 0)
		return r;
	op.user = unconst(sandbox_user(native));
	op.path = path;
	return file_job_start_in(req, native, &op, &file_read_ops, &job, err);
}

int vercel_make_directory(struct http_req *req, struct err *err)
{
	static const struct file_call_ops ops = {.on_record = ignore_record, .on_end = reply_empty};
	struct start op = {.kind = START_FILE, .op = FILE_MKDIR};
	bool is_recursive = false;
	const struct json_field fields[] = {{"recursive", JSON_FIELD_BOOL, &is_recursive}};
	char path[PATH_BYTES];
	struct sandbox *native;
	struct file_job *job;
	struct vercel_session *s;
	int r = find_running(req, &s, &native, err);

	if (r == 0)
		r = read_path(http_json(req), path, err);
	if (r == 0)
		r = body_read(http_json(req), "", fields, ARRAY_SIZE(fields), err);
	if (r != 0)
		return r;
	op.user = unconst(sandbox_user(native));
	op.path = path;
	if (is_recursive)
		op.flags = FILE_PARENTS;
	return file_job_start_in(req, native, &op, &ops, &job, err);
}
