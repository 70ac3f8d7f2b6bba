// SPDX-License-Identifier: Apache-2.0
/*
 * One request to a server inside. Each has its own connection, so no answer can be taken for
 * another's.
 *
 *	dialling --> head sent, body follows --> head of the answer --> its body --> end
 *	                                                 +--> 101: bytes as they are, both ways
 *
 * Each side is read only while the other accepts the bytes: at most OUT_MAX bytes wait for the
 * server and HTTP_HIGH_WATER for the client. Whichever ends first ends the rest; everything is
 * freed in one place, the request's on_done.
 */
#include "base/fd.h"
#include "preview/inside.h"

#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#define OUT_MAX      ((size_t)256 * 1024)
#define OUT_CAP      (OUT_MAX + HTTP_HEAD_MAX + (size_t)128 * 1024) /* and one stretch of a body */
#define READ_SIZE    ((size_t)64 * 1024)
#define INTERIMS_MAX 8 /* answers before the answer */

struct proxy {
	struct visit visit;
	struct http_req *req;
	struct loop *loop;
	struct port_connection *line;
	int fd;
	struct loop_io *io;
	struct buf in, out;
	struct http_head head; /* of the answer */
	struct http_decoder decoder;
	unsigned n_interims;
	bool has_head, is_tunnel;
	bool is_over;     /* the answer has ended, one way or another */
	bool has_met_end; /* of what the server sends */
};

static void watch(struct proxy *p)
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

/* The server inside gave no answer or an incomplete one. */
static void fail(struct proxy *p, const struct err *err)
{
	if (p->is_over)
		return;
	p->is_over = true;
	loop_io_removep(&p->io);
	if (http_has_replied(p->req))
		http_stream_abort(p->req);
	else
		page_failed(p->req, err);
}

static void fail_guest(struct proxy *p, const char *why)
{
	struct err err;

	(void)err_set(&err, ERR_GUEST, 0, "%s", why);
	fail(p, &err);
}

static void end_reply(struct proxy *p)
{
	p->is_over = true;
	http_stream_end(p->req);
}

static int64_t reply_length(const struct proxy *p)
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

static void transmit(struct proxy *p)
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
		port_connection_count(p->line, (uint64_t)n, 0);
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
	struct proxy *p = http_tunnel_arg(req);
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

static void start_tunnel(struct proxy *p)
{
	static const struct http_tunnel_ops ops = {on_tunnel_data, on_tunnel_drain, on_tunnel_gone};

	p->is_tunnel = true;
	heads_reply(&p->visit, &p->head);
	http_stream_start(p->req, 101, NULL, -1);
	http_tunnel(p->req, &ops, p);
	http_tunnel_outlasts_client(p->req);
}

static void start_reply(struct proxy *p)
{
	heads_reply(&p->visit, &p->head);
	http_decoder_init(&p->decoder, p->head.framing, p->head.length);
	http_stream_start(p->req, p->head.status, NULL, reply_length(p));
}

static void begin_head(struct proxy *p)
{
	http_head_done(&p->head);
	http_head_init(&p->head, HTTP_RESPONSE);
	p->head.is_head_reply = http_req_method(p->req) == HTTP_HEAD;
}

/* 1: go on, 0: more bytes are needed, < 0: failed. */
static int take_head(struct proxy *p)
{
	struct err err;
	int r = http_head_read(&p->head, &p->in, &err);

	if (r == 0)
		return 0;
	if (r < 0 ||
	    (p->head.status < 200 && p->head.status != 101 && ++p->n_interims > INTERIMS_MAX)) {
		fail_guest(p, "the server in the sandbox answered with what is no HTTP/1.1");
		return -EPROTO;
	}
	if (p->head.status == 101 && !http_req_head(p->req)->is_upgrade) {
		fail_guest(p, "the server in the sandbox changed the protocol unasked");
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

static int take_body(struct proxy *p)
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
		fail_guest(p, "the answer's chunks are malformed");
		return r;
	}
	return http_stream_write(p->req, data, len) < 0 ? -EPIPE : 1;
}

static int take_raw(struct proxy *p)
{
	if (p->in.len == 0)
		return 0;
	if (http_stream_write(p->req, p->in.data, p->in.len) < 0)
		return -EPIPE;
	buf_consume(&p->in, p->in.len);
	return 0;
}

static void handle_input(struct proxy *p)
{
	int r = 1;

	while (r > 0 && !p->is_over)
		r = !p->has_head ? take_head(p) : p->is_tunnel ? take_raw(p) : take_body(p);
}

static void on_server_end(struct proxy *p)
{
	p->has_met_end = true;
	if (p->is_over)
		return;
	if (p->is_tunnel)
		end_reply(p);
	else if (!p->has_head)
		fail_guest(p, "the server in the sandbox closed the connection without an answer");
	else if (http_decode_eof(&p->decoder) == 0)
		end_reply(p);
	else
		fail_guest(p, "the answer was cut short");
}

static void receive(struct proxy *p)
{
	char *room;
	ssize_t n;

	if (p->is_over || http_stream_pending(p->req) >= HTTP_HIGH_WATER)
		return;
	if (buf_reserve(&p->in, READ_SIZE, &room) < 0) {
		fail_guest(p, "the head of the answer has no end");
		return;
	}
	n = recv(p->fd, room, READ_SIZE, MSG_DONTWAIT);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0) {
		on_server_end(p);
		return;
	}
	buf_commit(&p->in, (size_t)n);
	port_connection_count(p->line, 0, (uint64_t)n);
	handle_input(p);
	if (p->in.len == 0)
		buf_done(&p->in); /* a WebSocket may say nothing for hours */
}

static void on_io(struct loop *loop, uint32_t events, void *arg)
{
	struct proxy *p = arg;

	(void)loop;
	if (events & EPOLLOUT)
		transmit(p);
	if (events & (EPOLLIN | EPOLLHUP | EPOLLERR))
		receive(p);
	watch(p);
}

static void on_body(struct http_req *req, const char *data, size_t len, void *arg)
{
	struct proxy *p = arg;
	bool is_chunked = http_req_head(req)->framing == HTTP_CHUNKED;
	int r;

	if (p->is_over)
		return;
	if (!data)
		r = is_chunked ? http_encode_last_chunk(&p->out) : 0;
	else
		r = is_chunked ? http_encode_chunk(&p->out, data, len)
		               : buf_append(&p->out, data, len);
	if (r < 0) {
		fail_guest(p, "the body came faster than the server took it");
		return;
	}
	if (p->out.len >= OUT_MAX)
		http_body_pause(req, true);
	watch(p);
}

static void on_drain(void *arg)
{
	watch(arg);
}

static void on_open(int fd, void *arg)
{
	struct proxy *p = arg;
	int r;

	p->fd = fd;
	r = loop_io_add(p->loop, fd, EPOLLIN | EPOLLOUT, on_io, p, &p->io);
	if (r < 0) {
		fail_guest(p, "the connection cannot be watched");
		return;
	}
	if (http_req_head(p->req)->framing != HTTP_NO_BODY)
		http_on_body(p->req, on_body, p);
}

static void on_cut(const struct err *err, void *arg)
{
	fail(arg, err);
}

static void free_proxy(struct loop *loop, void *arg)
{
	struct proxy *p = arg;

	(void)loop;
	http_head_done(&p->head);
	buf_done(&p->in);
	buf_done(&p->out);
	free(p);
}

static void on_done(void *arg)
{
	struct proxy *p = arg;

	p->is_over = true;
	port_connection_close(take_ptr(p->line));
	loop_io_removep(&p->io);
	if (p->fd >= 0)
		(void)close(take_fd(&p->fd));
	loop_defer(p->loop, free_proxy, p); /* it may be on the stack */
}

int proxy_start(struct visit *v, struct sandbox *s, struct err *err)
{
	static const struct port_connection_ops by_token = {
		.on_open = on_open, .on_cut = on_cut, .is_by_token = true};
	static const struct port_connection_ops admitted = {.on_open = on_open, .on_cut = on_cut};
	const struct port_connection_ops *ops = v->is_admitted ? &admitted : &by_token;
	struct proxy *p = xnew0(struct proxy);
	int r;

	*p = (struct proxy){.visit = *v,
	                    .req = v->req,
	                    .loop = http_loop(v->req),
	                    .fd = -1,
	                    .in = BUF_INIT(READ_SIZE + HTTP_HEAD_MAX),
	                    .out = BUF_INIT(OUT_CAP)};
	p->visit.target = (struct buf)BUF_INIT(0);
	begin_head(p);
	r = heads_request(v, &p->out);
	if (r < 0)
		r = err_set(err, ERR_HEADERS_TOO_LARGE, 0, "the head is too long to be passed on");
	else
		r = port_connection_open(s, v->port, ops, p, &p->line, err);
	if (r < 0) {
		free_proxy(p->loop, p);
		return r;
	}
	http_on_drain(v->req, on_drain, p);
	http_on_done(v->req, on_done, p);
	return 0;
}
