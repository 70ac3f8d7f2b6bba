// SPDX-License-Identifier: Apache-2.0
/*
 * Receives files: one as the raw body, or several as parts of a form, one after the other. Each is
 * written in place under its own name, so that watchers see the events that E2B's clients expect.
 * Bytes that are not taken yet wait here, a bounded amount, while the client is not read.
 */
#include "compat/e2b/envd/envd.h"

#include "api/frame/body.h"
#include "api/frame/reply.h"
#include "compat/e2b/envd/multipart.h"
#include "http/parse.h"
#include "sandbox/fileops/file_call.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#define IN_MAX         ((size_t)1024 * 1024)
#define FILES_MAX      10000
#define METADATA_FIELD "X-Metadata-"
#define METADATA_KEY   246
#define METADATA_MAX   4096

struct upload {
	struct http_req *req;
	char sandbox_id[ID_SIZE];
	char user[64];
	bool is_form, is_gzip;
	struct multipart form;
	struct buf in, attributes;
	struct file_call *call; /* NULL: between two files */
	bool is_finishing;      /* the file's bytes were all taken */
	bool is_whole;          /* the body was */
	bool is_skipping;       /* this part is not a file */
	bool is_answered;
	struct envd_entry entry;
	json_t *paths; /* that were written */
	struct reply reply;
	struct json_writer *w;
};

static void pump(struct upload *u);

static void upload_free(struct upload *u)
{
	if (u->call)
		file_call_cancel(u->call);
	envd_entry_done(&u->entry);
	json_decref(u->paths);
	buf_done(&u->in);
	buf_done(&u->attributes);
	buf_done(&u->reply.body);
	free(u);
}

static void on_done(void *arg)
{
	upload_free(arg);
}

static void fail(struct upload *u, const struct err *err)
{
	if (u->is_answered)
		return;
	u->is_answered = true;
	if (u->call)
		file_call_cancel(take_ptr(u->call));
	http_reply_err(u->req, err);
}

static void succeed(struct upload *u)
{
	u->is_answered = true;
	json_close_array(u->w);
	reply_send_late(&u->reply, u->req, 200);
}

static void on_record(const struct record *r, void *arg)
{
	struct upload *u = arg;
	struct err err;

	if (u->is_answered || envd_entry_note(&u->entry, r) || r->kind != RECORD_ENTRY)
		return;
	if (json_object_get(u->paths, r->path)) {
		(void)err_set(&err, ERR_INVALID_FIELD, 0, "there are several files for '%.200s'",
		              r->path);
		fail(u, &err);
		return;
	}
	(void)json_object_set_new(u->paths, r->path, json_true());
	envd_put_file(&u->entry, r, u->w);
}

static void on_room(void *arg)
{
	pump(arg);
}

static void on_end(const struct err *err, void *arg)
{
	struct upload *u = arg;

	u->call = NULL;
	if (err) {
		fail(u, err);
		return;
	}
	u->is_finishing = false;
	if (u->is_answered)
		return;
	if (u->is_form)
		pump(u);
	else
		succeed(u);
}

static bool is_there(const struct sandbox *s, void *arg)
{
	(void)arg;
	return e2b_is_there(s);
}

static int begin_file(struct upload *u, const char *name, struct err *err)
{
	static const struct file_call_ops ops = {
		.on_record = on_record, .on_room = on_room, .on_end = on_end};
	const struct api *api = http_app_arg(u->req);
	struct sandbox *s = sandbox_find_shown(api->fleet, u->sandbox_id, is_there, NULL);
	auto_free char *path = s ? envd_path(s, name) : NULL;
	struct start op = {.kind = START_FILE,
	                   .op = FILE_WRITE,
	                   .flags = FILE_WHOLE | FILE_IN_PLACE | FILE_PARENTS | FILE_ATTRIBUTES |
	                            FILE_FOR_USER,
	                   .size = UINT64_MAX,
	                   .path = path,
	                   .path2 = unconst(buf_str(&u->attributes)),
	                   .owner = unconst(ENVD_ATTRIBUTES),
	                   .user = u->user,
	                   .cwd = unconst("")};

	if (!s)
		return err_set(err, ERR_NOT_FOUND, 0, "the sandbox has ended");
	if (strlen(path) > START_PATH_MAX)
		return err_field(err, "path", "is too long");
	if (json_object_size(u->paths) >= FILES_MAX)
		return err_set(err, ERR_TOO_LARGE, 0, "these are more than %d files", FILES_MAX);
	if (u->is_gzip)
		op.flags |= FILE_GZIP;
	return file_call_start(s, &op, &ops, u, &u->call, err);
}

/* Writes as much as there is room for; 0: none. */
static size_t give(struct upload *u, const char *data, size_t len)
{
	ssize_t n = u->is_skipping ? (ssize_t)len : file_call_write(u->call, data, len);

	if (n > 0)
		buf_consume(&u->in, (size_t)n);
	return n > 0 ? (size_t)n : 0;
}

static int begin_part(struct upload *u, struct err *err)
{
	const char *path = http_query(u->req, "path");

	u->is_skipping = strcmp(u->form.name, "file") != 0;
	if (u->is_skipping)
		return 0;
	if (!path || !path[0])
		path = u->form.filename;
	if (!path[0])
		return err_field(err, "path", "is neither in the query nor in the part");
	return begin_file(u, path, err);
}

static void end_file(struct upload *u)
{
	if (u->is_skipping)
		return;
	u->is_finishing = true;
	file_call_finish(u->call);
}

/* One step of the form: 0: go on, 1: wait, < 0: err. */
static int step(struct upload *u, struct err *err)
{
	const char *data = NULL;
	size_t len = 0;
	int r = multipart_next(&u->form, &u->in, &data, &len, err);

	switch (r) {
	case MULTIPART_MORE:
		if (u->is_whole)
			return err_set(err, ERR_BAD_REQUEST, 0, "the multipart body is not whole");
		http_body_pause(u->req, false);
		return 1;
	case MULTIPART_PART:
		return begin_part(u, err);
	case MULTIPART_DATA:
		return give(u, data, len) == 0;
	case MULTIPART_PART_END:
		end_file(u);
		return u->is_finishing;
	case MULTIPART_END:
		buf_truncate(&u->in, 0);
		if (!u->is_whole)
			http_body_pause(u->req, false); /* to its end, which answers */
		else
			succeed(u);
		return 1;
	default:
		return r;
	}
}

static void pump_form(struct upload *u)
{
	struct err err = {0};
	int r = 0;

	while (r == 0 && !u->is_answered)
		r = step(u, &err);
	if (r < 0)
		fail(u, &err);
}

static void pump_raw(struct upload *u)
{
	while (u->in.len > 0)
		if (give(u, u->in.data, u->in.len) == 0)
			return;
	if (!u->is_whole)
		http_body_pause(u->req, false);
	else if (!u->is_finishing)
		end_file(u);
}

static void pump(struct upload *u)
{
	if (u->is_answered || u->is_finishing || (!u->is_form && !u->call))
		return;
	if (u->is_form)
		pump_form(u);
	else
		pump_raw(u);
}

static void on_body(struct http_req *req, const char *data, size_t len, void *arg)
{
	struct upload *u = arg;
	struct err err;

	if (u->is_answered)
		return;
	if (!data) {
		u->is_whole = true;
	} else if (buf_append(&u->in, data, len) < 0) {
		(void)err_set(&err, ERR_TOO_LARGE, 0, "the body came in too large a stretch");
		fail(u, &err);
		return;
	} else {
		http_body_pause(req, true);
	}
	pump(u);
}

static bool is_printable(const char *text)
{
	for (; *text; text++)
		if (*text < 0x20 || *text > 0x7e)
			return false;
	return true;
}

/* Fields X-Metadata-KEY become lines for the agent. */
static int read_metadata(struct upload *u, struct err *err)
{
	const struct http_head *head = http_req_head(u->req);

	for (size_t i = 0; i < head->n_fields; i++) {
		struct http_field f = http_head_field(head, i);
		char key[METADATA_KEY + 1];
		size_t n = 0;

		if (strncasecmp(f.name, METADATA_FIELD, strlen(METADATA_FIELD)) != 0)
			continue;
		for (const char *p = f.name + strlen(METADATA_FIELD); *p && n < METADATA_KEY; p++)
			key[n++] = (char)tolower((unsigned char)*p);
		key[n] = '\0';
		if (n == 0 || strlen(f.name) > strlen(METADATA_FIELD) + METADATA_KEY ||
		    strchr(key, '=') || !is_printable(f.value))
			return err_field(err, "metadata",
			                 "keys have up to %d bytes, values are printable ASCII",
			                 METADATA_KEY);
		if (buf_printf(&u->attributes, "%s" ENVD_ATTRIBUTES "%s=%s",
		               u->attributes.len > 0 ? "\n" : "", key, f.value) < 0)
			return err_field(err, "metadata", "has more than %d bytes", METADATA_MAX);
	}
	return 0;
}

static int read_type(struct upload *u, struct err *err)
{
	const char *type = http_header(u->req, "Content-Type");
	const char *coding = http_header(u->req, "Content-Encoding");
	const char *path = http_query(u->req, "path");

	u->is_form = type && strncasecmp(type, "multipart/form-data", 19) == 0;
	u->is_gzip = coding && strcasecmp(coding, "gzip") == 0;
	if (coding && !u->is_gzip && strcasecmp(coding, "identity") != 0)
		return err_set(err, ERR_UNSUPPORTED_MEDIA, 0, "Content-Encoding may be gzip");
	if (u->is_form && u->is_gzip)
		return err_set(err, ERR_UNSUPPORTED_MEDIA, 0, "a form must not be compressed");
	if (u->is_form)
		return multipart_init(&u->form, type, err);
	if (!path || !path[0])
		return err_field(err, "path", "is required");
	return begin_file(u, path, err);
}

int envd_write_files(struct http_req *req, struct err *err)
{
	struct envd_caller caller;
	struct upload *u;
	int r = envd_find_signed(req, "write", &caller, err);

	if (r == 0)
		r = body_check_user(caller.user[0] ? caller.user : NULL, "username", err);
	if (r != 0)
		return r;
	u = xnew0(struct upload);
	u->req = req;
	u->paths = json_object();
	buf_init(&u->in, IN_MAX);
	buf_init(&u->attributes, METADATA_MAX);
	(void)snprintf(u->sandbox_id, sizeof(u->sandbox_id), "%s", sandbox_id(caller.s));
	(void)snprintf(u->user, sizeof(u->user), "%s", caller.user);
	u->w = reply_begin_bare(&u->reply);
	json_open_array(u->w, NULL);
	r = read_metadata(u, err);
	if (r == 0)
		r = read_type(u, err);
	if (r < 0) {
		upload_free(u);
		return r;
	}
	http_on_done(req, on_done, u);
	http_on_body(req, on_body, u);
	return 0;
}
