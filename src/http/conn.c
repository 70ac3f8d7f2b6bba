// SPDX-License-Identifier: Apache-2.0
/*
 * The pump moves one connection as far as it can without waiting. It flushes and takes a step by
 * the state, and repeats this until nothing moves; then it tells epoll and the timer what it waits
 * for. At most IN_MAX unused bytes of a client are held. When a handler pauses a body, reading
 * stops and TCP makes the client wait.
 *
 * A client that hangs up has not taken back what it sent. Where a tunnel wants that
 * (http_tunnel_outlasts_client()), the connection stays until all of it was read and taken, also if
 * the client's end was a reset: the kernel keeps what had come before it. It costs what a client
 * costs that stays, and no longer than left_us without a step.
 *
 * A handler that waits for room is called from an EPOLLOUT event only, never from the pump that its
 * own write started: else a fast client would keep the loop in one turn as long as there is data. A
 * connection also uses EPOLLOUT to be called next turn for bytes that TLS has already read from the
 * socket.
 */
#include "http/conn.h"

#include "base/parse.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#define IN_MAX               ((size_t)64 * 1024)
#define READ_SIZE            ((size_t)16 * 1024)
#define OUT_MAX              ((size_t)64 * 1024 * 1024) /* one reply that a handler sends in one piece */
#define LINGERS              15 /* times linger_us, for a client that goes on sending */
#define TLS_HANDSHAKE_RECORD 22 /* RFC 8446, ContentType */

static void conn_free(struct loop *loop, void *arg)
{
	struct conn *c = arg;

	(void)loop;
	request_free(c->req);
	buf_done(&c->in);
	buf_done(&c->out);
	free(c);
}

void conn_cut(struct conn *c)
{
	if (c->state == CONN_DEAD)
		return;
	conn_move(c, CONN_DEAD);
	loop_io_removep(&c->io);
	loop_timer_free(take_ptr(c->timer));
	/* In the middle of a reply the client must see an error: without chunks it could take a
	 * plain end of the connection for the end of the body. */
	if (c->req && c->req->reply != REPLY_NONE)
		transport_reset(&c->transport);
	else
		transport_close(&c->transport);
	list_remove(&c->link);
	list_remove(&c->held_link);
	server_conn_gone(c->server, c);
	if (c->req)
		request_end(c->req, /* whole= */ false);
	loop_defer(c->loop, conn_free, c);
}

static uint64_t read_deadline_us(const struct conn *c)
{
	const struct http_limits *limits = http_server_limits(c->server);

	switch (c->state) {
	case CONN_IDLE:
		return c->since_us + (c->has_served ? limits->keep_alive_us : limits->head_us);
	case CONN_HEAD:
		return c->since_us + limits->head_us;
	case CONN_REQUEST:
		return conn_wants_read(c) && !c->req->may_body_rest
		               ? c->last_read_us + limits->body_idle_us
		               : UINT64_MAX;
	case CONN_DRAIN:
		return c->since_us + limits->linger_us;
	case CONN_LINGER: /* who still sends has not read the reply yet, and a reset takes it away
	                   */
		return MIN(MAX(c->since_us, c->last_read_us) + limits->linger_us,
		           c->since_us + LINGERS * limits->linger_us);
	case CONN_UPGRADED: /* like a body that may rest: TCP's keepalive finds a dead peer */
		if ((c->has_left || c->ignores_hangup) && !conn_wants_read(c))
			return c->last_read_us + limits->left_us;
		break;
	case CONN_CLOSING:
	case CONN_DEAD:
	case CONN_STATE_COUNT:
		break;
	}
	return UINT64_MAX;
}

static uint64_t write_deadline_us(const struct conn *c)
{
	if (c->out.len == 0 || c->held_for > 0)
		return UINT64_MAX;
	return c->last_write_us + http_server_limits(c->server)->write_idle_us;
}

/* Tells epoll and the timer what the connection waits for. */
static void await(struct conn *c)
{
	uint32_t events = 0;

	if (conn_wants_read(c))
		events |= c->transport.read_wants;
	if (c->out.len > 0 && c->held_for == 0)
		events |= c->transport.write_wants;
	if (c->awaits_drain && c->out.len < HTTP_HIGH_WATER / 2)
		events |= EPOLLOUT;
	if (conn_wants_read(c) && transport_has_pending(&c->transport))
		events |= EPOLLOUT;
	if (!c->ignores_hangup)
		events |= EPOLLRDHUP;
	if (c->has_left && !conn_wants_read(c))
		events = 0; /* whatever is asked for, epoll tells of a hang-up without end */
	loop_io_set(c->io, events);
	if (c->has_left && c->awaits_drain)
		loop_io_again(c->io);
	loop_timer_set(c->timer, MIN(read_deadline_us(c), write_deadline_us(c)));
}

static int flush(struct conn *c)
{
	if (c->out.len >= HTTP_HIGH_WATER / 2)
		c->awaits_drain = true;
	if (c->has_left)
		buf_done(&c->out);
	while (c->out.len > 0 && c->held_for == 0) {
		ssize_t n = transport_write(&c->transport, c->out.data, c->out.len);

		if (n == -EAGAIN)
			return 0;
		if (n < 0)
			return (int)n;
		c->last_write_us = loop_now_us(c->loop);
		buf_consume(&c->out, (size_t)n);
	}
	return 0;
}

/*
 * The client is gone, and takes nothing. If there may be something of it that is still to be taken,
 * only output is dropped. A reply that is held back has not begun for the client, so it ends.
 */
static bool outlasts_client(struct conn *c)
{
	if (c->state != CONN_UPGRADED || !c->req->outlasts_client || c->held_for > 0 ||
	    c->req->reply == REPLY_ENDED)
		return false;
	if (!c->has_left)
		c->last_read_us = loop_now_us(c->loop);
	c->has_left = c->ignores_hangup = true;
	return flush(c) == 0;
}

static void pump(struct conn *c)
{
	do {
		if (c->state == CONN_DEAD)
			return;
		if (c->is_aborted || (flush(c) < 0 && !outlasts_client(c))) {
			conn_cut(c);
			return;
		}
	} while (conn_step(c));
	if (c->state != CONN_DEAD)
		await(c);
}

static void on_kick(struct loop *loop, void *arg)
{
	struct conn *c = arg;

	(void)loop;
	c->is_kicked = false;
	pump(c);
}

void conn_kick(struct conn *c)
{
	if (c->is_kicked || c->state == CONN_DEAD)
		return;
	c->is_kicked = true;
	loop_defer(c->loop, on_kick, c);
}

void conn_release(struct conn *c, const struct err *err)
{
	c->held_for = 0;
	c->last_write_us = loop_now_us(c->loop);
	list_remove(&c->held_link);
	if (err)
		reply_replace(c->req, err);
	conn_kick(c);
}

/*
 * Where TLS is offered and not asked for. A client that wants it begins with a handshake record,
 * and no method of HTTP begins with that byte. Nothing is taken from the socket for it.
 */
static int answer_offer(struct conn *c)
{
	struct tls_context *tls = c->offered_tls;
	uint8_t first;
	ssize_t n;

	do
		n = recv(c->transport.fd, &first, 1, MSG_PEEK | MSG_DONTWAIT);
	while (n < 0 && errno == EINTR);
	if (n <= 0)
		return n == 0 ? -EPIPE : -errno;
	c->offered_tls = NULL;
	return first == TLS_HANDSHAKE_RECORD ? transport_start_tls(&c->transport, tls, NULL, NULL)
	                                     : 0;
}

/* Returns 0, or what ended the connection. An end after some bytes is seen again at the next
 * read. */
static int read_some(struct conn *c)
{
	size_t before = c->in.len;
	int offer = c->offered_tls ? answer_offer(c) : 0;

	if (offer < 0)
		return offer == -EAGAIN ? 0 : offer;
	while (buf_room(&c->in) > 0) {
		size_t size = MIN(buf_room(&c->in), READ_SIZE);
		char *room;
		ssize_t n;
		int r = buf_reserve(&c->in, size, &room);

		if (r < 0)
			return r;
		n = transport_read(&c->transport, room, size);
		if (n == -EAGAIN || (n <= 0 && c->in.len > before))
			return 0;
		if (n <= 0)
			return n == 0 ? -EPIPE : (int)n;
		buf_commit(&c->in, (size_t)n);
		c->last_read_us = loop_now_us(c->loop);
		if ((size_t)n < size && !c->transport.ssl)
			return 0;
	}
	return 0;
}

/*
 * The client has shut its end while we do not read. If no bytes are left to read, we take it as
 * gone, since a close() looks the same. If bytes are left, it pipelined, and its end is handled
 * later. So it is for a tunnel that outlasts its client, which may have bytes in its own hands.
 */
static bool has_hung_up(struct conn *c)
{
	char byte;

	c->last_read_us = loop_now_us(c->loop);
	if (c->state != CONN_CLOSING && !(c->state == CONN_UPGRADED && c->req->outlasts_client)) {
		if (c->transport.ssl)
			return true;
		if (c->in.len == 0 && recv(c->transport.fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) <= 0)
			return true;
	}
	c->ignores_hangup = true;
	return false;
}

static void tell_drained(struct conn *c)
{
	if (!c->awaits_drain || c->out.len >= HTTP_HIGH_WATER / 2 || !c->req)
		return;
	c->awaits_drain = false;
	if (c->state == CONN_UPGRADED)
		c->req->upgrade->on_drain(c->req);
	else if (c->req->on_drain && c->req->reply == REPLY_STARTED)
		c->req->on_drain(c->req->on_drain_arg);
}

static void conn_on_io(struct loop *loop, uint32_t events, void *arg)
{
	struct conn *c = arg;
	int r = 0;

	(void)loop;
	if (conn_wants_read(c))
		r = read_some(c);
	else if ((events & (EPOLLHUP | EPOLLERR)) || ((events & EPOLLRDHUP) && has_hung_up(c)))
		r = outlasts_client(c) ? 0 : -EPIPE;
	if (r < 0) {
		conn_cut(c);
		return;
	}
	if (((events & EPOLLOUT) || c->has_left) && flush(c) == 0)
		tell_drained(c);
	pump(c);
}

static void conn_on_timer(struct loop *loop, void *arg)
{
	struct conn *c = arg;
	struct err err = {0};
	bool is_read = read_deadline_us(c) <= loop_now_us(loop);

	if (!is_read || (c->state != CONN_HEAD && c->state != CONN_REQUEST)) {
		conn_cut(c);
		return;
	}
	(void)err_set(&err, ERR_REQUEST_TIMEOUT, 0, "the request did not come in time");
	if (c->state == CONN_HEAD)
		conn_move(c, CONN_REQUEST);
	conn_refuse(c, &err);
	pump(c);
}

struct buf *conn_out(struct conn *c)
{
	if (c->out.len == 0)
		c->last_write_us = loop_now_us(c->loop);
	conn_kick(c);
	return &c->out;
}

void conn_refuse(struct conn *c, const struct err *err)
{
	request_done(c->req, /* whole= */ false);
	c->req->takes_body = false;
	http_decoder_init(&c->decoder, HTTP_NO_BODY, 0);
	if (c->req->reply == REPLY_NONE)
		reply_err_and_close(c->req, err);
	else
		c->is_aborted = true;
	conn_kick(c);
}

void conn_take_body(struct conn *c)
{
	static const char go_on[] = "HTTP/1.1 100 Continue\r\n\r\n";

	c->req->takes_body = true;
	c->last_read_us = loop_now_us(c->loop);
	if (c->req->head.expects_continue && c->req->reply == REPLY_NONE && c->in.len == 0 &&
	    !http_decoder_is_done(&c->decoder) &&
	    buf_append(conn_out(c), go_on, sizeof(go_on) - 1) < 0)
		c->is_aborted = true;
	c->req->head.expects_continue = false;
	conn_kick(c);
}

static uid_t peer_uid(int fd)
{
	struct ucred cred;
	socklen_t len = sizeof(cred);

	return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len) < 0 ? (uid_t)-1 : cred.uid;
}

/* IPv6 clients own whole networks, so the upper half of the address identifies one. */
static void look_at_peer(struct conn *c, int fd)
{
	union {
		struct sockaddr any;
		struct sockaddr_in v4;
		struct sockaddr_in6 v6;
	} peer = {0};
	socklen_t len = sizeof(peer);

	if (getpeername(fd, &peer.any, &len) < 0)
		return;
	if (peer.any.sa_family == AF_INET) {
		c->peer_network = ntohl(peer.v4.sin_addr.s_addr);
		(void)inet_ntop(AF_INET, &peer.v4.sin_addr, c->peer, sizeof(c->peer));
	} else if (peer.any.sa_family == AF_INET6) {
		memcpy(&c->peer_network, &peer.v6.sin6_addr, sizeof(c->peer_network));
		(void)inet_ntop(AF_INET6, &peer.v6.sin6_addr, c->peer, sizeof(c->peer));
	}
}

static void look_at_user(struct conn *c, int fd)
{
	c->peer_uid = peer_uid(fd);
	(void)snprintf(c->peer, sizeof(c->peer), "unix:%u", c->peer_uid);
}

/* A peer is believed about its client's address, so that is bounded and read like any other. */
void conn_take_client(struct conn *c, const char *text)
{
	struct in_addr v4;
	struct in6_addr v6;
	uint64_t uid;

	c->peer_network = 0;
	(void)snprintf(c->peer, sizeof(c->peer), "node:%u", c->hop_from);
	if (!text || strlen(text) >= sizeof(c->peer))
		return;
	if (inet_pton(AF_INET, text, &v4) == 1)
		c->peer_network = ntohl(v4.s_addr);
	else if (inet_pton(AF_INET6, text, &v6) == 1)
		memcpy(&c->peer_network, &v6, sizeof(c->peer_network));
	else if (strncmp(text, "unix:", 5) != 0 || parse_u64(text + 5, UINT32_MAX, &uid) < 0)
		return;
	(void)snprintf(c->peer, sizeof(c->peer), "%s", text);
}

static int start(struct http_server *server, struct loop *loop, int fd, bool is_unix,
                 struct tls_context *tls, bool is_tls_optional, uint32_t hop_from, struct err *err)
{
	struct conn *c = xnew0(struct conn);
	int r = 0;

	*c = (struct conn){
		.server = server, .loop = loop, .is_unix = is_unix, .hop_from = hop_from};
	c->peer_uid = (uid_t)-1;
	if (hop_from)
		conn_take_client(c, NULL);
	else if (is_unix)
		look_at_user(c, fd);
	else
		look_at_peer(c, fd);
	c->since_us = loop_now_us(loop);
	transport_init(&c->transport, fd);
	buf_init(&c->in, IN_MAX);
	buf_init(&c->out, OUT_MAX);
	if (is_tls_optional)
		c->offered_tls = tls;
	else if (tls)
		r = transport_start_tls(&c->transport, tls, NULL, err);
	if (r == 0) {
		r = loop_io_add(loop, fd, EPOLLIN | EPOLLRDHUP, conn_on_io, c, &c->io);
		if (r < 0)
			(void)err_set(err, ERR_INTERNAL, -r, "cannot watch a connection");
	}
	if (r < 0) {
		transport_close(&c->transport);
		free(c);
		return r;
	}
	loop_io_set_share(c->io, server_app(server)->share);
	c->timer = loop_timer_new(loop, conn_on_timer, c);
	list_init(&c->link);
	list_init(&c->idle_link);
	list_init(&c->held_link);
	server_conn_added(server, c);
	server_conn_idle(server, c);
	await(c);
	return 0;
}

int conn_new(struct http_server *server, struct loop *loop, int fd, bool is_unix,
             struct tls_context *tls, bool is_tls_optional, struct err *err)
{
	return start(server, loop, fd, is_unix, tls, is_tls_optional, /* hop_from= */ 0, err);
}

int conn_new_hop(struct http_server *server, struct loop *loop, int fd, uint32_t from,
                 struct err *err)
{
	return start(server, loop, fd, /* is_unix= */ false, NULL, /* is_tls_optional= */ false,
	             from, err);
}
