// SPDX-License-Identifier: Apache-2.0
/*
 * File routes that answer with one object: looking at a path by query, changing it by a JSON body.
 * Which fields a change takes is a table; what the fields mean is the agent's.
 */
#include "api/files/file_job.h"

#include "api/frame/body.h"
#include "api/frame/find.h"
#include "api/frame/reply.h"
#include "api/handlers.h"

#include <string.h>

/* Keeps the entry that a call tells, for its end. */
static void keep_entry(const struct record *r, void *arg)
{
	struct file_job *job = arg;
	struct json_writer w;

	buf_truncate(&job->out, 0);
	json_writer_init(&w, &job->out);
	if (r->kind == RECORD_ENTRY)
		file_entry_to_json(r, &w, NULL);
	if (json_writer_end(&w) < 0)
		buf_truncate(&job->out, 0);
}

const struct file_call_ops file_entry_ops = {
	.on_record = keep_entry, .on_room = file_job_on_room, .on_end = file_job_on_end};

static int start_stat(struct http_req *req, const struct file_call_ops *ops, struct err *err)
{
	static const struct file_flag flags[] = {{"follow", FILE_FOLLOW}};
	struct start op = {.kind = START_FILE, .op = FILE_STAT};
	struct file_job *job;
	int r = file_query(req, &op, err);

	if (r == 0)
		r = file_query_flags(req, flags, ARRAY_SIZE(flags), &op, err);
	return r < 0 ? r : file_job_start(req, &op, ops, &job, err);
}

int stat_file(struct http_req *req, struct err *err)
{
	return start_stat(req, &file_entry_ops, err);
}

static void keep_type(const struct record *r, void *arg)
{
	struct file_job *job = arg;

	buf_truncate(&job->out, 0);
	if (buf_append_str(&job->out, file_type_name(r->mode)) < 0)
		buf_truncate(&job->out, 0);
}

static void reply_exists(const struct err *err, void *arg)
{
	struct file_job *job = arg;
	struct reply reply;
	struct json_writer *w;

	job->call = NULL;
	if (err && err->code != ERR_FILE_NOT_FOUND) {
		file_job_fail(job, err);
		return;
	}
	w = reply_begin(&reply);
	json_put_bool(w, "exists", !err);
	if (!err && job->out.len > 0)
		json_put_str(w, "type", job->out.data);
	reply_send_late(&reply, job->req, 200);
}

int file_exists(struct http_req *req, struct err *err)
{
	static const struct file_call_ops ops = {.on_record = keep_type, .on_end = reply_exists};

	return start_stat(req, &ops, err);
}

/* A change answers with the path that it was about. */
static void reply_changed(const struct err *err, void *arg)
{
	struct file_job *job = arg;
	struct reply reply;

	job->call = NULL;
	if (err) {
		file_job_fail(job, err);
		return;
	}
	json_put_strn(reply_begin(&reply), "path", job->out.data, job->out.len);
	reply_send_late(&reply, job->req, 200);
}

static void ignore_record(const struct record *r, void *arg)
{
	(void)r;
	(void)arg;
}

static int start_change(struct http_req *req, const struct start *op, struct err *err)
{
	static const struct file_call_ops ops = {.on_record = ignore_record,
	                                         .on_end = reply_changed};
	struct file_job *job;
	int r = file_job_start(req, op, &ops, &job, err);

	if (r == 0)
		r = buf_append_str(&job->out, op->path);
	return r;
}

int remove_file(struct http_req *req, struct err *err)
{
	static const struct file_flag flags[] = {{"recursive", FILE_RECURSIVE},
	                                         {"missing_ok", FILE_MISSING_OK}};
	struct start op = {.kind = START_FILE, .op = FILE_REMOVE};
	int r = file_query(req, &op, err);

	if (r == 0)
		r = file_query_flags(req, flags, ARRAY_SIZE(flags), &op, err);
	return r < 0 ? r : start_change(req, &op, err);
}

/* Fields that a change may have besides path and user. */
enum { TO = 1, TARGET = 2, MODE = 4, MODE_OPTIONAL = 8, OWNER = 16 };
static const struct change {
	enum file_op op;
	unsigned fields;
	uint32_t flags; /* that may be given, by name */
} changes[] = {
	{FILE_MKDIR, MODE_OPTIONAL, FILE_PARENTS},
	{FILE_MOVE, TO, FILE_PARENTS | FILE_EXCLUSIVE},
	{FILE_COPY, TO, FILE_PARENTS | FILE_EXCLUSIVE | FILE_RECURSIVE},
	{FILE_CHMOD, MODE, FILE_RECURSIVE},
	{FILE_CHOWN, OWNER, FILE_RECURSIVE},
	{FILE_SYMLINK, TARGET, 0},
};
static const struct file_flag change_flags[] = {
	{"parents", FILE_PARENTS}, {"exclusive", FILE_EXCLUSIVE}, {"recursive", FILE_RECURSIVE}};

struct change_body {
	const char *path, *user, *path2, *mode, *owner;
	bool flags[ARRAY_SIZE(change_flags)];
	struct json_field rows[5 + ARRAY_SIZE(change_flags)];
	size_t n_rows;
};

static void add_row(struct change_body *b, struct json_field row)
{
	b->rows[b->n_rows++] = row;
}

static void add_rows(struct change_body *b, const struct change *ch)
{
	const struct json_field path = {
		.kind = JSON_FIELD_STRING, .required = true, .min = 1, .max = START_PATH_MAX - 1};
	struct json_field row = path;

	row.name = "path";
	row.ret = &b->path;
	add_row(b, row);
	add_row(b, (struct json_field){"user", JSON_FIELD_STRING, &b->user, .min = 1,
	                               .max = USER_BYTES_MAX});
	row.name = ch->fields & TO ? "to" : "target";
	row.ret = &b->path2;
	if (ch->fields & (TO | TARGET))
		add_row(b, row);
	if (ch->fields & (MODE | MODE_OPTIONAL))
		add_row(b, (struct json_field){"mode", JSON_FIELD_STRING, &b->mode,
		                               (ch->fields & MODE) != 0});
	if (ch->fields & OWNER)
		add_row(b, (struct json_field){"owner", JSON_FIELD_STRING, &b->owner, true,
		                               .min = 1, .max = 2 * USER_BYTES_MAX + 1});
	for (size_t i = 0; i < ARRAY_SIZE(change_flags); i++)
		if (ch->flags & change_flags[i].flag)
			add_row(b, (struct json_field){change_flags[i].name, JSON_FIELD_BOOL,
			                               &b->flags[i]});
}

static int change_file(struct http_req *req, enum file_op kind, struct err *err)
{
	const struct change *ch = changes;
	struct change_body b = {.path2 = "", .owner = ""};
	struct start op = {.kind = START_FILE, .op = kind};
	int r;

	while (ch->op != kind)
		ch++;
	add_rows(&b, ch);
	r = json_read(http_json(req), "", b.rows, b.n_rows, err);
	if (r == 0)
		r = body_check_user(b.user, "user", err);
	if (r == 0 && b.mode) {
		op.flags |= FILE_MODE;
		r = body_file_mode(b.mode, "mode", &op.mode, err);
	}
	if (r < 0)
		return r;
	for (size_t i = 0; i < ARRAY_SIZE(change_flags); i++)
		if (b.flags[i])
			op.flags |= change_flags[i].flag;
	op.path = unconst(b.path);
	op.path2 = unconst(b.path2);
	op.user = unconst(b.user ? b.user : "");
	op.owner = unconst(b.owner);
	return start_change(req, &op, err);
}

int make_directory(struct http_req *req, struct err *err)
{
	return change_file(req, FILE_MKDIR, err);
}

int move_file(struct http_req *req, struct err *err)
{
	return change_file(req, FILE_MOVE, err);
}

int copy_file(struct http_req *req, struct err *err)
{
	return change_file(req, FILE_COPY, err);
}

int chmod_file(struct http_req *req, struct err *err)
{
	return change_file(req, FILE_CHMOD, err);
}

int chown_file(struct http_req *req, struct err *err)
{
	return change_file(req, FILE_CHOWN, err);
}

int make_symlink(struct http_req *req, struct err *err)
{
	return change_file(req, FILE_SYMLINK, err);
}
