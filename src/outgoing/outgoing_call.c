// SPDX-License-Identifier: Apache-2.0
/*
 * A server may answer before it has read everything; that answer counts. What it sends is bounded:
 * a body longer than the caller takes ends the call.
 */
#include "outgoing/outgoing_call.h"

#include "base/units.h"
#include "http/tls.h"
#include "http/transport.h"
#include "net/match/url.h"

#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>

#define PATIENCE_US (15 * SECOND_US)
#define HEAD_MAX    ((size_t)16 * 1024) /* of a request, without its body */
#define READ_SIZE   4096
#define READ_MAX    ((size_t)64 * 1024)

struct outgoing_call {
	struct outgoing outgoing;
	uint64_t dial_tag; /* 0: not dialling */
	bool is_https;
	char server_name[HOST_SIZE];
	uint64_t patience_us;
	const char *refused; /* known without a connection */
	struct transport transport;
	struct loop_io *io;
	struct loop_timer *timer;
	struct buf out, in, body;
	size_t reply_max;
	bool has_head;
	struct http_head head;
	struct http_decoder decoder;
	outgoing_fn fn;
	void *arg;
};

static void end(struct outgoing_call *c, const char *why)
{
	outgoing_fn fn = take_ptr(c->fn);
	struct outgoing_reply reply = {.why = why, .body = ""};

	loop_io_removep(&c->io);
	loop_timer_set(c->timer, UINT64_MAX);
	if (!why)
		reply = (struct outgoing_reply){.status = c->head.status,
		                                .head = &c->head,
		                                .body = buf_str(&c->body),
		                                .len = c->body.len};
	if (fn)
		fn(&reply, c->arg); /* may free c: nothing of it is touched after */
}

static void end_broken(struct outgoing_call *c, int r)
{
	char text[120] = "", why[200];

	if (c->transport.ssl)
		tls_last_error(text, sizeof(text));
	(void)snprintf(why, sizeof(why), "the connection broke: %s",
	               *text ? text : strerror(r < 0 ? -r : ECONNRESET));
	end(c, why);
}

/* Returns < 0 if it has ended. */
static int write_some(struct outgoing_call *c)
{
	while (c->out.len > 0) {
		ssize_t n = transport_write(&c->transport, c->out.data, c->out.len);

		if (n == -EAGAIN)
			return 0;
		if (n < 0) {
			end_broken(c, (int)n);
			return -1;
		}
		buf_consume(&c->out, (size_t)n);
	}
	return 0;
}

static void decode_body(struct outgoing_call *c)
{
	const char *data;
	size_t len;
	int r;

	while ((r = http_decode(&c->decoder, &c->in, &data, &len)) == HTTP_DECODE_DATA)
		if (buf_append(&c->body, data, len) < 0) {
			end(c, "the answer is too long");
			return;
		}
	if (r < 0)
		end(c, "the answer is not HTTP");
	else if (r == HTTP_DECODE_END)
		end(c, NULL);
}

static void decode(struct outgoing_call *c)
{
	struct err err;
	int r;

	if (!c->has_head) {
		r = http_head_read(&c->head, &c->in, &err);
		if (r < 0)
			end(c, "the answer is not HTTP");
		else if (r > 0 && c->head.status < 200) /* such as 100 */
			end(c, "the answer is an interim one");
		else if (r > 0 && c->reply_max == 0)
			end(c, NULL);
		if (r <= 0 || !c->fn)
			return;
		c->has_head = true;
		http_decoder_init(&c->decoder, c->head.framing, c->head.length);
	}
	decode_body(c);
}

static void on_closed(struct outgoing_call *c, ssize_t n)
{
	if (n == 0 && c->has_head && http_decode_eof(&c->decoder) == 0)
		end(c, NULL);
	else
		end_broken(c, (int)n);
}

static void read_some(struct outgoing_call *c)
{
	char *room;
	ssize_t n;

	do {
		if (buf_reserve(&c->in, READ_SIZE, &room) < 0) {
			end(c, "the answer is too long");
			return;
		}
		n = transport_read(&c->transport, room, READ_SIZE);
		if (n == -EAGAIN)
			return;
		if (n <= 0) {
			on_closed(c, n);
			return;
		}
		buf_commit(&c->in, (size_t)n);
		decode(c);
	} while (c->fn && transport_has_pending(&c->transport));
}

static void await(struct outgoing_call *c)
{
	uint32_t events = c->transport.read_wants;

	if (c->out.len > 0)
		events |= c->transport.write_wants;
	loop_io_set(c->io, events);
}

static void on_io(struct loop *loop, uint32_t events, void *arg)
{
	struct outgoing_call *c = arg;

	(void)loop;
	(void)events;
	if (write_some(c) < 0)
		return;
	read_some(c);
	if (c->io) /* it has not ended */
		await(c);
}

static void on_timer(struct loop *loop, void *arg)
{
	struct outgoing_call *c = arg;

	(void)loop;
	end(c, c->refused ? c->refused : "no answer came in time");
}

static void on_dialled(int fd, const char *why, void *arg)
{
	struct outgoing_call *c = arg;
	struct err err = {0};
	int r = 0;

	c->dial_tag = 0;
	if (fd < 0) {
		end(c, why);
		return;
	}
	transport_init(&c->transport, fd);
	if (c->is_https)
		r = transport_start_tls(&c->transport, c->outgoing.tls, c->server_name, &err);
	if (r == 0) {
		r = loop_io_add(c->outgoing.loop, fd, EPOLLIN | EPOLLOUT, on_io, c, &c->io);
		if (r < 0)
			(void)err_set(&err, ERR_INTERNAL, -r, "cannot watch the connection");
	}
	if (r < 0)
		end(c, err.message);
	else
		loop_timer_set_in(c->timer, c->patience_us);
}

static int put_request_line(struct buf *out, const char *method, const struct url *url)
{
	bool is_usual_port = url->port == (url->scheme == URL_HTTPS ? 443 : 80);
	char host[HOST_SIZE];
	int r = buf_printf(out, "%s %.*s", method, (int)url->path_len, url->path);

	host_format(&url->host, host);
	if (r == 0 && url->query)
		r = buf_printf(out, "?%.*s", (int)url->query_len, url->query);
	if (r == 0)
		r = buf_printf(out, " HTTP/1.1\r\nHost: %s", host);
	if (r == 0 && !is_usual_port)
		r = buf_printf(out, ":%u", url->port);
	return r == 0 ? buf_append(out, "\r\n", 2) : r;
}

static int put_request(struct buf *out, const struct outgoing_request *q, const struct url *url)
{
	int r = put_request_line(out, q->method, url);

	for (size_t i = 0; r == 0 && i < q->n_fields; i++)
		r = http_encode_field(out, q->fields[i].name, q->fields[i].value);
	if (r == 0)
		r = buf_printf(out,
		               "User-Agent: cloche\r\nContent-Length: %zu\r\n"
		               "Connection: close\r\n\r\n",
		               q->len);
	return r == 0 && q->len > 0 ? buf_append(out, q->body, q->len) : r;
}

/* Returns why the request cannot be made, or NULL. */
static const char *prepare(struct outgoing_call *c, const struct outgoing_request *q,
                           struct url *url)
{
	const char *why = "";

	if (url_parse(q->url, strlen(q->url), url, &why) < 0 ||
	    (url->scheme != URL_HTTP && url->scheme != URL_HTTPS))
		return "its URL is not one of http or https";
	c->is_https = url->scheme == URL_HTTPS;
	if (c->is_https && !c->outgoing.tls)
		return "this host has no certificates to check a server with";
	if (url->host.is_name)
		(void)snprintf(c->server_name, sizeof(c->server_name), "%s", url->host.name.text);
	else
		address_format(&url->host.address, c->server_name);
	return put_request(&c->out, q, url) < 0 ? "the request could not be made" : NULL;
}

struct outgoing_call *outgoing_call_new(const struct outgoing *outgoing,
                                        const struct outgoing_request *request, outgoing_fn fn,
                                        void *arg)
{
	struct outgoing_call *c = xnew0(struct outgoing_call);
	struct url url;

	*c = (struct outgoing_call){
		.outgoing = *outgoing,
		.patience_us = request->patience_us ? request->patience_us : PATIENCE_US,
		.reply_max = request->reply_max,
		.fn = fn,
		.arg = arg,
	};
	buf_init(&c->out, HEAD_MAX + request->len);
	buf_init(&c->in, READ_MAX);
	buf_init(&c->body, request->reply_max);
	http_head_init(&c->head, HTTP_RESPONSE);
	transport_init(&c->transport, -1);
	c->timer = loop_timer_new(outgoing->loop, on_timer, c);
	c->refused = prepare(c, request, &url);
	if (c->refused)
		loop_timer_set_in(c->timer, 0);
	else
		c->dial_tag = dialer_dial(outgoing->dialer, c->server_name, url.port,
		                          outgoing->is_tenants, on_dialled, c);
	return c;
}

static void free_deferred(struct loop *loop, void *arg)
{
	struct outgoing_call *c = arg;

	(void)loop;
	buf_done(&c->out);
	buf_done(&c->in);
	buf_done(&c->body);
	http_head_done(&c->head);
	free(c);
}

void outgoing_call_free(struct outgoing_call *c)
{
	if (!c)
		return;
	c->fn = NULL;
	dialer_cancel(c->outgoing.dialer, c->dial_tag);
	loop_io_removep(&c->io);
	loop_timer_free(c->timer);
	c->timer = NULL;
	transport_close(&c->transport);
	loop_defer(c->outgoing.loop, free_deferred, c);
}
