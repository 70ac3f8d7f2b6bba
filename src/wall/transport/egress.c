// SPDX-License-Identifier: Apache-2.0
/*
 *	SOCKS5	greet --> [log in -->] ask --> told
 *	HTTP	CONNECT --> told
 *
 * All messages are made at the start, one for each step of the handshake. For SOCKS exactly as many
 * bytes are read as the next answer must have; for HTTP the head is peeked at in the socket before
 * it is read.
 */
#include "wall/transport/egress.h"

#include "base/buf.h"
#include "http/parse.h"

#include <arpa/inet.h>
#include <openssl/evp.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#define PATIENCE_US UINT64_C(10000000)
#define TEXT_MAX    ((size_t)2048)
#define HEAD_MAX    ((size_t)8192)
#define HEAD_END    "\r\n\r\n"

enum { SOCKS = 5, LOGIN = 1, BY_V4 = 1, BY_NAME = 3, BY_V6 = 4, NO_LOGIN = 0, BY_PASSWORD = 2 };

enum turn { GREETING, LOGGING_IN, ASKING, CONNECTING };

struct egress {
	struct egress_want want;
	struct loop_io *io;
	struct loop_timer *timer;
	enum turn turn;
	struct buf out, in;
	struct buf login, ask; /* what follows the greeting; login is empty: there is none */
};

static void on_free(struct loop *loop, void *arg)
{
	(void)loop;
	free(arg);
}

void egress_cancel(struct egress *e)
{
	if (!e)
		return;
	loop_io_removep(&e->io);
	loop_timer_free(e->timer);
	if (e->want.fd >= 0)
		(void)close(e->want.fd);
	if (e->login.len > 0) /* has the password */
		explicit_bzero(e->login.data, e->login.len);
	if (e->out.len > 0)
		explicit_bzero(e->out.data, e->out.len);
	buf_done(&e->out);
	buf_done(&e->in);
	buf_done(&e->login);
	buf_done(&e->ask);
	loop_defer(e->want.loop, on_free, e);
}

static void finish(struct egress *e, bool is_open)
{
	struct egress_want want = e->want;

	if (is_open)
		e->want.fd = -1;
	egress_cancel(e);
	want.done(is_open ? want.fd : -1, want.arg);
}

static void on_too_late(struct loop *loop, void *arg)
{
	(void)loop;
	finish(arg, false);
}

static int put_byte(struct buf *b, unsigned byte)
{
	const uint8_t one = (uint8_t)byte;

	return buf_append(b, &one, 1);
}

static int put_counted(struct buf *b, const char *text)
{
	int r = put_byte(b, (unsigned)strlen(text));

	return r == 0 ? buf_append_str(b, text) : r;
}

static int write_login(struct egress *e, const struct policy_target *proxy)
{
	int r;

	if (!proxy->username)
		return 0;
	r = put_byte(&e->login, LOGIN);
	if (r == 0)
		r = put_counted(&e->login, proxy->username);
	return r == 0 ? put_counted(&e->login, proxy->password ? proxy->password : "") : r;
}

static int write_ask(struct egress *e, const struct host *host, uint16_t port)
{
	const uint16_t at = htons(port);
	unsigned kind = host->is_name ? BY_NAME : host->address.bits == 32 ? BY_V4 : BY_V6;
	const uint8_t head[] = {SOCKS, /* connect */ 1, 0, (uint8_t)kind};
	int r = buf_append(&e->ask, head, sizeof(head));

	if (r == 0 && host->is_name)
		r = put_counted(&e->ask, host->name.text);
	else if (r == 0)
		r = buf_append(&e->ask, host->address.bytes, host->address.bits / 8);
	return r == 0 ? buf_append(&e->ask, &at, sizeof(at)) : r;
}

static int write_socks(struct egress *e, const struct egress_want *want)
{
	const uint8_t plain[] = {SOCKS, 1, NO_LOGIN}, either[] = {SOCKS, 2, NO_LOGIN, BY_PASSWORD};
	bool has_login = want->proxy->username != NULL;
	int r = buf_append(&e->out, has_login ? either : plain,
	                   has_login ? sizeof(either) : sizeof(plain));

	e->turn = GREETING;
	if (r == 0)
		r = write_login(e, want->proxy);
	return r == 0 ? write_ask(e, want->host, want->port) : r;
}

static int write_authorization(struct buf *out, const struct policy_target *proxy)
{
	unsigned char encoded[4 * TEXT_MAX / 3];
	char text[TEXT_MAX / 2];
	int len, r;

	if (!proxy->username)
		return 0;
	len = snprintf(text, sizeof(text), "%s:%s", proxy->username,
	               proxy->password ? proxy->password : "");
	(void)EVP_EncodeBlock(encoded, (const unsigned char *)text, len);
	r = buf_printf(out, "Proxy-Authorization: Basic %s\r\n", (const char *)encoded);
	explicit_bzero(text, sizeof(text));
	explicit_bzero(encoded, sizeof(encoded));
	return r;
}

static int write_connect(struct egress *e, const struct egress_want *want)
{
	char host[HOST_SIZE];
	int r;

	e->turn = CONNECTING;
	host_format(want->host, host);
	r = buf_printf(&e->out, "CONNECT %s:%u HTTP/1.1\r\nHost: %s:%u\r\n", host, want->port, host,
	               want->port);
	if (r == 0)
		r = write_authorization(&e->out, want->proxy);
	return r == 0 ? buf_append_str(&e->out, "\r\n") : r;
}

/* How many bytes the answer of this step has, as far as is known. */
static size_t answer_size(const struct egress *e)
{
	const uint8_t *in = (const uint8_t *)e->in.data;

	if (e->turn != ASKING)
		return 2;
	if (e->in.len < 5)
		return 5;
	switch (in[3]) {
	case BY_V4:
		return 4 + 4 + 2;
	case BY_V6:
		return 4 + 16 + 2;
	case BY_NAME:
		return 4 + 1 + in[4] + 2U;
	default:
		return 0; /* nobody knows */
	}
}

/* Returns 1 if the connection is open, 0 if the handshake goes on, < 0 if it is refused. */
static int on_answer(struct egress *e)
{
	const uint8_t *in = (const uint8_t *)e->in.data;
	bool wants_login = e->turn == GREETING && in[1] == BY_PASSWORD;
	int r;

	if (in[0] != (e->turn == LOGGING_IN ? LOGIN : SOCKS) || (in[1] != 0 && !wants_login) ||
	    (wants_login && e->login.len == 0))
		return -EACCES;
	if (e->turn == ASKING)
		return 1;
	r = wants_login ? buf_append(&e->out, e->login.data, e->login.len)
	                : buf_append(&e->out, e->ask.data, e->ask.len);
	e->turn = wants_login ? LOGGING_IN : ASKING;
	buf_done(&e->in);
	return r;
}

static int read_socks(struct egress *e)
{
	size_t size = answer_size(e);
	char *room;
	ssize_t n;

	if (size == 0 || buf_reserve(&e->in, size - e->in.len, &room) < 0)
		return -EPROTO;
	n = recv(e->want.fd, room, size - e->in.len, 0);
	if (n < 0)
		return errno == EAGAIN || errno == EINTR ? 0 : -errno;
	if (n == 0)
		return -ECONNRESET;
	buf_commit(&e->in, (size_t)n);
	return e->in.len == answer_size(e) ? on_answer(e) : 0;
}

/* How many of the waiting bytes belong to the head. */
static size_t find_head_end(const struct buf *in, size_t before)
{
	size_t from = before > 3 ? before - 3 : 0;
	const char *end = memmem(in->data + from, in->len - from, HEAD_END, strlen(HEAD_END));

	return end ? (size_t)(end - in->data) + strlen(HEAD_END) : 0;
}

static int on_head(struct egress *e)
{
	struct http_head head;
	struct err err;
	int r;

	http_head_init(&head, HTTP_RESPONSE);
	head.is_head_reply = true; /* none that lets through has a body */
	r = http_head_read(&head, &e->in, &err);
	if (r == 1)
		r = head.status / 100 == 2 ? 1 : -EACCES;
	else
		r = -EPROTO;
	http_head_done(&head);
	return r;
}

static int read_connect(struct egress *e)
{
	size_t before = e->in.len, size = MIN(buf_room(&e->in), (size_t)2048), end;
	char *room;
	ssize_t n;

	if (size == 0 || buf_reserve(&e->in, size, &room) < 0)
		return -EPROTO;
	n = recv(e->want.fd, room, size, MSG_PEEK);
	if (n < 0)
		return errno == EAGAIN || errno == EINTR ? 0 : -errno;
	if (n == 0)
		return -ECONNRESET;
	buf_commit(&e->in, (size_t)n);
	end = find_head_end(&e->in, before);
	if (end > 0)
		buf_truncate(&e->in, end);
	if (recv(e->want.fd, e->in.data + before, e->in.len - before, 0) !=
	    (ssize_t)(e->in.len - before))
		return -EPROTO;
	return end > 0 ? on_head(e) : 0;
}

static int write_out(struct egress *e)
{
	ssize_t n;

	if (e->out.len == 0)
		return 0;
	n = send(e->want.fd, e->out.data, e->out.len, MSG_NOSIGNAL);
	if (n < 0)
		return errno == EAGAIN || errno == EINTR ? 0 : -errno;
	buf_consume(&e->out, (size_t)n);
	return 0;
}

static void on_io(struct loop *loop, uint32_t events, void *arg)
{
	struct egress *e = arg;
	int r = 0;

	(void)loop;
	if (events & (EPOLLIN | EPOLLHUP | EPOLLERR))
		r = e->turn == CONNECTING ? read_connect(e) : read_socks(e);
	if (r == 0)
		r = write_out(e);
	if (r != 0)
		finish(e, r > 0);
	else
		loop_io_set(e->io, e->out.len > 0 ? EPOLLIN | EPOLLOUT : EPOLLIN);
}

struct egress *egress_start(const struct egress_want *want)
{
	struct egress *e = xnew0(struct egress);
	bool is_socks = want->proxy->url.scheme == URL_SOCKS5;
	int r;

	e->want = *want;
	buf_init(&e->out, TEXT_MAX);
	buf_init(&e->in, HEAD_MAX);
	buf_init(&e->login, TEXT_MAX);
	buf_init(&e->ask, TEXT_MAX);
	e->timer = loop_timer_new(want->loop, on_too_late, e);
	loop_timer_set_in(e->timer, PATIENCE_US);
	r = is_socks ? write_socks(e, want) : write_connect(e, want);
	e->want.proxy = NULL;
	e->want.host = NULL;
	if (r == 0)
		r = loop_io_add(want->loop, want->fd, EPOLLIN | EPOLLOUT, on_io, e, &e->io);
	if (r == 0)
		return e;
	egress_cancel(e);
	return NULL;
}
