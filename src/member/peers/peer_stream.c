// SPDX-License-Identifier: Apache-2.0
#include "member/peers/peer_stream.h"

#include "base/buf.h"
#include "base/fd.h"
#include "base/units.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#define BUFFER_MAX ((size_t)64 * 1024) /* a direction */
#define ROUNDS_MAX 16                  /* in a turn */

struct half { /* one direction */
	struct buf bytes;
	bool has_ended; /* its source */
	bool is_told;   /* its sink has been told so */
};

struct peer_stream {
	struct loop *loop;
	struct transport peer;
	int fd; /* our end of the pair; -1 before */
	struct loop_io *peer_io, *own_io;
	struct loop_timer *timer; /* of the handshake */
	const struct peer_stream_ops *ops;
	void *arg;
	struct half in, out; /* from the peer, to the peer */
	bool is_ready, is_gone, is_peer_hung, is_own_hung;
};

static void on_free(struct loop *loop, void *arg)
{
	struct peer_stream *s = arg;

	(void)loop;
	buf_done(&s->in.bytes);
	buf_done(&s->out.bytes);
	free(s);
}

void peer_stream_cut(struct peer_stream *s, const char *why)
{
	if (s->is_gone)
		return;
	s->is_gone = true;
	s->ops->gone(s, why, s->arg);
	loop_io_removep(&s->peer_io);
	loop_io_removep(&s->own_io);
	loop_timer_free(take_ptr(s->timer));
	if (s->in.is_told && s->out.is_told)
		transport_close(&s->peer);
	else
		transport_reset(&s->peer); /* never a proper end that was none */
	close_fd(&s->fd);
	loop_defer(s->loop, on_free, s);
}

static void on_peer(struct loop *loop, uint32_t events, void *arg);
static void on_own(struct loop *loop, uint32_t events, void *arg);

/* epoll tells of a hang-up without end, whatever is asked for: then a side that is waited for by
 * nobody is not watched. */
static bool watch_side(struct peer_stream *s, struct loop_io **io, int fd, loop_io_fn fn,
                       uint32_t events, bool is_hung)
{
	if (is_hung && events == 0)
		loop_io_removep(io);
	else if (*io)
		loop_io_set(*io, events);
	else
		return loop_io_add(s->loop, fd, events, fn, s, io) == 0;
	return true;
}

static void watch(struct peer_stream *s)
{
	uint32_t peer = 0, own = 0;

	if (!s->in.has_ended && s->in.bytes.len == 0)
		peer |= s->peer.read_wants;
	if (s->out.bytes.len > 0)
		peer |= s->peer.write_wants;
	if (!s->out.has_ended && s->out.bytes.len == 0)
		own |= EPOLLIN;
	if (s->in.bytes.len > 0)
		own |= EPOLLOUT;
	if (!watch_side(s, &s->peer_io, s->peer.fd, on_peer, peer, s->is_peer_hung) ||
	    !watch_side(s, &s->own_io, s->fd, on_own, own, s->is_own_hung))
		peer_stream_cut(s, "");
}

/* Each returns bytes moved, 0 if nothing can move now, or what ends the stream. */
static ssize_t read_peer(struct peer_stream *s)
{
	char *room;
	ssize_t n;

	if (s->in.has_ended || s->in.bytes.len > 0)
		return 0;
	if (buf_reserve(&s->in.bytes, BUFFER_MAX, &room) < 0)
		return -ENOBUFS;
	n = transport_read(&s->peer, room, BUFFER_MAX);
	if (n == 0)
		s->in.has_ended = true;
	if (n > 0)
		buf_commit(&s->in.bytes, (size_t)n);
	if (n <= 0)
		buf_done(&s->in.bytes); /* it may be silent for long */
	return n == -EAGAIN ? 0 : n;
}

static ssize_t write_own(struct peer_stream *s)
{
	ssize_t n;

	if (s->in.bytes.len == 0) {
		if (s->in.has_ended && !s->in.is_told) {
			s->in.is_told = true;
			(void)shutdown(s->fd, SHUT_WR);
		}
		return 0;
	}
	n = send(s->fd, s->in.bytes.data, s->in.bytes.len, MSG_NOSIGNAL | MSG_DONTWAIT);
	if (n < 0)
		return errno == EAGAIN || errno == EINTR ? 0 : -errno;
	buf_consume(&s->in.bytes, (size_t)n);
	return n;
}

static ssize_t read_own(struct peer_stream *s)
{
	char *room;
	ssize_t n;

	if (s->out.has_ended || s->out.bytes.len > 0)
		return 0;
	if (buf_reserve(&s->out.bytes, BUFFER_MAX, &room) < 0)
		return -ENOBUFS;
	n = recv(s->fd, room, BUFFER_MAX, MSG_DONTWAIT);
	if (n == 0)
		s->out.has_ended = true;
	if (n > 0)
		buf_commit(&s->out.bytes, (size_t)n);
	else
		buf_done(&s->out.bytes);
	if (n < 0)
		return errno == EAGAIN || errno == EINTR ? 0 : -errno;
	return n;
}

static ssize_t write_peer(struct peer_stream *s)
{
	ssize_t n;

	if (s->out.bytes.len == 0) {
		if (s->out.has_ended && !s->out.is_told) {
			s->out.is_told = true;
			transport_shutdown(&s->peer);
		}
		return 0;
	}
	n = transport_write(&s->peer, s->out.bytes.data, s->out.bytes.len);
	if (n < 0)
		return n == -EAGAIN ? 0 : n;
	buf_consume(&s->out.bytes, (size_t)n);
	return n;
}

static void pump(struct peer_stream *s)
{
	static ssize_t (*const steps[])(struct peer_stream *) = {read_peer, write_own, read_own,
	                                                         write_peer};
	bool has_moved = true;

	for (unsigned round = 0; has_moved && round < ROUNDS_MAX; round++) {
		has_moved = false;
		for (size_t i = 0; i < ARRAY_SIZE(steps); i++) {
			ssize_t n = steps[i](s);

			if (n < 0) {
				peer_stream_cut(s, "");
				return;
			}
			has_moved |= n > 0;
		}
	}
	if (s->in.is_told && s->out.is_told) {
		peer_stream_cut(s, "");
		return;
	}
	watch(s);
	if (s->peer_io && (has_moved || (transport_has_pending(&s->peer) && s->in.bytes.len == 0)))
		loop_io_again(s->peer_io);
}

static void on_own(struct loop *loop, uint32_t events, void *arg)
{
	struct peer_stream *s = arg;

	(void)loop;
	s->is_own_hung |= (events & (EPOLLHUP | EPOLLERR)) != 0;
	/* The gateway has closed its end: nobody takes what still comes. */
	if (s->is_own_hung && s->out.has_ended && s->out.bytes.len == 0)
		peer_stream_cut(s, "");
	else
		pump(s);
}

static void shake(struct peer_stream *s)
{
	char why[120];
	int r = transport_handshake(&s->peer);

	if (r == -EAGAIN) {
		loop_io_set(s->peer_io, s->peer.write_wants);
		return;
	}
	if (r < 0) {
		peer_tls_why(&s->peer, why, sizeof(why));
		peer_stream_cut(s, why[0] ? why : strerror(-r));
		return;
	}
	s->is_ready = true;
	loop_timer_free(take_ptr(s->timer));
	s->ops->ready(s, s->arg);
}

static void on_peer(struct loop *loop, uint32_t events, void *arg)
{
	struct peer_stream *s = arg;

	(void)loop;
	s->is_peer_hung |= (events & (EPOLLHUP | EPOLLERR)) != 0;
	if (!s->is_ready)
		shake(s);
	else if (s->fd >= 0)
		pump(s);
}

static void on_late(struct loop *loop, void *arg)
{
	(void)loop;
	peer_stream_cut(arg, "no answer in time");
}

/* A peer whose machine is gone is found while bytes wait for it, or within a minute. */
static void tune(int fd)
{
	static const struct {
		int level, option, value;
	} rows[] = {
		{IPPROTO_TCP, TCP_NODELAY, 1},   {IPPROTO_TCP, TCP_USER_TIMEOUT, 10000},
		{SOL_SOCKET, SO_KEEPALIVE, 1},   {IPPROTO_TCP, TCP_KEEPIDLE, 10},
		{IPPROTO_TCP, TCP_KEEPINTVL, 5}, {IPPROTO_TCP, TCP_KEEPCNT, 3},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		(void)setsockopt(fd, rows[i].level, rows[i].option, &rows[i].value,
		                 sizeof(rows[i].value));
}

struct peer_stream *peer_stream_new(struct loop *loop, struct peer_tls *tls, int fd, bool is_server,
                                    uint64_t handshake_us, const struct peer_stream_ops *ops,
                                    void *arg)
{
	struct peer_stream *s = xnew0(struct peer_stream);

	*s = (struct peer_stream){.loop = loop, .fd = -1, .ops = ops, .arg = arg};
	transport_init(&s->peer, fd);
	buf_init(&s->in.bytes, BUFFER_MAX);
	buf_init(&s->out.bytes, BUFFER_MAX);
	tune(fd);
	if (peer_tls_start(tls, &s->peer, is_server) < 0 ||
	    loop_io_add(loop, fd, is_server ? EPOLLIN : EPOLLOUT, on_peer, s, &s->peer_io) < 0) {
		transport_close(&s->peer);
		free(s);
		return NULL;
	}
	s->timer = loop_timer_new(loop, on_late, s);
	loop_timer_set_in(s->timer, handshake_us);
	return s;
}

const struct transport *peer_stream_transport(const struct peer_stream *s)
{
	return &s->peer;
}

bool peer_stream_is_ready(const struct peer_stream *s)
{
	return s->is_ready;
}

int peer_stream_take(struct peer_stream *s)
{
	int pair[2];
	int r;

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) < 0)
		return -errno;
	r = loop_io_add(s->loop, pair[0], EPOLLIN, on_own, s, &s->own_io);
	if (r < 0) {
		(void)close(pair[0]);
		(void)close(pair[1]);
		return r;
	}
	s->fd = pair[0];
	watch(s);
	loop_io_again(s->peer_io); /* bytes may have come with the handshake */
	return pair[1];
}
