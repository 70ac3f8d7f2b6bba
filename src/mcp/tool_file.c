// SPDX-License-Identifier: Apache-2.0
/*
 * read_file, write_file, list_files. A file is read in one piece of a bounded length: text as text,
 * a picture as a picture, other bytes as base64.
 */
#include "api/files/file_job.h"
#include "api/frame/body.h"
#include "base/parse.h"
#include "mcp/mcp_private.h"

#include <string.h>

#define READ_BYTES_MAX  (1024 * 1024)
#define WRITE_BYTES_MAX (3 * 1024 * 1024) /* fits into MCP_BODY_MAX */
#define LIST_MAX        1000

struct working {
	struct file_call *call; /* NULL: it has ended */
	char *path;
	struct buf data; /* read, or still to be written */
	uint64_t size;   /* of the file */
	struct result r; /* of a list */
	bool has_result;
};

static void working_free(struct mcp_call *c)
{
	struct working *w = take_ptr(c->state);

	if (!w)
		return;
	if (w->call)
		file_call_cancel(w->call);
	if (w->has_result) {
		buf_done(&w->r.blocks);
		buf_done(&w->r.structured);
	}
	buf_done(&w->data);
	free(w->path);
	free(w);
}

/* Owns data. */
static int start(struct mcp_call *c, struct sandbox *s, const struct start *op,
                 const struct file_call_ops *ops, struct err *err)
{
	struct working *w = xnew0(struct working);
	int r;

	w->path = xstrdup(op->path);
	buf_init(&w->data, MAX(READ_BYTES_MAX, WRITE_BYTES_MAX));
	c->state = w;
	r = file_call_start(s, op, ops, c, &w->call, err);
	if (r < 0)
		working_free(c);
	return r;
}

/* Ends the call after a failure; < 0 if that was reported as an error. */
static int ended(struct mcp_call *c, const struct err *err)
{
	struct working *w = c->state;

	w->call = NULL;
	if (!err)
		return 0;
	working_free(c);
	call_fail(c, err);
	return -EINVAL;
}

static void read_on_record(const struct record *r, void *arg)
{
	struct mcp_call *c = arg;
	struct working *w = c->state;

	w->size = r->size;
}

static void read_on_data(const char *data, size_t len, void *arg)
{
	struct mcp_call *c = arg;
	struct working *w = c->state;

	(void)!buf_append(&w->data, data,
	                  MIN(len, buf_room(&w->data))); /* more was not asked for */
}

/* The type of a picture that models can see, by its first bytes. */
static const char *picture_type(const struct buf *data)
{
	static const struct {
		const char *type, *magic;
		size_t at, len;
	} kinds[] = {
		{"image/png", "\x89PNG\r\n", 0, 6},
		{"image/jpeg", "\xff\xd8\xff", 0, 3},
		{"image/gif", "GIF8", 0, 4},
		{"image/webp", "WEBP", 8, 4},
	};

	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++)
		if (data->len >= kinds[i].at + kinds[i].len &&
		    memcmp(data->data + kinds[i].at, kinds[i].magic, kinds[i].len) == 0)
			return kinds[i].type;
	return NULL;
}

static void put_bytes(struct result *r, const struct buf *data)
{
	auto_free char *base64 = xcalloc(1, base64_size(data->len));
	const char *picture = picture_type(data);

	(void)base64_encode(data->data, data->len, base64);
	json_put_str(&r->s, "content_base64", base64);
	if (picture)
		result_image(r, picture, base64);
	else
		result_text(r, base64, strlen(base64));
}

static void read_on_end(const struct err *err, void *arg)
{
	struct mcp_call *c = arg;
	struct working *w = c->state;
	struct result r;

	if (ended(c, err) < 0)
		return;
	result_init(&r);
	json_put_str(&r.s, "sandbox_id", c->sandbox_id);
	json_put_str(&r.s, "path", w->path);
	json_put_u64(&r.s, "size", w->size);
	if (utf8_is_valid(buf_str(&w->data), w->data.len)) {
		json_put_strn(&r.s, "content", buf_str(&w->data), w->data.len);
		result_text(&r, buf_str(&w->data), w->data.len);
	} else {
		put_bytes(&r, &w->data);
	}
	working_free(c);
	call_end(c, &r);
}

static int run_read(struct mcp_call *c, struct sandbox *s, struct err *err)
{
	static const struct file_call_ops ops = {
		.on_record = read_on_record, .on_data = read_on_data, .on_end = read_on_end};
	struct start op = {
		.kind = START_FILE, .op = FILE_READ, .flags = FILE_RANGE, .size = READ_BYTES_MAX};
	const struct json_field fields[] = {
		{"path", JSON_FIELD_STRING, &op.path, .required = true, .min = 1,
	         .max = START_PATH_MAX - 1},
		{"offset", JSON_FIELD_U64, &op.offset, .max = INT64_MAX},
		{"length", JSON_FIELD_U64, &op.size, .min = 1, .max = READ_BYTES_MAX},
	};
	int r = json_read(c->arguments, "", fields, ARRAY_SIZE(fields), err);

	return r < 0 ? r : start(c, s, &op, &ops, err);
}

static void push(struct working *w)
{
	while (w->data.len > 0) {
		ssize_t n = file_call_write(w->call, w->data.data, w->data.len);

		if (n <= 0)
			return; /* on_room goes on, or on_end tells why not */
		buf_consume(&w->data, (size_t)n);
	}
	file_call_finish(w->call);
}

static void write_on_room(void *arg)
{
	struct mcp_call *c = arg;
	struct working *w = c->state;

	if (w->data.len > 0)
		push(w);
}

static void write_on_end(const struct err *err, void *arg)
{
	struct mcp_call *c = arg;
	struct working *w = c->state;
	struct result r;

	if (ended(c, err) < 0)
		return;
	result_init(&r);
	r.is_plain = true;
	json_put_str(&r.s, "sandbox_id", c->sandbox_id);
	json_put_str(&r.s, "path", w->path);
	json_put_u64(&r.s, "size", w->size);
	working_free(c);
	call_end(c, &r);
}

static int run_write(struct mcp_call *c, struct sandbox *s, struct err *err)
{
	static const struct file_call_ops ops = {
		.on_record = read_on_record, .on_room = write_on_room, .on_end = write_on_end};
	struct start op = {.kind = START_FILE, .op = FILE_WRITE, .flags = FILE_PARENTS};
	const char *text = NULL, *base64 = NULL, *mode = NULL;
	auto_free char *data = NULL;
	bool appends = false;
	size_t len = 0;
	/* clang-format off */
	const struct json_field fields[] = {
		{"path",           JSON_FIELD_STRING, &op.path, .required = true, .min = 1, .max = START_PATH_MAX - 1},
		{"content",        JSON_FIELD_STRING, &text, .max = WRITE_BYTES_MAX},
		{"content_base64", JSON_FIELD_STRING, &base64, .max = WRITE_BYTES_MAX},
		{"append",         JSON_FIELD_BOOL,   &appends},
		{"mode",           JSON_FIELD_STRING, &mode},
	};
	/* clang-format on */
	int r = json_read(c->arguments, "", fields, ARRAY_SIZE(fields), err);

	if (r == 0 && !text && !base64)
		r = err_field(err, "content", "is required, or content_base64");
	if (r == 0)
		r = body_take_bytes(text, base64, "content_base64", &data, &len, err);
	if (r == 0 && mode)
		r = body_file_mode(mode, "mode", &op.mode, err);
	if (r < 0)
		return r;
	op.flags |= (appends ? FILE_APPEND : 0U) | (mode ? FILE_MODE : 0U);
	op.size = len;
	r = start(c, s, &op, &ops, err);
	if (r < 0)
		return r;
	if (buf_append(&((struct working *)c->state)->data, data, len) < 0)
		abort(); /* the table bounds it */
	push(c->state);
	return 0;
}

static void list_on_record(const struct record *r, void *arg)
{
	struct mcp_call *c = arg;
	struct working *w = c->state;

	if (r->kind == RECORD_ENTRY)
		file_entry_to_json(r, &w->r.s, NULL);
}

static void list_on_end(const struct err *err, void *arg)
{
	struct mcp_call *c = arg;
	struct working *w = c->state;
	bool is_truncated = file_call_is_truncated(w->call);
	struct result r;

	if (ended(c, err) < 0)
		return;
	r = w->r;
	r.s.out = &r.structured; /* the writers must point to the moved buffers */
	r.block.out = &r.blocks;
	w->has_result = false;
	json_close_array(&r.s);
	json_put_bool(&r.s, "truncated", is_truncated);
	working_free(c);
	call_end(c, &r);
}

static int run_list(struct mcp_call *c, struct sandbox *s, struct err *err)
{
	static const struct file_call_ops ops = {.on_record = list_on_record,
	                                         .on_end = list_on_end};
	struct start op = {.kind = START_FILE, .op = FILE_LIST, .path = unconst(".")};
	uint64_t limit = LIST_MAX;
	bool is_deep = false;
	struct working *w;
	const struct json_field fields[] = {
		{"path", JSON_FIELD_STRING, &op.path, .min = 1, .max = START_PATH_MAX - 1},
		{"recursive", JSON_FIELD_BOOL, &is_deep},
		{"limit", JSON_FIELD_U64, &limit, .min = 1, .max = LIST_MAX},
	};
	int r = json_read(c->arguments, "", fields, ARRAY_SIZE(fields), err);

	if (r < 0)
		return r;
	op.flags = is_deep ? FILE_RECURSIVE : 0;
	op.limit = (uint32_t)limit;
	r = start(c, s, &op, &ops, err);
	if (r < 0)
		return r;
	w = c->state;
	w->has_result = true;
	result_init(&w->r);
	w->r.is_plain = true;
	json_put_str(&w->r.s, "sandbox_id", c->sandbox_id);
	json_open_array(&w->r.s, "entries");
	return 0;
}

#define PATH                                                                                       \
	"\"path\":{\"type\":\"string\",\"description\":\"Relative ones begin where commands "      \
	"do.\"}"

const struct mcp_tool tool_read_file = {
	.name = "read_file",
	.title = "Read a file",
	.description = "Reads a file of a sandbox, up to 1 MiB at once. Pictures come as pictures, "
		       "other bytes that are not text as base64.",
	.properties =
		PATH ",\"offset\":{\"type\":\"integer\",\"minimum\":0,\"description\":\"First "
		     "byte.\"},\"length\":{\"type\":\"integer\",\"minimum\":1,\"maximum\":"
		     "1048576,\"description\":\"Bytes at most.\"}",
	.required = "[\"path\"]",
	.flags = TOOL_IN_SANDBOX | TOOL_READS,
	.run = run_read,
	.cancel = working_free,
};

const struct mcp_tool tool_write_file = {
	.name = "write_file",
	.title = "Write a file",
	.description = "Writes a file of a sandbox, whole; missing directories are made.",
	.properties =
		PATH ",\"content\":{\"type\":\"string\",\"description\":\"Its text.\"},"
		     "\"content_base64\":{\"type\":\"string\",\"description\":\"Or its "
		     "bytes.\"},\"append\":{\"type\":\"boolean\",\"description\":\"Add to its "
		     "end instead.\"},\"mode\":{\"type\":\"string\",\"description\":\"Such as "
		     "0755.\"}",
	.required = "[\"path\"]",
	.flags = TOOL_IN_SANDBOX,
	.run = run_write,
	.cancel = working_free,
};

const struct mcp_tool tool_list_files = {
	.name = "list_files",
	.title = "List files",
	.description = "Lists a directory of a sandbox: names, types, sizes.",
	.properties = PATH ",\"recursive\":{\"type\":\"boolean\"},\"limit\":{\"type\":\"integer\","
			   "\"minimum\":1,\"maximum\":1000}",
	.required = "",
	.flags = TOOL_IN_SANDBOX | TOOL_READS,
	.run = run_list,
	.cancel = working_free,
};
