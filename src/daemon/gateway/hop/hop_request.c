// SPDX-License-Identifier: Apache-2.0
/*
 * One request to a peer.
 *
 *	stream asked for --> head sent, body follows --> head of the answer --> its body --> end
 *	     ^                                                   +--> 101: bytes as they are
 *	     +-- a kept stream was dead, and nothing is lost by sending it again
 *
 * Each side is read only while the other accepts the bytes: at most OUT_MAX bytes wait for the peer
 * and HTTP_HIGH_WATER for the client. Whichever ends first ends the rest; everything is freed in
 * one place, the request's on_done.
 */
#include "base/fd.h"
#include "base/list.h"
#include "base/log.h"
#include "base/parse.h"
#include "base/units.h"
#include "daemon/gateway/hop/hop_heads.h"
#include "daemon/gateway/hop/hop_private.h"

#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#define OUT_MAX      ((size_t)256 * 1024)
#define OUT_CAP      (OUT_MAX + HTTP_HEAD_MAX + (size_t)128 * 1024) /* and one stretch of a body */
#define READ_SIZE    ((size_t)64 * 1024)
#define INTERIMS_MAX 8                /* answers before the answer */
#define STALL_US     (60 * SECOND_US) /* for a peer to take what waits for it */

struct hop_request {
	struct list link;
	struct hops *hops;
	struct http_req *req;
	struct loop *loop;
	struct route route;
	struct route_facts facts;
	uint32_t node;
	int fd;
	struct loop_io *io;
	struct buf in, out;
	struct http_head head; /* of the answer */
	struct http_decoder decoder;
	uint64_t moved_us; /* when the peer last took something */
	unsigned n_interims;
	bool is_kept;    /* the stream was used before */
	bool is_opening; /* the member was asked for a stream */
	bool has_body;   /* of the request: some of it was taken from the client */
	bool has_sent_all;
	bool has_answer; /* any byte of it */
	bool has_head, is_tunnel;
	bool is_over; /* the answer has ended, one way or another */
	bool has_met_end;
};

static void on_stream(const struct cluster_reply *reply, void *arg);

static void watch(struct hop_request *p)
{
	uint32_t events = 0;

	if (!p->io)
		return;
	if (!p->has_met_end && !p->is_over && http_stream_pending(p->req) < HTTP_HIGH_WATER)
		events |= EPOLLIN;
	if (p->out.len > 0)
		events |= EPOLLOUT;
	loop_io_set(p->io, events);
}

static void leave_stream(struct hop_request *p)
{
	loop_io_removep(&p->io);
	close_fd(&p->fd);
}

static void fail(struct hop_request *p, const char *why)
{
	struct err err;

	if (p->is_over)
		return;
	p->is_over = true;
	leave_stream(p);
	log_info("gateway.hop_failed", "request=%s node=%u why='%s'", http_request_id(p->req),
	         p->node, why);
	if (http_has_replied(p->req)) {
		http_stream_abort(p->req);
		return;
	}
	hop_refuse_unreachable(&err, p->hops, p->node, why);
	http_reply_err(p->req, &err);
}

static void end_reply(struct hop_request *p)
{
	bool is_reusable = p->has_head && !p->is_tunnel && p->head.keep_alive && p->in.len == 0 &&
	                   p->out.len == 0 && p->has_sent_all && !p->has_met_end;

	p->is_over = true;
	if (is_reusable) {
		loop_io_removep(&p->io);
		hop_streams_keep(&p->hops->streams, p->node, take_fd(&p->fd));
	}
	http_stream_end(p->req);
}

static void begin_head(struct hop_request *p)
{
	http_head_done(&p->head);
	http_head_init(&p->head, HTTP_RESPONSE);
	p->head.is_head_reply = http_req_method(p->req) == HTTP_HEAD;
}

static void ask_stream(struct hop_request *p)
{
	p->is_kept = false;
	p->is_opening = true;
	cluster_link_open(p->hops->config.link, p->node, on_stream, p);
}

static bool is_idempotent(enum http_method method)
{
	return method != HTTP_POST && method != HTTP_PATCH && method != HTTP_METHOD_COUNT;
}

/* A kept stream was found dead. The peer may have seen the request, or not. */
static bool again(struct hop_request *p)
{
	if (!p->is_kept || p->has_answer || p->has_body || !is_idempotent(http_req_method(p->req)))
		return false;
	leave_stream(p);
	buf_consume(&p->out, p->out.len);
	p->has_met_end = false;
	if (hop_heads_request(p->req, &p->out) < 0)
		return false;
	ask_stream(p);
	return true;
}

static int64_t reply_length(const struct hop_request *p)
{
	switch (p->head.framing) {
	case HTTP_LENGTH:
		return (int64_t)MIN(p->head.length, (uint64_t)INT64_MAX);
	case HTTP_NO_BODY:
		return p->head.is_head_reply ? -1 : 0;
	case HTTP_CHUNKED:
	case HTTP_UNTIL_CLOSE:
		break;
	}
	return -1;
}

static void transmit(struct hop_request *p)
{
	while (p->out.len > 0) {
		ssize_t n = send(p->fd, p->out.data, p->out.len, MSG_NOSIGNAL | MSG_DONTWAIT);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			break;
		if (n < 0) { /* it may have answered before it closed: reading tells */
			buf_consume(&p->out, p->out.len);
			break;
		}
		p->moved_us = loop_now_us(p->loop);
		buf_consume(&p->out, (size_t)n);
	}
	if (p->out.len == 0)
		buf_done(&p->out);
	if (p->is_tunnel)
		http_body_pause(p->req, p->out.len > 0);
	else if (p->out.len < OUT_MAX / 2)
		http_body_pause(p->req, false);
}

/* From the client, after 101. It is read only while nothing waits, so that what a client sent
 * before it left has been passed on. */
static void on_tunnel_data(struct http_req *req, struct buf *in)
{
	struct hop_request *p = http_tunnel_arg(req);
	size_t n = MIN(in->len, buf_room(&p->out));

	if (p->is_over) {
		buf_consume(in, in->len);
		return;
	}
	if (n > 0 && buf_append(&p->out, in->data, n) == 0)
		buf_consume(in, n);
	transmit(p);
	watch(p);
}

static void on_tunnel_drain(struct http_req *req)
{
	watch(http_tunnel_arg(req));
}

static void on_tunnel_gone(struct http_req *req)
{
	(void)req; /* on_done() follows */
}

static void start_tunnel(struct hop_request *p)
{
	static const struct http_tunnel_ops ops = {on_tunnel_data, on_tunnel_drain, on_tunnel_gone};

	p->is_tunnel = true;
	hop_heads_reply(p->req, &p->head);
	http_stream_start(p->req, 101, NULL, -1);
	http_tunnel(p->req, &ops, p);
	http_tunnel_outlasts_client(p->req);
}

static void start_reply(struct hop_request *p)
{
	hop_heads_reply(p->req, &p->head);
	http_decoder_init(&p->decoder, p->head.framing, p->head.length);
	http_stream_start(p->req, p->head.status, NULL, reply_length(p));
}

/* 1: go on, 0: more bytes are needed, < 0: failed. */
static int take_head(struct hop_request *p)
{
	struct err err;
	int r = http_head_read(&p->head, &p->in, &err);

	if (r == 0)
		return 0;
	if (r < 0 ||
	    (p->head.status < 200 && p->head.status != 101 && ++p->n_interims > INTERIMS_MAX) ||
	    (p->head.status == 101 && !http_req_head(p->req)->is_upgrade) ||
	    p->head.framing == HTTP_UNTIL_CLOSE) {
		fail(p, "it answered with what is no answer of a cloche");
		return -EPROTO;
	}
	if (p->head.status < 200 && p->head.status != 101) {
		begin_head(p);
		return 1;
	}
	p->has_head = true;
	if (p->head.status == 101)
		start_tunnel(p);
	else
		start_reply(p);
	return 1;
}

static int take_body(struct hop_request *p)
{
	const char *data;
	size_t len;
	int r = http_decode(&p->decoder, &p->in, &data, &len);

	if (r == HTTP_DECODE_MORE)
		return 0;
	if (r == HTTP_DECODE_END) {
		end_reply(p);
		return 0;
	}
	if (r < 0) {
		fail(p, "its answer is malformed");
		return r;
	}
	return http_stream_write(p->req, data, len) < 0 ? -EPIPE : 1;
}

static int take_raw(struct hop_request *p)
{
	if (p->in.len == 0)
		return 0;
	if (http_stream_write(p->req, p->in.data, p->in.len) < 0)
		return -EPIPE;
	buf_consume(&p->in, p->in.len);
	return 0;
}

static void handle_input(struct hop_request *p)
{
	int r = 1;

	while (r > 0 && !p->is_over)
		r = !p->has_head ? take_head(p) : p->is_tunnel ? take_raw(p) : take_body(p);
}

static void on_peer_end(struct hop_request *p)
{
	p->has_met_end = true;
	if (p->is_over || again(p))
		return;
	if (p->is_tunnel)
		end_reply(p);
	else if (!p->has_head)
		fail(p, "the connection ended without an answer, and it may have been done");
	else
		fail(p, "the answer was cut short");
}

static void receive(struct hop_request *p)
{
	char *room;
	ssize_t n;

	if (p->is_over || http_stream_pending(p->req) >= HTTP_HIGH_WATER)
		return;
	if (buf_reserve(&p->in, READ_SIZE, &room) < 0) {
		fail(p, "the head of its answer has no end");
		return;
	}
	n = recv(p->fd, room, READ_SIZE, MSG_DONTWAIT);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0) {
		on_peer_end(p);
		return;
	}
	p->has_answer = true;
	buf_commit(&p->in, (size_t)n);
	handle_input(p);
	if (p->in.len == 0)
		buf_done(&p->in); /* a WebSocket may say nothing for hours */
}

static void on_io(struct loop *loop, uint32_t events, void *arg)
{
	struct hop_request *p = arg;

	(void)loop;
	if (events & EPOLLOUT)
		transmit(p);
	if (events & (EPOLLIN | EPOLLHUP | EPOLLERR))
		receive(p);
	watch(p);
}

static void on_body(struct http_req *req, const char *data, size_t len, void *arg)
{
	struct hop_request *p = arg;
	bool is_chunked = http_req_head(req)->framing == HTTP_CHUNKED;
	int r;

	if (p->is_over)
		return;
	p->has_body = true;
	if (!data) {
		r = is_chunked ? http_encode_last_chunk(&p->out) : 0;
		p->has_sent_all = true;
	} else {
		r = is_chunked ? http_encode_chunk(&p->out, data, len)
		               : buf_append(&p->out, data, len);
	}
	if (r < 0) {
		fail(p, "the body came faster than it was taken");
		return;
	}
	if (p->out.len >= OUT_MAX)
		http_body_pause(req, true);
	if (p->io) {
		transmit(p);
		watch(p);
	}
}

static void on_drain(void *arg)
{
	watch(arg);
}

static void use_stream(struct hop_request *p, int fd)
{
	int r;

	p->fd = fd;
	p->moved_us = loop_now_us(p->loop);
	r = loop_io_add(p->loop, fd, EPOLLIN | EPOLLOUT, on_io, p, &p->io);
	if (r < 0) {
		fail(p, "its stream cannot be watched");
		return;
	}
	transmit(p);
	watch(p);
	if (!p->has_body && http_req_head(p->req)->framing != HTTP_NO_BODY)
		http_on_body(p->req, on_body, p);
	else
		p->has_sent_all = true;
}

static void start(struct hop_request *p)
{
	int fd = hop_streams_take(&p->hops->streams, p->node);

	if (fd >= 0) {
		p->is_kept = true;
		use_stream(p, fd);
	} else {
		ask_stream(p);
	}
}

/* Nothing of the request was sent. */
static void on_unreached(struct hop_request *p, const char *why)
{
	uint32_t node = 0;

	if (route_answered(&p->route, &p->facts, ROUTE_ANSWER_FAILED, 0, &node) == ROUTE_HOP) {
		p->node = node;
		start(p);
	} else {
		fail(p, why);
	}
}

static void on_stream(const struct cluster_reply *reply, void *arg)
{
	struct hop_request *p = arg;

	p->is_opening = false;
	if (p->is_over) {
		if (reply->fd >= 0)
			(void)close(reply->fd);
	} else if (reply->error) {
		on_unreached(p, reply->message);
	} else {
		use_stream(p, reply->fd);
	}
}

static void free_request(struct loop *loop, void *arg)
{
	struct hop_request *p = arg;

	(void)loop;
	http_head_done(&p->head);
	buf_done(&p->in);
	buf_done(&p->out);
	free(p);
}

static void on_done(void *arg)
{
	struct hop_request *p = arg;

	p->is_over = true;
	list_remove(&p->link);
	if (p->is_opening)
		cluster_link_forget(p->hops->config.link, p);
	leave_stream(p);
	loop_defer(p->loop, free_request, p); /* it may be on the stack */
}

void hop_request_start(struct hops *h, struct http_req *req, const struct route *route,
                       const struct route_facts *facts, uint32_t node)
{
	struct hop_request *p = xnew0(struct hop_request);

	*p = (struct hop_request){.hops = h,
	                          .req = req,
	                          .loop = http_loop(req),
	                          .route = *route,
	                          .facts = *facts,
	                          .node = node,
	                          .fd = -1,
	                          .in = BUF_INIT(READ_SIZE + HTTP_HEAD_MAX),
	                          .out = BUF_INIT(OUT_CAP)};
	list_append(h->requests, &p->link);
	begin_head(p);
	http_set_told(req, true); /* by the owner */
	http_reply_at_once(req);
	http_body_may_rest(req); /* the owner has its own deadline */
	http_on_drain(req, on_drain, p);
	http_on_done(req, on_done, p);
	if (hop_heads_request(req, &p->out) < 0) {
		struct err err;

		p->is_over = true;
		(void)err_set(&err, ERR_HEADERS_TOO_LARGE, 0,
		              "the head is too long to be passed on");
		http_reply_err(req, &err);
		return;
	}
	start(p);
}

void hop_request_look(struct hops *h)
{
	list_for_each (h->requests, struct hop_request, p, link)
		if (p->out.len > 0 && p->io && loop_now_us(p->loop) > p->moved_us + STALL_US)
			fail(p, "it does not take what is sent to it");
}
