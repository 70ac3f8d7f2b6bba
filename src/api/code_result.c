// SPDX-License-Identifier: Apache-2.0
/*
 * A code call's result as one object. Of each stream the last OUTPUT_BYTES_MAX are told, as for an
 * exec; results are kept as JSON text, up to a bound for all of them.
 *
 * All results together hold api->held_max at most, from the first byte until the client has it or
 * is gone. Who would go beyond it loses the beginning of his own output, or results, and is told
 * so: many calls at once cost each other completeness, never the gateway its memory.
 */
#include "api/api.h"
#include "api/code.h"

#include "base/parse.h"

#define OUTPUT_BYTES_MAX  (4 * 1024 * 1024)
#define RESULTS_BYTES_MAX (32 * 1024 * 1024)
#define REPLY_BYTES       (96 * 1024 * 1024) /* both outputs, escaped to six times, and results */

struct code_result {
	struct code_reader reader;
	struct api *api;
	size_t counted; /* in api->held_bytes */
	struct {
		struct buf bytes;
		bool is_truncated;
	} streams[2];
	struct buf results; /* objects with commas between them */
	bool has_lost_results;
	json_t *error; /* or NULL */
};

static void count(struct code_result *res)
{
	size_t now = res->streams[0].bytes.len + res->streams[1].bytes.len + res->results.len;

	res->api->held_bytes += now - res->counted;
	res->counted = now;
}

static size_t room(const struct code_result *res)
{
	const struct api *api = res->api;

	return api->held_max > api->held_bytes ? api->held_max - api->held_bytes : 0;
}

static void on_output(struct code_call *call, enum frame_stream stream, const char *data,
                      size_t len, void *arg)
{
	struct code_result *res = arg;
	struct buf *bytes = &res->streams[stream == STREAM_STDERR].bytes;
	size_t fits = MIN(buf_room(bytes), room(res));

	(void)call;
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

static void on_event(struct code_call *call, enum code_event event, json_t *value, void *arg)
{
	struct code_result *res = arg;

	(void)call;
	if (event != CODE_EVENT_ERROR) {
		keep_result(res, value, event == CODE_EVENT_RESULT);
		return;
	}
	json_decref(res->error);
	res->error = json_incref(value);
}

static void put_stream(struct json_writer *w, struct code_result *res, unsigned i)
{
	static const char *const names[][3] = {{"stdout", "stdout_base64", "stdout_truncated"},
	                                       {"stderr", "stderr_base64", "stderr_truncated"}};
	struct buf *b = &res->streams[i].bytes;

	/* A character that lost its beginning goes too. */
	for (int n = 0; res->streams[i].is_truncated && n < 3 && b->len > 0; n++)
		if (((unsigned char)b->data[0] & 0xc0) == 0x80)
			buf_consume(b, 1);
	json_put_strn(w, names[i][0], buf_str(b), b->len);
	if (!utf8_is_valid(buf_str(b), b->len))
		json_put_base64(w, names[i][1], b->data, b->len);
	json_put_bool(w, names[i][2], res->streams[i].is_truncated);
}

static void reply(struct code_result *res, const struct context *c, const struct code_end *end)
{
	auto_call(buf_done) struct buf body = BUF_INIT(REPLY_BYTES);
	struct json_writer w;
	struct err err;

	json_writer_init(&w, &body);
	json_open_object(&w, NULL);
	code_put_end(&w, c, end);
	put_stream(&w, res, 0);
	put_stream(&w, res, 1);
	json_open_array(&w, "results");
	if (res->results.len > 0)
		json_put_raw(&w, NULL, res->results.data, res->results.len);
	json_close_array(&w);
	json_put_bool(&w, "results_truncated", res->has_lost_results);
	if (res->error)
		json_put_value(&w, "error", res->error);
	else
		json_put_null(&w, "error");
	json_close_object(&w);
	if (json_writer_end(&w) < 0) {
		(void)err_set(&err, ERR_TOO_LARGE, 0, "the result is larger than %d MiB",
		              REPLY_BYTES >> 20);
		code_reader_fail(&res->reader, &err);
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

static void on_end(struct code_call *call, struct context *c, const struct code_end *end,
                   const struct err *err, void *arg)
{
	struct code_result *res = arg;

	(void)call;
	res->reader.call = NULL;
	if (err)
		code_reader_fail(&res->reader, err);
	else
		reply(res, c, end);
}

static const struct code_ops ops = {.on_output = on_output, .on_event = on_event, .on_end = on_end};

static void result_done(struct code_reader *r)
{
	struct code_result *res = (struct code_result *)r;

	res->api->held_bytes -= res->counted;
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
	res->api = http_app_arg(spec->req);
	buf_init(&res->streams[0].bytes, OUTPUT_BYTES_MAX);
	buf_init(&res->streams[1].bytes, OUTPUT_BYTES_MAX);
	buf_init(&res->results, RESULTS_BYTES_MAX);
	r = code_reader_start(&res->reader, spec, s, &ops, err);
	if (r == 0)
		*ret = &res->reader;
	return r;
}
