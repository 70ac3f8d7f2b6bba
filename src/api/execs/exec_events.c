// SPDX-License-Identifier: Apache-2.0
/*
 * An exec's output as a stream of events: started, stdout, stderr, gap, exited; error if it cannot
 * go on.
 *
 * Text is never cut within a character: text.h holds the beginning of one until its rest comes with
 * a later event of the same stream. So the bytes of a character may travel under a later sequence
 * number than they have in the spool. A client that comes back with `after` must get them all the
 * same: its reader first reads some events before that point silently, which leaves the same bytes
 * held.
 */
#include "api/execs/exec_reader.h"
#include "api/frame/reply.h"
#include "api/frame/text_carry.h"

#include "base/parse.h"
#include "base/units.h"

#include <string.h>

#define KEEPALIVE_US     (15 * SECOND_US) /* proxies commonly cut after 30 to 60 s */
#define LOOK_BACK_EVENTS 16
#define EVENT_BYTES_MAX  (2 * 1024 * 1024) /* an exec with all its words, escaped */

struct exec_events {
	struct exec_reader reader;
	struct exec_events_options options;
	uint64_t seq; /* the last one read */
	uint64_t last_at_us;
	bool has_begun; /* the head is sent */
	bool is_quiet;  /* nothing was sent since the keepalive timer began */
	struct text_carry held[2];
	struct buf text, json;
	struct loop_timer *keepalive;
};

static const char *const stream_names[] = {"stdout", "stderr"};

static struct exec_events *events_of(struct exec_reader *r)
{
	return container_of(r, struct exec_events, reader);
}

/* Opens an event in ev->json, to be sent by event_send(). */
static struct json_writer event_begin(struct exec_events *ev, const char *type)
{
	struct json_writer w;

	buf_truncate(&ev->json, 0);
	json_writer_init(&w, &ev->json);
	json_open_object(&w, NULL);
	json_put_str(&w, "type", type);
	return w;
}

/* < 0: the client is gone, and ev may be too. */
static int event_send(struct exec_events *ev, struct json_writer *w, const char *type, uint64_t seq)
{
	int r;

	json_close_object(w);
	r = json_writer_end(w);
	if (r < 0) {
		ev->reader.is_ended = true;
		http_stream_abort(ev->reader.req);
		return r;
	}
	ev->is_quiet = false;
	return event_stream_send(ev->reader.req, ev->options.format, type, seq, ev->json.data,
	                         ev->json.len);
}

static int send_exec(struct exec_events *ev, const char *type)
{
	struct json_writer w = event_begin(ev, type);

	exec_to_json(ev->reader.e, &w, "exec");
	return event_send(ev, &w, type, 0);
}

/* Sends what is in ev->text, if anything. */
static int send_output(struct exec_events *ev, unsigned stream)
{
	struct json_writer w;

	if (ev->text.len == 0)
		return 0;
	w = event_begin(ev, stream_names[stream]);
	json_put_u64(&w, "seq", ev->seq);
	json_put_u64(&w, "at_us", ev->last_at_us);
	if (utf8_is_valid(ev->text.data, ev->text.len))
		json_put_strn(&w, "text", ev->text.data, ev->text.len);
	else
		json_put_base64(&w, "base64", ev->text.data, ev->text.len);
	return event_send(ev, &w, stream_names[stream], ev->seq);
}

/* Nothing will complete what is held. */
static int send_held(struct exec_events *ev)
{
	for (unsigned i = 0; i < ARRAY_SIZE(ev->held); i++) {
		int r;

		buf_truncate(&ev->text, 0);
		r = text_flush(&ev->held[i], &ev->text);
		if (r == 0)
			r = send_output(ev, i);
		if (r < 0)
			return r;
	}
	return 0;
}

static int send_gap(struct exec_events *ev, const struct spool_event *gap)
{
	uint64_t lost_bytes = gap->lost_bytes, lost_events = gap->lost_events;
	struct json_writer w;
	int r;

	if (ev->seq < ev->options.after) { /* met while looking back: the client knows of it */
		memset(ev->held, 0, sizeof(ev->held));
		ev->seq = MIN(gap->seq, ev->options.after);
		return 0;
	}
	ev->seq = gap->seq;
	r = send_held(ev);
	if (r < 0)
		return r;
	w = event_begin(ev, "gap");
	json_put_u64(&w, "seq", ev->seq);
	json_put_u64(&w, "lost_bytes", lost_bytes);
	json_put_u64(&w, "lost_events", lost_events);
	return event_send(ev, &w, "gap", ev->seq);
}

static int send_spooled(struct exec_events *ev, const struct spool_event *event)
{
	unsigned stream = event->kind == SPOOL_STDERR;
	int r;

	if (event->kind == SPOOL_GAP)
		return send_gap(ev, event);
	ev->seq = event->seq;
	ev->last_at_us = event->at_us;
	buf_truncate(&ev->text, 0);
	r = text_take(&ev->held[stream], event->data, event->len, &ev->text);
	if (r == 0 && event->seq > ev->options.after)
		r = send_output(ev, stream);
	return r;
}

static void end_with_error(struct exec_events *ev, const struct err *err)
{
	struct json_writer w = event_begin(ev, "error");

	json_put_err(&w, "error", err, http_request_id(ev->reader.req));
	if (event_send(ev, &w, "error", 0) >= 0)
		exec_reader_end(&ev->reader, NULL);
}

/* The spool has no more. true: wait for the exec. */
static bool is_waiting(const struct exec_events *ev)
{
	return ev->options.is_following && !exec_is_over(ev->reader.e);
}

static void finish(struct exec_events *ev)
{
	if (exec_is_over(ev->reader.e) && (send_held(ev) < 0 || send_exec(ev, "exited") < 0))
		return;
	exec_reader_end(&ev->reader, NULL);
}

/* 1: go on, 0: not yet, < 0: ended. */
static int begin(struct exec_events *ev)
{
	struct exec_reader *reader = &ev->reader;
	struct err err;

	if (ev->has_begun)
		return 1;
	if (!reader->e) {
		(void)exec_reader_gone(&err);
		exec_reader_end(reader, &err);
		return -ENOENT;
	}
	if (ev->options.tells_start && exec_state(reader->e) == EXEC_STARTING)
		return 0;
	if (ev->options.tells_start && exec_state(reader->e) == EXEC_FAILED) {
		exec_reader_end(reader, exec_failure(reader->e));
		return -ECANCELED;
	}
	ev->has_begun = true;
	event_stream_start(reader->req, ev->options.format);
	if (http_req_method(reader->req) == HTTP_HEAD) {
		exec_reader_end(reader, NULL);
		return -ECANCELED;
	}
	return ev->options.tells_start && send_exec(ev, "started") < 0 ? -EPIPE : 1;
}

static void pump(struct exec_reader *reader)
{
	struct exec_events *ev = events_of(reader);
	struct spool_event event;
	struct err err;

	if (begin(ev) <= 0)
		return;
	if (!reader->e) {
		(void)exec_reader_gone(&err);
		end_with_error(ev, &err);
		return;
	}
	for (unsigned n = 0; reader_may_go_on(http_loop(reader->req), n); n++) {
		int r;

		if (http_stream_pending(reader->req) >= HTTP_HIGH_WATER)
			return; /* on_drain goes on */
		r = spool_next(exec_spool(reader->e), ev->seq, &event, &err);
		if (r < 0) {
			end_with_error(ev, &err);
			return;
		}
		if (r == 0) {
			if (!is_waiting(ev))
				finish(ev);
			return;
		}
		if (send_spooled(ev, &event) < 0)
			return;
	}
	exec_reader_again(reader);
}

static void on_keepalive(struct loop *loop, void *arg)
{
	struct exec_events *ev = arg;
	bool was_quiet = ev->is_quiet;

	(void)loop;
	ev->is_quiet = true;
	loop_timer_set_in(ev->keepalive, KEEPALIVE_US);
	if (was_quiet && ev->has_begun && !ev->reader.is_ended &&
	    http_stream_pending(ev->reader.req) == 0 &&
	    event_stream_keepalive(ev->reader.req, ev->options.format) < 0)
		ev->reader.is_ended = true;
}

static void done(struct exec_reader *r)
{
	struct exec_events *ev = events_of(r);

	loop_timer_free(ev->keepalive);
	buf_done(&ev->text);
	buf_done(&ev->json);
}

static const struct exec_reader_ops events_ops = {.pump = pump, .done = done};

struct exec_reader *exec_events_new(struct http_req *req, struct exec *e,
                                    const struct exec_events_options *options,
                                    exec_reader_end_fn end, void *arg)
{
	struct exec_events *ev = xnew0(struct exec_events);

	ev->options = *options;
	ev->seq = options->after > LOOK_BACK_EVENTS ? options->after - LOOK_BACK_EVENTS : 0;
	buf_init(&ev->text, EVENT_BYTES_MAX);
	buf_init(&ev->json, EVENT_BYTES_MAX);
	ev->keepalive = loop_timer_new(http_loop(req), on_keepalive, ev);
	loop_timer_set_in(ev->keepalive, KEEPALIVE_US);
	exec_reader_init(&ev->reader, &events_ops, req, e, end, arg);
	return &ev->reader;
}
