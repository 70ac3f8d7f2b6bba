// SPDX-License-Identifier: Apache-2.0
/* A connection's states: which may follow which, and what is done in each with bytes that came. */
#include "base/log.h"
#include "http/conn.h"

#include <assert.h>

#define DROPPED_MAX  ((size_t)256 * 1024)       /* of an unwanted body, before we close */
#define LINGERED_MAX ((size_t)64 * 1024 * 1024) /* then, before we reset the connection */

/* clang-format off */
static const struct {
	const char *name;
	unsigned next;
} states[] = {
	[CONN_IDLE]     = {"idle",     BIT(CONN_HEAD) | BIT(CONN_DEAD)},
	[CONN_HEAD]     = {"head",     BIT(CONN_REQUEST) | BIT(CONN_DEAD)},
	[CONN_REQUEST]  = {"request",  BIT(CONN_IDLE) | BIT(CONN_DRAIN) | BIT(CONN_UPGRADED) |
	                               BIT(CONN_CLOSING) | BIT(CONN_DEAD)},
	[CONN_DRAIN]    = {"drain",    BIT(CONN_IDLE) | BIT(CONN_CLOSING) | BIT(CONN_DEAD)},
	[CONN_UPGRADED] = {"upgraded", BIT(CONN_CLOSING) | BIT(CONN_DEAD)},
	[CONN_CLOSING]  = {"closing",  BIT(CONN_LINGER) | BIT(CONN_DEAD)},
	[CONN_LINGER]   = {"linger",   BIT(CONN_DEAD)},
	[CONN_DEAD]     = {"dead",     0},
};
/* clang-format on */
static_assert(ARRAY_SIZE(states) == CONN_STATE_COUNT, "a state has no row");

void conn_move(struct conn *c, enum conn_state next)
{
	assert(states[c->state].next & BIT(next));
	log_debug("http.conn", "fd=%d from=%s to=%s", c->transport.fd, states[c->state].name,
	          states[next].name);
	c->state = next;
	c->since_us = loop_now_us(c->loop);
	list_remove(&c->idle_link);
	if (next == CONN_IDLE)
		server_conn_idle(c->server, c);
}

bool conn_wants_read(const struct conn *c)
{
	switch (c->state) {
	case CONN_IDLE:
	case CONN_HEAD:
	case CONN_DRAIN:
	case CONN_LINGER:
		return true;
	case CONN_REQUEST:
		return c->req->takes_body && !c->req->is_body_paused && !c->req->has_body_ended &&
		       c->req->reply != REPLY_ENDED;
	case CONN_UPGRADED:
		return !c->req->is_body_paused && c->out.len < HTTP_HIGH_WATER &&
		       buf_room(&c->in) > 0;
	case CONN_CLOSING:
	case CONN_DEAD:
	case CONN_STATE_COUNT:
		break;
	}
	return false;
}

static bool step_head(struct conn *c)
{
	struct err err = {0};
	int r;

	if (c->in.len == 0)
		return false;
	if (c->state == CONN_IDLE) {
		c->req = request_new(c);
		conn_move(c, CONN_HEAD);
	}
	r = http_head_read(&c->req->head, &c->in, &err);
	if (r == 0)
		return false;
	conn_move(c, CONN_REQUEST);
	if (r < 0) {
		http_decoder_init(&c->decoder, HTTP_NO_BODY, 0);
		reply_err_and_close(c->req, &err);
		return true;
	}
	c->must_close = !c->req->head.keep_alive;
	http_decoder_init(&c->decoder, c->req->head.framing, c->req->head.length);
	router_dispatch(c->req);
	return true;
}

/* Called when the reply has gone out. */
static void finish_request(struct conn *c)
{
	request_end(c->req, /* whole= */ true);
	request_free(take_ptr(c->req));
	c->has_served = true;
	c->awaits_drain = false;
	c->ignores_hangup = false;
	c->dropped_bytes = 0;
	if (c->must_close || server_is_draining(c->server)) {
		conn_move(c, CONN_CLOSING);
	} else if (!http_decoder_is_done(&c->decoder)) {
		conn_move(c, CONN_DRAIN);
	} else {
		conn_move(c, CONN_IDLE);
		/* Thousands of connections may be idle, so they hold no empty buffers. */
		if (c->in.len == 0)
			buf_done(&c->in);
		buf_done(&c->out);
	}
}

static bool step_body(struct conn *c)
{
	struct http_req *req = c->req;
	const char *data = NULL;
	size_t len = 0;
	int r;

	if (!conn_wants_read(c))
		return false;
	r = http_decode(&c->decoder, &c->in, &data, &len);
	if (r == HTTP_DECODE_MORE)
		return false;
	if (r < 0) {
		struct err err = {0};

		(void)err_set(&err, ERR_BAD_REQUEST, 0, "the body's chunks are malformed");
		conn_refuse(c, &err);
		return true;
	}
	req->body_seen += len;
	if (r == HTTP_DECODE_END)
		req->has_body_ended = true;
	router_body(req, r == HTTP_DECODE_END ? NULL : data, len);
	return true;
}

static bool step_request(struct conn *c)
{
	if (c->req->upgrade) {
		conn_move(c, CONN_UPGRADED);
		return true;
	}
	if (c->req->reply == REPLY_ENDED && c->out.len == 0) {
		finish_request(c);
		return true;
	}
	return step_body(c);
}

static bool step_drain(struct conn *c)
{
	const char *data;
	size_t len = 0;
	int r = http_decode(&c->decoder, &c->in, &data, &len);

	c->dropped_bytes += len;
	if (r == HTTP_DECODE_MORE)
		return false;
	if (r == HTTP_DECODE_END)
		conn_move(c, server_is_draining(c->server) ? CONN_CLOSING : CONN_IDLE);
	else if (r < 0 || c->dropped_bytes > DROPPED_MAX)
		conn_move(c, CONN_CLOSING);
	return true;
}

static bool step_upgraded(struct conn *c)
{
	size_t before = c->in.len;

	if (c->req->reply == REPLY_ENDED && c->out.len == 0) {
		request_end(c->req, /* whole= */ true);
		request_free(take_ptr(c->req));
		conn_move(c, CONN_CLOSING);
		return true;
	}
	if (c->out.len == 0)
		buf_done(&c->out); /* it may be silent for long */
	if (before == 0 || c->req->is_body_paused || c->out.len >= HTTP_HIGH_WATER)
		return false;
	c->req->upgrade->on_data(c->req, &c->in);
	if (c->in.len == before)
		return false;
	if (c->in.len == 0)
		buf_done(&c->in);
	return true;
}

static bool step_closing(struct conn *c)
{
	if (c->out.len > 0)
		return false;
	transport_shutdown(&c->transport);
	conn_move(c, CONN_LINGER);
	return true;
}

static bool step_linger(struct conn *c)
{
	c->dropped_bytes += c->in.len;
	buf_consume(&c->in, c->in.len);
	if (c->dropped_bytes > LINGERED_MAX)
		c->is_aborted = true;
	return c->is_aborted;
}

bool conn_step(struct conn *c)
{
	switch (c->state) {
	case CONN_IDLE:
	case CONN_HEAD:
		return step_head(c);
	case CONN_REQUEST:
		return step_request(c);
	case CONN_DRAIN:
		return step_drain(c);
	case CONN_UPGRADED:
		return step_upgraded(c);
	case CONN_CLOSING:
		return step_closing(c);
	case CONN_LINGER:
		return step_linger(c);
	case CONN_DEAD:
	case CONN_STATE_COUNT:
		break;
	}
	return false;
}
