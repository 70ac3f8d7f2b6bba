// SPDX-License-Identifier: Apache-2.0
/*
 *	stream asked for --> request sent --> head, body --> parsed --> fn
 *	     ^                    |
 *	     +-- a kept stream was dead: asked again, once, as a GET changes nothing
 *
 * A peer is read as a stranger: its head, its framing, the length of its body and how many values
 * there are in it. Who waits sets the deadline (hop_gather.c).
 */
#include "daemon/gateway/hop/hop_ask.h"

#include "base/fd.h"
#include "daemon/gateway/hop/hop_heads.h"
#include "daemon/gateway/hop/hop_private.h"

#include <stdio.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#define BODY_MAX  ((size_t)4 * 1024 * 1024) /* a page of 100 rows is some hundred KiB */
#define READ_SIZE ((size_t)64 * 1024)
#define OUT_CAP   (HTTP_HEAD_MAX + (size_t)4096)

struct hop_ask {
	struct hops *hops;
	uint32_t node;
	hop_ask_fn fn; /* NULL: nobody wants it any more */
	void *arg;
	struct buf request;
	size_t n_sent;
	struct buf in, body;
	struct http_head head;
	struct http_decoder decoder;
	int fd;
	struct loop_io *io;
	bool has_head, has_answer, is_kept, is_opening, is_over;
	char why[160];
};

static void leave_stream(struct hop_ask *a)
{
	loop_io_removep(&a->io);
	close_fd(&a->fd);
}

static void on_free(struct loop *loop, void *arg)
{
	struct hop_ask *a = arg;

	(void)loop;
	http_head_done(&a->head);
	buf_done(&a->request);
	buf_done(&a->in);
	buf_done(&a->body);
	free(a);
}

void hop_ask_free(struct hop_ask *a)
{
	if (!a)
		return;
	if (a->is_opening)
		cluster_link_forget(a->hops->config.link, a);
	a->fn = NULL;
	a->is_over = true;
	leave_stream(a);
	loop_defer(a->hops->config.loop, on_free, a); /* it may be on the stack */
}

static void end(struct hop_ask *a, json_t *body, const char *why)
{
	hop_ask_fn fn = take_ptr(a->fn);

	a->is_over = true;
	leave_stream(a);
	if (fn)
		fn(body, &a->head, why, a->arg);
}

static void on_failed(struct loop *loop, void *arg)
{
	struct hop_ask *a = arg;

	(void)loop;
	if (!a->is_over)
		end(a, NULL, a->why);
}

static void fail(struct hop_ask *a, const char *why)
{
	(void)snprintf(a->why, sizeof(a->why), "%s", why);
	on_failed(NULL, a);
}

static void read_body(struct hop_ask *a)
{
	const json_t *error;
	const char *code;
	auto_json json_t *body = NULL;
	struct err err;

	if (a->in.len == 0 && a->head.keep_alive) {
		loop_io_removep(&a->io);
		hop_streams_keep(&a->hops->streams, a->node, take_fd(&a->fd));
	}
	if (json_parse_up_to(buf_str(&a->body), a->body.len, JSON_REQUEST_VALUES_MAX, &body, &err) <
	    0) {
		fail(a, "its answer is no JSON");
		return;
	}
	if (a->head.status == 200) {
		end(a, body, "");
		return;
	}
	error = json_object_get(body, "error");
	code = json_string_value(json_object_get(error, "code"));
	(void)snprintf(a->why, sizeof(a->why), "it refuses: %d %.40s", a->head.status,
	               code ? code : "");
	end(a, NULL, a->why);
}

/* 1: go on; 0: more bytes are needed, or it is over. */
static int take_head(struct hop_ask *a)
{
	struct err err;
	int r = http_head_read(&a->head, &a->in, &err);

	if (r == 0)
		return 0;
	if (r < 0 || a->head.status < 200 || a->head.framing == HTTP_UNTIL_CLOSE) {
		fail(a, "it answered with what is no answer of a cloche");
		return 0;
	}
	a->has_head = true;
	http_decoder_init(&a->decoder, a->head.framing, a->head.length);
	return 1;
}

static int take_body(struct hop_ask *a)
{
	const char *data;
	size_t len;
	int r = http_decode(&a->decoder, &a->in, &data, &len);

	if (r == HTTP_DECODE_MORE)
		return 0;
	if (r == HTTP_DECODE_DATA && buf_append(&a->body, data, len) == 0)
		return 1;
	if (r == HTTP_DECODE_END)
		read_body(a);
	else
		fail(a, r < 0 ? "its answer is malformed" : "its answer is too long");
	return 0;
}

static void ask_stream(struct hop_ask *a);

static void on_peer_end(struct hop_ask *a)
{
	if (a->is_kept && !a->has_answer) {
		leave_stream(a);
		a->n_sent = 0;
		ask_stream(a);
		return;
	}
	fail(a, "the connection ended within its answer");
}

static void receive(struct hop_ask *a)
{
	char *room;
	ssize_t n;
	int r = 1;

	if (buf_reserve(&a->in, READ_SIZE, &room) < 0) {
		fail(a, "the head of its answer has no end");
		return;
	}
	n = recv(a->fd, room, READ_SIZE, MSG_DONTWAIT);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0) {
		on_peer_end(a);
		return;
	}
	a->has_answer = true;
	buf_commit(&a->in, (size_t)n);
	while (r > 0 && !a->is_over)
		r = a->has_head ? take_body(a) : take_head(a);
}

static void transmit(struct hop_ask *a)
{
	while (a->n_sent < a->request.len) {
		ssize_t n = send(a->fd, a->request.data + a->n_sent, a->request.len - a->n_sent,
		                 MSG_NOSIGNAL | MSG_DONTWAIT);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			return;
		if (n < 0)
			break; /* reading tells */
		a->n_sent += (size_t)n;
	}
	loop_io_set(a->io, EPOLLIN);
}

static void on_io(struct loop *loop, uint32_t events, void *arg)
{
	struct hop_ask *a = arg;

	(void)loop;
	if (events & EPOLLOUT)
		transmit(a);
	if (events & (EPOLLIN | EPOLLHUP | EPOLLERR))
		receive(a);
}

static void use(struct hop_ask *a, int fd)
{
	a->fd = fd;
	if (loop_io_add(a->hops->config.loop, fd, EPOLLIN | EPOLLOUT, on_io, a, &a->io) < 0) {
		(void)snprintf(a->why, sizeof(a->why), "its stream cannot be watched");
		loop_defer(a->hops->config.loop, on_failed, a);
	}
}

static void on_stream(const struct cluster_reply *reply, void *arg)
{
	struct hop_ask *a = arg;

	a->is_opening = false;
	if (reply->error)
		fail(a, reply->message);
	else
		use(a, reply->fd);
}

static void ask_stream(struct hop_ask *a)
{
	a->is_kept = false;
	a->is_opening = true;
	cluster_link_open(a->hops->config.link, a->node, on_stream, a);
}

struct hop_ask *hop_ask_new(struct hops *h, const struct http_req *req, uint32_t node,
                            const char *words, hop_ask_fn fn, void *arg)
{
	const struct hop_body body = {.find = words, .data = words ? "" : NULL};
	struct hop_ask *a = xnew0(struct hop_ask);
	int fd;

	*a = (struct hop_ask){.hops = h,
	                      .node = node,
	                      .fn = fn,
	                      .arg = arg,
	                      .request = BUF_INIT(OUT_CAP),
	                      .in = BUF_INIT(READ_SIZE + HTTP_HEAD_MAX),
	                      .body = BUF_INIT(BODY_MAX),
	                      .fd = -1};
	http_head_init(&a->head, HTTP_RESPONSE);
	if (hop_heads_request(req, &body, &a->request) < 0) {
		(void)snprintf(a->why, sizeof(a->why), "the head is too long to be passed on");
		loop_defer(h->config.loop, on_failed, a);
		return a;
	}
	fd = hop_streams_take(&h->streams, node);
	if (fd >= 0) {
		a->is_kept = true;
		use(a, fd);
	} else {
		ask_stream(a);
	}
	return a;
}
