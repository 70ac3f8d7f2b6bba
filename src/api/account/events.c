// SPDX-License-Identifier: Apache-2.0
/*
 * The event log for those who may read it: a key sees its own project's entries by their numbers
 * there, an admin of the project "default" those of all with ?all=1 by their places. Entries go out
 * as the lines that their hashes are over (event/verify.h), so that what was read is an export, and
 * can be checked.
 *
 * A reader has a place in the log and nothing else: it reads on when the client has taken what was
 * sent, a bounded stretch a turn. Who searches may find little in much, so that the reply is
 * bounded, too: it ends with where to ask on. One that follows is told when there is more. If its
 * place was removed meanwhile, it gets a gap and goes on behind it. A client that follows may also
 * get the figures of its sandboxes, again and again. So one connection tells a page all that
 * changes. A slow client gets fewer figures.
 */
#include "api/account/event_query.h"
#include "api/account/event_scope.h"
#include "api/frame/find.h"
#include "api/frame/reply.h"
#include "api/handlers.h"
#include "api/operate/figures.h"

#include "base/parse.h"
#include "base/units.h"
#include "http/stream.h"

#include <stdio.h>
#include <string.h>

#define FIGURES_US   UINT64_C(2500000) /* past the age at which a look has them read anew */
#define SEARCHED_MAX 20000 /* entries that a search looks at for one reply: about 20 turns */
#define KEEPALIVE_US (15 * SECOND_US) /* proxies commonly cut after 30 to 60 s */

struct reader {
	struct http_req *req;
	struct event_log *events;
	struct event_watch watch;
	struct event_filter filter;
	char project_id[ID_SIZE], sandbox_id[ID_SIZE]; /* what the filter points to */
	enum event_format format;
	struct event_walk walk;      /* by numbers of the project, or by places */
	struct event_search *search; /* NULL = none */
	bool is_bounded;             /* the reply is */
	uint64_t gap_upto;           /* that was told */
	uint64_t left;               /* entries still to send */
	bool is_following, is_ended, is_quiet;
	bool has_figures, is_host_admin;
	const char *figures_of; /* a project */
	const struct api *api;
	struct loop_job *again;
	struct loop_timer *keepalive, *figures;
};

static void reader_end(struct reader *rd)
{
	rd->is_ended = true;
	http_stream_end(rd->req);
}

static void reader_again(void *arg)
{
	struct reader *rd = arg;

	loop_job_start(rd->again);
}

/* Entries behind its place are gone. Of one project's those are all up to `upto`. */
static int send_gap(struct reader *rd, uint64_t upto)
{
	auto_call(buf_done) struct buf json = BUF_INIT(256);
	struct json_writer w;
	int r;

	json_writer_init(&w, &json);
	json_open_object(&w, NULL);
	json_put_str(&w, "type", "gap");
	json_put_u64(&w, "after", rd->walk.after);
	json_put_u64(&w, "upto", upto);
	json_close_object(&w);
	r = json_writer_end(&w);
	rd->gap_upto = upto;
	if (rd->filter.project_id)
		rd->walk.after = upto;
	return r < 0 ? r
	             : event_stream_send(rd->req, rd->format, "gap", rd->walk.after, json.data,
	                                 json.len);
}

/* The reply has reached its bound before the log's end: where to ask on. */
static int send_more(struct reader *rd)
{
	const uint64_t at = rd->walk.is_back ? rd->walk.before : rd->walk.after;
	auto_call(buf_done) struct buf json = BUF_INIT(256);
	struct json_writer w;
	int r;

	json_writer_init(&w, &json);
	json_open_object(&w, NULL);
	json_put_str(&w, "type", "more");
	json_put_u64(&w, rd->walk.is_back ? "before" : "after", at);
	json_close_object(&w);
	r = json_writer_end(&w);
	return r < 0 ? r : event_stream_send(rd->req, rd->format, "more", at, json.data, json.len);
}

static int send_line(const struct event_line *line, void *arg)
{
	struct reader *rd = arg;
	int r = event_stream_send(rd->req, rd->format, line->type, line->cursor, line->json,
	                          line->len);

	if (r < 0)
		return r;
	rd->is_quiet = false;
	rd->left--;
	return rd->left == 0 || http_stream_pending(rd->req) >= HTTP_HIGH_WATER;
}

/* 1: go on in another turn. */
static int read_some(struct reader *rd)
{
	const uint64_t removed = event_log_removed(rd->events, &rd->filter);
	struct err err;

	if (!rd->walk.is_back && rd->walk.after > 0 && rd->walk.after < removed &&
	    rd->gap_upto < removed && send_gap(rd, removed) < 0)
		return -EPIPE;
	return event_log_walk(rd->events, &rd->walk,
	                      rd->is_bounded ? SEARCHED_MAX - rd->walk.looked : UINT64_MAX,
	                      send_line, rd, &err);
}

static bool is_spent(const struct reader *rd)
{
	return rd->is_bounded && rd->walk.looked >= SEARCHED_MAX;
}

static bool pump(struct loop *loop, void *arg)
{
	struct reader *rd = arg;
	int r;

	(void)loop;
	if (rd->is_ended || http_stream_pending(rd->req) >= HTTP_HIGH_WATER)
		return true; /* on_drain goes on */
	r = read_some(rd);
	if (r < 0) {
		rd->is_ended = true;
		http_stream_abort(rd->req); /* a short body must not look whole */
	} else if (rd->left == 0 || (r == 0 && !rd->is_following) || is_spent(rd)) {
		if (r > 0 && rd->is_bounded && send_more(rd) < 0)
			rd->is_ended = true;
		else
			reader_end(rd);
	} else if (r > 0) {
		return false;
	}
	return true;
}

static void on_drain(void *arg)
{
	reader_again(arg);
}

static void on_keepalive(struct loop *loop, void *arg)
{
	struct reader *rd = arg;
	bool was_quiet = rd->is_quiet;

	(void)loop;
	rd->is_quiet = true;
	loop_timer_set_in(rd->keepalive, KEEPALIVE_US);
	if (was_quiet && !rd->is_ended && http_stream_pending(rd->req) == 0 &&
	    event_stream_keepalive(rd->req, rd->format) < 0)
		rd->is_ended = true;
}

static int send_figures(struct reader *rd)
{
	auto_call(buf_done) struct buf json = BUF_INIT(REPLY_BYTES_MAX);
	struct json_writer w;
	int r;

	json_writer_init(&w, &json);
	json_open_object(&w, NULL);
	json_put_str(&w, "type", "figures");
	json_open_object(&w, "figures");
	figures_to_json(rd->api, rd->figures_of, rd->is_host_admin, &w);
	json_close_object(&w);
	json_close_object(&w);
	r = json_writer_end(&w);
	return r < 0 ? r
	             : event_stream_send(rd->req, rd->format, "figures", rd->walk.after, json.data,
	                                 json.len);
}

static void on_figures(struct loop *loop, void *arg)
{
	struct reader *rd = arg;

	(void)loop;
	loop_timer_set_in(rd->figures, FIGURES_US);
	if (rd->is_ended || http_stream_pending(rd->req) > 0)
		return;
	if (send_figures(rd) < 0)
		rd->is_ended = true;
	rd->is_quiet = false;
}

static void reader_free(struct reader *rd)
{
	loop_job_free(rd->again);
	loop_timer_free(rd->keepalive);
	loop_timer_free(rd->figures);
	event_search_free(rd->search);
	free(rd);
}

static void on_done(void *arg)
{
	struct reader *rd = arg;

	event_watch_remove(&rd->watch);
	reader_free(rd);
}

static void reader_start(struct http_req *req, struct reader *rd)
{
	struct loop *loop = http_loop(req);

	rd->req = req;
	rd->again = loop_job_new(loop, pump, rd);
	rd->keepalive = loop_timer_new(loop, on_keepalive, rd);
	rd->figures = loop_timer_new(loop, on_figures, rd);
	rd->watch = (struct event_watch){.fn = reader_again, .arg = rd};
	if (rd->is_following) {
		event_watch_add(rd->events, &rd->watch);
		loop_timer_set_in(rd->keepalive, KEEPALIVE_US);
	}
	if (rd->has_figures)
		loop_timer_set_in(rd->figures, 0);
	http_on_drain(req, on_drain, rd);
	http_on_done(req, on_done, rd);
	event_stream_start(req, rd->format);
	if (http_req_method(req) == HTTP_HEAD)
		reader_end(rd);
	else
		reader_again(rd);
}

/* Whose entries: the caller's project's, or all. */
static int read_scope(const struct http_req *req, struct reader *rd, struct err *err)
{
	int r = wants_all_projects(req, err);

	if (r != 0)
		return MIN(r, 0);
	(void)snprintf(rd->project_id, sizeof(rd->project_id), "%s", caller_project(req));
	rd->filter.project_id = rd->project_id;
	return 0;
}

/* An id, also of one that is long gone, or the name of one that is there. */
static int read_sandbox(const struct http_req *req, struct reader *rd, struct err *err)
{
	const struct api *api = http_app_arg(req);
	const char *text = http_query(req, "sandbox_id");
	const struct sandbox *s;

	if (!text)
		return 0;
	s = sandbox_find(api->fleet, caller_project(req), text);
	if (!s && !id_is_valid(text, "sb"))
		return err_field(err, "sandbox_id", "is neither an id nor the name of a sandbox");
	(void)snprintf(rd->sandbox_id, sizeof(rd->sandbox_id), "%s", s ? sandbox_id(s) : text);
	rd->filter.sandbox_id = rd->sandbox_id;
	return 0;
}

/* A browser that comes back says where it was in Last-Event-ID. */
static int read_place(const struct http_req *req, struct reader *rd, struct err *err)
{
	const char *last = http_header(req, "Last-Event-ID");
	int r = http_query_u64(req, "after", 0, INT64_MAX, &rd->walk.after, err);

	if (r == 0)
		r = http_query_u64(req, "limit", 1, INT64_MAX, &rd->left, err);
	if (r == 0)
		r = http_query_bool(req, "follow", &rd->is_following, err);
	if (r == 0 && last && parse_u64(last, INT64_MAX, &rd->walk.after) < 0)
		r = err_field(err, "Last-Event-ID", "must be the number of an event");
	return r;
}

/* Back from the newest one, or from a cursor. */
static int read_way(const struct http_req *req, struct reader *rd, struct err *err)
{
	int r = http_query_bool(req, "newest", &rd->walk.is_back, err);

	rd->walk.before = EVENT_NEWEST;
	if (r == 0)
		r = http_query_u64(req, "before", 1, INT64_MAX, &rd->walk.before, err);
	if (r == 0 && http_query(req, "before") && !rd->walk.is_back)
		r = err_field(err, "before", "needs newest=1; without it, after is the cursor");
	return r;
}

/* What has no end must not have one asked of it. */
static int check_follows(const struct http_req *req, const struct reader *rd, struct err *err)
{
	static const char *const ends[] = {"newest", "until"};
	const bool has[] = {rd->walk.is_back, http_query(req, "until") != NULL};

	for (size_t i = 0; rd->is_following && i < ARRAY_SIZE(ends); i++)
		if (has[i])
			return err_field(err, ends[i], "cannot be with follow, which has no end");
	return 0;
}

static int read_search(const struct http_req *req, struct reader *rd, struct err *err)
{
	int r = read_event_search(req, rd->filter.project_id, &rd->search, err);

	if (r == 0)
		r = read_way(req, rd, err);
	if (r == 0)
		r = check_follows(req, rd, err);
	rd->filter.search = rd->search;
	rd->is_bounded = (rd->search || rd->walk.is_back) && !rd->is_following;
	return r;
}

static int read_figures(const struct http_req *req, struct reader *rd, struct err *err)
{
	int r = http_query_bool(req, "figures", &rd->has_figures, err);

	if (r == 0 && rd->has_figures && !rd->is_following)
		r = err_field(err, "figures", "needs follow");
	rd->figures_of = caller_project(req);
	rd->is_host_admin = is_host_admin(rd->api, http_user(req));
	return r;
}

static int read_query(const struct http_req *req, struct reader *rd, struct err *err)
{
	const char *type = http_query(req, "type");
	int r = check_accept(req, event_types, err);

	if (r == 0)
		r = read_scope(req, rd, err);
	if (r == 0)
		r = http_query_bool(req, "audit", &rd->filter.is_audit, err);
	if (r == 0)
		r = read_place(req, rd, err);
	if (r == 0)
		r = read_search(req, rd, err);
	if (r == 0)
		r = read_figures(req, rd, err);
	if (r == 0 && type)
		r = event_types_parse(type, "type", &rd->filter.types, err);
	return r == 0 ? read_sandbox(req, rd, err) : r;
}

int list_events(struct http_req *req, struct err *err)
{
	const struct api *api = http_app_arg(req);
	struct reader *rd = xnew0(struct reader);
	int r;

	rd->api = api;
	rd->events = api->events;
	rd->left = UINT64_MAX;
	rd->walk.filter = &rd->filter;
	rd->format = event_format_of(req) == EVENTS_SSE ? EVENTS_SSE : EVENTS_NDJSON;
	r = read_query(req, rd, err);
	if (r < 0) {
		reader_free(rd);
		return r;
	}
	reader_start(req, rd);
	return 0;
}
