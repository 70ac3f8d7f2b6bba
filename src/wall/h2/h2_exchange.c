// SPDX-License-Identifier: Apache-2.0
/*
 * A stream's way through. Its request is judged by itself, whatever others of the connection are
 * about, and by the policy of that moment. Its reply is written anew, and scrubbed if a rule asks
 * for that.
 */
#include "wall/h2/h2_private.h"

#include <stdio.h>
#include <string.h>

#define INTERIM_MAX 16 /* 1xx before a reply */

static bool is_up_open(const struct h2 *h)
{
	if (h->up_state == H2_UP_NONE)
		return false;
	return !h->up || nghttp2_session_check_request_allowed(h->up) != 0;
}

/* Others than s that need the connection to the server. */
static bool has_others(const struct h2_stream *s)
{
	list_for_each (&s->h->streams, struct h2_stream, other, link)
		if (other != s && (other->place == H2_WAITING || other->up_id > 0))
			return true;
	return false;
}

/* There is one connection to a server for each of a guest. If others still need it where it leads,
 * or the server wants no more on it, the guest has to connect anew, as it knows how to: what is
 * refused in this way has not been looked at. */
static void turn_away(struct h2_stream *s)
{
	struct h2 *h = s->h;

	s->is_recorded = true; /* it comes again */
	h2_stream_reset(s, NGHTTP2_REFUSED_STREAM);
	(void)nghttp2_submit_goaway(h->guest, NGHTTP2_FLAG_NONE,
	                            nghttp2_session_get_last_proc_stream_id(h->guest),
	                            NGHTTP2_NO_ERROR, NULL, 0);
}

static void begin_reach(struct h2_stream *s, const struct proxy_way *way)
{
	struct h2 *h = s->h;

	h2_up_close(h);
	h->p->decision = s->decision;
	if (proxy_reach(h->p, way, &s->request) < 0) {
		h2_stream_answer(s, 403, WALL_DENIED, "where its rule leads is closed");
		return;
	}
	h->up_state = H2_UP_REACHING;
	h->reaching = s;
}

static void send_on(struct h2_stream *s)
{
	struct proxy *p = s->h->p;
	struct proxy_way way = proxy_find_way(p, &s->request, &s->decision);

	if (!way.is_tls) {
		h2_stream_answer(s, 502, WALL_FAILED,
		                 "its rule forwards to where HTTP/2 is not spoken");
		return;
	}
	s->place = H2_WAITING;
	if (is_up_open(s->h) && proxy_is_under_way(p, &way)) {
		if (s->h->up_state == H2_UP_READY)
			h2_begin_exchange(s);
	} else if (has_others(s)) {
		turn_away(s);
	} else {
		begin_reach(s, &way);
	}
}

void h2_judge(struct h2_stream *s)
{
	const struct proxy *p = s->h->p;
	const struct policy_rule *rule;

	s->decision = proxy_judge_at(p, &s->request, NULL);
	rule = proxy_rule_of(p, &s->decision);
	if (s->decision.outcome != JUDGE_ALLOW && s->decision.outcome != JUDGE_NEED_ADDRESS)
		h2_stream_answer(s, 403, WALL_DENIED, door_why(&s->decision));
	else if (s->decision.outcome == JUDGE_ALLOW && rule && rule->action == ACTION_RESPOND)
		h2_stream_respond(s, rule);
	else
		send_on(s);
}

void h2_on_request(struct h2_stream *s, bool has_body)
{
	const struct proxy *p = s->h->p;
	const char *why = "";
	int status;

	s->wants_trailers = s->in.wants_trailers;
	if (s->in.pseudo[H2_METHOD] && strcmp(s->in.pseudo[H2_METHOD], "CONNECT") == 0) {
		h2_stream_answer(s, 405, WALL_DENIED, "this method does not pass the wall");
		return;
	}
	if (h2_head_to_request(&s->in, has_body, &s->head) < 0) {
		h2_stream_answer(s, 400, WALL_DENIED, "its request is not HTTP of one reading");
		return;
	}
	h2_head_done(&s->in);
	s->has_request = true;
	status = proxy_request_read(&s->head, &s->request, &why);
	if (status != 0)
		h2_stream_answer(s, status, WALL_DENIED, why);
	else if (p->config.refusal)
		h2_stream_answer(s, 403, WALL_DENIED, p->config.refusal);
	else
		h2_judge(s);
}

void h2_on_guest_trailers(struct h2_stream *s)
{
	auto_call(buf_done) struct buf lines = BUF_INIT(HTTP_HEAD_MAX);
	const struct policy_rule *rule = proxy_rule_of(s->h->p, &s->decision);
	struct proxy_rewrite how = {0};
	struct http_head head;

	if (s->place == H2_ANSWERED)
		return;
	if (rule && rule->action == ACTION_TRANSFORM) {
		how.set = rule->headers;
		how.n_set = rule->n_headers;
	}
	if (h2_head_to_trailers(&s->in, &head) == 0 &&
	    proxy_trailers_write(&lines, &head, &how, NULL) == 0 && lines.len > 0)
		s->to_up.trailers = h2_fields_of_trailers(&lines);
	s->out_bytes += lines.len;
	http_head_done(&head);
	h2_head_done(&s->in);
}

void h2_begin_exchange(struct h2_stream *s)
{
	auto_call(buf_done) struct buf out = BUF_INIT(4 * HTTP_HEAD_MAX);
	struct h2 *h = s->h;
	struct h2_fields *f = NULL;
	bool has_body = !s->to_up.is_over || s->to_up.bytes.len > 0 || s->to_up.trailers;

	if (!proxy_is_allowed_there(h->p, &s->request, &s->decision)) {
		h2_stream_answer(s, 403, WALL_DENIED, door_why(&s->decision));
		return;
	}
	if (proxy_send_head(h->p, &out, &s->head, &s->request, &s->decision, &s->scrub) == 0) {
		s->out_bytes += out.len;
		f = h2_fields_of_request(&out, s->wants_trailers);
	}
	if (!f) {
		h2_stream_answer(s, 400, WALL_DENIED, "its head cannot be sent on");
		return;
	}
	s->place = H2_SENT;
	s->up_id = nghttp2_submit_request(h->up, NULL, f->nv, f->n, has_body ? &h2_to_up : NULL, s);
	h2_fields_free(f);
	if (s->up_id <= 0) {
		s->up_id = 0;
		h2_stream_answer(s, 502, WALL_FAILED, "no room");
	}
}

/* Of an interim reply only its status passes, as in HTTP/1.1. */
static void pass_interim(struct h2_stream *s, int status)
{
	char text[sizeof("100")];
	nghttp2_nv nv = {
		.name = (uint8_t *)unconst(":status"),
		.value = (uint8_t *)text,
		.namelen = strlen(":status"),
		.valuelen = sizeof(text) - 1,
	};

	if (status == 101 || ++s->n_interim > INTERIM_MAX) {
		h2_stream_answer(s, 502, WALL_FAILED, "the server replied what was not asked");
		return;
	}
	(void)snprintf(text, sizeof(text), "%u", (unsigned)status % 1000);
	(void)nghttp2_submit_headers(s->h->guest, NGHTTP2_FLAG_NONE, s->guest_id, NULL, &nv, 1,
	                             NULL);
}

static void pass_reply(struct h2_stream *s, const struct http_head *head, bool has_body)
{
	auto_call(buf_done) struct buf out = BUF_INIT(4 * HTTP_HEAD_MAX);
	const struct proxy_reply_form form = {.scrub = s->scrub};
	struct h2_fields *f = NULL;

	if (proxy_response_write(&out, head, &form) == 0) {
		s->in_bytes += out.len;
		f = h2_fields_of_reply(&out);
	}
	if (!f) {
		h2_stream_answer(s, 502, WALL_FAILED, "the server's reply is too large");
		return;
	}
	s->has_reply = true;
	if (nghttp2_submit_response(s->h->guest, s->guest_id, f->nv, f->n,
	                            has_body ? &h2_to_guest : NULL) != 0)
		h2_stream_reset(s, NGHTTP2_INTERNAL_ERROR);
	h2_fields_free(f);
}

void h2_on_reply(struct h2_stream *s, bool has_body)
{
	struct http_head head;
	bool is_for_head = strcmp(s->head.method, "HEAD") == 0;
	int r = h2_head_to_reply(&s->up_in, has_body, is_for_head, &head);

	h2_head_done(&s->up_in);
	if (r < 0)
		h2_stream_answer(s, 502, WALL_FAILED,
		                 "the server's reply is not HTTP of one reading");
	else if (head.status < 200)
		pass_interim(s, head.status);
	else if (s->scrub && has_body && proxy_response_is_encoded(&head))
		h2_stream_answer(s, 502, WALL_FAILED,
		                 "the server's reply is encoded and cannot be scrubbed");
	else
		pass_reply(s, &head, has_body);
	http_head_done(&head);
}

void h2_on_reply_trailers(struct h2_stream *s)
{
	auto_call(buf_done) struct buf lines = BUF_INIT(HTTP_HEAD_MAX);
	struct http_head head;

	if (s->place != H2_SENT || s->to_guest.trailers)
		return;
	if (h2_head_to_trailers(&s->up_in, &head) == 0 &&
	    proxy_trailers_write(&lines, &head, &(struct proxy_rewrite){0}, s->scrub) == 0 &&
	    lines.len > 0)
		s->to_guest.trailers = h2_fields_of_trailers(&lines);
	s->in_bytes += lines.len;
	http_head_done(&head);
	h2_head_done(&s->up_in);
}

int h2_on_reply_body(struct h2_stream *s, const char *data, size_t len)
{
	const struct buf *told;
	int r;

	s->in_bytes += len;
	s->to_guest.n_owed += len;
	if (s->place != H2_SENT || !s->has_reply) {
		h2_stream_drop_to_guest(s);
		return 0;
	}
	if (s->scrub) {
		told = scrub_feed(s->scrub, data, len);
		r = buf_append(&s->to_guest.bytes, told->data, told->len);
	} else {
		r = buf_append(&s->to_guest.bytes, data, len);
	}
	h2_resume_guest(s);
	return r;
}

void h2_on_reply_end(struct h2_stream *s)
{
	const struct buf *told = s->scrub ? scrub_end(s->scrub) : NULL;

	if (told && told->len > 0 && buf_append(&s->to_guest.bytes, told->data, told->len) < 0) {
		h2_stream_reset(s, NGHTTP2_INTERNAL_ERROR);
		return;
	}
	s->to_guest.is_over = true;
	h2_resume_guest(s);
}

/* The server is through with it, or has cut it off. */
void h2_on_up_stream_closed(struct h2_stream *s, uint32_t code)
{
	s->up_id = 0;
	if (s->place != H2_SENT || s->to_guest.is_over)
		return;
	if (code == NGHTTP2_REFUSED_STREAM && !s->has_reply) {
		s->is_recorded = true; /* it was not looked at, and comes again */
		h2_stream_reset(s, code);
	} else if (s->has_reply) {
		h2_stream_record(s, WALL_FAILED, "the server's reply was cut short");
		h2_stream_reset(s, code != NGHTTP2_NO_ERROR ? code : NGHTTP2_INTERNAL_ERROR);
	} else {
		h2_stream_answer(s, 502, WALL_FAILED, "the server ended it without a reply");
	}
}
