// SPDX-License-Identifier: Apache-2.0
/*
 * A code call's result as one object. Of each stream the last OUTPUT_BYTES_MAX are told, as for an
 * exec; results are kept as JSON text, up to a bound for all of them.
 *
 * All results together have the room api->held, from the first byte until the client has it or is
 * gone, and each project a part of it. A call that would go beyond it loses the beginning of its
 * own output, or results, and is told so. So many calls at once may give incomplete results, but
 * never cost the gateway its memory.
 *
 * A small result, as most are, is answered at once. A large one is written by a job, a piece of a
 * part in each step, so that megabytes of output neither hold up others nor stand in memory once
 * more as JSON.
 */
#include "api/api.h"
#include "api/code/code_reader.h"

#include "base/parse.h"

#include <string.h>

#define OUTPUT_BYTES_MAX  (4 * 1024 * 1024)
#define RESULTS_BYTES_MAX (32 * 1024 * 1024)
#define AT_ONCE_BYTES     (64 * 1024)        /* of output and results */
#define PIECE_BYTES       (24 * 1024)        /* of a large one; whole groups of base64 */
#define REPLY_BYTES       (96 * 1024 * 1024) /* what is around them: an error may have megabytes */

/* Of a large result, in this order. */
enum part {
	PART_STDOUT,
	PART_STDOUT_BASE64,
	PART_STDERR,
	PART_STDERR_BASE64,
	PART_RESULTS,
	PART_COUNT,
};

struct code_result {
	struct code_reader reader;
	struct api *api;
	char project_id[ID_SIZE]; /* of the sandbox */
	size_t counted;           /* in api->held */
	struct {
		struct buf bytes;
		bool is_truncated;
		bool is_not_text; /* as far as it is written */
	} streams[2];
	struct buf results; /* objects with commas between them */
	bool has_lost_results;
	json_t *error;        /* or NULL */
	struct loop_job *job; /* NULL until a large result is written */
	enum part part;
	size_t at; /* within the part */
	bool is_written;
	struct buf piece;
};

static void count(struct code_result *res)
{
	size_t now = res->streams[0].bytes.len + res->streams[1].bytes.len + res->results.len;

	if (now < res->counted)
		fair_room_give(&res->api->held, res->project_id, res->counted - now);
	else if (!fair_room_take(&res->api->held, res->project_id, now - res->counted))
		abort(); /* room() was asked */
	res->counted = now;
}

static size_t room(const struct code_result *res)
{
	return fair_room_left(&res->api->held, res->project_id);
}

static void on_output(enum frame_stream stream, const char *data, size_t len, void *arg)
{
	struct code_result *res = arg;
	struct buf *bytes = &res->streams[stream == STREAM_STDERR].bytes;
	size_t fits = MIN(buf_room(bytes), room(res));

	if (len > fits) {
		size_t drop = MIN(len - fits, bytes->len);

		res->streams[stream == STREAM_STDERR].is_truncated = true;
		buf_consume(bytes, drop);
		fits = MIN(fits + drop, len);
		data += len - fits;
		len = fits;
	}
	if (buf_append(bytes, data, len) < 0)
		abort(); /* it was made room for */
	count(res);
}

static void put_result(struct code_result *res, const json_t *value, bool is_main)
{
	size_t before = res->results.len;
	struct json_writer w;

	if (before > 0 && buf_append_str(&res->results, ",") < 0)
		res->has_lost_results = true;
	json_writer_init(&w, &res->results);
	json_open_object(&w, NULL);
	json_put_value(&w, "data", json_object_get(value, "data"));
	json_put_value(&w, "metadata", json_object_get(value, "metadata"));
	json_put_bool(&w, "truncated", json_is_true(json_object_get(value, "truncated")));
	json_put_bool(&w, "is_main", is_main);
	json_close_object(&w);
	if (json_writer_end(&w) < 0 || res->results.len - before > room(res))
		res->has_lost_results = true;
	if (res->has_lost_results)
		buf_truncate(&res->results, before);
}

static void keep_result(struct code_result *res, const json_t *value, bool is_main)
{
	if (!res->has_lost_results)
		put_result(res, value, is_main);
	count(res);
}

static void on_event(enum code_event event, json_t *value, void *arg)
{
	struct code_result *res = arg;

	if (event != CODE_EVENT_ERROR) {
		keep_result(res, value, event == CODE_EVENT_RESULT);
		return;
	}
	json_decref(res->error);
	res->error = json_incref(value);
}

static const char *const names[][3] = {{"stdout", "stdout_base64", "stdout_truncated"},
                                       {"stderr", "stderr_base64", "stderr_truncated"}};

/* A character that lost its beginning goes too. */
static void trim(struct code_result *res, unsigned i)
{
	struct buf *b = &res->streams[i].bytes;

	for (int n = 0; res->streams[i].is_truncated && n < 3 && b->len > 0; n++)
		if (((unsigned char)b->data[0] & 0xc0) == 0x80)
			buf_consume(b, 1);
}

static void put_stream(struct json_writer *w, struct code_result *res, unsigned i)
{
	const struct buf *b = &res->streams[i].bytes;

	json_put_strn(w, names[i][0], buf_str(b), b->len);
	if (!utf8_is_valid(buf_str(b), b->len))
		json_put_base64(w, names[i][1], b->data, b->len);
	json_put_bool(w, names[i][2], res->streams[i].is_truncated);
}

static void put_tail(struct json_writer *w, const struct code_result *res)
{
	json_put_bool(w, "results_truncated", res->has_lost_results);
	if (res->error)
		json_put_value(w, "error", res->error);
	else
		json_put_null(w, "error");
}

static void fail_too_large(struct code_result *res)
{
	struct err err;

	(void)err_set(&err, ERR_TOO_LARGE, 0, "the result is larger than %d MiB",
	              REPLY_BYTES >> 20);
	code_reader_fail(&res->reader, &err);
}

static void reply_at_once(struct code_result *res, const struct context *c,
                          const struct code_end *end)
{
	auto_call(buf_done) struct buf body = BUF_INIT(REPLY_BYTES);
	struct json_writer w;

	json_writer_init(&w, &body);
	json_open_object(&w, NULL);
	code_put_end(&w, c, end);
	put_stream(&w, res, 0);
	put_stream(&w, res, 1);
	json_open_array(&w, "results");
	if (res->results.len > 0)
		json_put_raw(&w, NULL, res->results.data, res->results.len);
	json_close_array(&w);
	put_tail(&w, res);
	json_close_object(&w);
	if (json_writer_end(&w) < 0) {
		fail_too_large(res);
		return;
	}
	if (!res->reader.end) {
		http_reply_json(res->reader.req, 200, &body);
		return;
	}
	http_stream_start(res->reader.req, 200, "application/json", -1);
	(void)!http_stream_write(res->reader.req, body.data, body.len); /* or the client is gone */
	res->reader.end(res->reader.req, NULL, res->reader.arg);
}

static const struct buf *part_bytes(const struct code_result *res)
{
	return res->part == PART_RESULTS ? &res->results
	                                 : &res->streams[res->part >= PART_STDERR].bytes;
}

/* How much of the part comes next: characters are not cut. */
static size_t next_len(const struct code_result *res)
{
	const struct buf *b = part_bytes(res);
	size_t left = b->len - res->at, len = MIN(left, (size_t)PIECE_BYTES);

	for (size_t n = 1; len < left && n <= 3; n++)
		if (((unsigned char)b->data[res->at + len] & 0xc0) == 0x80 &&
		    ((unsigned char)b->data[res->at + len - n] & 0xc0) != 0x80)
			return len - n;
	return len;
}

/* Appends a string without its quotes: they are not those of this piece. */
static int append_inner(struct code_result *res, const char *data, size_t len, bool is_base64)
{
	size_t before = res->piece.len;
	struct json_writer w;

	json_writer_init(&w, &res->piece);
	if (is_base64)
		json_put_base64(&w, NULL, data, len);
	else
		json_put_strn(&w, NULL, data, len);
	if (json_writer_end(&w) < 0)
		return -E2BIG;
	memmove(res->piece.data + before, res->piece.data + before + 1,
	        res->piece.len - before - 2);
	buf_truncate(&res->piece, res->piece.len - 2);
	return 0;
}

static int append_some(struct code_result *res)
{
	unsigned stream = res->part >= PART_STDERR;
	const struct buf *b = part_bytes(res);
	const char *data = buf_str(b) + res->at;
	bool is_base64 = res->part == PART_STDOUT_BASE64 || res->part == PART_STDERR_BASE64;
	size_t len = is_base64 ? MIN(b->len - res->at, (size_t)PIECE_BYTES) : next_len(res);

	res->at += len;
	if (res->part == PART_RESULTS)
		return buf_append(&res->piece, data, len);
	if (!is_base64 && !utf8_is_valid(data, len))
		res->streams[stream].is_not_text = true;
	return append_inner(res, data, len, is_base64);
}

static int open_part(struct code_result *res)
{
	res->at = 0;
	if (res->part == PART_RESULTS)
		return buf_append_str(&res->piece, ",\"results\":[");
	return buf_printf(&res->piece, ",\"%s\":\"", names[res->part / 2][res->part % 2]);
}

/* And opens the next one. */
static int close_part(struct code_result *res)
{
	unsigned stream = res->part >= PART_STDERR;
	bool is_text = res->part == PART_STDOUT || res->part == PART_STDERR;
	int r = buf_append_str(&res->piece, res->part == PART_RESULTS ? "]" : "\"");

	res->part += is_text && !res->streams[stream].is_not_text ? 2 : 1;
	if (r == 0 && !(is_text && res->streams[stream].is_not_text) && res->part <= PART_RESULTS)
		r = buf_printf(&res->piece, ",\"%s\":%s", names[stream][2],
		               res->streams[stream].is_truncated ? "true" : "false");
	if (r == 0 && res->part < PART_COUNT)
		r = open_part(res);
	return r;
}

/* Opens or ends the object that the parts are in: its other fields. */
static int append_frame(struct code_result *res, const struct context *c,
                        const struct code_end *end)
{
	struct json_writer w;
	int r;

	json_writer_init(&w, &res->piece);
	json_open_object(&w, NULL);
	if (end)
		code_put_end(&w, c, end);
	else
		put_tail(&w, res);
	json_close_object(&w);
	r = json_writer_end(&w);
	if (r == 0 && end)
		buf_truncate(&res->piece, res->piece.len - 1);
	else if (r == 0)
		*res->piece.data = ',';
	return r;
}

/* 1: there is more, 0: that was all, < 0: the reply is cut. res may be gone then. */
static int write_piece(struct code_result *res)
{
	bool is_over = res->part == PART_COUNT;
	int r;

	res->is_written = is_over;
	if (is_over)
		r = append_frame(res, NULL, NULL);
	else
		r = res->at < part_bytes(res)->len ? append_some(res) : close_part(res);
	if (r < 0)
		http_stream_abort(res->reader.req);
	else
		r = http_stream_write(res->reader.req, res->piece.data, res->piece.len);
	if (r < 0)
		return r;
	buf_truncate(&res->piece, 0);
	return !is_over;
}

static bool on_job(struct loop *loop, void *arg)
{
	struct code_result *res = arg;
	int r;

	do {
		if (http_stream_pending(res->reader.req) >= HTTP_HIGH_WATER)
			return true; /* on_drain() goes on */
		r = write_piece(res);
	} while (r > 0 && loop_has_time(loop));
	if (r == 0 && res->reader.end)
		res->reader.end(res->reader.req, NULL, res->reader.arg);
	else if (r == 0)
		http_stream_end(res->reader.req);
	return r <= 0;
}

static void on_drain(void *arg)
{
	struct code_result *res = arg;

	if (res->job && !res->is_written)
		loop_job_start(res->job);
}

static void reply_in_pieces(struct code_result *res, const struct context *c,
                            const struct code_end *end)
{
	if (append_frame(res, c, end) < 0 || open_part(res) < 0) {
		fail_too_large(res);
		return;
	}
	http_stream_start(res->reader.req, 200, "application/json", -1);
	res->job = loop_job_new(http_loop(res->reader.req), on_job, res);
	loop_job_start(res->job);
}

static void on_end(struct context *c, const struct code_end *end, const struct err *err, void *arg)
{
	struct code_result *res = arg;

	res->reader.call = NULL;
	trim(res, 0);
	trim(res, 1);
	if (err)
		code_reader_fail(&res->reader, err);
	else if (res->counted <= AT_ONCE_BYTES)
		reply_at_once(res, c, end);
	else
		reply_in_pieces(res, c, end);
}

static const struct code_ops ops = {.on_output = on_output, .on_event = on_event, .on_end = on_end};

static void result_done(struct code_reader *r)
{
	struct code_result *res = (struct code_result *)r;

	fair_room_give(&res->api->held, res->project_id, res->counted);
	loop_job_free(res->job);
	buf_done(&res->piece);
	buf_done(&res->streams[0].bytes);
	buf_done(&res->streams[1].bytes);
	buf_done(&res->results);
	json_decref(res->error);
}

int code_result_new(const struct code_reader_spec *spec, struct sandbox *s,
                    struct code_reader **ret, struct err *err)
{
	struct code_result *res = xnew0(struct code_result);
	int r;

	res->reader.done = result_done;
	res->reader.on_drain = on_drain;
	buf_init(&res->piece, REPLY_BYTES);
	res->api = http_app_arg(spec->req);
	(void)snprintf(res->project_id, sizeof(res->project_id), "%s", sandbox_project_id(s));
	buf_init(&res->streams[0].bytes, OUTPUT_BYTES_MAX);
	buf_init(&res->streams[1].bytes, OUTPUT_BYTES_MAX);
	buf_init(&res->results, RESULTS_BYTES_MAX);
	r = code_reader_start(&res->reader, spec, s, &ops, err);
	if (r == 0)
		*ret = &res->reader;
	return r;
}
