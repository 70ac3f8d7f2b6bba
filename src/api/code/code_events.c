// SPDX-License-Identifier: Apache-2.0
/*
 * A code call as a stream of events: started, stdout, stderr, result, display, error, done; or
 * failed, if it cannot go on. A client that reads slowly pauses the call. What fails before the
 * first event is a plain error.
 */
#include "api/code/code_reader.h"
#include "api/frame/reply.h"
#include "api/frame/text_carry.h"

#include "base/parse.h"
#include "base/units.h"

#include <string.h>

#define KEEPALIVE_US    (15 * SECOND_US)   /* proxies commonly cut after 30 to 60 s */
#define EVENT_BYTES_MAX (96 * 1024 * 1024) /* a message, escaped to six times */
#define JSON_KEPT_MAX   (256 * 1024)

struct code_events {
	struct code_reader reader;
	enum event_format format;
	bool has_begun, is_quiet, is_ended;
	uint64_t seq;
	struct text_carry held[2];
	struct buf text, json;
	struct loop_timer *keepalive;
};

static const char *const stream_names[] = {"stdout", "stderr"};

static struct json_writer event_begin(struct code_events *ev, const char *type)
{
	struct json_writer w;

	if (!ev->has_begun) {
		ev->has_begun = true;
		event_stream_start(ev->reader.req, ev->format);
	}
	buf_truncate(&ev->json, 0);
	json_writer_init(&w, &ev->json);
	json_open_object(&w, NULL);
	json_put_str(&w, "type", type);
	json_put_u64(&w, "seq", ++ev->seq);
	return w;
}

/* < 0: nothing more can be sent. */
static int event_send(struct code_events *ev, struct json_writer *w, const char *type)
{
	int r;

	json_close_object(w);
	r = json_writer_end(w);
	if (r < 0)
		http_stream_abort(ev->reader.req);
	else
		r = event_stream_send(ev->reader.req, ev->format, type, ev->seq, ev->json.data,
		                      ev->json.len);
	ev->is_quiet = false;
	ev->is_ended = ev->is_ended || r < 0;
	if (ev->json.mem_size > JSON_KEPT_MAX)
		buf_done(&ev->json);
	if (r >= 0 && ev->reader.call && http_stream_pending(ev->reader.req) >= HTTP_HIGH_WATER)
		code_pause(ev->reader.call, true);
	return r;
}

static int send_text(struct code_events *ev, unsigned stream)
{
	struct json_writer w;

	if (ev->text.len == 0)
		return 0;
	w = event_begin(ev, stream_names[stream]);
	if (utf8_is_valid(ev->text.data, ev->text.len))
		json_put_strn(&w, "text", ev->text.data, ev->text.len);
	else
		json_put_base64(&w, "base64", ev->text.data, ev->text.len);
	buf_truncate(&ev->text, 0);
	return event_send(ev, &w, stream_names[stream]);
}

static void on_start(void *arg)
{
	struct code_events *ev = arg;
	struct json_writer w;

	if (ev->is_ended)
		return;
	w = event_begin(ev, "started");
	(void)!event_send(ev, &w, "started");
}

static void on_output(enum frame_stream stream, const char *data, size_t len, void *arg)
{
	struct code_events *ev = arg;
	unsigned i = stream == STREAM_STDERR;

	if (!ev->is_ended && text_take(&ev->held[i], data, len, &ev->text) == 0)
		(void)!send_text(ev, i);
}

/* Nothing will complete what is held. */
static void send_held(struct code_events *ev)
{
	for (unsigned i = 0; i < ARRAY_SIZE(ev->held); i++)
		if (!ev->is_ended && text_flush(&ev->held[i], &ev->text) == 0)
			(void)!send_text(ev, i);
}

static void on_event(enum code_event event, json_t *value, void *arg)
{
	static const char *const names[] = {[CODE_EVENT_RESULT] = "result",
	                                    [CODE_EVENT_DISPLAY] = "display",
	                                    [CODE_EVENT_ERROR] = "error"};
	struct code_events *ev = arg;
	struct json_writer w;

	if (ev->is_ended)
		return;
	w = event_begin(ev, names[event]);
	if (event == CODE_EVENT_ERROR) {
		json_put_value(&w, "error", value);
	} else {
		json_put_value(&w, "data", json_object_get(value, "data"));
		json_put_value(&w, "metadata", json_object_get(value, "metadata"));
		json_put_bool(&w, "truncated", json_is_true(json_object_get(value, "truncated")));
	}
	(void)!event_send(ev, &w, names[event]);
}

static void on_end(struct context *c, const struct code_end *end, const struct err *err, void *arg)
{
	struct code_events *ev = arg;
	const char *type = err ? "failed" : "done";
	struct json_writer w;

	ev->reader.call = NULL;
	if (err && !ev->has_begun) {
		ev->is_ended = true;
		code_reader_fail(&ev->reader, err);
		return;
	}
	send_held(ev);
	if (ev->is_ended)
		return;
	w = event_begin(ev, type);
	if (err)
		json_put_err(&w, "error", err, http_request_id(ev->reader.req));
	else
		code_put_end(&w, c, end);
	if (event_send(ev, &w, type) < 0)
		return;
	ev->is_ended = true;
	if (ev->reader.end)
		ev->reader.end(ev->reader.req, NULL, ev->reader.arg);
	else
		http_stream_end(ev->reader.req);
}

static const struct code_ops ops = {
	.on_start = on_start, .on_output = on_output, .on_event = on_event, .on_end = on_end};

static void on_drain(void *arg)
{
	struct code_events *ev = arg;

	if (ev->reader.call)
		code_pause(ev->reader.call, false);
}

static void on_keepalive(struct loop *loop, void *arg)
{
	struct code_events *ev = arg;
	bool was_quiet = ev->is_quiet;

	(void)loop;
	ev->is_quiet = true;
	loop_timer_set_in(ev->keepalive, KEEPALIVE_US);
	if (was_quiet && ev->has_begun && !ev->is_ended &&
	    http_stream_pending(ev->reader.req) == 0 &&
	    event_stream_keepalive(ev->reader.req, ev->format) < 0)
		ev->is_ended = true;
}

static void events_done(struct code_reader *r)
{
	struct code_events *ev = (struct code_events *)r;

	loop_timer_free(ev->keepalive);
	buf_done(&ev->text);
	buf_done(&ev->json);
}

int code_events_new(const struct code_reader_spec *spec, struct sandbox *s,
                    struct code_reader **ret, struct err *err)
{
	struct code_events *ev = xnew0(struct code_events);
	int r;

	ev->reader.done = events_done;
	ev->reader.on_drain = on_drain;
	ev->format = spec->format;
	buf_init(&ev->text, FRAME_DATA_MAX + sizeof(ev->held[0].bytes));
	buf_init(&ev->json, EVENT_BYTES_MAX);
	ev->keepalive = loop_timer_new(http_loop(spec->req), on_keepalive, ev);
	loop_timer_set_in(ev->keepalive, KEEPALIVE_US);
	r = code_reader_start(&ev->reader, spec, s, &ops, err);
	if (r == 0)
		*ret = &ev->reader;
	return r;
}
