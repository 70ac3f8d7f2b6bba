// SPDX-License-Identifier: Apache-2.0
/*
 * HTTP/2 through the wall, for a guest that offers nothing else in TLS, or both to a server that
 * speaks it (proxy_version.c).
 *
 *	guest --frames--> session --streams--> judge --> session --frames--> server
 *
 * libnghttp2 makes frames of bytes and bytes of frames, and does no I/O: one session for each side
 * (h2_session.c). Bytes come and go through the buffers of struct proxy. A stream at the one side
 * is one at the other. Its head is read as one of HTTP/1.1 (h2_head.c), judged and changed by the
 * same rules (h2_exchange.c), and refused by a reply of its own (h2_stream.c), so that the others
 * of the connection go on.
 *
 * A guest's connection has one connection to a server at a time:
 *
 *	none --> reaching --> meeting --> ready
 *	  +---------<------------+----------+
 *
 * What a slow reader has not taken stays within the windows: a window is opened again only as bytes
 * leave, and a session is fed only while few of its own frames wait.
 *
 * Nothing here is called by a session that could delete that session: up is closed by calls of the
 * guest's session and by h2_step(), the guest's by h2_free().
 */
#include "wall/h2/h2_private.h"

#include <string.h>

/* The most that a session gives at once is 16 KiB and a head. */
#define FRAME_ROOM ((size_t)20 * 1024)
#define QUEUE_MAX  (4 * H2_STREAMS_MAX) /* frames: some for each stream */

static const struct h2_room wide = {
	.streams = H2_STREAMS_MAX, .window = H2_WINDOW_WIDE, .heads = 512 * 1024};
static const struct h2_room narrow = {.streams = 16, .window = 65535, .heads = 64 * 1024};

struct h2 *h2_new(struct proxy *p)
{
	struct h2 *h = xnew0(struct h2);

	h->p = p;
	list_init(&h->streams);
	h->is_wide = p->config.door->n_wide_h2 < H2_WIDE_MAX;
	p->config.door->n_wide_h2 += h->is_wide;
	h->room = h->is_wide ? &wide : &narrow;
	h->guest = h2_session_new_guest(h);
	h->is_closing = !h->guest;
	return h;
}

void h2_up_close(struct h2 *h)
{
	if (h->p->reach)
		reach_cancel(take_ptr(h->p->reach));
	h->reaching = NULL;
	h->up_state = H2_UP_NONE;
	nghttp2_session_del(take_ptr(h->up));
	proxy_end_close(&h->p->up);
}

/* Every stream that needs the connection to the server has lost it. */
static void lose_up(struct h2 *h, int status, const char *why)
{
	enum wall_verdict verdict = status == 403 ? WALL_DENIED : WALL_FAILED;

	list_for_each (&h->streams, struct h2_stream, s, link) {
		bool is_there = s->up_id > 0 || s->place == H2_WAITING;

		s->up_id = 0;
		if (is_there && !s->to_guest.is_over)
			h2_stream_answer(s, status, verdict, why);
	}
	h2_up_close(h);
}

void h2_on_up_broken(struct h2 *h, const char *why)
{
	if (h->up_state == H2_UP_MEETING)
		proxy_know_h2(h->p, false);
	lose_up(h, 502, why);
}

void h2_on_reached(struct h2 *h, enum reach_result result, bool is_open)
{
	const char *why;
	int status;

	h->reaching = NULL;
	if (result != REACH_OK) {
		why = proxy_why_unreached(h->p, result, &status);
		lose_up(h, status, why);
		return;
	}
	h->up = is_open ? h2_session_new_up(h) : NULL;
	h->up_state = H2_UP_MEETING;
	if (!h->up)
		lose_up(h, 502, "no room");
}

/* The preface is out, so TLS is ready: requests follow only if the server speaks HTTP/2. */
static bool meet(struct h2 *h)
{
	if (h->up_state != H2_UP_MEETING || !h->p->up.has_written)
		return false;
	if (!secure_is_h2(&h->p->up.t)) {
		proxy_know_h2(h->p, false);
		lose_up(h, 502, "the server does not speak HTTP/2");
		return true;
	}
	h->up_state = H2_UP_READY;
	proxy_know_h2(h->p, true);
	list_for_each (&h->streams, struct h2_stream, s, link)
		if (s->place == H2_WAITING)
			h2_begin_exchange(s);
	return true;
}

/* The one that the connection was being made for has gone; another that waits begins anew. */
static void reach_anew(struct h2 *h)
{
	h2_up_close(h);
	list_for_each (&h->streams, struct h2_stream, s, link) {
		if (s->place == H2_WAITING) {
			h2_judge(s);
			return;
		}
	}
}

void h2_on_stream_gone(struct h2_stream *s)
{
	struct h2 *h = s->h;
	bool was_reaching = h->reaching == s;

	if (s->place == H2_READING)
		h2_stream_record(s, WALL_DENIED, "its request is not HTTP of one reading");
	else if (s->place == H2_SENT)
		h2_stream_record(s, WALL_ALLOWED, "");
	h2_stream_drop_to_up(s);
	h2_stream_drop_to_guest(s);
	h2_stream_leave_up(s, NGHTTP2_CANCEL);
	h2_stream_free(s);
	if (was_reaching)
		reach_anew(h);
}

/* Gives the session what has come, unless its own frames pile up. That the other end does not read
 * is no reason to leave it unread: it may be waiting for just that. */
static bool feed(nghttp2_session *session, struct end *e, bool *ret_is_broken)
{
	ssize_t n;

	*ret_is_broken = false;
	if (!session || e->in.len == 0 ||
	    nghttp2_session_get_outbound_queue_size(session) > QUEUE_MAX)
		return false;
	n = nghttp2_session_mem_recv(session, (const uint8_t *)e->in.data, e->in.len);
	if (n < 0) {
		*ret_is_broken = true;
		return true;
	}
	buf_consume(&e->in, (size_t)n);
	return n > 0;
}

static bool drain(nghttp2_session *session, struct end *e)
{
	bool has_moved = false;
	const uint8_t *data;
	ssize_t n;

	while (session && buf_room(&e->out) >= FRAME_ROOM) {
		n = nghttp2_session_mem_send(session, &data);
		if (n <= 0 || buf_append(&e->out, data, (size_t)n) < 0)
			break;
		has_moved = true;
	}
	return has_moved;
}

static bool step_up(struct h2 *h)
{
	struct end *e = &h->p->up;
	bool is_broken, has_moved = meet(h);

	has_moved |= feed(h->up, e, &is_broken);
	if (is_broken) {
		lose_up(h, 502, "the server's frames are not HTTP/2");
		return true;
	}
	has_moved |= drain(h->up, e);
	if (h->up && ((e->is_eof && e->in.len == 0) ||
	              (nghttp2_session_want_read(h->up) == 0 &&
	               nghttp2_session_want_write(h->up) == 0 && e->out.len == 0))) {
		lose_up(h, 502, "the server closed without a reply");
		return true;
	}
	return has_moved;
}

static void leave(struct h2 *h)
{
	(void)drain(h->guest, &h->p->guest);
	h2_end(h);
	h2_up_close(h);
	proxy_move(h->p, CLOSING, CLOSING_US);
}

bool h2_step(struct h2 *h)
{
	struct proxy *p = h->p;
	bool is_broken, has_moved = feed(h->guest, &p->guest, &is_broken);

	if (is_broken)
		(void)nghttp2_session_terminate_session(h->guest, NGHTTP2_ENHANCE_YOUR_CALM);
	if (is_broken || !h->guest) {
		leave(h);
		return true;
	}
	has_moved |= step_up(h);
	has_moved |= drain(h->guest, &p->guest);
	if (p->guest.is_eof && p->guest.in.len == 0) {
		proxy_finish(p);
		return false;
	}
	if (!has_moved && (h->is_closing || nghttp2_session_want_read(h->guest) == 0) &&
	    nghttp2_session_want_write(h->guest) == 0) {
		leave(h);
		return true;
	}
	return has_moved;
}

/* A reply that has begun may be one that watches for something: it has the time of a WebSocket. */
uint64_t h2_patience_us(const struct h2 *h)
{
	list_for_each (&h->streams, struct h2_stream, s, link)
		if (s->place == H2_SENT && s->has_reply)
			return TUNNEL_US;
	return list_empty(&h->streams) ? READING_US : EXCHANGE_US;
}

void h2_on_patience_end(struct h2 *h)
{
	list_for_each (&h->streams, struct h2_stream, s, link)
		h2_stream_answer(s, 502, WALL_FAILED, "nothing was said for too long");
	(void)nghttp2_session_terminate_session(h->guest, NGHTTP2_NO_ERROR);
	leave(h);
}

bool h2_is_still_allowed(struct h2 *h)
{
	bool has_up = false;

	list_for_each (&h->streams, struct h2_stream, s, link) {
		bool is_allowed;

		if (s->place != H2_WAITING && s->place != H2_SENT)
			continue;
		if (s->up_id > 0) {
			is_allowed = proxy_is_allowed_there(h->p, &s->request, &s->decision);
		} else {
			s->decision = proxy_judge_at(h->p, &s->request, NULL);
			is_allowed = s->decision.outcome == JUDGE_ALLOW ||
			             s->decision.outcome == JUDGE_NEED_ADDRESS;
		}
		if (is_allowed)
			has_up = true;
		else
			h2_stream_answer(s, 403, WALL_DENIED, "the policy was changed");
	}
	if (!has_up)
		h2_up_close(h); /* its host may be denied now; the next request asks */
	else if (h->reaching && h->reaching->place != H2_WAITING)
		reach_anew(h);
	proxy_wake(h->p);
	return true;
}

void h2_end(struct h2 *h)
{
	if (!h)
		return;
	list_for_each (&h->streams, struct h2_stream, s, link)
		if (s->place == H2_SENT)
			h2_stream_record(s, WALL_ALLOWED, "");
	h->p->config.door->n_wide_h2 -= h->is_wide;
	h->is_wide = false;
}

void h2_free(struct h2 *h)
{
	struct h2_stream *s;

	if (!h)
		return;
	while ((s = list_first(&h->streams, struct h2_stream, link)))
		h2_stream_free(s);
	nghttp2_session_del(h->guest);
	nghttp2_session_del(h->up);
	free(h);
}
