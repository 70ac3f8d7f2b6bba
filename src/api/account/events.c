// SPDX-License-Identifier: Apache-2.0
/*
 * The event log for those who may read it: a key sees its own project's entries by their numbers
 * there, an admin of the project "default" those of all with ?all=1 by their places. Entries go out
 * as the lines that their hashes are over (event/verify.h), so that what was read is an export, and
 * can be checked.
 *
 * A reader has a place in the log and nothing else: it reads on when the client has taken what was
 * sent, a bounded stretch a turn. One that follows is told when there is more. If its place was
 * removed meanwhile, it gets a gap and goes on behind it. A client that follows may also get the
 * figures of its sandboxes, again and again. So one connection tells a page all that changes. A
 * slow client gets fewer figures.
 */
#include "api/frame/find.h"
#include "api/frame/reply.h"
#include "api/handlers.h"
#include "api/operate/figures.h"

#include "base/clock.h"
#include "base/parse.h"
#include "base/units.h"
#include "event/statement.h"
#include "http/stream.h"

#include <stdio.h>
#include <string.h>

#define FIGURES_US   UINT64_C(2500000) /* past the age at which a look has them read anew */
#define KEEPALIVE_US (15 * SECOND_US)  /* proxies commonly cut after 30 to 60 s */

struct reader {
	struct http_req *req;
	struct event_log *events;
	struct event_watch watch;
	struct event_filter filter;
	char project_id[ID_SIZE], sandbox_id[ID_SIZE]; /* what the filter points to */
	enum event_format format;
	uint64_t after;    /* a number of the project, or a place */
	uint64_t gap_upto; /* that was told */
	uint64_t left;     /* entries still to send */
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
	json_put_u64(&w, "after", rd->after);
	json_put_u64(&w, "upto", upto);
	json_close_object(&w);
	r = json_writer_end(&w);
	rd->gap_upto = upto;
	if (rd->filter.project_id)
		rd->after = upto;
	return r < 0 ? r
	             : event_stream_send(rd->req, rd->format, "gap", rd->after, json.data,
	                                 json.len);
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

	if (rd->after > 0 && rd->after < removed && rd->gap_upto < removed &&
	    send_gap(rd, removed) < 0)
		return -EPIPE;
	return event_log_read(rd->events, &rd->filter, &rd->after, send_line, rd, &err);
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
	} else if (rd->left == 0 || (r == 0 && !rd->is_following)) {
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
	             : event_stream_send(rd->req, rd->format, "figures", rd->after, json.data,
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

static void on_done(void *arg)
{
	struct reader *rd = arg;

	event_watch_remove(&rd->watch);
	loop_job_free(rd->again);
	loop_timer_free(rd->keepalive);
	loop_timer_free(rd->figures);
	free(rd);
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

/* 1: the caller asks for what is the whole host's, and may. */
static int read_all(const struct http_req *req, struct err *err)
{
	const struct key *key = http_user(req);
	bool wants_all = false;
	int r = http_query_bool(req, "all", &wants_all, err);

	if (r < 0 || !wants_all)
		return r;
	if (key_scope(key) != SCOPE_ADMIN)
		return err_set(err, ERR_FORBIDDEN, 0, "all: needs a key with scope 'admin'");
	r = check_is_default(req, err);
	return r < 0 ? r : 1;
}

/* Whose entries: the caller's project's, or all. */
static int read_scope(const struct http_req *req, struct reader *rd, struct err *err)
{
	int r = read_all(req, err);

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
	int r = http_query_u64(req, "after", 0, INT64_MAX, &rd->after, err);

	if (r == 0)
		r = http_query_u64(req, "limit", 1, INT64_MAX, &rd->left, err);
	if (r == 0)
		r = http_query_bool(req, "follow", &rd->is_following, err);
	if (r == 0 && last && parse_u64(last, INT64_MAX, &rd->after) < 0)
		r = err_field(err, "Last-Event-ID", "must be the number of an event");
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
	rd->format = event_format_of(req) == EVENTS_SSE ? EVENTS_SSE : EVENTS_NDJSON;
	r = read_query(req, rd, err);
	if (r < 0) {
		free(rd);
		return r;
	}
	reader_start(req, rd);
	return 0;
}

static void put_project_chain(const struct event_chain_status *chain, void *arg)
{
	struct json_writer *w = arg;

	json_open_object(w, NULL);
	json_put_str(w, "project_id", chain->project_id[0] ? chain->project_id : NULL);
	json_put_bool(w, "audit", chain->is_audit);
	statement_put_chain(w, chain);
	json_close_object(w);
}

/* Of all chains, and where the order of all entries begins and ends. */
static void put_all(struct json_writer *w, const struct event_log *events)
{
	struct event_chain_status former;
	struct event_status status;

	event_log_status(events, &status);
	json_put_u64(w, "place", status.place);
	json_put_u64(w, "removed_place", event_log_removed(events, &(struct event_filter){0}));
	json_put_u64(w, "count", status.count);
	json_open_array(w, "chains");
	event_log_each_chain(events, put_project_chain, w);
	json_close_array(w);
	if (!event_log_former(events, &former)) {
		json_put_null(w, "former");
		return;
	}
	json_open_object(w, "former");
	statement_put_chain(w, &former);
	json_close_object(w);
}

int get_events_head(struct http_req *req, struct err *err)
{
	const struct api *api = http_app_arg(req);
	struct event_chain_status chain;
	struct reply reply;
	struct json_writer *w;
	bool is_audit = false, is_all;
	int r = read_all(req, err);

	is_all = r > 0;
	if (r >= 0)
		r = http_query_bool(req, "audit", &is_audit, err);
	if (r < 0)
		return r;
	w = reply_begin(&reply);
	if (is_all) {
		put_all(w, api->events);
	} else {
		event_log_chain(api->events, caller_project(req), is_audit, &chain);
		statement_put_chain(w, &chain);
	}
	return reply_send(&reply, req, 200, err);
}

struct seal_writer {
	const struct api *api;
	struct json_writer *w;
	int error;
};

static void put_seal(struct seal_writer *s, const struct event_chain_status *chain, bool is_former)
{
	const struct statement statement = {
		.chain = chain, .is_former = is_former, .at_us = clock_wall_us()};
	int r = statement_seal(s->w, &statement, s->api->seal_key);

	if (r < 0)
		s->error = r;
}

static void put_chain_seal(const struct event_chain_status *chain, void *arg)
{
	put_seal(arg, chain, /* is_former= */ false);
}

static void put_seals(struct seal_writer *s, const char *project_id)
{
	struct event_chain_status chain;

	if (project_id) {
		for (int is_audit = 0; is_audit < 2; is_audit++) {
			event_log_chain(s->api->events, project_id, is_audit != 0, &chain);
			(void)snprintf(chain.project_id, sizeof(chain.project_id), "%s",
			               project_id);
			chain.is_audit = is_audit != 0;
			put_seal(s, &chain, /* is_former= */ false);
		}
		return;
	}
	event_log_each_chain(s->api->events, put_chain_seal, s);
	if (event_log_former(s->api->events, &chain))
		put_seal(s, &chain, /* is_former= */ true);
}

int get_event_seals(struct http_req *req, struct err *err)
{
	const struct api *api = http_app_arg(req);
	struct reply reply;
	struct seal_writer s = {.api = api};
	int r = read_all(req, err);

	if (r < 0)
		return r;
	s.w = reply_begin(&reply);
	json_put_str(s.w, "key", seal_key_public(api->seal_key));
	json_open_array(s.w, "seals");
	put_seals(&s, r > 0 ? NULL : caller_project(req));
	json_close_array(s.w);
	if (s.error < 0) {
		buf_done(&reply.body);
		return err_set(err, ERR_INTERNAL, -s.error, "the log cannot be sealed");
	}
	return reply_send(&reply, req, 200, err);
}
