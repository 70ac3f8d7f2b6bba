// SPDX-License-Identifier: Apache-2.0
/*
 * The socket is non-blocking and every wait is a poll(). So a signal can end a wait, TLS can wait
 * for the other direction, and an answer in the middle of an upload is noticed.
 */
#include "http/client.h"

#include "base/clock.h"
#include "base/id.h"
#include "base/parse.h"
#include "http/endpoint.h"
#include "http/tls.h"
#include "http/transport.h"

#include <poll.h>
#include <strings.h>
#include <sys/epoll.h>

#define IN_MAX  (WS_MESSAGE_MAX + 64)
#define OUT_MAX (WS_MESSAGE_MAX + HTTP_HEAD_MAX)
#define PIECE   ((size_t)64 * 1024)

struct http_client {
	struct endpoint server;
	struct transport transport;
	struct buf in, out;
	struct http_head head;
	struct http_decoder decoder;
	bool has_sent; /* a request whose reply is not read to its end */
	bool is_whole; /* … and was sent to its end */
	bool is_head;  /* … and was HEAD */
	bool has_head;
	int send_error;       /* sending failed: the reason may yet come as a reply */
	uint64_t deadline_us; /* of every wait; 0 = none */
	char tls_error[120];
	struct ws_codec ws;
	bool is_ws, has_sent_close, has_got_close;
};

void http_client_set_deadline(struct http_client *c, uint64_t at_us)
{
	c->deadline_us = at_us;
}

/* For poll(): -1 where there is no deadline. */
static int time_left_ms(const struct http_client *c)
{
	uint64_t now = clock_steady_us();

	if (c->deadline_us == 0)
		return -1;
	return c->deadline_us <= now ? 0 : (int)MIN((c->deadline_us - now) / 1000 + 1, INT32_MAX);
}

/* Waits for EPOLLIN or EPOLLOUT on the socket. Returns the events that came. */
static int await(const struct http_client *c, uint32_t events, int timeout_ms)
{
	struct pollfd p = {.fd = c->transport.fd};
	int n;

	if (events & EPOLLIN)
		p.events |= POLLIN;
	if (events & EPOLLOUT)
		p.events |= POLLOUT;
	n = poll(&p, 1, timeout_ms);
	if (n < 0)
		return -errno;
	if (n == 0)
		return -ETIMEDOUT;
	return p.revents;
}

static void forget_reply(struct http_client *c)
{
	http_head_done(&c->head);
	http_head_init(&c->head, HTTP_RESPONSE);
	c->has_head = c->has_sent = c->is_whole = false;
	c->send_error = 0;
}

static void disconnect(struct http_client *c)
{
	transport_close(&c->transport);
	buf_done(&c->in);
	buf_done(&c->out);
}

static int reconnect(struct http_client *c, struct err *err)
{
	disconnect(c);
	c->tls_error[0] = '\0';
	return endpoint_connect(&c->server, &c->transport, err);
}

int http_client_open(const char *url, struct http_client **ret, struct err *err)
{
	auto_call(http_client_closep) struct http_client *c = xnew0(struct http_client);
	int r;

	transport_init(&c->transport, -1);
	buf_init(&c->in, IN_MAX);
	buf_init(&c->out, OUT_MAX);
	http_head_init(&c->head, HTTP_RESPONSE);
	ws_codec_init(&c->ws, /* is_server= */ false);
	r = endpoint_init(&c->server, url, err);
	if (r == 0)
		r = reconnect(c, err);
	if (r < 0)
		return r;
	*ret = take_ptr(c);
	return 0;
}

void http_client_close(struct http_client *c)
{
	if (!c)
		return;
	if (c->transport.fd >= 0)
		transport_shutdown(&c->transport);
	disconnect(c);
	http_head_done(&c->head);
	ws_codec_done(&c->ws);
	endpoint_done(&c->server);
	free(c);
}

int http_client_fd(const struct http_client *c)
{
	return c->transport.fd;
}

/* The server broke the rules of HTTP: -EPROTO, with no errno in the message. */
#define unheard(err, ...) (err_set(err, ERR_UNAVAILABLE, 0, __VA_ARGS__), -EPROTO)

/* Only the first failure is kept: it is the cause of the later ones. */
static void note_failure(struct http_client *c, ssize_t n)
{
	if (c->server.tls && n < 0 && n != -EAGAIN && !*c->tls_error)
		tls_last_error(c->tls_error, sizeof(c->tls_error));
}

/* One read into in; waits if asked. Returns the bytes, 0 at the end, or a negative errno, also
 * -EAGAIN and -EINTR. */
static ssize_t fill(struct http_client *c, bool wait)
{
	for (;;) {
		size_t size = MIN(buf_room(&c->in), PIECE);
		char *room = NULL;
		ssize_t n;
		int r;

		if (size == 0)
			return -E2BIG;
		r = buf_reserve(&c->in, size, &room);
		if (r < 0)
			return r;
		n = transport_read(&c->transport, room, size);
		note_failure(c, n);
		if (n > 0)
			buf_commit(&c->in, (size_t)n);
		if (n != -EAGAIN || !wait)
			return n;
		r = await(c, c->transport.read_wants, time_left_ms(c));
		if (r < 0)
			return r;
	}
}

/*
 * Sends what is in out. While the socket is full, bytes from the server are read, so that two sides
 * that both write do not wait for each other for ever. With hear, it stops and returns 1 when bytes
 * come.
 */
static int drain(struct http_client *c, bool hear)
{
	while (c->out.len > 0) {
		ssize_t n = transport_write(&c->transport, c->out.data, c->out.len);
		uint32_t wants = c->transport.write_wants;
		int r;

		note_failure(c, n);
		if (n > 0) {
			buf_consume(&c->out, (size_t)n);
			continue;
		}
		if (n != -EAGAIN)
			return (int)n;
		if (buf_room(&c->in) > 0)
			wants |= EPOLLIN;
		r = await(c, wants, time_left_ms(c));
		if (r < 0 && r != -EINTR)
			return r;
		if (r > 0 && (r & POLLIN) && (wants & EPOLLIN)) {
			n = fill(c, /* wait= */ false);
			if (n == 0 || (n < 0 && n != -EAGAIN))
				return n == 0 ? -EPIPE : (int)n;
			if (n > 0 && hear)
				return 1;
		}
	}
	return 0;
}

static int put_head(struct http_client *c, const struct http_send *send)
{
	struct buf *out = &c->out;
	bool has_body = send->source || send->len > 0 || send->content_type;
	int r = buf_printf(out, "%s %s HTTP/1.1\r\nHost: %s\r\n", send->method, send->path,
	                   c->server.authority);

	for (size_t i = 0; r == 0 && i < send->n_fields; i++)
		r = http_encode_field(out, send->fields[i].name, send->fields[i].value);
	if (r == 0 && send->content_type)
		r = http_encode_field(out, "Content-Type", send->content_type);
	if (r == 0 && send->source && send->source_len < 0)
		r = buf_append_str(out, "Transfer-Encoding: chunked\r\n");
	else if (r == 0 && has_body)
		r = buf_printf(out, "Content-Length: %llu\r\n",
		               send->source ? (unsigned long long)send->source_len
		                            : (unsigned long long)send->len);
	return r < 0 ? r : buf_append_str(out, "\r\n");
}

static int put_piece(struct http_client *c, const struct http_send *send, const void *data,
                     size_t len)
{
	if (send->source_len >= 0)
		return buf_append(&c->out, data, len);
	return len > 0 ? http_encode_chunk(&c->out, data, len) : http_encode_last_chunk(&c->out);
}

/* Returns 0, 1 when the server has answered before the end, or < 0; err is set when the source
 * failed. */
static int send_source(struct http_client *c, const struct http_send *send, struct err *err)
{
	auto_free char *piece = xcalloc(PIECE, 1);
	uint64_t left = send->source_len < 0 ? UINT64_MAX : (uint64_t)send->source_len;

	for (;;) {
		ssize_t n = left > 0 ? send->source(send->source_arg, piece,
		                                    (size_t)MIN(left, PIECE), err)
		                     : 0;
		int r;

		if (n < 0)
			return err && err->code != ERR_NONE ? (int)n
			                                    : err_set(err, ERR_INTERNAL, (int)-n,
			                                              "cannot read the body");
		if (n == 0 && left > 0 && send->source_len >= 0)
			return err_set(err, ERR_BAD_REQUEST, 0,
			               "the body is shorter than announced");
		left -= (uint64_t)n;
		r = put_piece(c, send, piece, (size_t)n);
		if (r == 0)
			r = drain(c, /* hear= */ true);
		if (r < 0 && c->send_error == 0)
			c->send_error = r;
		if (r != 0 || n == 0)
			return r > 0 || c->send_error ? 1 : 0;
	}
}

static int send_data(struct http_client *c, const struct http_send *send)
{
	const char *data = send->len > 0 ? send->data : "";
	size_t left = send->len;

	do {
		size_t len = MIN(left, PIECE);
		int r = buf_append(&c->out, data, len);

		if (r == 0)
			r = drain(c, /* hear= */ true);
		if (r < 0)
			c->send_error = r;
		if (r != 0)
			return 1;
		data += len;
		left -= len;
	} while (left > 0);
	return 0;
}

/* A kept connection is useless once it has unexpected bytes or was closed. */
static bool is_reusable(struct http_client *c)
{
	return c->transport.fd >= 0 && !c->is_ws && c->in.len == 0 && !c->send_error &&
	       (!c->has_sent || (c->has_head && c->is_whole && c->head.keep_alive &&
	                         http_decoder_is_done(&c->decoder))) &&
	       await(c, EPOLLIN, 0) == -ETIMEDOUT;
}

static int check_send(const struct http_send *send, struct err *err)
{
	if (!http_is_token(send->method, strlen(send->method)) || send->path[0] != '/' ||
	    strpbrk(send->path, " \r\n\t"))
		return err_set(err, ERR_BAD_REQUEST, 0, "'%.20s %.200s' is no request",
		               send->method, send->path);
	return 0;
}

int http_client_send(struct http_client *c, const struct http_send *send, struct err *err)
{
	int r = check_send(send, err);

	if (r < 0)
		return r;
	if (!is_reusable(c)) {
		r = reconnect(c, err);
		if (r < 0)
			return r;
	}
	forget_reply(c);
	c->is_ws = false;
	c->is_head = strcmp(send->method, "HEAD") == 0;
	c->has_sent = true;
	r = put_head(c, send);
	if (r < 0) {
		buf_truncate(&c->out, 0);
		return err_set(err, ERR_BAD_REQUEST, -r, "the request's head cannot be sent");
	}
	r = send->source ? send_source(c, send, err) : send_data(c, send);
	if (r < 0) {
		disconnect(c); /* half a request is on its way */
		return r;
	}
	c->is_whole = r == 0;
	buf_truncate(&c->out, 0);
	return 0;
}

static int broken(struct http_client *c, ssize_t n, struct err *err)
{
	if (n == -EINTR)
		return err_set(err, ERR_UNAVAILABLE, EINTR, "stopped while waiting for %s",
		               c->server.url);
	if (*c->tls_error) {
		(void)unheard(err, "TLS with %s failed: %s", c->server.url, c->tls_error);
		return err_hint(err,
		                "if its certificate is of an authority of your own, name that "
		                "one's file in SSL_CERT_FILE; if it has no TLS, write http://");
	}
	if (c->send_error)
		n = c->send_error;
	if (n == 0)
		return unheard(err, "%s closed the connection without an answer", c->server.url);
	return err_set(err, ERR_UNAVAILABLE, (int)-n, "the connection to %s broke", c->server.url);
}

int http_client_head(struct http_client *c, int *ret_status, struct err *err)
{
	if (!c->has_sent)
		return err_set(err, ERR_INTERNAL, 0, "no request was sent");
	while (!c->has_head) {
		ssize_t n;
		int r;

		c->head.is_head_reply = c->is_head;
		r = http_head_read(&c->head, &c->in, err);
		if (r < 0)
			return err_prefix(err, "%s sent no valid answer", c->server.url);
		if (r > 0 && c->head.status >= 100 && c->head.status < 200 &&
		    c->head.status != 101) {
			http_head_done(&c->head);
			http_head_init(&c->head, HTTP_RESPONSE);
			continue;
		}
		if (r > 0) {
			c->has_head = true;
			http_decoder_init(&c->decoder, c->head.framing, c->head.length);
			break;
		}
		n = fill(c, /* wait= */ true);
		if (n <= 0)
			return broken(c, n, err);
	}
	*ret_status = c->head.status;
	return 0;
}

const char *http_client_header(const struct http_client *c, const char *name)
{
	return c->has_head ? http_head_find(&c->head, name) : NULL;
}

ssize_t http_client_read(struct http_client *c, void *data, size_t size)
{
	const char *piece;
	size_t len;

	if (!c->has_head || size == 0)
		return -EINVAL;
	for (;;) {
		/* Shows the decoder only as much as the caller has room for. */
		struct buf window = c->in;
		ssize_t n;
		int r;

		window.len = MIN(c->in.len, size);
		r = http_decode(&c->decoder, &window, &piece, &len);
		if (r < 0)
			return r;
		if (r == HTTP_DECODE_DATA) {
			memcpy(data, piece, len);
			buf_consume(&c->in, (size_t)(piece + len - c->in.data));
			return (ssize_t)len;
		}
		buf_consume(&c->in, MIN(c->in.len, size) - window.len);
		if (r == HTTP_DECODE_END)
			return 0;
		if (c->in.len > 0)
			continue;
		n = fill(c, /* wait= */ true);
		if (n == 0)
			return http_decode_eof(&c->decoder);
		if (n < 0)
			return n;
	}
}

int http_client_read_all(struct http_client *c, struct buf *out)
{
	for (;;) {
		char *room;
		size_t size = MIN(buf_room(out), PIECE);
		char byte;
		ssize_t n;
		int r;

		if (size == 0) {
			n = http_client_read(c, &byte, 1);
			return n > 0 ? -E2BIG : (int)n;
		}
		r = buf_reserve(out, size, &room);
		if (r < 0)
			return r;
		n = http_client_read(c, room, size);
		if (n <= 0)
			return (int)n;
		buf_commit(out, (size_t)n);
	}
}

static int check_accepted(const struct http_client *c, const char *key, struct err *err)
{
	const char *upgrade = http_client_header(c, "Upgrade");
	const char *accept = http_client_header(c, "Sec-WebSocket-Accept");
	char wanted[WS_ACCEPT_SIZE];

	ws_accept_key(key, wanted);
	if (!c->head.is_upgrade || strcasecmp(upgrade, "websocket") != 0 || !accept ||
	    strcmp(accept, wanted) != 0)
		return unheard(err, "%s speaks no WebSocket", c->server.url);
	return 0;
}

int http_client_ws_open(struct http_client *c, const char *path, const struct http_field *fields,
                        size_t n_fields, int *ret_status, struct err *err)
{
	unsigned char nonce[16];
	char key[base64_size(sizeof(nonce))];
	const struct http_field own[] = {{"Connection", "Upgrade"},
	                                 {"Upgrade", "websocket"},
	                                 {"Sec-WebSocket-Version", "13"},
	                                 {"Sec-WebSocket-Key", key}};
	auto_free struct http_field *all = xnew0n(struct http_field, n_fields + ARRAY_SIZE(own));
	struct http_send send = {.method = "GET", .path = path, .fields = all};
	int r;

	*ret_status = 0;
	random_bytes(nonce, sizeof(nonce));
	(void)base64_encode(nonce, sizeof(nonce), key);
	memcpy(all, own, sizeof(own));
	if (n_fields > 0)
		memcpy(all + ARRAY_SIZE(own), fields, n_fields * sizeof(*fields));
	send.n_fields = n_fields + ARRAY_SIZE(own);
	r = http_client_send(c, &send, err);
	if (r == 0)
		r = http_client_head(c, ret_status, err);
	if (r < 0)
		return r;
	if (c->head.status != 101)
		return unheard(err, "%s answered %d instead of 101", c->server.url, c->head.status);
	r = check_accepted(c, key, err);
	if (r < 0)
		return r;
	ws_codec_done(&c->ws);
	ws_codec_init(&c->ws, /* is_server= */ false);
	c->is_ws = true;
	c->has_sent_close = c->has_got_close = false;
	return 0;
}

int http_client_ws_send(struct http_client *c, enum ws_opcode op, const void *data, size_t len)
{
	unsigned char mask[4];
	int r;

	if (!c->is_ws || c->has_sent_close)
		return -EPIPE;
	random_bytes(mask, sizeof(mask));
	r = ws_encode(&c->out, op, data, len, mask);
	return r < 0 ? r : drain(c, /* hear= */ false);
}

int http_client_ws_close(struct http_client *c, unsigned code, const char *reason)
{
	char data[126]; /* a control frame's 125 and a NUL */
	size_t len = MIN(reason ? strlen(reason) : 0, sizeof(data) - 3);
	int r;

	if (c->has_sent_close)
		return 0;
	data[0] = (char)(code >> 8);
	data[1] = (char)code;
	(void)snprintf(data + 2, len + 1, "%s", reason ? reason : "");
	r = http_client_ws_send(c, WS_CLOSE, data, len + 2);
	c->has_sent_close = true;
	return r;
}

int http_client_ws_recv(struct http_client *c, bool wait, enum ws_opcode *op, const char **data,
                        size_t *len)
{
	if (!c->is_ws)
		return -EINVAL;
	while (!c->has_got_close) {
		int r = ws_decode(&c->ws, &c->in, op, data, len);
		ssize_t n;

		if (r < 0)
			return r;
		if (r == 0) {
			n = fill(c, wait);
			if (n <= 0)
				return n == 0 ? -EPROTO : (int)n;
		} else if (*op == WS_TEXT || *op == WS_BINARY) {
			return 1;
		} else if (*op == WS_PING && !c->has_sent_close) {
			r = http_client_ws_send(c, WS_PONG, *data, *len);
			if (r < 0)
				return r;
		} else if (*op == WS_CLOSE) {
			c->has_got_close = true;
			/* a courtesy: the server is on its way out and may not take it */
			r = http_client_ws_close(c, 1000, NULL);
			if (r < 0)
				return 0;
		}
	}
	return 0;
}
