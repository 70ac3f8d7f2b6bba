// SPDX-License-Identifier: Apache-2.0
/*
 * Each side is read only while the other accepts the bytes: at most OUT_MAX bytes wait for the
 * server and HTTP_HIGH_WATER for the client. Whichever ends first ends the rest. Heads are read
 * strictly and written anew by the owner, bodies are decoded and framed anew, and only after 101 do
 * bytes go as they are.
 */
#include "http/relay/relay.h"

#include "base/fd.h"

#include <sys/epoll.h>
#include <sys/socket.h>

#define OUT_MAX      ((size_t)256 * 1024)
#define OUT_CAP      (OUT_MAX + HTTP_HEAD_MAX + (size_t)128 * 1024) /* and one stretch of a body */
#define READ_SIZE    ((size_t)64 * 1024)
#define INTERIMS_MAX 8 /* answers before the answer */

static void watch(struct relay *r)
{
	uint32_t events = 0;

	if (!r->io)
		return;
	if (!r->has_met_end && !r->is_over && http_stream_pending(r->req) < HTTP_HIGH_WATER)
		events |= EPOLLIN;
	if (r->out.len > 0)
		events |= EPOLLOUT;
	loop_io_set(r->io, events);
}

static void leave_stream(struct relay *r)
{
	loop_io_removep(&r->io);
	close_fd(&r->fd);
}

static void fail(struct relay *r, enum relay_fault fault)
{
	if (!r->is_over)
		r->ops->failed(fault, r->arg);
}

bool relay_abandon(struct relay *r)
{
	if (r->is_over)
		return false;
	r->is_over = true;
	leave_stream(r);
	if (!http_has_replied(r->req))
		return true;
	http_stream_abort(r->req);
	return false;
}

static void on_body(struct http_req *req, const char *data, size_t len, void *arg);

static void end_reply(struct relay *r)
{
	bool is_reusable = r->ops->keep && r->has_head && !r->is_tunnel && r->head.keep_alive &&
	                   r->in.len == 0 && r->out.len == 0 && r->has_sent_all && !r->has_met_end;

	r->is_over = true;
	if (is_reusable) {
		loop_io_removep(&r->io);
		r->ops->keep(take_fd(&r->fd), r->arg);
	}
	http_stream_end(r->req);
}

static void begin_head(struct relay *r)
{
	http_head_done(&r->head);
	http_head_init(&r->head, HTTP_RESPONSE);
	r->head.is_head_reply = http_req_method(r->req) == HTTP_HEAD;
}

static int64_t reply_length(const struct relay *r)
{
	switch (r->head.framing) {
	case HTTP_LENGTH:
		return (int64_t)MIN(r->head.length, (uint64_t)INT64_MAX);
	case HTTP_NO_BODY:
		return r->head.is_head_reply ? -1 : 0;
	case HTTP_CHUNKED:
	case HTTP_UNTIL_CLOSE:
		break;
	}
	return -1;
}

static void count(struct relay *r, size_t out, size_t in)
{
	if (r->ops->moved)
		r->ops->moved(out, in, r->arg);
}

static void transmit(struct relay *r)
{
	while (r->out.len > 0) {
		ssize_t n = send(r->fd, r->out.data, r->out.len, MSG_NOSIGNAL | MSG_DONTWAIT);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			break;
		if (n < 0) { /* it may have answered before it closed: reading tells */
			buf_consume(&r->out, r->out.len);
			break;
		}
		r->moved_us = loop_now_us(r->loop);
		count(r, (size_t)n, 0);
		buf_consume(&r->out, (size_t)n);
	}
	if (r->out.len == 0)
		buf_done(&r->out);
	if (r->is_tunnel)
		http_body_pause(r->req, r->out.len > 0);
	else if (r->out.len < OUT_MAX / 2)
		http_body_pause(r->req, false);
}

/* From the client, after 101. It is read only while nothing waits, so that what a client sent
 * before it left has been passed on. */
static void on_tunnel_data(struct http_req *req, struct buf *in)
{
	struct relay *r = http_tunnel_arg(req);
	size_t n = MIN(in->len, buf_room(&r->out));

	if (r->is_over) {
		buf_consume(in, in->len);
		return;
	}
	if (n > 0 && buf_append(&r->out, in->data, n) == 0)
		buf_consume(in, n);
	transmit(r);
	watch(r);
}

static void on_tunnel_drain(struct http_req *req)
{
	watch(http_tunnel_arg(req));
}

static void on_tunnel_gone(struct http_req *req)
{
	(void)req; /* on_done() follows */
}

static void start_tunnel(struct relay *r)
{
	static const struct http_tunnel_ops ops = {on_tunnel_data, on_tunnel_drain, on_tunnel_gone};

	r->is_tunnel = true;
	r->ops->put_reply(&r->head, r->arg);
	http_stream_start(r->req, 101, NULL, -1);
	http_tunnel(r->req, &ops, r);
	http_tunnel_outlasts_client(r->req);
}

static void start_reply(struct relay *r)
{
	r->ops->put_reply(&r->head, r->arg);
	http_decoder_init(&r->decoder, r->head.framing, r->head.length);
	http_stream_start(r->req, r->head.status, NULL, reply_length(r));
}

/* 1: go on, 0: more bytes are needed, < 0: failed. */
static int take_head(struct relay *r)
{
	struct err err;
	int result = http_head_read(&r->head, &r->in, &err);
	const bool is_tunnel = r->head.status == 101,
		   is_interim = r->head.status < 200 && !is_tunnel;

	if (result == 0)
		return 0;
	if (result < 0 || (is_interim && ++r->n_interims > INTERIMS_MAX)) {
		fail(r, RELAY_NO_HTTP);
		return -EPROTO;
	}
	if (is_tunnel && !http_req_head(r->req)->is_upgrade) {
		fail(r, RELAY_UNASKED);
		return -EPROTO;
	}
	if (r->head.framing == HTTP_UNTIL_CLOSE && !r->ops->takes_until_close) {
		fail(r, RELAY_NO_HTTP);
		return -EPROTO;
	}
	if (is_interim) {
		if (r->head.status == 100 && r->holds_body && !r->has_sent_all)
			http_on_body(r->req, on_body, r);
		begin_head(r);
		return 1;
	}
	if (r->ops->turned_away && r->ops->turned_away(&r->head, r->arg))
		return -ESTALE;
	r->has_head = true;
	if (is_tunnel)
		start_tunnel(r);
	else
		start_reply(r);
	return 1;
}

static int take_body(struct relay *r)
{
	const char *data;
	size_t len;
	int result = http_decode(&r->decoder, &r->in, &data, &len);

	if (result == HTTP_DECODE_MORE)
		return 0;
	if (result == HTTP_DECODE_END) {
		end_reply(r);
		return 0;
	}
	if (result < 0) {
		fail(r, RELAY_BAD_BODY);
		return result;
	}
	return http_stream_write(r->req, data, len) < 0 ? -EPIPE : 1;
}

static int take_raw(struct relay *r)
{
	if (r->in.len == 0)
		return 0;
	if (http_stream_write(r->req, r->in.data, r->in.len) < 0)
		return -EPIPE;
	buf_consume(&r->in, r->in.len);
	return 0;
}

static void handle_input(struct relay *r)
{
	int result = 1;

	while (result > 0 && !r->is_over)
		result = !r->has_head ? take_head(r) : r->is_tunnel ? take_raw(r) : take_body(r);
}

static bool again(struct relay *r)
{
	return r->ops->again && !r->has_answer && !r->has_body && r->ops->again(r->arg);
}

static void on_server_end(struct relay *r)
{
	r->has_met_end = true;
	if (r->is_over || again(r))
		return;
	if (r->is_tunnel)
		end_reply(r);
	else if (!r->has_head)
		fail(r, RELAY_NO_ANSWER);
	else if (http_decode_eof(&r->decoder) == 0)
		end_reply(r);
	else
		fail(r, RELAY_CUT_SHORT);
}

static void receive(struct relay *r)
{
	char *room;
	ssize_t n;

	if (r->is_over || http_stream_pending(r->req) >= HTTP_HIGH_WATER)
		return;
	if (buf_reserve(&r->in, READ_SIZE, &room) < 0) {
		fail(r, RELAY_HEAD_ENDLESS);
		return;
	}
	n = recv(r->fd, room, READ_SIZE, MSG_DONTWAIT);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0) {
		on_server_end(r);
		return;
	}
	r->has_answer = true;
	buf_commit(&r->in, (size_t)n);
	count(r, 0, (size_t)n);
	handle_input(r);
	if (r->in.len == 0)
		buf_done(&r->in); /* a WebSocket may say nothing for hours */
}

static void on_io(struct loop *loop, uint32_t events, void *arg)
{
	struct relay *r = arg;

	(void)loop;
	if (events & EPOLLOUT)
		transmit(r);
	if (events & (EPOLLIN | EPOLLHUP | EPOLLERR))
		receive(r);
	watch(r);
}

static void on_body(struct http_req *req, const char *data, size_t len, void *arg)
{
	struct relay *r = arg;
	bool is_chunked = http_req_head(req)->framing == HTTP_CHUNKED;
	int result;

	if (r->is_over)
		return;
	r->has_body = true;
	if (!data) {
		result = is_chunked ? http_encode_last_chunk(&r->out) : 0;
		r->has_sent_all = true;
	} else {
		result = is_chunked ? http_encode_chunk(&r->out, data, len)
		                    : buf_append(&r->out, data, len);
	}
	if (result < 0) {
		fail(r, RELAY_BODY_TOO_FAST);
		return;
	}
	if (r->out.len >= OUT_MAX)
		http_body_pause(req, true);
	if (r->io) {
		transmit(r);
		watch(r);
	}
}

static void on_drain(void *arg)
{
	watch(arg);
}

void relay_init(struct relay *r, struct http_req *req, const struct relay_ops *ops, void *arg)
{
	*r = (struct relay){.ops = ops,
	                    .arg = arg,
	                    .req = req,
	                    .loop = http_loop(req),
	                    .fd = -1,
	                    .in = BUF_INIT(READ_SIZE + HTTP_HEAD_MAX),
	                    .out = BUF_INIT(OUT_CAP)};
	begin_head(r);
}

void relay_body_is_read(struct relay *r, size_t len)
{
	r->has_body = true;
	buf_done(&r->out);
	buf_init(&r->out, OUT_CAP + len);
}

void relay_hold_body(struct relay *r)
{
	r->holds_body = true;
}

int relay_begin(struct relay *r)
{
	leave_stream(r);
	buf_consume(&r->out, r->out.len);
	r->has_met_end = false;
	return r->ops->put_request(&r->out, r->arg);
}

void relay_use(struct relay *r, int fd)
{
	r->fd = fd;
	r->moved_us = loop_now_us(r->loop);
	http_on_drain(r->req, on_drain, r);
	if (loop_io_add(r->loop, fd, EPOLLIN | EPOLLOUT, on_io, r, &r->io) < 0) {
		fail(r, RELAY_UNWATCHED);
		return;
	}
	transmit(r);
	watch(r);
	if (r->has_body || http_req_head(r->req)->framing == HTTP_NO_BODY)
		r->has_sent_all = true;
	else if (!r->holds_body)
		http_on_body(r->req, on_body, r);
}

bool relay_is_stuck(const struct relay *r, uint64_t for_us)
{
	return r->io && r->out.len > 0 && loop_now_us(r->loop) > r->moved_us + for_us;
}

void relay_stop(struct relay *r)
{
	r->is_over = true;
	leave_stream(r);
}

void relay_done(struct relay *r)
{
	http_head_done(&r->head);
	buf_done(&r->in);
	buf_done(&r->out);
}
