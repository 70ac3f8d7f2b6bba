// SPDX-License-Identifier: Apache-2.0
/*
 * A build as it goes on: lines of its log under their numbers, how far it is (as often as somebody
 * reads, and no more than a few times a second), and its end.
 */
#include "api/api.h"
#include "api/frame/find.h"
#include "api/handlers.h"
#include "base/units.h"

#include "http/stream.h"
#include "sandbox/exec/output_spool.h"

#include <string.h>

#define PROGRESS_US  UINT64_C(200000)
#define KEEPALIVE_US (15 * SECOND_US)

struct reader {
	struct http_req *req;
	struct build *b; /* NULL: forgotten */
	struct build_watch watch;
	enum event_format format;
	uint64_t after;
	bool is_following, is_ended;
	uint64_t told_us; /* when it last said how far the build is */
	struct loop_job *again;
	struct loop_timer *tick; /* tick: progress is due, or a sign of life */
};

static int send_event(struct reader *rd, const char *type, uint64_t seq,
                      const struct spool_event *line)
{
	auto_call(buf_done) struct buf json = BUF_INIT(256 * 1024);
	struct json_writer w;
	int r;

	json_writer_init(&w, &json);
	json_open_object(&w, NULL);
	json_put_str(&w, "type", type);
	if (line) {
		json_put_u64(&w, "seq", seq);
		json_put_strn(&w, "text", line->data, line->len);
	} else {
		build_to_json(rd->b, &w, "build");
	}
	json_close_object(&w);
	r = json_writer_end(&w);
	return r < 0 ? r : event_stream_send(rd->req, rd->format, type, seq, json.data, json.len);
}

/* 1: there may be more, later. */
static int send_log(struct reader *rd)
{
	struct spool_event ev;
	struct err err;
	int r;

	while (http_stream_pending(rd->req) < HTTP_HIGH_WATER) {
		r = spool_next(build_log(rd->b), rd->after, &ev, &err);
		if (r <= 0)
			return r;
		rd->after = ev.seq;
		if (ev.kind != SPOOL_GAP)
			r = send_event(rd, "log", ev.seq, &ev);
		if (r < 0)
			return r;
		if (!loop_has_time(http_loop(rd->req))) {
			loop_job_start(rd->again);
			return 1;
		}
	}
	return 1;
}

static int send_progress(struct reader *rd)
{
	uint64_t now = loop_now_us(http_loop(rd->req));

	if (build_is_over(rd->b))
		return 0;
	if (now < rd->told_us + PROGRESS_US) {
		loop_timer_set(rd->tick, rd->told_us + PROGRESS_US);
		return 0;
	}
	rd->told_us = now;
	loop_timer_set_in(rd->tick, KEEPALIVE_US);
	return send_event(rd, "progress", 0, NULL);
}

static int send_all(struct reader *rd)
{
	int r = send_log(rd);

	if (r != 0)
		return MIN(r, 0);
	r = send_progress(rd);
	if (r < 0 || (rd->is_following && !build_is_over(rd->b)))
		return r;
	if (build_is_over(rd->b)) {
		spool_rest(build_log(rd->b));
		r = send_event(rd, "ended", 0, NULL);
	}
	rd->is_ended = true;
	http_stream_end(rd->req);
	return r;
}

static bool pump(struct loop *loop, void *arg)
{
	struct reader *rd = arg;

	(void)loop;
	if (rd->is_ended || http_stream_pending(rd->req) >= HTTP_HIGH_WATER)
		return true; /* on_drain goes on */
	if (rd->b && send_all(rd) == 0)
		return true;
	rd->is_ended = true;
	http_stream_abort(rd->req); /* a short body must not look whole */
	return true;
}

static void on_tick(struct loop *loop, void *arg)
{
	(void)pump(loop, arg);
}

static void on_watch(struct build *b, void *arg)
{
	struct reader *rd = arg;

	rd->b = b;
	loop_job_start(rd->again);
}

static void on_drain(void *arg)
{
	const struct reader *rd = arg;

	loop_job_start(rd->again);
}

static void on_done(void *arg)
{
	struct reader *rd = arg;

	build_watch_remove(&rd->watch);
	loop_job_free(rd->again);
	loop_timer_free(rd->tick);
	free(rd);
}

static void reader_start(struct http_req *req, struct reader *rd)
{
	struct loop *loop = http_loop(req);

	rd->req = req;
	rd->again = loop_job_new(loop, pump, rd);
	rd->tick = loop_timer_new(loop, on_tick, rd);
	rd->watch = (struct build_watch){.fn = on_watch, .arg = rd};
	build_watch_add(rd->b, &rd->watch);
	http_on_drain(req, on_drain, rd);
	http_on_done(req, on_done, rd);
	event_stream_start(req, rd->format);
	if (http_req_method(req) == HTTP_HEAD) {
		rd->is_ended = true;
		http_stream_end(req);
		return;
	}
	loop_job_start(rd->again);
}

static int read_query(const struct http_req *req, struct reader *rd, struct err *err)
{
	int r = check_accept(req, event_types, err);

	if (r == 0)
		r = http_query_u64(req, "after", 0, INT64_MAX, &rd->after, err);
	if (r == 0)
		r = http_query_bool(req, "follow", &rd->is_following, err);
	return r < 0 ? r : find_build(req, &rd->b, err);
}

int get_build_events(struct http_req *req, struct err *err)
{
	struct reader *rd = xnew0(struct reader);
	int r;

	rd->format = event_format_of(req) == EVENTS_SSE ? EVENTS_SSE : EVENTS_NDJSON;
	r = read_query(req, rd, err);
	if (r < 0) {
		free(rd);
		return r;
	}
	reader_start(req, rd);
	return 0;
}
